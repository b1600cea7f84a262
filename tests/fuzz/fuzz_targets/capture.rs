#![no_main]
#[path = "../targets.rs"]
#[expect(dead_code, reason = "one target of several")]
mod targets;

libfuzzer_sys::fuzz_target!(
    init: {
        // Panics that the reader contains are none of its own. The fuzzer ends at the first, unless
        // its hook goes; what is not contained it still sees.
        std::panic::set_hook(Box::new(|info| {
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            if !place.contains("/registry/src/") {
                eprintln!("{info}");
            }
        }));
    },
    |data: &[u8]| -> () { targets::captures(data) }
);

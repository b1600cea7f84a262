#![no_main]
#[path = "../targets.rs"]
#[expect(dead_code, reason = "one target of several")]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::codings(data));

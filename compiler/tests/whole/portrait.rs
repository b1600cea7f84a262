//! What `profile` shows of captures and of the set that is all of them.

use crate::fixture::{Talk, compiled, hold, write};
use truetape_compiler::profile::{ProfileOptions, portrait};

fn options() -> ProfileOptions {
    ProfileOptions {
        capacities_blocks: Vec::new(),
        windows_s: Vec::new(),
        block_tokens: None,
        threads: 2,
    }
}

#[test]
fn a_capture_and_the_set_that_is_all_of_it_look_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let talk = |at: i64| Talk {
        name: format!("t{at}"),
        start_us: at * 3_000_000,
        turns: 1 + at as usize % 3,
        keyed: true,
    };
    let mut rows: Vec<_> = (0..9).flat_map(|at| hold(&talk(at))).collect();
    rows[0].finish_reasons = Some(vec!["stop".to_owned()]);
    let total = rows.len() as u64;
    let capture = dir.path().join("c");
    write(&capture.join("0.parquet"), &rows);
    let store = dir.path().join("store");
    let all = "name = \"chat\"\n[select]\nmethod = \"all\"";
    compiled(std::slice::from_ref(&capture), all, &store);

    let of = |reference: &str| portrait(&[reference.to_owned()], Some(&store), &options()).unwrap();
    let (source, set) = (of(&capture.to_string_lossy()), of("chat"));
    assert_eq!(
        (source.profile.turns, source.mix.models["stub"]),
        (total, total)
    );
    assert_eq!(source.mix.finish_reasons["stop"], 1);
    assert_eq!(source.mix.finish_reasons["unknown"], total - 1);
    assert_eq!(source.mix.statuses["200"], total);
    assert_eq!(source.mix.upstreams["127.0.0.1:1"], total);
    assert_eq!((&source.mix, &source.shape), (&set.mix, &set.shape));
    assert_eq!(source.profile, set.profile);
    assert_eq!(source.shape.arrivals.iter().sum::<u64>(), total);
}

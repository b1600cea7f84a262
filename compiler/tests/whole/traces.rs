//! Traces become captures and sets, and come back.

use crate::fixture::{compiled, contents, imported, turns};
use std::collections::BTreeMap;
use truetape_compiler::cli::PartialBlocks;
use truetape_compiler::export;
use truetape_compiler::import::format::{TraceFormat, detect};
use truetape_fidelity::blocks::{BlockKey, of_tokens};
use truetape_fidelity::tokens::{count, render_completion};
use truetape_schemas::blame::{Blame, Blamed as _};

#[test]
fn one_field_name_two_units() {
    let mooncake = "{\"timestamp\":0,\"input_length\":600,\"output_length\":5,\"hash_ids\":[0,1]}\n\
        {\"timestamp\":1000,\"input_length\":300,\"output_length\":6,\"hash_ids\":[2]}\n\
        {\"timestamp\":2500,\"input_length\":1100,\"output_length\":7,\"hash_ids\":[0,3,4]}";
    let bailian = r#"{"chat_id":1,"parent_chat_id":-1,"timestamp":0.0,"input_length":33,"output_length":5,"type":"text","turn":1,"hash_ids":[1,2,3]}
{"chat_id":2,"parent_chat_id":-1,"timestamp":1.0,"input_length":16,"output_length":6,"type":"text","turn":1,"hash_ids":[9]}
{"chat_id":3,"parent_chat_id":1,"timestamp":2.5,"input_length":60,"output_length":7,"type":"text","turn":2,"hash_ids":[1,2,4,5]}"#;
    for (format, text, block) in [
        (TraceFormat::Mooncake, mooncake, 512),
        (TraceFormat::Bailian, bailian, 16),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (_, rows) = imported(format, text, dir.path());
        let offsets: Vec<i64> = rows.iter().map(|row| row.arrival).collect();
        assert_eq!(offsets, [0, 1_000_000, 2_500_000]);
        assert!(rows.iter().all(|row| row.block_tokens == Some(block)));
    }
    let dir = tempfile::tempdir().unwrap();
    imported(TraceFormat::Bailian, bailian, dir.path());
    let set = compiled(
        &[dir.path().join("capture")],
        "[select]\nmethod = \"all\"",
        dir.path(),
    );
    let turns = turns(&set);
    let sessions: Vec<&str> = turns.iter().map(|turn| turn.session.as_str()).collect();
    assert_eq!(sessions, ["chat-1", "chat-2", "chat-1"]);
    assert_eq!(
        (turns[2].turn, turns[2].parent, turns[2].gap_us),
        (2, Some(0), None)
    );
    let file = dir.path().join("trace.jsonl");
    assert_eq!(
        detect(std::slice::from_ref(&file)).unwrap(),
        TraceFormat::Bailian
    );
    std::fs::write(&file, mooncake).unwrap();
    let refused = detect(&[file]).unwrap_err();
    assert_eq!(refused.blame(), Blame::Usage);
    assert!(refused.to_string().contains("say mooncake"), "{refused}");
}

#[test]
fn lines_that_cannot_be_used_are_counted_and_ids_keep_their_64_bits() {
    let text = r#"{"timestamp":0,"input_length":512,"output_length":4,"hash_ids":[1]}
{"timestamp":100,"input_length":513,"output_length":4,"hash_ids":[1,2]}
{"timestamp":400,"input_length":20,"output_length":4,"hash_ids":[1,2]}
{"timestamp":500,"input_length":513,"output_length":4,"hash_ids":[7]}
{"timestamp":600,"input_length":100,"output_length":4,"hash_ids":[5]}
{"timestamp":700,"input_length":100,"output_length":4,"hash_ids":[4294967301]}
{"timestamp":800,"input_length":100,"output_length":4,"hash_ids":[18446744073709551615]}
{"timestamp":900,"input_length":100,"output_length":4,"hash_ids":[5]}
not a line
"#;
    let dir = tempfile::tempdir().unwrap();
    let (imported, rows) = imported(TraceFormat::Mooncake, text, dir.path());
    let bad: Vec<u64> = imported.bad.iter().map(|bad| bad.line).collect();
    assert_eq!(bad, [3, 4, 9]);
    assert!(imported.ledger.balances());
    assert_eq!((imported.ledger.offered, imported.ledger.recorded), (9, 6));
    assert_eq!(imported.ledger.excluded["blocks_disagree"], 2);
    let ids: Vec<u64> = rows
        .iter()
        .skip(2)
        .map(|row| row.block_hashes.as_ref().unwrap()[0])
        .collect();
    assert_eq!(ids, [5, (1 << 32) + 5, u64::MAX, 5]);
    let set = compiled(
        &[dir.path().join("capture")],
        "[select]\nmethod = \"all\"",
        dir.path(),
    );
    let prompts: Vec<_> = turns(&set)
        .into_iter()
        .skip(2)
        .map(|turn| turn.content)
        .collect();
    assert_eq!(prompts[0], prompts[3]);
    assert_ne!(prompts[0], prompts[1]);
}

#[test]
fn bursts_stay_bursts_and_the_coarse_clock_is_named() {
    // Mooncake's clock: steps of 2999, 3000 and 3001 ms.
    let groups: Vec<(i64, i64)> = (0..60)
        .map(|step| {
            (
                step * 3_000 + [0, -1, 0, 1][step as usize % 4],
                2 + step % 4,
            )
        })
        .collect();
    let lines = groups.iter().flat_map(|(ms, n)| {
        (0..*n).map(move |i| {
            format!(
                "{{\"timestamp\":{ms},\"input_length\":{},\"output_length\":3}}\n",
                100 + i
            )
        })
    });
    let dir = tempfile::tempdir().unwrap();
    let (trace, _) = imported(
        TraceFormat::Mooncake,
        &lines.collect::<String>(),
        dir.path(),
    );
    assert_eq!(trace.clock_resolution_us, Some(3_000_000));
    let set = compiled(
        &[dir.path().join("capture")],
        "[select]\nmethod = \"all\"",
        dir.path(),
    );
    let turns = turns(&set);
    let mut bursts: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for turn in &turns {
        bursts
            .entry(turn.start_us / 1_000)
            .or_default()
            .push(turn.input_tokens.unwrap());
    }
    let wanted = groups.iter().map(|(ms, n)| (*ms, (100..100 + n).collect()));
    assert_eq!(
        bursts,
        wanted.collect::<BTreeMap<_, _>>(),
        "the order inside a burst is the file's"
    );
    assert_eq!(set.manifest.semantics.clock_resolution_us, Some(3_000_000));
}

#[test]
fn lengths_of_a_session_include_the_history() {
    let text = r#"{"session_id":"s","timestamp":0,"input_length":100,"output_length":20,"input_is":"cumulative"}
{"session_id":"s","timestamp":5000,"input_length":150,"output_length":30,"input_is":"cumulative"}
{"session_id":"s","timestamp":9000,"input_length":210,"output_length":10,"input_is":"cumulative"}"#;
    let dir = tempfile::tempdir().unwrap();
    let (imported, _) = imported(TraceFormat::Mooncake, text, dir.path());
    assert!(
        imported.losses.iter().any(|loss| loss.contains("input_is")),
        "{:?}",
        imported.losses
    );
    let set = compiled(
        &[dir.path().join("capture")],
        "[select]\nmethod = \"all\"",
        dir.path(),
    );
    let contents = contents(&set);
    let prompt = |ids: &[String]| -> String {
        ids.iter()
            .map(|id| std::str::from_utf8(&contents[id].body).unwrap())
            .collect()
    };
    let prompts: Vec<String> = turns(&set)
        .iter()
        .map(|turn| prompt(&turn.content))
        .collect();
    let lengths: Vec<u64> = prompts
        .iter()
        .map(|text| count(&render_completion(text)))
        .collect();
    assert_eq!(lengths, [100, 150, 210]);
    assert!(prompts[1].starts_with(&prompts[0]) && prompts[2].starts_with(&prompts[1]));
    let own: Vec<Option<i64>> = turns(&set)
        .iter()
        .map(|turn| contents[turn.content.last().unwrap()].tokens)
        .collect();
    assert_eq!(
        own,
        [Some(100), Some(30), Some(30)],
        "what is new in each turn"
    );
}

#[test]
fn chained_ids_survive_export_and_import() {
    let prompts: [&[u32]; 4] = [
        &[1, 2, 3, 4, 1, 2, 3, 4, 5],
        &[1, 2, 3, 4, 9, 9, 9, 9],
        &[7, 7, 7, 7, 1, 2, 3, 4],
        &[1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8],
    ];
    let key = BlockKey::new(b"test");
    let ids: Vec<Vec<u64>> = prompts
        .iter()
        .map(|tokens| of_tokens(&key, tokens, 4, true))
        .collect();
    let lines = prompts
        .iter()
        .zip(&ids)
        .enumerate()
        .map(|(at, (tokens, ids))| {
            format!(
                "{{\"timestamp\":{at},\"input_length\":{},\"hash_ids\":{ids:?}}}\n",
                tokens.len()
            )
        });
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.jsonl");
    std::fs::write(&file, lines.collect::<String>()).unwrap();
    let import = |file: &std::path::Path, out: &str| {
        let options = truetape_compiler::import::ImportOptions {
            format: TraceFormat::Mooncake,
            files: vec![file.to_owned()],
            out: dir.path().join(out),
            block_tokens: Some(4),
            start_us: 0,
            strict: true,
        };
        let imported = truetape_compiler::import::import(&options).unwrap();
        let set = compiled(
            &[dir.path().join(out)],
            "[select]\nmethod = \"all\"",
            &dir.path().join("s"),
        );
        (imported, set)
    };
    let (_, set) = import(&file, "one");
    let out = dir.path().join("b.jsonl");
    let exported = export::mooncake(&set.dir, &out, PartialBlocks::Keep).unwrap();
    assert!(
        exported
            .losses
            .iter()
            .any(|loss| loss.contains("4 tokens each"))
    );
    let (_, again) = import(&out, "two");
    let found: Vec<Vec<u64>> = turns(&again)
        .into_iter()
        .map(|turn| turn.block_hashes.unwrap())
        .collect();
    assert_eq!(found, ids);
    export::mooncake(&set.dir, &out, PartialBlocks::Drop).unwrap();
    let text = std::fs::read_to_string(&out).unwrap();
    let full: Vec<usize> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|line| line["hash_ids"].as_array().unwrap().len())
        .collect();
    assert_eq!(full, [2, 2, 2, 3]);
}

#[test]
fn a_directory_holds_one_import() {
    let line = |ms: u32| format!("{{\"timestamp\":{ms},\"input_length\":10}}\n");
    let dir = tempfile::tempdir().unwrap();
    let (first, rows) = imported(TraceFormat::Mooncake, &line(1), dir.path());
    let (again, same) = imported(TraceFormat::Mooncake, &line(1), dir.path());
    assert_eq!((&first.segments, &rows), (&again.segments, &same));
    let other = dir.path().join("other.jsonl");
    std::fs::write(&other, line(2)).unwrap();
    let options = truetape_compiler::import::ImportOptions {
        format: TraceFormat::Mooncake,
        files: vec![other],
        out: dir.path().join("capture"),
        block_tokens: None,
        start_us: 0,
        strict: false,
    };
    let refused = truetape_compiler::import::import(&options).unwrap_err();
    assert_eq!(refused.blame(), Blame::Data);
    assert!(
        refused.to_string().contains("not of this import"),
        "{refused}"
    );
}

#[test]
fn strict_fails_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.jsonl");
    std::fs::write(&file, "{\"timestamp\":1,\"input_length\":10}\nnonsense\n").unwrap();
    let options = truetape_compiler::import::ImportOptions {
        format: TraceFormat::Mooncake,
        files: vec![file],
        out: dir.path().join("out"),
        block_tokens: None,
        start_us: 0,
        strict: true,
    };
    let error = truetape_compiler::import::import(&options).unwrap_err();
    assert_eq!(error.blame(), Blame::Data);
    assert!(error.to_string().contains("line 2"), "{error}");
    assert!(!options.out.try_exists().unwrap());
}

//! The verb `export`: a set in another tool's format, with a list of what that format cannot hold.

use crate::cli::{ExportArgs, ExportFormat, PartialBlocks};
use crate::error::Error;
use crate::source::{Subject, subject};
use crate::talk;
use std::io::Write as _;
use std::path::Path;
use truetape_schemas::blame::Answer;
use truetape_schemas::file::rename_durably;
use truetape_schemas::set::{Turn, TurnKind, store};

/// What an export came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Lines written.
    pub lines: u64,
    /// What the format cannot hold.
    pub losses: Vec<String>,
}

/// Writes a set as Mooncake JSONL: `timestamp` in milliseconds, cumulative `hash_ids`, and
/// `session_id`, which readers that do not know it ignore.
pub fn mooncake(dir: &Path, out: &Path, partial: PartialBlocks) -> Result<Exported, Error> {
    let manifest = store::manifest(dir)?;
    let turns = store::turns(dir)?;
    let aside = out.with_extension("tmp");
    let file = std::fs::File::create(&aside).map_err(|cause| Error::io(&aside, cause))?;
    let mut writer = std::io::BufWriter::new(file);
    let mut exported = Exported::default();
    let mut unknown_input = 0;
    for turn in &turns {
        match line(turn, partial) {
            None => unknown_input += 1,
            Some(line) => {
                writeln!(writer, "{line}").map_err(|cause| Error::io(&aside, cause))?;
                exported.lines += 1;
            }
        }
    }
    let file = writer
        .into_inner()
        .map_err(|cause| Error::io(&aside, cause.into_error()))?;
    file.sync_all().map_err(|cause| Error::io(&aside, cause))?;
    rename_durably(&aside, out)?;
    exported.losses = losses(&turns, unknown_input, manifest.block_tokens, partial);
    Ok(exported)
}

fn line(turn: &Turn, partial: PartialBlocks) -> Option<String> {
    let input = turn.input_tokens?;
    let mut fields = serde_json::Map::new();
    fields.insert("timestamp".to_owned(), milliseconds(turn.start_us));
    fields.insert("input_length".to_owned(), input.into());
    if let Some(output) = turn.output_tokens {
        fields.insert("output_length".to_owned(), output.into());
    }
    if let Some(ids) = &turn.block_hashes {
        let full = match turn.block_tokens {
            Some(block) if block > 0 => usize::try_from(input / i64::from(block)).unwrap_or(0),
            _ => ids.len(),
        };
        let kept = match partial {
            PartialBlocks::Keep => ids.len(),
            PartialBlocks::Drop => full.min(ids.len()),
        };
        fields.insert(
            "hash_ids".to_owned(),
            ids.iter().take(kept).copied().collect(),
        );
    }
    fields.insert("session_id".to_owned(), turn.session.clone().into());
    Some(serde_json::Value::Object(fields).to_string())
}

/// Whole milliseconds are written as integers, as the format has them.
fn milliseconds(us: i64) -> serde_json::Value {
    if us % 1_000 == 0 {
        (us / 1_000).into()
    } else {
        (us as f64 / 1_000.0).into()
    }
}

fn losses(
    turns: &[Turn],
    unknown_input: usize,
    block_tokens: Option<u32>,
    partial: PartialBlocks,
) -> Vec<String> {
    let mut losses = vec![
        "think times, dependencies and forks: every line has its own timestamp".to_owned(),
        "text, models, sampling parameters, recorded latencies and outcomes".to_owned(),
    ];
    let mut lose = |n: usize, what: &str| {
        if n > 0 {
            losses.push(format!("{n} turns: {what}"));
        }
    };
    let count = |what: fn(&Turn) -> bool| turns.iter().filter(|turn| what(turn)).count();
    lose(unknown_input, "left out, their prompt length is unknown");
    lose(
        count(|turn| turn.kind == TurnKind::Retry),
        "retries are ordinary lines",
    );
    lose(
        count(|turn| turn.output_tokens.is_none()),
        "no output_length, it is unknown",
    );
    lose(
        count(|turn| turn.block_hashes.is_none()),
        "no hash_ids, there are none",
    );
    match block_tokens {
        Some(512) | None => {}
        Some(n) => losses.push(format!(
            "the block size: hash_ids cover {n} tokens each, and no field says so; readers assume 512"
        )),
    }
    if partial == PartialBlocks::Drop {
        losses.push("ids of last blocks that are not full".to_owned());
    }
    losses
}

/// Carries out `truetape export`.
pub fn run(args: ExportArgs) -> Result<Answer, Error> {
    let dir = match subject(&args.set, args.store.as_deref())? {
        Subject::Set(dir) => dir,
        Subject::Capture(_) | Subject::Run(_) => {
            return Err(Error::usage(&args.set, "not a set; compile it first"));
        }
    };
    let exported = match args.format {
        ExportFormat::Mooncake => mooncake(&dir, &args.out, args.partial_blocks)?,
    };
    for loss in &exported.losses {
        talk::say(&format!("lost: {loss}"));
    }
    talk::say(&format!(
        "exported {} lines to {}",
        exported.lines,
        args.out.display()
    ));
    Ok(Answer::Yes)
}

//! `targets.json`: prompts of planned lengths, counted as a server with the tokenizer counts them.

use crate::Stop;
use crate::case::Case;
use crate::check::Seen;
use crate::compiled::{self, Set, import, write};
use crate::run_replay::{bodies, settings};
use serde_json::{Value, json};
use truetape_replay::cli::Pacing;
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::tokenizer::Made;

/// Makes prompts of the lengths of a list, as texts and as chats.
pub(crate) fn run(case: &Case) -> Result<Vec<Seen>, Stop> {
    let given = case.json("targets.json")?;
    let targets: Vec<usize> = serde_json::from_value(given["targets"].clone())
        .map_err(|cause| format!("targets.json: {cause}"))?;
    let number = |key: &str| {
        let number = given[key].as_u64().and_then(|n| usize::try_from(n).ok());
        number.ok_or_else(|| format!("targets.json: no {key}"))
    };
    let (begin, around) = (number("adds_bos")?, number("chat_overhead_k")?);
    let dir = TempDir::new(&case.id);
    let made = Made::write(&dir.join("tokenizer"), begin == 1, around);
    imported(&dir, &targets)?;
    let mut seen = Seen::new("", "synthesis");
    let (texts, said) = prompts(&dir, &made, "completions")?;
    let texts: Vec<&str> = texts
        .iter()
        .filter_map(|body| body["prompt"].as_str())
        .collect();
    let counts = texts.iter().map(|text| made.text_tokens(text));
    // The begin token is a fixed one more, and the product must say so.
    let errors = counts
        .zip(&targets)
        .map(|(found, wanted)| found.abs_diff(wanted + begin));
    seen.put("completions_abs_error_max", errors.max());
    require(&mut seen, &said, &format!("the target counts {begin} more"));
    let (chats, said) = prompts(&dir, &made, "chat")?;
    let messages = |body: &Value| body["messages"].as_array().cloned().unwrap_or_default();
    let counted = chats.iter().map(|body| made.chat_tokens(&messages(body)));
    let off: Vec<usize> = counted
        .zip(&targets)
        .filter(|(found, wanted)| found != *wanted)
        .map(|(found, wanted)| {
            if found != around + 1 {
                seen.faults
                    .push(format!("a chat of {found} tokens for {wanted}"));
            }
            *wanted
        })
        .collect();
    require(
        &mut seen,
        &said,
        &format!("{} turns: the prompt is shorter", off.len()),
    );
    seen.put("chat_rows_below_k", off);
    let chatted: Vec<Value> = chats.iter().flat_map(messages).collect();
    let empty = |text: &&str| text.trim().is_empty();
    let contents = chatted
        .iter()
        .filter_map(|message| message["content"].as_str());
    seen.put(
        "empty_prompts",
        texts.iter().copied().chain(contents).filter(empty).count(),
    );
    if (texts.len(), chatted.len()) != (targets.len(), targets.len()) {
        seen.faults
            .push(format!("{} texts and {} chats", texts.len(), chatted.len()));
    }
    Ok(vec![seen])
}

fn imported(dir: &TempDir, targets: &[usize]) -> Result<(), Stop> {
    let line = |(at, tokens): (usize, &usize)| {
        let row = json!({"timestamp": at * 1_000, "input_length": tokens, "output_length": 1});
        format!("{row}\n")
    };
    let trace = dir.join("trace.jsonl");
    write(
        &trace,
        &targets.iter().enumerate().map(line).collect::<String>(),
    );
    let ended = import("mooncake", &[trace], &dir.join("capture"), &[]);
    match ended.code {
        Some(0) => Ok(()),
        code => Err(Stop(format!(
            "import ended with {code:?}: {}",
            ended.stderr
        ))),
    }
}

/// The bodies that a replay would send, in the order of the trace, and what the compile found.
fn prompts(dir: &TempDir, made: &Made, form: &str) -> Result<(Vec<Value>, Vec<String>), Stop> {
    let recipe = format!(
        "name = \"case\"\n[select]\nmethod = \"all\"\n[tokens]\ntokenizer = {:?}\n\
         [content]\nkind = \"synthetic\"\nprompt = \"{form}\"\n",
        made.path
    );
    let set = compiled::compile(&[dir.join("capture")], &dir.join(form), &recipe)
        .map_err(|ended| format!("compile ended with {:?}: {}", ended.code, ended.stderr))?;
    let findings = findings(&set)?;
    Ok((bodies(&set, &settings(Pacing::Hybrid, 1.0, 1.0))?, findings))
}

fn findings(set: &Set) -> Result<Vec<String>, String> {
    let path = set.dir.join("manifest.json");
    let text = std::fs::read_to_string(&path).map_err(|cause| cause.to_string())?;
    let manifest: Value = serde_json::from_str(&text).map_err(|cause| cause.to_string())?;
    Ok(crate::case::strings(manifest.get("findings")))
}

fn require(seen: &mut Seen, findings: &[String], wanted: &str) {
    if !findings.iter().any(|finding| finding.contains(wanted)) {
        seen.faults
            .push(format!("no finding says `{wanted}`: {findings:?}"));
    }
}

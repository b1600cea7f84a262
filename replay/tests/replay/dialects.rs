//! Whole runs in every dialect: what the target received, turn by turn.

use super::support::{Mood, Seen, Server, content, turn, write_set_of};
use super::{Replayed, replay_set};
use serde_json::{Value, json};
use truetape_replay::walk::Halt;
use truetape_schemas::capture::Outcome;
use truetape_schemas::report::Verdict;
use truetape_schemas::set::{Content, ContentKind, Turn};

/// A set in the making.
#[derive(Default)]
struct Story {
    turns: Vec<Turn>,
    contents: Vec<Content>,
}

impl Story {
    fn part(&mut self, kind: ContentKind, body: &str) -> String {
        let part = content(kind, body);
        let id = part.content_id.clone();
        if self.contents.iter().all(|known| known.content_id != id) {
            self.contents.push(part);
        }
        id
    }

    /// Adds a turn of a session that continues `parent` and says these messages.
    fn turn(
        &mut self,
        dialect: &str,
        session: &str,
        parent: Option<i64>,
        says: &[&str],
    ) -> &mut Turn {
        let content = says.iter().map(|text| match dialect {
            "openai_completions" | "sglang_generate" => self.part(ContentKind::Text, text),
            _ => {
                let message = json!({"role": "user", "content": text});
                self.part(ContentKind::Message, &message.to_string())
            }
        });
        let content = content.collect();
        let turn_id = self.turns.len() as i64;
        self.turns.push(Turn {
            turn: parent.map_or(1, |_| 2),
            parent,
            depends_on: parent.into_iter().collect(),
            gap_us: parent.map(|_| 1_000),
            path: path(dialect).to_owned(),
            dialect: dialect.to_owned(),
            content,
            ..turn(turn_id, session, turn_id)
        });
        self.turns.last_mut().unwrap()
    }

    fn template(&mut self, turn: usize, template: Value) {
        let id = self.part(ContentKind::Template, &template.to_string());
        self.turns[turn].template = Some(id);
    }

    async fn replay(self, server: &Server, more: &[&str]) -> Replayed {
        let scratch = tempfile::tempdir().unwrap();
        write_set_of(scratch.path(), &self.turns, self.contents);
        let patient = ["--lateness-p99-max", "1h"];
        let flags: Vec<&str> = patient.iter().chain(more).copied().collect();
        replay_set(scratch, &server.url(), &flags, Halt::default()).await
    }
}

fn path(dialect: &str) -> &'static str {
    match dialect {
        "openai_completions" => "/v1/completions",
        "openai_responses" => "/v1/responses",
        "anthropic_messages" => "/v1/messages",
        "sglang_generate" => "/generate",
        _ => "/v1/chat/completions",
    }
}

/// A root, what continues it, what continues that, and a fork of the root: each says only what is
/// new, and names the answer that production's server gave.
fn chain() -> Story {
    let mut story = Story::default();
    for (said, parent) in [
        ("t0", None),
        ("t1", Some(0)),
        ("t2", Some(1)),
        ("t3", Some(0)),
    ] {
        story.turn("openai_responses", "s", parent, &[said]);
        let mut template = json!({"instructions": "be brief", "store": true});
        if let Some(parent) = parent {
            template["previous_response_id"] = format!("resp_prod_{parent}").into();
        }
        story.template(story.turns.len() - 1, template);
    }
    story
}

/// What the target was asked to continue, by what was said.
fn continued(server: &Server) -> Vec<(String, Option<String>)> {
    let said = |seen: &Seen| {
        let body = &seen.body;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let said = text(&body["input"][0]["content"]).unwrap();
        assert_eq!(body["input"].as_array().map(Vec::len), Some(1), "{body}");
        (said, text(&body["previous_response_id"]))
    };
    let mut all: Vec<_> = server.measured().iter().map(said).collect();
    all.sort();
    all
}

fn owned(pairs: &[(&str, Option<&str>)]) -> Vec<(String, Option<String>)> {
    pairs
        .iter()
        .map(|(said, previous)| ((*said).to_owned(), previous.map(str::to_owned)))
        .collect()
}

fn has_finding(replayed: &Replayed, start: &str) -> bool {
    let findings = replayed.run().findings;
    findings.iter().any(|finding| finding.contains(start))
}

/// Every turn was answered whole, and its lengths are the server's.
fn is_whole(replayed: &Replayed) {
    for row in replayed.rows() {
        assert_eq!(row.outcome, Some(Outcome::Complete), "{row:?}");
        assert_eq!((row.input_tokens, row.output_tokens), (Some(8), Some(1)));
        assert_eq!(row.cached_tokens, Some(0), "{row:?}");
        assert!(
            row.first_token_us.is_some() && row.length_miss.is_none(),
            "{row:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_of_responses_continues_the_answers_of_the_target() {
    let server = Server::start(Mood::Good, 5).await;
    let replayed = chain().replay(&server, &["--salt", "pepper"]).await;
    let expected = [
        ("t0", None),
        ("t1", Some("re-t0")),
        ("t2", Some("re-t1")),
        ("t3", Some("re-t0")),
    ];
    assert_eq!(continued(&server), owned(&expected));
    is_whole(&replayed);
    for seen in server.measured() {
        let body = &seen.body;
        assert_eq!(seen.path(), "/v1/responses");
        assert_eq!(body["instructions"], "be brief");
        assert_eq!(
            (&body["max_output_tokens"], &body["min_tokens"]),
            (&json!(1), &json!(1))
        );
        assert_eq!(
            (&body["ignore_eos"], &body["stream"]),
            (&json!(true), &json!(true))
        );
        assert_eq!(body["cache_salt"], "pepper");
        assert!(body.get("stream_options").is_none() && body.get("messages").is_none());
        assert!(
            !String::from_utf8_lossy(&seen.bytes).contains("resp_prod"),
            "{body}"
        );
    }
    assert!(!has_finding(&replayed, "history:"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_whose_turn_failed_goes_on_without_its_answer_or_not_at_all() {
    let flags = ["--error-rate-max", "1"];
    let server = Server::start(Mood::FailingOn("t1"), 5).await;
    let replayed = chain().replay(&server, &flags).await;
    // What continues the failed turn has no answer to name; its fork does.
    let expected = [
        ("t0", None),
        ("t1", Some("re-t0")),
        ("t2", None),
        ("t3", Some("re-t0")),
    ];
    assert_eq!(continued(&server), owned(&expected));
    assert!(has_finding(
        &replayed,
        "history: 1 turns continue an answer that the target did not give"
    ));
    assert_eq!(replayed.run().account.failed["error"], 1);

    let server = Server::start(Mood::FailingOn("t1"), 5).await;
    let flags = [&flags[..], &["--on-failed-turn", "skip"]].concat();
    let replayed = chain().replay(&server, &flags).await;
    let expected = [("t0", None), ("t1", Some("re-t0")), ("t3", Some("re-t0"))];
    assert_eq!(continued(&server), owned(&expected));
    let account = replayed.run().account;
    assert!(account.balances());
    assert_eq!(
        (account.answered, account.not_sent["dependency_failed"]),
        (2, 1)
    );
    assert!(!has_finding(&replayed, "history:"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_whose_beginning_is_not_in_the_set_is_told() {
    let server = Server::start(Mood::Good, 0).await;
    let mut story = Story::default();
    story.turn("openai_responses", "s", None, &["t5"]);
    story.template(0, json!({"previous_response_id": "resp_prod_4"}));
    let replayed = story.replay(&server, &[]).await;
    assert_eq!(continued(&server), owned(&[("t5", None)]));
    assert!(has_finding(
        &replayed,
        "1 of 1 turns: continue an answer that is not in the set"
    ));
}

/// A conversation of two turns, with its history.
fn conversation(dialect: &str) -> Story {
    let mut story = Story::default();
    story.turn(dialect, "s", None, &["one "]);
    story.turn(dialect, "s", Some(0), &["one ", "two"]);
    story
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn anthropic_messages_are_sent_as_they_were_and_without_a_salt() {
    let server = Server::start(Mood::Caching { honours_salt: true }, 0).await;
    let mut story = conversation("anthropic_messages");
    for turn in 0..2 {
        let template = json!({"system": "be brief", "max_tokens": 99, "stop_sequences": ["x"]});
        story.template(turn, template);
    }
    let replayed = story.replay(&server, &[]).await;
    is_whole(&replayed);
    let seen = server.measured();
    let said = |seen: &Seen| seen.body["messages"].as_array().map(Vec::len);
    assert_eq!(
        seen.iter().map(said).collect::<Vec<_>>(),
        [Some(1), Some(2)]
    );
    for seen in &seen {
        assert_eq!(seen.path(), "/v1/messages");
        assert_eq!(
            seen.header("anthropic-version").as_deref(),
            Some("2023-06-01")
        );
        assert_eq!(
            (&seen.body["max_tokens"], &seen.body["system"]),
            (&json!(1), &json!("be brief"))
        );
        assert_eq!(seen.body["stop_sequences"], json!(["x"]));
        for absent in [
            "cache_salt",
            "extra_key",
            "ignore_eos",
            "min_tokens",
            "stream_options",
        ] {
            assert!(seen.body.get(absent).is_none(), "{absent}: {}", seen.body);
        }
    }
    assert!(replayed.rows().iter().all(|row| row.enforcement == "cap"));
    // Nothing was salted, so that no cold start is claimed.
    let run = replayed.run();
    assert_eq!(
        (&run.flags["cache"], &run.flags["cache_asked"]),
        (&json!("as-is"), &json!("salted"))
    );
    assert_eq!(
        (&run.flags["cache_verified"], &run.flags["salt"]),
        (&Value::Null, &Value::Null)
    );
    assert!(has_finding(
        &replayed,
        "cache: 2 of 2 turns: anthropic_messages has no field for a salt"
    ));
    assert!(!has_finding(&replayed, "ignores cache_salt"));
    assert_eq!(isolation(&replayed), Verdict::Unknown);
}

fn isolation(replayed: &Replayed) -> Verdict {
    let report = &replayed.result.as_ref().unwrap().report;
    let found = report
        .dimensions
        .iter()
        .find(|found| found.id == "run.isolation.cache");
    found.unwrap().verdict
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_salt_that_some_turns_cannot_carry_isolates_the_others_only() {
    for (with_anthropic, verified, verdict) in [
        (false, "honoured", Verdict::Pass),
        (true, "partly", Verdict::Unknown),
    ] {
        let server = Server::start(Mood::Caching { honours_salt: true }, 0).await;
        let mut story = Story::default();
        if with_anthropic {
            // It comes first: what the target takes is asked in a dialect that can say it.
            story.turn("anthropic_messages", "a", None, &["one"]);
        }
        story.turn("openai_chat", "b", None, &["two"]);
        let replayed = story.replay(&server, &["--salt", "pepper"]).await;
        let run = replayed.run();
        assert_eq!(run.flags["cache"], "salted");
        assert_eq!(run.flags["cache_verified"], verified);
        assert_eq!(isolation(&replayed), verdict);
        assert_eq!(
            has_finding(&replayed, "cache: 1 of 2 turns: anthropic_messages"),
            with_anthropic
        );
        for seen in server.measured() {
            let salted = seen.path() != "/v1/messages";
            assert_eq!(
                seen.body.get("cache_salt").is_some(),
                salted,
                "{}",
                seen.body
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sglang_is_asked_in_its_own_words() {
    let server = Server::start(Mood::Caching { honours_salt: true }, 0).await;
    let mut story = conversation("sglang_generate");
    let params = json!({"temperature": 0.5, "max_new_tokens": 99, "stop": "x"});
    story.template(
        1,
        json!({"sampling_params": params, "return_logprob": false}),
    );
    let replayed = story.replay(&server, &["--salt", "pepper"]).await;
    is_whole(&replayed);
    let seen = server.measured();
    let said: Vec<&Value> = seen.iter().map(|seen| &seen.body["text"]).collect();
    assert_eq!(said, ["one ", "one two"]);
    for seen in &seen {
        assert_eq!(
            (seen.path(), &seen.body["extra_key"]),
            ("/generate", &json!("pepper"))
        );
        let params = &seen.body["sampling_params"];
        assert_eq!(params["max_new_tokens"], 1);
        assert_eq!(
            (&params["min_new_tokens"], &params["ignore_eos"]),
            (&json!(1), &json!(true))
        );
        assert!(params.get("stop").is_none() && seen.body.get("max_tokens").is_none());
    }
    assert_eq!(seen[1].body["sampling_params"]["temperature"], 0.5);
    assert_eq!(seen[1].body["return_logprob"], false);
    assert_eq!(replayed.run().flags["cache_verified"], "honoured");
    assert_eq!(isolation(&replayed), Verdict::Pass);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_of_all_dialects_is_one_run() {
    let server = Server::start(Mood::Good, 0).await;
    let dialects = [
        "openai_chat",
        "openai_completions",
        "openai_responses",
        "anthropic_messages",
        "sglang_generate",
    ];
    let mut story = Story::default();
    for dialect in dialects {
        story.turn(dialect, dialect, None, &["hello"]);
    }
    let replayed = story.replay(&server, &[]).await;
    is_whole(&replayed);
    let asked: Vec<String> = server
        .measured()
        .iter()
        .map(|seen| seen.path().to_owned())
        .collect();
    let mut expected: Vec<&str> = dialects.map(path).to_vec();
    let mut asked: Vec<&str> = asked.iter().map(String::as_str).collect();
    expected.sort_unstable();
    asked.sort_unstable();
    assert_eq!(asked, expected);
    assert!(replayed.run().account.balances());
}

//! `truetape probe`: what a target is and does, before anything is measured on it.
//!
//! A known series of prompts is sent: one prompt twice under one salt, and once under another. What the
//! server says of its cache decides; where it says nothing, its counters do; where it has none, the
//! time to the first token may; else nobody knows.

use crate::cli::{Format, ProbeArgs};
use crate::client::{Client, Reuse, Target};
use crate::error::Error;
use crate::probe_target::{self, Probed, Sample, Takes, question};
use crate::{host, report, settings};
use serde::Serialize;
use truetape_schemas::blame::Answer;
use truetape_schemas::report::Verdict;
use truetape_schemas::run::Engine;
use truetape_schemas::wire::Dialect;
use truetape_schemas::wire::session::{PROBE_HEADER, RUN_HEADER};

mod judge;
mod series;

pub use judge::{Caching, caching, lengths, salting, usage};

/// Inference endpoints, in the order in which they are tried.
const ENDPOINTS: [(&str, Dialect); 3] = [
    ("/v1/chat/completions", Dialect::OpenaiChat),
    ("/v1/completions", Dialect::OpenaiCompletions),
    ("/generate", Dialect::SglangGenerate),
];

/// Tokens of the question that finds out whether a length is kept: a model that may end by itself says
/// less than this to a greeting.
const LENGTH_TOKENS: i64 = 128;

/// What a target is and does.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// Where it is.
    pub target: String,
    /// The worst verdict of the checks that count (`--require`).
    pub verdict: Verdict,
    /// What it said it is.
    pub engine: Engine,
    /// Tokens of prompt and answer at most, by model.
    pub context_tokens: Vec<(String, i64)>,
    /// The endpoint that was asked.
    pub path: String,
    /// What was found.
    pub checks: Vec<Check>,
    /// Things a user should know.
    pub findings: Vec<String>,
}

/// One thing that was found out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its name, as `--require` takes it.
    pub name: &'static str,
    /// Whether the target does it.
    pub verdict: Verdict,
    /// The evidence.
    pub found: String,
    /// What it means for a replay; none where it is as it should be.
    pub so: Option<&'static str>,
}

/// Probes a target, and prints what was found.
pub fn run(args: ProbeArgs) -> Result<Answer, Error> {
    let runtime = host::runtime(&mut tokio::runtime::Builder::new_current_thread())?;
    let found = runtime.block_on(Box::pin(probe(&args)))?;
    report::print(&drawn(args.format, &found)?)?;
    Ok(report::answer(found.verdict, args.fail_on))
}

/// Probes a target.
pub async fn probe(args: &ProbeArgs) -> Result<Found, Error> {
    let id = truetape_schemas::ids::new_exchange_id();
    let mut headers = settings::headers_with(args.api_key_env.as_deref())?;
    if let Ok(value) = http::HeaderValue::try_from(id.as_str()) {
        headers.insert(RUN_HEADER, value.clone());
        headers.insert(PROBE_HEADER, value);
    }
    let trust = settings::trust(&args.connection)?;
    let target = Target::resolve(&args.target)?;
    let http = args.connection.http.into();
    let client = Client::open(target, &trust, http, Reuse::Pool)?;
    let probed = probe_target::identify(&client, &headers).await?;
    let model = args.model.as_ref().or(probed.engine.models.first());
    let model = model.map(String::as_str);
    let (path, dialect) = endpoint(&client, &headers, model).await?;
    let sample = Sample {
        path,
        dialect,
        model,
        salt: &id,
        text: "ping",
        tokens: 1,
    };
    let wanted = Takes {
        lengths: true,
        salt: true,
    };
    let takes = probe_target::takes(&client, &headers, &sample, wanted).await?;
    let long = Sample {
        tokens: LENGTH_TOKENS,
        ..sample
    };
    let answer = client
        .send(&question(&client, &headers, &long, takes))
        .await;
    let seen = series::ask(&client, &headers, &sample, takes, &id).await;
    let caching = caching(&seen, probed.engine.prefix_caching);
    let checks = vec![
        caching.check(),
        salting(&seen, takes.salt, caching.verdict),
        lengths(&answer.facts, takes.lengths, LENGTH_TOKENS),
        usage(&answer.facts),
    ];
    Ok(found(args, probed, path, checks))
}

fn found(args: &ProbeArgs, probed: Probed, path: &str, checks: Vec<Check>) -> Found {
    let required = checks
        .iter()
        .filter(|check| args.require.iter().any(|name| name.name() == check.name));
    let verdict = required.map(|check| check.verdict).max();
    Found {
        target: args.target.clone(),
        verdict: verdict.unwrap_or(Verdict::Unknown),
        engine: probed.engine,
        context_tokens: probed.context_tokens,
        path: path.to_owned(),
        checks,
        findings: probed.findings,
    }
}

/// The first endpoint that is there.
async fn endpoint(
    client: &Client,
    headers: &http::HeaderMap,
    model: Option<&str>,
) -> Result<(&'static str, Dialect), Error> {
    let mut statuses = Vec::new();
    for (path, dialect) in ENDPOINTS {
        let sample = Sample {
            path,
            dialect,
            model,
            salt: "",
            text: "ping",
            tokens: 1,
        };
        let nothing = Takes {
            lengths: false,
            salt: false,
        };
        let asked = question(client, headers, &sample, nothing);
        let answer = client.fetch(&asked).await;
        match answer {
            Ok(answer) if matches!(answer.status, 404 | 405 | 501) => {
                statuses.push(format!("{path} {}", answer.status));
            }
            Ok(_) => return Ok((path, dialect)),
            Err(failure) => return Err(probe_target::unreachable(client, &failure)),
        }
    }
    Err(Error::Target {
        target: client.target().url.clone(),
        problem: format!("it answers no inference request: {}", statuses.join(", ")),
        hint: "name another URL".to_owned(),
    })
}

fn drawn(format: Format, found: &Found) -> Result<String, Error> {
    if format == Format::Json {
        let json = serde_json::to_string_pretty(found).map_err(|cause| Error::Bug {
            subject: "probe".to_owned(),
            problem: cause.to_string(),
        })?;
        return Ok(json + "\n");
    }
    let unknown = || "unknown".to_owned();
    let engine = &found.engine;
    let word = |word: &Option<String>| word.clone().unwrap_or_else(unknown);
    let count = |count: Option<i64>| count.map_or_else(unknown, |count| count.to_string());
    let contexts = found.context_tokens.iter().map(|(_, tokens)| *tokens);
    let mut lines = vec![
        format!(
            "engine {}, version {}, server {}",
            word(&engine.name),
            word(&engine.version),
            word(&engine.server)
        ),
        format!(
            "models {}; context {} tokens",
            engine.models.join(", "),
            count(contexts.min())
        ),
        format!(
            "prefix cache: blocks of {} tokens, {} tokens in all",
            count(engine.block_tokens),
            count(engine.kv_tokens)
        ),
        format!("asked {}", found.path),
    ];
    for check in &found.checks {
        let so = check.so.map(|so| format!("; {so}")).unwrap_or_default();
        let verdict = check.verdict.name();
        lines.push(format!(
            "{verdict:<8} {:<8} {}{so}",
            check.name, check.found
        ));
    }
    lines.extend(
        found
            .findings
            .iter()
            .map(|finding| format!("finding  {finding}")),
    );
    lines.push(format!("{}: {}", found.verdict.name(), found.target));
    Ok(lines.join("\n") + "\n")
}

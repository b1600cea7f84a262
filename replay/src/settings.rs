//! What was typed becomes what it means, or one good error.

use crate::arrivals::{Course, Placing, RateMode};
use crate::cli::{Cache, ConnectionArgs, History, OnFailedTurn, Pacing, ReplayArgs, word};
use crate::client::{Target, Trust};
use crate::error::Error;
use crate::knee::Slo;
use crate::load::Loaded;
use crate::pace::SPIN_MAX;
use crate::plan::Settings;
use crate::scrape::Source;
use crate::shard::Shard;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use truetape_schemas::time::format_utc;

/// The client's name in `user-agent`.
const AGENT: &str = concat!("truetape/", env!("CARGO_PKG_VERSION"));

/// Closer than this, two short stages cannot be told apart.
const KNEE_PRECISION_MIN: f64 = 0.01;

/// Refuses values that cannot be meant.
pub fn check(args: &ReplayArgs) -> Result<(), Error> {
    let refuse = |flag: &str, problem: String| Err(Error::config(flag, problem));
    if !args.rate_scale.is_finite() || args.rate_scale <= 0.0 {
        return refuse(
            "--rate-scale",
            format!("{} is not above 0", args.rate_scale),
        );
    }
    if !args.think_scale.is_finite() || args.think_scale < 0.0 {
        return refuse("--think-scale", format!("{} is below 0", args.think_scale));
    }
    if args.schedule.rate_mode == RateMode::Shape && args.rate_scale > 1.0 {
        let problem = format!(
            "{} with --rate-mode shape, which has no more sessions than the set; compile a larger set, or \
             use --rate-mode stress",
            args.rate_scale
        );
        return refuse("--rate-scale", problem);
    }
    if args.schedule.find_knee.is_some() && args.schedule.rate_mode == RateMode::Shape {
        let problem = "shape with --find-knee, whose rates rise above the set's; use stress";
        return refuse("--rate-mode", problem.to_owned());
    }
    if !(KNEE_PRECISION_MIN..=1.0).contains(&args.schedule.knee_precision) {
        let problem = format!(
            "{} is not in {KNEE_PRECISION_MIN} to 1",
            args.schedule.knee_precision
        );
        return refuse("--knee-precision", problem);
    }
    if args.schedule.on_failed_turn == OnFailedTurn::Skip && args.pacing == Pacing::Open {
        let problem = "skip with --pacing open, where no turn waits for another";
        return refuse("--on-failed-turn", problem.to_owned());
    }
    if args.think_scale != 1.0 && args.pacing != Pacing::Closed {
        let pacing = word(args.pacing);
        return refuse(
            "--think-scale",
            format!(
                "{} with --pacing {pacing}; only closed scales think times",
                args.think_scale
            ),
        );
    }
    if !(0.0..=1.0).contains(&args.error_rate_max) {
        return refuse(
            "--error-rate-max",
            format!("{} is not in 0 to 1", args.error_rate_max),
        );
    }
    if args.max_in_flight == Some(0) {
        return refuse("--max-in-flight", "0 sends nothing; at least 1".to_owned());
    }
    if SPIN_MAX < args.spin {
        return refuse("--spin", format!("{:?} is above {SPIN_MAX:?}", args.spin));
    }
    if args.salt.is_some() && args.cache != Cache::Salted {
        let cache = word(args.cache);
        return refuse(
            "--salt",
            format!("given with --cache {cache}; only salted uses one"),
        );
    }
    if args.history == History::Live {
        let problem = "live is not supported yet; use recorded";
        return refuse("--history", problem.to_owned());
    }
    session_header(args)?;
    Ok(())
}

/// What of the command line shapes the plan. Whether the target takes a salt is known only later.
pub fn plan_settings(args: &ReplayArgs, cache_salt: Option<String>) -> Settings {
    Settings {
        duration_us: args.duration.map(micros),
        placing: Placing {
            arrivals: args.schedule.arrivals,
            seed: args.schedule.arrivals_seed,
            rate_scale: args.rate_scale,
            rate_mode: args.schedule.rate_mode,
            course: args.schedule.course(),
        },
        shard: args.schedule.shard,
        pacing: args.pacing,
        think_scale: args.think_scale,
        output: args.output,
        cache_salt,
        model: args.model.clone(),
        token_budget: args.token_budget,
        needs_content: true,
    }
}

/// A duration in whole microseconds.
pub fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Header fields of every request. Credentials come from the environment, never from the capture.
pub fn headers(args: &ReplayArgs) -> Result<http::HeaderMap, Error> {
    headers_with(args.api_key_env.as_deref())
}

/// The same with a key from this variable.
pub fn headers_with(api_key_env: Option<&str>) -> Result<http::HeaderMap, Error> {
    let mut headers = http::HeaderMap::new();
    let fixed = http::HeaderValue::from_static;
    headers.insert(http::header::CONTENT_TYPE, fixed("application/json"));
    headers.insert(http::header::USER_AGENT, fixed(AGENT));
    let Some(variable) = api_key_env else {
        return Ok(headers);
    };
    let key = std::env::var(variable).map_err(|_| {
        Error::config(
            "--api-key-env",
            format!("{variable} is not set, or not text"),
        )
    })?;
    let mut value = http::HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| {
        Error::config(
            "--api-key-env",
            format!("{variable} holds what a header cannot carry"),
        )
    })?;
    value.set_sensitive(true);
    headers.insert(http::header::AUTHORIZATION, value);
    Ok(headers)
}

/// Whom the target is trusted to be. That it may be anybody has to be said in full.
pub fn trust(connection: &ConnectionArgs) -> Result<Trust, Error> {
    if connection.insecure_any_certificate && connection.ca_file.is_some() {
        let problem = "given with --ca-file; trust its authorities, or anybody";
        return Err(Error::config("--insecure-any-certificate", problem));
    }
    Ok(Trust {
        ca_file: connection.ca_file.clone(),
        anybody: connection.insecure_any_certificate,
    })
}

/// Where the target's counters are read; none when they are not to be. The key of the target is told to
/// nobody else.
pub fn metrics(
    args: &ReplayArgs,
    target: &Target,
    headers: &http::HeaderMap,
) -> Result<Option<Source>, Error> {
    if args.metrics_every.is_zero() {
        return Ok(None);
    }
    let own = format!("{}{}", target.origin(), target.beside("/metrics"));
    let url = args.metrics_url.clone().unwrap_or(own);
    let mut headers = headers.clone();
    if Target::resolve(&url)?.authority != target.authority {
        headers.remove(http::header::AUTHORIZATION);
    }
    Ok(Some(Source {
        url,
        every: Some(args.metrics_every),
        headers,
        trust: trust(&args.connection)?,
    }))
}

/// The header that carries a session.
pub fn session_header(args: &ReplayArgs) -> Result<http::HeaderName, Error> {
    let refuse = |problem: &str| {
        Error::config(
            "--session-header",
            format!("`{}` {problem}", args.session_header),
        )
    };
    let name = args.session_header.parse::<http::HeaderName>();
    let name = name.map_err(|_| refuse("is not a header name"))?;
    if NOT_FOR_SESSIONS.contains(&name) {
        return Err(refuse("has another meaning; name a header of your own"));
    }
    Ok(name)
}

/// Fields that frame a request or hold a credential: a session in their place breaks it.
const NOT_FOR_SESSIONS: [http::HeaderName; 5] = [
    http::header::HOST,
    http::header::CONTENT_LENGTH,
    http::header::TRANSFER_ENCODING,
    http::header::CONNECTION,
    http::header::AUTHORIZATION,
];

/// Refuses targets that were not meant to be loaded.
pub fn allow(args: &ReplayArgs, target: &Target, set: &Loaded) -> Result<(), Error> {
    let refuse = |problem: String| {
        Err(Error::TargetRefused {
            target: target.url.clone(),
            problem,
        })
    };
    let named = args.allow_target.iter().any(|allowed| target.is(allowed));
    if !target.is_loopback() && !named {
        let authority = &target.authority;
        return refuse(format!(
            "not on this machine, and not allowed; to send load there, add --allow-target {authority}"
        ));
    }
    let origin = upstreams(set)
        .into_iter()
        .find(|upstream| target.is(upstream));
    match origin {
        Some(origin) if !args.allow_captured_origin => refuse(format!(
            "the set was captured from {origin}; to replay onto it, add --allow-captured-origin"
        )),
        _ => Ok(()),
    }
}

/// Whether the target is the server that the set was captured from, by resolved addresses; none when
/// the set does not name it.
pub fn is_captured_origin(target: &Target, set: &Loaded) -> Option<bool> {
    let mut upstreams = upstreams(set).into_iter().peekable();
    upstreams.peek()?;
    Some(upstreams.any(|upstream| target.is(upstream)))
}

fn upstreams(set: &Loaded) -> BTreeSet<&str> {
    let named = set.turns.iter().map(|turn| turn.upstream.as_str());
    named.filter(|upstream| !upstream.is_empty()).collect()
}

/// What was found out about a run's isolation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found<'a> {
    /// The salt, where the target takes one.
    pub salt: Option<&'a str>,
    /// Whether the target was seen to honour it.
    pub cache_verified: Option<&'a str>,
    /// Whether the target is the server that the set was captured from.
    pub captured_origin: Option<bool>,
}

/// Every flag that shapes a run, as it was understood, for `run.json`. Without a salt, a target that
/// refused one was not salted, whatever was asked.
pub fn flags(args: &ReplayArgs, found: &Found<'_>) -> BTreeMap<String, Value> {
    let salt = found.salt;
    let time = |duration: Duration| json!(humantime::format_duration(duration).to_string());
    let optional_time = |duration: Option<Duration>| duration.map_or(Value::Null, time);
    let cache = match (args.cache, salt) {
        (Cache::Salted, None) => Cache::AsIs,
        (asked, _) => asked,
    };
    let pairs = [
        ("duration", optional_time(args.duration)),
        ("rate_scale", json!(args.rate_scale)),
        ("rate_mode", json!(word(args.schedule.rate_mode))),
        ("arrivals", json!(args.schedule.arrivals.word())),
        ("arrivals_seed", json!(args.schedule.arrivals_seed)),
        ("ramp", json!(args.schedule.ramp.as_ref().map(Course::word))),
        (
            "steps",
            json!(args.schedule.steps.as_ref().map(Course::word)),
        ),
        ("on_failed_turn", json!(word(args.schedule.on_failed_turn))),
        ("shard", json!(args.schedule.shard.map(Shard::word))),
        (
            "find_knee",
            json!(args.schedule.find_knee.as_ref().map(Slo::word)),
        ),
        ("knee_precision", json!(args.schedule.knee_precision)),
        ("start_at", json!(args.schedule.start_at.map(format_utc))),
        ("pacing", json!(word(args.pacing))),
        ("think_scale", json!(args.think_scale)),
        ("max_in_flight", json!(args.max_in_flight)),
        ("output", json!(word(args.output))),
        ("cache", json!(word(cache))),
        ("cache_asked", json!(word(args.cache))),
        ("cache_verified", json!(found.cache_verified)),
        ("captured_origin", json!(found.captured_origin)),
        ("salt", json!(salt)),
        ("model", json!(args.model)),
        ("session_header", json!(args.session_header)),
        ("allow_target", json!(args.allow_target)),
        ("allow_captured_origin", json!(args.allow_captured_origin)),
        ("token_budget", json!(args.token_budget)),
        ("error_rate_max", json!(args.error_rate_max)),
        ("lateness_p99_max", time(args.lateness_p99_max)),
        ("timeout", optional_time(args.timeout)),
        ("idle_timeout", time(args.idle_timeout)),
        ("connections", json!(word(args.connections))),
        ("grace", time(args.grace)),
        ("spin", time(args.spin)),
        ("warm_connections", json!(args.warm_connections)),
        ("no_probe", json!(args.no_probe)),
        ("http", json!(word(args.connection.http))),
        ("ca_file", json!(args.connection.ca_file)),
        (
            "insecure_any_certificate",
            json!(args.connection.insecure_any_certificate),
        ),
        ("metrics_url", json!(args.metrics_url)),
        ("metrics_every", time(args.metrics_every)),
        ("history", json!(word(args.history))),
        ("fail_on", json!(word(args.fail_on))),
        ("api_key_env", json!(args.api_key_env)),
    ];
    pairs
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

#[cfg(test)]
mod tests;

//! `truetape replay`, from the command line to the exit code.

use crate::breaker::Trip;
use crate::cli::{Cache, FailOn, OnFailedTurn, Output, ReplayArgs};
use crate::client::{Client, Target};
use crate::error::Error;
use crate::host::Host;
use crate::isolation::Salting;
use crate::load::{self, Loaded};
use crate::plan::{self, Plan};
use crate::probe_target::{self, Probed};
use crate::progress::Progress;
use crate::rows::Rows;
use crate::scrape::{self, Scraper};
use crate::walk::{self, Halt, Manner, Walked};
use crate::{arrivals, body, dry_run, knee, misses, report, run_dir, settings, shard, verdict};
use std::path::Path;
use std::sync::Arc;
use truetape_fidelity::grade;
use truetape_fidelity::render::{Evidence, SetSide};
use truetape_schemas::blame::Answer;
use truetape_schemas::report::Report;
use truetape_schemas::run::Run;
use truetape_schemas::run::metrics::Counters;
use truetape_schemas::wire::session::{PROBE_HEADER, RUN_HEADER};

mod asked;
mod connections;

/// Replays a set against a target and writes a run.
pub fn run(args: ReplayArgs) -> Result<Answer, Error> {
    let args = &args;
    settings::check(args)?;
    let mut set = load::load(&args.set, args.store.as_deref())?;
    if args.dry_run {
        let plan = dry_run::plan(args, &mut set)?;
        dry_run::show(args.format, &set, &plan)?;
        return Ok(Answer::Yes);
    }
    if set.is_lengths_only() {
        let problem = "it has lengths and no prompts, which cannot be sent yet; compile it with synthetic content, or look at its plan with --dry-run";
        return Err(Error::Set {
            subject: args.set.clone(),
            problem: problem.to_owned(),
        });
    }
    let Some(out) = &args.out else {
        return Err(Error::config("--out", "missing"));
    };
    if let Some(slo) = &args.schedule.find_knee {
        return knee::run(args, slo, &set, out);
    }
    let host = Host::start()?;
    let replayed = host.replay(args, set, out);
    host.end();
    let replayed = replayed?;
    report::show(args.format, out, &replayed.run, &replayed.report)?;
    replayed.answer(out, args.fail_on)
}

/// A run that did not come to its end, because the user wanted none.
pub(crate) fn interrupted(out: &Path, what: &str) -> Error {
    Error::Stopped {
        path: out.to_owned(),
        problem: format!("it was interrupted, and {what}"),
    }
}

/// A run that is on disk.
#[derive(Debug)]
pub struct Replayed {
    /// What was run.
    pub run: Run,
    /// How far it is from the set.
    pub report: Report,
    /// Why it was stopped, if it was.
    pub stopped: Option<Trip>,
}

impl Replayed {
    /// What the run answers; an error when it cannot be trusted to answer anything.
    pub fn answer(&self, out: &Path, fail_on: FailOn) -> Result<Answer, Error> {
        verdict::end(out, &self.run, self.stopped.as_ref())?;
        Ok(report::answer(self.report.verdict, fail_on))
    }
}

/// Replays a set and writes the run. It prints nothing but progress and looks at no signals: whoever
/// calls it decides when to halt and what to show.
pub async fn replay(
    args: &ReplayArgs,
    mut set: Loaded,
    out: &Path,
    halt: Halt,
) -> Result<Replayed, Error> {
    let run_id = shard::own_run_id(&args.schedule, &args.target, &set);
    run_dir::check(out)?;
    let ready = tokio::select! {
        biased;
        () = halt.stop.cancelled() => return Err(interrupted(out, "nothing was sent")),
        ready = Box::pin(make_ready(args, &mut set, &run_id)) => ready?,
    };
    run_dir::prepare(out)?;
    let footer = [
        ("run_id".to_owned(), run_id.clone()),
        ("set_digest".to_owned(), set.manifest.digest.clone()),
    ];
    let rows = Rows::create(out, &footer)?;
    let scraper = match ready.metrics {
        Some(source) => Some(Scraper::begin(source, out).await?),
        None => None,
    };
    let plan = Arc::new(ready.plan);
    let planned = Told {
        steps: plan.steps.clone(),
        digest: plan.digest.clone(),
    };
    let due_us = plan
        .dispatches
        .iter()
        .map(|planned| planned.node.due_us)
        .collect();
    let progress = Progress::new(due_us);
    let walk = walk::walk(plan, ready.client, ready.manner, halt, progress, rows);
    let (walked, read) = scrape::watched(scraper, Box::pin(walk), &footer).await?;
    let mut learnt = ready.learnt;
    learnt.findings.extend(walked.findings.iter().cloned());
    learnt.findings.extend(misses::finding(&walked.rows));
    if let Some(read) = read {
        learnt.findings.extend(read.findings);
        learnt.counters = Some(read.counters);
    }
    conclude(args, &set, out, run_id, learnt, planned, walked)
}

/// What `run.json` says of the plan.
struct Told {
    steps: Vec<arrivals::Step>,
    digest: String,
}

/// Everything that is there before the first request of a run.
struct Ready {
    plan: Plan,
    client: Arc<Client>,
    manner: Manner,
    metrics: Option<scrape::Source>,
    learnt: Learnt,
}

/// What was found out before the run.
struct Learnt {
    probed: Probed,
    salt: Option<String>,
    salting: Option<Salting>,
    captured_origin: Option<bool>,
    findings: Vec<String>,
    counters: Option<Counters>,
}

/// Asks the target, makes the plan, and opens connections. It writes nothing, so that it can be given
/// up at any time.
async fn make_ready(args: &ReplayArgs, set: &mut Loaded, run_id: &str) -> Result<Ready, Error> {
    let salt = salt(args, run_id);
    let headers = settings::headers(args)?;
    let mut asking = headers.clone();
    if let Ok(run) = http::HeaderValue::try_from(run_id) {
        // What is asked before the run is neither production traffic nor part of the run.
        asking.insert(RUN_HEADER, run.clone());
        asking.insert(PROBE_HEADER, run);
    }
    let session_header = settings::session_header(args)?;
    let target = Target::resolve(&args.target)?;
    settings::allow(args, &target, set)?;
    let captured_origin = settings::is_captured_origin(&target, set);
    let metrics = settings::metrics(args, &target, &asking)?;
    let trust = settings::trust(&args.connection)?;
    let http = args.connection.http.into();
    let client = Client::open(target, &trust, http, args.connections.into())?;
    let client = Arc::new(client);
    let probed = probe_target::identify(&client, &asking).await?;
    let asked = asked::takes(args, &client, &asking, set, &probed, salt.as_deref()).await?;
    let salt = salt.filter(|_| asked.takes.salt);
    let library = body::Library::new(std::mem::take(&mut set.contents));
    let plan_settings = settings::plan_settings(args, salt.clone());
    let plan = plan::plan(
        &set.turns,
        library,
        &plan_settings,
        &probed.facts(asked.takes),
    )?;
    if plan.dispatches.is_empty() {
        let problem = format!("nothing of it can be sent: {}", plan.findings.join("; "));
        return Err(Error::Set {
            subject: args.set.clone(),
            problem,
        });
    }
    if args.cache == Cache::Flush {
        probe_target::flush(&client, &asking).await?;
    }
    // What carries no salt is not isolated by one, whatever the target does with those of the others.
    let (unsalted, sent) = (plan.unsalted, plan.dispatches.len());
    let salt = salt.filter(|_| unsalted < sent);
    let salting = asked
        .salting
        .and_then(|salting| salting.of_run(unsalted, sent));
    let mut findings = asked.findings;
    findings.extend(probed.findings.iter().cloned());
    findings.extend(set.findings.iter().cloned());
    findings.extend(plan.findings.iter().cloned());
    findings.extend(
        args.schedule
            .shard
            .map(|shard| shard.finding(plan.elsewhere)),
    );
    shard::wait_for_start(args.schedule.start_at).await?;
    let carried = connections::carried(&plan.dispatches);
    findings.extend(connections::finding(args.connections, &plan.dispatches));
    let warm = connections::warm(args, &plan.dispatches);
    client.expect(carried);
    client.warm(warm).await;
    Ok(Ready {
        plan,
        client,
        manner: manner(args, run_id, session_header, headers),
        metrics,
        learnt: Learnt {
            counters: None,
            probed,
            salting: salting.filter(|_| salt.is_some()),
            salt,
            captured_origin,
            findings,
        },
    })
}

fn conclude(
    args: &ReplayArgs,
    set: &Loaded,
    out: &Path,
    run_id: String,
    learnt: Learnt,
    planned: Told,
    walked: Walked,
) -> Result<Replayed, Error> {
    let rows = &walked.rows;
    let judged = verdict::run(
        &set.manifest,
        &walked,
        args.lateness_p99_max,
        args.max_in_flight,
    );
    let found = settings::Found {
        salt: learnt.salt.as_deref(),
        cache_verified: learnt.salting.and_then(Salting::word),
        captured_origin: learnt.captured_origin,
    };
    let run = Run {
        run_id,
        target: args.target.clone(),
        engine: learnt.probed.engine,
        flags: settings::flags(args, &found),
        findings: learnt.findings,
        steps: verdict::steps(&planned.steps, rows),
        plan_digest: planned.digest,
        counters: learnt.counters,
        ..judged
    };
    let level1 = set.level1.as_ref();
    let turns = shard::own_turns(set, args.schedule.shard);
    let graded = grade::run_against_set(&set.manifest, &turns, &run, rows, level1);
    let evidence = Evidence {
        report: &graded,
        run: Some(&run),
        dispatches: rows,
        set: Some(SetSide {
            manifest: &set.manifest,
            turns: &turns,
        }),
        gate: None,
    };
    run_dir::write(out, &run, &evidence)?;
    Ok(Replayed {
        run,
        report: graded,
        stopped: walked.stopped,
    })
}

fn salt(args: &ReplayArgs, run_id: &str) -> Option<String> {
    let given = args.salt.clone().unwrap_or_else(|| run_id.to_owned());
    (args.cache == Cache::Salted).then_some(given)
}

fn manner(
    args: &ReplayArgs,
    run_id: &str,
    session_header: http::HeaderName,
    headers: http::HeaderMap,
) -> Manner {
    Manner {
        pacing: args.pacing,
        skips_after_failure: args.schedule.on_failed_turn == OnFailedTurn::Skip,
        start_at_us: args.schedule.start_at,
        in_flight_max: args.max_in_flight.unwrap_or(usize::MAX),
        timeout: args.timeout,
        idle_timeout: Some(args.idle_timeout).filter(|most| !most.is_zero()),
        grace: args.grace,
        spin: args.spin,
        error_rate_max: args.error_rate_max,
        token_budget: args.token_budget,
        run_id: run_id.to_owned(),
        session_header,
        headers,
        enforce: args.output == Output::Enforce,
    }
}

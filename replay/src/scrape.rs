//! The target's own counters, read before, during and after a run.
//!
//! They are the second witness: what the server says of its cache, its queue and its memory stands
//! beside what its answers said. They count everybody's requests, so that a difference between the
//! two is also a sign of company.

use crate::client::{Client, Http, Request, Reuse, Target, Trust};
use crate::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use truetape_schemas::file::Writer;
use truetape_schemas::run::metrics::{Counters, METRICS, Sample};

mod names;
mod text;
mod totals;

pub use names::{Families, NAMES};
pub use text::{Scraped, parse};
pub use totals::Totals;

/// Time one reading may take: a busy server answers late, and a late reading is of another time.
const READ_TIME_MAX: Duration = Duration::from_secs(5);

/// Samples of one reading that are kept at most; vLLM has about 500, a fleet of engines some
/// thousands.
const SAMPLES_MAX: usize = 20_000;

/// Where and how often counters are read.
#[derive(Clone, Debug)]
pub struct Source {
    /// The address that was asked for, or the target's own `/metrics`.
    pub url: String,
    /// Between two readings; none reads before and after only.
    pub every: Option<Duration>,
    /// Header fields of the questions.
    pub headers: http::HeaderMap,
    /// Whom the server is trusted to be.
    pub trust: Trust,
}

/// When a reading was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before the first request of the run.
    Before,
    /// While it went on.
    During,
    /// After the end of its last exchange.
    After,
}

impl Phase {
    /// The word in the column.
    pub fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::During => "during",
            Self::After => "after",
        }
    }
}

/// Reads counters while a run goes on.
#[derive(Debug)]
pub struct Scraper {
    client: Client,
    source: Source,
    path: PathBuf,
    writer: Option<Writer<Sample>>,
    totals: Totals,
    scrape: i64,
    failed: u64,
    finding: Option<String>,
}

/// What a scraper came to.
#[derive(Debug)]
pub struct Read {
    /// What the counters say of the run.
    pub counters: Counters,
    /// What a user should know.
    pub findings: Vec<String>,
}

impl Scraper {
    /// Reads for the first time. A target without counters is no error: it is said.
    pub async fn begin(source: Source, out: &Path) -> Result<Self, Error> {
        let target = Target::resolve(&source.url)?;
        let client = Client::open(target, &source.trust, Http::Auto, Reuse::Pool)?;
        let mut scraper = Self {
            client,
            source,
            path: out.join(METRICS),
            writer: None,
            totals: Totals::default(),
            scrape: 0,
            failed: 0,
            finding: None,
        };
        scraper.read(Phase::Before).await?;
        Ok(scraper)
    }

    /// Reads every so often, until it is told to stop.
    pub async fn watch(&mut self, stop: &CancellationToken) -> Result<(), Error> {
        // What did not answer before the run is not asked again until it is over.
        let Some(every) = self.source.every.filter(|_| self.writer.is_some()) else {
            stop.cancelled().await;
            return Ok(());
        };
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + every, every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                _ = ticks.tick() => self.read(Phase::During).await?,
            }
        }
    }

    /// Reads for the last time, and says what it came to.
    pub async fn finish(mut self, footer: &[(String, String)]) -> Result<Read, Error> {
        self.read(Phase::After).await?;
        if let Some(writer) = self.writer.take() {
            writer.finish(footer)?;
        }
        let scrapes = u64::try_from(self.scrape).unwrap_or(0);
        let counters = Counters {
            url: self.source.url,
            scrapes,
            failed: self.failed,
            ..self.totals.counters()
        };
        let mut findings: Vec<String> = self.finding.into_iter().collect();
        if scrapes > 0 {
            findings.extend(self.totals.findings());
        }
        Ok(Read { counters, findings })
    }

    async fn read(&mut self, phase: Phase) -> Result<(), Error> {
        let at = truetape_schemas::time::wall_now_us();
        match ask(&self.client, &self.source).await {
            Ok(text) => self.keep(at, phase, &text),
            Err(problem) => {
                self.failed += 1;
                let url = &self.source.url;
                self.finding.get_or_insert_with(|| {
                    format!("metrics: {url} could not be read: {problem}; what the target itself counts is unknown then")
                });
                Ok(())
            }
        }
    }

    fn keep(&mut self, at: i64, phase: Phase, text: &str) -> Result<(), Error> {
        let mut scraped = parse(text);
        if scraped.is_empty() {
            self.failed += 1;
            self.finding.get_or_insert_with(|| {
                format!(
                    "metrics: {} has no counters in Prometheus' text format",
                    self.source.url
                )
            });
            return Ok(());
        }
        scraped.truncate(SAMPLES_MAX);
        self.totals.add(phase, &scraped);
        let samples: Vec<Sample> = scraped
            .into_iter()
            // Buckets are most of the samples, and what happened inside a run is the difference of
            // its two ends.
            .filter(|scraped| phase != Phase::During || !scraped.name.ends_with("_bucket"))
            .map(|scraped| Sample {
                scrape: self.scrape,
                at,
                phase: phase.name().to_owned(),
                name: scraped.name,
                labels: scraped.labels,
                kind: scraped.kind.to_owned(),
                value: scraped.value,
            })
            .collect();
        self.scrape += 1;
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(Writer::create(&self.path)?),
        };
        Ok(writer.write(&samples)?)
    }
}

/// Asks once. It holds no writer, which may not be seen by two threads.
async fn ask(client: &Client, source: &Source) -> Result<String, String> {
    let target = client.target();
    let path = if target.base.is_empty() {
        "/"
    } else {
        &target.base
    };
    let request = Request {
        path: path.to_owned(),
        headers: source.headers.clone(),
        timeout: Some(READ_TIME_MAX),
        ..Request::default()
    };
    let fetched = client.fetch(&request).await;
    let fetched = fetched.map_err(|failure| failure.to_string())?;
    if fetched.status != 200 {
        return Err(format!("it answered {}", fetched.status));
    }
    Ok(String::from_utf8_lossy(&fetched.body).into_owned())
}

/// Does something while counters are read, and reads them once more when it is over.
pub async fn watched<T>(
    scraper: Option<Scraper>,
    work: impl Future<Output = Result<T, Error>>,
    footer: &[(String, String)],
) -> Result<(T, Option<Read>), Error> {
    let Some(mut scraper) = scraper else {
        return Ok((work.await?, None));
    };
    let over = CancellationToken::new();
    let work = async {
        let done = work.await;
        over.cancel();
        done
    };
    let (done, watched) = tokio::join!(work, scraper.watch(&over));
    let done = done?;
    watched?;
    let read = scraper.finish(footer).await?;
    Ok((done, Some(read)))
}

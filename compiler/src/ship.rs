//! The verb `ship`: sealed segments leave the machine, verified, exactly once.
//!
//! It is a process of its own beside a recorder, so that neither credentials nor an HTTP client
//! live in the traffic path. It shares nothing with the recorder but the directory: a segment
//! appears there whole, by rename, and disappears once the store has given back the very bytes.
//!
//! 1. [`scan`]: which segments are finished;
//! 2. [`upload`]: one segment, sent, read back, removed;
//! 3. [`rounds`]: all of them, again and again, through outages;
//! 4. [`tally`] and [`admin`]: what is told about it.

use crate::cli::ShipArgs;
use crate::error::Error;
use crate::objects::{Objects, existing_folder};
use crate::talk::{self, OutputFormat};
use pace::Pace;
use rounds::{End, Rounds};
use std::fs::{File, OpenOptions};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tally::Tally;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use truetape_schemas::blame::Answer;
use upload::Shipper;

mod admin;
mod pace;
mod rounds;
mod scan;
mod tally;
mod upload;

#[cfg(test)]
mod tests;

/// Name of the file that one shipper holds locked in the directory.
const LOCK: &str = ".truetape-ship.lock";

/// What is made in a `file://` folder is its owner's alone, as captures are.
const UMASK: u32 = 0o077;

/// Most segments that are shipped at the same time: each holds a part in memory.
const CONCURRENCY_MAX: usize = 64;

/// How to ship.
#[derive(Debug)]
struct Config {
    dir: PathBuf,
    once: bool,
    every: Duration,
    keep_local: bool,
    bandwidth: Option<u64>,
    concurrency: usize,
    drain: Duration,
    grace: Duration,
    admin: Option<SocketAddr>,
}

impl Config {
    fn of(args: &ShipArgs) -> Result<Self, Error> {
        let concurrency = args.concurrency;
        if !(1..=CONCURRENCY_MAX).contains(&concurrency) {
            let problem = format!("found {concurrency}, allowed 1 to {CONCURRENCY_MAX}");
            return Err(Error::config("concurrency", problem));
        }
        if args.every < Duration::from_millis(100) {
            let problem = format!("found {:?}, allowed 100ms and more", args.every);
            return Err(Error::config("every", problem));
        }
        if args.bandwidth.is_some_and(|rate| rate.as_u64() < 1024) {
            return Err(Error::config("bandwidth", "allowed 1KiB a second and more"));
        }
        Ok(Self {
            dir: args.dir.clone(),
            once: args.once,
            every: args.every,
            keep_local: args.keep_local,
            bandwidth: args.bandwidth.map(|rate| rate.as_u64()),
            concurrency,
            drain: args.drain,
            grace: args.grace,
            admin: args.admin,
        })
    }
}

/// Carries out `truetape ship`.
pub fn run(args: ShipArgs) -> Result<Answer, Error> {
    let config = Config::of(&args)?;
    let objects = Objects::open(&args.url)?;
    if let Some(folder) = objects.path_of(&objects.prefix) {
        existing_folder(&args.url, &folder)?;
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(UMASK));
    }
    // A part is read and hashed on a blocking thread; two workers keep the sockets and the pages going.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|cause| Error::io(Path::new("runtime"), cause))?;
    let tally = Arc::new(Tally::default());
    let ended = runtime.block_on(ship(&config, objects, &tally));
    // A request that hangs must not keep the process: what it carried is still on disk.
    runtime.shutdown_background();
    match args.format {
        OutputFormat::Json => talk::json(&tally.summary())?,
        OutputFormat::Text => talk::data(&tally.text())?,
    }
    match ended? {
        End::Done => Ok(Answer::Yes),
        End::Cut(segments) => {
            let problem = format!(
                "{segments} segments were cut by --grace; they are still here, and ship next time"
            );
            Err(Error::cut(config.dir.display(), problem))
        }
    }
}

async fn ship(config: &Config, objects: Objects, tally: &Arc<Tally>) -> Result<End, Error> {
    let (leave, stop) = (CancellationToken::new(), CancellationToken::new());
    let tasks = TaskTracker::new();
    watch_signals(&tasks, &leave, &stop, config.drain)?;
    let ended = CancellationToken::new();
    if let Some(addr) = config.admin {
        admin::start(&tasks, addr, tally, &ended).await?;
    }
    let lock = lock(config, &leave).await?;
    tracing::info!(dir = %config.dir.display(), url = objects.url, "shipping");
    let shipper = Shipper {
        objects,
        dir: config.dir.clone(),
        pace: Pace::new(config.bandwidth),
        keep_local: config.keep_local,
        stop,
        tally: Arc::clone(tally),
        part_bytes: upload::PART_BYTES,
    };
    let end = Rounds::new(shipper, leave, config.concurrency, config.grace)
        .run(config.once.then_some(rounds::ONCE_TRIES_MAX), config.every)
        .await;
    drop(lock);
    ended.cancel();
    end
}

/// The first SIGTERM or SIGINT asks to leave once all is shipped; the second, or the end of the
/// drain, stops after the current part.
fn watch_signals(
    tasks: &TaskTracker,
    leave: &CancellationToken,
    stop: &CancellationToken,
    drain: Duration,
) -> Result<(), Error> {
    let listen = |kind| signal(kind).map_err(|cause| Error::io(Path::new("signals"), cause));
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let (leave, stop) = (leave.clone(), stop.clone());
    drop(tasks.spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        leave.cancel();
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            () = tokio::time::sleep(drain) => {}
        }
        stop.cancel();
    }));
    Ok(())
}

/// Two shippers of one directory would race for the same names. A directory that is only read needs
/// no lock, and one that the recorder has yet to make is waited for.
async fn lock(config: &Config, stop: &CancellationToken) -> Result<Option<File>, Error> {
    let mut said = false;
    loop {
        let found = std::fs::metadata(&config.dir);
        match found {
            Ok(metadata) if metadata.is_dir() => break,
            Ok(_) => {
                return Err(Error::data(
                    config.dir.display(),
                    "is a file; wanted a folder",
                ));
            }
            Err(cause) if config.once || cause.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io(&config.dir, cause));
            }
            Err(_) if stop.is_cancelled() => return Ok(None),
            Err(_) => {}
        }
        if !said {
            tracing::info!(dir = %config.dir.display(), "waiting for the directory");
            said = true;
        }
        drop(tokio::time::timeout(config.every, stop.cancelled()).await);
    }
    if config.keep_local {
        return Ok(None);
    }
    let path = config.dir.join(LOCK);
    let io = |cause| Error::io(&path, cause);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(&path).map_err(io)?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let problem = "another truetape ship has it; one directory needs one";
            Err(Error::config(config.dir.display(), problem))
        }
        Err(cause) => Err(io(cause.into())),
    }
}

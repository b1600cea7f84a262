//! What a process replays on: a runtime, and signals that are heard whatever a replay does.

use crate::cli::ReplayArgs;
use crate::command::{self, Replayed};
use crate::error::Error;
use crate::load::Loaded;
use crate::walk::Halt;
use crate::{files, signals};
use std::path::Path;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How far before others this process is scheduled, where it may ask for that.
const NICE: i32 = -10;

/// A runtime that listens for signals.
#[derive(Debug)]
pub struct Host {
    runtime: Runtime,
    halt: Halt,
    /// The user has had enough of waiting.
    enough: CancellationToken,
}

/// A runtime with clocks and sockets.
pub(crate) fn runtime(builder: &mut Builder) -> Result<Runtime, Error> {
    builder.enable_all().build().map_err(|cause| Error::Host {
        what: "the runtime".to_owned(),
        cause,
    })
}

/// Asks the kernel to run this process before others that are ready, for all threads to come: what
/// waits for a processor is late. Few may ask; without it the run is only a little later, and its
/// lateness is measured anyway.
fn go_first() {
    if let Err(cause) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%cause, "could not raise the priority");
    }
}

impl Host {
    /// Starts threads, and listens for signals from now on.
    pub fn start() -> Result<Self, Error> {
        files::raise_limit();
        go_first();
        let runtime = runtime(&mut Builder::new_multi_thread())?;
        let (halt, enough) = (Halt::default(), CancellationToken::new());
        let watching = {
            let _context = runtime.enter();
            signals::watch(halt.clone())?
        };
        let had = enough.clone();
        runtime.spawn(async move {
            watching.await;
            had.cancel();
        });
        Ok(Self {
            runtime,
            halt,
            enough,
        })
    }

    /// Replays a set on the runtime's own threads. A replay that breaks off cuts its own exchanges, and
    /// not those of the next.
    pub fn replay(&self, args: &ReplayArgs, set: Loaded, out: &Path) -> Result<Replayed, Error> {
        let halt = Halt {
            stop: self.halt.stop.child_token(),
            cut: self.halt.cut.child_token(),
        };
        let (args, place) = (args.clone(), out.to_owned());
        self.runtime.block_on(async {
            let mut tasks = JoinSet::new();
            tasks.spawn(async move { command::replay(&args, set, &place, halt).await });
            tokio::select! {
                ended = tasks.join_next() => match ended {
                    Some(Ok(replayed)) => replayed,
                    _ => Err(Error::Bug {
                        subject: "the replay".to_owned(),
                        problem: "it panicked".to_owned(),
                    }),
                },
                () = self.enough.cancelled() => Err(command::interrupted(out, "the run is given up")),
            }
        })
    }

    /// Whether the user has asked for an end.
    pub fn is_stopped(&self) -> bool {
        self.halt.stop.is_cancelled()
    }

    /// Ends. What is left of a run that was given up waits for nothing any more.
    pub fn end(self) {
        self.runtime.shutdown_background();
    }
}

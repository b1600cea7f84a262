//! Ctrl-C and SIGTERM: the first stops politely, the second at once, the third ends the process.

use crate::error::Error;
use crate::walk::Halt;
use std::io::Write as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens from now on; the future turns signals into a halt, and ends when the user has had enough.
pub fn watch(halt: Halt) -> Result<impl Future<Output = ()>, Error> {
    let listen = |kind| {
        signal(kind).map_err(|cause| Error::Host {
            what: "signal handlers".to_owned(),
            cause,
        })
    };
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    Ok(async move {
        next(&mut interrupt, &mut terminate).await;
        say("stopping: waiting for exchanges in flight; once more to cut them");
        halt.stop.cancel();
        next(&mut interrupt, &mut terminate).await;
        say("cutting exchanges in flight");
        halt.cut.cancel();
        next(&mut interrupt, &mut terminate).await;
    })
}

async fn next(interrupt: &mut Signal, terminate: &mut Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

fn say(what: &str) {
    if writeln!(std::io::stderr(), "\n{what}").is_err() {
        tracing::debug!("stderr is closed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal as Sent, getpid, kill_process};
    use std::time::Duration;

    const DEADLINE: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn the_first_stops_the_second_cuts_the_third_gives_up() {
        let halt = Halt::default();
        let mut watching = tokio::task::JoinSet::new();
        watching.spawn(watch(halt.clone()).unwrap());
        let signal = |signal| kill_process(getpid(), signal).unwrap();
        signal(Sent::INT);
        let stopped = tokio::time::timeout(DEADLINE, halt.stop.cancelled()).await;
        assert!(stopped.is_ok() && !halt.cut.is_cancelled());
        signal(Sent::TERM);
        let cut = tokio::time::timeout(DEADLINE, halt.cut.cancelled()).await;
        assert!(cut.is_ok() && watching.try_join_next().is_none());
        signal(Sent::INT);
        let ended = tokio::time::timeout(DEADLINE, watching.join_next()).await;
        ended.unwrap().unwrap().unwrap();
    }
}

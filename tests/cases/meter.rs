//! How late this machine wakes threads: a case's tolerance is for the product, not for that.
//!
//! Two threads sleep to deadlines of their own and note how late they woke: that shows a machine
//! that stands still. How long the product's own threads waited for a processor is read from the
//! system. On a quiet machine both are a fraction of a millisecond and change nothing; while
//! something else compiles on both cores they are what the product cannot help. How much of it may
//! be allowed for is the case's own measure: see [`crate::spacing`].

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two looks.
const PERIOD: Duration = Duration::from_millis(2);

/// Later than this is worth a note.
const NOTED: Duration = Duration::from_millis(1);

/// Wakes that were late, and by how much.
type Late = Arc<Mutex<Vec<(Instant, Duration)>>>;

/// The threads that watch.
pub(crate) struct Meter {
    late: Late,
    stopping: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Meter {
    pub(crate) fn start() -> Self {
        let late = Late::default();
        let stopping = Arc::new(AtomicBool::new(false));
        let watch = |_| {
            let (late, stopping) = (Arc::clone(&late), Arc::clone(&stopping));
            std::thread::spawn(move || watch(&late, &stopping))
        };
        let threads = (0..2).map(watch).collect();
        Self {
            late,
            stopping,
            threads,
        }
    }

    /// The latest wake since `from`, in milliseconds.
    pub(crate) fn worst_ms_since(&self, from: Instant) -> f64 {
        let late = self.late.lock().unwrap();
        let since = late
            .iter()
            .filter(|(at, _)| *at >= from)
            .map(|(_, late)| late.as_secs_f64());
        since.fold(0.0, f64::max) * 1000.0
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

fn watch(late: &Late, stopping: &AtomicBool) {
    while !stopping.load(Ordering::Relaxed) {
        let due = Instant::now() + PERIOD;
        std::thread::sleep(PERIOD);
        let woke = Instant::now();
        if woke - due > NOTED {
            late.lock().unwrap().push((woke, woke - due));
        }
    }
}

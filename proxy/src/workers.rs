//! The threads that serve. A connection lives on one of them, both its sides and all of its
//! exchanges, so that no frame changes threads.
//!
//! The runtime that a proxy was started on is the first of them. With one worker, there is no other:
//! accepting, serving and the admin pages share it.

use crate::error::Error;
use crate::limits;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

#[derive(Debug)]
struct Worker {
    runtime: Handle,
    open: Arc<AtomicUsize>,
    /// `None` for the runtime that the proxy was started on.
    thread: Option<JoinHandle<()>>,
}

/// The serving threads of one proxy. They end when this is dropped.
#[derive(Debug)]
pub struct Workers {
    all: Vec<Worker>,
    stop: DropGuard,
}

/// A connection's place on a worker, which is free again once this is dropped.
#[derive(Debug)]
struct Seat(Arc<AtomicUsize>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Workers {
    /// So many workers, the current runtime among them.
    pub fn start(count: usize) -> Result<Self, Error> {
        let stop = CancellationToken::new();
        let mut all = vec![Worker {
            runtime: Handle::current(),
            open: Arc::default(),
            thread: None,
        }];
        for _ in 1..count {
            all.push(Worker::start(stop.clone()).map_err(|cause| Error::Runtime { cause })?);
        }
        let stop = stop.drop_guard();
        Ok(Self { all, stop })
    }

    /// Has a connection served by the worker with the fewest of them.
    pub fn serve<F>(
        &self,
        tasks: &TaskTracker,
        stream: TcpStream,
        serve: impl FnOnce(TcpStream) -> F + Send + 'static,
    ) -> io::Result<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let open = |worker: &&Worker| worker.open.load(Relaxed);
        let Some(worker) = self.all.iter().min_by_key(open) else {
            return Ok(());
        };
        worker.open.fetch_add(1, Relaxed);
        let seat = Seat(Arc::clone(&worker.open));
        if worker.thread.is_none() {
            drop(tasks.spawn_on(seated(seat, serve(stream)), &worker.runtime));
            return Ok(());
        }
        // A socket belongs to the runtime that it was registered with.
        let stream = stream.into_std()?;
        let moved = async move {
            match TcpStream::from_std(stream) {
                Ok(stream) => serve(stream).await,
                Err(cause) => tracing::warn!(%cause, "could not serve a connection"),
            }
        };
        drop(tasks.spawn_on(seated(seat, moved), &worker.runtime));
        Ok(())
    }

    /// Ends the threads and waits for them. What they still served is dropped.
    pub fn stop(self) {
        drop(self.stop);
        for thread in self.all.into_iter().filter_map(|worker| worker.thread) {
            // One that panicked has said so.
            drop(thread.join());
        }
    }
}

impl Worker {
    fn start(stop: CancellationToken) -> io::Result<Self> {
        let runtime = runtime()?;
        let handle = runtime.handle().clone();
        let thread = std::thread::Builder::new()
            .name("truetape-serve".to_owned())
            .spawn(move || {
                runtime.block_on(stop.cancelled());
                // A look-up of a name may hold one of its threads.
                runtime.shutdown_timeout(limits::RUNTIME_WITHIN);
            })?;
        Ok(Self {
            runtime: handle,
            open: Arc::default(),
            thread: Some(thread),
        })
    }
}

/// A runtime of one thread.
pub fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

async fn seated(seat: Seat, serving: impl Future<Output = ()>) {
    serving.await;
    drop(seat);
}

#[cfg(test)]
mod tests {
    use super::Workers;
    use std::collections::BTreeMap;
    use std::sync::mpsc::sync_channel;
    use std::thread::ThreadId;
    use tokio::net::{TcpListener, TcpStream};
    use tokio_util::sync::CancellationToken;
    use tokio_util::task::TaskTracker;

    /// Has connections served by so many workers: where each was, once all are open.
    async fn places(workers: &Workers, connections: usize) -> Vec<ThreadId> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (tasks, close) = (TaskTracker::new(), CancellationToken::new());
        let (seen, places) = sync_channel(connections);
        let mut clients = Vec::new();
        for _ in 0..connections {
            let addr = listener.local_addr().unwrap();
            clients.push(TcpStream::connect(addr).await.unwrap());
            let (stream, _) = listener.accept().await.unwrap();
            let (seen, close) = (seen.clone(), close.clone());
            workers
                .serve(&tasks, stream, |stream| async move {
                    stream.writable().await.unwrap();
                    seen.send(std::thread::current().id()).unwrap();
                    close.cancelled().await;
                })
                .unwrap();
        }
        drop(seen);
        let found = tokio::task::spawn_blocking(move || {
            (0..connections).map(|_| places.recv().unwrap()).collect()
        });
        let found = found.await.unwrap();
        close.cancel();
        tasks.close();
        tasks.wait().await;
        found
    }

    #[tokio::test]
    async fn connections_spread_evenly_and_seats_are_free_again() {
        let workers = Workers::start(3).unwrap();
        for _ in 0..2 {
            let mut each = BTreeMap::new();
            for place in places(&workers, 9).await {
                *each.entry(format!("{place:?}")).or_insert(0) += 1;
            }
            assert_eq!(each.into_values().collect::<Vec<_>>(), [3, 3, 3]);
        }
        workers.stop();
    }

    #[tokio::test]
    async fn one_worker_serves_where_the_proxy_was_started() {
        let workers = Workers::start(1).unwrap();
        let here = std::thread::current().id();
        assert_eq!(places(&workers, 2).await, [here, here]);
        workers.stop();
    }
}

//! Work over threads, with results in the order of the input: threads never change an outcome (C1).

use crate::error::Error;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

/// Threads when nobody said: as many as the machine offers.
pub(crate) fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)
}

/// Applies `f` to every item, over `threads` threads.
///
/// Items are lent for change so that `f` can take what is heavy out of them and drop it there.
pub(crate) fn map<T, R, F>(items: &mut [T], threads: usize, f: F) -> Result<Vec<R>, Error>
where
    T: Send,
    R: Send,
    F: Fn(&mut T) -> R + Sync,
{
    let share = items.len().div_ceil(threads.max(1)).max(1);
    if share >= items.len() {
        return Ok(items.iter_mut().map(f).collect());
    }
    let total = items.len();
    let f = &f;
    std::thread::scope(|scope| {
        let workers: Vec<_> = items
            .chunks_mut(share)
            .map(|chunk| scope.spawn(move || chunk.iter_mut().map(f).collect::<Vec<R>>()))
            .collect();
        let mut results = Vec::with_capacity(total);
        for worker in workers {
            let part = worker
                .join()
                .map_err(|_| Error::bug("worker thread", "panicked"))?;
            results.extend(part);
        }
        Ok(results)
    })
}

/// Does two things at the same time where there are threads for it, the first on one of its own.
pub(crate) fn both<A, B>(
    threads: usize,
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B,
) -> Result<(A, B), Error>
where
    A: Send,
{
    if threads < 2 {
        return Ok((first(), second()));
    }
    std::thread::scope(|scope| {
        let beside = scope.spawn(first);
        let second = second();
        let first = beside.join();
        let first = first.map_err(|_| Error::bug("worker thread", "panicked"))?;
        Ok((first, second))
    })
}

/// Items that are made on a thread of their own while the ones before are worked on.
///
/// One waits while another is made, so two are held beside the one in hand.
pub(crate) fn ahead<I>(items: I) -> Result<Ahead<I::Item>, Error>
where
    I: Iterator + Send + 'static,
    I::Item: Send + 'static,
{
    let (sender, receiver) = sync_channel(1);
    let maker = std::thread::Builder::new()
        .name("read-ahead".to_owned())
        .spawn(move || {
            for item in items {
                // Nobody listens any more: there was an error, and it is told elsewhere.
                if sender.send(item).is_err() {
                    return;
                }
            }
        })
        .map_err(|cause| Error::io(Path::new("a reading thread"), cause))?;
    Ok(Ahead {
        receiver,
        maker: Some(maker),
    })
}

/// See [`ahead`]. An error is a bug: the thread panicked, and what it made is not all.
#[derive(Debug)]
pub(crate) struct Ahead<T> {
    receiver: Receiver<T>,
    maker: Option<JoinHandle<()>>,
}

impl<T> Iterator for Ahead<T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Ok(item) = self.receiver.recv() {
            return Some(Ok(item));
        }
        let panicked = self.maker.take()?.join().is_err();
        panicked.then(|| Err(Error::bug("reading thread", "panicked")))
    }
}

#[cfg(test)]
mod tests {
    use super::{ahead, both, map};

    #[test]
    fn items_that_are_made_ahead_come_in_order_and_all() {
        let made: Vec<u32> = ahead(0..1_000).unwrap().map(Result::unwrap).collect();
        assert_eq!(made, (0..1_000).collect::<Vec<u32>>());
        // Who stops early leaves nobody waiting.
        assert_eq!(ahead(0..).unwrap().next().unwrap().unwrap(), 0);
    }

    #[test]
    fn a_reader_that_panics_is_a_bug_and_not_the_end() {
        let broken = (0..5).map(|n: u32| if n < 3 { n } else { panic!("on purpose") });
        let made: Vec<bool> = ahead(broken).unwrap().map(|item| item.is_ok()).collect();
        assert_eq!(made, [true, true, true, false]);
    }

    #[test]
    fn two_things_are_done_whatever_the_threads() {
        for threads in [0, 1, 2] {
            assert_eq!(both(threads, || 1, || "two").unwrap(), (1, "two"));
        }
        let panics = || -> u8 { panic!("on purpose") };
        assert!(both(2, panics, || ()).is_err());
    }

    #[test]
    fn results_keep_the_order_of_the_items_whatever_the_threads() {
        let wanted: Vec<u64> = (0..1_003).map(|n| n * n).collect();
        for threads in [0, 1, 2, 7, 5_000] {
            let mut items: Vec<u64> = (0..1_003).collect();
            let squares = map(&mut items, threads, |n| std::mem::take(n).pow(2)).unwrap();
            assert_eq!(squares, wanted, "{threads}");
        }
        assert!(map(&mut [] as &mut [u64], 4, |n| *n).unwrap().is_empty());
    }
}

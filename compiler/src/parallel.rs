//! Work over threads, with results in the order of the input: threads never change an outcome (C1).

use crate::error::Error;

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

#[cfg(test)]
mod tests {
    use super::map;

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

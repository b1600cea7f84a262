//! Which requests are built before they are due: those that are due first, as many as memory is given
//! for. A pure state machine; who builds them is [`super::ahead`].

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashSet};

/// Requests that are held built at most: a quarter of a second at 1,000 a second.
pub(super) const TURNS_MAX: usize = 256;

/// Bytes of their bodies at most. A larger body is held alone.
pub(super) const BYTES_MAX: usize = 64 << 20;

/// A dispatch in the order of sending: when it may be sent, and which one.
type Key = (i64, u32);

/// Dispatches whose time is known, and which of them are held built.
#[derive(Debug, Default)]
pub(super) struct Window {
    coming: BinaryHeap<Reverse<Key>>,
    /// With the bytes of each.
    held: BTreeMap<Key, usize>,
    bytes: usize,
    /// Dispatches that were sent before their turn to be built came.
    passed: HashSet<u32>,
}

/// What is to be done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// To be built, in this order.
    pub(super) build: Vec<u32>,
    /// To be let go, since others are due before them.
    pub(super) drop: Vec<u32>,
}

impl Window {
    /// Takes in a dispatch that waits for nothing but its time.
    pub(super) fn foresee(&mut self, key: Key) {
        self.coming.push(Reverse(key));
    }

    /// Takes note that a dispatch was sent.
    pub(super) fn sent(&mut self, key: Key) {
        match self.held.remove(&key) {
            Some(bytes) => self.bytes -= bytes,
            None => {
                self.passed.insert(key.1);
            }
        }
    }

    /// Fills what room there is, and makes room for what is due before something that is held.
    pub(super) fn fill(&mut self, bytes_of: impl Fn(u32) -> usize) -> Change {
        let mut change = Change::default();
        while let Some(&Reverse(key)) = self.coming.peek() {
            if self.passed.remove(&key.1) {
                self.coming.pop();
                continue;
            }
            let bytes = bytes_of(key.1);
            if self.has_room(bytes) {
                self.coming.pop();
                self.held.insert(key, bytes);
                self.bytes += bytes;
                change.build.push(key.1);
                continue;
            }
            let last = self.held.last_key_value().map(|(last, _)| *last);
            let Some(last) = last.filter(|last| key < *last) else {
                break;
            };
            self.bytes -= self.held.remove(&last).unwrap_or(0);
            self.coming.push(Reverse(last));
            change.drop.push(last.1);
        }
        // What found room only for a moment need not be built.
        let Change { build, drop } = &mut change;
        build.retain(|index| !drop.contains(index));
        change
    }

    fn has_room(&self, bytes: usize) -> bool {
        let fits = self.held.len() < TURNS_MAX && self.bytes.saturating_add(bytes) <= BYTES_MAX;
        self.held.is_empty() || fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn window(keys: &[Key]) -> Window {
        let mut window = Window::default();
        for key in keys {
            window.foresee(*key);
        }
        window
    }

    #[test]
    fn what_is_due_first_is_built_first_and_room_is_filled_as_it_comes() {
        let keys: Vec<Key> = (0..300)
            .rev()
            .map(|index| (i64::from(index), index))
            .collect();
        let mut window = window(&keys);
        let first = window.fill(|_| 1_000);
        assert_eq!(first.build, (0..TURNS_MAX as u32).collect::<Vec<u32>>());
        assert_eq!(window.fill(|_| 1_000), Change::default());
        window.sent((0, 0));
        assert_eq!(window.fill(|_| 1_000).build, [TURNS_MAX as u32]);
    }

    #[test]
    fn an_earlier_one_takes_the_place_of_the_latest() {
        let keys: Vec<Key> = (0..TURNS_MAX as u32).map(|index| (100, index)).collect();
        let mut window = window(&keys);
        window.fill(|_| 1);
        window.foresee((50, 999));
        let change = window.fill(|_| 1);
        assert_eq!((change.build, change.drop), (vec![999], vec![255]));
        window.sent((50, 999));
        assert_eq!(window.fill(|_| 1).build, [255]);
    }

    #[test]
    fn bytes_are_bounded_and_a_giant_goes_alone() {
        let mut window = window(&[(1, 1), (2, 2), (3, 3)]);
        let bytes = |index| {
            if index == 2 {
                2 * BYTES_MAX
            } else {
                BYTES_MAX / 2
            }
        };
        assert_eq!(window.fill(bytes).build, [1]);
        window.sent((1, 1));
        assert_eq!(window.fill(bytes).build, [2]);
        window.sent((2, 2));
        assert_eq!(window.fill(bytes).build, [3]);
    }

    #[test]
    fn what_was_sent_unbuilt_is_not_built_afterwards() {
        let mut window = window(&[(1, 1), (2, 2)]);
        window.sent((1, 1));
        assert_eq!(window.fill(|_| 1).build, [2]);
    }

    proptest! {
        /// Whatever comes in whatever order, what is held is bounded and is what is due first.
        #[test]
        fn the_held_are_the_first_and_fit(
            steps in proptest::collection::vec((0i64..1_000, 0usize..2 * BYTES_MAX, any::<bool>()), 1..200),
        ) {
            let mut window = Window::default();
            let mut sizes = Vec::new();
            for (at, bytes, sends) in steps {
                window.foresee((at, sizes.len() as u32));
                sizes.push(bytes);
                window.fill(|index| sizes[index as usize]);
                if sends && let Some((first, _)) = window.held.first_key_value() {
                    window.sent(*first);
                    window.fill(|index| sizes[index as usize]);
                }
                let held: usize = window.held.values().sum();
                prop_assert_eq!(held, window.bytes);
                prop_assert!(window.held.len() <= TURNS_MAX);
                prop_assert!(held <= BYTES_MAX || window.held.len() == 1);
                let next = window.coming.peek().map(|Reverse(key)| *key);
                let last = window.held.last_key_value().map(|(key, _)| *key);
                if let (Some(next), Some(last)) = (next, last) {
                    prop_assert!(last < next);
                }
            }
        }
    }
}

//! How many slots of the clock were vacated, and what weighs how much, up to a slot: Fenwick trees.

/// Counts over slots, with updates and prefix sums in logarithmic time.
///
/// It counts vacancies and not blocks, because a block seen for the first time vacates nothing:
/// most blocks then cost no update at all.
#[derive(Debug)]
pub(super) struct Vacancies {
    tree: Vec<u32>,
    total: usize,
}

impl Vacancies {
    /// Makes a tree over `slots` slots, none of them vacated.
    pub(super) fn none_of(slots: usize) -> Self {
        Self {
            tree: vec![0; slots + 1],
            total: 0,
        }
    }

    /// Vacates a slot.
    pub(super) fn add(&mut self, slot: usize) {
        self.total += 1;
        let mut i = slot + 1;
        while let Some(count) = self.tree.get_mut(i) {
            *count += 1;
            i += lowest_bit(i);
        }
    }

    /// Counts the vacated slots after `slot`.
    pub(super) fn after(&self, slot: usize) -> usize {
        let mut i = slot + 1;
        let mut through = 0;
        while i > 0 {
            through += self.tree[i] as usize;
            i -= lowest_bit(i);
        }
        self.total - through
    }
}

/// Sums of weights over slots, with updates and prefix sums in logarithmic time.
#[derive(Debug)]
pub(super) struct Weights {
    tree: Vec<u64>,
    total: u64,
}

impl Weights {
    /// Makes a tree over `slots` slots, all of them empty.
    pub(super) fn new(slots: usize) -> Self {
        Self {
            tree: vec![0; slots + 1],
            total: 0,
        }
    }

    /// Slots of the tree.
    pub(super) fn slots(&self) -> usize {
        self.tree.len() - 1
    }

    /// Puts a weight into a slot.
    pub(super) fn add(&mut self, slot: usize, weight: u64) {
        self.total += weight;
        self.change(slot, |sum| *sum += weight);
    }

    /// Takes out of a slot what was put there.
    pub(super) fn take(&mut self, slot: usize, weight: u64) {
        self.total -= weight;
        self.change(slot, |sum| *sum -= weight);
    }

    /// Sums the weights after `slot`.
    pub(super) fn after(&self, slot: usize) -> u64 {
        let mut i = slot + 1;
        let mut through = 0;
        while i > 0 {
            through += self.tree[i];
            i -= lowest_bit(i);
        }
        self.total - through
    }

    fn change(&mut self, slot: usize, mut by: impl FnMut(&mut u64)) {
        let mut i = slot + 1;
        while let Some(sum) = self.tree.get_mut(i) {
            by(sum);
            i += lowest_bit(i);
        }
    }
}

fn lowest_bit(i: usize) -> usize {
    i & i.wrapping_neg()
}

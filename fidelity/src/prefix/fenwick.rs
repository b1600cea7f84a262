//! How many slots of the clock were vacated, up to a slot: a Fenwick tree.

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

fn lowest_bit(i: usize) -> usize {
    i & i.wrapping_neg()
}

//! How many slots of the clock are occupied, up to a slot: a Fenwick tree.

/// Counts over slots, with updates and prefix sums in logarithmic time.
#[derive(Debug)]
pub(super) struct Fenwick(Vec<u32>);

impl Fenwick {
    /// Makes a tree of `slots` slots, of which the first `occupied` hold one each.
    pub(super) fn with_occupied(slots: usize, occupied: usize) -> Self {
        let mut tree: Vec<u32> = (0..=slots)
            .map(|i| u32::from(1 <= i && i <= occupied))
            .collect();
        for i in 1..=slots {
            let parent = i + lowest_bit(i);
            if parent <= slots {
                tree[parent] += tree[i];
            }
        }
        Self(tree)
    }

    /// Occupies a slot.
    pub(super) fn occupy(&mut self, slot: usize) {
        let mut i = slot + 1;
        while let Some(count) = self.0.get_mut(i) {
            *count += 1;
            i += lowest_bit(i);
        }
    }

    /// Vacates an occupied slot.
    pub(super) fn vacate(&mut self, slot: usize) {
        let mut i = slot + 1;
        while let Some(count) = self.0.get_mut(i) {
            *count -= 1;
            i += lowest_bit(i);
        }
    }

    /// Counts the occupied slots up to and with `slot`.
    pub(super) fn occupied_through(&self, slot: usize) -> usize {
        let mut i = slot + 1;
        let mut sum = 0;
        while i > 0 {
            sum += self.0[i] as usize;
            i -= lowest_bit(i);
        }
        sum
    }
}

fn lowest_bit(i: usize) -> usize {
    i & i.wrapping_neg()
}

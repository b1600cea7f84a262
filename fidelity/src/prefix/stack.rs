//! The LRU stack, as a clock with one slot for every move.

use super::fenwick::Vacancies;
use crate::mix::MixMap;

/// Slots of a new clock.
const SLOTS_MIN: usize = 1_024;

/// A slot that nobody occupies.
const VACANT: u32 = u32::MAX;

/// All blocks ever seen, by recency.
///
/// Memory is linear in distinct blocks: when the clock runs out of slots, the live blocks move
/// down to its first slots, and the clock becomes twice as long as they need. Holds up to 2^32 - 1
/// distinct blocks.
#[derive(Debug)]
pub struct Stack {
    /// The index of each block.
    index: MixMap<u32>,
    /// The slot of each index.
    last: Vec<u32>,
    /// The index in each slot used so far; its length is the time.
    occupant: Vec<u32>,
    slots: usize,
    vacancies: Vacancies,
    /// The indices of the request under way, as far as its blocks were seen before.
    seen: Vec<u32>,
}

/// Counts the hits at a capacity among the depths that [`Stack::request`] gave.
pub fn hits(depths: &[usize], capacity: usize) -> usize {
    depths.partition_point(|&depth| depth < capacity)
}

impl Default for Stack {
    fn default() -> Self {
        Self::new()
    }
}

impl Stack {
    /// Makes an empty stack.
    pub fn new() -> Self {
        Self {
            index: MixMap::default(),
            last: Vec::new(),
            occupant: Vec::new(),
            slots: SLOTS_MIN,
            vacancies: Vacancies::none_of(SLOTS_MIN),
            seen: Vec::new(),
        }
    }

    /// Distinct blocks seen so far.
    pub fn live(&self) -> usize {
        self.last.len()
    }

    /// Takes one request, and says how deep in the stack its blocks lay.
    ///
    /// `depths` becomes one number for each block of the leading run that was seen before: the
    /// largest number of more recent distinct blocks along that run, so it never falls.
    pub fn request(&mut self, blocks: &[u64], depths: &mut Vec<usize>) {
        depths.clear();
        self.look_up(blocks, depths);
        let (seen, unseen) = blocks.split_at(depths.len());
        for &block in unseen.iter().rev() {
            let next_index = self.last.len() as u32;
            let index = *self.index.entry(block).or_insert(next_index);
            self.move_to_top(index);
        }
        for place in (0..seen.len()).rev() {
            self.move_to_top(self.seen[place]);
        }
    }

    fn look_up(&mut self, blocks: &[u64], depths: &mut Vec<usize>) {
        self.seen.clear();
        let mut above: Option<(u32, usize)> = None;
        let mut deepest = 0;
        for block in blocks {
            let Some(&index) = self.index.get(block) else {
                return;
            };
            let slot = self.last[index as usize];
            let depth = match above {
                // A chain that was moved as a whole lies in neighbouring slots: no sum needed.
                Some((neighbour, depth)) if neighbour == slot + 1 => depth + 1,
                _ => self.occupied_after(slot as usize),
            };
            above = Some((slot, depth));
            deepest = deepest.max(depth);
            depths.push(deepest);
            self.seen.push(index);
        }
    }

    /// Counts the blocks that are more recent than the one in a slot.
    fn occupied_after(&self, slot: usize) -> usize {
        self.occupant.len() - 1 - slot - self.vacancies.after(slot)
    }

    fn move_to_top(&mut self, index: u32) {
        if self.occupant.len() == self.slots {
            self.compact();
        }
        let slot = self.occupant.len() as u32;
        match self.last.get_mut(index as usize) {
            None => self.last.push(slot),
            Some(last) => {
                let old = std::mem::replace(last, slot) as usize;
                self.occupant[old] = VACANT;
                self.vacancies.add(old);
            }
        }
        self.occupant.push(index);
    }

    fn compact(&mut self) {
        self.occupant.retain(|&index| index != VACANT);
        for (slot, &index) in self.occupant.iter().enumerate() {
            self.last[index as usize] = slot as u32;
        }
        self.slots = SLOTS_MIN.max(2 * self.occupant.len());
        self.vacancies = Vacancies::none_of(self.slots);
    }
}

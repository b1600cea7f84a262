//! Memory for what is being captured, bounded in bytes.

use crate::limits;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What bytes are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Bodies and timelines: given up first.
    Frames,
    /// Facts of arrival and end: given up last, so a part of the budget is kept for them.
    Facts,
}

/// The budget of one proxy. Taking from it is one atomic operation and never waits.
#[derive(Debug)]
pub struct Budget {
    used: AtomicUsize,
    max: usize,
    frames_max: usize,
}

impl Budget {
    /// A budget of `max` bytes.
    pub fn new(max: usize) -> Arc<Self> {
        let frames_max = max - max / limits::TERMINAL_SHARE;
        Arc::new(Self {
            used: AtomicUsize::new(0),
            max,
            frames_max,
        })
    }

    /// Bytes taken now.
    pub fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Bytes that may be taken.
    pub fn max(&self) -> usize {
        self.max
    }

    /// Whether enough is taken for long bodies to be worth packing.
    pub fn is_tight(&self) -> bool {
        self.used() > self.max / limits::TIGHT_SHARE
    }

    fn try_take(&self, bytes: usize, purpose: Purpose) -> bool {
        let limit = match purpose {
            Purpose::Frames => self.frames_max,
            Purpose::Facts => self.max,
        };
        let fits = |used: usize| used.checked_add(bytes).filter(|total| *total <= limit);
        self.used.fetch_update(Relaxed, Relaxed, fits).is_ok()
    }
}

/// Bytes taken from a budget; they go back when it is dropped.
#[derive(Debug)]
pub struct Held {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Held {
    /// Holds nothing yet.
    pub fn nothing(budget: &Arc<Budget>) -> Self {
        Self {
            budget: Arc::clone(budget),
            bytes: 0,
        }
    }

    /// Takes more, or takes nothing and says so.
    pub fn grow(&mut self, bytes: usize, purpose: Purpose) -> bool {
        let taken = self.budget.try_take(bytes, purpose);
        if taken {
            self.bytes += bytes;
        }
        taken
    }

    /// Gives some back.
    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.budget.used.fetch_sub(bytes, Relaxed);
    }

    /// Gives back all but so many.
    pub fn shrink_to(&mut self, bytes: usize) {
        self.shrink(self.bytes.saturating_sub(bytes));
    }

    /// Makes a part of it an own thing.
    pub fn split(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self {
            budget: Arc::clone(&self.budget),
            bytes,
        }
    }

    /// Takes over what another holds of the same budget.
    pub fn absorb(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{Budget, Held, Purpose};

    #[test]
    fn frames_leave_room_for_facts() {
        let budget = Budget::new(800);
        let mut frames = Held::nothing(&budget);
        assert!(frames.grow(700, Purpose::Frames));
        assert!(!frames.grow(1, Purpose::Frames));
        let mut facts = Held::nothing(&budget);
        assert!(facts.grow(100, Purpose::Facts));
        assert!(!facts.grow(1, Purpose::Facts));
        assert_eq!(budget.used(), 800);
    }

    #[test]
    fn what_is_held_goes_back() {
        let budget = Budget::new(800);
        let mut one = Held::nothing(&budget);
        let mut two = Held::nothing(&budget);
        assert!(one.grow(10, Purpose::Frames) && two.grow(20, Purpose::Frames));
        one.absorb(two);
        assert_eq!(budget.used(), 30);
        let part = one.split(7);
        assert_eq!(budget.used(), 30);
        one.absorb(part);
        one.shrink(5);
        assert_eq!(budget.used(), 25);
        drop(one);
        assert_eq!(budget.used(), 0);
    }
}

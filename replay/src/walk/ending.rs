//! The end of an exchange, as the schedule hears of it.

use super::Shared;

/// Tells the schedule that an exchange has ended, also when its task panics: a dependent turn that
/// waited for it would wait for ever.
pub(super) struct Ending<'a> {
    pub(super) shared: &'a Shared,
    pub(super) index: u32,
    pub(super) awaited: bool,
}

impl Ending<'_> {
    pub(super) fn at(mut self, end_us: i64, is_answered: bool) {
        self.tell(end_us, is_answered);
    }

    fn tell(&mut self, end_us: i64, is_answered: bool) {
        match (std::mem::take(&mut self.awaited), is_answered) {
            (true, true) => self.shared.inbox.ended(self.index, end_us),
            (true, false) => self.shared.inbox.failed(self.index, end_us),
            (false, _) => {}
        }
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.tell(self.shared.clock.now_us(), false);
    }
}

//! What is known of a run only when it is over.

use super::Shared;
use std::sync::atomic::Ordering;

impl Shared {
    /// What a user should know of the whole run.
    pub(super) fn findings(&self) -> Vec<String> {
        let stayed = self.stayed.load(Ordering::Relaxed);
        let stayed = (stayed != 0).then(|| {
            format!(
                "cancels: {stayed} answers ended before production's client had gone away: they were read whole"
            )
        });
        let opened = self.client.opened_late();
        let opened = (opened != 0).then(|| {
            format!(
                "connections: {opened} requests came over an open connection in production and had to open one here"
            )
        });
        let found = self.answers.finding().into_iter();
        found.chain(stayed).chain(opened).collect()
    }
}

//! One run over several processes: which sessions are whose, and what they all agree on.
//!
//! Every process plans the whole run and sends its part. Sessions are dealt by a hash of their name,
//! so that no process has to be told what another has, and no session is split.

use crate::cli::ArrivalArgs;
use crate::error::Error;
use crate::load::Loaded;
use std::borrow::Cow;
use std::time::Duration;
use truetape_schemas::ids::Digester;
use truetape_schemas::set::Turn;

pub mod merge;

/// One of several processes that share a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 1.
    pub index: u32,
    /// How many there are.
    pub count: u32,
}

/// Ends the finding of a shard; a merged report does without it.
const MERGES: &str = "other shards'; `truetape report` merges them";

/// Processes that share a run at most: enough for any cluster, and a slip of the finger is told.
const COUNT_MAX: u32 = 10_000;

impl Shard {
    /// Reads `I/N`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/');
        let numbers = parts.and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        let shard = numbers.map(|(index, count)| Self { index, count });
        shard
            .filter(|shard| {
                1 <= shard.index && shard.index <= shard.count && shard.count <= COUNT_MAX
            })
            .ok_or_else(|| {
                format!("allowed is I/N with I from 1 to N, N up to {COUNT_MAX}, as in 2/4")
            })
    }

    /// The word of it, as it is typed.
    pub fn word(self) -> String {
        format!("{}/{}", self.index, self.count)
    }

    /// What a user should know of a run that is a part.
    pub fn finding(self, elsewhere: usize) -> String {
        format!(
            "shard {} of a run: {elsewhere} turns are {MERGES}",
            self.word()
        )
    }

    /// Whether a session is its own.
    pub fn has(self, session: &str) -> bool {
        let hash = blake3::hash(session.as_bytes());
        let mut first = [0; 8];
        for (to, from) in first.iter_mut().zip(hash.as_bytes()) {
            *to = *from;
        }
        let dealt = u64::from_le_bytes(first) % u64::from(self.count.max(1));
        dealt + 1 == u64::from(self.index)
    }
}

/// Hexadecimal digits of a run id that was agreed on: 128 bits.
const RUN_ID_CHARS: usize = 32;

/// The run id of all shards of a run: nobody has to hand it around, and the salt follows from it.
pub fn run_id(set_digest: &str, target: &str, start_at_us: i64, count: u32) -> String {
    let mut digest = Digester::new();
    for value in [set_digest.as_bytes(), target.as_bytes()] {
        digest.add(value);
    }
    digest.add(&start_at_us.to_le_bytes());
    digest.add(&count.to_le_bytes());
    digest.finish().chars().take(RUN_ID_CHARS).collect()
}

/// The id of a run: shards of one agree on it, and with it on the salt.
pub fn own_run_id(asked: &ArrivalArgs, target: &str, set: &Loaded) -> String {
    match asked.shard.zip(asked.start_at) {
        Some((shard, start_at_us)) => {
            run_id(&set.manifest.digest, target, start_at_us, shard.count)
        }
        None => truetape_schemas::ids::new_exchange_id(),
    }
}

/// The turns that a run was to send: those of other shards are no loss of its own.
pub fn own_turns(set: &Loaded, shard: Option<Shard>) -> Cow<'_, [Turn]> {
    let Some(shard) = shard else {
        return Cow::Borrowed(&set.turns);
    };
    let own = set.turns.iter().filter(|turn| shard.has(&turn.session));
    Cow::Owned(own.cloned().collect())
}

/// Connections are opened this long before a start that lies ahead: servers close idle ones.
const WARM_LEAD: Duration = Duration::from_secs(1);

/// Time that is left until a start on the wall clock. One that has passed is refused: shards would not
/// be in step.
pub fn left_until(start_at_us: i64) -> Result<Duration, Error> {
    let left_us = start_at_us - truetape_schemas::time::wall_now_us();
    u64::try_from(left_us)
        .map(Duration::from_micros)
        .map_err(|_| {
            let start = truetape_schemas::time::format_utc(start_at_us);
            let late_s = left_us.unsigned_abs() as f64 / 1e6;
            let problem =
                format!("{start} was {late_s:.3} s ago when the run was ready; name a later time");
            Error::config("--start-at", problem)
        })
}

/// Waits until it is time to open connections.
pub async fn wait_for_start(start_at_us: Option<i64>) -> Result<(), Error> {
    if let Some(start_at_us) = start_at_us {
        let left = left_until(start_at_us)?;
        tokio::time::sleep(left.saturating_sub(WARM_LEAD)).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_session_is_in_one_shard_and_shards_are_about_equal() {
        let sessions: Vec<String> = (0..4_000).map(|i| format!("session-{i}")).collect();
        for count in [1, 2, 3, 8] {
            let mut sizes = vec![0_u32; count as usize];
            for session in &sessions {
                let owners = (1..=count).filter(|index| {
                    Shard {
                        index: *index,
                        count,
                    }
                    .has(session)
                });
                let owners: Vec<u32> = owners.collect();
                assert_eq!(owners.len(), 1);
                sizes[owners[0] as usize - 1] += 1;
            }
            // Five deviations of a binomial: sqrt(4000/n).
            let even = 4_000.0 / f64::from(count);
            let close = |size: &u32| (f64::from(*size) - even).abs() <= 5.0 * even.sqrt();
            assert!(sizes.iter().all(close), "{sizes:?}");
        }
    }

    #[test]
    fn a_shard_stays_the_same_shard() {
        // The deal is part of what processes agree on: another version must not deal anew.
        let dealt = ["a", "b", "c", "d", "e", "f"].map(|session| {
            (1..=3).find(|index| {
                Shard {
                    index: *index,
                    count: 3,
                }
                .has(session)
            })
        });
        assert_eq!(dealt, DEALT);
    }

    const DEALT: [Option<u32>; 6] = [Some(1), Some(2), Some(1), Some(2), Some(1), Some(3)];

    #[test]
    fn shards_are_read_and_slips_are_told() {
        assert_eq!(Shard::parse("2/4"), Ok(Shard { index: 2, count: 4 }));
        for slip in ["0/4", "5/4", "1", "1/0", "a/b", "1/20000", "-1/2", ""] {
            assert!(
                Shard::parse(slip)
                    .unwrap_err()
                    .starts_with("allowed is I/N"),
                "{slip}"
            );
        }
    }

    #[test]
    fn shards_agree_on_a_run_and_runs_differ() {
        let id = run_id("d", "http://t", 5, 2);
        assert_eq!(id, run_id("d", "http://t", 5, 2));
        assert_eq!(id.len(), RUN_ID_CHARS);
        let others = [
            run_id("e", "http://t", 5, 2),
            run_id("d", "http://u", 5, 2),
            run_id("d", "http://t", 6, 2),
            run_id("d", "http://t", 5, 3),
        ];
        assert!(others.iter().all(|other| *other != id));
    }
}

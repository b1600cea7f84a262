//! Blocks that go from hand to hand: what strangers share of their prompts.

use crate::mix::{MixMap, MixSet};

/// Blocks that go from one owner to another at least `least` times, in the order of the prompts.
///
/// Hashes are chained: whoever holds a block holds all that lie above it, so that counts only fall
/// along a prompt. Blocks are counted depth by depth, and a prompt is done with at its first block
/// that goes around less often: of millions of blocks, few are ever looked at.
pub fn handed_on<'a>(prompts: impl Iterator<Item = (u32, &'a [u64])>, least: f64) -> MixSet {
    let mut often = MixSet::default();
    let mut open: Vec<(u32, &[u64])> = prompts.collect();
    for depth in 0.. {
        // By block: who held it last, and how often it changed hands.
        let mut uses: MixMap<(u32, u32)> = MixMap::default();
        for (owner, blocks) in &open {
            let Some(block) = blocks.get(depth) else {
                continue;
            };
            let (last, handovers) = uses.entry(*block).or_insert((*owner, 0));
            *handovers += u32::from(last != owner);
            *last = *owner;
        }
        let many = uses
            .into_iter()
            .filter(|(_, (_, handovers))| f64::from(*handovers) >= least);
        let many: MixSet = many.map(|(block, _)| block).collect();
        if many.is_empty() {
            break;
        }
        open.retain(|(_, blocks)| blocks.get(depth).is_some_and(|block| many.contains(block)));
        often.extend(many);
    }
    often
}

#[cfg(test)]
mod tests {
    use super::handed_on;
    use crate::mix::{MixMap, MixSet, mix};
    use proptest::prelude::*;

    /// Counts every block of every prompt.
    fn counted(prompts: &[(u32, Vec<u64>)], least: f64) -> MixSet {
        let mut uses: MixMap<(u32, f64)> = MixMap::default();
        for (owner, blocks) in prompts {
            for block in blocks {
                let (last, handovers) = uses.entry(*block).or_insert((*owner, 0.0));
                *handovers += f64::from(u8::from(last != owner));
                *last = *owner;
            }
        }
        let many = uses.into_iter().filter(|(_, (_, n))| *n >= least);
        many.map(|(block, _)| block).collect()
    }

    fn chained(path: &[u8]) -> Vec<u64> {
        let step = |above: &mut u64, step: &u8| {
            *above = mix(*above ^ mix(u64::from(*step)));
            Some(*above)
        };
        path.iter().scan(7, step).collect()
    }

    #[test]
    fn what_one_owner_repeats_goes_nowhere() {
        let prompts = [
            (1, vec![5, 6]),
            (1, vec![5, 6]),
            (2, vec![5, 7]),
            (1, vec![5]),
        ];
        let found = handed_on(prompts.iter().map(|(owner, b)| (*owner, b.as_slice())), 2.0);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [5]);
        assert!(handed_on([].into_iter(), 1.0).is_empty());
    }

    proptest! {
        #[test]
        fn it_finds_what_counting_everything_finds(
            paths in prop::collection::vec((0..6_u32, prop::collection::vec(0..3_u8, 0..7)), 0..60),
            least in 1..8_u32,
        ) {
            let prompts: Vec<(u32, Vec<u64>)> = paths
                .iter()
                .map(|(owner, path)| (*owner, chained(path)))
                .collect();
            let least = f64::from(least);
            let found = handed_on(prompts.iter().map(|(owner, b)| (*owner, b.as_slice())), least);
            prop_assert_eq!(found, counted(&prompts, least));
        }
    }
}

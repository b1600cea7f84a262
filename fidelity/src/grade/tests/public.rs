//! Other people's replays.

use super::runs::Replay;
use super::*;
use truetape_schemas::capture::Outcome;

/// Public replays on a reasoning model that nobody told when to stop: 5.6 to 8 times the recorded
/// output (the rows of one replay that failed generated nothing, and are counted here).
#[test]
fn public_replays_that_did_not_enforce_lengths_are_pessimistic() {
    for name in ["conc8_offload", "conc64_offload"] {
        let columns = [
            "input_tokens",
            "output_tokens_expected",
            "output_tokens_actual",
        ];
        let log = crate::testdata::columns(&format!("inferencex/{name}.csv"), columns);
        let Some(log) = log else { continue };
        let mut replay = Replay::faithful();
        replay.turns.clear();
        replay.dispatches.clear();
        for ([input, asked, got], turn_id) in log.into_iter().zip(0..) {
            replay.turns.push(Turn {
                turn_id,
                input_tokens: Some(input),
                output_tokens: Some(asked),
                ..Turn::default()
            });
            replay.dispatches.push(Dispatch {
                turn_id,
                sent_us: Some(0),
                output_tokens: Some(got),
                outcome: Some(Outcome::Complete),
                ..Dispatch::default()
            });
        }
        let report = replay.report();
        fails(
            &report,
            &[("run.output_tokens.ratio", Direction::Pessimistic)],
        );
        let times = find(&report, "run.output_tokens.ratio").deviation.unwrap() + 1.0;
        assert!((5.6..8.1).contains(&times), "{name}: {times}");
    }
}

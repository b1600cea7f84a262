use super::in_virtual_time::Answer;
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const CAPPED_AT: usize = 2;

/// Walks a schedule in virtual time: returns `(index, sent, ready)` in the order of sending.
fn walk(schedule: Schedule, service_us: &dyn Fn(u32) -> i64) -> Vec<(u32, i64, i64)> {
    let walked = in_virtual_time::walk(schedule, |index| Answer::after(service_us(index)));
    let sends = walked.sends.iter();
    sends
        .map(|send| (send.index, send.sent_us, send.ready_us))
        .collect()
}

fn sent_ms(nodes: Vec<Node>, pacing: Pacing, service_ms: i64) -> Vec<i64> {
    let schedule = Schedule::new(nodes, pacing, usize::MAX);
    walk(schedule, &|_| service_ms * 1_000)
        .iter()
        .map(|send| send.1 / 1_000)
        .collect()
}

/// The session of case o37: starts 0, 10, 25 s; pauses 2 and 12 s.
fn session(think_scale: f64) -> Vec<Node> {
    let think = |ms: f64| Some((ms * 1_000.0 * think_scale) as i64);
    vec![
        Node {
            due_us: 0,
            depends_on: vec![],
            think_us: None,
            ..Node::default()
        },
        Node {
            due_us: 10_000_000,
            depends_on: vec![0],
            think_us: think(2_000.0),
            ..Node::default()
        },
        Node {
            due_us: 25_000_000,
            depends_on: vec![1],
            think_us: think(12_000.0),
            ..Node::default()
        },
    ]
}

#[test]
fn pauses_are_waited_after_the_answer_and_not_after_the_question() {
    assert_eq!(
        sent_ms(session(1.0), Pacing::Closed, 1_000),
        [0, 3_000, 16_000]
    );
    assert_eq!(
        sent_ms(session(0.5), Pacing::Closed, 1_000),
        [0, 2_000, 9_000]
    );
    assert_eq!(
        sent_ms(session(1.0), Pacing::Open, 1_000),
        [0, 10_000, 25_000]
    );
    assert_eq!(
        sent_ms(session(1.0), Pacing::Hybrid, 1_000),
        [0, 10_000, 25_000]
    );
}

#[test]
fn a_slow_target_delays_the_session_and_nothing_else() {
    // 9 s of service: turn 2 at max(10, 9 + 2) = 11, turn 3 at max(25, 20 + 12) = 32.
    assert_eq!(
        sent_ms(session(1.0), Pacing::Hybrid, 9_000),
        [0, 11_000, 32_000]
    );
    assert_eq!(
        sent_ms(session(1.0), Pacing::Open, 9_000),
        [0, 10_000, 25_000]
    );
}

#[test]
fn a_burst_leaves_at_once_and_in_plan_order() {
    let nodes: Vec<Node> = (0..50)
        .map(|_| Node {
            due_us: 7,
            ..Node::default()
        })
        .collect();
    let sends = walk(Schedule::new(nodes, Pacing::Hybrid, usize::MAX), &|_| 1_000);
    let order: Vec<u32> = sends.iter().map(|send| send.0).collect();
    assert_eq!(order, (0..50).collect::<Vec<u32>>());
    assert!(sends.iter().all(|send| send.1 == 7));
}

#[test]
fn waiting_for_the_cap_is_lateness() {
    // Case o29: 8 requests 100 ms apart, 500 ms of service, one in flight.
    let nodes = (0..8)
        .map(|i| Node {
            due_us: i * 100_000,
            ..Node::default()
        })
        .collect();
    let sends = walk(Schedule::new(nodes, Pacing::Hybrid, 1), &|_| 500_000);
    let late_ms: Vec<i64> = sends.iter().map(|send| (send.1 - send.2) / 1_000).collect();
    assert_eq!(late_ms, [0, 400, 800, 1_200, 1_600, 2_000, 2_400, 2_800]);
}

#[test]
fn a_turn_without_a_known_pause_keeps_its_arrival_in_a_closed_loop() {
    let nodes = vec![
        Node {
            due_us: 0,
            ..Node::default()
        },
        Node {
            due_us: 5_000_000,
            depends_on: vec![0],
            think_us: None,
            ..Node::default()
        },
    ];
    assert_eq!(sent_ms(nodes.clone(), Pacing::Closed, 1_000), [0, 5_000]);
    assert_eq!(sent_ms(nodes, Pacing::Closed, 8_000), [0, 8_000]);
}

#[test]
fn the_latest_end_counts_in_whatever_order_ends_are_told() {
    for order in [[(0, 900), (1, 500)], [(1, 500), (0, 900)]] {
        let last = Node {
            due_us: 100,
            depends_on: vec![0, 1],
            think_us: Some(30),
            ..Node::default()
        };
        let nodes = vec![Node::default(), Node::default(), last];
        let mut schedule = Schedule::new(nodes, Pacing::Hybrid, usize::MAX);
        schedule.take_due(0, &mut Vec::new());
        for (index, end_us) in order {
            assert_eq!(schedule.next_deadline_us(), None);
            schedule.ended(index, end_us);
        }
        assert_eq!(schedule.next_deadline_us(), Some(930));
    }
}

#[test]
fn only_ends_that_matter_are_awaited() {
    let nodes = vec![
        Node::default(),
        Node {
            depends_on: vec![0],
            ..Node::default()
        },
    ];
    let schedule = Schedule::new(nodes.clone(), Pacing::Hybrid, usize::MAX);
    assert_eq!([schedule.awaits(0), schedule.awaits(1)], [true, false]);
    let open = Schedule::new(nodes.clone(), Pacing::Open, usize::MAX);
    assert_eq!([open.awaits(0), open.awaits(1)], [false, false]);
    let capped = Schedule::new(nodes, Pacing::Hybrid, 1);
    assert_eq!([capped.awaits(0), capped.awaits(1)], [true, true]);
}

#[derive(Clone, Debug)]
struct Case {
    nodes: Vec<Node>,
    session: Vec<usize>,
    service_us: Vec<i64>,
}

/// Sessions as trees: each turn depends on an earlier one of its session, or on none.
fn cases() -> impl Strategy<Value = Case> {
    let turn = (
        0usize..4,
        0i64..2_000,
        0usize..8,
        proptest::option::of(0i64..500),
        0i64..900,
    );
    proptest::collection::vec(turn, 1..40).prop_map(|turns| {
        let mut case = Case {
            nodes: vec![],
            session: vec![],
            service_us: vec![],
        };
        let mut due_us = 0;
        for (session, step_us, parent, think_us, service_us) in turns {
            due_us += step_us;
            let mine: Vec<usize> = (0..case.session.len())
                .filter(|&i| case.session[i] == session)
                .collect();
            let depends_on = mine.get(parent).map(|&i| i as u32).into_iter().collect();
            case.nodes.push(Node {
                due_us,
                depends_on,
                think_us,
                ..Node::default()
            });
            case.session.push(session);
            case.service_us.push(service_us);
        }
        case
    })
}

fn pacings() -> impl Strategy<Value = (Pacing, usize)> {
    let pacing = prop_oneof![
        Just(Pacing::Hybrid),
        Just(Pacing::Closed),
        Just(Pacing::Open)
    ];
    (pacing, prop_oneof![Just(usize::MAX), Just(CAPPED_AT)])
}

proptest! {
    /// R2, R3, R4 for any tree of turns and any service times.
    #[test]
    fn sessions_keep_order_and_nothing_is_early_or_lost(case in cases(), (pacing, cap) in pacings()) {
        let schedule = Schedule::new(case.nodes.clone(), pacing, cap);
        let sends = walk(schedule, &|index| case.service_us[index as usize]);
        prop_assert_eq!(sends.len(), case.nodes.len());
        let sent: BTreeMap<u32, i64> = sends.iter().map(|send| (send.0, send.1)).collect();
        prop_assert_eq!(sent.len(), case.nodes.len());
        for &(index, sent_us, ready_us) in &sends {
            let node = &case.nodes[index as usize];
            prop_assert!(ready_us <= sent_us);
            if pacing != Pacing::Closed {
                prop_assert!(node.due_us <= sent_us);
            }
            if pacing == Pacing::Open {
                continue;
            }
            for dependency in &node.depends_on {
                let end_us = sent[dependency] + case.service_us[*dependency as usize];
                prop_assert!(end_us + node.think_us.unwrap_or(0) <= sent_us);
            }
        }
        if cap == usize::MAX {
            // Without a cap and in virtual time nothing is late at all.
            prop_assert!(sends.iter().all(|send| send.1 == send.2));
        }
    }

    /// The cap holds at every instant.
    #[test]
    fn the_cap_is_never_exceeded(case in cases()) {
        let schedule = Schedule::new(case.nodes.clone(), Pacing::Hybrid, CAPPED_AT);
        let sends = walk(schedule, &|index| case.service_us[index as usize].max(1));
        for &(_, at_us, _) in &sends {
            let busy = sends.iter().filter(|(index, sent_us, _)| {
                let end_us = sent_us + case.service_us[*index as usize].max(1);
                *sent_us <= at_us && at_us < end_us
            });
            prop_assert!(busy.count() <= CAPPED_AT);
        }
    }

    /// R4: whenever the run is stopped, every dispatch is either sent or withdrawn, and none is both.
    #[test]
    fn what_is_not_sent_is_withdrawn(case in cases(), stop_us in 0i64..20_000) {
        let count = case.nodes.len();
        let mut schedule = Schedule::new(case.nodes, Pacing::Hybrid, usize::MAX);
        let mut releases = Vec::new();
        schedule.take_due(stop_us, &mut releases);
        let sent: Vec<u32> = releases.iter().map(|release| release.index).collect();
        for (nth, &index) in sent.iter().enumerate() {
            // Half of them end before the stop, half after.
            if nth % 2 == 0 {
                schedule.ended(index, stop_us);
            }
        }
        let mut all: Vec<u32> = schedule.withdraw();
        prop_assert!(schedule.is_done());
        for &index in &sent {
            schedule.ended(index, stop_us);
        }
        let mut after = Vec::new();
        schedule.take_due(i64::MAX, &mut after);
        prop_assert!(after.is_empty());
        all.extend(sent);
        all.sort_unstable();
        prop_assert_eq!(all, (0..count as u32).collect::<Vec<u32>>());
    }
}

fn after(depends_on: &[u32]) -> Node {
    Node {
        depends_on: depends_on.to_vec(),
        think_us: Some(10),
        ..Node::default()
    }
}

/// A chain 0-1-2, a fork of 1 into 2 and 3, and 4 that waits for 3 and for an unrelated 5.
fn forked() -> Vec<Node> {
    let root = Node::default();
    vec![
        root.clone(),
        after(&[0]),
        after(&[1]),
        after(&[1]),
        after(&[3, 5]),
        root,
    ]
}

fn failing(nodes: Vec<Node>, skips: bool, failures: &[u32]) -> in_virtual_time::Walked {
    let schedule = Schedule::new(nodes, Pacing::Hybrid, usize::MAX).skipping_after_failure(skips);
    in_virtual_time::walk(schedule, |index| Answer {
        service_us: 100,
        is_failure: failures.contains(&index),
    })
}

#[test]
fn what_depends_on_a_failed_turn_goes_on_or_is_skipped_as_asked() {
    let sent = |walked: &in_virtual_time::Walked| {
        let mut sent: Vec<u32> = walked.sends.iter().map(|send| send.index).collect();
        sent.sort_unstable();
        sent
    };
    let goes_on = failing(forked(), false, &[1]);
    assert_eq!(sent(&goes_on), [0, 1, 2, 3, 4, 5]);
    assert_eq!(goes_on.unsent, Unsent::default());
    let mut skips = failing(forked(), true, &[1]);
    skips.unsent.skipped.sort_unstable();
    assert_eq!(sent(&skips), [0, 1, 5]);
    assert_eq!(
        (skips.unsent.skipped, skips.unsent.withdrawn),
        (vec![2, 3, 4], vec![])
    );
    // A leaf takes nobody along.
    assert_eq!(sent(&failing(forked(), true, &[2, 4])), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn where_productions_turn_failed_too_its_client_went_on() {
    let mut nodes = forked();
    nodes[1].outlives_failure = true;
    let walked = failing(nodes, true, &[1]);
    assert_eq!(walked.sends.len(), 6);
}

proptest! {
    /// R4 with failures: every dispatch is sent or skipped, and what is skipped has a failed ancestor.
    #[test]
    fn what_is_skipped_has_a_failed_ancestor(case in cases(), failures in proptest::collection::vec(any::<bool>(), 40)) {
        let schedule = Schedule::new(case.nodes.clone(), Pacing::Hybrid, usize::MAX).skipping_after_failure(true);
        let walked = in_virtual_time::walk(schedule, |index| Answer {
            service_us: case.service_us[index as usize],
            is_failure: failures[index as usize],
        });
        prop_assert_eq!(walked.sends.len() + walked.unsent.skipped.len(), case.nodes.len());
        let mut lost = vec![false; case.nodes.len()];
        for (index, node) in case.nodes.iter().enumerate() {
            // Parents come first, so that one pass is enough.
            lost[index] = node.depends_on.iter().any(|&parent| lost[parent as usize] || failures[parent as usize]);
        }
        for (index, lost) in lost.into_iter().enumerate() {
            prop_assert_eq!(walked.unsent.skipped.contains(&(index as u32)), lost);
        }
    }
}

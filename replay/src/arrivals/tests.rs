use super::*;
use proptest::prelude::*;
use truetape_fidelity::dispersion::{Counts, SECOND_US, span_us};

/// Bursts: a few starts at once, then a long pause, some of it on a grid of its own.
fn bursty(count: i64) -> Vec<i64> {
    (0..count)
        .map(|i| i / 20 * 7_000_000 + i % 20 * 1_000 + i / 400 * 90_000_000)
        .collect()
}

fn placed(placing: &Placing, starts_us: &[i64]) -> Vec<i64> {
    placing
        .place(starts_us, None)
        .starts_us
        .into_iter()
        .flatten()
        .collect()
}

fn control(arrivals: Arrivals, seed: u64) -> Placing {
    Placing {
        arrivals,
        seed,
        ..Placing::default()
    }
}

fn shaped(rate_scale: f64) -> Placing {
    Placing {
        rate_scale,
        rate_mode: RateMode::Shape,
        ..Placing::default()
    }
}

/// Coefficient of variation of the gaps.
fn cv(starts_us: &[i64]) -> f64 {
    let gaps: Vec<f64> = starts_us
        .windows(2)
        .map(|pair| (pair[1] - pair[0]) as f64)
        .collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let squares: f64 = gaps.iter().map(|gap| (gap - mean).powi(2)).sum();
    (squares / gaps.len() as f64).sqrt() / mean
}

const CONTROLS: [Arrivals; 4] = [
    Arrivals::Constant,
    Arrivals::Poisson,
    Arrivals::Gamma(0.5),
    Arrivals::Gamma(3.0),
];

#[test]
fn a_control_has_the_count_and_the_mean_rate_of_the_set() {
    let starts_us = bursty(4_000);
    for arrivals in CONTROLS {
        let drawn = placed(&control(arrivals, 7), &starts_us);
        assert_eq!(drawn.len(), starts_us.len());
        assert_eq!(
            (drawn.first(), span_us(&drawn)),
            (starts_us.first(), span_us(&starts_us)),
            "{arrivals:?}"
        );
        assert!(drawn.is_sorted());
    }
}

#[test]
fn a_control_has_the_gaps_that_it_is_named_for() {
    let starts_us = bursty(4_000);
    let wanted = [0.0, 1.0, 0.5, 3.0];
    for (arrivals, wanted) in CONTROLS.into_iter().zip(wanted) {
        let found = cv(&placed(&control(arrivals, 3), &starts_us));
        // Three times the largest error of a coefficient over 4,000 gaps, which is the gamma's.
        assert!(
            (found - wanted).abs() <= 0.15 * wanted + 1e-3,
            "{arrivals:?}: {found}"
        );
    }
    let poisson = placed(&control(Arrivals::Poisson, 3), &starts_us);
    let idc = Counts::of(&poisson, 10 * SECOND_US).idc().unwrap();
    assert!((0.6..1.5).contains(&idc), "{idc}");
    assert!(Counts::of(&starts_us, 10 * SECOND_US).idc().unwrap() > 5.0);
}

#[test]
fn a_control_is_the_same_for_the_same_seed_and_another_for_another() {
    let starts_us = bursty(100);
    let of = |seed| placed(&control(Arrivals::Poisson, seed), &starts_us);
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

#[test]
fn sessions_that_start_at_once_have_no_rate_to_draw() {
    for arrivals in CONTROLS {
        assert_eq!(placed(&control(arrivals, 1), &[5, 5, 5]), [5, 5, 5]);
        assert_eq!(placed(&control(arrivals, 1), &[5]), [5]);
        assert!(placed(&control(arrivals, 1), &[]).is_empty());
    }
}

#[test]
fn a_shape_keeps_peaks_and_shrinks_dispersion_by_its_share() {
    let starts_us = bursty(8_000);
    for share in [0.5, 0.2, 0.1] {
        let kept = placed(&shaped(share), &starts_us);
        assert_eq!(kept.len(), (8_000.0 * share) as usize);
        assert!(
            kept.iter()
                .all(|start| starts_us.binary_search(start).is_ok())
        );
        for window_s in [10, 60] {
            let counts = |at: &[i64]| Counts::of(at, window_s * SECOND_US);
            let (whole, part) = (counts(&starts_us), counts(&kept));
            let ratio = |a: Option<f64>, b: Option<f64>| a.unwrap() / b.unwrap();
            let peak = ratio(part.peak_to_mean(), whole.peak_to_mean());
            let idc = ratio(part.idc(), whole.idc()) / share;
            assert!((peak - 1.0).abs() < 0.15, "{share} {window_s}: peak {peak}");
            assert!((idc - 1.0).abs() < 0.15, "{share} {window_s}: idc {idc}");
        }
    }
}

#[test]
fn a_share_too_small_keeps_one_session() {
    assert_eq!(placed(&shaped(0.001), &[1, 2, 3]), [2]);
    assert_eq!(placed(&shaped(1.0), &[1, 2, 3]), [1, 2, 3]);
}

#[test]
fn a_ramp_starts_sessions_at_the_rate_it_has_reached() {
    let starts_us: Vec<i64> = (0..=4_000).map(|i| i * 10_000).collect();
    let ramp = Placing {
        course: Course::parse_ramp("1..3").unwrap(),
        ..Placing::default()
    };
    let placed = placed(&ramp, &starts_us);
    // 40 s at a mean of twice the rate take 20 s.
    assert_eq!(placed.last(), Some(&20_000_000));
    let within = |from_s: i64, to_s: i64| {
        let is_in = |at: &&i64| from_s * SECOND_US <= **at && **at < to_s * SECOND_US;
        placed.iter().filter(is_in).count() as f64
    };
    // The first and the last of 20 seconds: 1.05 and 2.95 times a hundred a second.
    assert!((within(0, 1) - 105.0).abs() <= 1.0, "{}", within(0, 1));
    assert!((within(19, 20) - 295.0).abs() <= 1.0, "{}", within(19, 20));
}

#[test]
fn steps_are_equally_long_and_are_told() {
    let starts_us: Vec<i64> = (0..700).map(|i| i * 100_000).collect();
    let steps = Placing {
        course: Course::parse_steps("1, 2,4").unwrap(),
        ..Placing::default()
    };
    let found = steps.place(&starts_us, Some(30_000_000));
    let told: Vec<(f64, i64, i64)> = found
        .steps
        .iter()
        .map(|step| (step.rate_scale, step.from_us, step.to_us))
        .collect();
    let s = SECOND_US;
    assert_eq!(
        told,
        [
            (1.0, 0, 10 * s),
            (2.0, 10 * s, 20 * s),
            (4.0, 20 * s, 30 * s)
        ]
    );
    for (rate, from_us, to_us) in told {
        let starts = found.starts_us.iter().flatten();
        let count = starts.filter(|at| from_us <= **at && **at < to_us).count();
        assert!(
            (count as f64 - 100.0 * rate).abs() <= 1.0,
            "{rate}: {count}"
        );
    }
}

#[test]
fn words_are_read_as_they_are_written_and_slips_are_told() {
    for word in ["recorded", "constant", "poisson", "gamma:2", "gamma:0.5"] {
        assert_eq!(
            Arrivals::parse(word).map(Arrivals::word),
            Ok(word.to_owned())
        );
    }
    for slip in [
        "gamma",
        "gamma:",
        "gamma:0",
        "gamma:-1",
        "gamma:nan",
        "gamma:101",
        "steady",
        "",
    ] {
        assert!(
            Arrivals::parse(slip)
                .unwrap_err()
                .starts_with("allowed are"),
            "{slip}"
        );
    }
    assert_eq!(Course::parse_ramp("0.5..4").unwrap().word(), "0.5..4");
    assert_eq!(Course::parse_steps("1,2.5,4").unwrap().word(), "1,2.5,4");
    for slip in ["1", "1..", "0..2", "a..b", "1..inf"] {
        assert!(Course::parse_ramp(slip).is_err(), "{slip}");
    }
    for slip in ["1", "", "1,0", "1,,2", &vec!["1"; 101].join(",")] {
        assert!(Course::parse_steps(slip).is_err(), "{slip}");
    }
}

#[test]
fn what_is_not_the_sets_own_is_said() {
    assert!(Placing::default().findings(5, 0).is_empty());
    let poisson = control(Arrivals::Poisson, 0).findings(5, 0);
    assert!(
        poisson[0].starts_with("arrivals are a control (poisson): 5 sessions"),
        "{poisson:?}"
    );
    assert!(shaped(0.5).findings(10, 5)[0].starts_with("rate: 5 of 10 sessions are left out"));
    assert!(Placing::stressed(2.0).findings(5, 0)[0].starts_with("rate: sessions start 2 times"));
}

proptest! {
    /// Whatever is asked: nobody overtakes, nobody is invented, nothing starts before zero.
    #[test]
    fn sessions_keep_their_order(
        mut starts_us in proptest::collection::vec(0_i64..10_000_000_000, 0..60),
        rate_scale in 0.05_f64..8.0,
        (from, to) in (0.01_f64..9.0, 0.01_f64..9.0),
        (kind, seed, duration_us) in (0_usize..5, any::<u64>(), proptest::option::of(1_i64..1_000_000_000)),
        (shape, ramps) in (any::<bool>(), any::<bool>()),
    ) {
        starts_us.sort_unstable();
        let arrivals = CONTROLS.get(kind).copied().unwrap_or_default();
        let course = format!("{from}..{to}");
        let placing = Placing {
            arrivals,
            seed,
            rate_scale: if shape { rate_scale.min(1.0) } else { rate_scale },
            rate_mode: if shape { RateMode::Shape } else { RateMode::Stress },
            course: if ramps { Course::parse_ramp(&course).unwrap() } else { Course::default() },
        };
        let placed = placing.place(&starts_us, duration_us).starts_us;
        prop_assert_eq!(placed.len(), starts_us.len());
        let kept: Vec<i64> = placed.into_iter().flatten().collect();
        prop_assert!(kept.is_sorted());
        prop_assert!(kept.iter().all(|start| 0 <= *start));
        if !shape {
            prop_assert_eq!(kept.len(), starts_us.len());
        }
    }

    /// A rate that does not change is no change at all.
    #[test]
    fn an_even_course_moves_nothing(start_us in 0_i64..1_000_000_000_000, last_us in 1_i64..1_000_000_000_000) {
        let even = Course::parse_ramp("1..1").unwrap().over(last_us, None);
        prop_assert!((even.place(start_us) - start_us).abs() <= 1);
    }
}

use super::*;
use crate::mix::mix;
use crate::testdata;

/// Poisson arrivals.
pub(crate) fn poisson(count: u64, mean_gap_us: f64, seed: u64) -> Vec<i64> {
    let mut now = 0.0;
    (0..count)
        .map(|i| {
            let uniform = (mix(mix(seed) ^ i) >> 11) as f64 / (1u64 << 53) as f64;
            now -= mean_gap_us * (1.0 - uniform).ln();
            now as i64
        })
        .collect()
}

#[test]
fn windows_are_full_and_start_at_the_first_arrival() {
    // Windows of 10 from 5: [5,15) holds 3, [15,25) 0, [25,35) 1; 35 starts a window that is not full.
    let counts = Counts::of(&[5, 6, 14, 25, 35], 10);
    assert_eq!((counts.windows, counts.sum, counts.max), (3, 4.0, 3.0));
    // Mean 4/3, sample variance ((5/3)² + (4/3)² + (1/3)²)/2 = 7/3.
    assert!((counts.idc().unwrap() - 7.0 / 4.0).abs() < 1e-12);
    assert!((counts.peak_to_mean().unwrap() - 9.0 / 4.0).abs() < 1e-12);
}

#[test]
fn nothing_to_count_is_unknown() {
    for arrivals in [&[][..], &[7], &[7, 7]] {
        let counts = Counts::of(arrivals, 1_000_000);
        assert_eq!(
            (counts.idc(), counts.peak_to_mean()),
            (None, None),
            "{arrivals:?}"
        );
    }
    assert_eq!(Counts::of(&[0, 10, 20], 0), Counts::default());
}

#[test]
fn poisson_has_a_dispersion_of_one_and_a_clock_none() {
    let idc = Counts::of(&poisson(50_000, 100_000.0, 7), SECOND_US)
        .idc()
        .unwrap();
    assert!((idc - 1.0).abs() < 0.06, "{idc}");
    let steady: Vec<i64> = (0..50_000).map(|i| i * 100_000).collect();
    assert_eq!(Counts::of(&steady, SECOND_US).idc(), Some(0.0));
}

#[test]
fn equal_weights_do_not_change_the_dispersion() {
    let arrivals = poisson(5_000, 100_000.0, 9);
    let idc = Counts::of(&arrivals, SECOND_US).idc().unwrap();
    let idw = Counts::weighted(&arrivals, &vec![40.0; 5_000], SECOND_US)
        .idw()
        .unwrap();
    assert!((idc - idw).abs() < 1e-9, "{idc} {idw}");
}

#[test]
fn a_window_must_be_longer_than_the_clock_and_shorter_than_the_span() {
    let hour = 3_600 * SECOND_US;
    assert_eq!(invalid(10 * SECOND_US, hour, Some(3 * SECOND_US)), None);
    let coarse = invalid(SECOND_US, hour, Some(3 * SECOND_US)).unwrap();
    assert_eq!(
        coarse,
        "the clock steps by 3.000 s; a window needs 3 steps, 9.000 s"
    );
    let long = invalid(300 * SECOND_US, hour, None).unwrap();
    assert_eq!(long, "the arrivals span 3600.000 s; 20 windows need 6000 s");
}

/// The constants measured on the public traces (`science.md` A1): windows of 1, 10, 60 and 300 s.
#[test]
fn public_traces_have_their_known_dispersion() {
    let cases = [
        (
            "azure/AzureLLMInferenceTrace_conv.csv",
            [1.4, 3.9, 16.4, 61.7],
            [2.9, 1.77, 1.52],
        ),
        (
            "azure/AzureLLMInferenceTrace_code.csv",
            [13.2, 71.9, 166.9, 151.6],
            [26.1, 12.8, 4.18],
        ),
        (
            "mooncake/conversation_trace.jsonl",
            [7.9, 2.1, 2.95, 7.98],
            [8.23, 1.97, 1.21],
        ),
    ];
    for (trace, idcs, peaks) in cases {
        let Some(arrivals) = testdata::arrivals(trace) else {
            continue;
        };
        for (window_s, want) in [1, 10, 60, 300].iter().zip(idcs) {
            let got = Counts::of(&arrivals, window_s * SECOND_US).idc().unwrap();
            assert!(
                (got / want - 1.0).abs() < 0.02,
                "{trace} IDC({window_s}) = {got}, not {want}"
            );
        }
        for (window_s, want) in [1, 10, 60].iter().zip(peaks) {
            let got = Counts::of(&arrivals, window_s * SECOND_US)
                .peak_to_mean()
                .unwrap();
            assert!(
                (got / want - 1.0).abs() < 0.01,
                "{trace} peak({window_s}) = {got}, not {want}"
            );
        }
    }
}

#[test]
fn the_clock_of_mooncake_steps_by_three_seconds_and_those_of_azure_do_not() {
    if let Some(arrivals) = testdata::arrivals("mooncake/conversation_trace.jsonl") {
        let step = clock::resolution_us(&arrivals).unwrap();
        assert!((2_999_000..=3_001_000).contains(&step), "{step}");
    }
    for name in ["conv", "code"] {
        let trace = format!("azure/AzureLLMInferenceTrace_{name}.csv");
        if let Some(arrivals) = testdata::arrivals(&trace) {
            assert_eq!(clock::resolution_us(&arrivals), None, "{name}");
        }
    }
}

/// Every fifth session of a trace of single turns is a thinned trace; the law of `science.md`
/// headline 4 predicts its dispersion.
#[test]
fn thinning_azure_code_follows_the_law() {
    let Some(arrivals) = testdata::arrivals("azure/AzureLLMInferenceTrace_code.csv") else {
        return;
    };
    let sessions: Vec<u32> = (0..arrivals.len() as u32).collect();
    let weights = vec![1.0; arrivals.len()];
    let rows = thinning::Clustered {
        arrivals: &arrivals,
        sessions: &sessions,
        weights: &weights,
    };
    for (window_s, want) in [(1, 3.4), (10, 15.2), (60, 34.0)] {
        let target = rows.idc(window_s * SECOND_US, 0.2).unwrap();
        assert!(
            (target.value / want - 1.0).abs() < 0.02,
            "{window_s} s: {target:?}"
        );
    }
}

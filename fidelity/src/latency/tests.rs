use super::*;
use stats::Millis;

fn answer(tokens: &[i64], output_tokens: i64) -> Dispatch {
    Dispatch {
        sent_us: Some(0),
        ready_us: Some(0),
        lateness_us: Some(0),
        status: Some(200),
        outcome: Some(Outcome::Complete),
        first_token_us: tokens.first().map(|ms| ms * 1_000),
        last_token_us: tokens.last().map(|ms| ms * 1_000),
        end_us: Some(tokens.last().copied().unwrap_or(300) * 1_000 + 1_000),
        token_event_offsets_us: Some(tokens.iter().map(|ms| ms * 1_000).collect()),
        output_tokens: Some(output_tokens),
        ..Dispatch::default()
    }
}

/// Case o28: answers of three, one and zero tokens in one report.
#[test]
fn answers_of_three_one_and_no_tokens_share_a_report() {
    let summary = summarize(&[
        answer(&[500, 520, 540], 3),
        answer(&[400], 1),
        answer(&[], 0),
    ]);
    assert_eq!(summary.requests.answered, 3);
    assert_eq!(
        (summary.itl_ms.count, summary.itl_ms.p50, summary.itl_ms.max),
        (2, Some(20.0), Some(20.0))
    );
    assert_eq!(
        (summary.tpot_ms.count, summary.tpot_ms.mean),
        (1, Some(20.0))
    );
    let ttft = &summary.from_send.ttft_ms;
    assert_eq!((ttft.count, ttft.mean), (2, Some(450.0)));
    assert_eq!(summary.throughput.output_tokens, 4);
    let text = serde_json::to_string(&summary).unwrap();
    assert!(!text.contains("NaN") && !text.contains("inf\""), "{text}");
}

/// Case o29: a client with one request in flight on a schedule of ten a second.
#[test]
fn a_backlog_shows_on_the_clock_of_the_schedule() {
    let dispatches: Vec<Dispatch> = (0..8)
        .map(|i| Dispatch {
            due_us: i * 100_000,
            sent_us: Some(i * 500_000),
            lateness_us: None,
            ..answer(&[500], 1)
        })
        .map(|dispatch| Dispatch {
            ready_us: Some(dispatch.due_us),
            ..dispatch
        })
        .collect();
    let summary = summarize(&dispatches);
    let (send, due) = (&summary.from_send.e2el_ms, &summary.from_due.e2el_ms);
    assert_eq!((send.p50, send.max), (Some(500.0), Some(500.0)));
    assert_eq!((due.p50, due.max), (Some(1_900.0), Some(3_300.0)));
    assert_eq!(
        (summary.lateness_ms.p50, summary.lateness_ms.max),
        (Some(1_400.0), Some(2_800.0))
    );
    assert_eq!(summary.schedule_kept, Some(false));
    assert_eq!(summary.planned.mean_per_s, Some(10.0));
    assert_eq!(summary.achieved.mean_per_s, Some(2.0));
    assert_eq!(summarize(&[answer(&[500], 1)]).schedule_kept, Some(true));
}

#[test]
fn what_is_after_the_duration_was_not_planned() {
    let due = |seconds: i64, reason: Option<&str>| Dispatch {
        due_us: seconds * 1_000_000,
        not_sent_reason: reason.map(str::to_owned),
        ..Dispatch::default()
    };
    let summary = summarize(&[
        due(0, None),
        due(1, Some("no_content")),
        due(2, None),
        due(1_000, Some("after_duration")),
    ]);
    assert_eq!(summary.planned.mean_per_s, Some(1.0));
}

/// Case o30: 25 answers of 200 to 440 ms and five rejections of a few milliseconds.
#[test]
fn rejections_do_not_help_percentiles() {
    let mut dispatches: Vec<Dispatch> = (0..25).map(|i| answer(&[200 + i * 10], 1)).collect();
    dispatches.extend((4..9).map(|ms| Dispatch {
        status: Some(429),
        outcome: Some(Outcome::Error),
        ..answer(&[ms], 1)
    }));
    let summary = summarize(&dispatches);
    let e2el = &summary.from_send.e2el_ms;
    assert_eq!((e2el.p50, e2el.mean), (Some(320.0), Some(320.0)));
    assert!((e2el.p95.unwrap() - 428.0).abs() < 1e-9);
    assert_eq!((summary.requests.failed, summary.requests.sent), (5, 30));
    assert!((summary.requests.error_rate.unwrap() - 0.166_667).abs() < 1e-6);
    assert_eq!(summary.requests.by_status["429"], 5);
    let adjusted = &summary.from_send.failures_infinite.e2el_ms;
    assert_eq!((adjusted.count, adjusted.infinite), (30, 5));
    assert_eq!(adjusted.p95, Some(Millis(f64::INFINITY)));
    assert!(adjusted.p50.unwrap().0 > 320.0);
    let value = serde_json::to_value(&summary).unwrap();
    assert_eq!(
        value
            .pointer("/from_send/failures_infinite/e2el_ms/p95")
            .unwrap(),
        "inf"
    );
    assert_eq!(serde_json::from_value::<Summary>(value).unwrap(), summary);
}

/// Cases o04 and o12: events that share a read, and two choices in one stream.
#[test]
fn zero_gaps_count_and_choices_do_not_mix() {
    let summary = summarize(&[answer(&[200, 200, 200, 300], 4)]);
    assert_eq!((summary.itl_ms.count, summary.itl_ms.p50), (3, Some(0.0)));
    assert!((summary.tpot_ms.p50.unwrap() - 100.0 / 3.0).abs() < 1e-9);
    let interleaved = Dispatch {
        token_event_choices: Some(vec![1, 0, 1, 0]),
        ..answer(&[200, 220, 240, 260], 4)
    };
    let summary = summarize(&[interleaved]);
    assert_eq!((summary.itl_ms.count, summary.itl_ms.mean), (2, Some(40.0)));
}

#[test]
fn events_are_not_tokens() {
    let speculative = Dispatch {
        output_tokens: None,
        ..answer(&[100, 200, 300, 400], 0)
    };
    assert_eq!(summarize(&[speculative]).tpot_ms.count, 0);
    let counted = answer(&[100, 200, 300, 400], 12);
    assert!((summarize(&[counted]).tpot_ms.p50.unwrap() - 300.0 / 11.0).abs() < 1e-9);
}

#[test]
fn nothing_sent_is_nothing_known() {
    let unsent = Dispatch {
        not_sent_reason: Some("stopped".to_owned()),
        ..Dispatch::default()
    };
    let summary = summarize(&[unsent]);
    assert_eq!((summary.requests.due, summary.requests.sent), (1, 0));
    assert_eq!(summary.requests.not_sent["stopped"], 1);
    assert_eq!(
        (summary.requests.error_rate, summary.schedule_kept),
        (None, None)
    );
}

/// Latency counts from the end of the request (D2); a user waits for the upload too.
#[test]
fn the_upload_is_not_the_targets_time() {
    let uploading = Dispatch {
        request_end_us: Some(150_000),
        ..answer(&[500], 1)
    };
    let summary = summarize(&[uploading]);
    assert_eq!(summary.from_send.ttft_ms.p50, Some(500.0));
    assert_eq!(summary.from_due.ttft_ms.p50, Some(650.0));
    assert_eq!(summary.throughput.duration_s, Some(0.651));
}

#[test]
fn a_rate_has_the_dispersion_of_its_counts() {
    // Full seconds hold 4, 0, 4, 0, ...: mean 2, sample variance 4 * n / (n - 1).
    let instants = (0..60).flat_map(|second| {
        let starts = second % 2 == 0;
        starts.then_some([0; 4].map(|_: i64| second * 1_000_000))
    });
    let rate = rates::Rate::of(instants.flatten());
    // The last four begin second 58, which is not a full window.
    let expected = (4.0 * 58.0 / 57.0) / 2.0;
    assert!((rate.idc_1s.unwrap() - expected).abs() < 1e-9, "{rate:?}");
    assert_eq!((rate.idc_10s, rate.idc_60s), (Some(0.0), None));
}

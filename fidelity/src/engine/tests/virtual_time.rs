use super::*;

fn at(arrival_us: i64, prompt_tokens: u64, output_tokens: u64) -> Job {
    Job {
        arrival_us,
        prompt_tokens,
        output_tokens,
        blocks: Vec::new(),
    }
}

#[test]
fn times_are_the_ends_of_steps_from_the_arrival_on() {
    // Default engine: 8 ms a step, 60 us a prompt token, 50 us a decoding sequence, 17 ns a
    // token of context.
    let results = simulate(&EngineConfig::default(), &[at(1_000_000, 100, 2)]);
    let first = 1_000_000 + 8_000 + 100 * 60;
    let second_ns = 8_000_000 + 50_000 + 101 * 17;
    assert_eq!(
        results,
        [JobResult {
            arrival_us: 1_000_000,
            output_tokens: 2,
            cached_tokens: 0,
            first_token_us: Some(first),
            end_us: Some(first + second_ns / 1_000),
        }]
    );
    assert_eq!(results[0].ttft_us(), Some(14_000));
    assert_eq!(results[0].tpot_us(), Some(8_051.0));
    assert_eq!(results[0].e2el_us(), Some(22_051));
}

#[test]
fn a_job_that_arrives_during_a_step_waits_for_its_end() {
    let results = simulate(&EngineConfig::default(), &[at(0, 100, 1), at(1, 100, 1)]);
    assert_eq!(results[0].end_us, Some(14_000));
    assert_eq!(results[1].end_us, Some(28_000));
    // Together they share the 8 ms of one step.
    let results = simulate(&EngineConfig::default(), &[at(0, 100, 1), at(0, 100, 1)]);
    assert_eq!([results[0].end_us, results[1].end_us], [Some(20_000); 2]);
}

#[test]
fn results_stand_in_the_order_of_the_jobs() {
    let jobs = [
        at(5_000_000, 10, 1),
        at(0, 10, 1),
        at(9_000_000, 2_000_000, 1),
        at(7, 0, 1),
    ];
    let results = simulate(&EngineConfig::default(), &jobs);
    let ends: Vec<Option<i64>> = results.iter().map(|result| result.end_us).collect();
    assert_eq!(ends, [Some(5_008_600), Some(8_600), None, None]);
    assert!(
        results
            .iter()
            .zip(&jobs)
            .all(|(result, job)| result.arrival_us == job.arrival_us)
    );
}

#[test]
fn an_output_of_one_token_has_no_time_per_output_token() {
    assert_eq!(
        simulate(&EngineConfig::default(), &[at(0, 10, 1)])[0].tpot_us(),
        None
    );
}

/// The whole public trace, where it is at hand, in virtual time.
#[test]
fn the_public_conversation_trace_runs_to_its_end() {
    let trace = "traces/mooncake/conversation_trace.jsonl";
    let Some(text) = truetape_testkit::shared::text(trace) else {
        return;
    };
    let config = EngineConfig {
        kv_blocks: 20_000,
        ..EngineConfig::default()
    };
    let jobs: Vec<Job> = text
        .lines()
        .map(|line| {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            let number = |key: &str| row[key].as_u64().unwrap();
            let ids = row["hash_ids"].as_array().unwrap();
            let ids: Vec<u64> = ids.iter().map(|id| id.as_u64().unwrap()).collect();
            // A quarter of the users: one replica cannot carry all of them.
            let arrival_us = number("timestamp") as i64 * 4_000;
            let (prompt, output) = (number("input_length"), number("output_length"));
            Job::of_prompt_blocks(arrival_us, prompt, output, &ids, config.block_tokens)
        })
        .collect();
    let started = std::time::Instant::now();
    let results = simulate(&config, &jobs);
    println!("{} ms", started.elapsed().as_millis());
    assert!(results.iter().all(|result| result.end_us.is_some()));
    // Without bound, full blocks at most: what the trace shares without its partial blocks.
    let full = jobs.iter().map(|job| job.blocks.as_slice());
    let bound = prefix::hit_curve(full, &[]).infinite_hits * 512;
    let cached: u64 = results.iter().map(|result| result.cached_tokens).sum();
    assert!(bound / 2 < cached && cached <= bound, "{cached} of {bound}");
}

use super::*;
use crate::prefix;
use proptest::prelude::*;

mod properties;
mod virtual_time;

/// An engine whose numbers are easy to add up: blocks of 4 tokens, steps of 1,000 ns, 100 ns a
/// prefill token, 10 ns a decoding sequence, 1 ns a token of context.
fn config(kv_blocks: u64) -> EngineConfig {
    EngineConfig {
        block_tokens: 4,
        kv_blocks,
        sequences_max: 8,
        step_tokens_max: 16,
        prefix_caching: true,
        step_ns: 1_000,
        prefill_token_ns: 100,
        decode_sequence_ns: 10,
        kv_token_ns: 1,
    }
}

fn job(prompt_tokens: u64, output_tokens: u64, blocks: &[u64]) -> Job {
    Job {
        arrival_us: 0,
        prompt_tokens,
        output_tokens,
        blocks: blocks.to_vec(),
    }
}

/// Steps until nothing is left to do.
fn run(engine: &mut Engine) -> Vec<(Id, Emission)> {
    let mut outputs = Vec::new();
    for _ in 0..100_000 {
        if engine.is_idle() {
            return outputs;
        }
        outputs.extend(engine.step().outputs);
        assert_eq!(engine.memory.total(), engine.config.kv_blocks);
    }
    panic!("the engine does not come to an end");
}

/// Runs one job alone and returns how many tokens of its prompt were cached.
fn serve(engine: &mut Engine, job: Job) -> u64 {
    engine.submit(job).unwrap();
    run(engine)[0].1.cached_tokens
}

#[test]
fn a_job_alone_takes_the_time_of_the_formula() {
    let mut engine = Engine::new(config(100));
    let id = engine.submit(job(10, 3, &[])).unwrap();
    let say = |index, last| {
        vec![(
            id,
            Emission {
                index,
                cached_tokens: 0,
                last,
            },
        )]
    };
    // Ten prompt tokens; then one decoding sequence with a context of 11, then of 12 tokens.
    let steps: Vec<Step> = (0..4).map(|_| engine.step()).collect();
    let expected = [
        Step {
            duration_ns: 1_000 + 10 * 100,
            outputs: say(0, false),
        },
        Step {
            duration_ns: 1_000 + 10 + 11,
            outputs: say(1, false),
        },
        Step {
            duration_ns: 1_000 + 10 + 12,
            outputs: say(2, true),
        },
        Step {
            duration_ns: 0,
            outputs: vec![],
        },
    ];
    assert_eq!(steps, expected);
    assert!(engine.is_idle());
}

#[test]
fn a_long_prompt_is_computed_in_chunks_beside_those_who_decode() {
    let mut engine = Engine::new(config(100));
    let first = engine.submit(job(4, 9, &[])).unwrap();
    engine.step();
    let second = engine.submit(job(40, 1, &[])).unwrap();
    // 16 tokens a step: one decodes, 15 are left for the prompt of 40: 15, 15, 10.
    for (context, prefill, said) in [(5, 15, vec![first]), (6, 15, vec![first])] {
        let step = engine.step();
        assert_eq!(step.duration_ns, 1_000 + 10 + context + prefill * 100);
        assert_eq!(
            step.outputs.iter().map(|(id, _)| *id).collect::<Vec<_>>(),
            said
        );
    }
    let step = engine.step();
    assert_eq!(step.duration_ns, 1_000 + 10 + 7 + 10 * 100);
    assert_eq!(
        step.outputs.iter().map(|(id, _)| *id).collect::<Vec<_>>(),
        [first, second]
    );
}

#[test]
fn a_prompt_that_is_all_cached_computes_its_last_block_again() {
    let mut engine = Engine::new(config(100));
    assert_eq!(serve(&mut engine, job(8, 1, &[1, 2])), 0);
    // All 8 tokens are cached, but one must be computed, and blocks are whole.
    assert_eq!(serve(&mut engine, job(8, 1, &[1, 2])), 4);
    assert_eq!(serve(&mut engine, job(9, 1, &[1, 2])), 8);
    let counters = engine.counters();
    assert_eq!(
        (counters.prefix_query_tokens, counters.prefix_hit_tokens),
        (25, 12)
    );
    assert_eq!(
        (counters.prompt_tokens, counters.generation_tokens),
        (25, 3)
    );
}

#[test]
fn blocks_can_be_reused_once_they_are_computed_and_not_before() {
    let mut engine = Engine::new(config(100));
    engine.submit(job(13, 1, &[1, 2, 3])).unwrap();
    engine.submit(job(13, 1, &[1, 2, 3])).unwrap();
    // Both are admitted in the first step: the second finds nothing.
    let outputs = run(&mut engine);
    assert_eq!(
        outputs
            .iter()
            .map(|(_, said)| said.cached_tokens)
            .collect::<Vec<_>>(),
        [0, 0]
    );
    // The copies of the second are blank again; a third finds what the first computed.
    assert_eq!(engine.memory.used(), 0);
    assert_eq!(serve(&mut engine, job(13, 1, &[1, 2, 3])), 12);
}

#[test]
fn a_chunk_that_is_computed_helps_who_comes_later() {
    let mut engine = Engine::new(config(100));
    engine
        .submit(job(33, 1, &[1, 2, 3, 4, 5, 6, 7, 8]))
        .unwrap();
    engine.step();
    // The second step, too, is all for the first prompt. In the third the first computes its last
    // token, and the second joins with what was computed until then.
    engine
        .submit(job(33, 1, &[1, 2, 3, 4, 5, 6, 7, 8]))
        .unwrap();
    let outputs = run(&mut engine);
    assert_eq!(
        outputs
            .iter()
            .map(|(_, said)| said.cached_tokens)
            .collect::<Vec<_>>(),
        [0, 32]
    );
}

#[test]
fn an_answer_is_cached_up_to_the_token_before_its_last() {
    let mut engine = Engine::new(config(100));
    // 6 + 7 tokens, of which 12 are computed: blocks 1, 2 and 3. The thirteenth is only said.
    serve(&mut engine, job(6, 7, &[1, 2, 3]));
    assert_eq!(serve(&mut engine, job(20, 1, &[1, 2, 3, 4, 5])), 12);
    // 6 + 6 tokens, of which 11 are computed: the third block is not full.
    let mut engine = Engine::new(config(100));
    serve(&mut engine, job(6, 6, &[1, 2, 3]));
    assert_eq!(serve(&mut engine, job(20, 1, &[1, 2, 3, 4, 5])), 8);
}

#[test]
fn the_block_given_up_longest_ago_goes_first_and_leaves_before_roots() {
    let mut engine = Engine::new(config(5));
    serve(&mut engine, job(8, 1, &[1, 2]));
    serve(&mut engine, job(8, 1, &[3, 4]));
    // One block is blank. Two more are needed, so 2, the leaf of the older chain, goes.
    serve(&mut engine, job(8, 1, &[5, 6]));
    let cached = |hash: u64| engine.memory.leading_run(&[hash]) == 1;
    assert_eq!(
        [1, 2, 3, 4, 5, 6].map(cached),
        [true, false, true, true, true, true]
    );
}

#[test]
fn who_decodes_longest_is_served_and_the_youngest_is_preempted() {
    let mut engine = Engine::new(config(4));
    let first = engine.submit(job(7, 6, &[])).unwrap();
    let second = engine.submit(job(7, 6, &[])).unwrap();
    // Both fill two blocks with 8 tokens; for its ninth the first needs a third block.
    let outputs = run(&mut engine);
    let counters = engine.counters();
    assert_eq!(counters.preemptions, 1);
    // Who computes itself again is counted once.
    assert_eq!(
        (counters.prefix_query_tokens, counters.prompt_tokens),
        (14, 14)
    );
    assert_eq!((counters.generation_tokens, counters.finished), (12, 2));
    let said = |id| {
        let of_id = outputs.iter().filter(move |(who, _)| *who == id);
        of_id
            .map(|(_, emission)| emission.index)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (said(first), said(second)),
        ((0..6).collect(), (0..6).collect())
    );
    let (last_of_first, last_of_second) = (
        outputs.iter().rposition(|(who, _)| *who == first),
        outputs.iter().rposition(|(who, _)| *who == second),
    );
    assert!(last_of_first < last_of_second);
}

#[test]
fn the_head_of_the_queue_is_not_overtaken() {
    let mut engine = Engine::new(config(10));
    engine.submit(job(20, 9, &[])).unwrap();
    engine.step();
    engine.step();
    // 24 tokens do not fit beside 5 to 7 blocks, 4 would; but they came later.
    let big = engine.submit(job(24, 1, &[])).unwrap();
    let small = engine.submit(job(4, 1, &[])).unwrap();
    let firsts = run(&mut engine)
        .into_iter()
        .filter(|(_, said)| said.index == 0);
    assert_eq!(firsts.map(|(id, _)| id).collect::<Vec<_>>(), [big, small]);
}

#[test]
fn seats_are_limited() {
    let mut engine = Engine::new(EngineConfig {
        sequences_max: 2,
        ..config(100)
    });
    for _ in 0..3 {
        engine.submit(job(4, 2, &[])).unwrap();
    }
    engine.step();
    let load = engine.load();
    assert_eq!((load.running, load.waiting, load.kv_blocks_used), (2, 1, 2));
}

#[test]
fn a_job_that_could_never_run_is_refused() {
    let mut engine = Engine::new(config(5));
    assert_eq!(engine.submit(job(0, 1, &[])), Err(Rejected::EmptyPrompt));
    assert_eq!(engine.submit(job(1, 0, &[])), Err(Rejected::EmptyOutput));
    let too_large = Rejected::TooLarge {
        needed: 6,
        kv_blocks: 5,
    };
    assert_eq!(engine.submit(job(20, 2, &[])), Err(too_large));
    assert_eq!(
        too_large.to_string(),
        "the request needs 6 blocks of memory, there are 5"
    );
    // Exactly full: the last token is said and not computed.
    engine.submit(job(20, 1, &[])).unwrap();
    assert_eq!(run(&mut engine).len(), 1);
}

#[test]
fn a_cancelled_job_frees_its_blocks_and_leaves_what_it_computed() {
    let mut engine = Engine::new(config(100));
    let running = engine.submit(job(13, 50, &[1, 2, 3])).unwrap();
    engine.step();
    let waiting = engine.submit(job(13, 50, &[4, 5, 6])).unwrap();
    assert!(engine.cancel(running));
    assert!(engine.cancel(waiting));
    assert!(!engine.cancel(running));
    assert!(engine.is_idle());
    assert_eq!(engine.load().kv_blocks_used, 0);
    assert_eq!(serve(&mut engine, job(13, 1, &[1, 2, 3])), 12);
    assert_eq!(serve(&mut engine, job(13, 1, &[4, 5, 6])), 0);
}

#[test]
fn the_cache_is_reset_only_when_nobody_runs() {
    let mut engine = Engine::new(config(100));
    serve(&mut engine, job(9, 1, &[1, 2]));
    engine.submit(job(9, 2, &[1, 2])).unwrap();
    engine.step();
    assert!(!engine.reset_prefix_cache());
    run(&mut engine);
    assert!(engine.reset_prefix_cache());
    assert_eq!(serve(&mut engine, job(9, 1, &[1, 2])), 0);
}

#[test]
fn without_prefix_caching_nothing_is_reused() {
    let mut engine = Engine::new(EngineConfig {
        prefix_caching: false,
        ..config(100)
    });
    serve(&mut engine, job(9, 1, &[1, 2]));
    assert_eq!(serve(&mut engine, job(9, 1, &[1, 2])), 0);
    assert_eq!(engine.counters().prefix_hit_tokens, 0);
}

#[test]
fn a_partial_block_of_a_trace_is_left_out() {
    let job = Job::of_prompt_blocks(5, 10, 3, &[1, 2, 3], 4);
    assert_eq!(
        job,
        Job {
            arrival_us: 5,
            prompt_tokens: 10,
            output_tokens: 3,
            blocks: vec![1, 2]
        }
    );
}

use super::*;
use crate::mix::mix;

/// What happens to an engine from outside.
#[derive(Clone, Debug)]
enum Event {
    Submit {
        choices: Vec<u64>,
        tail_tokens: u64,
        output_tokens: u64,
    },
    Cancel {
        which: u64,
    },
    Step,
    Reset,
}

fn event() -> impl Strategy<Value = Event> {
    let submit = (proptest::collection::vec(0u64..3, 0..8), 1u64..4, 1u64..20).prop_map(
        |(choices, tail_tokens, output_tokens)| Event::Submit {
            choices,
            tail_tokens,
            output_tokens,
        },
    );
    prop_oneof![
        4 => submit,
        1 => any::<u64>().prop_map(|which| Event::Cancel { which }),
        8 => Just(Event::Step),
        1 => Just(Event::Reset),
    ]
}

/// Full blocks by the choices that led to them, then a partial one.
fn chained_job(choices: &[u64], tail_tokens: u64, output_tokens: u64) -> Job {
    let mut parent = 0;
    let mut blocks = Vec::new();
    // Blocks of the output go on from there.
    for choice in choices.iter().chain(&[7; 5]) {
        parent = mix(parent ^ (choice + 1));
        blocks.push(parent);
    }
    job(
        choices.len() as u64 * 4 + tail_tokens,
        output_tokens,
        &blocks,
    )
}

/// A job alone, without blocks beyond those of its prompt.
fn serial_job(choices: &[u64]) -> Job {
    let mut job = chained_job(choices, 1, 1);
    job.blocks.truncate(choices.len());
    job
}

fn serial_hits(requests: &[Vec<u64>], kv_blocks: u64) -> Vec<u32> {
    let mut engine = Engine::new(config(kv_blocks));
    let hits = requests
        .iter()
        .map(|choices| serve(&mut engine, serial_job(choices)) as u32 / 4);
    hits.collect()
}

proptest! {
    /// Whatever happens: no block is lost or made, no token is lost or said twice, first tokens
    /// come in the order of submission, and the end is reached with every block free.
    #[test]
    fn nothing_is_lost(
        events in proptest::collection::vec(event(), 1..80),
        kv_blocks in 8u64..30,
        sequences_max in 1usize..5,
        step_tokens_max in 1u64..20,
    ) {
        let config = EngineConfig { sequences_max, step_tokens_max, ..config(kv_blocks) };
        let mut engine = Engine::new(config);
        let mut asked = std::collections::BTreeMap::new();
        let mut outputs = Vec::new();
        for event in events {
            match event {
                Event::Submit { choices, tail_tokens, output_tokens } => {
                    let job = chained_job(&choices, tail_tokens, output_tokens);
                    if let Ok(id) = engine.submit(job) {
                        asked.insert(id, output_tokens);
                    }
                }
                Event::Cancel { which } => {
                    let id = Id(which % (engine.next_id + 1));
                    if engine.cancel(id) {
                        asked.remove(&id);
                        outputs.retain(|(who, _)| *who != id);
                    }
                }
                Event::Step => outputs.extend(engine.step().outputs),
                Event::Reset => {
                    engine.reset_prefix_cache();
                }
            }
            prop_assert_eq!(engine.memory.total(), kv_blocks);
            prop_assert!(engine.load().running <= sequences_max as u64);
        }
        outputs.extend(run(&mut engine));
        prop_assert_eq!(engine.memory.used(), 0);
        prop_assert_eq!(engine.memory.available(), kv_blocks);

        let firsts = outputs.iter().filter(|(_, said)| said.index == 0).map(|(id, _)| *id);
        prop_assert!(firsts.is_sorted());
        for (id, tokens) in asked {
            let said: Vec<Emission> =
                outputs.iter().filter(|(who, _)| *who == id).map(|(_, said)| *said).collect();
            let indices: Vec<u64> = said.iter().map(|emission| emission.index).collect();
            prop_assert_eq!(indices, (0..tokens).collect::<Vec<_>>());
            let last = said.iter().position(|emission| emission.last);
            prop_assert_eq!(last, Some(tokens as usize - 1));
        }
    }

    /// One request at a time, the engine is the cache that the hit curve speaks of. It has one
    /// block more, for the partial block of the request that runs.
    #[test]
    fn a_serial_workload_hits_as_the_curve_says(
        requests in proptest::collection::vec(proptest::collection::vec(0u64..3, 0..7), 0..50),
        capacity in 7u64..40,
    ) {
        let jobs: Vec<Job> = requests.iter().map(|choices| serial_job(choices)).collect();
        let chains = || jobs.iter().map(|job| job.blocks.as_slice());
        let expected = prefix::hits_per_request(chains(), Some(capacity as usize));
        prop_assert_eq!(serial_hits(&requests, capacity + 1), expected);
    }

    /// One request at a time, with answers that are cached too, more memory never hits less.
    #[test]
    fn more_memory_never_hits_less(
        requests in proptest::collection::vec(
            (proptest::collection::vec(0u64..3, 0..7), 1u64..4, 1u64..12), 0..50),
        kv_blocks in 12u64..40,
    ) {
        let hits = |kv_blocks| {
            let mut engine = Engine::new(config(kv_blocks));
            let serve = |(choices, tail, output): &(Vec<u64>, u64, u64)| {
                serve(&mut engine, chained_job(choices, *tail, *output))
            };
            requests.iter().map(serve).collect::<Vec<_>>()
        };
        let pairs = hits(kv_blocks).into_iter().zip(hits(kv_blocks + 1));
        for (with_less, with_more) in pairs {
            prop_assert!(with_less <= with_more);
        }
    }

    /// The same events give the same steps.
    #[test]
    fn the_model_is_deterministic(
        requests in proptest::collection::vec(proptest::collection::vec(0u64..3, 0..7), 1..20),
    ) {
        let steps = || {
            let mut engine = Engine::new(config(12));
            for choices in &requests {
                engine.submit(chained_job(choices, 2, 9)).unwrap();
            }
            std::iter::from_fn(|| (!engine.is_idle()).then(|| engine.step())).collect::<Vec<_>>()
        };
        prop_assert_eq!(steps(), steps());
    }

    /// Steps taken at once end where single steps do.
    #[test]
    fn gliding_changes_nothing(
        jobs in proptest::collection::vec(
            (proptest::collection::vec(0u64..3, 0..8), 1u64..4, 1u64..60, 0i64..4_000), 1..25,
        ),
        kv_blocks in 24u64..80,
    ) {
        let mut now = 0;
        let jobs: Vec<Job> = jobs
            .iter()
            .map(|(choices, tail, output, gap_us)| {
                now += gap_us;
                let job = chained_job(choices, *tail, *output);
                Job { arrival_us: now, ..job }
            })
            .collect();
        let config = config(kv_blocks);
        let single = simulation::run(&config, &jobs, |_, _| 0);
        prop_assert_eq!(simulate(&config, &jobs), single);
    }
}

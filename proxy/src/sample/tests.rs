use super::*;
use proptest::prelude::*;
use truetape_schemas::wire::canonical::identity_of_json;

fn message(role: &str, text: &str) -> Message {
    let raw = serde_json::json!({"role": role, "content": text}).to_string();
    Message {
        role: role.to_owned(),
        canonical: identity_of_json(raw.as_bytes()),
        raw: raw.into_bytes(),
    }
}

fn prompt(text: &str) -> Message {
    Message {
        role: PROMPT_ROLE.to_owned(),
        canonical: text.as_bytes().to_vec(),
        raw: text.as_bytes().to_vec(),
    }
}

fn named(rule: Rule, key: &str) -> SessionFacts {
    SessionFacts {
        session_key: Some(key.to_owned()),
        session_rule: Some(rule.name().to_owned()),
        ..SessionFacts::default()
    }
}

fn continues(id: &str) -> SessionFacts {
    SessionFacts {
        session_rule: Some(Rule::PreviousResponse.name().to_owned()),
        previous_response_id: Some(id.to_owned()),
        ..SessionFacts::default()
    }
}

fn takes(sampler: &mut Sampler, session: &SessionFacts, messages: &[Message], id: &str) -> bool {
    sampler.takes(Seen {
        session,
        messages,
        exchange_id: id,
        response_id: None,
    })
}

#[test]
fn the_rate_is_the_share_of_sessions() {
    for (rate, least, most) in [
        (0.0, 0, 0),
        (0.1, 850, 1150),
        (0.5, 4800, 5200),
        (1.0, 10_000, 10_000),
    ] {
        let mut sampler = Sampler::new(rate, "salt");
        let taken = (0..10_000)
            .filter(|n| takes(&mut sampler, &named(Rule::Session, &n.to_string()), &[], ""))
            .count();
        assert!((least..=most).contains(&taken), "{rate}: {taken}");
    }
}

#[test]
fn another_salt_takes_other_sessions_and_a_higher_rate_takes_more_of_the_same() {
    let taken = |rate, salt: &str| -> Vec<usize> {
        let mut sampler = Sampler::new(rate, salt);
        let session = |n: &usize| named(Rule::Session, &n.to_string());
        (0..1000)
            .filter(|n| takes(&mut sampler, &session(n), &[], ""))
            .collect()
    };
    let few = taken(0.2, "a");
    assert_eq!(few, taken(0.2, "a"));
    assert_ne!(few, taken(0.2, "b"));
    let many = taken(0.4, "a");
    assert!(few.iter().all(|n| many.contains(n)) && many.len() > few.len());
}

#[test]
fn what_names_nothing_is_taken_one_by_one() {
    let mut sampler = Sampler::new(0.5, "salt");
    let none = SessionFacts::default();
    let taken = (0..1000)
        .filter(|n| takes(&mut sampler, &none, &[], &n.to_string()))
        .count();
    assert!((400..600).contains(&taken), "{taken}");
}

#[test]
fn a_key_that_may_be_new_for_every_request_does_not_decide() {
    let mut sampler = Sampler::new(0.5, "salt");
    let history = [message("system", "s"), message("user", "u")];
    for rule in [Rule::Trace, Rule::ClientRequest, Rule::Baggage] {
        let mut decide = |n: usize| takes(&mut sampler, &named(rule, &n.to_string()), &history, "");
        let first = decide(0);
        assert!((1..100).all(|n| decide(n) == first), "{rule:?}");
    }
}

#[test]
fn answers_that_are_forgotten_start_anew_and_memory_is_bounded() {
    let mut answers = Answers::default();
    let key = |n: usize| {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&n.to_le_bytes());
        Key(bytes)
    };
    for n in 0..limits::SAMPLE_ANSWERS_MAX + 10 {
        answers.remember(key(n), key(1));
        answers.remember(key(n), key(2));
    }
    assert_eq!(answers.sessions.len(), limits::SAMPLE_ANSWERS_MAX);
    assert_eq!(answers.order.len(), limits::SAMPLE_ANSWERS_MAX);
    assert_eq!(answers.session_of(key(9)), None);
    assert_eq!(answers.session_of(key(10)), Some(key(2)));
}

proptest! {
    #[test]
    fn all_turns_of_a_conversation_fall_together(
        salt in ".{0,8}", system in ".{0,20}", texts in proptest::collection::vec(".{0,20}", 1..8)
    ) {
        let mut sampler = Sampler::new(0.5, &salt);
        let none = SessionFacts::default();
        let mut history = vec![message("system", &system)];
        let mut decisions = Vec::new();
        for text in &texts {
            history.push(message("user", text));
            decisions.push(takes(&mut sampler, &none, &history, text));
            history.push(message("assistant", text));
        }
        prop_assert!(decisions.iter().all(|decision| *decision == decisions[0]));
    }

    #[test]
    fn a_chain_of_answers_falls_with_its_first(
        session in "[a-z]{1,8}", turns in 1_usize..20, named_first: bool
    ) {
        let mut sampler = Sampler::new(0.5, "salt");
        let root = [message("user", &session)];
        let first = if named_first { named(Rule::Session, &session) } else { SessionFacts::default() };
        let mut decisions = Vec::new();
        for turn in 0..turns {
            let (facts, id) = match turn {
                0 => (first.clone(), "resp-0".to_owned()),
                _ => (continues(&format!("resp-{}", turn - 1)), format!("resp-{turn}")),
            };
            let messages = [message("user", &turn.to_string())];
            decisions.push(sampler.takes(Seen {
                session: &facts,
                messages: if turn == 0 { &root } else { &messages },
                exchange_id: &turn.to_string(),
                response_id: Some(&id),
            }));
        }
        prop_assert!(decisions.iter().all(|decision| *decision == decisions[0]));
    }

    #[test]
    fn a_prompt_that_grows_falls_with_its_start(start in "[a-z ]{256,400}", more in ".{0,100}") {
        let mut sampler = Sampler::new(0.5, "salt");
        let none = SessionFacts::default();
        let whole = takes(&mut sampler, &none, &[prompt(&format!("{start}{more}"))], "b");
        prop_assert_eq!(takes(&mut sampler, &none, &[prompt(&start)], "a"), whole);
    }
}

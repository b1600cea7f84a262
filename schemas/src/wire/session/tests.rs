use super::{Confidence, KEY_BYTES_MAX, Rule, SessionFacts, session_of, session_of_configured};
use crate::capture::Header;
use crate::wire::RequestFacts;
use proptest::prelude::*;

fn headers(fields: &[(&str, &str)]) -> Vec<Header> {
    let header = |(name, value): &(&str, &str)| Header {
        name: (*name).to_owned(),
        value: (*value).to_owned(),
    };
    fields.iter().map(header).collect()
}

/// A request in which every rule fires, the strongest first.
fn everything() -> Vec<(Rule, Vec<Header>, RequestFacts)> {
    let some = |text: &str| Some(text.to_owned());
    let header = |rule, name: &str| (rule, headers(&[(name, "k")]), RequestFacts::default());
    let body = |rule, facts| (rule, Vec::new(), facts);
    let facts = RequestFacts::default;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    vec![
        header(Rule::Configured, "x-mine"),
        header(Rule::ClaudeCode, "X-Claude-Code-Session-Id"),
        body(
            Rule::MetadataUser,
            RequestFacts {
                metadata_user_id: some("user_a_account_b_session_c"),
                ..facts()
            },
        ),
        header(Rule::Codex, "session_id"),
        header(Rule::Session, "X-Session-Id"),
        header(Rule::Gateway, "Helicone-Session-Id"),
        body(
            Rule::BodySession,
            RequestFacts {
                session_id: some("k"),
                ..facts()
            },
        ),
        body(
            Rule::Conversation,
            RequestFacts {
                conversation: some("k"),
                ..facts()
            },
        ),
        body(
            Rule::PromptCacheKey,
            RequestFacts {
                prompt_cache_key: some("k"),
                ..facts()
            },
        ),
        body(
            Rule::PreviousResponse,
            RequestFacts {
                previous_response_id: some("r"),
                ..facts()
            },
        ),
        header(Rule::ClientRequest, "x-client-request-id"),
        (
            Rule::Baggage,
            headers(&[("baggage", "a=b, session.id=k")]),
            facts(),
        ),
        (Rule::Trace, headers(&[("traceparent", trace)]), facts()),
    ]
}

fn merged(rules: &[(Rule, Vec<Header>, RequestFacts)]) -> (Vec<Header>, RequestFacts) {
    let mut all = RequestFacts::default();
    for (_, _, facts) in rules {
        all.metadata_user_id = all.metadata_user_id.or(facts.metadata_user_id.clone());
        all.session_id = all.session_id.or(facts.session_id.clone());
        all.conversation = all.conversation.or(facts.conversation.clone());
        all.prompt_cache_key = all.prompt_cache_key.or(facts.prompt_cache_key.clone());
        all.previous_response_id = all
            .previous_response_id
            .or(facts.previous_response_id.clone());
    }
    (
        rules
            .iter()
            .flat_map(|(_, headers, _)| headers.clone())
            .collect(),
        all,
    )
}

#[test]
fn the_strongest_rule_that_fires_gives_the_key() {
    let rules = everything();
    assert_eq!(
        rules.iter().map(|(rule, ..)| *rule).collect::<Vec<_>>(),
        Rule::ALL
    );
    for (index, (rule, ..)) in rules.iter().enumerate() {
        let (headers, facts) = merged(&rules[index..]);
        let session = session_of_configured(&headers, &facts, &["X-Mine".to_owned()]);
        assert_eq!(session.session_rule.as_deref(), Some(rule.name()));
        let has_key = *rule != Rule::PreviousResponse;
        assert_eq!(session.session_key.is_some(), has_key, "{rule:?}");
    }
    let session = session_of(&[], &RequestFacts::default());
    assert_eq!(session, SessionFacts::default());
}

#[test]
fn a_rule_is_read_back_by_its_name() {
    for (rule, ..) in everything() {
        assert_eq!(Rule::from_name(rule.name()), Some(rule));
    }
    assert_eq!(Rule::from_name("of a later version"), None);
    assert!(Rule::ClientRequest.confidence() < Confidence::Medium);
    assert!(Rule::Session.confidence() > Rule::PromptCacheKey.confidence());
}

#[test]
fn headers_are_found_in_any_case_and_empty_ones_are_none() {
    let fields = headers(&[
        ("X-SESSION-ID", "  "),
        ("x-Session-Affinity", " a "),
        ("baggage", ""),
    ]);
    let session = session_of(&fields, &RequestFacts::default());
    assert_eq!(session.session_key.as_deref(), Some("a"));
    let own = headers(&[("x-truetape-run", "r1"), ("X-Session-Id", "s")]);
    let session = session_of(&own, &RequestFacts::default());
    assert_eq!(session.replay_run.as_deref(), Some("r1"));
    assert_eq!(session.session_key.as_deref(), Some("s"));
}

#[test]
fn sub_agents_are_sessions_of_their_own_with_a_parent() {
    let claude = |fields: &[(&str, &str)]| {
        let mut all = headers(fields);
        all.extend(headers(&[("x-claude-code-session-id", "s")]));
        let session = session_of(&all, &RequestFacts::default());
        (session.session_key.unwrap(), session.parent_session_key)
    };
    let agent = ("x-claude-code-agent-id", "a");
    let parent = ("x-claude-code-parent-agent-id", "p");
    assert_eq!(claude(&[]), ("s".into(), None));
    assert_eq!(claude(&[agent]), ("s/a".into(), Some("s".into())));
    assert_eq!(claude(&[agent, parent]), ("s/a".into(), Some("s/p".into())));
    let spawned = headers(&[("x-session-affinity", "c"), ("x-parent-session-id", "s")]);
    let session = session_of(&spawned, &RequestFacts::default());
    assert_eq!(session.parent_session_key.as_deref(), Some("s"));
    let itself = headers(&[("x-session-affinity", "s"), ("x-parent-session-id", "s")]);
    assert_eq!(
        session_of(&itself, &RequestFacts::default()).parent_session_key,
        None
    );
}

#[test]
fn a_key_that_names_a_person_is_hashed() {
    let key = |user_id: &str| {
        let facts = RequestFacts {
            metadata_user_id: Some(user_id.to_owned()),
            ..Default::default()
        };
        session_of(&[], &facts).session_key
    };
    let legacy = key("user_0af7_account_11-22_session_33-44").unwrap();
    let object = key(r#"{"device_id":"d","account_uuid":"u","session_id":"33-44"}"#).unwrap();
    for key in [&legacy, &object] {
        assert_eq!(key.len(), 32);
        assert!(!key.contains("33-44"));
    }
    assert_ne!(
        key("user_0af7_account_11-22_session_33-45").unwrap(),
        legacy
    );
    for user in [
        "alice@example.org",
        "{\"device_id\":\"d\"}",
        "user_a_session_",
        "",
    ] {
        assert_eq!(key(user), None, "{user}");
    }
}

#[test]
fn a_key_without_end_is_hashed() {
    let fits = "k".repeat(KEY_BYTES_MAX);
    let key = |value: &str| {
        session_of(
            &headers(&[("x-session-id", value)]),
            &RequestFacts::default(),
        )
        .session_key
    };
    assert_eq!(key(&fits).unwrap(), fits);
    assert_eq!(key(&format!("{fits}k")).unwrap().len(), 32);
}

#[test]
fn trace_ids_are_read_where_they_are_well_formed() {
    let id = "0af7651916cd43dd8448eb211c80319c";
    let zero = "0".repeat(32);
    let cases = [
        (format!("00-{id}-b7ad6b7169203331-01"), true),
        (
            format!("cc-{id}-b7ad6b7169203331-01-what-comes-later"),
            true,
        ),
        (format!("00-{id}-b7ad6b7169203331-01-x"), false),
        (format!("ff-{id}-b7ad6b7169203331-01"), false),
        (
            format!("00-{}-b7ad6b7169203331-01", id.to_uppercase()),
            false,
        ),
        (format!("00-{zero}-b7ad6b7169203331-01"), false),
        (format!("00-{id}-0000000000000000-01"), false),
        (format!("00-{id}-b7ad6b7169203331"), false),
        (String::from("nonsense"), false),
    ];
    for (traceparent, is_valid) in cases {
        let fields = headers(&[("traceparent", &traceparent)]);
        let trace_id = session_of(&fields, &RequestFacts::default()).trace_id;
        assert_eq!(trace_id.as_deref(), is_valid.then_some(id), "{traceparent}");
    }
}

#[test]
fn a_baggage_names_the_session() {
    let cases = [
        ("session.id=a", Some("a")),
        (
            "x=1;p=2 , gen_ai.conversation.id = b%20c%2 ;p",
            Some("b c%2"),
        ),
        ("gen_ai.conversation.id=b,session.id=a", Some("a")),
        ("session.id=", None),
        ("session.id", None),
        ("other.session.id=a", None),
    ];
    for (baggage, key) in cases {
        let session = session_of(&headers(&[("baggage", baggage)]), &RequestFacts::default());
        assert_eq!(session.session_key.as_deref(), key, "{baggage}");
    }
}

proptest! {
    #[test]
    fn any_header_can_be_read(value in ".*", user_id in ".*") {
        let names = ["traceparent", "baggage", "x-session-id", "x-truetape-run"];
        for name in names {
            session_of(&headers(&[(name, &value)]), &RequestFacts::default());
        }
        let facts = RequestFacts { metadata_user_id: Some(user_id), ..Default::default() };
        session_of(&[], &facts);
    }
}

use super::{Count, Field, List, read, repair};
use crate::wire::limits::LIST_ITEMS_MAX;
use proptest::prelude::*;
use std::borrow::Cow;

object! {
    /// One of everything.
    Sample<'de> {
        text: Cow<'de, str> = "text" | "alias",
        whole: i64 = "whole",
        float: f64 = "float",
        flag: bool = "flag",
        list: List<Cow<'de, str>> = "list",
        count: Count = "count",
    }
}

fn sample(document: &str) -> Sample<'_> {
    read::<Sample<'_>>(document.as_bytes())
        .unwrap()
        .get()
        .unwrap()
}

#[test]
fn a_field_of_another_type_costs_itself_only() {
    let odd = [
        r#"{"whole": "x", "text": "kept"}"#,
        r#"{"whole": [[{}]], "text": "kept"}"#,
        r#"{"whole": {"a": [1, {}]}, "text": "kept"}"#,
        r#"{"whole": 1.5, "text": "kept"}"#,
        r#"{"whole": 1e30, "text": "kept"}"#,
        r#"{"whole": 18446744073709551615, "text": "kept"}"#,
        r#"{"whole": true, "text": "kept"}"#,
        r#"{"list": {"0": "a"}, "text": "kept"}"#,
        r#"{"list": ["a", 7], "text": "kept"}"#,
        r#"{"flag": 1, "alias": "kept"}"#,
    ];
    for document in odd {
        let sample = sample(document);
        assert_eq!(sample.text.text(), "kept", "{document}");
        assert!(Field::Is(sample).is_odd(), "{document}");
    }
}

#[test]
fn unknown_fields_and_nulls_are_not_odd() {
    let document = r#"{"x": [[[1e3]]], "whole": null, "text": "a\u00e9", "float": 2, "text": "b"}"#;
    let sample = sample(document);
    assert_eq!(sample.text.text(), "b");
    assert_eq!(sample.float.get_ref(), Some(&2.0));
    assert!(!Field::Is(sample).is_odd());
}

#[test]
fn of_a_field_that_comes_twice_the_last_counts_unless_it_is_null() {
    let cases = [
        (r#"{"text": "a", "text": "b"}"#, "b"),
        (r#"{"text": "a", "alias": null}"#, "a"),
        (r#"{"text": null, "text": "b"}"#, "b"),
        (r#"{"text": "a", "text": 7}"#, ""),
    ];
    for (document, text) in cases {
        assert_eq!(sample(document).text.text(), text, "{document}");
    }
}

#[test]
fn texts_without_escapes_are_borrowed() {
    assert!(matches!(
        sample(r#"{"text":"ab"}"#).text,
        Field::Is(Cow::Borrowed("ab"))
    ));
    assert!(matches!(
        sample(r#"{"text":"a\n"}"#).text,
        Field::Is(Cow::Owned(_))
    ));
}

#[test]
fn a_long_list_is_cut_and_odd() {
    let items = vec!["\"\""; LIST_ITEMS_MAX + 1].join(",");
    let document = format!("{{\"list\": [{items}], \"count\": [{items}]}}");
    let sample = sample(&document);
    assert_eq!(
        sample.list.get_ref().map(|list| list.items.len()),
        Some(LIST_ITEMS_MAX)
    );
    assert_eq!(
        sample.count.get_ref(),
        Some(&Count(LIST_ITEMS_MAX as i64 + 1))
    );
    assert!(Field::Is(sample).is_odd());
}

#[test]
fn deep_nesting_does_not_exhaust_the_stack() {
    let depth = 1_000_000;
    let document = format!(
        "{{\"x\": {}{}, \"whole\": 7}}",
        "[".repeat(depth),
        "]".repeat(depth)
    );
    assert_eq!(sample(&document).whole.get_ref(), Some(&7));
    let open = "{\"list\":[".repeat(depth);
    assert!(read::<Sample<'_>>(open.as_bytes()).is_err());
}

#[test]
fn what_servers_get_wrong_is_repaired() {
    let cases: [(&[u8], &str); 9] = [
        (br#"{"text": "a", "x": NaN}"#, "a"),
        (br#"{"text": "a", "x": [-Infinity, 1e999, Infinity]}"#, "a"),
        (br#"{"text": "NaN -Infinity 1e999"}"#, "NaN -Infinity 1e999"),
        (br#"{"text": "\ud83c"}"#, "\u{fffd}"),
        (br#"{"text": "\ud83c\u0041\udf0d"}"#, "\u{fffd}A\u{fffd}"),
        (
            br#"{"text": "\ud83c\udf0d\\ud83c\""}"#,
            "\u{1f30d}\\ud83c\"",
        ),
        (b"{\"text\": \"a\xff\xe4\xb8\"}", "a\u{fffd}\u{fffd}"),
        (b"{\"text\": \"a\tb\x01\"}", "a\tb\u{1}"),
        (b"{\"text\": \"a\", \"x\": 1.5e-3}", "a"),
    ];
    for (document, text) in cases {
        let repaired = repair(document);
        let shown = String::from_utf8_lossy(document);
        let sample = read::<Sample<'_>>(&repaired).unwrap().get().unwrap();
        assert_eq!(sample.text.text(), text, "{shown}");
    }
}

proptest! {
    #[test]
    fn repairing_what_is_whole_changes_nothing(text in ".*", number in any::<f64>(), flag: bool) {
        let document = serde_json::json!({ "a": [text, number, flag, null] }).to_string();
        prop_assert_eq!(repair(document.as_bytes()), document.as_bytes());
    }

    #[test]
    fn any_bytes_can_be_repaired(document: Vec<u8>) {
        repair(&document);
    }
}

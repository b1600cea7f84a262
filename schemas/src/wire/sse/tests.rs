use super::{Decoder, Event};
use proptest::prelude::*;

type Seen = (String, String, String);

fn seen(event: Event<'_>) -> Seen {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (text(event.name), text(event.data), text(event.id))
}

/// Decodes pushes: the events, each with the offset of the end of the push that completed it;
/// then those that only the end of the stream completed; then the count of what was skipped.
fn decode<'a>(
    line_bytes_max: usize,
    pushes: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<(usize, Seen)>, Vec<Seen>, u64) {
    let mut decoder = Decoder::new(line_bytes_max);
    let mut events = Vec::new();
    let mut end = 0;
    for push in pushes {
        end += push.len();
        decoder.push(push, |event| events.push((end, seen(event))));
    }
    let mut last = Vec::new();
    decoder.finish(|event| last.push(seen(event)));
    (events, last, decoder.skipped())
}

fn data(stream: &str) -> Vec<String> {
    let (events, last, skipped) = decode(100, [stream.as_bytes()]);
    assert_eq!((last, skipped), (vec![], 0), "{stream:?}");
    events.into_iter().map(|(_, (_, data, _))| data).collect()
}

#[test]
fn framing_is_as_the_standard_says() {
    let cases: [(&str, &[&str]); 19] = [
        ("data: a\n\n", &["a"]),
        ("data:a\n\n", &["a"]),
        ("data:  a\n\n", &[" a"]),
        ("data: a\r\n\r\n", &["a"]),
        ("data: a\r\r", &["a"]),
        ("data: a\r\n\n", &["a"]),
        ("data: a\n\r", &["a"]),
        ("data: a\r\rdata: b\n\r\n", &["a", "b"]),
        ("data: a\ndata: b\ndata\n\n", &["a\nb\n"]),
        ("data\n\n", &[""]),
        ("data:\n\n", &[""]),
        ("\n\n\n", &[]),
        ("event: x\nid: 1\n\n", &[]),
        (": data: a\n:\n\n", &[]),
        ("data: a\n: between\ndata: b\n\n", &["a\nb"]),
        ("\u{feff}data: a\n\n", &["a"]),
        ("data: a\n\n\u{feff}data: b\n\n", &["a"]),
        (" data: a\ndata : b\nDATA: c\n\n", &[]),
        ("data: a: b\nretry: 10\n\n", &["a: b"]),
    ];
    for (stream, expected) in cases {
        assert_eq!(data(stream), expected, "{stream:?}");
    }
}

#[test]
fn names_belong_to_one_event_and_ids_stay() {
    let stream =
        b"event: x\nid: 1\ndata: a\n\ndata: b\nid: n\0ul\n\nevent: y\nevent: z\ndata:\nid\n\n";
    let (events, _, _) = decode(100, [&stream[..]]);
    let events: Vec<Seen> = events.into_iter().map(|(_, event)| event).collect();
    let expected = [("x", "a", "1"), ("", "b", "1"), ("z", "", "")];
    let expected = expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned()));
    assert_eq!(events, expected);
}

#[test]
fn the_name_of_an_event_without_data_does_not_stay() {
    let (events, _, _) = decode(100, [&b"event: x\n\ndata: a\n\n"[..]]);
    assert_eq!(events[0].1.0, "");
}

#[test]
fn an_event_is_complete_with_the_byte_that_ends_its_blank_line() {
    let cases: [(&[&str], &[usize]); 5] = [
        (&["data: a\n", "\n"], &[9]),
        (&["data: a\r\n\r", "\n", "data: b\n\n"], &[10, 20]),
        (&["data: a\r", "\n\r\n"], &[11]),
        (
            &["data: a\r\r", "\ndata: b\r\n", "\r\ndata: c\n\n"],
            &[9, 30, 30],
        ),
        (&["data: a\n\ndata: b\n\nda", "ta: c\n\n"], &[20, 20, 27]),
    ];
    for (pushes, expected) in cases {
        let (events, _, _) = decode(100, pushes.iter().map(|push| push.as_bytes()));
        let ends: Vec<usize> = events
            .iter()
            .map(|(end, _)| *end)
            .take(expected.len())
            .collect();
        assert_eq!(ends, expected, "{pushes:?}");
    }
}

#[test]
fn the_lf_after_a_cr_makes_no_blank_line() {
    let (events, last, _) = decode(
        100,
        [&b"data: a\r"[..], b"\n", b"data: b\r", b"\n\r", b"\n"],
    );
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].1.1, "a\nb");
    assert_eq!(last, vec![]);
}

#[test]
fn an_unterminated_event_is_handed_on_apart() {
    for end in ["", "\n", "\r", "\r\n"] {
        let stream = format!("data: a\n\nevent: x\ndata: [DONE]{end}");
        let (events, last, _) = decode(100, [stream.as_bytes()]);
        assert_eq!(events.len(), 1);
        assert_eq!(
            last,
            vec![("x".to_owned(), "[DONE]".to_owned(), String::new())]
        );
    }
    let (_, last, _) = decode(100, [&b"\xef\xbb"[..]]);
    assert_eq!(last, vec![]);
}

#[test]
fn what_is_too_long_is_counted_and_the_stream_goes_on() {
    // A line of exactly the limit is kept.
    let cases: [(&str, &[&str], u64); 6] = [
        ("data: 4567\n\ndata: a\n\n", &["4567", "a"], 0),
        ("data: 45678\n\ndata: a\n\n", &["a"], 1),
        ("data: a\ndata: 45678\ndata: b\n\ndata: c\n\n", &["c"], 1),
        ("data: a\n: a long comment\n\ndata: b\n\n", &["a", "b"], 1),
        (
            "data: 4567\ndata: 4567\ndata: 4567\n\ndata: a\n\n",
            &["a"],
            1,
        ),
        (
            "data: 45678901234\rdata: 45678901234\r\rdata: a\n\n",
            &["a"],
            2,
        ),
    ];
    for (stream, expected, skipped) in cases {
        let (events, _, count) = decode(10, [stream.as_bytes()]);
        let data: Vec<&str> = events
            .iter()
            .map(|(_, (_, data, _))| data.as_str())
            .collect();
        assert_eq!((data.as_slice(), count), (expected, skipped), "{stream:?}");
    }
}

#[test]
fn a_line_of_three_mib_comes_through_by_default() {
    let content = "x".repeat(3 << 20);
    let stream = format!("data: {content}\n\ndata: after\n\n");
    let mut decoder = Decoder::default();
    let mut sizes = Vec::new();
    for push in stream.as_bytes().chunks(16 * 1024) {
        decoder.push(push, |event| sizes.push(event.data.len()));
    }
    assert_eq!((sizes, decoder.skipped()), (vec![3 << 20, 5], 0));
}

/// Streams in which what matters is common: ends of lines, fields, lines around the limit.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(b"\n".to_vec()),
        3 => Just(b"\r".to_vec()),
        3 => Just(b"\r\n".to_vec()),
        4 => Just(b"data: ".to_vec()),
        1 => Just(b"data:".to_vec()),
        1 => Just(b"event: ".to_vec()),
        1 => Just(b"id: ".to_vec()),
        1 => Just(b": ".to_vec()),
        1 => Just(b"\xef\xbb\xbf".to_vec()),
        1 => Just(b"\xef\xbb".to_vec()),
        1 => Just("世🌍".as_bytes().to_vec()),
        2 => "[a-z ]{0,12}".prop_map(String::into_bytes),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// Where the network happened to cut the stream must not matter, neither for what is decoded
    /// nor, beyond the cut itself, for when. The limit is small, so that lines over it are common.
    #[test]
    fn chunking_is_invisible(stream in stream(), cuts in prop::collection::vec(1usize..9, 1..20)) {
        let (bytewise, last, skipped) = decode(16, stream.chunks(1));
        let mut pushes = Vec::new();
        let mut rest = &stream[..];
        let mut sizes = cuts.iter().cycle();
        while !rest.is_empty() {
            let (push, tail) = rest.split_at((*sizes.next().unwrap()).min(rest.len()));
            pushes.push(push);
            rest = tail;
        }
        let ends: Vec<usize> = pushes
            .iter()
            .scan(0, |end, push| { *end += push.len(); Some(*end) })
            .collect();
        let expected: Vec<(usize, Seen)> = bytewise
            .iter()
            .map(|(at, event)| (*ends.iter().find(|end| *end >= at).unwrap(), event.clone()))
            .collect();
        prop_assert_eq!(decode(16, pushes), (expected, last.clone(), skipped));
        let whole: Vec<Seen> = bytewise.into_iter().map(|(_, event)| event).collect();
        let (events, last_whole, skipped_whole) = decode(16, [&stream[..]]);
        let events: Vec<Seen> = events.into_iter().map(|(_, event)| event).collect();
        prop_assert_eq!((events, last_whole, skipped_whole), (whole, last, skipped));
    }

    /// A second reading of the standard, over whole texts: what it dispatches is what we do.
    #[test]
    fn a_naive_reading_agrees(stream in stream()) {
        let (events, _, skipped) = decode(usize::MAX, [&stream[..]]);
        let events: Vec<Seen> = events.into_iter().map(|(_, event)| event).collect();
        prop_assert_eq!((events, skipped), (naive(&stream), 0));
    }
}

fn naive(stream: &[u8]) -> Vec<Seen> {
    let stream = stream.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stream);
    // One character a byte, so that it can be cut anywhere.
    let text: String = stream.iter().map(|byte| char::from(*byte)).collect();
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut lines: Vec<&str> = text.split('\n').collect();
    lines.pop();
    let bytes = |text: &str| {
        let bytes: Vec<u8> = text.chars().map(|c| c as u8).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (mut name, mut data, mut id) = (String::new(), None::<String>, String::new());
    let mut events = Vec::new();
    for line in lines {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            _ if line.is_empty() => {
                let name = std::mem::take(&mut name);
                if let Some(data) = data.take() {
                    events.push((bytes(&name), bytes(&data), bytes(&id)));
                }
            }
            "data" => {
                data = Some(data.map_or(value.to_owned(), |data| format!("{data}\n{value}")));
            }
            "event" => value.clone_into(&mut name),
            "id" if !value.contains('\0') => value.clone_into(&mut id),
            _ => {}
        }
    }
    events
}

use super::*;
use proptest::prelude::*;

fn base64_of(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    base64::encode(bytes, &mut text);
    String::from_utf8(text).unwrap()
}

fn pixels(seed: u8, length: usize) -> Vec<u8> {
    let seed = [seed; 32];
    let mut bytes = vec![0; length];
    blake3::Hasher::new_keyed(&seed)
        .finalize_xof()
        .fill(&mut bytes);
    bytes
}

fn nothing<'a>(_: &str) -> Option<&'a [u8]> {
    None
}

#[test]
fn base64_is_what_the_standard_says() {
    for (bytes, text) in [
        ("", ""),
        ("f", "Zg=="),
        ("fo", "Zm8="),
        ("foo", "Zm9v"),
        ("foobar", "Zm9vYmFy"),
    ] {
        assert_eq!(base64_of(bytes.as_bytes()), text);
        assert_eq!(decode(text.as_bytes()).as_deref(), Some(bytes.as_bytes()));
    }
    for text in [
        "Zg=", "Zg", "Zh==", "Zm9=", "Zm_v", "====", "=", "Z===", "Zg==Zg==",
    ] {
        assert_eq!(decode(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn blobs_are_found_where_clients_put_them() {
    let (png, wav) = (pixels(1, 4000), pixels(2, 5001));
    let body = format!(
        r#"{{"messages":[{{"role":"user","content":[
        {{"type":"image_url","image_url":{{"url":"data:image/png;base64,{}"}}}},
        {{"type":"input_audio","input_audio":{{"data" : "{}","format":"wav"}}}},
        {{"type":"text","text":"see ![x](data:image/gif;base64,{}) and {{\"data\":\"short\"}}"}}
        ]}}]}}"#,
        base64_of(&png),
        base64_of(&wav),
        base64_of(&png),
    );
    let (skeleton, blobs) = take_out(body.as_bytes()).unwrap();
    let shown: Vec<_> = blobs
        .iter()
        .map(|blob| (blob.mime.as_str(), blob.bytes))
        .collect();
    assert_eq!(
        shown,
        [("image/png", 4000), ("", 5001), ("image/gif", 4000)]
    );
    assert_eq!(blobs[0].hash, blobs[2].hash);
    assert_eq!(blobs[0].hash, blake3::hash(&png).to_hex().to_string());
    let text = std::str::from_utf8(&skeleton).unwrap();
    let value: serde_json::Value = serde_json::from_str(text).unwrap();
    let url = &value["messages"][0]["content"][0]["image_url"]["url"];
    let expected = format!("data:image/png;base64,{}", blobs[0].reference());
    assert_eq!(url, &expected);
    assert!(skeleton.len() < 1024, "{}", skeleton.len());
    assert_eq!(
        put_back(&skeleton, &blobs, nothing).unwrap(),
        body.as_bytes()
    );
}

#[test]
fn what_only_looks_like_one_stays() {
    let long = "A".repeat(BASE64_BYTES_MIN);
    for body in [
        format!("data:image/png;base64,{}", "A".repeat(BASE64_BYTES_MIN - 4)),
        format!("data:image/png;base64,{long}A"),
        format!("data:image/png,{long}"),
        format!(r#"{{"text":"{long}"}}"#),
        format!(r#"{{"data":["{long}"]}}"#),
        format!("{long}\"data\""),
    ] {
        assert_eq!(take_out(body.as_bytes()), None, "{body:.60}");
    }
}

#[test]
fn a_skeleton_of_other_blobs_is_not_put_together() {
    let body = format!("data:;base64,{}", base64_of(&pixels(1, 6000)));
    let (skeleton, mut blobs) = take_out(body.as_bytes()).unwrap();
    blobs[0].offset += 1;
    assert_eq!(put_back(&skeleton, &blobs, nothing), None);
    blobs[0].offset = i64::MAX;
    assert_eq!(put_back(&skeleton, &blobs, nothing), None);
    blobs[0].offset = -1;
    assert_eq!(put_back(&skeleton, &blobs, nothing), None);
}

#[test]
fn rows_of_a_segment_share_their_blobs() {
    let body = |text: &str| {
        let image = base64_of(&pixels(3, 9000));
        format!(r#"{{"text":"{text}","url":"data:image/png;base64,{image}"}}"#).into_bytes()
    };
    let row = |body: Vec<u8>, encoding: Option<&str>| Exchange {
        request_body: Some(body),
        request_encoding: encoding.map(str::to_owned),
        ..Exchange::default()
    };
    let sent = [body("one"), body("two"), b"{}".to_vec(), body("coded")];
    let mut rows = sent.clone().map(|body| row(body, None));
    rows[3].request_encoding = Some("gzip".to_owned());
    let mut kept = HashSet::new();
    for row in &mut rows {
        keep_once(row, &mut kept);
        let again = row.clone();
        keep_once(row, &mut kept);
        assert_eq!(*row, again, "a skeleton is taken for no body");
    }
    let data = rows
        .iter()
        .flat_map(|row| row.request_blobs.iter().flatten());
    assert_eq!(data.filter(|blob| blob.data.is_some()).count(), 1);
    assert_eq!(rows[3].request_blobs, None);
    let mut blobs = Blobs::default();
    assert_eq!(blobs.request_body(&rows[1]), None);
    for (row, sent) in rows.iter().zip(&sent) {
        blobs.remember(row);
        assert_eq!(blobs.request_body(row).as_deref(), Some(sent.as_slice()));
    }
}

proptest! {
    #[test]
    fn a_body_is_its_skeleton_and_its_blobs(
        parts in proptest::collection::vec(
            (any::<u8>(), 2900_usize..3300, "[ -~]{0,40}", 0_usize..6), 0..5
        )
    ) {
        let mut body = String::new();
        for (seed, length, text, shape) in parts {
            let blob = base64_of(&pixels(seed, length));
            body += &match shape {
                0 => format!("\"data\":\"{blob}\""),
                1 => format!("data:{text};base64,{blob}"),
                2 => format!("data:image/png;base64,{blob}{text}"),
                // What stands for a blob is no blob when a client wrote it.
                3 => format!("data:a/b;base64,blob:blake3:{};bytes=1", blake3::hash(b"").to_hex()),
                4 => format!(";base64,{blob}{blob}"),
                _ => text,
            };
        }
        let taken = take_out(body.as_bytes());
        let (skeleton, blobs) = taken.unwrap_or_else(|| (body.clone().into_bytes(), vec![]));
        prop_assert_eq!(put_back(&skeleton, &blobs, nothing).unwrap(), body.as_bytes());
        let bare: Vec<Blob> = blobs.iter().cloned().map(|blob| Blob { data: None, ..blob }).collect();
        let find = |hash: &str| blobs.iter().find(|blob| blob.hash == hash)?.data.as_deref();
        prop_assert_eq!(put_back(&skeleton, &bare, find).unwrap(), body.as_bytes());
    }

    #[test]
    fn what_decodes_encodes_to_the_same_text(text in "[A-Za-z0-9+/]{0,40}={0,3}") {
        if let Some(bytes) = decode(text.as_bytes()) {
            prop_assert_eq!(base64_of(&bytes), text);
        }
    }
}

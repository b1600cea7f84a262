use super::*;
use proptest::prelude::*;
use std::os::unix::fs::PermissionsExt as _;

fn message(role: &str, text: &str) -> Message {
    let raw = format!("{{\"role\":\"{role}\",\"content\":\"{text}\"}}").into_bytes();
    Message {
        role: role.to_owned(),
        canonical: canonical::identity_of_json(&raw),
        raw,
    }
}

fn key() -> DigestKey {
    DigestKey::of(&[7; 32])
}

#[test]
fn a_chain_hash_covers_all_before_and_an_identity_only_its_own_message() {
    let (one, two) = (message("user", "one"), message("assistant", "two"));
    let first = key().hashes(None, &[one.clone(), two.clone()]);
    let longer = key().hashes(None, &[one.clone(), two.clone(), one.clone()]);
    let other = key().hashes(None, &[message("user", "other"), two]);
    assert_eq!(first.segments, longer.segments[..2]);
    assert_ne!(first.segments[1].hash, other.segments[1].hash);
    assert_eq!(first.segment_hashes[1], other.segment_hashes[1]);
    assert_eq!(longer.segment_hashes[0], longer.segment_hashes[2]);
    assert_ne!(longer.segments[0].hash, longer.segments[2].hash);
    assert_eq!(first.segments[0].bytes, one.raw.len() as i64);
}

#[test]
fn tools_come_first_and_change_every_chain_hash() {
    let messages = [message("user", "one")];
    let bare = key().hashes(None, &messages);
    let with = key().hashes(Some(br#"[{"a":1,"b":2}]"#), &messages);
    let turned = key().hashes(Some(br#"[ {"b":2,"a":1} ]"#), &messages);
    assert_eq!(with.segments[0].role, TOOLS_ROLE);
    assert_ne!(with.segments[1].hash, bare.segments[0].hash);
    assert_eq!(with.segment_hashes, turned.segment_hashes);
    assert_ne!(with.segments, turned.segments);
}

#[test]
fn no_word_of_a_client_is_told() {
    let hashes = key().hashes(
        None,
        &[message("canary", "canary"), message("user", "canary")],
    );
    let told: Vec<_> = hashes.segments.iter().map(|s| s.role.as_str()).collect();
    assert_eq!(told, [OTHER_ROLE, "user"]);
    assert!(!format!("{hashes:?} {:?}", key()).contains("canary"));
    let name = key().name("canary");
    assert!(name.len() == NAME_PREFIX.len() + NAME_CHARS && !name.contains("canary"));
    assert_eq!(name, key().name("canary"));
    assert_ne!(name, key().name("canaries"));
}

#[test]
fn another_key_gives_other_hashes() {
    let other = DigestKey::of(&[8; 32]);
    let messages = [message("user", "one")];
    assert_ne!(key().fingerprint(), other.fingerprint());
    assert_ne!(key().name("n"), other.name("n"));
    let (a, b) = (key().hashes(None, &messages), other.hashes(None, &messages));
    assert_ne!(a.segments[0].hash, b.segments[0].hash);
    assert_ne!(a.segment_hashes, b.segment_hashes);
    assert_ne!(a.text_block_hashes, b.text_block_hashes);
    // Each use has a key of its own.
    let single = [
        a.segments[0].hash,
        a.segment_hashes[0],
        a.text_block_hashes[0],
    ];
    assert!(single[0] != single[1] && single[1] != single[2] && single[0] != single[2]);
}

#[test]
fn a_directory_has_one_key_that_only_its_owner_reads() {
    let directory = tempfile::tempdir().unwrap();
    let first = DigestKey::of_directory(directory.path()).unwrap();
    let again = DigestKey::of_directory(directory.path()).unwrap();
    assert_eq!(first.fingerprint(), again.fingerprint());
    let path = directory.path().join(KEY_FILE);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let elsewhere = tempfile::tempdir().unwrap();
    let other = DigestKey::of_directory(elsewhere.path()).unwrap();
    assert_ne!(first.fingerprint(), other.fingerprint());
    let hex = std::fs::read_to_string(&path).unwrap();
    assert!(
        !hex.contains(first.fingerprint()),
        "the fingerprint is no part of the key"
    );
}

#[test]
fn a_key_that_is_cut_short_is_refused_and_not_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    for text in [
        "",
        "canary",
        &"f".repeat(63),
        &"g".repeat(64),
        &"f".repeat(65),
    ] {
        std::fs::write(&path, text).unwrap();
        let said = DigestKey::read(&path).unwrap_err().to_string();
        assert!(said.contains("expected 64 hexadecimal digits"), "{said}");
        assert!(!said.contains("canary") && !said.contains("fff"), "{said}");
    }
    std::fs::write(&path, format!("{}\n", "fA".repeat(32))).unwrap();
    let given = DigestKey::read(&path).unwrap();
    assert_eq!(
        given.fingerprint(),
        DigestKey::of(&[0xfa; 32]).fingerprint()
    );
}

proptest! {
    #[test]
    fn two_prompts_share_blocks_exactly_as_far_as_they_share_text(
        shared in 0_usize..2000, a in 0_usize..2000, b in 0_usize..2000
    ) {
        let text = |letter: &str, length| "s".repeat(shared) + &letter.repeat(length);
        let blocks = |text: String| {
            let message = Message { raw: text.into_bytes(), ..Message::default() };
            key().hashes(None, &[message]).text_block_hashes
        };
        let (one, other) = (blocks(text("a", a)), blocks(text("b", b)));
        prop_assert_eq!(one.len(), (shared + a).div_ceil(limits::TEXT_BLOCK_BYTES));
        let common = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
        let equal = a == 0 && b == 0;
        let expected = if equal { one.len() } else { shared / limits::TEXT_BLOCK_BYTES };
        prop_assert_eq!(common, expected);
    }

    #[test]
    fn blocks_do_not_depend_on_where_messages_end(text in "[a-z]{0,1500}", cut in 0_usize..1500) {
        let raw = |text: &str| Message { raw: text.as_bytes().to_vec(), ..Message::default() };
        let (left, right) = text.split_at(cut.min(text.len()));
        let whole = key().hashes(None, &[raw(&text)]).text_block_hashes;
        let parts = key().hashes(None, &[raw(left), raw(right)]).text_block_hashes;
        prop_assert_eq!(whole, parts);
    }
}

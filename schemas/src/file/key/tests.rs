use super::{Key, Keyring, hexadecimal};
use crate::blame::{Blame, Blamed as _};
use crate::capture::Exchange;
use crate::file::{Error, Reader, Writer};
use std::path::Path;

const SECRET: &str = "the text of a prompt, which nobody else may read";

fn key(byte: u8, length: usize) -> Key {
    Key::new(vec![byte; length]).unwrap()
}

fn rows() -> Vec<Exchange> {
    let row = |n: i64| Exchange {
        exchange_id: n.to_string(),
        path: format!("/{SECRET}"),
        request_body: (n % 3 != 0).then(|| SECRET.as_bytes().to_vec()),
        response_body: (n % 2 == 0).then(Vec::new),
        ..Exchange::default()
    };
    (0..10).map(row).collect()
}

fn write(path: &Path, key: Option<&Key>) {
    let mut writer = Writer::create_with(path, key).unwrap();
    writer.write_owned(rows()).unwrap();
    writer
        .finish(&[("note".to_owned(), SECRET.to_owned())])
        .unwrap();
}

fn holds(path: &Path, text: &str) -> bool {
    let bytes = std::fs::read(path).unwrap();
    bytes
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

#[test]
fn an_encrypted_file_tells_nothing_but_the_name_of_its_key() {
    let dir = tempfile::tempdir().unwrap();
    for (length, other) in [(16, 32), (32, 16)] {
        let (path, key, other) = (dir.path().join("a.parquet"), key(7, length), key(7, other));
        write(&path, Some(&key));
        assert!(holds(&path, key.id()) && !holds(&path, SECRET) && !holds(&path, "exchange_id"));
        let keys = Keyring(vec![other, key]);
        let reader = Reader::<Exchange>::open_with(&path, &keys).unwrap();
        assert_eq!(
            reader.footer().get("note").map(String::as_str),
            Some(SECRET)
        );
        assert_eq!(reader.read_all().unwrap(), rows());
    }
    // The control: without a key all of it can be found.
    let path = dir.path().join("b.parquet");
    write(&path, None);
    assert!(holds(&path, "exchange_id") && holds(&path, SECRET));
    let keys = Keyring::of(key(7, 16));
    let reader = Reader::<Exchange>::open_with(&path, &keys).unwrap();
    assert_eq!(reader.read_all().unwrap(), rows());
}

#[test]
fn a_key_that_is_missing_and_a_file_that_was_changed_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let (path, right) = (dir.path().join("a.parquet"), key(1, 16));
    write(&path, Some(&right));
    for keys in [Keyring::default(), Keyring::of(key(2, 16))] {
        let error = Reader::<Exchange>::open_with(&path, &keys).unwrap_err();
        assert!(
            matches!(&error, Error::NoKey { key_id, .. } if key_id == right.id()),
            "{error}"
        );
        assert!(error.to_string().contains("--key-file"), "{error}");
        assert_eq!(error.blame(), Blame::Config);
    }
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.len() - 40;
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let error = Reader::<Exchange>::open_with(&path, &Keyring::of(right)).unwrap_err();
    assert!(matches!(error, Error::Forged { .. }), "{error}");
    assert_eq!(error.blame(), Blame::Data);
}

#[test]
fn a_page_that_was_changed_is_an_error_and_not_a_row() {
    let dir = tempfile::tempdir().unwrap();
    let (path, key) = (dir.path().join("a.parquet"), key(1, 32));
    write(&path, Some(&key));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let read = Reader::<Exchange>::open_with(&path, &Keyring::of(key)).and_then(Reader::read_all);
    assert_eq!(read.unwrap_err().blame(), Blame::Data);
}

#[test]
fn a_key_file_holds_keys_in_hexadecimal_and_an_error_never_shows_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("keys");
    let long = "0123456789abcdefABCDEF0123456789".repeat(2);
    std::fs::write(
        &path,
        format!("# old and new\n\n {long}\r\n{}\n", "0f".repeat(16)),
    )
    .unwrap();
    let keys = Keyring::read(&path).unwrap();
    let written = Key::new(hexadecimal(&long).unwrap()).unwrap();
    assert_eq!(keys.writing().unwrap().id(), written.id());
    assert!(keys.find(key(0x0f, 16).id()).is_some());
    assert!(!format!("{keys:?}").contains("15, 15"), "{keys:?}");
    for bad in [
        "",
        "# nothing\n",
        "0f0f",
        &"g".repeat(32),
        &"0f".repeat(24),
        "0f0f0\u{e9}",
    ] {
        std::fs::write(&path, bad).unwrap();
        let error = Keyring::read(&path).unwrap_err();
        assert_eq!(error.blame(), Blame::Config);
        let told = error.to_string();
        assert!(bad.len() < 5 || !told.contains(bad.trim()), "{told}");
    }
    std::fs::write(&path, "\n".repeat(70_000)).unwrap();
    assert!(
        Keyring::read(&path)
            .unwrap_err()
            .to_string()
            .contains("70000")
    );
    assert_eq!(
        Keyring::read(&dir.path().join("none")).unwrap_err().blame(),
        Blame::Config
    );
}

#[test]
fn derived_keys_differ_by_key_use_and_salt() {
    let (one, other) = (key(1, 16), key(2, 16));
    let first = one.derive("a", b"s");
    assert_eq!(first, one.derive("a", b"s"));
    for another in [
        one.derive("b", b"s"),
        one.derive("a", b"t"),
        other.derive("a", b"s"),
    ] {
        assert_ne!(first, another);
    }
}

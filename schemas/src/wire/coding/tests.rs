use super::*;
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use proptest::prelude::*;

/// A brotli stream of `data: 1\n\n` and `data: 2\n\n`, flushed between, from the reference encoder.
const BROTLI: [&str; 3] = [
    "0b0480646174613a20310a0a",
    "400000404a41a608d124186300",
    "03",
];

/// A brotli stream of 2,000 times `data: 1\n\n`, up to a flush, from the reference encoder.
const BROTLI_LONG: &str = "8b272300a415406274d420af15738a2c037c00366000";

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

fn zlib(body: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

fn raw(body: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

fn zstd(body: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(body, 1).unwrap()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .map(|byte| u8::try_from(char::from(byte).to_digit(16).unwrap()).unwrap())
        .collect();
    digits.chunks(2).map(|two| two[0] << 4 | two[1]).collect()
}

/// Unpacks in pieces.
fn in_pieces(label: &str, body: &[u8], piece: usize) -> Result<Vec<u8>, CodingError> {
    let mut decoder = Decoder::new(Some(label))?;
    let mut out = Vec::new();
    for piece in body.chunks(piece) {
        out.extend_from_slice(&decoder.push(piece)?);
    }
    Ok(out)
}

#[test]
fn a_body_that_is_not_coded_is_what_it_is() {
    for label in [None, Some(""), Some("identity"), Some(" Identity , ")] {
        assert!(is_identity(label));
        assert!(matches!(decode(label, b"abc"), Ok(Cow::Borrowed(b"abc"))));
    }
    assert!(!is_identity(Some("gzip")));
}

#[test]
fn labels_are_read_without_regard_to_case_and_chains_from_the_last() {
    let once = gzip(b"abc");
    let twice = zstd(&once);
    for label in ["gzip, zstd", "GZIP,ZStd", "x-gzip, identity, zstd"] {
        assert_eq!(&*decode(Some(label), &twice).unwrap(), b"abc");
    }
    assert_eq!(
        decode(Some("zstd, gzip"), &twice),
        Err(CodingError::Malformed)
    );
}

#[test]
fn an_event_comes_out_with_the_frame_that_completes_it() {
    let mut decoder = Decoder::new(Some("br")).unwrap();
    let out = BROTLI.map(|hex| decoder.push(&unhex(hex)).unwrap().into_owned());
    assert_eq!(
        out,
        [b"data: 1\n\n".to_vec(), b"data: 2\n\n".to_vec(), vec![]]
    );
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let mut decoder = Decoder::new(Some("gzip")).unwrap();
    for event in [b"data: 1\n\n", b"data: 2\n\n"] {
        encoder.write_all(event).unwrap();
        encoder.flush().unwrap();
        let frame = std::mem::take(encoder.get_mut());
        assert_eq!(&*decoder.push(&frame).unwrap(), event);
    }
}

#[test]
fn a_frame_that_says_much_says_all_of_it_at_once() {
    let text = b"data: 1\n\n".repeat(2_000);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&text).unwrap();
    encoder.flush().unwrap();
    for (label, frame) in [("br", &unhex(BROTLI_LONG)), ("gzip", encoder.get_ref())] {
        assert_eq!(
            decode(Some(label), frame).unwrap().len(),
            text.len(),
            "{label}"
        );
        assert_eq!(in_pieces(label, frame, 1).unwrap(), text, "{label}");
    }
}

#[test]
fn pushes_of_nothing_change_nothing() {
    let packed = [
        ("gzip", gzip(b"abc")),
        ("deflate", zlib(b"abc")),
        ("zstd", zstd(b"abc")),
        ("zstd, gzip", gzip(&zstd(b"abc"))),
        ("br", unhex(&BROTLI.concat())),
    ];
    for (label, packed) in packed {
        let mut decoder = Decoder::new(Some(label)).unwrap();
        let mut out = Vec::new();
        for piece in packed.chunks(3) {
            out.extend_from_slice(&decoder.push(piece).unwrap());
            for _ in 0..100 {
                assert_eq!(decoder.push(b"").unwrap().len(), 0, "{label}");
            }
        }
        assert_eq!(out, &*decode(Some(label), &packed).unwrap(), "{label}");
    }
}

#[test]
fn a_bomb_ends_at_the_bound() {
    const BOUND: usize = 1 << 20;
    let most = vec![0; BOUND];
    let more = vec![0; BOUND + 1];
    let unpack = |label, packed: &[u8]| {
        let mut decoder = Decoder::within(Some(label), BOUND)?;
        decoder.push(packed).map(|bytes| bytes.len())
    };
    for (label, pack) in [("gzip", gzip as fn(&[u8]) -> Vec<u8>), ("zstd", zstd)] {
        assert!(pack(&most).len() < BOUND / 100);
        assert_eq!(unpack(label, &pack(&most)), Ok(BOUND));
        assert_eq!(unpack(label, &pack(&more)), Err(CodingError::TooLong));
    }
    // Each layer of a chain is bounded, and so is the sum of many frames.
    assert_eq!(
        unpack("gzip, gzip", &gzip(&gzip(&more))),
        Err(CodingError::TooLong)
    );
    let mut decoder = Decoder::within(Some("gzip"), BOUND).unwrap();
    let failed = gzip(&more)
        .chunks(64)
        .find_map(|piece| decoder.push(piece).err());
    assert_eq!(failed, Some(CodingError::TooLong));
}

#[test]
fn a_label_that_is_wrong_or_unknown_is_an_error() {
    for label in ["gzip", "br", "zstd"] {
        let read = decode(Some(label), b"{\"model\":\"m\",\"messages\":[]}");
        assert_eq!(read, Err(CodingError::Malformed), "{label}");
    }
    // What deflate makes of any text may be noise, for want of a head and a checksum.
    assert_eq!(
        decode(Some("deflate"), b"\x07\x07"),
        Err(CodingError::Malformed)
    );
    for label in ["compress", "gzip, aes128gcm", "gzip,gzip,gzip,gzip,gzip"] {
        assert_eq!(decode(Some(label), b""), Err(CodingError::Unknown));
    }
}

#[test]
fn a_body_that_was_cut_gives_what_it_says_so_far() {
    let text: Vec<u8> = (0..80_000_u32).flat_map(|n| n.to_le_bytes()).collect();
    for (label, packed) in [("gzip", gzip(&text)), ("zstd", zstd(&text))] {
        let cut = decode(Some(label), &packed[..packed.len() - 100]).unwrap();
        assert!(!cut.is_empty() && text.starts_with(&cut), "{label}");
    }
}

proptest! {
    #[test]
    fn what_was_packed_comes_out_whatever_it_was_cut_into(
        body in proptest::collection::vec(0_u8..4, 0..4000), piece in 1_usize..300
    ) {
        let packed = [
            ("gzip", gzip(&body)),
            ("deflate", zlib(&body)),
            ("deflate", raw(&body)),
            ("zstd", zstd(&body)),
            ("deflate, gzip", gzip(&raw(&body))),
            ("gzip, zstd, deflate", zlib(&zstd(&gzip(&body)))),
        ];
        for (label, packed) in packed {
            prop_assert_eq!(&in_pieces(label, &packed, piece).unwrap(), &body, "{}", label);
        }
    }

    #[test]
    fn any_bytes_can_be_unpacked(body: Vec<u8>, piece in 1_usize..40) {
        for label in ["gzip", "deflate", "br", "zstd", "br, gzip"] {
            drop(in_pieces(label, &body, piece));
        }
    }
}

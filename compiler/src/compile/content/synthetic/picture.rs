//! A picture for a picture: as wide, as high and as many bytes, and nothing to be seen on it.
//!
//! Servers count an image's tokens by its pixels and refuse what they cannot decode. The new one is
//! a PNG of one bit a pixel, black but for a few pixels that tell it from others: engines know
//! images again by what they show.

use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde_json::Value;
use std::io::Write as _;
use truetape_schemas::capture::blob;

/// Pixels of a side at most: a picture of 2^28 pixels is more than any model takes.
const SIDE_MAX: u32 = 1 << 14;

/// The sides of a picture that nobody kept: a common tile of vision models.
const SIDE_UNKNOWN: u32 = 512;

/// Bytes of a picture at most: providers refuse requests of more than 32 MiB.
const BYTES_MAX: usize = 64 << 20;

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// A chunk that readers skip: ancillary, private, safe to copy.
const PADDING: &[u8] = b"trPd";

/// Bytes of a chunk beside its data: length, name, checksum.
const CHUNK_BYTES: usize = 12;

/// Where a part may hold a picture: as a `data:` URL, or as base64 alone.
const PLACES: [&str; 3] = ["/image_url/url", "/image_url", "/source/data"];

/// A picture in a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Picture {
    place: &'static str,
    is_url: bool,
    width: u32,
    height: u32,
    bytes: usize,
    /// Whether its sides are known.
    pub(super) measured: bool,
}

impl Picture {
    /// The picture that a part holds, if it holds one that can be measured, or the reference of
    /// one that was taken out of the body.
    pub(super) fn of(part: &Value) -> Option<Self> {
        let (place, text) = PLACES
            .into_iter()
            .find_map(|place| Some((place, part.pointer(place)?.as_str()?)))?;
        let (is_url, encoded) = match text.strip_prefix("data:") {
            Some(url) => (true, url.split_once(";base64,")?.1),
            None if place == "/source/data" => (false, text),
            // A picture elsewhere on the network stays a link, scrubbed.
            None => return None,
        };
        let of = |width, height, bytes, measured| Self {
            place,
            is_url,
            width,
            height,
            bytes,
            measured,
        };
        if let Some(reference) = encoded.strip_prefix("blob:blake3:") {
            let bytes = reference
                .split(';')
                .find_map(|field| field.strip_prefix("bytes="))?;
            let bytes = bytes.parse().ok()?;
            return Some(of(SIDE_UNKNOWN, SIDE_UNKNOWN, bytes, false));
        }
        let bytes = blob::decode(encoded.as_bytes())?;
        let (width, height) = sides(&bytes)?;
        Some(of(width, height, bytes.len(), true))
    }

    /// Puts the new picture where the old one was. `mark` tells it from others.
    pub(super) fn put(&self, part: &mut Value, mark: u64) {
        let Ok(png) = png(self.width, self.height, self.bytes, mark) else {
            return;
        };
        let mut text = Vec::new();
        if self.is_url {
            text.extend_from_slice(b"data:image/png;base64,");
        }
        blob::encode(&png, &mut text);
        let Ok(text) = String::from_utf8(text) else {
            return;
        };
        if let Some(place) = part.pointer_mut(self.place) {
            *place = Value::String(text);
        }
        if let Some(kind) = part.pointer_mut("/source/media_type") {
            *kind = Value::from("image/png");
        }
    }
}

/// Width and height of a PNG, GIF, JPEG or WebP.
fn sides(bytes: &[u8]) -> Option<(u32, u32)> {
    let sides = if bytes.starts_with(SIGNATURE) {
        (
            u32::from_be_bytes(at(bytes, 16)?),
            u32::from_be_bytes(at(bytes, 20)?),
        )
    } else if bytes.starts_with(b"GIF8") {
        (
            u16::from_le_bytes(at(bytes, 6)?).into(),
            u16::from_le_bytes(at(bytes, 8)?).into(),
        )
    } else if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        webp(bytes)?
    } else {
        jpeg(bytes)?
    };
    let holds = |side| (1..=SIDE_MAX).contains(&side);
    (holds(sides.0) && holds(sides.1)).then_some(sides)
}

fn at<const N: usize>(bytes: &[u8], from: usize) -> Option<[u8; N]> {
    bytes.get(from..from.checked_add(N)?)?.try_into().ok()
}

fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    match bytes.get(12..16)? {
        b"VP8 " => {
            let side = |from| Some(u32::from(u16::from_le_bytes(at(bytes, from)?) & 0x3fff));
            Some((side(26)?, side(28)?))
        }
        b"VP8L" => {
            let bits = u32::from_le_bytes(at(bytes, 21)?);
            Some(((bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1))
        }
        b"VP8X" => {
            let side = |from| {
                let [a, b, c] = at::<3>(bytes, from)?;
                Some(u32::from_le_bytes([a, b, c, 0]) + 1)
            };
            Some((side(24)?, side(27)?))
        }
        _ => None,
    }
}

/// A JPEG tells its sides in the segment that starts the frame.
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    if !bytes.starts_with(b"\xff\xd8") {
        return None;
    }
    let mut from = 2;
    loop {
        let [mark, kind] = at(bytes, from)?;
        if mark != 0xff {
            return None;
        }
        // Tables of Huffman codes and of arithmetic coding have numbers in between.
        if matches!(kind, 0xc0..=0xcf) && !matches!(kind, 0xc4 | 0xc8 | 0xcc) {
            let side = |from| Some(u32::from(u16::from_be_bytes(at(bytes, from)?)));
            return Some((side(from + 7)?, side(from + 5)?));
        }
        from = from.checked_add(match kind {
            // Fill, and marks that stand alone.
            0xff => 1,
            0x01 | 0xd0..=0xd8 => 2,
            _ => 2 + usize::from(u16::from_be_bytes(at(bytes, from + 2)?)),
        })?;
    }
}

/// A PNG of so many pixels, and of so many bytes where it is not longer without padding.
fn png(width: u32, height: u32, bytes: usize, mark: u64) -> std::io::Result<Vec<u8>> {
    let mut header = [width.to_be_bytes(), height.to_be_bytes()].concat();
    // One bit, grey; deflate, no filter, no interlace.
    header.extend([1, 0, 0, 0, 0]);
    let mut png = SIGNATURE.to_vec();
    push_chunk(&mut png, b"IHDR", &header);
    push_chunk(&mut png, b"IDAT", &pixels(width, height, mark)?);
    let padding = bytes
        .min(BYTES_MAX)
        .checked_sub(png.len() + 2 * CHUNK_BYTES);
    if let Some(padding) = padding {
        push_chunk(&mut png, PADDING, &vec![0; padding]);
    }
    push_chunk(&mut png, b"IEND", &[]);
    Ok(png)
}

/// Rows of pixels, each behind the number of its filter; the first rows begin with bits of `mark`.
fn pixels(width: u32, height: u32, mark: u64) -> std::io::Result<Vec<u8>> {
    let row_bytes = width.div_ceil(u8::BITS) as usize;
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    let mut marks = mark.to_be_bytes().into_iter();
    for _ in 0..height {
        encoder.write_all(&[0])?;
        let mut row = vec![0; row_bytes];
        row.iter_mut()
            .zip(marks.by_ref())
            .for_each(|(to, from)| *to = from);
        encoder.write_all(&row)?;
    }
    encoder.finish()
}

fn push_chunk(png: &mut Vec<u8>, name: &[u8], data: &[u8]) {
    let mut checksum = flate2::Crc::new();
    checksum.update(name);
    checksum.update(data);
    png.extend(u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes());
    png.extend(name);
    png.extend(data);
    png.extend(checksum.sum().to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::ZlibDecoder;
    use serde_json::json;
    use std::io::Read as _;

    fn base64(bytes: &[u8]) -> String {
        let mut text = Vec::new();
        blob::encode(bytes, &mut text);
        String::from_utf8(text).unwrap()
    }

    /// A JPEG's head: what comes before the frame, and the frame.
    fn jpeg_head(width: u16, height: u16) -> Vec<u8> {
        let mut jpeg =
            b"\xff\xd8\xff\xe0\x00\x04ab\xff\xff\xc4\x00\x03x\xff\xc2\x00\x08\x08".to_vec();
        jpeg.extend(height.to_be_bytes());
        jpeg.extend(width.to_be_bytes());
        jpeg.resize(4_000, 0);
        jpeg
    }

    #[test]
    fn the_new_picture_has_the_sides_and_the_bytes_of_the_old() {
        let old = json!({"type": "image_url", "image_url": {
            "url": format!("data:image/jpeg;base64,{}", base64(&jpeg_head(640, 480)))}});
        let picture = Picture::of(&old).unwrap();
        assert!(picture.measured);
        let mut new = old.clone();
        picture.put(&mut new, 7);
        let url = new["image_url"]["url"].as_str().unwrap();
        let png = blob::decode(
            url.strip_prefix("data:image/png;base64,")
                .unwrap()
                .as_bytes(),
        );
        let png = png.unwrap();
        assert_eq!((sides(&png), png.len()), (Some((640, 480)), 4_000));
        let mut other = old;
        picture.put(&mut other, 8);
        assert_ne!(new, other);
    }

    #[test]
    fn a_png_holds_all_its_rows_and_its_checksums() {
        let png = png(70, 3, 0, u64::MAX).unwrap();
        let mut from = SIGNATURE.len();
        let mut names = Vec::new();
        while from < png.len() {
            let length = u32::from_be_bytes(at(&png, from).unwrap()) as usize;
            let (name, data) = png[from + 4..from + 8 + length].split_at(4);
            let mut checksum = flate2::Crc::new();
            checksum.update(&png[from + 4..from + 8 + length]);
            assert_eq!(
                checksum.sum().to_be_bytes(),
                at(&png, from + 8 + length).unwrap()
            );
            if name == b"IDAT" {
                let mut rows = Vec::new();
                ZlibDecoder::new(data).read_to_end(&mut rows).unwrap();
                assert_eq!(rows.len(), 3 * (1 + 9));
                assert_eq!(rows[1..9], [0xff; 8]);
            }
            names.push(name.to_vec());
            from += length + CHUNK_BYTES;
        }
        assert_eq!(names, [b"IHDR", b"IDAT", b"IEND"]);
    }

    #[test]
    fn sides_are_read_off_every_format_and_nothing_else() {
        let mut gif = b"GIF89a".to_vec();
        gif.extend([0x40, 0x01, 0xf0, 0x00]);
        assert_eq!(sides(&gif), Some((320, 240)));
        let mut webp = b"RIFF....WEBPVP8X........".to_vec();
        webp.extend([0x3f, 0x01, 0x00, 0xef, 0x00, 0x00]);
        assert_eq!(sides(&webp), Some((320, 240)));
        assert_eq!(sides(&jpeg_head(640, 480)), Some((640, 480)));
        assert_eq!(sides(&jpeg_head(0, 480)), None);
        for junk in [
            &b""[..],
            b"\xff\xd8",
            b"\xff\xd8\xff\xe0\xff\xff",
            b"RIFF....WEBP",
            b"Canary",
        ] {
            assert_eq!(sides(junk), None);
        }
    }

    #[test]
    fn what_was_taken_out_has_its_bytes_and_a_link_is_no_picture() {
        let reference = "blob:blake3:00;bytes=90000;mime=image/png";
        let part = json!({"type": "image", "source": {"type": "base64",
            "media_type": "image/webp", "data": reference}});
        let picture = Picture::of(&part).unwrap();
        assert!(!picture.measured);
        let mut new = part;
        picture.put(&mut new, 1);
        let data = new["source"]["data"].as_str().unwrap();
        assert_eq!(blob::decode(data.as_bytes()).unwrap().len(), 90_000);
        assert_eq!(new["source"]["media_type"], "image/png");
        let link = json!({"image_url": {"url": "https://example.com/x.png"}});
        assert_eq!(Picture::of(&link), None);
        assert_eq!(
            Picture::of(&json!({"source": {"data": "CanaryCanary"}})),
            None
        );
    }
}

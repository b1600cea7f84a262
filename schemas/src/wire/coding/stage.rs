//! One coding.

use super::Sink;
use brotli_decompressor::DecompressorWriter;
use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use std::fmt;
use std::io::{self, Write};

/// The largest window that zstd may ask for, as a power of two: what RFC 9659 allows in HTTP. Some
/// senders do not keep to 8 MiB; 128 MiB, zstd's own bound, would be more memory than a proxy has.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// What brotli's decoder hands over at once.
const BROTLI_BUFFER_BYTES: usize = 8 * 1024;

/// Unpacks one coding.
pub(super) enum Stage {
    Gzip(MultiGzDecoder<Sink>),
    /// The first byte, until the second tells zlib's frame from none.
    Deflate(Option<u8>, Option<Sink>),
    Zlib(ZlibDecoder<Sink>),
    Raw(DeflateDecoder<Sink>),
    Brotli(Box<DecompressorWriter<Sink>>),
    Zstd(zstd::stream::write::Decoder<'static, Sink>),
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip(_) => "Gzip",
            Self::Deflate(..) => "Deflate",
            Self::Zlib(_) => "Zlib",
            Self::Raw(_) => "Raw",
            Self::Brotli(_) => "Brotli",
            Self::Zstd(_) => "Zstd",
        })
    }
}

impl Stage {
    /// A decoder for a coding by its name; none for one that is not known.
    pub(super) fn new(name: &str, bytes_max: usize) -> Option<Self> {
        let sink = Sink {
            bytes: Vec::new(),
            left: bytes_max,
        };
        match name.to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => Some(Self::Gzip(MultiGzDecoder::new(sink))),
            "deflate" => Some(Self::Deflate(None, Some(sink))),
            "br" => {
                let decoder = DecompressorWriter::new(sink, BROTLI_BUFFER_BYTES);
                Some(Self::Brotli(Box::new(decoder)))
            }
            "zstd" => {
                let mut decoder = zstd::stream::write::Decoder::new(sink).ok()?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).ok()?;
                Some(Self::Zstd(decoder))
            }
            _ => None,
        }
    }

    /// Takes bytes, and gives what they add.
    pub(super) fn push(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        // Nothing adds nothing. Decoders of zstd take some such pushes in a row for a fault.
        if bytes.is_empty() {
            return Ok(Vec::new());
        }
        let Some(bytes) = self.sniffed(bytes) else {
            return Ok(Vec::new());
        };
        match self {
            Self::Gzip(decoder) => through(decoder, &bytes)?,
            Self::Zlib(decoder) => through(decoder, &bytes)?,
            Self::Raw(decoder) => through(decoder, &bytes)?,
            Self::Brotli(decoder) => {
                through(decoder.as_mut(), &bytes)?;
                drain(decoder)?;
            }
            Self::Zstd(decoder) => through(decoder, &bytes)?,
            Self::Deflate(..) => {}
        }
        Ok(self
            .sink()
            .map(|sink| std::mem::take(&mut sink.bytes))
            .unwrap_or_default())
    }

    fn sink(&mut self) -> Option<&mut Sink> {
        match self {
            Self::Gzip(decoder) => Some(decoder.get_mut()),
            Self::Deflate(_, sink) => sink.as_mut(),
            Self::Zlib(decoder) => Some(decoder.get_mut()),
            Self::Raw(decoder) => Some(decoder.get_mut()),
            Self::Brotli(decoder) => Some(decoder.get_mut()),
            Self::Zstd(decoder) => Some(decoder.get_mut()),
        }
    }

    /// `deflate` is zlib's frame by the standard and none by what some servers send: the first two
    /// bytes tell. Gives all bytes from the start once they have.
    fn sniffed(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let Self::Deflate(first, sink) = self else {
            return Some(bytes.to_vec());
        };
        let known: Vec<u8> = first.iter().chain(bytes).copied().collect();
        let [one, two, ..] = known.as_slice() else {
            *first = known.first().copied();
            return None;
        };
        let head = u16::from_be_bytes([*one, *two]);
        let zlib = one & 0x0f == 8 && head.is_multiple_of(31);
        let sink = sink.take()?;
        *self = if zlib {
            Self::Zlib(ZlibDecoder::new(sink))
        } else {
            Self::Raw(DeflateDecoder::new(sink))
        };
        Some(known)
    }
}

/// Has a decoder of brotli hand over all that it knows. It hands over one buffer when its input is
/// used up, and keeps the rest for the next write: a frame that says more would be told late, and
/// the end of a body that was cut not at all.
fn drain(decoder: &mut DecompressorWriter<Sink>) -> io::Result<()> {
    loop {
        let before = decoder.get_ref().left;
        let taken = decoder.write(&[])?;
        if taken > 0 || decoder.get_ref().left == before {
            return Ok(());
        }
    }
}

fn through(decoder: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    decoder.write_all(bytes)?;
    decoder.flush()
}

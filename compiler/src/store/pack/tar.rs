//! As much of the tar format (ustar) as a packed set needs: plain files with short names.
//!
//! An entry is a header of 512 bytes, then its bytes, filled up to the next 512; two empty headers
//! end the archive. Sizes above 8 GiB stand in base 256, as GNU tar writes and all read.

use std::io::{self, Read, Write};

/// Bytes of a header, and of what entries are filled up to.
const BLOCK: usize = 512;

/// Bytes of the name at the start of a header.
const NAME_BYTES: usize = 100;

/// Where the size stands.
const SIZE: std::ops::Range<usize> = 124..136;

/// Where the checksum stands; it counts as blanks in itself.
const CHECKSUM: std::ops::Range<usize> = 148..156;

/// Where the kind of the entry stands.
const KIND: usize = 156;

/// The largest size in eleven octal digits.
const OCTAL_MAX: u64 = 0o777_7777_7777;

/// Begins a size in base 256.
const BASE_256: u8 = 0x80;

/// Writes one file.
pub(super) fn append(
    out: &mut impl Write,
    name: &str,
    size: u64,
    from: impl Read,
) -> io::Result<()> {
    out.write_all(&header(name, size))?;
    // A file that grows meanwhile is written as long as its header says; one that shrinks is told.
    let written = io::copy(&mut from.take(size), out)?;
    if written != size {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    out.write_all(&[0; BLOCK][..padding(size)])
}

/// Ends an archive.
pub(super) fn finish(out: &mut impl Write) -> io::Result<()> {
    out.write_all(&[0; 2 * BLOCK])
}

/// A header: mode 644, no owner, no time, so that the same file is the same bytes.
fn header(name: &str, size: u64) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| {
        for (to, from) in header.iter_mut().skip(at).zip(bytes) {
            *to = *from;
        }
    };
    put(0, name.as_bytes());
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(SIZE.start, &size_field(size));
    put(136, b"00000000000\0");
    put(CHECKSUM.start, b"        ");
    put(KIND, b"0");
    put(257, b"ustar\x0000");
    let checksum = format!("{:06o}\0 ", sum(&header));
    for (to, from) in header.iter_mut().skip(CHECKSUM.start).zip(checksum.bytes()) {
        *to = from;
    }
    header
}

fn size_field(size: u64) -> [u8; 12] {
    let mut field = [0; 12];
    if size <= OCTAL_MAX {
        for (to, from) in field.iter_mut().zip(format!("{size:011o}\0").bytes()) {
            *to = from;
        }
    } else {
        let (head, tail) = field.split_at_mut(4);
        head.fill(0);
        tail.copy_from_slice(&size.to_be_bytes());
        if let Some(first) = head.first_mut() {
            *first = BASE_256;
        }
    }
    field
}

/// The sum of a header's bytes, its checksum as blanks.
fn sum(header: &[u8; BLOCK]) -> u32 {
    let bytes = header.iter().enumerate();
    bytes
        .map(|(at, byte)| match CHECKSUM.contains(&at) {
            true => u32::from(b' '),
            false => u32::from(*byte),
        })
        .sum()
}

fn padding(size: u64) -> usize {
    let over = (size % BLOCK as u64) as usize;
    if over == 0 { 0 } else { BLOCK - over }
}

/// What a header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) size: u64,
    /// Whether it is a plain file.
    pub(super) is_file: bool,
}

/// Reads an archive, entry by entry.
#[derive(Debug)]
pub(super) struct Reader<R>(pub(super) R);

impl<R: Read> Reader<R> {
    /// The next entry; none at the end of the archive. The bytes of the one before must have been
    /// read, by [`Reader::copy`].
    pub(super) fn next(&mut self) -> io::Result<Option<Entry>> {
        let mut header = [0; BLOCK];
        match self.0.read_exact(&mut header) {
            Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        if header.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let field = |range: std::ops::Range<usize>| header.get(range).unwrap_or_default();
        if octal(field(CHECKSUM)) != Some(u64::from(sum(&header))) {
            return Err(invalid("an entry's checksum is wrong"));
        }
        let size = size_of(field(SIZE)).ok_or_else(|| invalid("an entry's size is no number"))?;
        Ok(Some(Entry {
            name: text(field(0..NAME_BYTES)),
            size,
            is_file: matches!(header.get(KIND), Some(b'0' | 0)),
        }))
    }

    /// Writes the bytes of an entry; how many there were is returned.
    pub(super) fn copy(&mut self, entry: &Entry, out: &mut impl Write) -> io::Result<u64> {
        let written = io::copy(&mut self.0.by_ref().take(entry.size), out)?;
        let padding = padding(entry.size) as u64;
        io::copy(&mut self.0.by_ref().take(padding), &mut io::sink())?;
        Ok(written)
    }
}

fn invalid(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0);
    let text = field.get(..end.unwrap_or(field.len())).unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

fn octal(field: &[u8]) -> Option<u64> {
    let text = text(field);
    u64::from_str_radix(text.trim(), 8).ok()
}

fn size_of(field: &[u8]) -> Option<u64> {
    match field.split_first() {
        Some((&BASE_256, rest)) => {
            let (high, low) = rest.split_at_checked(3)?;
            let small = high.iter().all(|byte| *byte == 0);
            small.then(|| low.try_into().ok().map(u64::from_be_bytes))?
        }
        _ => octal(field),
    }
}

#[cfg(test)]
mod tests {
    use super::{Entry, OCTAL_MAX, Reader, append, finish, header, size_field, size_of};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_appended_is_read(bodies in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..1_500), 0..4)) {
            let mut archive = Vec::new();
            for (at, body) in bodies.iter().enumerate() {
                append(&mut archive, &format!("f{at}"), body.len() as u64, body.as_slice()).unwrap();
            }
            finish(&mut archive).unwrap();
            prop_assert_eq!(archive.len() % 512, 0);
            let mut reader = Reader(archive.as_slice());
            for (at, body) in bodies.iter().enumerate() {
                let entry = reader.next().unwrap().unwrap();
                let wanted = Entry { name: format!("f{at}"), size: body.len() as u64, is_file: true };
                prop_assert_eq!(&entry, &wanted);
                let mut read = Vec::new();
                reader.copy(&entry, &mut read).unwrap();
                prop_assert_eq!(&read, body);
            }
            prop_assert_eq!(reader.next().unwrap(), None);
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..2_000)) {
            let mut reader = Reader(bytes.as_slice());
            while let Ok(Some(entry)) = reader.next() {
                let _some = reader.copy(&entry, &mut std::io::sink());
            }
        }
    }

    #[test]
    fn sizes_above_eight_gib_are_read_back() {
        for size in [0, 1, OCTAL_MAX, OCTAL_MAX + 1, 1 << 40, u64::MAX] {
            assert_eq!(size_of(&size_field(size)), Some(size));
        }
    }

    #[test]
    fn a_header_that_was_changed_is_refused() {
        let mut changed = header("a", 0);
        changed[0] = b'b';
        assert!(Reader(&changed[..]).next().is_err());
    }

    #[test]
    fn a_file_that_shrinks_while_it_is_packed_is_told() {
        assert!(append(&mut Vec::new(), "a", 5, &b"1234"[..]).is_err());
    }
}

//! Frames on their way to the file.

use super::{FRAME_HEAD_BYTES, MAGIC, MAGIC_ENCRYPTED, u32_of};
use crate::cipher::{self, Cipher, NUMBER_BYTES};
use std::io::{self, Write};
use truetape_schemas::file::key::Key;

/// One frame, without its length and checksum, in pieces that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    lead: Vec<u8>,
    bodies: [Option<Vec<u8>>; 2],
}

impl Frame {
    pub(super) fn new(lead: Vec<u8>, bodies: [Option<Vec<u8>>; 2]) -> Self {
        Self { lead, bodies }
    }

    /// A frame that waited in one piece.
    pub fn whole(bytes: Vec<u8>) -> Self {
        Self::new(bytes, [None, None])
    }

    /// All of it in one piece.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes());
        self.append_to(&mut bytes);
        bytes
    }

    /// Its length.
    pub fn bytes(&self) -> usize {
        self.pieces().map(<[u8]>::len).sum()
    }

    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let bodies = self.bodies.iter().flatten().map(Vec::as_slice);
        std::iter::once(self.lead.as_slice()).chain(bodies)
    }

    fn append_to(&self, bytes: &mut Vec<u8>) {
        for piece in self.pieces() {
            bytes.extend_from_slice(piece);
        }
    }
}

/// Writes the frames of one spool, in the clear or sealed.
#[derive(Debug)]
pub struct Pen {
    cipher: Option<Cipher>,
}

impl Pen {
    /// One for a new spool, and how that spool begins.
    pub fn new(key: Option<&Key>) -> io::Result<(Self, Vec<u8>)> {
        let Some(key) = key else {
            return Ok((Self { cipher: None }, MAGIC.to_vec()));
        };
        let salt = cipher::salt()?;
        let cipher = Some(Cipher::new(key, &salt)?);
        let mut begin = MAGIC_ENCRYPTED.to_vec();
        let id = key.id().as_bytes();
        begin.push(u8::try_from(id.len()).map_err(io::Error::other)?);
        begin.extend_from_slice(id);
        begin.extend_from_slice(&salt);
        Ok((Self { cipher }, begin))
    }

    /// Writes a frame; says how long it is in the file.
    pub fn write(&mut self, frame: &Frame, out: &mut impl Write) -> io::Result<u64> {
        match &mut self.cipher {
            None => plain(frame, out),
            Some(cipher) => sealed(cipher, frame, out),
        }
    }
}

fn plain(frame: &Frame, out: &mut impl Write) -> io::Result<u64> {
    let mut crc = crc32fast::Hasher::new();
    frame.pieces().for_each(|piece| crc.update(piece));
    let length = frame.bytes();
    out.write_all(&head(length, crc.finalize())?)?;
    for piece in frame.pieces() {
        out.write_all(piece)?;
    }
    Ok((FRAME_HEAD_BYTES + length) as u64)
}

fn sealed(cipher: &mut Cipher, frame: &Frame, out: &mut impl Write) -> io::Result<u64> {
    const PAYLOAD_AT: usize = FRAME_HEAD_BYTES + NUMBER_BYTES;
    let mut bytes = Vec::with_capacity(PAYLOAD_AT + frame.bytes() + TAG_BYTES);
    bytes.resize(PAYLOAD_AT, 0);
    frame.append_to(&mut bytes);
    cipher.seal(&mut bytes, FRAME_HEAD_BYTES)?;
    let (slot, payload) = bytes.split_at_mut(FRAME_HEAD_BYTES);
    slot.copy_from_slice(&head(payload.len(), crc32fast::hash(payload))?);
    out.write_all(&bytes)?;
    Ok(bytes.len() as u64)
}

/// What sealing adds at the end.
const TAG_BYTES: usize = 16;

fn head(length: usize, crc: u32) -> io::Result<[u8; FRAME_HEAD_BYTES]> {
    let mut head = [0; FRAME_HEAD_BYTES];
    let (length_slot, crc_slot) = head.split_at_mut(4);
    length_slot.copy_from_slice(&u32_of(length)?.to_le_bytes());
    crc_slot.copy_from_slice(&crc.to_le_bytes());
    Ok(head)
}

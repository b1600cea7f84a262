//! Frames of a spool that only the holder of the key can read.
//!
//! Each spool has a key of its own, derived from the operator's key and a random salt, so that a
//! counter is enough to make every nonce new. A number that was used for a frame which the disk then
//! refused is not used again.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};
use std::io;
use truetape_schemas::file::key::Key;

/// Random bytes that make the key of one spool.
pub const SALT_BYTES: usize = 32;

/// The number of a frame, before its sealed bytes.
pub const NUMBER_BYTES: usize = 8;

const CONTEXT: &str = "truetape 2026 frames of a spool";

/// Makes a salt.
pub fn salt() -> io::Result<[u8; SALT_BYTES]> {
    let mut salt = [0; SALT_BYTES];
    let filled = SystemRandom::new().fill(&mut salt);
    filled.map_err(|_| io::Error::other("the system gives no random bytes"))?;
    Ok(salt)
}

/// Seals and opens the frames of one spool.
#[derive(Debug)]
pub struct Cipher {
    key: LessSafeKey,
    /// The number of the next frame; opening, the least it may have.
    next: u64,
}

impl Cipher {
    /// For the spool with this salt.
    pub fn new(key: &Key, salt: &[u8]) -> io::Result<Self> {
        let key = UnboundKey::new(&AES_256_GCM, &key.derive(CONTEXT, salt));
        Ok(Self {
            key: LessSafeKey::new(key.map_err(|_| broken())?),
            next: 0,
        })
    }

    /// Seals what `frame` holds behind `from` and a slot for its number, and puts number and tag
    /// to it.
    pub fn seal(&mut self, frame: &mut Vec<u8>, from: usize) -> io::Result<()> {
        let number = self.next;
        self.next += 1;
        let (slot, plain) = frame
            .get_mut(from..)
            .and_then(|sealed| sealed.split_at_mut_checked(NUMBER_BYTES))
            .ok_or_else(broken)?;
        slot.copy_from_slice(&number.to_le_bytes());
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce(number), Aad::empty(), plain)
            .map_err(|_| broken())?;
        frame.extend_from_slice(tag.as_ref());
        Ok(())
    }

    /// Opens what was sealed; `None` for what was not, or not in this place.
    pub fn open(&mut self, mut sealed: Vec<u8>) -> Option<Vec<u8>> {
        let number = u64::from_le_bytes(*sealed.first_chunk::<NUMBER_BYTES>()?);
        if number < self.next {
            return None;
        }
        let plain = self
            .key
            .open_within(nonce(number), Aad::empty(), &mut sealed, NUMBER_BYTES..)
            .ok()?;
        let length = plain.len();
        self.next = number + 1;
        sealed.truncate(length);
        Some(sealed)
    }
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    let (counter, _) = bytes.split_at_mut(NUMBER_BYTES);
    counter.copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

fn broken() -> io::Error {
    io::Error::other("the frame could not be encrypted")
}

#[cfg(test)]
mod tests {
    use super::{Cipher, salt};
    use truetape_schemas::file::key::Key;

    fn key() -> Key {
        Key::new(vec![3; 16]).unwrap()
    }

    #[test]
    fn frames_open_in_their_order_and_only_with_their_key_and_salt() {
        let salt = salt().unwrap();
        let mut writing = Cipher::new(&key(), &salt).unwrap();
        let frames: Vec<Vec<u8>> = (0..3u8)
            .map(|n| {
                let mut frame = vec![9, 9, 0, 0, 0, 0, 0, 0, 0, 0, n, n];
                writing.seal(&mut frame, 2).unwrap();
                frame.split_off(2)
            })
            .collect();
        let mut reading = Cipher::new(&key(), &salt).unwrap();
        assert_eq!(reading.open(frames[0].clone()), Some(vec![0, 0]));
        // One that the disk refused is not there.
        assert_eq!(reading.open(frames[2].clone()), Some(vec![2, 2]));
        assert_eq!(reading.open(frames[1].clone()), None, "out of order");
        assert_eq!(reading.open(frames[2].clone()), None, "twice");
        let mut changed = frames[0].clone();
        changed[8] ^= 1;
        let others = [Key::new(vec![3; 32]).unwrap(), key()];
        for (other, salt) in others.iter().zip([&salt, &[0; 32]]) {
            let mut reading = Cipher::new(other, salt).unwrap();
            assert_eq!(reading.open(frames[0].clone()), None);
        }
        let mut reading = Cipher::new(&key(), &salt).unwrap();
        assert_eq!(reading.open(changed), None);
        assert_eq!(reading.open(vec![1, 2, 3]), None);
    }
}

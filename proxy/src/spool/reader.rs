//! A spool, up to its end or to the frame that a crash cut short.

use super::{
    FRAME_HEAD_BYTES, HEAD, Item, MAGIC, MAGIC_ANY, MAGIC_ENCRYPTED, NO_BODY, NOTE, ROW, columns,
};
use crate::cipher::{Cipher, SALT_BYTES};
use crate::limits;
use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::Path;
use truetape_schemas::capture::Exchange;
use truetape_schemas::file::Error;
use truetape_schemas::file::key::Keyring;

/// Reads a spool.
#[derive(Debug)]
pub struct Reader {
    path: std::path::PathBuf,
    file: BufReader<File>,
    left: u64,
    torn_bytes: u64,
    cipher: Option<Cipher>,
    /// The columns of its rows, where they are not this build's.
    columns: Option<Vec<String>>,
}

impl Reader {
    /// Opens a spool, with its key where it is encrypted.
    pub fn open(path: &Path, keys: &Keyring) -> Result<Self, Error> {
        let io = |cause| Error::io(path, cause);
        let file = File::open(path).map_err(io)?;
        let bytes = file.metadata().map_err(io)?.len();
        let mut reader = Self {
            path: path.to_owned(),
            file: BufReader::with_capacity(limits::SPOOL_READ_BYTES, file),
            left: bytes,
            torn_bytes: 0,
            cipher: None,
            columns: None,
        };
        match reader.take(MAGIC.len())? {
            Some(magic) if magic == MAGIC => return Ok(reader),
            Some(magic) if magic == MAGIC_ENCRYPTED && reader.unlock(keys)? => return Ok(reader),
            Some(magic) if magic == MAGIC_ENCRYPTED => {}
            // Never taken for an empty one: that would be removed.
            Some(magic) if magic.starts_with(MAGIC_ANY) => {
                let problem =
                    "is a spool of another version of truetape; start that version to seal it";
                return Err(Error::invalid(path, problem));
            }
            _ => {}
        }
        // Killed before its first write was whole: nothing was in it.
        reader.torn_bytes = bytes;
        reader.left = 0;
        Ok(reader)
    }

    /// Finds the key; `false` where the name or the salt is not whole.
    fn unlock(&mut self, keys: &Keyring) -> Result<bool, Error> {
        let length = self.take(1)?.and_then(|length| length.first().copied());
        let Some(id) = self.take(usize::from(length.unwrap_or(0)))? else {
            return Ok(false);
        };
        let Some(salt) = self.take(SALT_BYTES)? else {
            return Ok(false);
        };
        let key_id = String::from_utf8_lossy(&id).into_owned();
        let Some(key) = keys.find(&key_id) else {
            let subject = self.path.display().to_string();
            return Err(Error::NoKey { subject, key_id });
        };
        let cipher = Cipher::new(key, &salt).map_err(|cause| Error::io(&self.path, cause))?;
        self.cipher = Some(cipher);
        Ok(true)
    }

    /// Bytes at the end that are not a whole frame. Known once the items have ended.
    pub fn torn_bytes(&self) -> u64 {
        self.torn_bytes
    }

    /// The next frame; `None` at the end of what is whole.
    pub fn next_item(&mut self) -> Result<Option<Item>, Error> {
        let before = self.left;
        let Some(payload) = self.payload()? else {
            self.torn_bytes += before;
            self.left = 0;
            return Ok(None);
        };
        let payload = match &mut self.cipher {
            None => Some(payload),
            Some(cipher) => cipher.open(payload),
        };
        let item = payload.and_then(|payload| item(payload, self.columns.as_deref()));
        if let Some(Item::Head(head)) = &item
            && head.columns != columns()
        {
            self.columns = Some(head.columns.clone());
        }
        Ok(Some(item.unwrap_or(Item::Unreadable)))
    }

    fn payload(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let Some(head) = self.take(FRAME_HEAD_BYTES)? else {
            return Ok(None);
        };
        let mut words = head.chunks_exact(4).map(le_u32);
        let (length, crc) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length == 0 || length > limits::SPOOL_FRAME_BYTES_MAX {
            return Ok(None);
        }
        let payload = self.take(length)?;
        Ok(payload.filter(|payload| crc32fast::hash(payload) == crc))
    }

    fn take(&mut self, bytes: usize) -> Result<Option<Vec<u8>>, Error> {
        // Checked against the file first: a length of noise must not allocate gigabytes.
        if bytes as u64 > self.left {
            return Ok(None);
        }
        let mut taken = vec![0; bytes];
        self.file
            .read_exact(&mut taken)
            .map_err(|cause| Error::io(&self.path, cause))?;
        self.left -= bytes as u64;
        Ok(Some(taken))
    }
}

fn le_u32(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(0, u32::from_le_bytes)
}

/// `None` for a frame that is whole but means nothing to this build.
fn item(payload: Vec<u8>, columns: Option<&[String]>) -> Option<Item> {
    let json = payload.get(1..)?;
    match *payload.first()? {
        HEAD => serde_json::from_slice(json).ok().map(Item::Head),
        NOTE => serde_json::from_slice(json).ok().map(Item::Note),
        ROW => row(payload, columns).map(|row| Item::Row(Box::new(row))),
        _ => None,
    }
}

/// The bodies are cut off the payload from behind: the last becomes a copy, the first keeps the
/// payload's own memory.
fn row(mut payload: Vec<u8>, columns: Option<&[String]>) -> Option<Exchange> {
    let mut lengths = [0; 3];
    let mut at = 1;
    for length in &mut lengths {
        *length = le_u32(payload.get(at..at + 4)?);
        at += 4;
    }
    let [list, request, response] = lengths;
    let size = |length: u32| match length {
        NO_BODY => Some(0),
        length => usize::try_from(length).ok(),
    };
    let request_at = at.checked_add(size(list)?)?;
    let response_at = request_at.checked_add(size(request)?)?;
    if response_at.checked_add(size(response)?)? != payload.len() {
        return None;
    }
    let mut exchange = values(payload.get(at..request_at)?, columns)?;
    let tail = payload.split_off(response_at);
    exchange.response_body = (response != NO_BODY).then_some(tail);
    if request != NO_BODY {
        payload.drain(..request_at);
        payload.shrink_to_fit();
        exchange.request_body = Some(payload);
    }
    Some(exchange)
}

/// The values of a row: those of this build's columns, or of others by their names.
fn values(list: &[u8], columns: Option<&[String]>) -> Option<Exchange> {
    let Some(columns) = columns else {
        return rmp_serde::from_slice(list).ok();
    };
    let rmpv::Value::Array(values) = rmpv::decode::read_value(&mut &list[..]).ok()? else {
        return None;
    };
    let names = columns.iter().map(|name| rmpv::Value::from(name.as_str()));
    let mut named = Vec::with_capacity(2 * list.len());
    rmpv::encode::write_value(&mut named, &rmpv::Value::Map(names.zip(values).collect())).ok()?;
    rmp_serde::from_slice(&named).ok()
}

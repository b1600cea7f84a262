//! Images and sounds in requests, apart from the text around them.
//!
//! Clients send them as base64 inside the JSON, with every turn anew: one image of 9 MiB in a
//! conversation of 50 turns is half a gigabyte of the same bytes. Long base64 in a `data:` URL or in
//! a field named `data` is taken out of the body and named by its hash; what stays is a skeleton
//! that reads like the body, with a reference where the base64 was. Body = skeleton + blobs, byte
//! for byte.

use super::Exchange;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

mod base64;
mod find;

pub use base64::{decode, encode};
use find::Found;

/// Base64 shorter than this stays where it is.
pub const BASE64_BYTES_MIN: usize = 4 * 1024;

/// One blob of a body.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blob {
    /// Where its reference begins in the skeleton.
    pub offset: i64,
    /// BLAKE3 of its bytes (not of their base64), in hexadecimal.
    pub hash: String,
    /// Its length.
    pub bytes: i64,
    /// Its media type where the body says it in a `data:` URL, else empty.
    pub mime: String,
    /// Its bytes: in one row of a segment, whatever rows name it; in none where blobs are not kept.
    #[serde(with = "serde_bytes")]
    pub data: Option<Vec<u8>>,
}

impl Blob {
    /// What stands for it in the skeleton.
    pub fn reference(&self) -> String {
        let mime = match self.mime.as_str() {
            "" => String::new(),
            mime => format!(";mime={mime}"),
        };
        format!("blob:blake3:{};bytes={}{mime}", self.hash, self.bytes)
    }

    /// Its length in the body.
    pub fn base64_bytes(&self) -> u64 {
        u64::try_from(self.bytes).unwrap_or(0).div_ceil(3) * 4
    }
}

/// Takes the blobs out of a body that is not coded; `None` where there are none.
pub fn take_out(body: &[u8]) -> Option<(Vec<u8>, Vec<Blob>)> {
    let found = find::all(body);
    if found.is_empty() {
        return None;
    }
    let mut skeleton = Vec::with_capacity(body.len() / 16);
    let mut blobs = Vec::with_capacity(found.len());
    let mut from = 0;
    for Found { range, mime, data } in found {
        skeleton.extend_from_slice(body.get(from..range.start)?);
        let blob = Blob {
            offset: i64::try_from(skeleton.len()).ok()?,
            hash: blake3::hash(&data).to_hex().to_string(),
            bytes: i64::try_from(data.len()).ok()?,
            mime,
            data: Some(data),
        };
        skeleton.extend_from_slice(blob.reference().as_bytes());
        from = range.end;
        blobs.push(blob);
    }
    skeleton.extend_from_slice(body.get(from..)?);
    Some((skeleton, blobs))
}

/// Puts the blobs back. `data` gives the bytes of a blob by its hash, where the blob itself has
/// none. `None` where they are not to be had, or the skeleton is not of these blobs.
pub fn put_back<'a>(
    skeleton: &[u8],
    blobs: &[Blob],
    data: impl Fn(&str) -> Option<&'a [u8]>,
) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    let mut from = 0;
    for blob in blobs {
        let at = usize::try_from(blob.offset).ok()?;
        let reference = blob.reference();
        body.extend_from_slice(skeleton.get(from..at)?);
        let named = skeleton.get(at..)?.starts_with(reference.as_bytes());
        if !named {
            return None;
        }
        match &blob.data {
            Some(bytes) => base64::encode(bytes, &mut body),
            None => base64::encode(data(&blob.hash)?, &mut body),
        }
        from = at + reference.len();
    }
    body.extend_from_slice(skeleton.get(from..)?);
    Some(body)
}

/// Takes the blobs out of the request of a row, and keeps their bytes in the first row that has
/// them; `kept` has the hashes of those before. A coded body stays as it is.
pub fn keep_once(exchange: &mut Exchange, kept: &mut HashSet<String>) {
    let coded = !crate::wire::coding::is_identity(exchange.request_encoding.as_deref());
    if coded || exchange.request_blobs.is_some() {
        return;
    }
    let taken = exchange.request_body.as_deref().and_then(take_out);
    let Some((skeleton, mut blobs)) = taken else {
        return;
    };
    for blob in &mut blobs {
        if !kept.insert(blob.hash.clone()) {
            blob.data = None;
        }
    }
    exchange.request_body = Some(skeleton);
    exchange.request_blobs = Some(blobs);
}

/// The blobs of a segment, as its rows are read in order.
#[derive(Debug, Default)]
pub struct Blobs(HashMap<String, Vec<u8>>);

impl Blobs {
    /// Remembers what a row brings.
    pub fn remember(&mut self, exchange: &Exchange) {
        for blob in exchange.request_blobs.iter().flatten() {
            if let Some(data) = &blob.data {
                self.0
                    .entry(blob.hash.clone())
                    .or_insert_with(|| data.clone());
            }
        }
    }

    /// The body of a request as it was sent, byte for byte. `None` where it was not kept, or the
    /// bytes of its blobs were not.
    pub fn request_body<'a>(&self, exchange: &'a Exchange) -> Option<Cow<'a, [u8]>> {
        let body = exchange.request_body.as_deref()?;
        match exchange.request_blobs.as_deref() {
            None | Some([]) => Some(Cow::Borrowed(body)),
            Some(blobs) => {
                let data = |hash: &str| self.0.get(hash).map(Vec::as_slice);
                Some(Cow::Owned(put_back(body, blobs, data)?))
            }
        }
    }
}

#[cfg(test)]
mod tests;

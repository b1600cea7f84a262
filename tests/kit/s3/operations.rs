//! The operations of S3 that a shipper asks for.

use super::{Answer, Asked, BUCKET, State, Upload, lock};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::Ordering;

/// Carries out a request.
pub(super) fn handle(state: &State, asked: &Asked, body: Vec<u8>) -> Answer {
    let (path, query) = asked.target.split_once('?').unwrap_or((&asked.target, ""));
    let path = decoded(path.trim_start_matches('/'));
    let (bucket, key) = path.split_once('/').unwrap_or((&path, ""));
    if bucket != BUCKET {
        return Answer::error(404, "NoSuchBucket");
    }
    let query = |name: &str| {
        let pairs = query
            .split('&')
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs
            .filter(|(n, _)| *n == name)
            .map(|(_, value)| decoded(value))
            .next()
    };
    let upload = query("uploadId");
    match (asked.method.as_str(), upload) {
        ("GET", _) if key.is_empty() => list(state, &query("prefix").unwrap_or_default()),
        ("POST", _) if query("delete").is_some() => delete(state, &body),
        ("POST", None) if query("uploads").is_some() => begin(state, key),
        ("PUT", Some(id)) => {
            let number = query("partNumber").and_then(|text| text.parse().ok());
            part(state, asked, &id, number.unwrap_or(0), body)
        }
        ("POST", Some(id)) => complete(state, asked, &id),
        ("DELETE", Some(id)) => match lock(&state.uploads).remove(&id) {
            Some(_) => Answer::of(204, ""),
            None => Answer::error(404, "NoSuchUpload"),
        },
        ("PUT", None) => create(state, asked, key, body),
        ("GET" | "HEAD", _) => get(state, asked, key),
        _ => Answer::error(501, "NotImplemented"),
    }
}

/// Keys in listings and paths have no other characters than these in the tests that use it.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let coded = hex.and_then(|two| u8::from_str_radix(two, 16).ok());
        match (first, coded) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn etag(bytes: &[u8]) -> String {
    let sum = bytes.iter().fold(bytes.len() as u64, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
    });
    format!("\"{sum:016x}\"")
}

fn create(state: &State, asked: &Asked, key: &str, body: Vec<u8>) -> Answer {
    let mut objects = lock(&state.objects);
    if objects.contains_key(key) {
        if asked.head.value("if-none-match") == Some("*") {
            return Answer::error(412, "PreconditionFailed");
        }
        lock(&state.overwritten).push(key.to_owned());
    }
    let answer = Answer::of(200, "").with("ETag", etag(&body));
    objects.insert(key.to_owned(), body);
    answer
}

fn begin(state: &State, key: &str) -> Answer {
    let mut uploads = lock(&state.uploads);
    let id = format!("upload-{}", state.begun.fetch_add(1, Ordering::Relaxed));
    let xml = format!(
        "<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
    );
    let upload = Upload {
        key: key.to_owned(),
        parts: BTreeMap::new(),
    };
    uploads.insert(id, upload);
    Answer::of(200, xml)
}

fn part(state: &State, asked: &Asked, id: &str, number: u32, body: Vec<u8>) -> Answer {
    let copied = match asked.head.value("x-amz-copy-source") {
        None => None,
        Some(source) => {
            let source = decoded(source.trim_start_matches('/'));
            let key = source.split_once('/').map(|(_, key)| key.to_owned());
            match lock(&state.objects).get(&key.unwrap_or_default()) {
                Some(bytes) => Some(bytes.clone()),
                None => return Answer::error(404, "NoSuchKey"),
            }
        }
    };
    let is_copy = copied.is_some();
    let bytes = copied.unwrap_or(body);
    let tag = etag(&bytes);
    match lock(&state.uploads).get_mut(id) {
        None => return Answer::error(404, "NoSuchUpload"),
        Some(upload) => upload.parts.insert(number, bytes),
    };
    if is_copy {
        return Answer::of(
            200,
            format!("<CopyPartResult><ETag>{tag}</ETag></CopyPartResult>"),
        );
    }
    Answer::of(200, "").with("ETag", tag)
}

fn complete(state: &State, asked: &Asked, id: &str) -> Answer {
    let mut objects = lock(&state.objects);
    let mut uploads = lock(&state.uploads);
    let Some(upload) = uploads.get(id) else {
        return Answer::error(404, "NoSuchUpload");
    };
    if objects.contains_key(&upload.key) && asked.head.value("if-none-match") == Some("*") {
        return Answer::error(412, "PreconditionFailed");
    }
    let Some(upload) = uploads.remove(id) else {
        return Answer::error(404, "NoSuchUpload");
    };
    let bytes: Vec<u8> = upload.parts.into_values().flatten().collect();
    let xml = format!(
        "<CompleteMultipartUploadResult><ETag>{}</ETag></CompleteMultipartUploadResult>",
        etag(&bytes)
    );
    objects.insert(upload.key, bytes);
    Answer::of(200, xml)
}

fn get(state: &State, asked: &Asked, key: &str) -> Answer {
    let objects = lock(&state.objects);
    let Some(bytes) = objects.get(key) else {
        return Answer::error(404, "NoSuchKey");
    };
    let range = asked.head.value("range").and_then(|range| {
        let (from, to) = range.strip_prefix("bytes=")?.split_once('-')?;
        let (from, to): (usize, usize) = (from.parse().ok()?, to.parse().ok()?);
        Some((from, to.min(bytes.len().saturating_sub(1))))
    });
    let answer = match range {
        None => Answer::of(200, bytes.clone()),
        Some((from, to)) => Answer::of(206, bytes[from..=to].to_vec()).with(
            "Content-Range",
            format!("bytes {from}-{to}/{}", bytes.len()),
        ),
    };
    answer
        .with("ETag", etag(bytes))
        .with("Last-Modified", "Mon, 30 Nov 2026 00:00:00 GMT")
}

fn delete(state: &State, body: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(body);
    let mut xml = "<DeleteResult>".to_owned();
    for key in text
        .split("<Key>")
        .skip(1)
        .filter_map(|rest| rest.split("</Key>").next())
    {
        lock(&state.objects).remove(key);
        write!(xml, "<Deleted><Key>{key}</Key></Deleted>").expect("a string");
    }
    Answer::of(200, xml + "</DeleteResult>")
}

fn list(state: &State, prefix: &str) -> Answer {
    let mut xml = "<ListBucketResult>".to_owned();
    let objects = lock(&state.objects);
    for (key, bytes) in objects.iter().filter(|(key, _)| key.starts_with(prefix)) {
        write!(
            xml,
            "<Contents><Key>{key}</Key><Size>{}</Size><ETag>{}</ETag>\
             <LastModified>2026-11-30T00:00:00.000Z</LastModified></Contents>",
            bytes.len(),
            etag(bytes)
        )
        .expect("a string");
    }
    Answer::of(200, xml + "</ListBucketResult>")
}

//! A capture in a store, read as if it were a folder.
//!
//! A compiler reads a segment more than once, so segments are fetched whole into a scratch folder
//! that is the user's alone, bounded, and gone when they are no longer needed. Those of a `file://`
//! URL are read where they are.

use super::Objects;
use crate::error::Error;
use crate::source::Segments;
use crate::talk::Progress;
use bytesize::ByteSize;
use futures_util::TryStreamExt as _;
use object_store::path::Path as Key;
use object_store::{ObjectMeta, ObjectStoreExt as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::task::JoinSet;
use truetape_schemas::capture::SEGMENT_SUFFIX;
use truetape_schemas::{run, set};

/// Bytes that are fetched for one command, unless the variable says otherwise. A day of one replica
/// is some gigabytes; a bucket that was named by mistake is not fetched.
const FETCH_BYTES_MAX: ByteSize = ByteSize::gib(32);

/// The variable that sets another bound.
const FETCH_BYTES_MAX_VARIABLE: &str = "TRUETAPE_FETCH_BYTES_MAX";

/// Segments that are fetched at the same time.
const FETCHES_AT_ONCE: usize = 4;

/// The segments below a URL, or the one that it names.
pub(crate) fn fetch(url: &str) -> Result<Segments, Error> {
    let objects = Arc::new(Objects::open(url)?);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|cause| Error::io(Path::new("runtime"), cause))?;
    runtime.block_on(fetch_from(objects))
}

async fn fetch_from(objects: Arc<Objects>) -> Result<Segments, Error> {
    let found = list(&objects).await?;
    if objects.parts.is_none() {
        let paths = found
            .iter()
            .filter_map(|meta| objects.path_of(&meta.location));
        return Ok(Segments::from(paths.collect::<Vec<_>>()));
    }
    let total: u64 = found.iter().map(|meta| meta.size).sum();
    let max = bytes_max()?;
    if total > max.as_u64() {
        let problem = format!(
            "{} segments of {} in all, at most {max} are fetched; name a narrower prefix, or set \
             {FETCH_BYTES_MAX_VARIABLE}",
            found.len(),
            ByteSize::b(total)
        );
        return Err(Error::data(&objects.url, problem));
    }
    let scratch = tempfile::Builder::new()
        .prefix("truetape-fetch-")
        .tempdir()
        .map_err(|cause| Error::io(&std::env::temp_dir(), cause))?;
    let paths = fetch_all(&objects, found, scratch.path()).await?;
    Ok(Segments::fetched(paths, scratch))
}

fn bytes_max() -> Result<ByteSize, Error> {
    match std::env::var(FETCH_BYTES_MAX_VARIABLE) {
        Ok(text) => text.parse().map_err(|_| {
            let problem = format!("found {text:?}, wanted a size such as 64GiB");
            Error::config(FETCH_BYTES_MAX_VARIABLE, problem)
        }),
        Err(_) => Ok(FETCH_BYTES_MAX),
    }
}

/// What a URL names: one segment, or all below a prefix, ordered by name.
async fn list(objects: &Objects) -> Result<Vec<ObjectMeta>, Error> {
    let is_segment = |key: &Key| {
        key.filename()
            .is_some_and(|name| name.ends_with(SEGMENT_SUFFIX))
    };
    if is_segment(&objects.prefix) {
        match objects.store.head(&objects.prefix).await {
            Ok(meta) => return Ok(vec![meta]),
            // A prefix may end like a segment.
            Err(object_store::Error::NotFound { .. }) => {}
            Err(cause) => return Err(objects.error(&cause)),
        }
    }
    let listed = objects
        .store
        .list(Some(&objects.prefix))
        .try_collect::<Vec<_>>()
        .await;
    let all = listed.map_err(|cause| objects.error(&cause))?;
    for (marker, what) in [(set::store::MANIFEST, "a set"), (run::RUN, "a run")] {
        if all
            .iter()
            .any(|meta| meta.location == objects.prefix.clone().join(marker))
        {
            let problem = format!("is {what}; a URL names captures: copy it to a folder first");
            return Err(Error::data(&objects.url, problem));
        }
    }
    let beside = all.len();
    let mut found: Vec<_> = all
        .into_iter()
        .filter(|meta| is_segment(&meta.location))
        .collect();
    if found.is_empty() {
        let problem = format!(
            "no segments (*{SEGMENT_SUFFIX}) there, among {beside} objects; check the prefix, or \
             ship a capture there first"
        );
        return Err(Error::data(&objects.url, problem));
    }
    found.sort_by(|a, b| a.location.cmp(&b.location));
    Ok(found)
}

/// Fetches into files named by position, so that equal names in two folders do not meet.
async fn fetch_all(
    objects: &Arc<Objects>,
    found: Vec<ObjectMeta>,
    into: &Path,
) -> Result<Vec<PathBuf>, Error> {
    let total = found.len();
    let mut progress = Progress::new();
    let mut tasks = JoinSet::new();
    let mut paths = Vec::with_capacity(total);
    let mut queue = found.into_iter().enumerate();
    let mut done = 0;
    loop {
        while tasks.len() < FETCHES_AT_ONCE
            && let Some((number, meta)) = queue.next()
        {
            let folder = into.join(format!("{number:06}"));
            std::fs::create_dir(&folder).map_err(|cause| Error::io(&folder, cause))?;
            let path = folder.join(meta.location.filename().unwrap_or("segment.parquet"));
            paths.push(path.clone());
            let objects = Arc::clone(objects);
            tasks.spawn(async move { fetch_one(&objects, &meta, &path).await });
        }
        let Some(fetched) = tasks.join_next().await else {
            break;
        };
        fetched.map_err(|cause| Error::bug("fetch", cause.to_string()))??;
        done += 1;
        progress.show(&format!("fetched {done} of {total} segments"));
    }
    progress.clear();
    Ok(paths)
}

async fn fetch_one(objects: &Objects, meta: &ObjectMeta, path: &Path) -> Result<(), Error> {
    let store = |cause| objects.error(&cause);
    let io = |cause| Error::io(path, cause);
    let mut stream = objects
        .store
        .get(&meta.location)
        .await
        .map_err(store)?
        .into_stream();
    let mut file = std::fs::File::create(path).map_err(io)?;
    let mut bytes = 0;
    while let Some(chunk) = stream.try_next().await.map_err(store)? {
        file.write_all(&chunk).map_err(io)?;
        bytes += chunk.len() as u64;
    }
    if bytes != meta.size {
        let problem = format!(
            "{}: {bytes} bytes came, {} were listed; try again",
            meta.location, meta.size
        );
        return Err(Error::target(&objects.url, problem));
    }
    Ok(())
}

//! Which segments of a recorder's directory are finished.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use truetape_schemas::capture::{Exchange, SEGMENT_SUFFIX};
use truetape_schemas::file::Reader;

/// Ends the name of the spool that a segment is made of.
const SPOOL_SUFFIX: &str = ".spool";

/// Begins every Parquet file, and ends one whose footer is plain.
const MAGIC: [u8; 4] = *b"PAR1";

/// The same where the footer is encrypted.
const MAGIC_ENCRYPTED: [u8; 4] = *b"PARE";

/// A sealed segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
}

/// What a directory holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Scan {
    /// Segments that can go, by name.
    pub(super) ready: Vec<Segment>,
    /// Segments whose spool is still there: the recorder is about to remove it, or died before it
    /// did, and would seal it again if it found the segment gone.
    pub(super) unsettled: u64,
    /// Spools: what a recorder has yet to seal.
    pub(super) spools: u64,
}

/// Looks at a directory. Spools, locks and files in the making are not segments.
pub(super) fn scan(dir: &Path) -> std::io::Result<Scan> {
    let mut scan = Scan::default();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_spool = |name: &str| name.ends_with(SPOOL_SUFFIX);
        scan.spools += u64::from(name.to_str().is_some_and(is_spool));
        let Some(name) = name.to_str().filter(|name| name.ends_with(SEGMENT_SUFFIX)) else {
            continue;
        };
        let metadata = match entry.metadata() {
            Ok(metadata) if metadata.is_file() => metadata,
            Ok(_) => continue,
            // The recorder makes room by removing its oldest.
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => continue,
            Err(cause) => return Err(cause),
        };
        let spool = dir.join(format!("{}{SPOOL_SUFFIX}", stem(name)));
        if spool.try_exists()? {
            scan.unsettled += 1;
            continue;
        }
        scan.ready.push(Segment {
            name: name.to_owned(),
            path: entry.path(),
            bytes: metadata.len(),
        });
    }
    scan.ready.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(scan)
}

fn stem(name: &str) -> &str {
    name.strip_suffix(SEGMENT_SUFFIX).unwrap_or(name)
}

/// The folder of a segment in the store: its name without the counters at its end, which is the
/// `proxy_id` of the recorder that made it.
pub(super) fn folder_of(name: &str) -> &str {
    const COUNTERS: usize = 2;
    let mut folder = stem(name);
    for _ in 0..COUNTERS {
        match folder.rsplit_once('-') {
            Some((rest, counter))
                if !rest.is_empty() && counter.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                folder = rest;
            }
            _ => break,
        }
    }
    folder
}

/// Whether a file is a segment of ours and whole; else, what it is.
///
/// An encrypted one is known by its ends: there is no key here, and none is needed.
pub(super) fn check(path: &Path) -> std::io::Result<Result<(), String>> {
    let mut file = std::fs::File::open(path)?;
    let mut ends = [[0; MAGIC.len()]; 2];
    let [first, last] = &mut ends;
    if file.metadata()?.len() < 12 {
        return Ok(Err("is too short for a Parquet file".to_owned()));
    }
    file.read_exact(first)?;
    file.seek(SeekFrom::End(-4))?;
    file.read_exact(last)?;
    if ends == [MAGIC_ENCRYPTED, MAGIC_ENCRYPTED] {
        return Ok(Ok(()));
    }
    if ends != [MAGIC, MAGIC] {
        return Ok(Err("is no whole Parquet file".to_owned()));
    }
    let opened = Reader::<Exchange>::open(path).map(|_| ());
    Ok(opened.map_err(|cause| {
        let cause = cause.to_string();
        let path = format!("{}: ", path.display());
        cause.strip_prefix(&path).unwrap_or(&cause).to_owned()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use truetape_schemas::file::Writer;

    #[test]
    fn only_what_is_finished_is_ready() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "p-17-000002.parquet",
            "p-17-000001.parquet",
            "p-17-000001.spool.lock",
            "p-17-000003.parquet",
            "p-17-000003.spool",
            "p-17-000004.spool",
            "p-17-000005.parquet.tmp",
            ".truetape-proxy.lock",
        ] {
            std::fs::write(dir.path().join(name), b"x").unwrap();
        }
        std::fs::create_dir(dir.path().join("d.parquet")).unwrap();
        let scan = scan(dir.path()).unwrap();
        let names: Vec<&str> = scan
            .ready
            .iter()
            .map(|segment| segment.name.as_str())
            .collect();
        assert_eq!(names, ["p-17-000001.parquet", "p-17-000002.parquet"]);
        assert_eq!(scan.unsettled, 1, "000003 may be sealed again");
        assert_eq!(scan.spools, 2, "000003 and 000004");
    }

    #[test]
    fn a_folder_is_the_name_without_its_counters() {
        for (name, folder) in [
            ("vllm-0-1732960000000000-000001.parquet", "vllm-0"),
            ("p-17-000001.parquet", "p"),
            ("import-mooncake-00001.parquet", "import-mooncake"),
            ("part-0.parquet", "part"),
            ("alone.parquet", "alone"),
            ("17-000001.parquet", "17"),
        ] {
            assert_eq!(folder_of(name), folder, "{name}");
        }
    }

    proptest! {
        #[test]
        fn the_folder_of_a_recorder_is_its_id(id in "[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,20}", at in 0u64.., n in 0u32..) {
            let name = format!("{id}-{at}-{n:06}.parquet");
            prop_assert_eq!(folder_of(&name), id);
        }
    }

    #[test]
    fn what_is_no_segment_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.parquet");
        let said = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            check(&path).unwrap()
        };
        assert!(said(b"PAR1").unwrap_err().contains("too short"));
        assert!(
            said(b"PAR1 something else")
                .unwrap_err()
                .contains("no whole Parquet")
        );
        assert!(
            said(b"PAR1 not a footer PAR1")
                .unwrap_err()
                .contains("Parquet")
        );
        assert_eq!(said(b"PARE bytes that nobody here can read PARE"), Ok(()));
        let mut writer = Writer::<Exchange>::create(&path).unwrap();
        writer.write(&[Exchange::default()]).unwrap();
        writer.finish(&[]).unwrap();
        assert_eq!(check(&path).unwrap(), Ok(()));
    }
}

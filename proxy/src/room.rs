//! Room on the disk: when capture pauses for want of it, and when it goes on.

use crate::account::Loss;
use std::io;
use std::path::{Path, PathBuf};
use truetape_schemas::capture::SEGMENT_SUFFIX;

/// Capture that paused at its quota goes on once this part of it is free again: without a gap it
/// would go on and off with every segment.
const QUOTA_GAP_SHARE: u64 = 10;

/// Capture that paused at the watermark goes on once so much more than it is free.
const FREE_GAP_SHARE: u64 = 10;

/// The watermark is at most this part of the file system: a default made for disks must not pause
/// capture on a small volume for ever.
const FREE_MIN_SHARE: u64 = 10;

/// Folders below a capture's directory that are looked into.
const DEPTH_MAX: usize = 2;

/// Why capture pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// The disk refused a write.
    Refused = 1,
    /// The directory holds as much as it may.
    Quota,
    /// The file system is nearly full.
    Low,
}

impl Pause {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Refused, Self::Quota, Self::Low];

    /// What rows are lost to meanwhile.
    pub fn loss(self) -> Loss {
        match self {
            Self::Refused => Loss::Disk,
            Self::Quota => Loss::DiskQuota,
            Self::Low => Loss::DiskLow,
        }
    }
}

/// What there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes that the directory holds, all of its files; 0 where they were not counted.
    pub used_bytes: u64,
    /// Bytes of the file system that may still be written.
    pub free_bytes: u64,
    /// Bytes of the file system.
    pub size_bytes: u64,
}

/// What must stay free of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeMin {
    /// So many bytes, but at most a tenth of it.
    Default(u64),
    /// So many bytes.
    Bytes(u64),
    /// So many hundredths of it.
    Percent(u64),
}

/// What is done when the quota is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnQuota {
    /// Capture pauses until there is room.
    Pause,
    /// The oldest segments are removed.
    DropOldest,
}

/// What a capture may take of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that the directory may hold.
    pub quota: Option<u64>,
    /// What is done then.
    pub on_quota: OnQuota,
    /// Bytes that must stay free.
    pub free_min: FreeMin,
}

impl Limits {
    /// Whether capture pauses from now on, by what there is and by whether it does already.
    pub fn judge(&self, room: Room, paused: Option<Pause>) -> Option<Pause> {
        let gap = |bytes: u64, share: u64, was: Pause| {
            if paused == Some(was) {
                bytes / share
            } else {
                0
            }
        };
        let free_min = self.free_min_bytes(room.size_bytes);
        let free_gap = gap(free_min, FREE_GAP_SHARE, Pause::Low);
        if room.free_bytes < free_min.saturating_add(free_gap) {
            return Some(Pause::Low);
        }
        let quota = self.quota?;
        let full = quota - gap(quota, QUOTA_GAP_SHARE, Pause::Quota);
        (room.used_bytes >= full).then_some(Pause::Quota)
    }

    fn free_min_bytes(&self, size_bytes: u64) -> u64 {
        match self.free_min {
            FreeMin::Default(bytes) => bytes.min(size_bytes / FREE_MIN_SHARE),
            FreeMin::Bytes(bytes) => bytes,
            FreeMin::Percent(percent) => size_bytes / 100 * percent,
        }
    }
}

/// Looks how much room there is. What the directory holds is only counted where it matters: ten
/// thousand segments are ten thousand system calls.
pub fn look(directory: &Path, counted: bool) -> io::Result<Room> {
    let system = rustix::fs::statvfs(directory)?;
    let used_bytes = if counted {
        used(directory, DEPTH_MAX)?
    } else {
        0
    };
    Ok(Room {
        used_bytes,
        free_bytes: system.f_bavail.saturating_mul(system.f_frsize),
        size_bytes: system.f_blocks.saturating_mul(system.f_frsize),
    })
}

fn used(directory: &Path, depth: usize) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() && depth > 0 => {
                bytes += used(&entry.path(), depth - 1)?;
            }
            Ok(metadata) => bytes += metadata.len(),
            // Sealed or shipped a moment ago.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(bytes)
}

/// Removes the oldest segment, by name; says which, if there was one.
pub fn remove_oldest(directory: &Path) -> io::Result<Option<PathBuf>> {
    let mut oldest: Option<PathBuf> = None;
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let sealed = path.to_string_lossy().ends_with(SEGMENT_SUFFIX);
        if sealed && oldest.as_ref().is_none_or(|oldest| path < *oldest) {
            oldest = Some(path);
        }
    }
    if let Some(path) = &oldest {
        match std::fs::remove_file(path) {
            // Whoever ships segments was faster: there is room all the same.
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
            _ => {}
        }
    }
    Ok(oldest)
}

#[cfg(test)]
mod tests {
    use super::{FreeMin, Limits, OnQuota, Pause, Room, look, remove_oldest};
    use proptest::prelude::*;

    fn limits(quota: Option<u64>, free_min: FreeMin) -> Limits {
        Limits {
            quota,
            on_quota: OnQuota::Pause,
            free_min,
        }
    }

    fn room(used_bytes: u64, free_bytes: u64) -> Room {
        Room {
            used_bytes,
            free_bytes,
            size_bytes: 10_000,
        }
    }

    #[test]
    fn capture_pauses_at_a_limit_and_goes_on_below_it() {
        let limits = limits(Some(1000), FreeMin::Bytes(100));
        for (room, paused, wanted) in [
            (room(999, 100), None, None),
            (room(1000, 100), None, Some(Pause::Quota)),
            (room(950, 100), Some(Pause::Quota), Some(Pause::Quota)),
            (room(899, 100), Some(Pause::Quota), None),
            (room(0, 99), None, Some(Pause::Low)),
            (room(0, 109), Some(Pause::Low), Some(Pause::Low)),
            (room(0, 110), Some(Pause::Low), None),
            // What was refused is no reason to look at room otherwise.
            (room(950, 105), Some(Pause::Refused), None),
        ] {
            assert_eq!(limits.judge(room, paused), wanted, "{room:?} {paused:?}");
        }
    }

    #[test]
    fn the_watermark_is_a_size_a_share_or_a_default_that_fits_small_volumes() {
        for (free_min, wanted) in [
            (FreeMin::Bytes(7000), 7000),
            (FreeMin::Percent(15), 1500),
            (FreeMin::Percent(0), 0),
            (FreeMin::Default(7000), 1000),
            (FreeMin::Default(10), 10),
        ] {
            assert_eq!(limits(None, free_min).free_min_bytes(10_000), wanted);
        }
    }

    proptest! {
        /// Capture that pauses never goes on at once with the same room.
        #[test]
        fn a_decision_stands_while_nothing_changes(used in 0u64..2000, free in 0u64..300) {
            let limits = limits(Some(1000), FreeMin::Bytes(100));
            let first = limits.judge(room(used, free), None);
            prop_assert_eq!(limits.judge(room(used, free), first), first);
        }
    }

    #[test]
    fn all_files_count_and_the_oldest_segment_goes_first() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in [
            "p-1-000002.parquet",
            "p-1-000001.parquet",
            "p-1-000003.spool",
        ] {
            std::fs::write(at(name), [0; 100]).unwrap();
        }
        std::fs::create_dir(at("blobs")).unwrap();
        std::fs::write(at("blobs/one"), [0; 7]).unwrap();
        let room = look(directory.path(), true).unwrap();
        assert_eq!(room.used_bytes, 307);
        assert!(room.free_bytes <= room.size_bytes && room.size_bytes > 0);
        let gone = |name: &str| Some(at(name));
        assert_eq!(
            remove_oldest(directory.path()).unwrap(),
            gone("p-1-000001.parquet")
        );
        assert_eq!(
            remove_oldest(directory.path()).unwrap(),
            gone("p-1-000002.parquet")
        );
        assert_eq!(remove_oldest(directory.path()).unwrap(), None);
        assert_eq!(look(directory.path(), true).unwrap().used_bytes, 107);
        assert_eq!(look(directory.path(), false).unwrap().used_bytes, 0);
    }
}

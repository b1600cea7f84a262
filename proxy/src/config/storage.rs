//! Settings of what is kept where: keys, room, the flight recorder.

use super::parse::{bytes, duration};
use super::settings::Settings;
use crate::error::Error;
use crate::limits;
use crate::room::{FreeMin, Limits, OnQuota};
use bytesize::ByteSize;
use std::path::Path;
use std::time::Duration;
use truetape_schemas::blame::{Blame, Blamed as _};
use truetape_schemas::file::key::Keyring;

/// How captures are stored.
#[derive(Clone, Debug)]
pub struct Storage {
    /// Keys that captures are encrypted with; none for captures in the clear.
    pub keys: Keyring,
    /// What they may take of the disk.
    pub room: Limits,
    /// For how long rows wait in memory to be asked for; `None` writes them at once.
    pub flight_recorder: Option<Duration>,
}

impl Storage {
    pub(super) fn of(settings: &Settings) -> Result<Self, Error> {
        let quota = match settings.text("disk_quota") {
            "" => None,
            _ => Some(bytes(settings, "disk_quota", limits::DISK_QUOTA_MIN)? as u64),
        };
        let flight_recorder = match settings.text("flight_recorder") {
            "" => None,
            _ => Some(duration(settings, "flight_recorder", limits::FLIGHT_MIN)?),
        };
        Ok(Self {
            keys: keys(settings.text("encrypt_key_file"))?,
            room: Limits {
                quota,
                on_quota: on_quota(settings.text("on_quota"))?,
                free_min: free_min(settings.text("disk_free_min"))?,
            },
            flight_recorder,
        })
    }
}

fn keys(path: &str) -> Result<Keyring, Error> {
    if path.is_empty() {
        return Ok(Keyring::default());
    }
    Keyring::read(Path::new(path)).map_err(|cause| {
        debug_assert_eq!(cause.blame(), Blame::Config, "{cause}");
        Error::config("encrypt_key_file", cause.to_string())
    })
}

fn on_quota(text: &str) -> Result<OnQuota, Error> {
    match text {
        "pause" => Ok(OnQuota::Pause),
        "drop-oldest" => Ok(OnQuota::DropOldest),
        other => Err(Error::config(
            "on_quota",
            format!("found {other:?}, expected pause or drop-oldest"),
        )),
    }
}

fn free_min(text: &str) -> Result<FreeMin, Error> {
    let size = |text: &str| text.parse::<ByteSize>().map(|size| size.as_u64()).ok();
    if text.is_empty() {
        return Ok(FreeMin::Default(size(limits::DISK_FREE_MIN).unwrap_or(0)));
    }
    let found = match text.strip_suffix('%') {
        Some(percent) => {
            let percent = percent.trim().parse().ok();
            percent.filter(|n| *n <= 100).map(FreeMin::Percent)
        }
        None => size(text).map(FreeMin::Bytes),
    };
    found.ok_or_else(|| {
        let problem = format!("found {text:?}, expected a size or a share, as in 2GiB or 15%");
        Error::config("disk_free_min", problem)
    })
}

#[cfg(test)]
mod tests {
    use super::{Storage, free_min};
    use crate::cli::RecordArgs;
    use crate::config::settings::Settings;
    use crate::room::{FreeMin, OnQuota};
    use std::time::Duration;

    fn storage(change: impl FnOnce(&mut RecordArgs)) -> Result<Storage, String> {
        let mut args = RecordArgs::default();
        change(&mut args);
        let settings = Settings::merge(&args).unwrap();
        Storage::of(&settings).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_set_means_a_watermark_and_no_more() {
        let storage = storage(|_| {}).unwrap();
        assert!(storage.keys.writing().is_none() && storage.flight_recorder.is_none());
        assert_eq!(storage.room.free_min, FreeMin::Default(1 << 30));
        assert_eq!(
            (storage.room.quota, storage.room.on_quota),
            (None, OnQuota::Pause)
        );
    }

    #[test]
    fn sizes_shares_and_durations_are_understood() {
        let storage = storage(|args| {
            args.disk_quota = Some("2GiB".to_owned());
            args.on_quota = Some("drop-oldest".to_owned());
            args.disk_free_min = Some("15%".to_owned());
            args.flight_recorder = Some("10m".to_owned());
        })
        .unwrap();
        assert_eq!(storage.room.quota, Some(2 << 30));
        assert_eq!(storage.room.on_quota, OnQuota::DropOldest);
        assert_eq!(storage.room.free_min, FreeMin::Percent(15));
        assert_eq!(storage.flight_recorder, Some(Duration::from_secs(600)));
        assert_eq!(free_min("0B").unwrap(), FreeMin::Bytes(0));
    }

    #[test]
    fn a_bad_value_names_its_setting_and_what_was_allowed() {
        type Change = fn(&mut RecordArgs);
        let bad: [(Change, &str, &str); 6] = [
            (
                |a| a.disk_quota = Some("1kB".to_owned()),
                "disk_quota",
                "1.0 MiB",
            ),
            (
                |a| a.on_quota = Some("stop".to_owned()),
                "on_quota",
                "drop-oldest",
            ),
            (
                |a| a.disk_free_min = Some("101%".to_owned()),
                "disk_free_min",
                "15%",
            ),
            (
                |a| a.disk_free_min = Some("much".to_owned()),
                "disk_free_min",
                "2GiB",
            ),
            (
                |a| a.flight_recorder = Some("0s".to_owned()),
                "flight_recorder",
                "1s",
            ),
            (
                |a| a.encrypt_key_file = Some("/no/such".to_owned()),
                "encrypt_key_file",
                "/no/such",
            ),
        ];
        for (change, setting, allowed) in bad {
            let told = storage(change).unwrap_err();
            assert!(
                told.starts_with(setting) && told.contains(allowed),
                "{told}"
            );
        }
    }
}

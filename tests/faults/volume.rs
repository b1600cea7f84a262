//! File systems that can be filled, broken and frozen, and that leave with the test.

use std::path::{Path, PathBuf};
use std::process::Command;
use truetape_testkit::tempdir::TempDir;

/// A mounted file system.
#[derive(Debug)]
pub(crate) struct Volume {
    at: PathBuf,
    frozen: bool,
    /// Unmounted after this one.
    _below: Option<Box<Volume>>,
}

impl Volume {
    /// A small file system in memory; `None` where this test may not mount.
    pub(crate) fn tmpfs(dir: &TempDir, name: &str, size: &str) -> Option<Self> {
        let options = format!("size={size},mode=700");
        Self::mount(dir, name, &["-t", "tmpfs", "-o", &options, "tmpfs"], None)
    }

    /// A file system of 64 MiB that can be frozen and broken.
    pub(crate) fn ext4(dir: &TempDir, name: &str) -> Option<Self> {
        let below = Self::tmpfs(dir, &format!("{name}-image"), "80m")?;
        let image = below.path().join("image");
        std::fs::File::create(&image)
            .unwrap()
            .set_len(64 << 20)
            .unwrap();
        let image = image.to_str().unwrap();
        run("mkfs.ext4", &["-q", image]).then_some(())?;
        Self::mount(
            dir,
            name,
            &["-o", "loop,noatime,errors=remount-ro", image],
            Some(Box::new(below)),
        )
    }

    fn mount(dir: &TempDir, name: &str, how: &[&str], below: Option<Box<Self>>) -> Option<Self> {
        let at = dir.join(name);
        std::fs::create_dir(&at).unwrap();
        let mut args = how.to_vec();
        args.push(at.to_str().unwrap());
        let mounted = is_root() && run("mount", &args);
        mounted.then_some(Self {
            at,
            frozen: false,
            _below: below,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.at
    }

    /// From now on it is broken: an error of its own makes it read-only, with files open on it.
    pub(crate) fn abort(&self) -> bool {
        let at = self.at.to_str().unwrap();
        run("mount", &["-o", "remount,abort", at])
    }

    /// From now on, whoever writes to it waits; `false` where that cannot be had.
    pub(crate) fn freeze(&mut self) -> bool {
        self.frozen = run("fsfreeze", &["-f", self.at.to_str().unwrap()]);
        self.frozen
    }

    pub(crate) fn thaw(&mut self) {
        if std::mem::take(&mut self.frozen) {
            assert!(run("fsfreeze", &["-u", self.at.to_str().unwrap()]));
        }
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if self.frozen {
            run("fsfreeze", &["-u", self.at.to_str().unwrap_or_default()]);
        }
        run("umount", &["-l", self.at.to_str().unwrap_or_default()]);
    }
}

fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status")
        .is_ok_and(|status| status.lines().any(|line| line.starts_with("Uid:\t0\t0")))
}

/// Whether a command could be run, and did what it was asked for.
fn run(program: &str, args: &[&str]) -> bool {
    match Command::new(program).args(args).output() {
        Ok(output) => {
            if !output.status.success() {
                eprintln!(
                    "{program} {args:?}: {}",
                    String::from_utf8_lossy(&output.stderr)
                );
            }
            output.status.success()
        }
        Err(cause) => {
            eprintln!("{program}: {cause}");
            false
        }
    }
}

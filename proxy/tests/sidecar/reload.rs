//! SIGHUP: what it changes, what it does not, and that traffic does not notice.

use crate::support::{CHAT, SOON, Sidecar, Stage, captured, chat, ok};
use std::path::Path;
use std::time::{Duration, Instant};
use truetape_schemas::capture::Exchange;
use truetape_schemas::capture::footer::Footer;
use truetape_schemas::ledger::Ledger;
use truetape_testkit::tempdir::TempDir;
use truetape_testkit::{capture, client};

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

/// Rows are made by the plan that is in force when they are made: waits until they are.
fn await_recorded(sidecar: &Sidecar, rows: u64) {
    let until = Instant::now() + SOON;
    while sidecar.metric("truetape_records_recorded_total") < rows {
        assert!(Instant::now() < until, "{rows} rows were not recorded");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Ends in order; gives what was captured, footers included.
fn finish(stage: Stage) -> (Vec<Exchange>, Ledger, Vec<Footer>) {
    let Stage {
        sidecar,
        upstream: _upstream,
        out,
    } = stage;
    drop(sidecar.stop());
    let directory = out.join("captures");
    let (rows, ledger) = captured(&directory);
    (rows, ledger, capture::footers(&directory))
}

#[test]
fn a_reload_changes_what_is_kept_from_the_next_segment_on() {
    let folder = TempDir::new("reload-settings");
    let settings = folder.join("proxy.toml");
    write(&settings, "content = \"full\"\n");
    let path = settings.display().to_string();
    let stage = Stage::with("reload", &["--config", &path], ok);
    assert_eq!(stage.send(&chat()).status(), 200);
    await_recorded(&stage.sidecar, 1);

    write(&settings, "content = \"none\"\nrotate_rows = 7\n");
    stage.sidecar.process.hang_up();
    let left = stage
        .sidecar
        .process
        .event("some settings change at a restart only");
    assert_eq!(left["settings"], "rotate_rows");
    assert_eq!(stage.send(&chat()).status(), 200);
    assert_eq!(stage.sidecar.metric("truetape_reloads_total"), 1);

    let (mut rows, ledger, footers) = finish(stage);
    rows.sort_by_key(|row| row.arrival_mono_us);
    let bodies: Vec<bool> = rows.iter().map(|row| row.request_body.is_some()).collect();
    assert_eq!(bodies, [true, false]);
    assert_eq!(rows[0].client_key, rows[1].client_key);
    assert_eq!((ledger.offered, ledger.recorded), (2, 2));
    // A footer speaks for all rows of its segment.
    let mut profiles: Vec<String> = footers
        .into_iter()
        .filter_map(|footer| footer.redaction_profile)
        .collect();
    profiles.dedup();
    assert_eq!(profiles.len(), 2, "{profiles:?}");
}

#[test]
fn settings_that_are_not_sound_change_nothing() {
    let folder = TempDir::new("reload-bad");
    let settings = folder.join("proxy.toml");
    write(&settings, "content = \"none\"\n");
    let path = settings.display().to_string();
    let stage = Stage::with("reload-bad", &["--config", &path], ok);
    write(&settings, "content = \"everything\"\n");
    stage.sidecar.process.hang_up();
    let said = stage
        .sidecar
        .process
        .event("settings were not reloaded, what was in force stays");
    assert!(
        said["error"].as_str().unwrap().contains("everything"),
        "{said}"
    );
    assert_eq!(stage.send(&chat()).status(), 200);
    assert_eq!(stage.sidecar.metric("truetape_reload_failures_total"), 1);
    assert_eq!(stage.sidecar.metric("truetape_reloads_total"), 0);
    let (rows, _) = stage.finish();
    assert!(rows[0].request_body.is_none());
}

#[test]
fn a_reload_begins_or_ends_a_sample_and_keeps_the_salt_that_nobody_chose() {
    let folder = TempDir::new("reload-sample");
    let settings = folder.join("proxy.toml");
    write(&settings, "sample = 0.5\n");
    let path = settings.display().to_string();
    let stage = Stage::with("reload-sample", &["--config", &path], ok);
    assert_eq!(stage.send(&chat()).status(), 200);
    write(&settings, "sample = 0.25\n");
    stage.sidecar.process.hang_up();
    stage.sidecar.process.event("settings were reloaded");
    // Each a session of its own: that none of them is recorded happens once in 30 million times.
    for session in 0..60 {
        let message = serde_json::json!([{"role": "user", "content": session.to_string()}]);
        let body = serde_json::json!({"model": "syn", "messages": message});
        let request = client::post_json(CHAT, &body);
        assert_eq!(stage.send(&request).status(), 200);
    }
    let (_, ledger, footers) = finish(stage);
    assert_eq!(ledger.offered, 61);
    assert_eq!(ledger.recorded + ledger.sampled_out, 61);
    let salts: std::collections::BTreeSet<_> = footers
        .iter()
        .filter_map(|footer| footer.sampling_salt.clone())
        .collect();
    assert_eq!(salts.len(), 1, "{salts:?}");
    assert!(
        footers
            .iter()
            .any(|footer| footer.sampling_rate == Some(0.25))
    );
}

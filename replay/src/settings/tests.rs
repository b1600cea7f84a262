use super::*;
use clap::{Args as _, FromArgMatches as _};
use truetape_schemas::set::Turn;
use truetape_schemas::set::manifest::Manifest;

fn args(typed: &[&str]) -> ReplayArgs {
    let command = ReplayArgs::augment_args(clap::Command::new("replay").no_binary_name(true));
    let always = ["set", "--target", "http://127.0.0.1:8000", "--out", "out"];
    let matches = command
        .try_get_matches_from(always.iter().chain(typed))
        .unwrap();
    ReplayArgs::from_arg_matches(&matches).unwrap()
}

fn set(upstream: &str) -> Loaded {
    Loaded {
        dir: "set".into(),
        manifest: Manifest::default(),
        turns: vec![Turn {
            upstream: upstream.to_owned(),
            ..Turn::default()
        }],
        contents: vec![],
        level1: None,
        findings: vec![],
    }
}

#[test]
fn values_that_cannot_be_meant_are_refused_with_what_was_allowed() {
    let cases: [(&[&str], &str); 13] = [
        (
            &["--rate-scale", "2", "--rate-mode", "shape"],
            "--rate-scale: 2 with --rate-mode shape, which has no more sessions than the set; compile a larger \
             set, or use --rate-mode stress",
        ),
        (
            &["--on-failed-turn", "skip", "--pacing", "open"],
            "--on-failed-turn: skip with --pacing open, where no turn waits for another",
        ),
        (
            &["--find-knee", "errors=1%", "--rate-mode", "shape"],
            "--rate-mode: shape with --find-knee, whose rates rise above the set's; use stress",
        ),
        (
            &["--knee-precision", "0"],
            "--knee-precision: 0 is not in 0.01 to 1",
        ),
        (&["--rate-scale", "0"], "--rate-scale: 0 is not above 0"),
        (&["--rate-scale", "nan"], "--rate-scale: NaN is not above 0"),
        (
            &["--think-scale", "0.5"],
            "--think-scale: 0.5 with --pacing hybrid; only closed scales think times",
        ),
        (
            &["--think-scale=-1", "--pacing", "closed"],
            "--think-scale: -1 is below 0",
        ),
        (
            &["--error-rate-max", "2"],
            "--error-rate-max: 2 is not in 0 to 1",
        ),
        (
            &["--max-in-flight", "0"],
            "--max-in-flight: 0 sends nothing; at least 1",
        ),
        (&["--spin", "1ms"], "--spin: 1ms is above 100µs"),
        (
            &["--salt", "x", "--cache", "as-is"],
            "--salt: given with --cache as-is; only salted uses one",
        ),
        (
            &["--history", "live"],
            "--history: live is not supported yet; use recorded",
        ),
    ];
    for (typed, message) in cases {
        assert_eq!(check(&args(typed)).unwrap_err().to_string(), message);
    }
    check(&args(&[])).unwrap();
    check(&args(&["--pacing", "closed", "--think-scale", "0.5"])).unwrap();
}

#[test]
fn a_target_elsewhere_and_the_captured_origin_have_to_be_allowed() {
    let local = Target::resolve("http://127.0.0.1:8000").unwrap();
    let remote = Target::resolve("http://192.0.2.7:8000").unwrap();
    allow(&args(&[]), &local, &set("10.0.0.1:80")).unwrap();
    let error = allow(&args(&[]), &remote, &set(""))
        .unwrap_err()
        .to_string();
    assert!(
        error.ends_with("add --allow-target 192.0.2.7:8000"),
        "{error}"
    );
    allow(
        &args(&["--allow-target", "192.0.2.7:8000"]),
        &remote,
        &set(""),
    )
    .unwrap();
    let origin = set("http://localhost:8000");
    let error = allow(&args(&[]), &local, &origin).unwrap_err().to_string();
    assert!(error.ends_with("add --allow-captured-origin"), "{error}");
    allow(&args(&["--allow-captured-origin"]), &local, &origin).unwrap();
    // Said twice: a remote origin has to be allowed as a target as well.
    let twice = args(&["--allow-captured-origin"]);
    assert!(allow(&twice, &remote, &set("192.0.2.7:8000")).is_err());
}

#[test]
fn a_missing_key_is_named_and_a_key_is_never_shown() {
    let error = headers(&args(&["--api-key-env", "TRUETAPE_TEST_NO_SUCH_KEY"])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "--api-key-env: TRUETAPE_TEST_NO_SUCH_KEY is not set, or not text"
    );
    // `PATH` is set wherever tests run; its value is the key here.
    let headers = headers(&args(&["--api-key-env", "PATH"])).unwrap();
    assert!(headers[http::header::AUTHORIZATION].is_sensitive());
    assert!(!format!("{headers:?}").contains("Bearer"));
}

#[test]
fn a_session_has_no_place_in_the_framing() {
    for name in [
        "Host",
        "content-length",
        "Transfer-Encoding",
        "connection",
        "authorization",
    ] {
        let error = check(&args(&["--session-header", name])).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("--session-header: `{name}` has another meaning; name a header of your own")
        );
    }
    check(&args(&["--session-header", "x-affinity"])).unwrap();
}

#[test]
fn the_captured_origin_is_told_by_its_address() {
    let local = Target::resolve("http://127.0.0.1:8000").unwrap();
    let named = |upstream| is_captured_origin(&local, &set(upstream));
    assert_eq!(named("http://localhost:8000/v1"), Some(true));
    assert_eq!(named("10.0.0.1:8000"), Some(false));
    assert_eq!(named(""), None);
}

#[test]
fn every_flag_is_in_the_run() {
    let salted = Found {
        salt: Some("salt"),
        ..Found::default()
    };
    let flags = flags(&args(&["--duration", "5m"]), &salted);
    assert_eq!(flags["duration"], "5m");
    assert_eq!(
        (&flags["salt"], &flags["cache"]),
        (&json!("salt"), &json!("salted"))
    );
    let refused = super::flags(&args(&[]), &Found::default());
    assert_eq!(refused["cache"], "as-is");
    assert_eq!(refused["cache_asked"], "salted");
    let command = ReplayArgs::augment_args(clap::Command::new("replay"));
    // Where it was sent and written is elsewhere in the run, or of no consequence for it.
    let elsewhere = ["set", "target", "out", "store", "dry_run", "format"];
    for argument in command.get_arguments() {
        let name = argument.get_id().as_str();
        assert!(
            elsewhere.contains(&name) || flags.contains_key(name),
            "{name}"
        );
    }
}

use super::{Config, Content, Target};
use crate::cli::RecordArgs;
use truetape_schemas::blame::{Blame, Blamed as _};

fn args(listen: &str, upstream: &str) -> RecordArgs {
    RecordArgs {
        listen: Some(listen.to_owned()),
        upstream: Some(upstream.to_owned()),
        out: Some("captures".to_owned()),
        ..RecordArgs::default()
    }
}

fn good() -> RecordArgs {
    args("127.0.0.1:0", "http://127.0.0.1:8000")
}

fn file(text: &str) -> tempfile::NamedTempFile {
    use std::io::Write as _;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

#[test]
fn defaults_are_sound() {
    let config = Config::resolve(&good()).unwrap();
    assert_eq!(config.memory_budget, 64 << 20);
    assert_eq!(config.content, Content::Full);
    assert_eq!(config.routes[0].target.name(), "127.0.0.1:8000");
    assert!(config.admin.ip().is_loopback());
}

#[test]
fn a_bad_setting_is_one_error_that_names_it_and_what_was_allowed() {
    let bad = |change: fn(&mut RecordArgs)| {
        let mut args = good();
        change(&mut args);
        let error = Config::resolve(&args).unwrap_err();
        assert_eq!(error.blame(), Blame::Config);
        error.to_string()
    };
    let cases: [(String, &str); 19] = [
        (
            bad(|a| a.listen = None),
            "listen: not set; pass --listen or set TRUETAPE_LISTEN",
        ),
        (bad(|a| a.upstream = Some("x:1".into())), "expected a URL"),
        (
            bad(|a| a.upstream = Some("http://x/v1".into())),
            "a path is not supported",
        ),
        (
            bad(|a| a.upstream = Some("http://u:p@x".into())),
            "credentials are not supported",
        ),
        (
            bad(|a| a.memory_budget = Some("12".into())),
            "memory_budget: found \"12\"",
        ),
        (
            bad(|a| a.content = Some("some".into())),
            "expected full, digest or none",
        ),
        (
            bad(|a| a.blobs = Some("drop".into())),
            "expected keep or refer",
        ),
        (
            bad(|a| a.sample = Some("0".into())),
            "sample: found \"0\", expected a share",
        ),
        (bad(|a| a.sample = Some("1.5".into())), "at most 1"),
        (bad(|a| a.sample = Some("NaN".into())), "at most 1"),
        (
            bad(|a| a.keep_header = vec!["Cookie".into()]),
            "keep_header: found \"Cookie\", which carries a secret",
        ),
        (
            bad(|a| a.rotate_rows = Some("0".into())),
            "rotate_rows: found \"0\"",
        ),
        (
            bad(|a| a.fsync_every = Some("1".into())),
            "fsync_every: found \"1\"",
        ),
        (
            bad(|a| a.admin = Some("localhost".into())),
            "expected an IP address and a port",
        ),
        (
            bad(|a| a.proxy_id = Some("../x".into())),
            "proxy_id: found \"../x\"",
        ),
        (
            bad(|a| a.session_header = vec!["a b".into()]),
            "session_header: found \"a b\"",
        ),
        (
            bad(|a| a.session_header = vec!["Authorization".into()]),
            "use the column client_key",
        ),
        (
            bad(|a| a.session_header = vec!["x-session-token".into()]),
            "which carries a secret",
        ),
        (
            bad(|a| a.drain_timeout = Some("600years".into())),
            "expected at most 30days",
        ),
    ];
    for (message, part) in cases {
        assert!(message.contains(part), "{message:?} lacks {part:?}");
        assert!(!message.contains('\n'), "{message:?}");
    }
}

#[test]
fn a_bad_upstream_is_told_without_its_password() {
    for scheme in ["http", "https", "ftp", "http:/"] {
        for path in ["", "/v1", "/v1?x=1", "/a b"] {
            let upstream = format!("{scheme}://user:canary@host{path}");
            let error = Config::resolve(&args("127.0.0.1:0", &upstream)).unwrap_err();
            let said = format!("{error} {error:?}");
            assert!(said.contains("host") && !said.contains("canary"), "{said}");
            assert!(!said.contains("user"), "{said}");
        }
    }
}

#[test]
fn a_flag_wins_over_the_file_and_the_file_over_the_default() {
    let file = file("rotate_every = \"7s\"\nrotate_rows = 9\nsession_header = [\"X-One\"]\n");
    let mut args = good();
    args.config = Some(file.path().to_owned());
    args.rotate_rows = Some("3".to_owned());
    let config = Config::resolve(&args).unwrap();
    assert_eq!(config.rotate_every.as_secs(), 7);
    assert_eq!(config.rotate_rows, 3);
    assert_eq!(config.session_headers, ["x-one"]);
    let printed = config.print();
    assert!(
        printed.contains("rotate_rows = 3 # flag or environment\n"),
        "{printed}"
    );
    assert!(
        printed.contains("rotate_every = \"7s\" # file\n"),
        "{printed}"
    );
    assert!(
        printed.contains("content = \"full\" # default\n"),
        "{printed}"
    );
}

#[test]
fn what_is_printed_can_be_read_back() {
    let mut args = good();
    args.session_header = vec!["x-a".to_owned()];
    let first = Config::resolve(&args).unwrap();
    let file = file(first.print());
    let again = Config::resolve(&RecordArgs {
        config: Some(file.path().to_owned()),
        ..Default::default()
    })
    .unwrap();
    assert_eq!(first.digest(), again.digest());
    assert_eq!(again.session_headers, ["x-a"]);
}

#[test]
fn a_salt_that_nobody_chose_is_told_and_not_the_same_twice() {
    let mut args = good();
    assert_eq!(Config::resolve(&args).unwrap().keeping.sampling, None);
    args.sample = Some("0.25".to_owned());
    let first = Config::resolve(&args).unwrap();
    let salt = |config: &Config| config.keeping.sampling.clone().unwrap().salt;
    assert!(first.print().contains(&salt(&first)), "{}", first.print());
    assert_ne!(salt(&first), salt(&Config::resolve(&args).unwrap()));
    let file = file(first.print());
    let again = Config::resolve(&RecordArgs {
        config: Some(file.path().to_owned()),
        ..RecordArgs::default()
    });
    assert_eq!(again.unwrap().keeping, first.keeping);
}

#[test]
fn an_unknown_key_of_the_file_is_refused() {
    let file = file("rotate_evry = \"7s\"\n");
    let mut args = good();
    args.config = Some(file.path().to_owned());
    let error = Config::resolve(&args).unwrap_err().to_string();
    assert!(error.contains("unknown field `rotate_evry`"), "{error}");
}

#[test]
fn an_ipv6_upstream_keeps_its_brackets_in_the_column_only() {
    let config = Config::resolve(&args("[::1]:0", "http://[::1]:8000")).unwrap();
    let Target::Server(upstream) = &config.routes[0].target else {
        panic!("{:?}", config.routes);
    };
    assert_eq!(upstream.host, "::1");
    assert_eq!(upstream.authority(), "[::1]:8000");
}

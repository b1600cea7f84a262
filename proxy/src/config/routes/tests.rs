use crate::cli::RecordArgs;
use crate::config::{Config, RouteConfig, Target};
use crate::error::Error;
use crate::tls::ClientAuth;
use std::io::Write as _;
use std::path::PathBuf;

fn args(change: impl FnOnce(&mut RecordArgs)) -> RecordArgs {
    let mut args = RecordArgs {
        out: Some("captures".to_owned()),
        ..RecordArgs::default()
    };
    change(&mut args);
    args
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// The routes of a file, beside what was typed.
fn routes(file: &str, typed: RecordArgs) -> Result<Vec<RouteConfig>, Error> {
    let mut written = tempfile::NamedTempFile::new().unwrap();
    written.write_all(file.as_bytes()).unwrap();
    let config = Some(written.path().to_owned());
    Config::resolve(&RecordArgs { config, ..typed }).map(|config| config.routes)
}

fn named(routes: &[RouteConfig]) -> Vec<(String, String)> {
    let name = |route: &RouteConfig| (route.listen.clone(), route.target.name());
    routes.iter().map(name).collect()
}

#[test]
fn routes_stand_beside_or_instead_of_listen_and_upstream() {
    let one = ("127.0.0.1:1".to_owned(), "a:80".to_owned());
    let two = ("[::1]:2".to_owned(), "b:443".to_owned());
    let route = |args: &mut RecordArgs| args.route = vec!["[::1]:2=https://b".to_owned()];
    let alone = routes("", args(route)).unwrap();
    assert_eq!(named(&alone), std::slice::from_ref(&two));
    let both = args(|args| {
        route(args);
        args.listen = text("127.0.0.1:1");
        args.upstream = text("http://a");
    });
    assert_eq!(named(&routes("", both).unwrap()), [one, two.clone()]);
    // What is typed wins over the file, whole.
    let file = "[[route]]\nlisten = \"127.0.0.1:9\"\nupstream = \"http://c\"\n";
    assert_eq!(named(&routes(file, args(route)).unwrap()), [two]);
    assert_eq!(routes(file, args(|_| {})).unwrap().len(), 1);
}

#[test]
fn a_route_has_all_of_its_tls_or_that_of_the_others() {
    let file = r#"
        tls_cert = "shared.pem"
        tls_key = "shared.key"
        upstream_ca = "shared-ca.pem"
        [[route]]
        listen = "127.0.0.1:1"
        upstream = "https://a"
        [[route]]
        listen = "127.0.0.1:2"
        upstream = "https://b:8443"
        tls_cert = ["x.pem", "y.pem"]
        tls_key = ["x.key", "y.key"]
        tls_client_ca = "clients.pem"
        tls_client_auth = "request"
        upstream_server_name = "c.test"
        upstream_cert = "me.pem"
        upstream_key = "me.key"
        [[route]]
        listen = "127.0.0.1:3"
        upstream = "http://d"
    "#;
    let routes = routes(file, args(|_| {})).unwrap();
    let inbound = |index: usize| routes[index].inbound.clone().unwrap();
    let outbound = |index: usize| routes[index].outbound.clone();
    let pair = |name: &str| {
        let file = |extension: &str| PathBuf::from(format!("{name}.{extension}"));
        (file("pem"), file("key"))
    };
    assert_eq!(inbound(0).identities, [pair("shared")]);
    assert_eq!(outbound(0).unwrap().ca, Some("shared-ca.pem".into()));
    assert_eq!(inbound(1).identities, [pair("x"), pair("y")]);
    assert_eq!(inbound(1).client_auth, ClientAuth::Request);
    let own = outbound(1).unwrap();
    assert_eq!((own.ca, own.identity), (None, Some(pair("me"))));
    assert!(own.server_name.is_some());
    assert!(outbound(2).is_none(), "http stays in clear");
}

#[test]
fn a_redirected_connection_is_sent_on_as_it_came() {
    let listen = |args: &mut RecordArgs| {
        args.listen = text("0.0.0.0:4143");
        args.transparent = true;
    };
    let clear = routes("", args(listen)).unwrap();
    assert_eq!(clear[0].target, Target::OriginalDestination);
    assert!(clear[0].outbound.is_none());
    let over_tls = args(|args| {
        listen(args);
        (args.tls_cert, args.tls_key) = (vec!["a.pem".into()], vec!["a.key".into()]);
    });
    assert!(routes("", over_tls).unwrap()[0].outbound.is_some());
    assert!(routes("transparent = true\nlisten = \"0.0.0.0:1\"", args(|_| {})).is_ok());
}

type Change = fn(&mut RecordArgs);

#[test]
fn what_does_not_fit_together_is_refused_by_name() {
    let one = |args: &mut RecordArgs| {
        args.listen = text("127.0.0.1:1");
        args.upstream = text("https://a");
    };
    let cases: [(Change, &str); 15] = [
        (
            |a| a.route = vec!["x".into()],
            "route: found \"x\", expected LISTEN=UPSTREAM",
        ),
        (|a| a.route = vec!["u:canary@x".into()], "found \"...@x\""),
        (
            |a| a.route = vec!["x=http://a".into()],
            "listen: found \"x\"",
        ),
        (
            |a| a.route = vec!["127.0.0.1:1=http://b".into()],
            "found 127.0.0.1:1 twice",
        ),
        (|a| a.upstream = None, "upstream: not set"),
        (
            |a| a.transparent = true,
            "transparent: cannot be combined with an upstream",
        ),
        (
            |a| a.tls_cert = vec!["c".into()],
            "tls_cert: found 1 with 0 of tls_key",
        ),
        (
            |a| a.tls_key = vec!["c".into()],
            "tls_cert: found 0 with 1 of tls_key",
        ),
        (
            |a| a.tls_client_ca = text("c"),
            "tls_client_ca: needs tls_cert",
        ),
        (
            |a| a.tls_client_auth = text("require"),
            "tls_client_auth: needs tls_cert",
        ),
        (
            |a| a.upstream_cert = text("c"),
            "upstream_cert: needs upstream_key",
        ),
        (
            |a| a.upstream_key = text("c"),
            "upstream_key: needs upstream_cert",
        ),
        (
            |a| a.upstream_server_name = text("a b"),
            "upstream_server_name: found \"a b\"",
        ),
        (
            |a| (a.upstream, a.upstream_ca) = (text("http://a"), text("c")),
            "upstream_ca: is set, but no upstream is https",
        ),
        (
            |a| a.so_mark = text("0"),
            "so_mark: found \"0\", expected a number of 32 bits",
        ),
    ];
    for (change, part) in cases {
        let refused = routes(
            "",
            args(|args| {
                one(args);
                change(args);
            }),
        );
        let said = refused.unwrap_err().to_string();
        assert!(said.contains(part), "{said:?} lacks {part:?}");
        assert!(!said.contains("canary"), "{said}");
    }
    let unknown = "[[route]]\nlisten = \"127.0.0.1:1\"\nupstrem = \"http://c\"\n";
    let said = routes(unknown, args(|_| {})).unwrap_err().to_string();
    assert!(said.contains("unknown field `upstrem`"), "{said}");
}

#[test]
fn routes_that_are_printed_can_be_read_back() {
    let typed = args(|args| {
        args.listen = text("127.0.0.1:1");
        args.upstream = text("https://a");
        args.route = vec![
            "127.0.0.1:2=http://b".into(),
            "127.0.0.1:3=https://c:1".into(),
        ];
        (args.tls_cert, args.tls_key) = (vec!["a.pem".into()], vec!["a.key".into()]);
        args.tls_client_ca = text("ca.pem");
        args.upstream_server_name = text("d.test");
        args.so_mark = text("0x12ac");
    });
    let first = Config::resolve(&typed).unwrap();
    let again = routes(first.print(), RecordArgs::default()).unwrap();
    assert_eq!(first.routes, again);
    assert_eq!(first.so_mark, Some(0x12ac));
}

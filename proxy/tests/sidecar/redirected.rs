//! Connections that iptables redirected, in two network namespaces: a pod with the proxy, and what
//! is around it. The rules are those of the page that people copy from.

use crate::support::{CHAT, SOON, Sidecar, captured, chat};
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use truetape_testkit::client;
use truetape_testkit::process::Process;
use truetape_testkit::tempdir::TempDir;

const POD: &str = "10.77.0.1";
const AROUND: &str = "10.77.0.2";
const POD_V6: &str = "fd77::1";
const AROUND_V6: &str = "fd77::2";
/// The ports and the mark of docs/record.md.
const ENGINE: u16 = 8000;
const ELSEWHERE: u16 = 9000;
const PROXY: u16 = 4143;
const MARK: &str = "0x12ac";
/// What begins a handshake, and what it may be answered.
const TLS_RECORD: [u8; 5] = [0x16, 3, 1, 0, 1];
const TLS_ALERT: [u8; 5] = [0x15, 3, 1, 0, 2];

/// Two namespaces with a cable between them, removed at the end.
struct Net {
    pod: String,
    around: String,
}

impl Net {
    /// None where this user or machine cannot make them.
    fn new() -> Option<Self> {
        let id = std::process::id();
        let net = Self {
            pod: format!("tt{id}p"),
            around: format!("tt{id}a"),
        };
        for name in [&net.pod, &net.around] {
            run(&["ip", "netns", "add", name])?;
            run(&["ip", "-n", name, "link", "set", "lo", "up"])?;
        }
        let (near, far) = (format!("v{id}p"), format!("v{id}a"));
        let (pod, around) = (net.pod.as_str(), net.around.as_str());
        run(&[
            "ip", "link", "add", &near, "netns", pod, "type", "veth", "peer", "name", &far,
            "netns", around,
        ])?;
        for (name, link, v4, v6) in [(pod, &near, POD, POD_V6), (around, &far, AROUND, AROUND_V6)] {
            run(&[
                "ip",
                "-n",
                name,
                "addr",
                "add",
                &format!("{v4}/24"),
                "dev",
                link,
            ])?;
            let v6 = format!("{v6}/64");
            // A kernel without IPv6 does without.
            run(&["ip", "-n", name, "addr", "add", &v6, "dev", link, "nodad"]);
            run(&["ip", "-n", name, "link", "set", link, "up"])?;
        }
        Some(net)
    }

    /// Runs rules of the page in the pod.
    fn rules(&self, lines: &[String]) -> Option<()> {
        for line in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            run(&[&["ip", "netns", "exec", &self.pod], words.as_slice()].concat())?;
        }
        Some(())
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in [&self.pod, &self.around] {
            run(&["ip", "netns", "del", name]);
        }
    }
}

fn run(words: &[&str]) -> Option<()> {
    let (program, rest) = words.split_first()?;
    let ended = Command::new(program).args(rest).output().ok()?;
    ended.status.success().then_some(())
}

/// Does something on a thread that is in a namespace; sockets and processes that it makes stay there.
fn within<T: Send>(namespace: &str, act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let acting = scope.spawn(|| {
            let file = std::fs::File::open(format!("/run/netns/{namespace}")).unwrap();
            use std::os::fd::AsFd as _;
            rustix::thread::move_into_link_name_space(file.as_fd(), None).unwrap();
            act()
        });
        acting.join().unwrap()
    })
}

/// An engine that says where it listens.
fn engine(namespace: &str, addr: &str) -> io::Result<()> {
    let listener = within(namespace, || TcpListener::bind(addr))?;
    let addr = addr.to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let addr = addr.clone();
            std::thread::spawn(move || answer(stream, &addr));
        }
    });
    Ok(())
}

fn answer(mut stream: TcpStream, name: &str) -> io::Result<()> {
    let mut came = Vec::new();
    while !came.ends_with(b"}]}") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        came.extend_from_slice(&byte);
        if came == TLS_RECORD {
            return stream.write_all(&TLS_ALERT);
        }
    }
    let body = format!("{{\"engine\":\"{name}\"}}");
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes())
}

fn ask(namespace: &str, addr: &str) -> client::Answer {
    let addr: SocketAddr = addr.parse().unwrap();
    within(namespace, || client::exchange(addr, &chat(), None))
}

/// The lines of the page that hold a word, as they stand there.
fn lines(word: &str) -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/record.md");
    let page = std::fs::read_to_string(path).unwrap();
    let rules = page.lines().filter(|line| line.starts_with("iptables "));
    let found: Vec<String> = rules
        .filter(|line| line.contains(word))
        .map(str::to_owned)
        .collect();
    assert!(!found.is_empty(), "docs/record.md has no rule with {word}");
    found
}

fn metric(net: &Net, sidecar: &Sidecar, name: &str) -> u64 {
    within(&net.pod, || sidecar.metric(name))
}

#[test]
fn redirected_connections_go_where_they_were_sent_and_loops_are_refused() {
    let Some(net) = Net::new() else {
        eprintln!("no network namespaces here: interception is not checked");
        return;
    };
    let inbound = [lines("PREROUTING"), lines("INVALID")].concat();
    if net.rules(&inbound).is_none() {
        eprintln!("no iptables here: interception is not checked");
        return;
    }
    let out = TempDir::new("redirected");
    let listen = format!("[::]:{PROXY}");
    let directory = out.join("captures").display().to_string();
    let flags = [
        "--listen",
        &listen,
        "--transparent",
        "--so-mark",
        MARK,
        "--admin",
        "127.0.0.1:0",
        "--out",
        &directory,
    ];
    let proxy = Path::new(crate::support::PROXY);
    let sidecar = Sidecar::of(within(&net.pod, || Process::start(proxy, flags, &[])));
    let mut expected = Vec::new();

    // From around to the engine in the pod.
    let inside = format!("{POD}:{ENGINE}");
    engine(&net.pod, &inside).unwrap();
    let answer = ask(&net.around, &inside);
    assert!(answer.text().contains(&inside), "{}", answer.text());
    // TLS that is not ended here passes as it is.
    let addr: SocketAddr = inside.parse().unwrap();
    let alert = within(&net.around, || {
        let mut stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.write_all(&TLS_RECORD).unwrap();
        let mut alert = [0; 5];
        stream.read_exact(&mut alert).unwrap();
        alert
    });
    assert_eq!(alert, TLS_ALERT);
    assert_eq!(
        metric(&net, &sidecar, "truetape_opaque_connections_total"),
        1
    );
    expected.push(inside);
    let v6: Vec<String> = inbound
        .iter()
        .map(|line| line.replacen("iptables", "ip6tables", 1))
        .collect();
    let inside = format!("[{POD_V6}]:{ENGINE}");
    if net.rules(&v6).is_some() && engine(&net.pod, &inside).is_ok() {
        let answer = ask(&net.around, &inside);
        assert!(answer.text().contains(&inside), "{}", answer.text());
        expected.push(inside);
    } else {
        eprintln!("no ip6tables here: interception of IPv6 is not checked");
    }

    // From the pod to an engine around it; the proxy's own connection is told by its mark.
    let elsewhere = format!("{AROUND}:{ELSEWHERE}");
    engine(&net.around, &elsewhere).unwrap();
    net.rules(&lines("--mark")).unwrap();
    let answer = ask(&net.pod, &elsewhere);
    assert!(answer.text().contains(&elsewhere), "{}", answer.text());
    expected.push(elsewhere.clone());
    let loops = "truetape_loops_refused_total";
    assert_eq!(metric(&net, &sidecar, loops), 0);

    // To the proxy itself.
    let own: SocketAddr = format!("{POD}:{PROXY}").parse().unwrap();
    let refused = within(&net.around, || {
        let mut stream = TcpStream::connect(own).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.read(&mut [0])
    });
    assert!(
        matches!(refused, Ok(0)) || refused.is_err_and(|e| e.kind() != io::ErrorKind::WouldBlock)
    );
    assert_eq!(metric(&net, &sidecar, loops), 1);

    // The exclusion is by a user that the proxy does not run as: it would go round for ever.
    net.rules(&["iptables -t nat -F OUTPUT".to_owned()])
        .unwrap();
    net.rules(&lines("--uid-owner")).unwrap();
    let answer = ask(&net.pod, &elsewhere);
    let head = answer.head.unwrap();
    assert_eq!(
        (head.status(), head.value("x-truetape-error")),
        (502, Some("upstream loop"))
    );
    assert_eq!(metric(&net, &sidecar, loops), 2);
    expected.extend([elsewhere.clone(), elsewhere]);

    sidecar.stop();
    let (mut rows, _) = captured(&out.join("captures"));
    rows.sort_by_key(|row| row.arrival_mono_us);
    assert!(rows.iter().all(|row| row.path == CHAT));
    let found: Vec<&str> = rows.iter().map(|row| row.upstream.as_str()).collect();
    assert_eq!(found, expected);
}

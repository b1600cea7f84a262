//! The commands of `README.md` work as they are written.

use crate::support::TRUETAPE;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use truetape_testkit::process::Process;
use truetape_testkit::tempdir::TempDir;

/// Codes of a command that did what the page says: a verdict may be no, and a busy machine may
/// make a run invalid.
const WORKED: &[i32] = &[0, 1, 74];

/// Lines `$ truetape …` of all console blocks, in order.
fn commands(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let blocks = page
        .split("```console\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    for block in blocks {
        let joined = block.replace("\\\n", " ");
        let lines = joined.lines().filter_map(|line| line.strip_prefix("$ "));
        commands.extend(lines.map(str::to_owned));
    }
    commands
}

/// Ports of the page are its own; a test takes free ones.
fn with_free_ports(commands: Vec<String>) -> Vec<String> {
    let mut free: BTreeMap<String, u16> = BTreeMap::new();
    let mut held = Vec::new();
    let swap = |command: String| {
        let mut words = Vec::new();
        for word in command.split(' ') {
            let Some((before, port)) = word.rsplit_once("127.0.0.1:") else {
                words.push(word.to_owned());
                continue;
            };
            let port = *free.entry(port.to_owned()).or_insert_with(|| {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let port = listener.local_addr().unwrap().port();
                held.push(listener);
                port
            });
            words.push(format!("{before}127.0.0.1:{port}"));
        }
        words.join(" ")
    };
    commands.into_iter().map(swap).collect()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in std::fs::read_dir(from).unwrap().flatten() {
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

fn start(dir: &TempDir, command: &str) -> Process {
    let script = format!("cd \"$1\" && exec \"$2\" {command}");
    let args = ["-c", &script, "sh", dir.path().to_str().unwrap(), TRUETAPE];
    // The admin port of the page is the default one, which another process may hold.
    Process::start(
        "/bin/sh".as_ref(),
        args,
        &[("TRUETAPE_ADMIN", "127.0.0.1:0")],
    )
}

#[test]
fn the_commands_of_the_page_work() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("README.md")).unwrap();
    let commands = with_free_ports(commands(&page));
    assert!(commands.len() >= 5, "{commands:?}");
    let dir = TempDir::new("readme");
    copy(&root.join("examples"), &dir.join("examples"));
    let mut servers = Vec::new();
    for command in commands {
        let Some(verb) = command.strip_prefix("truetape ") else {
            panic!("`{command}`: only our own commands are on the page");
        };
        if let Some(server) = verb.strip_suffix(" &") {
            let server = start(&dir, server);
            server.listening();
            servers.push(server);
            continue;
        }
        let ended = start(&dir, verb).wait(truetape_testkit::process::RUN_WITHIN);
        assert!(
            ended.code.is_some_and(|code| WORKED.contains(&code)),
            "{command}: {ended:?}"
        );
    }
    for server in servers.into_iter().rev() {
        server.stop().expect_code(0);
    }
}

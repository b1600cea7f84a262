//! Exchanges as files: `testdata/wire/README.md` says how they look.

use std::path::{Path, PathBuf};
use truetape_schemas::capture::Header;
use truetape_schemas::wire::{BodyEnd, Dialect, ResponseFacts, ResponseReader};

/// One exchange, as its file says.
pub(crate) struct Exchange {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) request_headers: Vec<Header>,
    pub(crate) request_body: Vec<u8>,
    pub(crate) status: u16,
    pub(crate) response_headers: Vec<Header>,
    pub(crate) reads: Vec<(i64, Vec<u8>)>,
    pub(crate) end: BodyEnd,
}

fn parse(text: &str) -> Exchange {
    let mut lines = text.lines().peekable();
    let (method, path) = lines.next().unwrap().split_once(' ').unwrap();
    let request_headers = headers(&mut lines);
    let mut request_body = String::new();
    while lines.peek().is_some_and(|line| !line.starts_with("HTTP ")) {
        request_body += lines.next().unwrap();
        request_body.push('\n');
    }
    let status = lines
        .next()
        .unwrap()
        .strip_prefix("HTTP ")
        .unwrap()
        .parse()
        .unwrap();
    let response_headers = headers(&mut lines);
    let mut reads = Vec::new();
    let mut end = None;
    while let Some(line) = lines.next() {
        assert!(end.is_none(), "a line after the end: {line}");
        if let Some(word) = line.strip_prefix('!') {
            end = Some(body_end(word));
            continue;
        }
        let (at_ms, is_hex) = match line.strip_suffix(" hex") {
            Some(at) => (at, true),
            None => (line, false),
        };
        let at_ms: i64 = at_ms.strip_prefix('@').unwrap().parse().unwrap();
        let mut block = Vec::new();
        while lines
            .peek()
            .is_some_and(|line| !line.starts_with(['@', '!']))
        {
            block.push(lines.next().unwrap());
        }
        reads.push((
            at_ms * 1_000,
            if is_hex {
                unhex(&block)
            } else {
                unline(&block)
            },
        ));
    }
    Exchange {
        method: method.to_owned(),
        path: path.to_owned(),
        request_headers,
        request_body: request_body.trim_end().as_bytes().to_vec(),
        status,
        response_headers,
        reads,
        end: end.expect("an end, as in !clean"),
    }
}

fn headers<'a>(lines: &mut impl Iterator<Item = &'a str>) -> Vec<Header> {
    let header = |line: &str| {
        let (name, value) = line.split_once(": ").unwrap();
        Header {
            name: name.to_owned(),
            value: value.to_owned(),
        }
    };
    lines
        .take_while(|line| !line.is_empty())
        .map(header)
        .collect()
}

fn unline(block: &[&str]) -> Vec<u8> {
    let line = |line: &&str| match line.strip_suffix('␄') {
        Some(line) => line.replace('␍', "\r"),
        None => line.replace('␍', "\r") + "\n",
    };
    block.iter().map(line).collect::<String>().into_bytes()
}

fn unhex(block: &[&str]) -> Vec<u8> {
    let digits = block.concat();
    let pairs = digits
        .as_bytes()
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).unwrap());
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).unwrap())
        .collect()
}

fn body_end(word: &str) -> BodyEnd {
    match word {
        "clean" => BodyEnd::Clean,
        "cut" => BodyEnd::Cut,
        "client_aborted" => BodyEnd::ClientAborted,
        "timeout" => BodyEnd::Timeout,
        "proxy_shutdown" => BodyEnd::ProxyShutdown,
        other => panic!("{other}: no way for a body to end"),
    }
}

impl Exchange {
    /// The language of the request.
    pub(crate) fn dialect(&self) -> Dialect {
        Dialect::of(&self.method, &self.path).refined(&self.request_body)
    }

    /// Reads the answer in pieces of at most so many bytes.
    pub(crate) fn answer(&self, piece_bytes_max: usize) -> (bool, ResponseFacts) {
        let mut reader = self.reader();
        for (at_us, bytes) in &self.reads {
            bytes
                .chunks(piece_bytes_max)
                .for_each(|piece| reader.push(*at_us, piece));
        }
        (reader.done_seen(), reader.finish(self.end))
    }

    /// A reader of this exchange's answer.
    pub(crate) fn reader(&self) -> ResponseReader {
        let header = |name: &str| {
            let found = self
                .response_headers
                .iter()
                .find(|header| header.name == name);
            found.map(|header| header.value.as_str())
        };
        ResponseReader::new(
            self.dialect(),
            self.status,
            header("content-type"),
            header("content-encoding"),
        )
    }
}

/// Every exchange, with its file.
pub(crate) fn exchanges() -> Vec<(PathBuf, Exchange)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/wire");
    let list = |folder: &Path| -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        paths.sort();
        paths
    };
    let folders = list(&root).into_iter().filter(|path| path.is_dir());
    let files = folders.flat_map(|folder| list(&folder));
    let files = files.filter(|path| {
        path.extension()
            .is_some_and(|extension| extension == "http")
    });
    let read = |path: PathBuf| {
        let exchange = parse(&std::fs::read_to_string(&path).unwrap());
        (path, exchange)
    };
    files.map(read).collect()
}

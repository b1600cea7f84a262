//! The proxies that are compared, each with a fair, minimal configuration: kept-alive connections to
//! the upstream, no access log, one worker, no buffering of what streams.

use crate::process::{LOAD_CORE, SUBJECT_CORE, pin};
use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use truetape_testkit::eval::{program, said};
use truetape_testkit::process::Process;
use truetape_testkit::tempdir::TempDir;

/// Longest wait for a subject to accept connections.
const START_WITHIN: Duration = Duration::from_secs(30);

/// Longest wait for a subject to end.
const STOP_WITHIN: Duration = Duration::from_secs(60);

/// What stands between the load and the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing.
    Direct,
    /// Ours, recording everything.
    Truetape,
    /// nginx.
    Nginx,
    /// HAProxy.
    Haproxy,
    /// Envoy.
    Envoy,
    /// mitmproxy.
    Mitmproxy,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] = [
        Self::Direct,
        Self::Truetape,
        Self::Nginx,
        Self::Haproxy,
        Self::Envoy,
        Self::Mitmproxy,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Truetape => "truetape-proxy",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::Envoy => "envoy",
            Self::Mitmproxy => "mitmproxy",
        }
    }

    /// The variable that names its program, where it is not on the path.
    fn variable(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Self::Direct => return None,
            Self::Truetape => ("TRUETAPE_BENCH_PROXY", "truetape-proxy"),
            Self::Nginx => ("TRUETAPE_BENCH_NGINX", "nginx"),
            Self::Haproxy => ("TRUETAPE_BENCH_HAPROXY", "haproxy"),
            Self::Envoy => ("TRUETAPE_BENCH_ENVOY", "envoy"),
            Self::Mitmproxy => ("TRUETAPE_BENCH_MITMDUMP", "mitmdump"),
        })
    }

    /// Where its program is, or what to set.
    pub(crate) fn program(self) -> Result<PathBuf, String> {
        let Some((variable, name)) = self.variable() else {
            return Ok(PathBuf::new());
        };
        program(name, variable)
    }

    /// What its program says it is.
    pub(crate) fn version(self, program: &Path) -> Option<String> {
        let flag = match self {
            Self::Direct => return None,
            Self::Nginx | Self::Haproxy => "-v",
            Self::Truetape | Self::Envoy | Self::Mitmproxy => "--version",
        };
        let line = said(&program.to_string_lossy(), &[flag])?;
        Some(line.replace(&*program.to_string_lossy(), self.name()))
    }
}

/// A subject that accepts connections, pinned to its core.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) addr: SocketAddr,
    process: Option<Process>,
    kind: Kind,
    _dir: TempDir,
}

impl Subject {
    pub(crate) fn start(kind: Kind, program: &Path, upstream: SocketAddr) -> Self {
        let dir = TempDir::new(kind.name());
        if kind == Kind::Direct {
            return Self {
                addr: upstream,
                process: None,
                kind,
                _dir: dir,
            };
        }
        let addr = free_address();
        let args = arguments(kind, dir.path(), addr, upstream);
        // What is started inherits the core.
        pin(SUBJECT_CORE);
        let process = Process::start(program, args, &[]);
        pin(LOAD_CORE);
        if kind == Kind::Truetape {
            process.listening();
        }
        let deadline = Instant::now() + START_WITHIN;
        while TcpStream::connect(addr).is_err() {
            assert!(
                Instant::now() < deadline,
                "{} does not listen: {}",
                kind.name(),
                process.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        Self {
            addr,
            process: Some(process),
            kind,
            _dir: dir,
        }
    }

    pub(crate) fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Ends it. Ours must end well, and says what it recorded.
    pub(crate) fn stop(self) -> Option<serde_json::Value> {
        let process = self.process?;
        match self.kind {
            Kind::Truetape => process.terminate(),
            // Asked and not killed: its worker would outlive it.
            Kind::Nginx => {
                process.stop();
                return None;
            }
            _ => {
                process.kill();
                return None;
            }
        }
        let counts = process.event("stopped");
        process.wait(STOP_WITHIN).expect_code(0);
        Some(counts)
    }
}

/// A port that is free now.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("it is bound")
}

fn arguments(kind: Kind, dir: &Path, addr: SocketAddr, upstream: SocketAddr) -> Vec<OsString> {
    let write = |name: &str, text: String| {
        let path = dir.join(name);
        std::fs::write(&path, text).expect("a scratch file");
        path.into_os_string()
    };
    let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    match kind {
        Kind::Direct => Vec::new(),
        Kind::Truetape => {
            let (listen, upstream) = (addr.to_string(), format!("http://{upstream}"));
            let mut args = words(&["--listen", &listen, "--upstream", &upstream]);
            args.extend(words(&["--content", "full", "--admin", "127.0.0.1:0"]));
            // Segments are sealed within the window, whatever the load.
            args.extend(words(&[
                "--rotate-every",
                "4s",
                "--drain-timeout",
                "1s",
                "--out",
            ]));
            args.push(dir.join("capture").into_os_string());
            args
        }
        Kind::Nginx => {
            let path = write("nginx.conf", nginx(dir, addr, upstream));
            let mut args = words(&["-e", "stderr", "-c"]);
            args.push(path);
            args
        }
        Kind::Haproxy => {
            let path = write("haproxy.cfg", haproxy(addr, upstream));
            let mut args = words(&["-q", "-f"]);
            args.push(path);
            args
        }
        Kind::Envoy => {
            let path = write("envoy.yaml", envoy(addr, upstream));
            let mut args = words(&[
                "--concurrency",
                "1",
                "--disable-hot-restart",
                "-l",
                "error",
                "-c",
            ]);
            args.push(path);
            args
        }
        Kind::Mitmproxy => {
            let mode = format!("reverse:http://{upstream}");
            let port = addr.port().to_string();
            words(&[
                "-q",
                "--mode",
                &mode,
                "--listen-host",
                "127.0.0.1",
                "--listen-port",
                &port,
                "--set",
                "stream_large_bodies=1",
                "--set",
                "flow_detail=0",
            ])
        }
    }
}

fn nginx(dir: &Path, addr: SocketAddr, upstream: SocketAddr) -> String {
    let dir = dir.display();
    // Workers of root's nginx would not reach the scratch folder.
    let user = if rustix::process::getuid().is_root() {
        "user root;"
    } else {
        ""
    };
    format!(
        "{user} worker_processes 1; daemon off; pid {dir}/pid; error_log stderr crit;
events {{ worker_connections 8192; }}
http {{
  access_log off;
  client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/f;
  uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
  keepalive_requests 1000000000;
  upstream engine {{ server {upstream}; keepalive 2048; keepalive_requests 1000000000; }}
  server {{
    listen {addr};
    location / {{
      proxy_pass http://engine; proxy_http_version 1.1; proxy_set_header Connection \"\";
      proxy_buffering off; proxy_request_buffering off; proxy_read_timeout 600s;
    }}
  }}
}}
"
    )
}

fn haproxy(addr: SocketAddr, upstream: SocketAddr) -> String {
    format!(
        "global
  nbthread 1
  maxconn 8192
defaults
  mode http
  option http-no-delay
  http-reuse always
  timeout connect 5s
  timeout client 600s
  timeout server 600s
frontend front
  bind {addr}
  default_backend engine
backend engine
  server engine {upstream}
"
    )
}

fn envoy(addr: SocketAddr, upstream: SocketAddr) -> String {
    let socket = |addr: SocketAddr| {
        format!(
            "{{ socket_address: {{ address: {}, port_value: {} }} }}",
            addr.ip(),
            addr.port()
        )
    };
    let (listen, upstream) = (socket(addr), socket(upstream));
    format!(
        "static_resources:
  listeners:
  - address: {listen}
    filter_chains:
    - filters:
      - name: http
        typed_config:
          \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: front
          codec_type: HTTP1
          route_config:
            virtual_hosts:
            - name: all
              domains: ['*']
              routes: [{{ match: {{ prefix: '/' }}, route: {{ cluster: engine, timeout: 0s }} }}]
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{ \"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
  clusters:
  - name: engine
    connect_timeout: 5s
    type: STATIC
    circuit_breakers: {{ thresholds: [{{ max_connections: 100000, max_pending_requests: 100000, max_requests: 100000 }}] }}
    load_assignment:
      cluster_name: engine
      endpoints: [{{ lb_endpoints: [{{ endpoint: {{ address: {upstream} }} }}] }}]
"
    )
}

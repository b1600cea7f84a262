//! What an operator types. It is shared by `truetape record` and `truetape-proxy`.
//!
//! Values stay text here: [`crate::config`] says what they mean, so that a bad value is one error
//! about a setting (exit 78), wherever it was set.

use clap::Args;
use std::path::PathBuf;

/// Settings of the proxy. Each is also a `TRUETAPE_*` variable and a key of the `--config` file;
/// a flag wins over a variable, a variable over the file, the file over the default.
#[derive(Args, Clone, Debug, Default)]
pub struct RecordArgs {
    /// Where clients connect, as in 0.0.0.0:8001.
    #[arg(long, env = "TRUETAPE_LISTEN", value_name = "ADDR")]
    pub listen: Option<String>,

    /// The inference server, as in http://127.0.0.1:8000 or https://127.0.0.1:8443.
    #[arg(long, env = "TRUETAPE_UPSTREAM", value_name = "URL")]
    pub upstream: Option<String>,

    /// Another listener and its upstream, as in 0.0.0.0:8003=http://127.0.0.1:8002; may be given
    /// more than once, beside or instead of --listen and --upstream.
    #[arg(
        long,
        env = "TRUETAPE_ROUTE",
        value_name = "LISTEN=UPSTREAM",
        value_delimiter = ','
    )]
    pub route: Vec<String>,

    /// Instead of --upstream: connections were redirected here, and go where they were sent.
    #[arg(long, env = "TRUETAPE_TRANSPARENT")]
    pub transparent: bool,

    /// The firewall mark of connections to the upstream, by which rules leave them alone; needs
    /// CAP_NET_ADMIN.
    #[arg(long, env = "TRUETAPE_SO_MARK", value_name = "NUMBER")]
    pub so_mark: Option<String>,

    /// A certificate chain for clients (PEM); given more than once, clients choose by name, and
    /// the first is the default.
    #[arg(
        long,
        env = "TRUETAPE_TLS_CERT",
        value_name = "FILE",
        value_delimiter = ','
    )]
    pub tls_cert: Vec<String>,

    /// The private key of each --tls-cert, in the same order (PEM).
    #[arg(
        long,
        env = "TRUETAPE_TLS_KEY",
        value_name = "FILE",
        value_delimiter = ','
    )]
    pub tls_key: Vec<String>,

    /// The authorities of clients' certificates (PEM); clients are asked for one.
    #[arg(long, env = "TRUETAPE_TLS_CLIENT_CA", value_name = "FILE")]
    pub tls_client_ca: Option<String>,

    /// Whether a client must show a certificate: `require` or `request` [default: require].
    #[arg(long, env = "TRUETAPE_TLS_CLIENT_AUTH", value_name = "POLICY")]
    pub tls_client_auth: Option<String>,

    /// The authorities of an https upstream (PEM), instead of the machine's.
    #[arg(long, env = "TRUETAPE_UPSTREAM_CA", value_name = "FILE")]
    pub upstream_ca: Option<String>,

    /// The certificate chain that an https upstream is shown (PEM).
    #[arg(long, env = "TRUETAPE_UPSTREAM_CERT", value_name = "FILE")]
    pub upstream_cert: Option<String>,

    /// The private key of --upstream-cert (PEM).
    #[arg(long, env = "TRUETAPE_UPSTREAM_KEY", value_name = "FILE")]
    pub upstream_key: Option<String>,

    /// The name that the certificate of an https upstream must have, when it is not the URL's host.
    #[arg(long, env = "TRUETAPE_UPSTREAM_SERVER_NAME", value_name = "NAME")]
    pub upstream_server_name: Option<String>,

    /// What is spoken to the upstream: `http1`, `http2`, or `mirror` for what the client speaks
    /// [default: mirror].
    #[arg(long, env = "TRUETAPE_UPSTREAM_PROTOCOL", value_name = "PROTOCOL")]
    pub upstream_protocol: Option<String>,

    /// The directory that captures go to; one proxy each.
    #[arg(long, env = "TRUETAPE_OUT", value_name = "DIR")]
    pub out: Option<String>,

    /// Where /livez, /readyz, /metrics, /version and /capture are served [default: 127.0.0.1:4780].
    #[arg(long, env = "TRUETAPE_ADMIN", value_name = "ADDR")]
    pub admin: Option<String>,

    /// Let callers on this host switch capture: POST /capture/on, /capture/off and /capture/flush.
    #[arg(long, env = "TRUETAPE_ADMIN_WRITES")]
    pub admin_writes: bool,

    /// Memory for what is being captured; beyond it, capture degrades [default: 64MiB].
    #[arg(long, env = "TRUETAPE_MEMORY_BUDGET", value_name = "SIZE")]
    pub memory_budget: Option<String>,

    /// Longest body that is recorded, each way [default: 16MiB].
    #[arg(long, env = "TRUETAPE_BODY_BYTES_MAX", value_name = "SIZE")]
    pub body_bytes_max: Option<String>,

    /// What is recorded of bodies: `full`, `digest` (keyed hashes for text) or `none` [default: full].
    #[arg(long, env = "TRUETAPE_CONTENT", value_name = "POLICY")]
    pub content: Option<String>,

    /// The key of hashes that stand for text, 64 hexadecimal digits; by default one is made for the
    /// directory.
    #[arg(long, env = "TRUETAPE_DIGEST_KEY_FILE", value_name = "FILE")]
    pub digest_key_file: Option<String>,

    /// What is recorded of images and sounds in requests: `refer` (type, length and hash) or `keep`
    /// (their bytes too, once a segment) [default: refer].
    #[arg(long, env = "TRUETAPE_BLOBS", value_name = "WHAT")]
    pub blobs: Option<String>,

    /// Share of the sessions that is recorded, each with all its turns [default: 1].
    #[arg(long, env = "TRUETAPE_SAMPLE", value_name = "RATE")]
    pub sample: Option<String>,

    /// Salt of the hash that picks sessions: recorders with one salt pick the same [default: random].
    #[arg(long, env = "TRUETAPE_SAMPLE_SALT", value_name = "TEXT")]
    pub sample_salt: Option<String>,

    /// The salt where none is set: one for each process, so that a reload goes on with it.
    #[arg(skip)]
    pub default_salt: Option<String>,

    /// A model whose name is recorded under `digest` and `none` too; may be given more than once.
    #[arg(
        long,
        env = "TRUETAPE_KEEP_MODEL",
        value_name = "NAME",
        value_delimiter = ','
    )]
    pub keep_model: Vec<String>,

    /// A header that is recorded beside those of the list, under `digest` and `none` as a hash; may be
    /// given more than once.
    #[arg(
        long,
        env = "TRUETAPE_KEEP_HEADER",
        value_name = "NAME",
        value_delimiter = ','
    )]
    pub keep_header: Vec<String>,

    /// A segment is sealed at this size [default: 64MiB].
    #[arg(long, env = "TRUETAPE_ROTATE_BYTES", value_name = "SIZE")]
    pub rotate_bytes: Option<String>,

    /// A segment is sealed at so many rows [default: 50000].
    #[arg(long, env = "TRUETAPE_ROTATE_ROWS", value_name = "ROWS")]
    pub rotate_rows: Option<String>,

    /// A segment with rows is sealed at this age [default: 5m].
    #[arg(long, env = "TRUETAPE_ROTATE_EVERY", value_name = "DURATION")]
    pub rotate_every: Option<String>,

    /// How often records are forced to disk: what a power cut may cost [default: 1s].
    #[arg(long, env = "TRUETAPE_FSYNC_EVERY", value_name = "DURATION")]
    pub fsync_every: Option<String>,

    /// Encrypt captures with the first key of this file: 32 or 64 hexadecimal digits a line.
    #[arg(long, env = "TRUETAPE_ENCRYPT_KEY_FILE", value_name = "FILE")]
    pub encrypt_key_file: Option<String>,

    /// Most that the directory of captures may hold; capture pauses there [default: no limit].
    #[arg(long, env = "TRUETAPE_DISK_QUOTA", value_name = "SIZE")]
    pub disk_quota: Option<String>,

    /// At the quota: `pause` capture, or `drop-oldest` segments [default: pause].
    #[arg(long, env = "TRUETAPE_ON_QUOTA", value_name = "WHAT")]
    pub on_quota: Option<String>,

    /// Free space of the file system below which capture pauses, as in 2GiB or 15%
    /// [default: 1GiB, at most a tenth of it].
    #[arg(long, env = "TRUETAPE_DISK_FREE_MIN", value_name = "SIZE")]
    pub disk_free_min: Option<String>,

    /// Keep the rows of the last minutes in memory, and write them when asked (SIGUSR1).
    #[arg(long, env = "TRUETAPE_FLIGHT_RECORDER", value_name = "DURATION")]
    pub flight_recorder: Option<String>,

    /// How long open streams may take to end after SIGTERM [default: 10m].
    #[arg(long, env = "TRUETAPE_DRAIN_TIMEOUT", value_name = "DURATION")]
    pub drain_timeout: Option<String>,

    /// Threads that serve [default: the processors it may use, at most 4].
    #[arg(long, env = "TRUETAPE_WORKERS", value_name = "THREADS")]
    pub workers: Option<String>,

    /// A request header that names the session; may be given more than once.
    #[arg(
        long,
        env = "TRUETAPE_SESSION_HEADER",
        value_name = "NAME",
        value_delimiter = ','
    )]
    pub session_header: Vec<String>,

    /// Name of this recorder in its rows and file names [default: the host's name].
    #[arg(long, env = "TRUETAPE_PROXY_ID", value_name = "NAME")]
    pub proxy_id: Option<String>,

    /// A TOML file with the same settings, as in `rotate_every = "5m"`.
    #[arg(long, env = "TRUETAPE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Check the settings and end.
    #[arg(long)]
    pub check_config: bool,

    /// Print the settings in force, with where each comes from, and end.
    #[arg(long)]
    pub print_config: bool,
}

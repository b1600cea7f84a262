//! The sidecar: forward, tap, record.
//!
//! ```text
//! client ──▶ accept ──▶ forward ──▶ upstream
//!                         │ ▲
//!               frames    ▼ │ (unchanged)
//!                        tap ──▶ track ──▶ tape ──▶ recorder ══ queue ══▶ observe ══▶ write ──▶ spool
//!                     never waits                      │ full? counted         seal ──▶ segment
//! ```
//!
//! Read in this order:
//!
//! 1. [`cli`] and [`config`]: what is set and what it means; [`limits`]: every bound;
//! 2. the serving path: from a listener to an upstream ([`route`], [`tls`], [`transparent`],
//!    [`upward`]), a connection ([`accept`], [`sniff`], [`protocol`], [`connection`]), HTTP/1 to
//!    HTTP/1 ([`mod@relay`]), and whatever has HTTP/2 on a side ([`http1`], [`http2`]): an exchange ([`forward`], [`reach`], [`answer`], [`body`], [`interim`], [`expect`], [`headers`],
//!    [`translate`]), the way to the upstream ([`pair`], [`dial`], [`link`], [`nudge`], [`trunk`],
//!    [`pump`]), and what is not looked at ([`tunnel`]);
//! 3. [`io`], [`fields`], [`tap`], [`track`], [`pack`], [`budget`]: what is remembered of it, in bounded memory;
//! 4. [`tape`], [`recorder`], [`account`]: one exchange, offered once, accounted for once;
//! 5. [`observe`], [`redact`], [`digest`], [`sample`]: records to rows, off the serving path;
//! 6. [`spool`], [`cipher`], [`books`], [`writer`], [`flight`], [`disk`], [`room`], [`seal`], [`sealer`],
//!    [`capture`]: rows to segments that survive `kill -9`;
//! 7. [`server`], [`workers`], [`admin`], [`metrics`], [`mod@run`], [`log`], [`clock`], [`error`]: the process.
//!
//! What the traffic sees is what it would see without us (P1); recording never waits (P2); what was
//! not recorded is counted (P3); prompt text leaves in a capture only (P4); memory is bounded (P5).

pub mod accept;
pub mod account;
pub mod admin;
pub mod answer;
pub mod body;
pub mod books;
pub mod budget;
pub mod capture;
pub mod cipher;
pub mod cli;
pub mod clock;
pub mod config;
pub mod connection;
pub mod dial;
pub mod digest;
pub mod disk;
pub mod error;
pub mod expect;
pub mod fields;
pub mod flight;
pub mod forward;
pub mod headers;
pub mod http1;
pub mod http2;
pub mod interim;
pub mod io;
pub mod limits;
pub mod link;
pub mod log;
pub mod metrics;
pub mod nudge;
pub mod observe;
pub mod pack;
pub mod pair;
pub mod protocol;
pub mod pump;
pub mod reach;
pub mod recorder;
pub mod redact;
pub mod relay;
pub mod room;
pub mod route;
pub mod run;
pub mod sample;
pub mod seal;
pub mod sealer;
pub mod server;
pub mod sniff;
pub mod spool;
pub mod swap;
pub mod tap;
pub mod tape;
pub mod tls;
pub mod track;
pub mod translate;
pub mod transparent;
pub mod trunk;
pub mod tunnel;
pub mod upward;
pub mod workers;
pub mod writer;

pub use error::Error;
pub use run::run;
pub use server::start;

//! What the end-to-end tests and the case driver stand on.
//!
//! Read in this order:
//!
//! 1. [`http1`]: heads and bodies of HTTP/1.1 as bytes, with nothing normalised away;
//! 2. [`upstream`]: a model server that is a script;
//! 3. [`client`]: a client that notes when every byte came and how the answer ended;
//! 4. [`authority`], [`tls`]: certificates made for the test, and both ends of TLS;
//! 5. [`process`]: one of our binaries, awaited by its log and killed on drop;
//! 6. [`capture`]: the rows a directory holds; [`s3`]: an object store that fails when told to;
//! 7. [`trace`]: seeded traffic whose sessions, lengths and sharing are known;
//! 8. [`tokenizer`]: a made-up tokenizer, and what a server with it would count;
//! 9. [`shared`]: public traces and cases beside the repository;
//! 10. [`tempdir`]: scratch folders that stay when asked;
//! 11. [`eval`]: tables and figures of what was measured, with the machine;
//! 12. [`talk`]: exchanges as scripts, played by raw clients and servers of HTTP/1.1 and HTTP/2;
//! 13. [`timed2`]: one exchange over HTTP/2, with the time of every frame.
//!
//! Everything binds port 0, awaits events with a deadline, and knows no network beyond loopback.
#![expect(
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a fixture that cannot go on fails the test that holds it"
)]

pub mod authority;
pub mod capture;
pub mod client;
pub mod eval;
pub mod http1;
pub mod process;
pub mod s3;
pub mod shared;
pub mod talk;
pub mod tempdir;
pub mod timed2;
pub mod tls;
pub mod tokenizer;
pub mod trace;
pub mod upstream;

//! Every bound of the proxy, and what it costs.
//!
//! Memory, with the defaults: 64 MiB for what is being captured ([`crate::budget`]), one record
//! being read off its bytes (at most two bodies of 16 MiB), one row group in progress (16 MiB of
//! encoded pages), and read buffers (4 KiB on each side of a connection that carries small frames).

use std::time::Duration;

/// Default admin address. No peer uses the port: 4140-4191 are linkerd's and proxymock's, 15000-15090
/// Istio's, 8000, 30000, 3000 and 11434 engines'.
pub const ADMIN: &str = "127.0.0.1:4780";

/// Port of a URL that names none.
pub const HTTP_PORT: u16 = 80;

/// Port of an https URL that names none.
pub const HTTPS_PORT: u16 = 443;

/// Routes of one process: each has a listener and a task, and is named in a log line.
pub const ROUTES_MAX: usize = 256;

/// Longest name of a recorder: what a host name may have.
pub const PROXY_ID_CHARS_MAX: usize = 64;

/// Least memory for capture: below it, nearly every exchange would degrade.
pub const MEMORY_BUDGET_MIN: usize = 1 << 20;

/// One part in so many of the memory is kept for facts of arrival and end, which are given up last.
pub const TERMINAL_SHARE: usize = 8;

/// Most that a recorded body may have: rows are read whole.
pub const BODY_BYTES_LIMIT: usize = 1 << 30;

/// Least size of a segment.
pub const ROTATE_BYTES_MIN: usize = 4096;

/// Least age of a segment: sealing writes and syncs a file.
pub const ROTATE_EVERY_MIN: Duration = Duration::from_millis(100);

/// Longest time that can be set. Added to an instant, it must not leave what the clock can say.
pub const DURATION_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Least time between syncs.
pub const FSYNC_EVERY_MIN: Duration = Duration::from_millis(1);

/// What a record without bodies costs: its structs, allow-listed headers and path, rounded up.
pub const RECORD_BASE_BYTES: usize = 1024;

/// Longest allow-listed header text kept of one message.
pub const HEADER_TEXT_BYTES_MAX: usize = 16 * 1024;

/// Once one part in so many of the memory is taken, long bodies are packed while they wait.
pub const TIGHT_SHARE: usize = 4;

/// A body that is being remembered is handed over for packing in pieces of this size: 1,000 streams
/// hold 16 MiB of unpacked tails.
pub const PIECE_BYTES: usize = 16 * 1024;

/// A request's body from this size on is handed over once it is whole: it waits for as long as the
/// answer takes.
pub const WHOLE_REQUEST_BYTES: usize = 2 * 1024;

/// Frames from this size on are handed over by reference. Buffers have up to 128 KiB (hyper's 408)
/// and frames are slices of them, so such a frame can pin at most 408/64, about six times, its size
/// until it is packed or written; smaller frames are copied.
pub const SHARED_FRAME_BYTES: usize = 64 * 1024;

/// Smallest and largest step by which a copied body grows. Small bodies do not waste, large ones
/// do not copy themselves again and again.
pub const BODY_GROWTH_BYTES: (usize, usize) = (2 * 1024, 256 * 1024);

/// Records waiting to be read off: 16,384 of at least 1 KiB are covered by a budget of 16 MiB.
pub const QUEUE_RECORDS_MAX: usize = 16 * 1024;

/// The wall clock is followed once it has moved by more than this against the monotonic one; reading
/// both takes less, and NTP slews by less within a tick.
pub const CLOCK_MOVED_US: i64 = 10_000;

/// How often both clocks are compared, at least.
pub const CLOCK_TICK: Duration = Duration::from_secs(1);

/// Rows waiting to be written. Their bytes are still held against the budget.
pub const WRITE_QUEUE_ROWS_MAX: usize = 1024;

/// How often the queue is looked at when it was empty: nobody is woken on the serving path. With
/// [`GATHER_FOR`] and the time to read one record it is what `kill -9` can cost, beside what was in
/// flight.
pub const OBSERVE_TICK: Duration = Duration::from_millis(5);

/// How long the writer waits for more rows before it writes few.
pub const GATHER_FOR: Duration = OBSERVE_TICK;

/// Bytes of a spool that are read at once when it is sealed.
pub const SPOOL_READ_BYTES: usize = 256 << 10;

/// Rows and bytes written to the spool by one call.
pub const BATCH_ROWS_MAX: usize = 256;
/// See [`BATCH_ROWS_MAX`].
pub const BATCH_BYTES_MAX: usize = 4 << 20;

/// Longest frame a spool may hold: two bodies of [`BODY_BYTES_LIMIT`] and a head. A longer length
/// is a torn tail.
pub const SPOOL_FRAME_BYTES_MAX: usize = 2 * BODY_BYTES_LIMIT + (64 << 20);

/// Rows converted at once when a spool is sealed, and their bytes.
pub const SEAL_BATCH_ROWS_MAX: usize = 512;
/// See [`SEAL_BATCH_ROWS_MAX`].
pub const SEAL_BATCH_BYTES_MAX: usize = 8 << 20;

/// Pieces of frames are written together up to this size, longer ones as they are.
pub const GATHER_BYTES: usize = 128 * 1024;

/// How often the room on the disk is looked at: a capture of 100 MB/s overshoots by as much.
pub const ROOM_CHECK_EVERY: Duration = Duration::from_secs(1);

/// Default of the space that stays free on a disk.
pub const DISK_FREE_MIN: &str = "1GiB";

/// Least quota: an open segment of the least size, and as much to seal it.
pub const DISK_QUOTA_MIN: usize = 1 << 20;

/// Longest wait of a flush for the writer to see it.
pub const FLUSH_TICK: Duration = Duration::from_millis(100);

/// Least time between two notes while no rows are written: 6 MB a day.
pub const IDLE_NOTE_EVERY: Duration = Duration::from_secs(10);

/// A flight recorder keeps at most one part in so many of the memory for capture.
pub const FLIGHT_SHARE: usize = 2;

/// Least time that a flight recorder keeps.
pub const FLIGHT_MIN: Duration = Duration::from_secs(1);

/// Pause after the disk refused a write. Records that come meanwhile are dropped and counted.
pub const DISK_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Pause between attempts to seal a spool that could not be sealed.
pub const SEAL_RETRY_AFTER: Duration = Duration::from_secs(10);

/// Longest wait for the last segment after traffic has ended; a spool that is not sealed by then is
/// sealed at the next start.
pub const SEAL_WITHIN: Duration = Duration::from_secs(20);

/// Least time between two log lines about lost records.
pub const LOSS_LOG_EVERY: Duration = Duration::from_secs(10);

/// Priority of the threads that record. Each has a third of a serving thread's share when all want
/// the same processor (weights 335 and 1024): half of it for the three together, which keeps up, and
/// a frame to be passed on never waits for them.
pub const RECORDING_NICE: i32 = 5;

/// Most workers that are started unasked: four serve more than 100,000 requests in a second, and the
/// machine belongs to the engine.
pub const WORKERS_DEFAULT_MAX: usize = 4;

/// Most workers that can be asked for.
pub const WORKERS_MAX: usize = 256;

/// Time for a runtime's own threads to end after everything else has. A look-up of a name, or a disk
/// that does not answer, holds one of them.
pub const RUNTIME_WITHIN: Duration = Duration::from_millis(100);

/// Longest wait for a connection to the upstream: longer than Linux tries by itself (127 s), which
/// is what a client would wait for. One that goes away ends it earlier.
pub const CONNECT_WITHIN: Duration = Duration::from_secs(130);

/// Longest wait for such a connection once the client has ended its side: a few round trips and a
/// handshake. A client that has gone looks the same, and must not be dialled for.
pub const CONNECT_AFTER_END_WITHIN: Duration = Duration::from_secs(1);

/// Longest time that a request's body is read although the upstream cannot be reached.
pub const READ_OFF_WITHIN: Duration = Duration::from_secs(1);

/// A client connection is closed when it has been idle, or reading a head, for so long. Engines are
/// stricter; being laxer than they are is never visible.
pub const CLIENT_IDLE_MAX: Duration = Duration::from_secs(600);

/// Header fields of one message that are read. hyper's own limit is 100.
pub const HEADERS_MAX: usize = 256;

/// Longest head of a message that is read: what hyper takes (408 KiB), rounded up. A longer one, and
/// one with more fields, passes unread.
pub const HEAD_BYTES_MAX: usize = 512 * 1024;

/// Most that is taken of a client which still sends to an upstream that is gone.
pub const LINGER_BYTES_MAX: usize = 64 << 20;

/// How long that is waited for: nginx's `lingering_timeout` is 5 s, and a client that reads learns
/// within a round trip.
pub const LINGER_WITHIN: Duration = Duration::from_secs(5);

/// Bytes that a client may have sent ahead of a response and that are taken although it has ended its
/// side: the next request, as a rule.
pub const AHEAD_BYTES_MAX: usize = 64 * 1024;

/// Probes of a silent peer: a vanished client must not hold a slot of the engine for ever.
pub const TCP_KEEPALIVE: Duration = Duration::from_secs(60);

/// Time between probes that are not answered; the system gives up after nine.
pub const TCP_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Pause after the system refused to accept (out of file descriptors).
pub const ACCEPT_RETRY_AFTER: Duration = Duration::from_millis(50);

/// Longest handshake with a client: what asyncio, under the engines, allows (60 s). Being laxer than
/// they are is never visible.
pub const TLS_HANDSHAKE_WITHIN: Duration = Duration::from_secs(60);

/// Most that is read of a PEM file: the bundles of machines have 0.3 MiB.
pub const TLS_FILE_BYTES_MAX: u64 = 4 << 20;

/// How often certificates, keys and authorities are looked at: Kubernetes takes a minute to bring a
/// new one, and a certificate is renewed days before its end.
pub const TLS_LOOK_EVERY: Duration = Duration::from_secs(30);

/// How long a client may be silent before its upstream is asked whether it speaks first.
pub const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Streams of one connection at a time; a client keeps more back. Engines' servers allow 100 to 250.
pub const STREAMS_MAX: u32 = 1024;

/// What one stream may send before it is read: 64 KiB, the protocol's own default. A slow client
/// pins this much of its answer, and one frame.
pub const STREAM_WINDOW_BYTES: u32 = 64 * 1024;

/// What all streams of a connection may send before it is read. A slow stream must not use up the
/// room of the others: 1,024 streams of 64 KiB.
pub const CONNECTION_WINDOW_BYTES: u32 = STREAMS_MAX * STREAM_WINDOW_BYTES;

/// What one stream may have waiting to be written, on each side.
pub const STREAM_SEND_BYTES_MAX: usize = 64 * 1024;

/// Longest list of header fields in HTTP/2, as the protocol counts: what hyper takes in HTTP/1
/// (408 KiB), rounded up.
pub const HEADER_LIST_BYTES_MAX: u32 = 512 * 1024;

/// Interim responses of one exchange that may wait to be passed on.
pub const INTERIM_MAX: usize = 16;

/// Idle links to an upstream of HTTP/1 that a client of HTTP/2 keeps. Its streams open as many as
/// they are.
pub const LINKS_IDLE_MAX: usize = 8;

/// Such a link is not used again after this: engines close idle connections after 5 s.
pub const LINK_IDLE_MAX: Duration = Duration::from_secs(4);

/// How long a client that expects to be told to continue is kept waiting for an upstream that says
/// nothing: as long as curl waits before it sends unasked.
pub const EXPECT_WITHIN: Duration = Duration::from_secs(1);

/// What is remembered of the end of a body that was given up: the usage of an answer stands there,
/// in the last event or the last kilobyte of a document.
pub const TAIL_BYTES: usize = 16 * 1024;

/// Bytes of a digest key file that are read: 64 digits, and white space around them.
pub const DIGEST_KEY_FILE_BYTES_MAX: u64 = 1024;

/// Bytes in a block of `text_block_hashes`: about 64 tokens, four blocks of an engine. A prompt of
/// 100 KB has 400 of them.
pub const TEXT_BLOCK_BYTES: usize = 256;

/// Bytes of a completion's prompt that sampling tells sessions apart by: shorter ones that grow
/// past it may be split.
pub const SAMPLE_PROMPT_BYTES: usize = 256;

/// Answers whose session sampling remembers: 65,536 of about 150 bytes are 10 MiB.
pub const SAMPLE_ANSWERS_MAX: usize = 64 * 1024;

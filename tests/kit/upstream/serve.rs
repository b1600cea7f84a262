//! The threads of a scripted server: one reads, one writes.

use super::{Action, Framing, Record, Respond, Script, Shared};
use crate::http1::{BodyReader, Head, LAST_CHUNK, chunk};
use crate::process::this_thread_waited_for_cpu;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(super) fn accept(listener: &TcpListener, shared: &Arc<Shared>, respond: &Arc<Respond>) {
    for (connection, stream) in listener.incoming().enumerate() {
        if shared.stopping.load(Ordering::Relaxed) {
            return;
        }
        let Ok(stream) = stream else { return };
        let waited = this_thread_waited_for_cpu();
        stream.set_nodelay(true).expect("a socket option");
        let clone = stream.try_clone().expect("a descriptor");
        shared.streams.lock().expect("no panics").push(clone);
        let (held, respond) = (Arc::clone(shared), Arc::clone(respond));
        let handle =
            std::thread::spawn(move || serve(stream, connection, waited, &held, &*respond));
        shared.connections.lock().expect("no panics").push(handle);
    }
}

/// Reads requests until the peer closes. The answer is written by a thread of its own, so that
/// this one goes on reading and notices a peer that goes away in the middle.
fn serve(
    mut stream: TcpStream,
    connection: usize,
    waited: Duration,
    shared: &Arc<Shared>,
    respond: &Respond,
) {
    let mut unread = Vec::new();
    let mut answering: Option<JoinHandle<()>> = None;
    let mut current = None;
    let mut first_byte_at = None;
    let mut pending: Option<(Record, BodyReader, Option<Script>)> = None;
    let mut tunnel = false;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = stream.read(&mut buffer).unwrap_or(0);
        let now = Instant::now();
        if read == 0 {
            break;
        }
        let bytes = buffer.get(..read).unwrap_or_default();
        if let (true, Some(index)) = (tunnel, current) {
            shared.change(index, |record| record.tunnelled.extend_from_slice(bytes));
            continue;
        }
        first_byte_at.get_or_insert(now);
        unread.extend_from_slice(bytes);
        if pending.is_none() {
            let Some((head, used)) = Head::split(&unread) else {
                continue;
            };
            unread.drain(..used);
            let body = BodyReader::new(head.request_framing());
            let record = new_record(connection, head, first_byte_at.take().unwrap_or(now));
            let script = record
                .head
                .value("expect")
                .is_some()
                .then(|| respond(&record));
            if let Some(interim) = script.as_ref().and_then(|s| s.interim.as_ref()) {
                drop(stream.write_all(interim));
            }
            pending = Some((record, body, script));
        }
        let Some((_, body, _)) = &mut pending else {
            continue;
        };
        let used = body.push(&unread);
        unread.drain(..used);
        if !body.is_done() {
            continue;
        }
        let Some((mut record, body, script)) = pending.take() else {
            continue;
        };
        if let Some(previous) = answering.take() {
            drop(previous.join());
        }
        record.body = body.body;
        record.read_at = now;
        record.waited = waited + this_thread_waited_for_cpu();
        let script = script.unwrap_or_else(|| respond(&record));
        tunnel = script.tunnel;
        let last = record.head.is_last() && !tunnel;
        let index = {
            let mut records = shared.records();
            record.index = records.len();
            records.push(record);
            records.len() - 1
        };
        shared.changed.notify_all();
        current = Some(index);
        let (out, held) = (
            stream.try_clone().expect("a descriptor"),
            Arc::clone(shared),
        );
        answering = Some(std::thread::spawn(move || {
            let closing = last.then(|| out.try_clone());
            answer(out, &script, index, now, &held);
            if let Some(Ok(out)) = closing {
                // Asked to, as by a client of HTTP/1.0. It may be gone.
                drop(out.shutdown(Shutdown::Write));
            }
        }));
    }
    if let Some(index) = current {
        shared.change(index, |record| {
            if !record.finished || record.peer_closed_at.is_none() {
                record.peer_closed_at.get_or_insert(Instant::now());
            }
        });
    }
    if let Some(answering) = answering {
        drop(answering.join());
    }
    // The clone that `Upstream` keeps would hold the connection open.
    drop(stream.shutdown(Shutdown::Both));
}

fn new_record(connection: usize, head: Head, first_byte_at: Instant) -> Record {
    Record {
        index: 0,
        connection,
        head,
        body: Vec::new(),
        first_byte_at,
        read_at: first_byte_at,
        waited: Duration::ZERO,
        head_at: None,
        done_at: Vec::new(),
        peer_closed_at: None,
        tunnelled: Vec::new(),
        finished: false,
    }
}

fn answer(mut out: TcpStream, script: &Script, index: usize, zero: Instant, shared: &Shared) {
    let mut unsent = script.head.clone();
    let ended = run_steps(&mut out, script, &mut unsent, index, zero, shared);
    if ended.is_none() {
        // The peer is gone: nothing is left to say to it.
        drop(out.shutdown(Shutdown::Both));
    }
    shared.change(index, |record| record.finished = ended.is_some());
}

fn run_steps(
    out: &mut TcpStream,
    script: &Script,
    unsent: &mut Vec<u8>,
    index: usize,
    zero: Instant,
    shared: &Shared,
) -> Option<()> {
    for step in &script.steps {
        if shared.gone_before(index, zero + step.at) {
            return None;
        }
        let head_at = (!unsent.is_empty()).then(Instant::now);
        let mut bytes = std::mem::take(unsent);
        match &step.action {
            Action::Write(body) if script.framing == Framing::Chunked => bytes.extend(chunk(body)),
            Action::Write(body) => bytes.extend_from_slice(body),
            Action::End if script.framing == Framing::Chunked => bytes.extend(LAST_CHUNK),
            Action::End | Action::Close | Action::Reset | Action::Hold(_) => {}
        }
        // Read before the write: what the peer does with the bytes comes after.
        let now = Instant::now();
        out.write_all(&bytes).ok()?;
        shared.change(index, |record| {
            record.done_at.push(now);
            record.head_at = record.head_at.or(head_at);
        });
        match &step.action {
            Action::Hold(time) if shared.gone_before(index, now + *time) => return None,
            Action::End if script.framing == Framing::Close => {
                drop(out.shutdown(Shutdown::Write));
            }
            Action::Close => drop(out.shutdown(Shutdown::Both)),
            Action::Reset => reset(out),
            Action::Write(_) | Action::End | Action::Hold(_) => {}
        }
    }
    Some(())
}

/// A close with a linger of zero is a reset; the other descriptors of the socket must go too.
fn reset(out: &TcpStream) {
    let socket = socket2::SockRef::from(out);
    socket
        .set_linger(Some(Duration::ZERO))
        .expect("a socket option");
    drop(out.shutdown(Shutdown::Both));
}

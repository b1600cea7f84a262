//! A server of HTTP/1.1 that does what its script says.

use super::reader::Reader;
use super::server::{Part, Scene};
use super::socket::Socket;
use super::wire::{Sending, Wire, head};
use super::{Act, Awaited, PROBE, Protocol, WITHIN};
use std::time::{Duration, Instant};

/// Serves one connection to its end.
pub async fn serve(socket: Socket, scene: &Scene) {
    let mut wire = Wire::new(socket, Reader::of_requests());
    let mut numbers: Vec<usize> = Vec::new();
    let mut at = 0;
    let mut stays = true;
    while stays && wire.until(FOREVER, |reader| reader.heads() > at).await {
        let probe = wire
            .reader
            .head(at)
            .is_some_and(|message| message.start.split(' ').nth(1) == Some(PROBE));
        if probe {
            wire.write(&head("HTTP/1.1 204 Kept", &Vec::new()), |_| false)
                .await;
            wire.reader.over.remove(at);
            continue;
        }
        if numbers.is_empty() {
            scene.connection(Protocol::Http1);
        }
        numbers.push(scene.begin());
        let part = scene.next();
        stays = answer(&mut wire, at, &part, scene).await;
        at += 1;
    }
    let (how, reader) = match (stays, wire.over) {
        (true, Some((_, how))) => (how, wire.close()),
        _ => ("ended by the script", std::mem::take(&mut wire.reader)),
    };
    finish(reader, how, &numbers, scene);
}

/// A connection may be idle for as long as its peer keeps it.
const FOREVER: Duration = Duration::from_secs(3600);

fn finish(mut reader: Reader, how: &str, numbers: &[usize], scene: &Scene) {
    reader.end(how);
    for (number, message) in numbers.iter().zip(reader.over) {
        scene.note(*number, message);
    }
    scene.seen().tunnelled.extend(reader.tunnelled);
}

/// Answers request number `at`; false when the connection is over after that.
async fn answer(wire: &mut Wire, at: usize, part: &Part, scene: &Scene) -> bool {
    if !part.at_head && !wire.until(FOREVER, |reader| reader.over.len() > at).await {
        return true;
    }
    let method = wire.reader.head(at).map(|message| {
        let method = message.start.split(' ').next();
        method.unwrap_or_default().to_owned()
    });
    let mut held: Vec<u8> = Vec::new();
    let mut sending = Sending::Plain;
    for act in &part.acts {
        let bytes = match act {
            Act::Response {
                status,
                reason,
                fields,
            } => {
                write(wire, &mut held).await;
                sending = Sending::of(fields, method.as_deref(), *status);
                held = head(&format!("HTTP/1.1 {status} {reason}"), fields);
                if *status == 101 || *status < 300 && method.as_deref() == Some("CONNECT") {
                    wire.reader.tunnel();
                }
                continue;
            }
            Act::Data(bytes) => sending.piece(bytes),
            Act::Trailers(fields) => sending.end(fields),
            Act::End => sending.end(&Vec::new()),
            Act::Raw(bytes) => bytes.to_vec(),
            _ => Vec::new(),
        };
        held.extend_from_slice(&bytes);
        write(wire, &mut held).await;
        if *act == Act::End {
            scene.seen().sent_at = Some(Instant::now());
        }
        match act {
            Act::HangUp => {
                wire.half_close().await;
                drain(wire).await;
                return false;
            }
            Act::End | Act::Trailers(_) if sending == Sending::UpToClose => {
                wire.half_close().await;
                drain(wire).await;
                return false;
            }
            Act::Leave => {
                wire.tear();
                drain(wire).await;
                return false;
            }
            Act::Reset(_) => {
                wire.reset_on_close();
                return false;
            }
            Act::HalfClose => wire.half_close().await,
            Act::Pause(time) => {
                wire.until(*time, |_| false).await;
            }
            Act::Stall(time) => tokio::time::sleep(*time).await,
            Act::Await(what) => await_what(wire, at, *what, scene).await,
            _ => {}
        }
    }
    write(wire, &mut held).await;
    true
}

async fn write(wire: &mut Wire, held: &mut Vec<u8>) {
    let bytes = std::mem::take(held);
    wire.write(&bytes, |_| false).await;
}

/// A server that closes reads what still comes for a moment: bytes that nobody has read would turn
/// its close into a reset.
async fn drain(wire: &mut Wire) {
    wire.until(WITHIN, |_| false).await;
}

async fn await_what(wire: &mut Wire, at: usize, what: Awaited, scene: &Scene) {
    let wanted = |reader: &Reader| match what {
        Awaited::Head => reader.heads() > at,
        Awaited::Bytes(count) => reader.body_bytes(at) >= count,
        Awaited::Message => reader.over.len() > at,
        Awaited::Tunnelled(count) => reader.tunnelled.len() >= count,
        Awaited::Interim | Awaited::Gone => false,
    };
    wire.until(WITHIN, wanted).await;
    if let (Awaited::Gone, Some((when, _))) = (what, wire.over) {
        scene.gone(when);
    }
}

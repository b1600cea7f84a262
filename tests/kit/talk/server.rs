//! A server whose script can be changed: one address for many exchanges, one at a time.

use super::dial::Accept;
use super::{Act, Message, Protocol, ServerSeen, WITHIN, server1, server2};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What a server does for one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Begins when the head has come, not when the whole request has.
    pub at_head: bool,
    /// In order.
    pub acts: Vec<Act>,
}

/// One play: what is left of the script, and what was seen.
#[derive(Debug, Default)]
pub struct Scene {
    parts: Mutex<VecDeque<Part>>,
    seen: Mutex<ServerSeen>,
    connections: watch::Sender<usize>,
}

impl Scene {
    fn new(parts: &[Part]) -> Arc<Self> {
        Arc::new(Self {
            parts: Mutex::new(parts.iter().cloned().collect()),
            ..Self::default()
        })
    }

    /// The part of the next request; an error that no script has, when there is none left.
    pub fn next(&self) -> Part {
        let next = self
            .parts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        next.unwrap_or_else(|| Part {
            at_head: false,
            acts: vec![
                Act::Response {
                    status: 500,
                    reason: "Not In The Script".to_owned(),
                    fields: vec![("content-length".to_owned(), "0".to_owned())],
                },
                Act::End,
            ],
        })
    }

    /// What was seen so far.
    pub fn seen(&self) -> MutexGuard<'_, ServerSeen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a request has begun; gives its number.
    pub fn begin(&self) -> usize {
        let mut seen = self.seen();
        seen.requests.push(Message::default());
        seen.requests.len() - 1
    }

    /// Notes what is known of a request.
    pub fn note(&self, index: usize, message: Message) {
        if let Some(slot) = self.seen().requests.get_mut(index) {
            *slot = message;
        }
    }

    /// Notes that the peer has gone.
    pub fn gone(&self, at: Instant) {
        self.seen().gone_at.get_or_insert(at);
    }

    /// Notes a connection that carries requests.
    pub fn connection(&self, protocol: Protocol) {
        let mut seen = self.seen();
        seen.connections += 1;
        seen.protocols.push(protocol);
    }
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    /// Where it listens.
    pub addr: SocketAddr,
    scene: Arc<Mutex<Arc<Scene>>>,
    /// Ends it when dropped.
    _tasks: JoinSet<()>,
}

impl Server {
    /// Starts a server without a script.
    pub async fn start(accept: Accept) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let addr = listener
            .local_addr()
            .expect("a bound socket has an address");
        let scene = Arc::new(Mutex::new(Scene::new(&[])));
        let mut tasks = JoinSet::new();
        tasks.spawn(run(listener, accept, Arc::clone(&scene)));
        Self {
            addr,
            scene,
            _tasks: tasks,
        }
    }

    /// Starts a play.
    pub fn begin(&self, parts: &[Part]) -> Arc<Scene> {
        let scene = Scene::new(parts);
        *self.scene.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&scene);
        scene
    }

    /// Waits until the connections of a play are over; gives what was seen. An open one at the
    /// deadline is told.
    pub async fn end(&self, scene: &Scene) -> Result<ServerSeen, String> {
        let mut open = scene.connections.subscribe();
        let ended = tokio::time::timeout(WITHIN, open.wait_for(|open| *open == 0)).await;
        let seen = scene.seen().clone();
        match ended {
            Ok(_) => Ok(seen),
            Err(_) => Err(format!(
                "{} connections of the upstream are still open",
                *scene.connections.borrow()
            )),
        }
    }
}

async fn run(listener: TcpListener, accept: Accept, scene: Arc<Mutex<Arc<Scene>>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let scene = Arc::clone(&scene.lock().unwrap_or_else(PoisonError::into_inner));
        // Counted before it is served: who waits for the end must not miss it.
        scene.connections.send_modify(|open| *open += 1);
        let accept = accept.clone();
        connections.spawn(async move {
            serve(stream, &accept, &scene).await;
            scene.connections.send_modify(|open| *open -= 1);
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, accept: &Accept, scene: &Arc<Scene>) {
    let Ok((socket, agreed)) = accept.accept(stream).await else {
        return;
    };
    match agreed {
        Protocol::Http1 => server1::serve(socket, scene).await,
        Protocol::Http2 => server2::serve(socket, scene).await,
    }
}

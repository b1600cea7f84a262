//! The event loop and the clock of the load: little enough not to be what is measured.

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Events taken by one wait.
const EVENTS_MAX: usize = 256;

const NS_PER_S: u64 = 1_000_000_000;

/// The monotonic clock of the machine; all threads and processes read the same.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * NS_PER_S + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// Wakes of this thread are not batched with others': the default slack is 50 us.
pub(crate) fn exact_wakes() {
    let least = std::num::NonZeroU64::new(1);
    rustix::thread::set_current_timer_slack(least).expect("a thread may ask for exact wakes");
}

/// Sockets that are waited for, by number.
pub(crate) struct Poll {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Poll {
    pub(crate) fn new() -> Self {
        Self {
            epoll: epoll::create(CreateFlags::CLOEXEC).expect("an event loop"),
            events: Vec::with_capacity(EVENTS_MAX),
        }
    }

    /// Waits for this one from now on.
    pub(crate) fn add(&self, socket: impl AsFd, number: usize) {
        let data = EventData::new_u64(number as u64);
        epoll::add(&self.epoll, socket, data, EventFlags::IN).expect("room for a socket");
    }

    /// Numbers of sockets with something to read; nothing once the instant has come.
    pub(crate) fn wait(&mut self, until_ns: u64, ready: &mut Vec<usize>) {
        let left_ns = until_ns.saturating_sub(now_ns());
        let timeout = Timespec {
            tv_sec: i64::try_from(left_ns / NS_PER_S).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(left_ns % NS_PER_S).unwrap_or(0),
        };
        self.events.clear();
        ready.clear();
        let buffer = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, buffer, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(cause) => panic!("event loop: {}", io::Error::from(cause)),
        }
        let number = |event: &epoll::Event| usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
        ready.extend(self.events.iter().map(number));
    }
}

//! The event loop and the clock of the load: little enough not to be what is measured.

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
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

/// Number of the timer among the sockets.
const TIMER: u64 = u64::MAX;

/// Sockets that are waited for, by number.
pub(crate) struct Poll {
    epoll: OwnedFd,
    /// A wait by itself ends at whole milliseconds only.
    timer: OwnedFd,
    set_ns: u64,
    events: Vec<epoll::Event>,
}

impl Poll {
    pub(crate) fn new() -> Self {
        let epoll = epoll::create(CreateFlags::CLOEXEC).expect("an event loop");
        let flags = TimerfdFlags::NONBLOCK.union(TimerfdFlags::CLOEXEC);
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).expect("a timer");
        // Told once for each time that it was set, so that it need not be read.
        let once = EventFlags::IN.union(EventFlags::ET);
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), once).expect("room for a timer");
        Self {
            epoll,
            timer,
            set_ns: 0,
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
        if self.set_ns != until_ns {
            self.set(until_ns);
        }
        self.events.clear();
        ready.clear();
        let buffer = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, buffer, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(cause) => panic!("event loop: {}", io::Error::from(cause)),
        }
        let number = |event: &epoll::Event| usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
        let sockets = self.events.iter().filter(|event| event.data.u64() != TIMER);
        ready.extend(sockets.map(number));
    }

    /// Sets the timer to an instant, which may be over.
    fn set(&mut self, until_ns: u64) {
        self.set_ns = until_ns;
        // Zero would switch it off.
        let until_ns = until_ns.max(1);
        let timespec = |ns: u64| Timespec {
            tv_sec: i64::try_from(ns / NS_PER_S).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(ns % NS_PER_S).unwrap_or(0),
        };
        let value = Itimerspec {
            it_interval: timespec(0),
            it_value: timespec(until_ns),
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &value).expect("a timer");
    }
}

//! One direction of an exchange: its bytes pass as they came, its content is remembered.

use crate::relay::framing::{Framing, Malformed};
use crate::tap::Recording;
use crate::track::TrackEnd;
use bytes::{Bytes, BytesMut};
use std::ops::Range;

/// The body of a message on its way.
#[derive(Debug)]
pub struct Flow {
    framing: Framing,
    recording: Option<Recording>,
    content: Vec<Range<usize>>,
    over: bool,
    lost: bool,
}

impl Flow {
    /// A body that has not begun.
    pub fn new(framing: Framing, recording: Option<Recording>) -> Self {
        let mut flow = Self {
            over: false,
            lost: false,
            framing,
            recording,
            content: Vec::new(),
        };
        if flow.framing == Framing::NONE {
            flow.end(TrackEnd::Clean);
        }
        flow
    }

    /// Whether all of it was taken.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Whether the end of the connection is its end.
    pub fn ends_with_connection(&self) -> bool {
        self.framing == Framing::UntilClose
    }

    /// Whether it is not known where it ends: what comes passes unread from then on.
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// Takes what belongs to it of what was read; `ahead` of it lies the head, which goes along.
    /// Once its end cannot be found, that is all that came.
    pub fn take(&mut self, read: &mut BytesMut, ahead: usize) -> Bytes {
        let body = read.get(ahead..).unwrap_or_default();
        let step = match self.framing.follow(body, &mut self.content) {
            Ok(step) if !self.over => step,
            Ok(_) => return read.split_to(ahead).freeze(),
            Err(Malformed) => {
                self.end(TrackEnd::Failed);
                self.lost = true;
                return read.split().freeze();
            }
        };
        let bytes = read.split_to(ahead + step.taken).freeze();
        if let Some(recording) = &mut self.recording {
            let pieces = self.content.iter();
            recording
                .content(pieces.map(|piece| bytes.slice(ahead + piece.start..ahead + piece.end)));
        }
        self.content.clear();
        if step.over {
            self.end(TrackEnd::Clean);
        }
        bytes
    }

    /// Takes note of the end.
    pub fn end(&mut self, end: TrackEnd) {
        self.over = true;
        if let Some(mut recording) = self.recording.take() {
            recording.end(end);
            recording.hand_over();
        }
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        // Nobody wanted the rest.
        self.end(TrackEnd::Dropped);
    }
}

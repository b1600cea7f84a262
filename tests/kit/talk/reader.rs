//! Messages of HTTP/1.1 out of the bytes that one side receives.

use super::{End, Fields, Message};
use crate::http1::{BodyReader, Framing, Head};
use std::collections::VecDeque;

/// Reads messages as their bytes come.
#[derive(Debug, Default)]
pub struct Reader {
    /// Requests are read, not answers.
    requests: bool,
    /// Methods of the requests that are to be answered.
    asked: VecDeque<String>,
    unread: Vec<u8>,
    interim: Vec<(String, Fields)>,
    open: Option<(Message, BodyReader)>,
    /// Messages that are over.
    pub over: Vec<Message>,
    /// Bytes that follow an upgrade.
    pub tunnelled: Vec<u8>,
    tunnel: bool,
}

impl Reader {
    /// Reads requests.
    pub fn of_requests() -> Self {
        Self {
            requests: true,
            ..Self::default()
        }
    }

    /// Reads answers.
    pub fn of_answers() -> Self {
        Self::default()
    }

    /// Tells that a request was sent, whose method says how its answer is framed.
    pub fn ask(&mut self, method: &str) {
        self.asked.push_back(method.to_owned());
    }

    /// From here on, bytes are no messages.
    pub fn tunnel(&mut self) {
        self.tunnel = true;
        self.tunnelled.append(&mut self.unread);
    }

    /// Messages whose head has come.
    pub fn heads(&self) -> usize {
        self.over.len() + usize::from(self.open.is_some())
    }

    /// Interim answers that wait for the one that follows them.
    pub fn interims(&self) -> usize {
        self.interim.len()
    }

    /// Body bytes of the message number `index`.
    pub fn body_bytes(&self, index: usize) -> usize {
        match (self.over.get(index), &self.open) {
            (Some(message), _) => message.body.len(),
            (None, Some((_, body))) if index == self.over.len() => body.body.len(),
            _ => 0,
        }
    }

    /// The head of the message number `index`.
    pub fn head(&self, index: usize) -> Option<&Message> {
        let open = self.open.as_ref().filter(|_| index == self.over.len());
        self.over.get(index).or(open.map(|(message, _)| message))
    }

    /// Takes bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
        while self.step() {}
    }

    /// One message, or part of one; false when more bytes are needed.
    fn step(&mut self) -> bool {
        if self.tunnel {
            self.tunnelled.append(&mut self.unread);
            return false;
        }
        if let Some((_, body)) = &mut self.open {
            let used = body.push(&self.unread);
            self.unread.drain(..used);
            let end = match (body.is_done(), body.is_broken()) {
                (true, _) => End::Whole,
                (_, true) => End::Cut("broken framing".to_owned()),
                _ => return false,
            };
            self.finish(end);
            return true;
        }
        // RFC 9112, 2.2: an empty line before a request is passed over.
        while self.requests && self.unread.starts_with(b"\r\n") {
            self.unread.drain(..2);
        }
        let Some((head, used)) = Head::split(&self.unread) else {
            return false;
        };
        self.unread.drain(..used);
        self.begin(head);
        true
    }

    fn begin(&mut self, head: Head) {
        let framing = if self.requests {
            head.request_framing()
        } else if head.status() < 200 && head.status() != 101 {
            self.interim.push((head.start, head.headers));
            return;
        } else {
            let method = self.asked.pop_front().unwrap_or_default();
            let connected = method == "CONNECT" && head.status() < 300;
            self.tunnel = head.status() == 101 || connected;
            if self.tunnel {
                Framing::Length(0)
            } else {
                head.response_framing(&method)
            }
        };
        let message = Message {
            start: head.start,
            fields: head.headers,
            interim: std::mem::take(&mut self.interim),
            ..Message::default()
        };
        self.open = Some((message, BodyReader::new(framing)));
        if self.tunnel {
            self.finish(End::Whole);
        }
    }

    fn finish(&mut self, end: End) {
        if let Some((mut message, body)) = self.open.take() {
            let pair = |line: &String| match line.split_once(':') {
                Some((name, value)) => (name.to_owned(), value.trim().to_owned()),
                None => (line.clone(), String::new()),
            };
            message.trailers = body.trailers.iter().map(pair).collect();
            message.body = body.body;
            message.end = end;
            self.over.push(message);
        }
    }

    /// Takes the end of the connection.
    pub fn end(&mut self, how: &str) {
        if let Some((_, body)) = &self.open {
            let end = if body.is_whole_at_close() && how == super::wire::CLOSED {
                End::Whole
            } else {
                End::Cut(how.to_owned())
            };
            self.finish(end);
        }
        if !self.interim.is_empty() || !self.unread.is_empty() && !self.tunnel {
            // What came of a message that did not get as far as its head.
            self.over.push(Message {
                start: String::from_utf8_lossy(&self.unread).into_owned(),
                interim: std::mem::take(&mut self.interim),
                end: End::Cut(how.to_owned()),
                ..Message::default()
            });
            self.asked.pop_front();
        }
        if !self.tunnel {
            for _ in std::mem::take(&mut self.asked) {
                self.over.push(Message {
                    end: End::Cut(how.to_owned()),
                    ..Message::default()
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_the_same_however_their_bytes_are_cut() {
        let wire = b"HTTP/1.1 103 Early\r\nlink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\
            \r\n{}HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nt: 1\r\n\r\n";
        let read = |pieces: &[&[u8]]| {
            let mut reader = Reader::of_answers();
            reader.ask("GET");
            reader.ask("GET");
            pieces.iter().for_each(|piece| reader.feed(piece));
            reader.end(super::super::wire::CLOSED);
            reader.over
        };
        let whole = read(&[wire]);
        assert_eq!(whole.len(), 2);
        assert_eq!(whole[0].interim.len(), 1);
        assert_eq!(whole[1].trailers, [("t".to_owned(), "1".to_owned())]);
        for cut in 0..wire.len() {
            let (first, second) = wire.split_at(cut);
            assert_eq!(read(&[first, second]), whole, "cut at {cut}");
        }
    }

    #[test]
    fn an_answer_that_never_came_is_cut() {
        let mut reader = Reader::of_answers();
        reader.ask("GET");
        reader.end("reset");
        assert_eq!(reader.over[0].end, End::Cut("reset".to_owned()));
    }
}

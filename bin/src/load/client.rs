//! One turn as its client sees it: asked, read to its end, and judged.

use std::time::Duration;

use understudy_messages::clock::{Clock, Instant};

use super::address::Address;
use super::agenda::Turn;
use super::answer::{End, Heard, Reader};
use super::connection::{Broken, Connection, Head};
use super::receipt::{Ending, Loss, Receipt};
use super::request::Requests;
use super::scenario::Format;
use super::tag::Tag;
use super::verdict::Expected;

/// What all clients of a round have in common.
pub(crate) struct Client<'a> {
    pub(crate) clock: &'a Clock,
    pub(crate) to: &'a Address,
    pub(crate) requests: Requests,
    pub(crate) expected: &'a Expected,
    pub(crate) format: Format,
    pub(crate) timeout: Duration,
    /// Whether latencies count from when a turn was due: not where its client would have waited anyway.
    pub(crate) open_loop: bool,
}

/// What is known of an answer while it is read.
#[derive(Default)]
struct Seen {
    first: Option<Instant>,
    attempts: u32,
}

impl Client<'_> {
    /// Plays a turn; the connection comes back if it can be used again.
    pub(crate) async fn turn(
        &self,
        turn: Turn,
        tag: Tag,
        start: Instant,
        connection: Option<Connection>,
    ) -> (Receipt, Option<Connection>) {
        let now = self.clock.now();
        let from = if self.open_loop { start + turn.due } else { now };
        let mut seen = Seen::default();
        let exchange = self.exchange(tag, connection, &mut seen);
        let exchanged = self.clock.timeout_at(now + self.timeout, exchange).await;
        let (ending, connection) = exchanged.unwrap_or((Ending::Lost(Loss::TimedOut), None));
        let receipt = Receipt {
            turn,
            first: seen.first.map(|first| first.saturating_duration_since(from)),
            took: self.clock.now().saturating_duration_since(from),
            attempts: seen.attempts,
            ending,
        };
        (receipt, connection)
    }

    async fn exchange(
        &self,
        tag: Tag,
        connection: Option<Connection>,
        seen: &mut Seen,
    ) -> (Ending, Option<Connection>) {
        let connection = match connection {
            Some(connection) => Ok(connection),
            None => Connection::open(self.to.socket).await,
        };
        let Ok(mut connection) = connection else {
            return (Ending::Lost(Loss::Unreachable), None);
        };
        match self.ask(tag, &mut connection, seen).await {
            Ok((ending, keep)) => (ending, keep.then_some(connection)),
            Err(Broken::Io(_) | Broken::Early) => (Ending::Lost(Loss::BrokenOff), None),
            Err(Broken::Garbled) => (Ending::Lost(Loss::Garbled), None),
        }
    }

    /// How it ended, and whether the connection can carry another request.
    async fn ask(&self, tag: Tag, connection: &mut Connection, seen: &mut Seen) -> Result<(Ending, bool), Broken> {
        connection.send(&self.requests.of(tag)).await?;
        let mut head = connection.head().await?;
        seen.attempts = head.attempts;
        let heard = self.read(connection, &mut head, seen).await?;
        let ending = match head.status {
            200 => self.judge(tag, &heard),
            status => Ending::Refused(status),
        };
        Ok((ending, head.keep))
    }

    async fn read(&self, connection: &mut Connection, head: &mut Head, seen: &mut Seen) -> Result<Heard, Broken> {
        let mut reader = Reader::new(self.format, head.events);
        while let Some(piece) = connection.piece(&mut head.body).await? {
            reader.take(piece);
            if seen.first.is_none() && reader.has_begun() {
                seen.first = Some(self.clock.now());
            }
        }
        Ok(reader.finish())
    }

    fn judge(&self, tag: Tag, heard: &Heard) -> Ending {
        if heard.garbled {
            return Ending::Lost(Loss::Garbled);
        }
        match heard.end {
            End::None => Ending::Lost(Loss::BrokenOff),
            End::Error => Ending::Error,
            End::Whole => match self.expected.flaw(tag, &heard.text, heard.calls) {
                None => Ending::Whole,
                Some(flaw) => Ending::Lost(Loss::Wrong(flaw)),
            },
        }
    }
}

//! One turn as its client sees it: asked, asked again where it was told to come back, read to its end, and judged.

use std::time::Duration;

use understudy_messages::clock::{Clock, Instant};

use super::address::Address;
use super::agenda::Turn;
use super::answer::{End, Heard, Reader};
use super::connection::{Broken, Connection, Head};
use super::receipt::{Ending, Loss, Receipt, Refusals};
use super::request::Requests;
use super::scenario::Scenario;
use super::tag::Tag;
use super::verdict::Expected;

/// How long somebody stays away who was not told when to come back.
const USUAL_PAUSE: Duration = Duration::from_secs(1);

/// What all clients of a round have in common.
pub(crate) struct Client<'a> {
    pub(crate) clock: &'a Clock,
    pub(crate) to: &'a Address,
    pub(crate) requests: Requests,
    pub(crate) expected: &'a Expected,
    pub(crate) scenario: &'a Scenario,
}

/// What is known of an answer while it is read.
#[derive(Default)]
struct Seen {
    first: Option<Instant>,
    attempts: u32,
    retry_after: Option<u64>,
    refusals: Refusals,
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
        // where turns are due, whoever waits to be asked waits as a client would
        let from = self.scenario.arrivals.as_ref().map_or(now, |_| start + turn.due);
        let mut seen = Seen::default();
        let (until, otherwise) = self.patience(tag, now);
        let exchange = self.insist(tag, from, connection, &mut seen);
        let exchanged = self.clock.timeout_at(until, exchange).await;
        let (ending, connection) = exchanged.unwrap_or((otherwise, None));
        let receipt = Receipt {
            turn,
            first: seen.first.map(|first| first.saturating_duration_since(from)),
            took: self.clock.now().saturating_duration_since(from),
            attempts: seen.attempts,
            refusals: seen.refusals,
            slow: self.slow(tag).is_some(),
            ending,
        };
        (receipt, connection)
    }

    /// Until when the client waits, and what becomes of the turn then.
    fn patience(&self, tag: Tag, now: Instant) -> (Instant, Ending) {
        let late = self.scenario.timeout;
        match &self.scenario.client.leaves {
            // one that would leave later than that is as patient as all others
            Some(leaves) if tag.nonce.is_multiple_of(leaves.one_in) && leaves.after < late => {
                (now + leaves.after, Ending::Left)
            }
            _ => (now + late, Ending::Lost(Loss::TimedOut)),
        }
    }

    /// How long it takes over each piece of its answer, if it takes its time. Another nonce's half than the one that leaves.
    fn slow(&self, tag: Tag) -> Option<Duration> {
        let slow = self.scenario.client.slow.as_ref()?;
        tag.nonce
            .rotate_left(16)
            .is_multiple_of(slow.one_in)
            .then_some(slow.every)
    }

    /// Asks, and again when it was told to come back, as often as its scenario says.
    async fn insist(
        &self,
        tag: Tag,
        mut from: Instant,
        mut connection: Option<Connection>,
        seen: &mut Seen,
    ) -> (Ending, Option<Connection>) {
        loop {
            let (ending, kept) = self.exchange(tag, connection, seen).await;
            let Ending::Refused(429 | 503) = ending else {
                return (ending, kept);
            };
            let told = &mut seen.refusals;
            told.count += 1;
            told.without_advice += u32::from(seen.retry_after.is_none());
            told.longest = told.longest.max(self.clock.now().saturating_duration_since(from));
            if told.count > self.scenario.client.retries {
                return (ending, kept);
            }
            let pause = seen.retry_after.map_or(USUAL_PAUSE, Duration::from_secs);
            // not all at once: up to half as long again
            self.clock.sleep(pause + pause * (tag.nonce % 512) / 1024).await;
            from = self.clock.now();
            connection = kept;
        }
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
        seen.retry_after = head.retry_after;
        let heard = self.read(tag, connection, &mut head, seen).await?;
        let ending = match head.status {
            200 => self.judge(tag, &heard),
            status => Ending::Refused(status),
        };
        Ok((ending, head.keep))
    }

    async fn read(
        &self,
        tag: Tag,
        connection: &mut Connection,
        head: &mut Head,
        seen: &mut Seen,
    ) -> Result<Heard, Broken> {
        let slow = self.slow(tag);
        let mut reader = Reader::new(self.scenario.client.format, head.events);
        while let Some(piece) = connection.piece(&mut head.body).await? {
            reader.take(piece);
            if seen.first.is_none() && reader.has_begun() {
                seen.first = Some(self.clock.now());
            }
            if let Some(pause) = slow {
                self.clock.sleep(pause).await;
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

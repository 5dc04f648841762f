//! A session as lines of JSON that can be carried from one gateway to another. The first line says what it is, each further
//! one is an item of the transcript, and the last one says that this was all. Every line carries a checksum of itself and, but
//! for the first, of its number; the last one also that of all lines before it: whatever was changed, swapped, doubled or left out
//! is found, and its line named.
//!
//! Version 1 had neither numbers nor a last line. It is read as far as that goes: items within a turn may have been swapped.

use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use understudy_messages::ids::Name;

use super::StoredSession;
use super::codec::Written;
use crate::session::memory::{MOST, OVERHEAD};

/// How lines are written.
const VERSION: u64 = 2;
/// What the last line begins with.
const END: &str = "{\"end\":";
/// What the first line says that it begins.
const KIND: &str = "session";

/// Lines that are no session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}: {fix}")]
pub struct BadLine {
    /// Which, from 1.
    pub line: usize,
    /// What is wrong.
    pub why: String,
    /// What to do.
    pub fix: &'static str,
}

const AGAIN: &str = "export the session again";

/// What can be read of a first line whatever its version.
#[derive(Deserialize)]
struct Kind {
    understudy: String,
    version: u64,
}

#[derive(Serialize, Deserialize)]
struct First {
    understudy: String,
    version: u64,
    id: Name,
    items: usize,
    session: Written,
    sum: String,
}

#[derive(Serialize, Deserialize)]
struct Item<'a> {
    /// Its number in the file, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    turn: u64,
    sum: String,
    #[serde(borrow)]
    item: &'a RawValue,
}

impl Item<'_> {
    fn sum(&self) -> String {
        let line = self.line.map(|line| (line as u64).to_le_bytes());
        let line = line.as_ref().map_or(&[][..], |line| &line[..]);
        sum(&[line, &self.turn.to_le_bytes(), self.item.get().as_bytes()])
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    /// How many lines come before it.
    end: usize,
    sum: String,
}

impl End {
    fn of(lines: usize, text: &str) -> Self {
        Self {
            end: lines,
            sum: sum(&[&(lines as u64).to_le_bytes(), text.as_bytes()]),
        }
    }
}

/// A session as lines, the last one ended too.
///
/// # Errors
/// An item is not JSON.
pub fn written(id: &Name, session: &StoredSession) -> Result<String, serde_json::Error> {
    let mut first = First {
        understudy: KIND.to_owned(),
        version: VERSION,
        id: id.clone(),
        items: session.turns.iter().map(Vec::len).sum(),
        session: Written::of(&session.header),
        sum: String::new(),
    };
    first.sum = sum(&[serde_json::to_string(&first)?.as_bytes()]);
    let (mut lines, mut count) = (serde_json::to_string(&first)? + "\n", 1);
    for (turn, said) in (0_u64..).zip(&session.turns) {
        for item in said {
            // between tokens only: in a text of JSON they are escaped
            let item = item.replace(['\n', '\r'], " ");
            count += 1;
            let mut line = Item {
                line: Some(count),
                turn,
                sum: String::new(),
                item: serde_json::from_str(&item)?,
            };
            line.sum = line.sum();
            lines.push_str(&serde_json::to_string(&line)?);
            lines.push('\n');
        }
    }
    let end = serde_json::to_string(&End::of(count, &lines))?;
    Ok(lines + &end + "\n")
}

/// Reads a session that is put in at `now`.
///
/// # Errors
/// [`BadLine`]: the first line that is not what was written.
pub fn read(text: &str, now: SystemTime) -> Result<(Name, StoredSession), BadLine> {
    let mut lines = text.lines().zip(1..);
    let (line, _) = lines.next().ok_or_else(|| bad(1, "there is nothing", AGAIN))?;
    let first = first(line)?;
    let (mut items, mut is_ended) = (Items::default(), first.version < 2);
    let mut last = 1;
    for (line, number) in lines {
        last = number;
        match line.starts_with(END) && first.version >= 2 {
            _ if is_ended && first.version >= 2 => return Err(bad(number, "it stands behind the end", AGAIN)),
            true => is_ended = ends(text, line, number)?,
            false => items.take(number, line, first.version)?,
        }
    }
    if !is_ended {
        return Err(bad(last, "the file ends here, before its end", AGAIN));
    }
    if items.count != first.items {
        let why = format!(
            "the file has {} items, and its first line says {}",
            items.count, first.items
        );
        return Err(bad(last, &why, AGAIN));
    }
    let mut header = first.session.header(1);
    (header.first, header.next, header.updated) = (0, items.turns.len() as u64, now);
    let turns = items.turns;
    Ok((first.id, StoredSession { header, turns }))
}

/// The last line, which stands where it says, behind what it says.
fn ends(text: &str, line: &str, number: usize) -> Result<bool, BadLine> {
    let damaged = || bad(number, "it is not what was written", AGAIN);
    let end: End = serde_json::from_str(line).map_err(|_| damaged())?;
    if end.end != number - 1 {
        let why = format!("{} lines come before it, and it says {}", number - 1, end.end);
        return Err(bad(number, &why, AGAIN));
    }
    let begins = line.as_ptr().addr().wrapping_sub(text.as_ptr().addr());
    let before = text.get(..begins).unwrap_or_default().replace("\r\n", "\n");
    match end.sum == End::of(end.end, &before).sum {
        true => Ok(true),
        false => Err(damaged()),
    }
}

/// The items that were read.
#[derive(Default)]
struct Items {
    turns: Vec<Vec<Arc<str>>>,
    count: usize,
    bytes: usize,
}

impl Items {
    fn take(&mut self, number: usize, line: &str, version: u64) -> Result<(), BadLine> {
        let (turn, item) = item(number, line, version)?;
        self.count += 1;
        self.bytes += item.len() + OVERHEAD;
        if self.bytes > MOST {
            let fix = "leave out the oldest turns, or begin a session of its own";
            return Err(bad(number, "no session remembers as much (4 MiB)", fix));
        }
        match (self.turns.len() as u64, self.turns.last_mut()) {
            (count, Some(said)) if turn + 1 == count => said.push(item),
            (count, _) if turn == count => self.turns.push(vec![item]),
            (_, Some(_) | None) => return Err(bad(number, "a turn is missing before it", AGAIN)),
        }
        Ok(())
    }
}

fn first(line: &str) -> Result<First, BadLine> {
    let foreign = "give a file that `understudy sessions export` has written";
    let kind: Kind = serde_json::from_str(line).map_err(|_| bad(1, "this is no exported session", foreign))?;
    if kind.understudy != KIND {
        return Err(bad(1, "this is no exported session", foreign));
    }
    if kind.version > VERSION {
        let why = format!("it has version {}, and this program knows {VERSION}", kind.version);
        return Err(bad(1, &why, "use the later version of this program that wrote it"));
    }
    let damaged = || bad(1, "it is not what was written", AGAIN);
    let mut first: First = serde_json::from_str(line).map_err(|_| damaged())?;
    let told = std::mem::take(&mut first.sum);
    let whole = serde_json::to_string(&first).map_err(|_| damaged())?;
    match told == sum(&[whole.as_bytes()]) {
        true => Ok(first),
        false => Err(damaged()),
    }
}

fn item(number: usize, line: &str, version: u64) -> Result<(u64, Arc<str>), BadLine> {
    let damaged = || bad(number, "it is not what was written", AGAIN);
    let read: Item<'_> = serde_json::from_str(line).map_err(|_| damaged())?;
    if read.sum != read.sum() || read.line.is_some() != (version >= 2) {
        return Err(damaged());
    }
    match read.line.filter(|line| *line != number) {
        None => Ok((read.turn, read.item.get().into())),
        Some(line) => {
            let why = format!("this was line {line}: lines are swapped, doubled or missing");
            Err(bad(number, &why, AGAIN))
        }
    }
}

fn bad(line: usize, why: &str, fix: &'static str) -> BadLine {
    BadLine {
        line,
        why: why.to_owned(),
        fix,
    }
}

fn sum(parts: &[&[u8]]) -> String {
    let mut sum = crc32fast::Hasher::new();
    parts.iter().for_each(|part| sum.update(part));
    format!("{:08x}", sum.finalize())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use understudy_messages::ids::ModelRef;

    use super::*;
    use crate::session::store::Header;

    fn session() -> StoredSession {
        StoredSession {
            header: Header {
                revision: 9,
                pinned: Some("fast".into()),
                last_model: Some(ModelRef::new("a", "m")),
                turns: 7,
                first: 5,
                next: 7,
                slots: vec![("canon".into(), "mark".to_owned())],
                ..Header::new(UNIX_EPOCH)
            },
            turns: vec![
                vec![
                    r#"{"role":"user","content":"ü\n\u2028"}"#.into(),
                    "{\n \"a\": 1.50 }".into(),
                ],
                vec!["{}".into()],
            ],
        }
    }

    fn lines() -> String {
        written(&"one".into(), &session()).expect("JSON")
    }

    fn refused(text: &str) -> BadLine {
        read(text, UNIX_EPOCH).expect_err("no session")
    }

    #[test]
    fn what_was_written_is_read_with_all_that_belongs_to_it() {
        let now = UNIX_EPOCH + Duration::from_secs(60);
        let (id, read) = read(&lines(), now).expect("sound");
        let expected = Header {
            revision: 1,
            first: 0,
            next: 2,
            updated: now,
            ..session().header
        };
        assert_eq!((&*id, &read.header), ("one", &expected));
        assert_eq!(&*read.turns[0][0], &*session().turns[0][0], "to the letter");
        assert_eq!(&*read.turns[0][1], "{  \"a\": 1.50 }");
        assert_eq!(read.turns[1].len(), 1);
        assert_eq!(lines().lines().count(), 5);
    }

    #[test]
    fn any_letter_that_was_changed_is_found_in_its_line() {
        let text = lines();
        for (at, letter) in text.char_indices().filter(|(_, letter)| letter.is_ascii_alphanumeric()) {
            let other = if letter == '1' { '2' } else { '1' };
            let changed = format!("{}{other}{}", &text[..at], &text[at + 1..]);
            let line = 1 + text[..at].matches('\n').count();
            assert_eq!(refused(&changed).line, line, "{changed}");
        }
    }

    #[test]
    fn lines_that_are_swapped_missing_or_doubled_are_named() {
        let text = lines();
        let lines: Vec<&str> = text.lines().collect();
        let said = |order: &[usize]| {
            let lines: Vec<&str> = order.iter().map(|at| lines[*at]).collect();
            refused(&lines.join("\n"))
        };
        for (order, line) in [
            (&[0, 2, 1, 3, 4][..], 2),
            (&[0, 1, 3, 2, 4], 3),
            (&[0, 1, 1, 2, 3, 4], 3),
            (&[0, 1, 1, 3, 4], 3),
            (&[0, 1, 2, 4], 4),
            (&[0, 2, 3, 4], 2),
            (&[0, 1, 2, 3], 4),
            (&[0, 1], 2),
            (&[0], 1),
            (&[0, 4], 2),
            (&[0, 1, 2, 3, 4, 4], 6),
            (&[0, 1, 2, 3, 4, 1], 6),
            (&[1, 2, 3, 4], 1),
        ] {
            assert_eq!(said(order).line, line, "{order:?}: {}", said(order));
        }
        assert!(said(&[0, 2, 1, 3, 4]).to_string().contains("swapped"));
        assert_eq!(refused("").line, 1);
        let foreign = refused("{}").to_string();
        assert!(
            foreign.starts_with("line 1: ") && foreign.contains("sessions export"),
            "{foreign}"
        );
    }

    #[test]
    fn lines_of_another_session_are_none_of_this_one() {
        let other = StoredSession {
            turns: vec![vec!["{}".into(), "[1]".into()], vec!["{}".into()]],
            ..session()
        };
        let (one, other) = (lines(), written(&"one".into(), &other).expect("JSON"));
        let (mut one, other): (Vec<&str>, Vec<&str>) = (one.lines().collect(), other.lines().collect());
        one[2] = other[2];
        assert_eq!(
            refused(&one.join("\n")).line,
            5,
            "the end knows all that comes before it"
        );
        assert!(
            read(&lines().replace('\n', "\r\n"), UNIX_EPOCH).is_ok(),
            "as some programs end lines"
        );
    }

    /// As version 1 was written.
    const OLD: &str = include_str!("portable/version-1.jsonl");

    #[test]
    fn what_version_1_has_written_is_read_and_what_is_missing_of_it_is_missed() {
        let (id, session) = read(OLD, UNIX_EPOCH).expect("sound");
        assert_eq!((&*id, session.header.turns), ("one", 7));
        assert_eq!(session.turns.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
        let lines: Vec<&str> = OLD.lines().collect();
        assert_eq!(refused(&lines[..3].join("\n")).line, 3, "cut off");
        assert_eq!(refused(&[lines[0], lines[3]].join("\n")).line, 2, "the first turn");
    }

    #[test]
    fn a_later_version_is_refused_with_what_to_do() {
        let later = refused(r#"{"understudy":"session","version":3,"more":{}}"#).to_string();
        assert!(
            later.contains("version 3") && later.contains("later version"),
            "{later}"
        );
    }

    #[test]
    fn more_than_a_session_remembers_is_not_taken() {
        let long = format!("\"{}\"", "x".repeat(MOST / 2));
        let session = StoredSession {
            turns: vec![vec![long.as_str().into()], vec![long.as_str().into()]],
            ..session()
        };
        let text = written(&"one".into(), &session).expect("JSON");
        assert_eq!(refused(&text).line, 3);
    }
}

//! A session as lines of JSON that can be carried from one gateway to another. The first line says what it is, each further
//! one is an item of the transcript; every line carries a checksum of itself, so that one that was changed is named.

use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use understudy_messages::ids::Name;

use super::StoredSession;
use super::codec::Written;
use crate::session::memory::{MOST, OVERHEAD};

/// How lines are written.
const VERSION: u64 = 1;
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
    turn: u64,
    sum: String,
    #[serde(borrow)]
    item: &'a RawValue,
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
    let mut lines = serde_json::to_string(&first)?;
    lines.push('\n');
    for (turn, said) in (0_u64..).zip(&session.turns) {
        for item in said {
            // between tokens only: in a text of JSON they are escaped
            let item = item.replace(['\n', '\r'], " ");
            let line = Item {
                turn,
                sum: sum(&[&turn.to_le_bytes(), item.as_bytes()]),
                item: serde_json::from_str(&item)?,
            };
            lines.push_str(&serde_json::to_string(&line)?);
            lines.push('\n');
        }
    }
    Ok(lines)
}

/// Reads a session that is put in at `now`.
///
/// # Errors
/// [`BadLine`]: the first line that is not what was written.
pub fn read(text: &str, now: SystemTime) -> Result<(Name, StoredSession), BadLine> {
    let mut lines = text.lines().enumerate().map(|(place, line)| (place + 1, line));
    let (_, line) = lines.next().ok_or_else(|| bad(1, "there is nothing", AGAIN))?;
    let first = first(line)?;
    let (mut turns, mut bytes, mut last): (Vec<Vec<Arc<str>>>, _, _) = (Vec::new(), 0, 1);
    for (number, line) in lines {
        last = number;
        let (turn, item) = item(number, line)?;
        bytes += item.len() + OVERHEAD;
        if bytes > MOST {
            let fix = "leave out the oldest turns, or begin a session of its own";
            return Err(bad(number, "no session remembers as much (4 MiB)", fix));
        }
        match (turns.len() as u64, turns.last_mut()) {
            (count, Some(said)) if turn + 1 == count => said.push(item),
            (count, _) if turn == count => turns.push(vec![item]),
            (_, Some(_) | None) => return Err(bad(number, "a turn is missing before it", AGAIN)),
        }
    }
    let found: usize = turns.iter().map(Vec::len).sum();
    if found != first.items {
        let why = format!("the file has {found} items, and its first line says {}", first.items);
        return Err(bad(last, &why, AGAIN));
    }
    let mut header = first.session.header(1);
    (header.first, header.next, header.updated) = (0, turns.len() as u64, now);
    Ok((first.id, StoredSession { header, turns }))
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

fn item(number: usize, line: &str) -> Result<(u64, Arc<str>), BadLine> {
    let damaged = || bad(number, "it is not what was written", AGAIN);
    let read: Item<'_> = serde_json::from_str(line).map_err(|_| damaged())?;
    let item = read.item.get();
    match read.sum == sum(&[&read.turn.to_le_bytes(), item.as_bytes()]) {
        true => Ok((read.turn, item.into())),
        false => Err(damaged()),
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
        assert_eq!(lines().lines().count(), 4);
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
    fn lines_that_are_missing_are_missed() {
        let text = lines();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(refused(&lines[..3].join("\n")).line, 3, "cut off");
        assert_eq!(refused(&[lines[0], lines[3]].join("\n")).line, 2, "the first turn");
        assert_eq!(refused("").line, 1);
        let foreign = refused("{}").to_string();
        assert!(
            foreign.starts_with("line 1: ") && foreign.contains("sessions export"),
            "{foreign}"
        );
    }

    #[test]
    fn a_later_version_is_refused_with_what_to_do() {
        let later = refused(r#"{"understudy":"session","version":2,"more":{}}"#).to_string();
        assert!(
            later.contains("version 2") && later.contains("later version"),
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

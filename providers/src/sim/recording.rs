//! Recorded exchanges as content of a script.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::call::{Call, Content, Piece, Then};
use super::script::Plan;

/// Headers that describe how the recorded body was framed, not what it was.
const FRAMING: [&str; 3] = ["content-length", "transfer-encoding", "connection"];

/// Why a recording cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The plan names a recording, but no folder was given.
    #[error("recording `{0}` is named, but no recordings folder is given")]
    NoFolder(String),
    /// The id is not `folder/name`.
    #[error("`{0}` is not the id of a recording: folder/name")]
    Id(String),
    /// The file cannot be read.
    #[error("recording at {path} cannot be read")]
    Read {
        /// Where it was looked for.
        path: PathBuf,
        /// What the file system said.
        source: io::Error,
    },
    /// The file is not a recording.
    #[error("recording at {path} cannot be understood")]
    Parse {
        /// Where it was read.
        path: PathBuf,
        /// What the reader said.
        source: serde_json::Error,
    },
}

#[derive(Deserialize)]
struct Recording {
    response: Recorded,
}

#[derive(Deserialize)]
struct Recorded {
    status: u16,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<String>,
    sse: Option<Vec<String>>,
    chunks: Option<Vec<String>>,
    then: Option<Then>,
}

impl Plan {
    /// Puts the content of every recording that the plan names in its place. Reads files.
    pub(crate) fn resolve(&mut self, folder: Option<&Path>) -> Result<(), RecordingError> {
        let scripts = self.upstreams.values_mut().chain(&mut self.default);
        for call in scripts.flat_map(|script| script.calls_mut()) {
            if let Content::Recording(id) = &call.content {
                let folder = folder.ok_or_else(|| RecordingError::NoFolder(id.clone()))?;
                *call = Arc::new(played(call, read(folder, id)?));
            }
        }
        Ok(())
    }
}

/// The call with the recording's response; what the call itself says about status, headers and end stands.
fn played(call: &Call, recorded: Recorded) -> Call {
    let mut headers = recorded.headers;
    headers.retain(|name, _| !FRAMING.contains(&name.to_ascii_lowercase().as_str()));
    headers.extend(call.headers.clone());
    let content = match (recorded.sse.or(recorded.chunks), recorded.body) {
        (Some(reads), _) => {
            let pieces = reads.into_iter().map(|it| Piece::once(Duration::ZERO, it));
            Content::Timed(pieces.collect())
        }
        (None, body) => Content::Body(body.unwrap_or_default().into()),
    };
    Call {
        status: call.status.or(Some(recorded.status)),
        headers,
        content,
        then: call.then.or(recorded.then),
        ..call.clone()
    }
}

fn read(folder: &Path, id: &str) -> Result<Recorded, RecordingError> {
    let plain = |part: &str| {
        let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        !part.is_empty() && !part.starts_with('.') && part.chars().all(letter)
    };
    if !id.split_once('/').is_some_and(|(a, b)| plain(a) && plain(b)) {
        return Err(RecordingError::Id(id.to_owned()));
    }
    let path = folder.join(format!("{id}.json"));
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(source) => return Err(RecordingError::Read { path, source }),
    };
    match serde_json::from_slice::<Recording>(&text) {
        Ok(recording) => Ok(recording.response),
        Err(source) => Err(RecordingError::Parse { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(id: &str) -> Plan {
        let script = serde_json::json!({ "calls": [{ "recording": id }] });
        serde_json::from_value(serde_json::json!({ "a/m": script })).expect("parses")
    }

    #[test]
    fn a_recording_needs_a_folder() {
        let refused = plan("openai-chat/x").resolve(None);
        assert!(matches!(refused, Err(RecordingError::NoFolder(_))));
    }

    #[test]
    fn every_shared_recording_can_be_played() {
        let folder = std::env::var_os("UNDERSTUDY_SHARED").map_or_else(
            || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared")),
            PathBuf::from,
        );
        let folder = folder.join("recordings");
        let Ok(groups) = std::fs::read_dir(&folder) else {
            eprintln!("skipped: no recordings in {}", folder.display());
            return;
        };
        let mut read = 0;
        for group in groups.map(|group| group.expect("reads").path()) {
            for file in std::fs::read_dir(&group).into_iter().flatten() {
                let path = file.expect("reads").path().with_extension("");
                let id = path.strip_prefix(&folder).expect("is inside");
                let resolved = plan(&id.to_string_lossy()).resolve(Some(&folder));
                assert!(resolved.is_ok(), "{resolved:?}");
                read += 1;
            }
        }
        assert!(read > 0, "no recording in {}", folder.display());
    }

    #[test]
    fn an_id_cannot_leave_the_folder() {
        for id in ["../secret/x", "a/../../b", "/etc/x", "plain", "a/.b"] {
            let refused = plan(id).resolve(Some(Path::new("/nowhere")));
            assert!(matches!(refused, Err(RecordingError::Id(_))), "{id}");
        }
    }

    #[test]
    fn a_call_may_override_what_was_recorded() {
        let script =
            serde_json::json!({ "status": 503, "headers": { "x": "mine" }, "then": "reset", "recording": "a/b" });
        let call: Call = serde_json::from_value(script).expect("parses");
        let recorded = serde_json::json!({
            "status": 200, "headers": { "x": "its", "Content-Length": "9", "y": "kept" }, "sse": ["one", "two"]
        });
        let recorded = serde_json::from_value(recorded).expect("parses");
        let call = played(&call, recorded);
        assert_eq!((call.status, call.then), (Some(503), Some(Then::Reset)));
        let headers: Vec<_> = call.headers.iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(headers, [("x", "mine"), ("y", "kept")]);
        assert!(matches!(call.content, Content::Timed(pieces) if pieces.len() == 2));
    }
}

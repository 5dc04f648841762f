//! The files: one exchange each.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::{Map, Value};
use understudy_messages::failure::Reason;
use understudy_messages::settings::Api;

/// One exchange and what an independent reader made of it.
#[derive(Deserialize)]
pub(crate) struct Recording {
    #[serde(deserialize_with = "api")]
    pub(crate) api: Api,
    /// Why a recorded error is one; nothing where that is open.
    pub(crate) reason: Option<Reason>,
    pub(crate) request: Request,
    pub(crate) response: Response,
    #[serde(default)]
    pub(crate) normalized: Map<String, Value>,
}

/// What was asked.
#[derive(Deserialize)]
pub(crate) struct Request {
    pub(crate) host: Option<String>,
    #[serde(default)]
    pub(crate) body: Value,
}

/// What came back: one body, as a whole or in pieces.
#[derive(Deserialize)]
pub(crate) struct Response {
    pub(crate) status: u16,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<String>,
    sse: Option<Vec<String>>,
    chunks: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) then: Then,
}

/// What the provider did after the last byte.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Then {
    #[default]
    Close,
    Reset,
    Hang,
}

impl Recording {
    /// Reads a file.
    pub(crate) fn read(file: &Path) -> Result<Self, String> {
        let text = fs::read(file).map_err(|error| error.to_string())?;
        serde_json::from_slice(&text).map_err(|error| error.to_string())
    }
}

impl Response {
    /// Whether the body is a stream: of events, or of the elements of an array.
    pub(crate) fn is_stream(&self) -> bool {
        let named = self
            .header("content-type")
            .is_some_and(|kind| kind.starts_with("text/event-stream"));
        named || self.sse.is_some() || self.status == 200 && self.bytes().starts_with(b"[")
    }

    /// The value of a header; the name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The whole body.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let pieces = self.sse.iter().chain(&self.chunks).flatten().chain(&self.body);
        pieces.flat_map(|piece| piece.bytes()).collect()
    }
}

/// The recordings in the folders of `folder`, in order.
pub(crate) fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?.path();
        if entry.is_dir() {
            for file in fs::read_dir(entry)? {
                files.push(file?.path());
            }
        }
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    Ok(files)
}

/// `folder/file`, without the extension.
pub(crate) fn name(file: &Path) -> String {
    let file = file.with_extension("");
    let mut parts: Vec<_> = file.iter().rev().take(2).map(|part| part.to_string_lossy()).collect();
    parts.reverse();
    parts.join("/")
}

/// The recordings' own names of the wire formats.
fn api<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Api, D::Error> {
    match &*String::deserialize(deserializer)? {
        "openai-chat" => Ok(Api::OpenaiChat),
        "openai-responses" => Ok(Api::OpenaiResponses),
        "anthropic" => Ok(Api::AnthropicMessages),
        "gemini" => Ok(Api::Gemini),
        other => Err(D::Error::custom(format!("no reader for {other}"))),
    }
}

//! Media in Gemini's words.

use serde_json::{Value, json};
use understudy_messages::conversation::{Media, MediaKind, MediaSource};

use super::unsupported;
use crate::wire::Unsupported;

/// A medium as a part of a message.
pub(super) fn part(media: &Media) -> Result<Value, Unsupported> {
    match &media.source {
        MediaSource::Inline { media_type, data } => Ok(json!({"inlineData": {"mimeType": media_type, "data": data}})),
        MediaSource::Url(url) => {
            let mut file = json!({"fileUri": url});
            if let Some(media_type) = type_of(url, media.kind) {
                file["mimeType"] = json!(media_type);
            }
            Ok(json!({"fileData": file}))
        }
        MediaSource::File { .. } => Err(unsupported("a file of another provider")),
    }
}

/// The media type that an address tells by its ending; a document without one is a PDF.
fn type_of(url: &str, kind: MediaKind) -> Option<&'static str> {
    let path = url.split(['?', '#']).next().unwrap_or(url);
    let ending = path.rsplit('.').next().map(str::to_ascii_lowercase);
    match ending.as_deref() {
        Some("png") => Some("image/png"),
        Some("jpg" | "jpeg") => Some("image/jpeg"),
        Some("webp") => Some("image/webp"),
        Some("gif") => Some("image/gif"),
        Some("wav") => Some("audio/wav"),
        Some("mp3") => Some("audio/mpeg"),
        Some("pdf") => Some("application/pdf"),
        _ => (kind == MediaKind::Document).then_some("application/pdf"),
    }
}

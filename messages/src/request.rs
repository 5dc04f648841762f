//! What one scan of a request's body found.

use std::ops::Range;

use crate::ids::Name;

/// The facts that routing and the wire format need; the body itself stays as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestFacts {
    /// The model that the client asked for.
    pub model: Name,
    /// Where the model's JSON string stands in the body, quotes included.
    pub model_span: Range<usize>,
    /// Whether the client asked for a stream.
    pub stream: bool,
    /// Whether the client asked for usage in the stream.
    pub include_usage: bool,
}

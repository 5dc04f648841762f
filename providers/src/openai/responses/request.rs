//! Responses requests: read once for routing, taken apart for other formats, put together from them.

use bytes::Bytes;
use understudy_messages::request::RequestFacts;

use self::scan::Draft;
use crate::json::{Cursor, Kind};
use crate::request_error::RequestError;

mod read;
mod scan;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use self::read::read;
pub(crate) use self::write::write;

/// Reads a request as far as routing depends on it. Linear in its length; allocates for names only.
pub(crate) fn scan(body: &Bytes) -> Result<RequestFacts, RequestError> {
    let mut cursor = Cursor::new(body)?;
    if cursor.kind()? != Kind::Object {
        return Err(RequestError::NotAnObject);
    }
    let brace = cursor.position();
    let mut draft = Draft::default();
    cursor.object(|cursor, key| draft.member(cursor, key))?;
    cursor.end()?;
    draft.finish(body, brace)
}

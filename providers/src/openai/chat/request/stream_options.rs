//! The options of a stream: whether it ends with a report of tokens, and how to ask for one.

use std::ops::Range;

use understudy_messages::request::BodyEdit;

use super::RequestError;
use super::scan::{flag, once};
use crate::json::{Cursor, Kind};

/// What `stream_options` says of usage.
#[derive(Default)]
pub(super) struct StreamOptions {
    pub(super) include_usage: bool,
    /// What would ask for it; `None` when it is asked for, or where only the provider can judge what was written.
    pub(super) usage_edit: Option<BodyEdit>,
}

impl StreamOptions {
    /// Those of a body without any, whose brace stands at `brace`. Other members follow: no request is without.
    pub(super) fn absent(brace: usize) -> Self {
        Self::unasked(brace + 1..brace + 1, r#""stream_options":{"include_usage":true},"#)
    }

    /// Reads the value of `stream_options`.
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Self, RequestError> {
        let is_object = cursor.kind()? == Kind::Object;
        let start = cursor.position();
        if is_object {
            return Self::object(cursor, start + 1);
        }
        Ok(match cursor.value()? {
            "null" | "false" => Self::unasked(start..cursor.position(), r#"{"include_usage":true}"#),
            _ => Self::default(),
        })
    }

    fn object(cursor: &mut Cursor<'_>, inside: usize) -> Result<Self, RequestError> {
        let (mut include_usage, mut empty) = (None, true);
        cursor.object(|cursor, key| {
            empty = false;
            match &*key.decode() {
                "include_usage" => {
                    cursor.kind()?;
                    let start = cursor.position();
                    let wanted = flag(cursor, "include_usage")?;
                    once(&mut include_usage, (wanted, start..cursor.position()), "include_usage")
                }
                _ => Ok(cursor.skip()?),
            }
        })?;
        Ok(match include_usage {
            Some((true, _)) => Self {
                include_usage: true,
                usage_edit: None,
            },
            Some((false, value)) => Self::unasked(value, "true"),
            None if empty => Self::unasked(inside..inside, r#""include_usage":true"#),
            None => Self::unasked(inside..inside, r#""include_usage":true,"#),
        })
    }

    fn unasked(span: Range<usize>, text: &'static str) -> Self {
        Self {
            include_usage: false,
            usage_edit: Some(BodyEdit { span, text }),
        }
    }
}

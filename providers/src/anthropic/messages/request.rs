//! Anthropic Messages requests: read as far as routing depends on it, taken apart, put together.

mod messages;
mod native;
mod read;
mod scan;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use self::native::for_model;
pub(crate) use self::read::read;
pub(crate) use self::scan::scan;
pub(crate) use self::write::write;

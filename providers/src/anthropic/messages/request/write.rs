//! A Messages request put together.

use understudy_messages::conversation::Conversation;
use understudy_messages::settings::Api;

use crate::wire::{Target, Unsupported, Written};

/// Puts a request together.
pub(crate) fn write(_conversation: &Conversation, _target: &Target<'_>) -> Result<Written, Unsupported> {
    Err(Unsupported {
        what: "any request".to_owned(),
        api: Api::AnthropicMessages,
    })
}

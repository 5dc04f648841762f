//! Seals as `encrypted_content`: a native one as it is, another maker's as `"<api>:<data>"`. And who made an item.

use std::borrow::Cow;

use understudy_messages::conversation::Seal;
use understudy_messages::settings::Api;

/// The maker and the data.
pub(super) fn read(text: &str) -> (Api, &str) {
    let foreign = text.split_once(':').and_then(|(label, data)| {
        let maker = Api::ALL.into_iter().find(|api| api.as_label() == label)?;
        Some((maker, data))
    });
    foreign.unwrap_or((Api::OpenaiResponses, text))
}

/// As it stands in `encrypted_content`.
pub(super) fn write(seal: &Seal) -> Cow<'_, str> {
    match seal.maker {
        Api::OpenaiResponses => Cow::Borrowed(&seal.data),
        Api::OpenaiChat | Api::AnthropicMessages | Api::Gemini => {
            Cow::Owned(format!("{}:{}", seal.maker.as_label(), seal.data))
        }
    }
}

/// The id of an item that was written here.
pub(super) fn item_id(prefix: &str, turn: &str, place: usize) -> String {
    format!("{prefix}_{turn}_{place}")
}

/// Whether an item of reasoning was written here, and not by a provider that would know it again.
pub(super) fn is_own_id(id: &str) -> bool {
    let own = id.strip_prefix("rs_").and_then(|id| id.split_once('_'));
    own.is_some_and(|(turn, place)| {
        let is_turn = turn.len() == 32 && turn.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_turn && place.bytes().all(|byte| byte.is_ascii_digit())
    })
}

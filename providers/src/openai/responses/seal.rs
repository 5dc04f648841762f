//! Seals as `encrypted_content`: a native one as it is, another maker's as `"<api>:<data>"`.

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

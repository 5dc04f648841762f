//! The arguments of a call as the input of a tool, which must be a JSON object.
//!
//! What is none, cut by a limit or never meant to be JSON, travels as text under one key and is itself again on the other side.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unparsable<'a> {
    #[serde(borrow, rename = "_unparsable")]
    text: Cow<'a, str>,
}

/// The arguments as an input; none at all are an empty one.
pub(super) fn to_input(arguments: &str) -> Box<RawValue> {
    let text = match arguments.trim() {
        "" | "null" => "{}",
        text => text,
    };
    let object = serde_json::from_str::<&RawValue>(text).ok();
    match object.filter(|_| text.starts_with('{')) {
        Some(object) => object.to_owned(),
        None => {
            let text = arguments.into();
            serde_json::value::to_raw_value(&Unparsable { text }).unwrap_or_default()
        }
    }
}

/// The input as arguments.
pub(super) fn from_input(input: &str) -> String {
    match serde_json::from_str::<Unparsable<'_>>(input) {
        Ok(unparsable) => unparsable.text.into_owned(),
        Err(_) => input.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_object_keeps_its_text_and_nothing_is_an_empty_one() {
        assert_eq!(to_input(" {\"z\":1e2,\"a\":1} ").get(), "{\"z\":1e2,\"a\":1}");
        assert_eq!((to_input("").get(), to_input("null").get()), ("{}", "{}"));
        assert_eq!(to_input("{\"cut").get(), "{\"_unparsable\":\"{\\\"cut\"}");
        assert_eq!(to_input("[1]").get(), "{\"_unparsable\":\"[1]\"}");
    }

    proptest! {
        #[test]
        fn what_is_no_object_comes_back(text in "\\PC{1,20}") {
            let is_object = text.trim().starts_with('{') && serde_json::from_str::<&RawValue>(text.trim()).is_ok();
            prop_assume!(!is_object && !text.trim().is_empty() && text.trim() != "null");
            prop_assert_eq!(from_input(to_input(&text).get()), text);
        }
    }
}

//! YAML as a formatter of `serde_json`: sections in blocks, lists on one line, quotes only where they are needed.
//!
//! Sections inside of lists stand on one line as well.

use std::io::{self, Write};

use serde_json::ser::{CharEscape, Formatter};

/// Writes a section at the top, and everything in it.
#[derive(Default)]
pub(crate) struct Yaml {
    /// How many sections are open.
    depth: usize,
    /// Something was written: the next key begins on a new line.
    begun: bool,
    /// The innermost section has no key yet.
    empty: bool,
    /// A colon was written, and nothing behind it.
    after_colon: bool,
    /// How many lists are open.
    lists: usize,
    /// The text being written, as it is meant.
    text: String,
}

impl Yaml {
    fn plain<W: ?Sized + Write>(&mut self, writer: &mut W, value: &str) -> io::Result<()> {
        if std::mem::take(&mut self.after_colon) {
            writer.write_all(b" ")?;
        }
        writer.write_all(value.as_bytes())
    }
}

impl Formatter for Yaml {
    fn write_null<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.plain(writer, "null")
    }

    fn write_bool<W: ?Sized + Write>(&mut self, writer: &mut W, value: bool) -> io::Result<()> {
        self.plain(writer, if value { "true" } else { "false" })
    }

    fn write_u32<W: ?Sized + Write>(&mut self, writer: &mut W, value: u32) -> io::Result<()> {
        self.plain(writer, &value.to_string())
    }

    fn write_u64<W: ?Sized + Write>(&mut self, writer: &mut W, value: u64) -> io::Result<()> {
        self.plain(writer, &value.to_string())
    }

    fn write_i64<W: ?Sized + Write>(&mut self, writer: &mut W, value: i64) -> io::Result<()> {
        self.plain(writer, &value.to_string())
    }

    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        self.plain(writer, &format!("{value:?}"))
    }

    fn begin_string<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.text.clear();
        Ok(())
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, _: &mut W, fragment: &str) -> io::Result<()> {
        self.text.push_str(fragment);
        Ok(())
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, _: &mut W, escape: CharEscape) -> io::Result<()> {
        self.text.push(char::from(match escape {
            CharEscape::Quote => b'"',
            CharEscape::ReverseSolidus => b'\\',
            CharEscape::Solidus => b'/',
            CharEscape::Backspace => 0x08,
            CharEscape::FormFeed => 0x0c,
            CharEscape::LineFeed => b'\n',
            CharEscape::CarriageReturn => b'\r',
            CharEscape::Tab => b'\t',
            CharEscape::AsciiControl(byte) => byte,
        }));
        Ok(())
    }

    fn end_string<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        let text = std::mem::take(&mut self.text);
        if needs_no_quotes(&text) {
            return self.plain(writer, &text);
        }
        // JSON's quoted text is YAML's as well
        self.plain(writer, &serde_json::to_string(&text)?)
    }

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.lists += 1;
        self.plain(writer, "[")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.lists -= 1;
        writer.write_all(b"]")
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.lists > 0 {
            return self.plain(writer, "{");
        }
        self.depth += 1;
        self.empty = true;
        Ok(())
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if self.lists > 0 {
            return writer.write_all(if first { b" " } else { b", " });
        }
        if std::mem::replace(&mut self.begun, true) {
            write!(writer, "\n{:indent$}", "", indent = 2 * (self.depth - 1))?;
        }
        (self.empty, self.after_colon) = (false, false);
        Ok(())
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.after_colon = true;
        writer.write_all(b":")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.lists > 0 {
            return writer.write_all(b" }");
        }
        self.depth -= 1;
        if std::mem::take(&mut self.empty) {
            self.plain(writer, "{}")?;
        }
        Ok(())
    }
}

/// Whether YAML reads `text` as this very text when it stands without quotes; in doubt it does not.
fn needs_no_quotes(text: &str) -> bool {
    const OTHER_MEANINGS: [&str; 11] = [
        "true", "false", "null", "yes", "no", "on", "off", "y", "n", "inf", "nan",
    ];
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic());
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let word = starts_well && text.chars().all(inner) && !OTHER_MEANINGS.contains(&&*text.to_ascii_lowercase());
    word || is_quantity(text)
}

/// `30s`, `20MB`: digits, then letters that no number has.
fn is_quantity(text: &str) -> bool {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    unit.len() < text.len()
        && matches!(
            unit,
            "ms" | "s" | "m" | "h" | "MB" | "GB" | "KB" | "KiB" | "MiB" | "GiB"
        )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Serialize;
    use serde_json::json;

    use super::super::raw::{self, Value};
    use super::*;

    fn yaml(value: &impl Serialize) -> String {
        let mut text = Vec::new();
        let mut serializer = serde_json::Serializer::with_formatter(&mut text, Yaml::default());
        value.serialize(&mut serializer).expect("is written");
        String::from_utf8(text).expect("is text")
    }

    #[test]
    fn sections_are_blocks_and_lists_stand_on_one_line() {
        let value = json!({
            "a": { "b": ["x", "1", 2], "c": {}, "d": [] }, "e": null, "f": true, "g": "30s",
            "h": [{ "i": -1, "j": [{}] }, 1.5], "k": 1.0,
        });
        let lines = [
            "a:",
            "  b: [x, \"1\", 2]",
            "  c: {}",
            "  d: []",
            "e: null",
            "f: true",
            "g: 30s",
            "h: [{ i: -1, j: [{ }] }, 1.5]",
            "k: 1.0",
        ];
        assert_eq!(yaml(&value), lines.join("\n"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_as_it_was(text in r"(\PC{0,12}|[a-z0-9.:#/-]{1,6}|[ \n\t\\'-]{0,4})") {
            let document = raw::parse(&yaml(&json!({ "key": { text.as_str(): [text.as_str()] } })));
            let document = document.expect("is YAML");
            let Value::Map(top) = document.value else { panic!("no section") };
            let Value::Map(section) = &top[0].1.value else { panic!("no section") };
            prop_assert_eq!(&section[0].0, &text);
            let Value::List(items) = &section[0].1.value else { panic!("no list") };
            prop_assert!(matches!(&items[0].value, Value::Text(read) if *read == text));
        }
    }
}

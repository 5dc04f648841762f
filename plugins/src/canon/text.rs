//! The canon as a model reads it. Pure: the same files give the same bytes.

/// The most characters of one file.
pub(super) const FILE_LIMIT: usize = 20_000;
/// The most characters of all files together.
const TOTAL_LIMIT: usize = 60_000;
/// With less room than this a file is left out, not begun.
const LEAST: usize = 64;

/// What a workspace says of itself, as it goes into prompts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Canon {
    /// The text.
    pub(super) text: String,
    /// Tells one version from another, in logs.
    pub(super) hash: u64,
}

impl Canon {
    fn new(text: String) -> Self {
        Self {
            hash: fnv(text.as_bytes()),
            text,
        }
    }
}

/// What the limits took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    Cut,
    LeftOut,
}

/// Puts files together, each under a line with its name; blank ones say nothing. Tells what was lost of which file. What is
/// lost is also said in the text, so that a model knows that there is more.
pub(super) fn compose<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> (Option<Canon>, Vec<(&'a str, Loss)>) {
    let (mut text, mut losses, mut room) = (String::new(), Vec::new(), TOTAL_LIMIT);
    for (name, whole) in files {
        let whole = whole.trim_start_matches('\u{feff}').trim();
        if whole.is_empty() {
            continue;
        }
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        if room < LEAST {
            losses.push((name, Loss::LeftOut));
            text.push_str(&format!(
                "[workspace canon: {name} is left out, there is no room for it]"
            ));
            continue;
        }
        let limit = FILE_LIMIT.min(room);
        let end = whole.char_indices().nth(limit).map(|(end, _)| end);
        let part = &whole[..end.unwrap_or(whole.len())];
        room -= part.chars().count();
        text.push_str(&format!("[workspace canon: {name}]\n{}", part.trim_end()));
        if end.is_some() {
            losses.push((name, Loss::Cut));
            text.push_str(&format!(
                "\n[workspace canon: {name} goes on, cut after {limit} characters]"
            ));
        }
    }
    ((!text.is_empty()).then(|| Canon::new(text)), losses)
}

/// FNV-1a: the same on every machine and in every release.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn composed(files: &[(&str, &str)]) -> (String, usize) {
        let (canon, losses) = compose(files.iter().copied());
        (canon.map(|canon| canon.text).unwrap_or_default(), losses.len())
    }

    #[test]
    fn each_file_stands_under_its_name() {
        let (text, lost) = composed(&[("A.md", "\u{feff}one\r\ntwo\n\n"), ("b/C.md", " \n"), ("D.md", "three")]);
        assert_eq!(
            text,
            "[workspace canon: A.md]\none\r\ntwo\n\n[workspace canon: D.md]\nthree"
        );
        assert_eq!(lost, 0);
    }

    #[test]
    fn nothing_to_say_is_no_canon() {
        assert_eq!(compose([("A.md", "\n \t")].into_iter()), (None, vec![]));
    }

    #[test]
    fn what_is_cut_is_said() {
        let long = "ü".repeat(FILE_LIMIT + 1);
        let files = [("A", &*long), ("B", &*long), ("C", &*long), ("D", "short"), ("E", "")];
        let (canon, losses) = compose(files.into_iter());
        assert_eq!(
            losses,
            [
                ("A", Loss::Cut),
                ("B", Loss::Cut),
                ("C", Loss::Cut),
                ("D", Loss::LeftOut)
            ]
        );
        let text = canon.expect("canon").text;
        assert_eq!(text.matches('ü').count(), TOTAL_LIMIT);
        assert!(text.contains("[workspace canon: A goes on, cut after 20000 characters]"));
        assert!(text.ends_with("[workspace canon: D is left out, there is no room for it]"));
    }

    #[test]
    fn a_file_of_just_the_limit_is_whole() {
        assert_eq!(composed(&[("A", &"x".repeat(FILE_LIMIT))]).1, 0);
    }

    proptest! {
        #[test]
        fn the_text_is_bounded_and_has_no_blank_ends(files in proptest::collection::vec((0..30_000_usize, ".{0,40}"), 0..6)) {
            let files: Vec<String> = files.into_iter().map(|(length, end)| "a".repeat(length) + &end).collect();
            let named = || files.iter().map(|text| ("N", &**text));
            let (canon, _) = compose(named());
            let text = canon.map(|canon| canon.text).unwrap_or_default();
            prop_assert!(text.chars().count() <= TOTAL_LIMIT + 6 * 200);
            prop_assert_eq!(text.trim(), &text);
            prop_assert_eq!(compose(named()).0.map(|canon| canon.text).unwrap_or_default(), text);
        }
    }
}

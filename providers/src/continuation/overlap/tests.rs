use proptest::prelude::*;

use super::*;

/// What the client has read in the end, when the continuation comes in pieces that end at these places.
fn joined_in_pieces(text: &str, continuation: &str, cuts: &[usize]) -> String {
    let mut overlap = Overlap::new(text);
    let (mut joined, mut from) = (text.to_owned(), 0);
    for cut in cuts.iter().copied().chain([continuation.len()]) {
        if cut >= from && continuation.is_char_boundary(cut) {
            joined += &overlap.push(&continuation[from..cut]);
            from = cut;
        }
    }
    joined + &overlap.finish()
}

fn joined(text: &str, continuation: &str) -> String {
    joined_in_pieces(text, continuation, &[])
}

#[test]
fn what_goes_on_exactly_loses_nothing() {
    for (text, continuation) in [
        ("Once upon", " a time"),
        ("Once upo", "n a time"),
        ("Once upon ", "a time"),
        ("I saw the", " the dog"),
        ("I saw the ", "the dog"),
        ("It was very, very", " very, very cold"),
        ("0, 0, 0, 0, 0, 0, 0,", " 0, 0, 0, 0, 0, 0, 0, 1"),
        ("| - | - | - | - | - |\n", "| - | - | - | - | - |\n"),
        ("1", "1"),
        ("#", "# Title"),
        ("Ha", "ha"),
        ("100", "000"),
        ("", "Once"),
        ("  ", "Once"),
    ] {
        assert_eq!(joined(text, continuation), [text, continuation].concat());
    }
}

#[test]
fn what_is_repeated_is_taken_out() {
    for (text, continuation, whole) in [
        (
            "He took the old brass key and",
            "took the old brass key and left",
            "He took the old brass key and left",
        ),
        (
            "He took the old brass key and",
            " the old brass key and left",
            "He took the old brass key and left",
        ),
        (
            "He took the old brass k",
            "the old brass key",
            "He took the old brass key",
        ),
        (
            "He knew the harbour the old keeper",
            " the harbour the old keeper had left",
            "He knew the harbour the old keeper had left",
        ),
        ("Let me", "Let me see", "Let me see"),
        ("The", "The capital", "The capital"),
        ("A most beauti", "beautiful day", "A most beautiful day"),
        ("Sure, ", "Sure, here it is", "Sure, here it is"),
        (
            "- one two\n- three four five",
            "\n\n- one two\n- three four five six",
            "- one two\n- three four five six",
        ),
        ("我说今天天气很好", "今天天气很好，我们", "我说今天天气很好，我们"),
    ] {
        assert_eq!(joined(text, continuation), whole, "{text:?} + {continuation:?}");
    }
}

#[test]
fn white_space_that_no_model_was_told_is_not_given_twice() {
    for (text, continuation, whole) in [
        ("One.\n", "\n\nTwo.", "One.\n\nTwo."),
        ("One. ", " Two.", "One. Two."),
        ("One.\n\n", "Two.", "One.\n\nTwo."),
        ("One.\n", " Two.", "One.\n Two."),
        ("x = 1\n    ", "    return x", "x = 1\n    return x"),
        ("x = 1\n    ", "\n        return x", "x = 1\n        return x"),
        ("x = 1\n    ", "        return x", "x = 1\n        return x"),
    ] {
        assert_eq!(joined(text, continuation), whole);
    }
}

#[test]
fn a_continuation_that_says_nothing_new_adds_nothing() {
    let text = "Once upon a time there was a king.";
    assert_eq!(joined(text, text), text);
    assert_eq!(joined(text, "upon a time there was a king."), text);
}

#[test]
fn a_piece_from_the_middle_is_no_repetition() {
    let text = "Once upon a time there was a king who had a cook.";
    assert_eq!(
        joined(text, " there was a king who"),
        [text, " there was a king who"].concat()
    );
}

#[test]
fn no_more_is_held_than_there_was_of_the_text() {
    let mut overlap = Overlap::new("a text");
    let space = overlap.push(&" ".repeat(100_000));
    assert_eq!(space.len(), 100_000);
    let mut overlap = Overlap::new(&"ab ".repeat(1000));
    assert!(!overlap.push(&"ab ".repeat(2000)).is_empty());
}

/// Words that all differ, with what stands between them.
fn text(words: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    let word = (
        prop::sample::select(vec!["a", "zu", "straße", "Ω", "end.", "«so»"]),
        prop::sample::select(vec![" ", "\n", ", ", "\n\n"]),
    );
    prop::collection::vec(word, words).prop_map(|words| {
        let word = |(at, (word, space)): (usize, &(&str, &str))| format!("{word}{at}x{space}");
        words.iter().enumerate().map(word).collect()
    })
}

/// The nearest place from which a text can be cut.
fn place(text: &str, at: prop::sample::Index) -> usize {
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    places[at.index(places.len())]
}

fn word_starts(text: &str) -> Vec<usize> {
    let mut before = ' ';
    let mut starts = Vec::new();
    for (at, c) in text.char_indices() {
        if before.is_whitespace() && !c.is_whitespace() {
            starts.push(at);
        }
        before = c;
    }
    starts
}

proptest! {
    #[test]
    fn the_joined_text_is_the_whole_text_however_it_is_gone_on_with(
        whole in text(6..120),
        at: prop::sample::Index,
        back in 0_usize..50,
        cuts in prop::collection::vec(0_usize..2000, 0..40),
    ) {
        let cut = place(&whole, at);
        let told = &whole[..cut];
        let starts = word_starts(told);
        let mut cuts = cuts;
        cuts.sort_unstable();
        // exactly, from the white space before the cut, some words back, from the beginning
        let mut froms = vec![told.trim_end().len()];
        if !whole[cut..].starts_with(char::is_whitespace) {
            froms.push(cut);
        }
        if starts.len() >= 6 {
            froms.extend([0, starts[starts.len() - 6 - back.min(starts.len() - 6)]]);
        }
        for from in froms {
            prop_assert_eq!(&joined(told, &whole[from..]), &whole);
            prop_assert_eq!(&joined_in_pieces(told, &whole[from..], &cuts), &whole);
        }
    }

    #[test]
    fn a_repetition_may_be_laid_out_otherwise(whole in text(8..40), at: prop::sample::Index) {
        let cut = place(&whole, at);
        prop_assume!(word_starts(&whole[..cut]).len() >= 6);
        let joined = joined(&whole[..cut], &format!("\n\n  {}", whole.split_whitespace().collect::<Vec<_>>().join("  ")));
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        prop_assert_eq!(words(&joined), words(&whole));
    }

    #[test]
    fn a_few_words_again_and_again_lose_nothing(
        words in prop::collection::vec(prop::sample::select(vec!["the", "and", "so", "very"]), 2..60),
        at: prop::sample::Index,
    ) {
        let whole = words.join(" ");
        let spaces: Vec<usize> = whole.match_indices(' ').map(|(at, _)| at).collect();
        let cut = spaces[at.index(spaces.len())];
        prop_assert_eq!(joined(&whole[..cut], &whole[cut..]), whole);
    }

    #[test]
    fn the_pieces_make_no_difference(told: String, continuation: String, cuts in prop::collection::vec(0_usize..60, 0..9)) {
        let mut cuts = cuts;
        cuts.sort_unstable();
        prop_assert_eq!(joined_in_pieces(&told, &continuation, &cuts), joined(&told, &continuation));
    }

    #[test]
    fn an_end_of_the_continuation_always_comes_through(told in "[ab ]{0,30}", continuation in "[ab ]{0,30}") {
        let joined = joined(&told, &continuation);
        prop_assert!(joined.starts_with(&told) && continuation.ends_with(&joined[told.len()..]));
    }
}

//! "Did you mean": the known word that a mistyped one is closest to.

/// What to write instead of `word`: the closest candidate, else one of all of them.
pub(crate) fn instead_of<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    match closest(word, &candidates) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None if candidates.is_empty() => "remove it".to_owned(),
        None => format!("choose from: {}", candidates.join(", ")),
    }
}

/// The candidate that few edits make out of `word`: one edit for each three characters.
fn closest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let limit = word.chars().count().div_ceil(3);
    candidates
        .iter()
        .map(|candidate| (edit_distance(word, candidate), *candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions and replacements that turn one word into the other (Levenshtein).
fn edit_distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_the_word_that_was_meant() {
        let known = ["api", "base_url", "api_key", "api_keys", "models"];
        assert_eq!(instead_of("base_ulr", known), "did you mean `base_url`?");
        assert_eq!(instead_of("api_kye", known), "did you mean `api_key`?");
        assert_eq!(instead_of("model", known), "did you mean `models`?");
    }

    #[test]
    fn a_word_unlike_any_other_is_told_all_choices() {
        assert_eq!(instead_of("colour", ["pretty", "json"]), "choose from: pretty, json");
        assert_eq!(instead_of("colour", []), "remove it");
    }

    #[test]
    fn distance_counts_single_edits() {
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("same", "same"), 0);
    }
}

//! Text of a wanted length in which no part comes twice: what is missing, doubled or out of its place is seen.

/// Numbered words, `length` bytes in all, nothing of them special in JSON.
pub(crate) fn words(length: usize) -> String {
    let mut text = String::with_capacity(length + 12);
    for number in 0_u32.. {
        if text.len() >= length {
            break;
        }
        text.push('w');
        text.push_str(&number.to_string());
        text.push(' ');
    }
    text.truncate(length);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_the_length_that_is_wanted_and_no_word_twice() {
        for length in [0, 1, 2, 100, 4097] {
            assert_eq!(words(length).len(), length);
        }
        let text = words(2000);
        let mut words: Vec<&str> = text.split(' ').collect();
        let all = words.len();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), all);
    }
}

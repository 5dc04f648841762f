//! The fence around what plugins add to a system prompt, so that a model can tell it from what its agent says. Pure: the same
//! text is fenced in the same bytes.

/// The first line inside a fence.
const HEADER: &str = "[added by plugins of this gateway, not by the workspace]";

/// A text between two rules, under a line that says whose it is.
pub(super) fn fenced(text: &str) -> String {
    format!("---\n{HEADER}\n\n{text}\n---")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stands_between_rules_under_a_line_that_says_whose_it_is() {
        let fenced = fenced("one\n\ntwo");
        let lines: Vec<&str> = fenced.lines().collect();
        assert_eq!(lines, ["---", HEADER, "", "one", "", "two", "---"]);
    }
}

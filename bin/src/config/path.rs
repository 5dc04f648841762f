//! The way from the top of the document to one of its values.

use std::fmt;

/// A place in the document, written `agents.support.model.fallbacks[0]`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path(Vec<Segment>);

#[derive(Clone, Debug)]
enum Segment {
    Key(String),
    Index(usize),
}

impl Path {
    /// The value of `key` in the section here.
    pub(crate) fn key(&self, key: &str) -> Self {
        self.then(Segment::Key(key.to_owned()))
    }

    /// The item at `index` in the list here.
    pub(crate) fn index(&self, index: usize) -> Self {
        self.then(Segment::Index(index))
    }

    fn then(&self, segment: Segment) -> Self {
        Self(self.0.iter().cloned().chain([segment]).collect())
    }

    /// Whether this is the whole document.
    pub(crate) fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this is a place like `agents.*.plugins`, where `*` stands for any one key.
    pub(crate) fn matches(&self, pattern: &str) -> bool {
        let names: Vec<&str> = pattern.split('.').collect();
        let fits = |(segment, name): (&Segment, &str)| match segment {
            Segment::Key(key) => name == "*" || key == name,
            Segment::Index(_) => false,
        };
        names.len() == self.0.len() && self.0.iter().zip(names).all(fits)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Key(key) => {
                    let dot = if depth == 0 { "" } else { "." };
                    // a model's name has dots of its own
                    let quote = if key.contains('.') { "\"" } else { "" };
                    write!(f, "{dot}{quote}{key}{quote}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_like_the_document() {
        let list = Path::default().key("agents").key("support").key("fallbacks");
        assert_eq!(list.index(2).to_string(), "agents.support.fallbacks[2]");
        let model = Path::default().key("models").key("openai/gpt-5.5");
        assert_eq!(model.key("context").to_string(), r#"models."openai/gpt-5.5".context"#);
    }

    #[test]
    fn a_star_stands_for_exactly_one_key() {
        let path = Path::default().key("agents").key("support").key("plugins");
        assert!(path.matches("agents.*.plugins"));
        assert!(!path.matches("agents.*"));
        assert!(!path.matches("agents.plugins"));
        assert!(!path.matches("providers.*.plugins"));
        assert!(!path.index(0).matches("agents.*.plugins.*"));
    }
}

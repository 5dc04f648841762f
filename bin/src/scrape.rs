//! Reads a Prometheus scrape: enough to check one's own numbers.

/// The samples of one scrape.
#[derive(Clone, Debug, Default)]
pub struct Scrape(Vec<Sample>);

#[derive(Clone, Debug)]
struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

impl Scrape {
    /// Reads the text format; lines that are no samples are passed over.
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Self(lines.filter_map(sample).collect())
    }

    /// The sum of all samples of `name` that carry every one of `labels`.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.carrying(name, labels).map(|sample| sample.value).sum()
    }

    /// Whether there is a sample of `name` that carries every one of `labels`, whatever its value.
    pub fn has(&self, name: &str, labels: &[(&str, &str)]) -> bool {
        self.carrying(name, labels).next().is_some()
    }

    fn carrying(&self, name: &str, labels: &[(&str, &str)]) -> impl Iterator<Item = &Sample> {
        self.0.iter().filter(move |sample| {
            let has = |wanted: &(&str, &str)| sample.labels.iter().any(|(name, value)| (&**name, &**value) == *wanted);
            sample.name == name && labels.iter().all(has)
        })
    }

    /// A sum of whole counts.
    pub fn count(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "counters are whole and not negative"
        )]
        let count = self.sum(name, labels).round() as u64;
        count
    }

    /// How many series there are.
    pub fn series(&self) -> usize {
        self.0.len()
    }
}

fn sample(line: &str) -> Option<Sample> {
    let (series, value) = line.rsplit_once(' ')?;
    let value = value.parse().ok()?;
    let Some((name, rest)) = series.split_once('{') else {
        return Some(Sample {
            name: series.to_owned(),
            labels: Vec::new(),
            value,
        });
    };
    let labels = labels(rest.strip_suffix('}')?)?;
    Some(Sample {
        name: name.to_owned(),
        labels,
        value,
    })
}

fn labels(mut text: &str) -> Option<Vec<(String, String)>> {
    let mut labels = Vec::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"")?;
        let (value, rest) = quoted(rest)?;
        labels.push((name.to_owned(), value));
        text = rest.strip_prefix(',').unwrap_or(rest);
    }
    Some(labels)
}

/// The text up to the closing quote, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_summed_over_the_labels_that_are_not_named() {
        let scrape = Scrape::parse("# TYPE a counter\na{x=\"1\",y=\"2\"} 3\na{x=\"1\",y=\"3\"} 4\nb 9\n");
        assert_eq!(scrape.count("a", &[("x", "1")]), 7);
        assert_eq!(scrape.count("a", &[("y", "3")]), 4);
        assert_eq!(scrape.count("b", &[]), 9);
        assert_eq!(scrape.series(), 3);
        assert!(scrape.has("a", &[("y", "2")]) && !scrape.has("a", &[("y", "9")]));
    }

    #[test]
    fn quotes_commas_and_braces_in_a_label_are_part_of_it() {
        let scrape = Scrape::parse("a{x=\"p\\\"q,}\",y=\"z\"} 1\n");
        assert_eq!(scrape.count("a", &[("x", "p\"q,}"), ("y", "z")]), 1);
    }
}

//! Problems as text for people and as JSON for programs (`config check`, with and without `--json`).

use std::error::Error;
use std::fmt::Write;

use serde_json::{Value, json};

use super::{ConfigError, Problem};

/// Every problem with its place and a way out, ready to print. `file` is how the reader knows the configuration.
pub fn for_people(file: &str, error: &ConfigError) -> String {
    let problems = match error {
        ConfigError::Unreadable(source) => return format!("{file}: {error}: {source}\n"),
        ConfigError::Invalid(problems) => problems,
    };
    let noun = if problems.len() == 1 { "problem" } else { "problems" };
    let mut text = format!("{file}: {} {noun}\n", problems.len());
    for problem in problems {
        // writing to a string cannot fail
        let _ = write!(text, "\n{}", paragraph(file, problem));
    }
    text
}

fn paragraph(file: &str, problem: &Problem) -> String {
    let place = [problem.line, problem.column].into_iter().flatten();
    let place: String = place.map(|number| format!(":{number}")).collect();
    let place = if place.is_empty() {
        String::new()
    } else {
        format!("  ({file}{place})")
    };
    let found = problem.found.as_ref().map(|found| format!("  found: {found}\n"));
    let found = found.unwrap_or_default();
    format!("{problem}{place}\n{found}  fix:   {}\n", problem.fix)
}

/// `{ file, valid, problems: [{ path, line, column, found, message, fix }] }`; what is not known is left out.
///
/// A file that cannot be read has `error` in place of problems.
pub fn as_json(file: &str, outcome: Result<(), &ConfigError>) -> Value {
    match outcome {
        Ok(()) => json!({ "file": file, "valid": true, "problems": [] }),
        Err(ConfigError::Invalid(problems)) => {
            json!({ "file": file, "valid": false, "problems": problems })
        }
        Err(error @ ConfigError::Unreadable(_)) => {
            let cause = error.source().map(ToString::to_string);
            json!({ "file": file, "valid": false, "error": error.to_string(), "cause": cause })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn invalid() -> ConfigError {
        ConfigError::Invalid(vec![
            Problem {
                path: String::new(),
                line: Some(3),
                column: Some(7),
                found: None,
                message: "not valid YAML: tabs disallowed in this context".to_owned(),
                fix: "correct the file near this place".to_owned(),
            },
            Problem {
                path: "agents.support.model".to_owned(),
                line: Some(9),
                column: None,
                found: Some("opnai/gpt".to_owned()),
                message: "names a provider that is not configured".to_owned(),
                fix: "did you mean `openai`?".to_owned(),
            },
        ])
    }

    #[test]
    fn people_see_place_value_and_fix() {
        insta::assert_snapshot!(for_people("understudy.yaml", &invalid()), @r#"
    understudy.yaml: 2 problems

    not valid YAML: tabs disallowed in this context  (understudy.yaml:3:7)
      fix:   correct the file near this place

    agents.support.model: names a provider that is not configured  (understudy.yaml:9)
      found: opnai/gpt
      fix:   did you mean `openai`?
    "#);
    }

    #[test]
    fn programs_get_fields() {
        let json = as_json("understudy.yaml", Err(&invalid()));
        insta::assert_snapshot!(format!("{json:#}"), @r#"
    {
      "file": "understudy.yaml",
      "problems": [
        {
          "column": 7,
          "fix": "correct the file near this place",
          "line": 3,
          "message": "not valid YAML: tabs disallowed in this context",
          "path": ""
        },
        {
          "fix": "did you mean `openai`?",
          "found": "opnai/gpt",
          "line": 9,
          "message": "names a provider that is not configured",
          "path": "agents.support.model"
        }
      ],
      "valid": false
    }
    "#);
    }

    #[test]
    fn a_valid_file_has_an_empty_list() {
        let json = as_json("understudy.yaml", Ok(()));
        assert_eq!(json["valid"], true);
        assert_eq!(json["problems"], serde_json::json!([]));
    }

    #[test]
    fn an_unreadable_file_says_why() {
        let error = ConfigError::Unreadable(io::Error::from(io::ErrorKind::NotFound));
        assert!(for_people("understudy.yaml", &error).contains("not found"));
        assert_eq!(as_json("understudy.yaml", Err(&error))["valid"], false);
    }
}

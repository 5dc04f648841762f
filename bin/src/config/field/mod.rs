//! A cursor over the document that collects problems instead of stopping at one.
//!
//! Every reader returns `None` for a value that is absent or wrong; what is wrong has then been noted. The caller goes on
//! with a default, and whatever comes of it is thrown away if anything was noted.

use std::cell::RefCell;
use std::path::{Path as FilePath, PathBuf};

use understudy_messages::ids::Name;

use super::compiled::Compiled;
use super::path::Path;
use super::problem::Problem;
use super::raw::{Node, Value};
use super::{Environment, suggestion, unsupported};
pub(crate) use scalar::Text;

mod own;
mod scalar;

/// One reading of one document: the variables it may use and the problems found so far.
pub(crate) struct Reading<'a> {
    env: &'a Environment<'a>,
    folder: Option<&'a FilePath>,
    compiled: &'a Compiled,
    problems: RefCell<Vec<Problem>>,
}

impl<'a> Reading<'a> {
    /// A reading with variables, and plugins that may bring providers; relative paths begin at `folder`.
    pub(crate) fn new(env: &'a Environment<'a>, folder: Option<&'a FilePath>, compiled: &'a Compiled) -> Self {
        Self {
            env,
            folder,
            compiled,
            problems: RefCell::default(),
        }
    }

    /// The document as a whole.
    pub(crate) fn root<'r>(&'r self, node: &'r Node) -> Field<'r> {
        Field {
            reading: self,
            path: Path::default(),
            line: None,
            value: &node.value,
        }
    }

    /// What was found, in the order of the lines.
    pub(crate) fn into_problems(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| problem.line);
        problems
    }
}

/// A place in the document, whether or not anything stands there.
#[derive(Clone)]
pub(crate) struct Field<'a> {
    reading: &'a Reading<'a>,
    path: Path,
    line: Option<u64>,
    value: &'a Value,
}

impl<'a> Field<'a> {
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self.value, Value::Null)
    }

    pub(crate) fn is_list(&self) -> bool {
        matches!(self.value, Value::List(_))
    }

    pub(crate) fn is_section(&self) -> bool {
        matches!(self.value, Value::Map(_))
    }

    /// Notes a problem with what stands here, without showing it.
    pub(crate) fn refuse(&self, message: impl Into<String>, fix: impl Into<String>) {
        self.note(None, message.into(), fix.into());
    }

    /// Notes a problem with `text` and shows it as it was written.
    pub(crate) fn refuse_text(&self, text: &Text, message: impl Into<String>, fix: impl Into<String>) {
        self.note(Some(text.written.clone()), message.into(), fix.into());
    }

    fn note(&self, found: Option<String>, message: String, fix: String) {
        self.reading.problems.borrow_mut().push(Problem {
            path: self.path.to_string(),
            line: self.line,
            column: None,
            found,
            message,
            fix,
        });
    }

    fn wrong_kind(&self, wanted: &str) {
        let scalar = matches!(self.value, Value::Number(_) | Value::Bool(_));
        let fix = if scalar && wanted == "text" {
            "put it in quotes".to_owned()
        } else {
            format!("write {wanted} here")
        };
        let subject = if self.path.is_root() { "the file " } else { "" };
        self.refuse(format!("{subject}is {}, not {wanted}", self.value.kind()), fix);
    }

    fn child(&self, path: Path, node: &'a Node) -> Self {
        Self {
            reading: self.reading,
            path,
            line: Some(node.referenced.line()).filter(|line| *line > 0),
            value: &node.value,
        }
    }

    /// The items of a list; none when it is absent.
    pub(crate) fn items(&self) -> Vec<Field<'a>> {
        match self.value {
            Value::Null => Vec::new(),
            Value::List(nodes) => nodes
                .iter()
                .enumerate()
                .map(|(index, node)| self.child(self.path.index(index), node))
                .collect(),
            Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::Map(_) => {
                self.wrong_kind("a list");
                Vec::new()
            }
        }
    }

    /// The entries of a section whose keys are names that its author chose; none when it is absent.
    pub(crate) fn entries(&self) -> Vec<(Name, Field<'a>)> {
        self.map()
            .unwrap_or_default()
            .iter()
            .map(|(key, node)| (Name::from(&**key), self.child(self.path.key(key), node)))
            .collect()
    }

    /// Reads a section whose keys are known: those that `read` asks for. All others are problems.
    pub(crate) fn section(&self, read: impl FnOnce(&mut Section<'a>)) {
        let Some(entries) = self.map() else {
            return;
        };
        let mut section = Section {
            field: self.clone(),
            entries,
            known: Vec::new(),
        };
        read(&mut section);
        section.refuse_unknown_keys();
    }

    fn map(&self) -> Option<&'a [(String, Node)]> {
        match self.value {
            Value::Null => Some(&[]),
            Value::Map(entries) => Some(entries),
            Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::List(_) => {
                self.wrong_kind("a section");
                None
            }
        }
    }
}

/// A section while it is read.
pub(crate) struct Section<'a> {
    field: Field<'a>,
    entries: &'a [(String, Node)],
    known: Vec<&'static str>,
}

impl<'a> Section<'a> {
    /// The field named `name`, which is hereby known.
    pub(crate) fn key(&mut self, name: &'static str) -> Field<'a> {
        self.known.push(name);
        let path = self.field.path.key(name);
        match self.entries.iter().find(|(key, _)| key == name) {
            Some((_, node)) => self.field.child(path, node),
            None => Field {
                path,
                value: &Value::Null,
                ..self.field.clone()
            },
        }
    }

    /// Where relative paths begin, where that is known.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        self.field.reading.folder.map(FilePath::to_owned)
    }

    /// The plugins that are compiled in and may bring providers.
    pub(crate) fn compiled(&self) -> Compiled {
        self.field.reading.compiled.clone()
    }

    fn refuse_unknown_keys(&self) {
        let unknown = |(key, _): &&(String, Node)| !self.known.contains(&key.as_str());
        for (key, node) in self.entries.iter().filter(unknown) {
            let field = self.field.child(self.field.path.key(key), node);
            if unsupported::is_key(&field.path) {
                field.refuse(
                    format!("`{key}` is not supported yet"),
                    "remove it: this release would not act on it",
                );
            } else {
                field.refuse(
                    "is not a known key",
                    suggestion::instead_of(key, self.known.iter().copied()),
                );
            }
        }
    }
}

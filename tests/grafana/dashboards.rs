//! The dashboards as files: what is read of them.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{files, read};

const FOLDER: &str = "grafana/dashboards";

/// What stands for `$__rate_interval` and `$__range` where an expression is parsed: nobody writes these by hand.
pub(crate) const RATE_INTERVAL: &str = "4m17s";
pub(crate) const RANGE: &str = "1h23m";

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Dashboard {
    pub(crate) uid: String,
    pub(crate) title: String,
    pub(crate) editable: bool,
    pub(crate) schema_version: u32,
    pub(crate) links: Vec<Value>,
    pub(crate) annotations: Listed<Annotation>,
    pub(crate) templating: Listed<Variable>,
    pub(crate) panels: Vec<Panel>,
    #[serde(flatten)]
    pub(crate) more: Map<String, Value>,
}

#[derive(Clone, Deserialize)]
pub(crate) struct Listed<T> {
    pub(crate) list: Vec<T>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Annotation {
    pub(crate) name: String,
    pub(crate) datasource: DataSource,
    pub(crate) expr: String,
    pub(crate) title_format: String,
    pub(crate) text_format: String,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) label: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) query: Value,
    #[serde(default)]
    pub(crate) refresh: u32,
    #[serde(default)]
    pub(crate) multi: bool,
    #[serde(default)]
    pub(crate) all_value: String,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Panel {
    pub(crate) id: u32,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) title: String,
    #[serde(default)]
    pub(crate) description: String,
    pub(crate) grid_pos: Place,
    pub(crate) datasource: Option<DataSource>,
    #[serde(default)]
    pub(crate) field_config: Value,
    #[serde(default)]
    pub(crate) targets: Vec<Target>,
}

#[derive(Clone, Deserialize)]
pub(crate) struct Place {
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) w: u32,
    pub(crate) h: u32,
}

#[derive(Clone, Deserialize)]
pub(crate) struct DataSource {
    pub(crate) uid: String,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Target {
    pub(crate) expr: String,
    #[serde(default)]
    pub(crate) legend_format: String,
    #[serde(default)]
    pub(crate) instant: bool,
}

impl Dashboard {
    /// Every dashboard, by the name of its file.
    pub(crate) fn all() -> Vec<Self> {
        let names = files(FOLDER, ".json");
        names
            .iter()
            .map(|name| Self::parse(&read(&format!("{FOLDER}/{name}.json"))))
            .collect()
    }

    pub(crate) fn parse(text: &str) -> Self {
        serde_json::from_str(text).expect("a dashboard")
    }

    /// The panels that show something.
    pub(crate) fn shown(&self) -> impl Iterator<Item = &Panel> {
        self.panels.iter().filter(|panel| panel.kind != "row")
    }
}

/// An expression as Prometheus gets it, but for the variables that stand for labels' values.
pub(crate) fn substituted(expr: &str) -> String {
    expr.replace("$__rate_interval", RATE_INTERVAL)
        .replace("$__range", RANGE)
}

/// The labels that a text of Grafana's names: `{{label}}`.
pub(crate) fn named_in(text: &str) -> impl Iterator<Item = &str> {
    text.split("{{")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once("}}")?.0.trim()))
}

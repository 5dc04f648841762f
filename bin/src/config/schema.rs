//! `understudy config schema`: the JSON Schema of the configuration file, for editors and other checkers.

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use super::document::Document;

#[cfg(test)]
pub(crate) mod tests;

/// The schema of the whole file (JSON Schema 2020-12).
///
/// It knows every key, word and range. What takes the whole document to judge is left to `config check`: that
/// references resolve, that nothing is listed twice, that variables are set.
pub(crate) fn schema() -> Value {
    schema_of::<Document>()
}

/// The schema of a file whose sections and values are read as those of the configuration are.
pub(crate) fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let generator = settings.with_transform(Nullable).into_generator();
    generator.into_root_schema_for::<T>().to_value()
}

/// A key with nothing behind it counts as absent: wherever a key may be left out, its value may be null.
#[derive(Clone)]
struct Nullable;

impl Transform for Nullable {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let required = schema.get("required").cloned().unwrap_or_default();
        let is_required = |key: &str| required.as_array().is_some_and(|keys| keys.contains(&json!(key)));
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            let optional = properties.iter_mut().filter(|(key, _)| !is_required(key));
            optional.for_each(|(_, property)| or_null(property));
        }
        if let Some(entries) = schema.get_mut("additionalProperties") {
            or_null(entries);
        }
    }
}

fn or_null(schema: &mut Value) {
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        let null = json!({ "type": "null" });
        if !choices.contains(&null) {
            choices.push(null);
        }
    } else if let Some(kind @ Value::String(_)) = schema.get_mut("type") {
        *kind = json!([kind, "null"]);
    }
}

//! Settings that belong to somebody else: a plugin checks its own.

use serde_json::{Map, Number, Value as Json};
use understudy_messages::settings::PluginConfig;

use super::Field;
use crate::config::raw::Value;

impl Field<'_> {
    /// A section of any keys and values, once as it was written and once with its variables replaced.
    pub(crate) fn own_settings(&self) -> Option<PluginConfig> {
        let (mut value, mut written) = (Map::new(), Map::new());
        for (name, field) in self.map()? {
            let field = self.child(self.path.key(name), field);
            let (own, shown) = field.any();
            value.insert(name.clone(), own);
            written.insert(name.clone(), shown);
        }
        (!self.is_absent()).then_some(PluginConfig {
            value: value.into(),
            written: written.into(),
        })
    }

    /// What stands here, with its variables replaced, and as it was written.
    fn any(&self) -> (Json, Json) {
        let plain = |json: Json| (json.clone(), json);
        match self.value {
            Value::Null => plain(Json::Null),
            Value::Bool(value) => plain((*value).into()),
            Value::Number(number) => match number.parse::<Number>() {
                Ok(number) => plain(number.into()),
                Err(_) => {
                    self.refuse("is a number that JSON has none for", "write a finite number");
                    plain(Json::Null)
                }
            },
            Value::Text(written) => {
                let value = self.text().map_or(Json::Null, |text| text.value.into());
                (value, written.as_str().into())
            }
            Value::List(_) => {
                let (value, written): (Vec<Json>, Vec<Json>) = self.items().iter().map(Field::any).unzip();
                (value.into(), written.into())
            }
            Value::Map(_) => match self.own_settings() {
                Some(own) => (own.value, own.written),
                None => plain(Json::Null),
            },
        }
    }
}

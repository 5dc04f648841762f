//! Who owns which tool (contract §5.7): the first plugin that registers it.

use std::collections::BTreeMap;

use understudy_messages::ids::Name;
use understudy_plugins::Registration;
use understudy_plugins::manifest::Manifest;

/// Tools and their owners.
#[derive(Default)]
pub(super) struct Owners(BTreeMap<String, Name>);

impl Owners {
    /// Notes the tools of a plugin that stays as it is.
    pub(super) fn keep(&mut self, plugin: &Name, registration: &Registration) {
        let tools = registration
            .tools
            .iter()
            .map(|tool| (tool.name.clone(), plugin.clone()));
        self.0.extend(tools);
    }

    /// Takes those tools out of a registration that are not the plugin's to register, and says why. What is not compiled
    /// in has to declare its tools in its manifest.
    pub(super) fn admit(
        &mut self,
        plugin: &Name,
        manifest: Option<&Manifest>,
        registration: &mut Registration,
    ) -> Vec<String> {
        let mut refusals = Vec::new();
        registration.tools.retain(|tool| {
            let declared = manifest.is_none_or(|manifest| manifest.tools.contains(&tool.name));
            let owner = self.0.get(&tool.name);
            let why = match (declared, owner) {
                (false, _) => "is not among contracts.tools of its manifest".to_owned(),
                (true, Some(owner)) => format!("belongs to {owner}"),
                (true, None) => {
                    self.0.insert(tool.name.clone(), plugin.clone());
                    return true;
                }
            };
            refusals.push(format!("tool {} is refused: it {why}", tool.name.escape_debug()));
            false
        });
        for tool in &mut registration.tools {
            tool.replay_safe |= manifest.is_some_and(|manifest| manifest.replay_safe.contains(&tool.name));
        }
        refusals
    }
}

/// Tools that a manifest promises and nobody registered.
pub(super) fn absent(manifest: Option<&Manifest>, registration: &Registration) -> Vec<String> {
    let there = |name: &str| registration.tools.iter().any(|tool| tool.name == name);
    let declared = manifest.into_iter().flat_map(|manifest| &manifest.tools);
    let absent = declared.filter(|name| !there(name)).map(|name| {
        let name = name.escape_debug();
        format!("declares the tool {name} and has not registered it")
    });
    absent.collect()
}

#[cfg(test)]
mod tests {
    use understudy_plugins::ToolRegistration;

    use super::*;

    fn registering(tools: &[&str]) -> Registration {
        let tool = |name: &&str| ToolRegistration {
            name: (*name).to_owned(),
            ..ToolRegistration::default()
        };
        Registration {
            tools: tools.iter().map(tool).collect(),
            ..Registration::default()
        }
    }

    #[test]
    fn the_second_owner_of_a_tool_is_refused_and_the_first_one_named_case_t39() {
        let mut tools = Owners::default();
        let (mut first, mut second) = (registering(&["read"]), registering(&["read", "write"]));
        assert!(tools.admit(&"a".into(), None, &mut first).is_empty());
        let refusals = tools.admit(&"b".into(), None, &mut second);
        assert_eq!(refusals, ["tool read is refused: it belongs to a"]);
        assert_eq!((first.tools.len(), &*second.tools[0].name), (1, "write"));
    }

    #[test]
    fn an_outsiders_tool_is_declared_in_its_manifest() {
        let text =
            "{ id: 'p', main: 'a.js', contracts: { tools: ['read'] }, toolMetadata: { read: { replaySafe: true } } }";
        let (manifest, _) = Manifest::read(text).expect("a manifest");
        let mut registration = registering(&["read", "write"]);
        let refusals = Owners::default().admit(&"p".into(), Some(&manifest), &mut registration);
        assert_eq!(refusals.len(), 1);
        assert!(registration.tools.len() == 1 && registration.tools[0].replay_safe);
    }

    #[test]
    fn a_tool_that_is_promised_and_not_there_is_named() {
        let text = "{ id: 'p', main: 'a.js', contracts: { tools: ['read', 'write'] } }";
        let (manifest, _) = Manifest::read(text).expect("a manifest");
        let absent = absent(Some(&manifest), &registering(&["read"]));
        assert!(absent.len() == 1 && absent[0].contains("the tool write"), "{absent:?}");
    }
}

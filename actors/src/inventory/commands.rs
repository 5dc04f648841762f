//! Who has which command of the command line (contract §5.7): the first plugin that registers it.

use std::collections::BTreeMap;

use understudy_messages::ids::Name;
use understudy_plugins::Registration;

/// Commands and their owners.
#[derive(Default)]
pub(super) struct Commands(BTreeMap<String, Name>);

impl Commands {
    /// Notes the commands of a plugin that stays as it is.
    pub(super) fn keep(&mut self, plugin: &Name, registration: &Registration) {
        let names = registration.commands.iter().map(|command| command.name.clone());
        self.0.extend(names.map(|name| (name, plugin.clone())));
    }

    /// Takes those commands out of a registration that another plugin has, and says whose they are.
    pub(super) fn admit(&mut self, plugin: &Name, registration: &mut Registration) -> Vec<String> {
        let mut refusals = Vec::new();
        registration.commands.retain(|command| {
            let owner = self.0.entry(command.name.clone()).or_insert_with(|| plugin.clone());
            let own = owner == plugin;
            if !own {
                let name = command.name.escape_debug();
                refusals.push(format!("command {name} is refused: it belongs to {owner}"));
            }
            own
        });
        refusals
    }
}

#[cfg(test)]
mod tests {
    use understudy_plugins::registration::CommandRegistration;

    use super::*;

    fn registering(names: &[&str]) -> Registration {
        let mut registration = Registration::default();
        for name in names {
            let name = (*name).to_owned();
            registration.command(CommandRegistration {
                name,
                description: None,
            });
        }
        registration
    }

    #[test]
    fn the_second_owner_of_a_command_is_refused_and_the_first_one_named_case_t39() {
        let mut commands = Commands::default();
        let (first, mut second) = (registering(&["sync"]), registering(&["sync", "show"]));
        commands.keep(&"a".into(), &first);
        assert!(
            commands.admit(&"a".into(), &mut first.clone()).is_empty(),
            "it is its own"
        );
        let refusals = commands.admit(&"b".into(), &mut second);
        assert_eq!(refusals, ["command sync is refused: it belongs to a"]);
        assert_eq!((second.commands.len(), &*second.commands[0].name), (1, "show"));
    }
}

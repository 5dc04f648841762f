//! When a plugin is needed, and why (contract §5.6): by what its manifest hints at, and by what it owns. Pure.
//!
//! Hints narrow only what is on without anybody having named it: a plugin that the configuration names starts with the
//! gateway. One that is narrowed stays unloaded until settings ask for what it hints at ([`narrow`]). Channels and agent
//! harnesses have nothing to apply to here.

mod asked;

use std::fmt;

use serde_json::{Map, Value};
use understudy_messages::ids::Name;

use crate::enablement::Cause;
use crate::manifest::Manifest;

pub use self::asked::Asked;

/// What a plugin may be needed for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The gateway starts.
    Startup,
    /// A command of the command line.
    Command(String),
    /// A provider.
    Provider(String),
    /// A path of the API listener.
    Route(String),
    /// Anything that can do this.
    Capability(Capability),
}

/// What a plugin can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// It answers for models.
    Provider,
    /// It has tools.
    Tool,
    /// It has hooks.
    Hook,
}

impl Capability {
    const ALL: [Self; 3] = [Self::Provider, Self::Tool, Self::Hook];

    /// As manifests spell it.
    pub const fn as_label(self) -> &'static str {
        match self {
            Self::Provider => "provider",
            Self::Tool => "tool",
            Self::Hook => "hook",
        }
    }
}

/// Why a plugin is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The configuration names it.
    EnabledByName,
    /// It is on by default and hints at nothing.
    OnByDefault,
    /// It is on by default, and the configuration says something of it.
    ConfiguredEntry,
    /// It wants to start with the gateway.
    StartupHint,
    /// It hints at a place in the configuration where something stands.
    ConfigPathHint,
    /// It hints at the command.
    CommandHint,
    /// It has the command.
    CommandOwner,
    /// It has another name for a command.
    CommandAlias,
    /// It hints at the provider.
    ProviderHint,
    /// It has the provider.
    ProviderOwner,
    /// It hints at the route.
    RouteHint,
    /// It hints at the capability.
    CapabilityHint,
    /// It declares tools.
    ToolContract,
    /// It declares hooks.
    HookOwner,
}

impl Why {
    /// The contract's label.
    pub const fn as_label(self) -> &'static str {
        match self {
            Self::EnabledByName => "enabled-by-name",
            Self::OnByDefault => "on-by-default",
            Self::ConfiguredEntry => "configured-entry",
            Self::StartupHint => "activation-startup-hint",
            Self::ConfigPathHint => "activation-config-path-hint",
            Self::CommandHint => "activation-command-hint",
            Self::CommandOwner => "manifest-cli-command-owner",
            Self::CommandAlias => "manifest-command-alias",
            Self::ProviderHint => "activation-provider-hint",
            Self::ProviderOwner => "manifest-provider-owner",
            Self::RouteHint => "activation-route-hint",
            Self::CapabilityHint => "activation-capability-hint",
            Self::ToolContract => "manifest-tool-contract",
            Self::HookOwner => "manifest-hook-owner",
        }
    }
}

/// Of some plugins, those that are needed for something, each with its reasons. One that is off is never needed.
pub fn plan<'a>(
    trigger: &Trigger,
    plugins: impl IntoIterator<Item = (Cause, &'a Manifest)>,
) -> Vec<(&'a Name, Vec<Why>)> {
    let needed = plugins.into_iter().filter_map(|(cause, manifest)| {
        let reasons = reasons(trigger, cause, Some(manifest));
        (!reasons.is_empty()).then_some((&manifest.id, reasons))
    });
    needed.collect()
}

/// What is on by default and waits for something that nobody asks for is not loaded; any other decision stands.
pub fn narrow(cause: Cause, id: &str, manifest: Option<&Manifest>, asked: &Asked) -> Cause {
    match cause {
        Cause::BundledDefaultEnablement if at_startup(cause, id, manifest, asked).is_empty() => Cause::AwaitsActivation,
        _ => cause,
    }
}

/// Why a plugin starts with a gateway of which this is asked; empty when it does not.
pub fn at_startup(cause: Cause, id: &str, manifest: Option<&Manifest>, asked: &Asked) -> Vec<Why> {
    let mut reasons = reasons(&Trigger::Startup, cause, manifest);
    if cause != Cause::BundledDefaultEnablement || !reasons.is_empty() {
        return reasons;
    }
    let all = manifest.map(|manifest| &manifest.all);
    let hints = hints(manifest);
    let listed = |of: Option<&Map<String, Value>>, list: &str| of.map(|of| words(of, list)).unwrap_or_default();
    let any = |names: Vec<String>, asked: &dyn Fn(&str) -> bool| names.iter().any(|name| asked(name));
    let found = [
        (asked.says_something_of(id), Why::ConfiguredEntry),
        (
            any(listed(hints, "onProviders"), &|it| asked.has_provider(it)),
            Why::ProviderHint,
        ),
        (
            any(listed(all, "providers"), &|it| asked.has_provider(it)),
            Why::ProviderOwner,
        ),
        (
            any(listed(hints, "onConfigPaths"), &|it| asked.has_path(it)),
            Why::ConfigPathHint,
        ),
        (
            any(listed(hints, "onCapabilities"), &|it| asked.has_capability(it)),
            Why::CapabilityHint,
        ),
    ];
    reasons.extend(found.into_iter().filter_map(|(holds, why)| holds.then_some(why)));
    reasons
}

fn hints(manifest: Option<&Manifest>) -> Option<&Map<String, Value>> {
    manifest?.activation.as_ref()?.as_object()
}

/// All that a plugin is needed for, each with its reasons, as people read it; of one that waits, what it waits for.
pub fn explained(cause: Cause, id: &str, manifest: Option<&Manifest>, asked: &Asked) -> Vec<String> {
    let all = triggers(manifest).into_iter().filter_map(|trigger| {
        let reasons = match trigger {
            Trigger::Startup => at_startup(cause, id, manifest, asked),
            _ => reasons(&trigger, cause, manifest),
        };
        let labels: Vec<&str> = reasons.iter().map(|why| why.as_label()).collect();
        (!labels.is_empty()).then(|| format!("{trigger}: {}", labels.join(" ")))
    });
    all.collect()
}

/// Why one plugin is needed; empty when it is not.
pub fn reasons(trigger: &Trigger, cause: Cause, manifest: Option<&Manifest>) -> Vec<Why> {
    if !cause.enables() && cause != Cause::AwaitsActivation {
        return Vec::new();
    }
    let Some(manifest) = manifest else {
        return Vec::from_iter(starts(cause, true).filter(|_| *trigger == Trigger::Startup));
    };
    let all = &manifest.all;
    let hints = hints(Some(manifest));
    let hint = |list: &str, text: &str| hints.is_some_and(|hints| has(hints, list, text));
    let owns = |list: &str, text: &str| has(all, list, text);
    let found = match trigger {
        Trigger::Startup => {
            let on = cause.enables();
            let wants = on && hints.is_some_and(|hints| hints.get("onStartup") == Some(&Value::Bool(true)));
            let starts = starts(cause, hints.is_none());
            return starts.into_iter().chain(wants.then_some(Why::StartupHint)).collect();
        }
        Trigger::Command(name) => vec![
            (hint("onCommands", name), Why::CommandHint),
            (owns("cliCommands", name), Why::CommandOwner),
            (owns("commandAliases", name), Why::CommandAlias),
        ],
        Trigger::Provider(name) => vec![
            (hint("onProviders", name), Why::ProviderHint),
            (owns("providers", name), Why::ProviderOwner),
        ],
        Trigger::Route(path) => vec![(hint("onRoutes", path), Why::RouteHint)],
        Trigger::Capability(kind) => {
            let owner = match kind {
                Capability::Provider => (!words(all, "providers").is_empty(), Why::ProviderOwner),
                Capability::Tool => (!manifest.tools.is_empty(), Why::ToolContract),
                Capability::Hook => (!words(all, "hooks").is_empty(), Why::HookOwner),
            };
            vec![(hint("onCapabilities", kind.as_label()), Why::CapabilityHint), owner]
        }
    };
    found
        .into_iter()
        .filter_map(|(holds, why)| holds.then_some(why))
        .collect()
}

/// Why a plugin starts with the gateway, whatever it hints at; `open`: it hints at nothing.
fn starts(cause: Cause, open: bool) -> Option<Why> {
    match cause {
        Cause::EnabledInConfig | Cause::SelectedInAllowlist | Cause::SelectedContextEngineSlot => {
            Some(Why::EnabledByName)
        }
        Cause::BundledDefaultEnablement => open.then_some(Why::OnByDefault),
        Cause::PluginsDisabled
        | Cause::BlockedByDenylist
        | Cause::DisabledInConfig
        | Cause::NotInAllowlist
        | Cause::AwaitsActivation
        | Cause::BundledDisabledByDefault
        | Cause::OutsiderDisabledByDefault => None,
    }
}

/// Everything that a manifest hints at or owns.
fn triggers(manifest: Option<&Manifest>) -> Vec<Trigger> {
    let mut triggers = vec![Trigger::Startup];
    let Some(manifest) = manifest else { return triggers };
    let no_hints = Map::new();
    let hints = manifest
        .activation
        .as_ref()
        .and_then(Value::as_object)
        .unwrap_or(&no_hints);
    let named = |lists: [(&Map<String, Value>, &str); 2], make: fn(String) -> Trigger| {
        let mut names: Vec<String> = lists.iter().flat_map(|(of, list)| words(of, list)).collect();
        names.sort();
        names.dedup();
        names.into_iter().map(make).collect::<Vec<_>>()
    };
    let all = &manifest.all;
    triggers.extend(named([(hints, "onCommands"), (all, "cliCommands")], Trigger::Command));
    triggers.extend(named([(hints, "onProviders"), (all, "providers")], Trigger::Provider));
    triggers.extend(words(hints, "onRoutes").into_iter().map(Trigger::Route));
    triggers.extend(Capability::ALL.map(Trigger::Capability));
    triggers
}

fn has(of: &Map<String, Value>, list: &str, text: &str) -> bool {
    words(of, list).iter().any(|word| word == text)
}

/// The names in a list: of texts, of objects that have one, or of the keys of an object.
fn words(of: &Map<String, Value>, list: &str) -> Vec<String> {
    let name = |it: &Value| {
        let text = it
            .as_str()
            .or_else(|| it.get("name")?.as_str())
            .or_else(|| it.get("hook")?.as_str());
        text.map(str::to_owned)
    };
    match of.get(list) {
        Some(Value::Array(items)) => items.iter().filter_map(name).collect(),
        Some(Value::Object(entries)) => entries.keys().cloned().collect(),
        _ => Vec::new(),
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Startup => f.write_str("startup"),
            Self::Command(name) => write!(f, "command {name}"),
            Self::Provider(name) => write!(f, "provider {name}"),
            Self::Route(path) => write!(f, "route {path}"),
            Self::Capability(kind) => write!(f, "capability {}", kind.as_label()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFF: [Cause; 6] = [
        Cause::PluginsDisabled,
        Cause::BlockedByDenylist,
        Cause::DisabledInConfig,
        Cause::NotInAllowlist,
        Cause::BundledDisabledByDefault,
        Cause::OutsiderDisabledByDefault,
    ];
    const BY_NAME: [Cause; 2] = [Cause::EnabledInConfig, Cause::SelectedInAllowlist];

    fn manifest(id: &str, further: &str) -> Manifest {
        let text = format!("{{ id: '{id}', host: 'native', configSchema: {{}}, {further} }}");
        Manifest::read(&text).expect("a manifest").0
    }

    fn plugins() -> [Manifest; 4] {
        [
            manifest("plain", ""),
            manifest(
                "hinted",
                "activation: { onCommands: ['deploy'], onCapabilities: ['hook'] }",
            ),
            manifest(
                "owner",
                "providers: ['acme'], cliCommands: [{ name: 'deploy' }], commandAliases: [{ name: 'ship' }], \
                 contracts: { tools: ['read'] }, hooks: ['agent_end'], activation: {}",
            ),
            manifest(
                "starter",
                "activation: { onStartup: true, onProviders: ['acme'], onRoutes: ['/plugins/starter/'] }",
            ),
        ]
    }

    fn triggers_of_all() -> Vec<Trigger> {
        let named = [
            Trigger::Startup,
            Trigger::Command("deploy".to_owned()),
            Trigger::Command("ship".to_owned()),
            Trigger::Provider("acme".to_owned()),
            Trigger::Route("/plugins/starter/".to_owned()),
        ];
        named
            .into_iter()
            .chain(Capability::ALL.map(Trigger::Capability))
            .collect()
    }

    #[test]
    fn a_plan_has_those_who_hint_and_those_who_own_each_with_its_reasons_case_t42() {
        let plugins = plugins();
        let planned = |trigger: &Trigger| -> Vec<String> {
            let plugins = plugins
                .iter()
                .map(|manifest| (Cause::BundledDefaultEnablement, manifest));
            let planned = plan(trigger, plugins).into_iter();
            let told = planned.map(|(id, reasons)| format!("{id}: {:?}", reasons));
            told.collect()
        };
        let expected: [&[&str]; 8] = [
            &["plain: [OnByDefault]", "starter: [StartupHint]"],
            &["hinted: [CommandHint]", "owner: [CommandOwner]"],
            &["owner: [CommandAlias]"],
            &["owner: [ProviderOwner]", "starter: [ProviderHint]"],
            &["starter: [RouteHint]"],
            &["owner: [ProviderOwner]"],
            &["owner: [ToolContract]"],
            &["hinted: [CapabilityHint]", "owner: [HookOwner]"],
        ];
        for (trigger, expected) in triggers_of_all().iter().zip(expected) {
            assert_eq!(planned(trigger), expected, "{trigger}");
        }
    }

    #[test]
    fn without_anybody_who_is_on_every_plan_is_empty_case_t42() {
        let plugins = plugins();
        for trigger in triggers_of_all() {
            assert!(plan(&trigger, []).is_empty());
            for cause in OFF {
                assert!(
                    plan(&trigger, plugins.iter().map(|it| (cause, it))).is_empty(),
                    "{trigger} {cause:?}"
                );
            }
        }
    }

    #[test]
    fn a_plugin_that_is_named_starts_whatever_it_hints_at_case_t42() {
        let plugins = plugins();
        for cause in BY_NAME {
            let planned = plan(&Trigger::Startup, plugins.iter().map(|it| (cause, it)));
            assert_eq!(planned.len(), plugins.len());
            assert!(planned.iter().all(|(_, reasons)| reasons.contains(&Why::EnabledByName)));
        }
        let compiled_in = reasons(&Trigger::Startup, Cause::BundledDefaultEnablement, None);
        assert_eq!(compiled_in, [Why::OnByDefault]);
    }

    #[test]
    fn what_is_on_by_default_waits_for_what_it_hints_at_and_what_is_named_does_not_case_t42() {
        use Cause::{AwaitsActivation as Waits, BundledDefaultEnablement as OnByDefault};
        let nothing = Asked::default();
        let acme = Asked::for_tests(&["acme"], &["agents.support", "plugins.entries.Named"]);
        let of = |further: &str| manifest("p", further);
        for (further, before, after) in [
            ("", OnByDefault, OnByDefault),
            ("activation: { onStartup: true }", OnByDefault, OnByDefault),
            ("activation: { onCapabilities: ['hook'] }", OnByDefault, OnByDefault),
            ("activation: { onProviders: ['acme'] }", Waits, OnByDefault),
            ("activation: { onProviders: ['other'] }", Waits, Waits),
            ("activation: { onConfigPaths: ['agents.support'] }", Waits, OnByDefault),
            ("activation: { onConfigPaths: ['agents'] }", Waits, OnByDefault),
            ("activation: { onConfigPaths: ['agents.supp'] }", Waits, Waits),
            ("activation: {}, providers: ['acme']", Waits, OnByDefault),
            ("activation: {}, hooks: ['agent_end']", Waits, Waits),
            ("activation: { onCommands: ['deploy'], onRoutes: ['/'] }", Waits, Waits),
        ] {
            let plugin = of(further);
            let narrowed = |asked| narrow(OnByDefault, "p", Some(&plugin), asked);
            assert_eq!((narrowed(&nothing), narrowed(&acme)), (before, after), "{further}");
            for named in BY_NAME {
                assert_eq!(narrow(named, "p", Some(&plugin), &nothing), named);
            }
        }
        let waits = of("activation: {}");
        assert_eq!(
            narrow(OnByDefault, "named", Some(&waits), &acme),
            OnByDefault,
            "its entry says something"
        );
    }

    #[test]
    fn one_that_waits_is_told_with_what_it_waits_for() {
        let waits = manifest("p", "activation: { onProviders: ['acme'] }");
        let told = explained(Cause::AwaitsActivation, "p", Some(&waits), &Asked::default());
        assert_eq!(told, ["provider acme: activation-provider-hint"]);
    }

    #[test]
    fn people_are_told_all_that_a_plugin_is_needed_for() {
        let [_, _, owner, _] = plugins();
        let told = explained(Cause::EnabledInConfig, "owner", Some(&owner), &Asked::default());
        let expected = [
            "startup: enabled-by-name",
            "command deploy: manifest-cli-command-owner",
            "provider acme: manifest-provider-owner",
            "capability provider: manifest-provider-owner",
            "capability tool: manifest-tool-contract",
            "capability hook: manifest-hook-owner",
        ];
        assert_eq!(told, expected);
    }
}

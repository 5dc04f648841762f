//! Whether a plugin is loaded (contract §5.5). Pure; the first rule that applies decides.
//!
//! Rules about channels, the slot of memory and ownership of surfaces have nothing to apply to here. An outsider that nobody has named
//! stays off: finding a folder is not a reason to run it.

use understudy_messages::settings::PluginsSettings;

/// Where a plugin comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Compiled in.
    Bundled,
    /// A folder that the configuration names.
    Config,
}

impl Origin {
    /// As it is shown.
    pub const fn as_label(self) -> &'static str {
        match self {
            Self::Bundled => "bundled",
            Self::Config => "config",
        }
    }
}

/// Why a plugin is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// `plugins.enabled: false`.
    PluginsDisabled,
    /// It is in `deny`.
    BlockedByDenylist,
    /// Its entry says `enabled: false`.
    DisabledInConfig,
    /// Its context engine is the chosen one.
    SelectedContextEngineSlot,
    /// There is an `allow`, and it is not in it.
    NotInAllowlist,
    /// Its entry says `enabled: true`.
    EnabledInConfig,
    /// It is in `allow`.
    SelectedInAllowlist,
    /// It is built in and on unless somebody says otherwise.
    BundledDefaultEnablement,
    /// It is built in and on unless somebody says otherwise, and nothing that it waits for is asked for.
    AwaitsActivation,
    /// It is built in and off unless somebody says otherwise.
    BundledDisabledByDefault,
    /// It was found, and nobody has asked for it.
    OutsiderDisabledByDefault,
}

impl Cause {
    /// The contract's label.
    pub const fn as_label(self) -> &'static str {
        match self {
            Self::PluginsDisabled => "plugins-disabled",
            Self::BlockedByDenylist => "blocked-by-denylist",
            Self::DisabledInConfig => "disabled-in-config",
            Self::SelectedContextEngineSlot => "selected-context-engine-slot",
            Self::NotInAllowlist => "not-in-allowlist",
            Self::EnabledInConfig => "enabled-in-config",
            Self::SelectedInAllowlist => "selected-in-allowlist",
            Self::BundledDefaultEnablement => "bundled-default-enablement",
            Self::AwaitsActivation => "awaits-activation",
            Self::BundledDisabledByDefault => "bundled-disabled-by-default",
            Self::OutsiderDisabledByDefault => "outsider-disabled-by-default",
        }
    }

    /// Who has decided that: `explicit`, `default`, or `disabled` for one that is off.
    pub const fn enablement(self) -> &'static str {
        match self {
            Self::SelectedContextEngineSlot | Self::EnabledInConfig | Self::SelectedInAllowlist => "explicit",
            Self::BundledDefaultEnablement => "default",
            Self::PluginsDisabled
            | Self::BlockedByDenylist
            | Self::DisabledInConfig
            | Self::NotInAllowlist
            | Self::AwaitsActivation
            | Self::BundledDisabledByDefault
            | Self::OutsiderDisabledByDefault => "disabled",
        }
    }

    /// Whether the plugin is loaded.
    pub const fn enables(self) -> bool {
        match self {
            Self::SelectedContextEngineSlot
            | Self::EnabledInConfig
            | Self::SelectedInAllowlist
            | Self::BundledDefaultEnablement => true,
            Self::PluginsDisabled
            | Self::BlockedByDenylist
            | Self::DisabledInConfig
            | Self::NotInAllowlist
            | Self::AwaitsActivation
            | Self::BundledDisabledByDefault
            | Self::OutsiderDisabledByDefault => false,
        }
    }
}

/// Whether the plugin of this id and origin is loaded, and why. `default_on` counts for what is built in.
pub fn decide(settings: &PluginsSettings, id: &str, origin: Origin, default_on: bool) -> Cause {
    let is_it = |name: &understudy_messages::ids::Name| name.eq_ignore_ascii_case(id);
    let (allowed, denied) = (settings.allow.iter().any(is_it), settings.deny.iter().any(is_it));
    let said = settings.entry(id).and_then(|entry| entry.enabled);
    if !settings.enabled {
        Cause::PluginsDisabled
    } else if denied {
        Cause::BlockedByDenylist
    } else if said == Some(false) {
        Cause::DisabledInConfig
    } else if settings.slots.context_engine.as_ref().is_some_and(is_it) {
        Cause::SelectedContextEngineSlot
    } else if !settings.allow.is_empty() && !allowed {
        Cause::NotInAllowlist
    } else if said == Some(true) {
        Cause::EnabledInConfig
    } else {
        match (origin, allowed, default_on) {
            (Origin::Config, true, _) => Cause::SelectedInAllowlist,
            (Origin::Config, false, _) => Cause::OutsiderDisabledByDefault,
            (Origin::Bundled, _, true) => Cause::BundledDefaultEnablement,
            (Origin::Bundled, _, false) => Cause::BundledDisabledByDefault,
        }
    }
}

#[cfg(test)]
mod tests {
    use understudy_messages::ids::Name;
    use understudy_messages::settings::PluginEntry;

    use super::*;

    fn settings(enabled: bool, allow: &[&str], deny: &[&str], said: Option<bool>) -> PluginsSettings {
        let names = |list: &[&str]| list.iter().map(|&name| Name::from(name)).collect();
        let entry = PluginEntry {
            enabled: said,
            ..PluginEntry::default()
        };
        PluginsSettings {
            enabled,
            allow: names(allow),
            deny: names(deny),
            entries: [(Name::from("P"), entry)].into(),
            ..PluginsSettings::default()
        }
    }

    #[test]
    fn the_first_rule_that_applies_decides() {
        use Cause::*;
        use Origin::{Bundled, Config};
        let (on, off, silent) = (Some(true), Some(false), None);
        let p: &[&str] = &["p"];
        let q: &[&str] = &["q"];
        for (enabled, allow, deny, said, origin, default_on, expected) in [
            (false, p, &[][..], on, Config, false, PluginsDisabled),
            (true, p, p, on, Config, false, BlockedByDenylist),
            (true, p, &[][..], off, Config, false, DisabledInConfig),
            (true, q, &[][..], on, Config, false, NotInAllowlist),
            (true, q, &[][..], on, Bundled, true, NotInAllowlist),
            (true, p, &[][..], on, Config, false, EnabledInConfig),
            (true, &[][..], &[][..], on, Config, false, EnabledInConfig),
            (true, &[][..], q, on, Bundled, false, EnabledInConfig),
            (true, p, &[][..], silent, Config, false, SelectedInAllowlist),
            (true, &[][..], &[][..], silent, Config, true, OutsiderDisabledByDefault),
            (true, p, &[][..], silent, Bundled, false, BundledDisabledByDefault),
            (true, &[][..], &[][..], silent, Bundled, true, BundledDefaultEnablement),
            (true, &[][..], &[][..], silent, Bundled, false, BundledDisabledByDefault),
        ] {
            let settings = settings(enabled, allow, deny, said);
            assert_eq!(decide(&settings, "p", origin, default_on), expected, "{settings:?}");
        }
    }

    /// All combinations of what decides, and what is decided.
    fn all(check: impl Fn(&PluginsSettings, Option<bool>, Origin, bool, Cause)) {
        let lists: [&[&str]; 4] = [&[], &["p"], &["q"], &["q", "P"]];
        for enabled in [true, false] {
            for (allow, deny) in lists
                .iter()
                .flat_map(|allow| lists.iter().map(move |deny| (allow, deny)))
            {
                for said in [None, Some(true), Some(false)] {
                    for (origin, default_on) in [Origin::Bundled, Origin::Config]
                        .map(|it| [(it, true), (it, false)])
                        .concat()
                    {
                        let settings = settings(enabled, allow, deny, said);
                        let cause = decide(&settings, "p", origin, default_on);
                        assert_eq!(
                            cause,
                            decide(&settings, "P", origin, default_on),
                            "capitals make no difference"
                        );
                        check(&settings, said, origin, default_on, cause);
                    }
                }
            }
        }
    }

    #[test]
    fn whatever_is_said_the_tables_first_row_that_holds_decides_case_t40() {
        all(|settings, said, origin, default_on, cause| {
            let named = |list: &[Name]| list.iter().any(|name| name.eq_ignore_ascii_case("p"));
            let (allowed, denied) = (named(&settings.allow), named(&settings.deny));
            let bundled = origin == Origin::Bundled;
            let rows = [
                (!settings.enabled, Cause::PluginsDisabled),
                (denied, Cause::BlockedByDenylist),
                (said == Some(false), Cause::DisabledInConfig),
                (!settings.allow.is_empty() && !allowed, Cause::NotInAllowlist),
                (said == Some(true), Cause::EnabledInConfig),
                (!bundled && allowed, Cause::SelectedInAllowlist),
                (bundled && default_on, Cause::BundledDefaultEnablement),
                (bundled, Cause::BundledDisabledByDefault),
                (true, Cause::OutsiderDisabledByDefault),
            ];
            let expected = rows.iter().find(|(holds, _)| *holds).map(|(_, cause)| *cause);
            assert_eq!(Some(cause), expected, "{settings:?}");
        });
    }

    #[test]
    fn no_word_of_permission_overrules_a_refusal_and_no_outsider_is_on_unnamed_case_t40() {
        all(|settings, said, origin, _, cause| {
            let named = |list: &[Name]| list.iter().any(|name| name.eq_ignore_ascii_case("p"));
            if settings.switches_off("p") || (!settings.allow.is_empty() && !named(&settings.allow)) {
                assert!(!cause.enables(), "{settings:?}");
            }
            if origin == Origin::Config && said != Some(true) && !named(&settings.allow) {
                assert!(!cause.enables(), "{settings:?}");
            }
        });
    }

    #[test]
    fn whose_context_engine_is_chosen_is_on_whoever_is_allowed_but_not_where_it_is_switched_off() {
        use Cause::*;
        let decided = |enabled, allow: &[&str], deny: &[&str], said| {
            let mut settings = settings(enabled, allow, deny, said);
            settings.slots.context_engine = Some("P".into());
            decide(&settings, "p", Origin::Config, false)
        };
        assert_eq!(decided(true, &["q"], &[], None), SelectedContextEngineSlot);
        assert_eq!(decided(true, &[], &["p"], None), BlockedByDenylist);
        assert_eq!(decided(true, &[], &[], Some(false)), DisabledInConfig);
        assert_eq!(decided(false, &[], &[], None), PluginsDisabled);
    }

    #[test]
    fn only_four_causes_load_a_plugin() {
        use Cause::*;
        let on = [
            SelectedContextEngineSlot,
            EnabledInConfig,
            SelectedInAllowlist,
            BundledDefaultEnablement,
        ];
        let off = [
            PluginsDisabled,
            BlockedByDenylist,
            DisabledInConfig,
            NotInAllowlist,
            BundledDisabledByDefault,
            OutsiderDisabledByDefault,
        ];
        assert!(on.iter().all(|cause| cause.enables()) && !off.iter().any(|cause| cause.enables()));
    }
}

use std::sync::atomic::AtomicUsize;

use proptest::prelude::*;
use secrecy::SecretString;
use understudy_messages::catalog::{CatalogModel, Listed, Progress, Stage};
use understudy_messages::clock::Clock;

use super::*;
use crate::registry::testing::{reloading, serve, settings};
use crate::registry::{Published, Roster};
use crate::supervision::{Supervision, Tasks};
use crate::telemetry::Telemetry;

mod looks;

/// A list of these models, each with a window.
fn listing(models: &[(&str, Option<u64>)]) -> Listing {
    let mut listing = Listing::default();
    for (id, context) in models {
        listing.add(CatalogModel::new(&"open".into(), id, *context).expect("a name"));
    }
    listing
}

/// Settings in which `open` is asked for its list, and has this key.
fn listed(key: &str) -> Settings {
    changed(&settings(), "open", |open| {
        open.catalog = Some(Duration::from_secs(3600));
        open.api_keys = vec![SecretString::from(key)];
    })
}

fn changed(settings: &Settings, provider: &str, change: impl Fn(&mut ProviderSettings)) -> Settings {
    let mut settings = settings.clone();
    let mut provider = ProviderSettings::clone(&settings.providers[provider]);
    change(&mut provider);
    settings.providers.insert(provider.name.clone(), Arc::new(provider));
    settings
}

fn catalogs(settings: &Settings, before: &Catalogs) -> Catalogs {
    Catalogs::new(settings, &PluginSources::new(), before, Clock::movable().now())
}

/// What is known of `open`.
fn known(catalogs: &Catalogs) -> Option<Arc<Facts>> {
    catalogs.find("open").expect("is asked").facts()
}

fn accept(catalogs: &Catalogs, version: u64, listing: Listing) {
    catalogs.find("open").expect("is asked").accept(Facts {
        version,
        at: Clock::movable().now(),
        listing: Arc::new(listing),
    });
}

fn chain(roster: &Roster, model: &str) -> Option<String> {
    let cast = roster.cast(model, None).ok()?;
    Some(cast.candidates[0].model.to_string())
}

#[test]
fn only_those_that_are_to_be_asked_have_a_catalog() {
    let catalogs = catalogs(&listed("k"), &Catalogs::default());
    let asked: Vec<&str> = catalogs.iter().map(|catalog| &**catalog.provider()).collect();
    assert_eq!(asked, ["open"]);
    assert!(catalogs.get(0).is_none() && catalogs.get(2).is_some());
}

#[test]
fn an_unchanged_provider_keeps_its_catalog_and_another_key_keeps_what_was_known_until_a_new_list_comes() {
    let first = catalogs(&listed("one"), &Catalogs::default());
    accept(&first, 3, listing(&[("m", None)]));
    let same = catalogs(&listed("one"), &first);
    assert!(Arc::ptr_eq(first.get(2).expect("asked"), same.get(2).expect("asked")));
    let other = catalogs(&listed("two"), &first);
    assert_eq!(known(&other), known(&first));
    let (catalog, now) = (other.find("open").expect("asked"), Clock::movable().now());
    assert_eq!(
        catalog.step(Event::Tick, false, now),
        Some(Effect::Begin { run: 4 }),
        "due at once"
    );
    let moved = changed(&listed("one"), "open", |open| {
        open.base_url = "http://elsewhere".to_owned()
    });
    assert_eq!(known(&catalogs(&moved, &first)), None, "another place");
    let off = catalogs(&settings(), &first);
    assert_eq!(off.iter().count(), 0);
}

#[test]
fn a_list_makes_names_known_and_all_others_unknown() {
    let roster = Roster::new(Arc::new(listed("k"))).reading(catalogs(&listed("k"), &Catalogs::default()));
    assert_eq!(
        chain(&roster, "open/x").as_deref(),
        Some("open/x"),
        "there is no list yet"
    );
    accept(
        roster.catalogs(),
        1,
        listing(&[("new", None), ("vendor/m", None), ("shared", None), ("big", None)]),
    );
    assert_eq!(chain(&roster, "open/new").as_deref(), Some("open/new"));
    assert_eq!(chain(&roster, "open/x"), None);
    assert_eq!(
        chain(&roster, "open/any").as_deref(),
        Some("open/any"),
        "configuration names it"
    );
    assert_eq!(chain(&roster, "new").as_deref(), Some("open/new"));
    assert_eq!(chain(&roster, "vendor/m").as_deref(), Some("open/vendor/m"));
    assert_eq!(
        chain(&roster, "big").as_deref(),
        Some("a/big"),
        "configuration lists it elsewhere"
    );
    assert_eq!(chain(&roster, "shared"), None, "configuration lists it twice");
    let names: Vec<String> = roster.names().into_iter().map(|(name, _)| name).collect();
    assert!(names.contains(&"open/new".to_owned()) && !names.contains(&"open/x".to_owned()));
}

#[test]
fn a_bare_name_in_two_lists_and_one_that_begins_with_another_provider_stand_for_nothing() {
    let both = changed(&listed("k"), "b", |b| b.catalog = Some(Duration::from_secs(60)));
    let roster = Roster::new(Arc::new(both.clone())).reading(catalogs(&both, &Catalogs::default()));
    accept(roster.catalogs(), 1, listing(&[("twin", None), ("a/unheard-of", None)]));
    assert_eq!(chain(&roster, "twin").as_deref(), Some("open/twin"));
    assert_eq!(
        chain(&roster, "a/unheard-of"),
        None,
        "`a` has a list, and that is not in it"
    );
    let twin = Facts {
        version: 1,
        at: Clock::movable().now(),
        listing: Arc::new(listing(&[("twin", None)])),
    };
    roster.catalogs().find("b").expect("asked").accept(twin);
    assert_eq!(chain(&roster, "twin"), None);
    assert_eq!(
        chain(&roster, "b/twin").as_deref(),
        Some("b/twin"),
        "a list adds to what configuration lists"
    );
    assert_eq!(chain(&roster, "b/other"), None);
}

#[test]
fn a_list_that_was_cut_lets_other_names_pass() {
    let roster = Roster::new(Arc::new(listed("k"))).reading(catalogs(&listed("k"), &Catalogs::default()));
    let mut cut = listing(&[("m", None)]);
    cut.cut = true;
    accept(roster.catalogs(), 1, cut);
    assert_eq!(chain(&roster, "open/x").as_deref(), Some("open/x"));
}

#[test]
fn a_window_is_taken_from_the_list_where_configuration_is_silent() {
    let mut settings = listed("k");
    let own = understudy_messages::settings::ModelSettings {
        context: Some(7),
        ..Default::default()
    };
    let reference = understudy_messages::ids::ModelRef::new("open", "own");
    settings.models.insert(reference, own);
    let catalogs = catalogs(&settings, &Catalogs::default());
    let roster = Roster::new(Arc::new(settings)).reading(catalogs);
    accept(
        roster.catalogs(),
        1,
        listing(&[("own", Some(100)), ("any", Some(200)), ("new", Some(300))]),
    );
    let window = |model| {
        roster.cast(model, Some(&[])).expect("a cast").candidates[0]
            .settings
            .context
    };
    assert_eq!(
        [window("open/own"), window("open/any"), window("open/new")],
        [Some(7), Some(200), Some(300)]
    );
}

#[test]
fn what_ends_with_a_plugin_is_known_no_more_and_what_does_not_is_as_it_was_case_t14() {
    let source: Arc<dyn CatalogSource> = Arc::new(looks::Source::of("lab", |_, _| Box::pin(std::future::pending())));
    let sources = PluginSources::from([("open".into(), source)]);
    let (settings, now) = (listed("k"), Clock::movable().now());
    let owned = Catalogs::new(&settings, &sources, &Catalogs::default(), now);
    accept(&owned, 1, listing(&[("m", None)]));
    owned.withdraw(&["another".into()]);
    assert!(known(&owned).is_some() && !owned.is_withdrawn());
    owned.withdraw(&["lab".into()]);
    assert!(known(&owned).is_none() && owned.is_withdrawn());
    let after = Catalogs::new(&settings, &sources, &owned, now);
    assert!(known(&after).is_none() && !after.is_withdrawn(), "a new one begins");
    let configured = catalogs(&settings, &Catalogs::default());
    accept(&configured, 1, listing(&[("m", None)]));
    configured.withdraw(&["lab".into(), "open".into()]);
    assert!(known(&configured).is_some(), "configuration's own never goes");
}

#[test]
fn what_is_shown_of_lists_has_a_bound_and_what_configuration_names_is_always_shown() {
    let both = changed(&listed("k"), "b", |b| b.catalog = Some(Duration::from_secs(60)));
    let roster = Roster::new(Arc::new(both.clone())).reading(catalogs(&both, &Catalogs::default()));
    let configured = roster.names().len();
    for (provider, prefix) in [("b", "x"), ("open", "y")] {
        let mut listing = Listing::default();
        for place in 0..understudy_messages::catalog::MOST_MODELS {
            listing.add(CatalogModel::new(&provider.into(), &format!("{prefix}{place}"), None).expect("a name"));
        }
        roster.catalogs().find(provider).expect("asked").accept(Facts {
            version: 1,
            at: Clock::movable().now(),
            listing: Arc::new(listing),
        });
    }
    assert_eq!(roster.names().len(), configured + 10_000);
    assert_eq!(
        chain(&roster, "y9999").as_deref(),
        Some("open/y9999"),
        "known all the same"
    );
}

fn facts(version: Option<u64>) -> Option<Arc<Facts>> {
    let at = Clock::movable().now();
    let listing = Arc::new(listing(&[("m", version)]));
    version.map(|version| Arc::new(Facts { version, at, listing }))
}

proptest! {
    #[test]
    fn the_newest_list_stands_in_whatever_order_lists_come(versions in prop::collection::vec(1_u64..50, 1..20)) {
        let catalogs = catalogs(&listed("k"), &Catalogs::default());
        for version in &versions {
            accept(&catalogs, *version, listing(&[("m", Some(*version))]));
        }
        let newest = versions.iter().max().copied();
        let known = known(&catalogs).expect("known");
        prop_assert_eq!((Some(known.version), known.listing.find("m").and_then(|it| it.context)), (newest, newest));
    }

    #[test]
    fn two_lists_merge_to_the_same_whichever_comes_first(one: Option<u8>, two: Option<u8>, three: Option<u8>) {
        let [one, two, three] = [one, two, three].map(|it| facts(it.map(u64::from)));
        let version = |facts: Option<Arc<Facts>>| facts.map(|facts| facts.version);
        let merge = Facts::newest;
        prop_assert_eq!(version(merge(one.clone(), two.clone())), version(merge(two.clone(), one.clone())));
        let left = merge(merge(one.clone(), two.clone()), three.clone());
        prop_assert_eq!(version(left), version(merge(one.clone(), merge(two, three))));
        prop_assert_eq!(version(merge(one.clone(), one.clone())), version(one));
    }

    #[test]
    fn what_configuration_says_stands_whatever_providers_list(
        names in prop::collection::vec("(big|mid|shared|any|new|a/big|open/any|fast|support)", 0..12),
        windows in prop::collection::vec(1_u64..9, 12),
    ) {
        let plain = Roster::new(Arc::new(settings()));
        let roster = Roster::new(Arc::new(listed("k"))).reading(catalogs(&listed("k"), &Catalogs::default()));
        let models: Vec<_> = names.iter().zip(windows).map(|(name, window)| (name.as_str(), Some(window))).collect();
        accept(roster.catalogs(), 1, listing(&models));
        for model in ["fast", "support", "a/big", "big", "b/mid", "mid", "shared", "open/any", "a/unheard-of"] {
            prop_assert_eq!(chain(&roster, model), chain(&plain, model), "{}", model);
        }
    }
}

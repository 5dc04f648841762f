use secrecy::SecretString;
use understudy_messages::clock::Clock;
use understudy_messages::failure::{Cut, Failure, Reason};
use understudy_messages::settings::{Api, Bound, KeyOrder};

use super::*;
use crate::provider::ledger::Purpose;
use crate::provider::ledger::ladder::Phase;
use crate::registry::testing::settings;

/// The settings in which provider `a` has this key.
fn keyed(key: &str) -> Settings {
    let mut settings = settings();
    let changed = ProviderSettings {
        api_keys: vec![SecretString::from(key)],
        ..(*settings.providers[&Name::from("a")]).clone()
    };
    settings.providers.insert("a".into(), Arc::new(changed));
    settings
}

fn keys(provider: &mut ProviderSettings, keys: &[&str]) {
    provider.api_keys = keys.iter().map(|key| SecretString::from(*key)).collect();
}

/// The ledger of a provider before and after a change of it. Before, the model `x` rests on the first of the credentials, `y` on
/// the second, `z` on the third, and `broken` on all.
fn changed(credentials: &[&str], change: impl FnOnce(&mut ProviderSettings)) -> (Arc<Ledger>, Arc<Ledger>, Instant) {
    let (now, mut settings) = (Clock::movable().now(), settings());
    let mut provider = (*settings.providers[&Name::from("a")]).clone();
    keys(&mut provider, credentials);
    settings.providers.insert("a".into(), Arc::new(provider.clone()));
    let before = Ledgers::new(&settings, &Ledgers::default(), now);
    let fail = |model: &str, purpose: Purpose<'_>, reason: Reason| {
        let ticket = before.all[0].enter(&model.into(), purpose, now).expect("usable");
        let _settled = ticket.failed(&Failure::observed(reason, Cut::Answered), now);
    };
    for (credential, model) in (0..credentials.len()).zip(["x", "y", "z"]) {
        fail(model, Purpose::Retry { credential }, Reason::RateLimit);
    }
    for _ in 0..3 {
        fail("broken", Purpose::Fresh, Reason::ServerError);
    }
    change(&mut provider);
    settings.providers.insert("a".into(), Arc::new(provider));
    let after = Ledgers::new(&settings, &before, now);
    (before.all[0].clone(), after.all[0].clone(), now)
}

/// Whether a model rests on a credential.
fn rests(ledger: &Arc<Ledger>, model: &str, credential: usize, now: Instant) -> bool {
    let others: Vec<usize> = (0..9).filter(|other| *other != credential).collect();
    ledger
        .enter(&model.into(), Purpose::Rotate { used: &others }, now)
        .is_err()
}

#[test]
fn what_says_nothing_of_who_is_asked_for_what_changes_no_ledger() {
    let changes: [fn(&mut ProviderSettings); 5] = [
        |provider| provider.bound = Some(Bound::of_provider(3)),
        |provider| provider.models = Some(vec!["x".into()]),
        |provider| provider.key_order = KeyOrder::LeastUsed,
        |provider| provider.ask_usage = !provider.ask_usage,
        |provider| provider.catalog = Some(std::time::Duration::from_secs(60)),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let (first, second, now) = changed(&["one", "two"], change);
        assert!(Arc::ptr_eq(&first.account, &second.account), "{number}");
        assert!(Arc::ptr_eq(&first.record, &second.record), "{number}");
        assert!(Arc::ptr_eq(&first.uses[1], &second.uses[1]), "{number}");
        assert!(rests(&second, "x", 0, now) && rests(&second, "broken", 0, now));
    }
}

#[test]
fn a_changed_credential_clears_its_own_windows_and_no_others() {
    let (first, second, now) = changed(&["one", "two", "three"], |it| keys(it, &["two", "new", "three"]));
    assert!(rests(&second, "y", 0, now), "`two` is the first now");
    assert!(
        !rests(&second, "x", 0, now) && !rests(&second, "x", 1, now),
        "`one` is gone"
    );
    assert!(rests(&second, "z", 2, now));
    assert!(rests(&second, "broken", 1, now), "an outage ends by no credential");
    assert!(Arc::ptr_eq(&first.uses[1], &second.uses[0]));
    assert!(
        rests(&first, "x", 0, now),
        "turns of the generation before see what they saw"
    );
    let (_, second, now) = changed(&["one"], |it| keys(it, &["new"]));
    assert!(!rests(&second, "x", 0, now));
    let (_, second, now) = changed(&["one"], |it| keys(it, &[]));
    assert!(!rests(&second, "x", 0, now));
}

#[test]
fn a_probe_that_is_out_while_credentials_change_holds_up_nobody() {
    let (first, _, now) = changed(&["one", "two"], |_| {});
    let due = now + std::time::Duration::from_secs(31);
    let probe = first.enter(&"x".into(), Purpose::Fresh, due).expect("due");
    assert!(probe.is_probe());
    let moved = lock(&first.account.windows).moved(&[Some(0)]);
    assert!(moved.all().all(|(_, ladder)| ladder.phase(due) == Phase::Due));
}

#[test]
fn another_place_or_another_spread_is_clean() {
    type Change = fn(&mut ProviderSettings);
    let changes: [(Change, bool); 4] = [
        (|provider| provider.base_url = "http://elsewhere".into(), false),
        (|provider| provider.api = Api::Gemini, false),
        (|provider| provider.aggregator = !provider.aggregator, true),
        (|provider| provider.quota_group = Some("team".into()), true),
    ];
    for (number, (change, is_there)) in changes.into_iter().enumerate() {
        let (_, second, now) = changed(&["one"], change);
        assert!(!rests(&second, "x", 0, now), "{number}");
        assert_eq!(rests(&second, "broken", 0, now), is_there, "{number}");
    }
}

#[test]
fn a_provider_is_known_by_its_name_and_not_by_its_place() {
    let now = Clock::movable().now();
    let first = Ledgers::new(&keyed("one"), &Ledgers::default(), now);
    let mut moved = keyed("one");
    moved.providers.remove("b");
    let second = Ledgers::new(&moved, &first, now);
    assert!(Arc::ptr_eq(&first.all[2].record, &second.all[1].record));
    assert!(!Arc::ptr_eq(&first.all[1].record, &second.all[1].record));
}

#[test]
fn the_account_of_a_group_goes_on_by_its_name() {
    let now = Clock::movable().now();
    let grouped = |key: &str| {
        let mut settings = keyed(key);
        let mut changed = (*settings.providers[&Name::from("a")]).clone();
        changed.quota_group = Some("team".into());
        settings.providers.insert("a".into(), Arc::new(changed));
        settings
    };
    let first = Ledgers::new(&grouped("one"), &Ledgers::default(), now);
    let second = Ledgers::new(&grouped("two"), &first, now);
    assert!(Arc::ptr_eq(&first.all[0].account, &second.all[0].account));
}

#[test]
fn the_book_finds_what_is_held_and_forgets_what_is_not() {
    let (book, now) = (LedgerBook::default(), Clock::movable().now());
    let ledgers = || Arc::new(Ledgers::new(&settings(), &Ledgers::default(), now));
    let (first, second) = (ledgers(), ledgers());
    book.enter(GenerationId(1), &first);
    book.enter(GenerationId(2), &second);
    assert!(Arc::ptr_eq(&book.of(GenerationId(1)), &first));
    drop(first);
    assert!(book.of(GenerationId(1)).get(0).is_none());
    book.enter(GenerationId(3), &ledgers());
    assert_eq!(book.held.load().len(), 2, "the first is left out");
}

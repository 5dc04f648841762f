use super::super::testing::settings;
use super::*;

fn chain(model: &str) -> Result<Vec<String>, CastError> {
    let cast = Roster::new(Arc::new(settings())).cast(model, None)?;
    Ok(cast.candidates.iter().map(|one| one.model.to_string()).collect())
}

#[test]
fn an_alias_stands_for_its_chain() {
    assert_eq!(chain("fast"), Ok(vec!["b/mid".into(), "a/big".into()]));
}

#[test]
fn an_agent_stands_for_its_primary_and_fallbacks() {
    assert_eq!(
        chain("support"),
        Ok(vec!["a/big".into(), "b/mid".into(), "open/any".into()])
    );
}

#[test]
fn a_single_model_goes_first_then_fallbacks_then_the_primary_without_duplicates() {
    assert_eq!(
        chain("b/mid"),
        Ok(vec!["b/mid".into(), "open/any".into(), "a/big".into()])
    );
}

#[test]
fn a_bare_name_works_when_exactly_one_provider_lists_it() {
    assert_eq!(chain("big").map(|chain| chain[0].clone()), Ok("a/big".into()));
    assert_eq!(chain("shared"), Err(CastError::UnknownModel));
}

#[test]
fn a_provider_with_a_list_knows_no_other_model() {
    assert_eq!(chain("a/unheard-of"), Err(CastError::UnknownModel));
    assert_eq!(chain("nobody/big"), Err(CastError::UnknownModel));
}

#[test]
fn a_provider_without_a_list_passes_any_name() {
    assert_eq!(
        chain("open/brand-new").map(|chain| chain[0].clone()),
        Ok("open/brand-new".into())
    );
}

#[test]
fn the_named_agent_speaks_and_an_unknown_one_is_refused() {
    let roster = Roster::new(Arc::new(settings()));
    assert_eq!(
        roster.agent(Some("support"), "fast").map(|agent| &*agent.name),
        Ok("support")
    );
    assert_eq!(roster.agent(None, "fast").map(|agent| &*agent.name), Ok("support"));
    assert_eq!(roster.agent(Some("nobody"), "fast"), Err(CastError::UnknownAgent));
}

#[test]
fn names_are_shown_once_aliases_first() {
    let names: Vec<String> = Roster::new(Arc::new(settings()))
        .names()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names[..2], ["fast", "support"]);
    assert!(names.contains(&"a/shared".to_owned()));
}

fn chain_with(model: &str, fallbacks: &[&str]) -> Vec<String> {
    let fallbacks: Vec<String> = fallbacks.iter().map(|name| (*name).to_owned()).collect();
    let cast = Roster::new(Arc::new(settings()))
        .cast(model, Some(&fallbacks))
        .expect("a cast");
    cast.candidates.iter().map(|one| one.model.to_string()).collect()
}

#[test]
fn a_list_of_fallbacks_replaces_the_rest_and_the_primary_is_not_appended_case_38() {
    assert_eq!(chain_with("a/big", &["open/x"]), ["a/big", "open/x"]);
    assert_eq!(
        chain("b/mid").map(|chain| chain.last().cloned()),
        Ok(Some("a/big".into())),
        "absent: appended last"
    );
}

#[test]
fn an_empty_list_of_fallbacks_is_strict_case_37() {
    assert_eq!(chain_with("fast", &[]), ["b/mid"]);
}

#[test]
fn a_chain_may_start_at_its_second_model_without_a_duplicate_case_40() {
    assert_eq!(
        chain("b/mid"),
        Ok(vec!["b/mid".into(), "open/any".into(), "a/big".into()])
    );
}

#[test]
fn a_providers_list_of_models_does_not_filter_configured_fallbacks_case_39() {
    let mut settings = settings();
    let primary_only = settings.providers.get_mut("b").expect("b");
    Arc::make_mut(primary_only).models = Some(vec!["shared".into()]);
    let cast = Roster::new(Arc::new(settings)).cast("support", None).expect("a cast");
    assert_eq!(cast.candidates.len(), 3);
}

#[test]
fn a_fallback_that_stands_for_nothing_is_passed_over() {
    assert_eq!(chain_with("a/big", &["nobody/x", "b/mid"]), ["a/big", "b/mid"]);
}

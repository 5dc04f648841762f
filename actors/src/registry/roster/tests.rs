use super::super::testing::settings;
use super::*;

fn chain(model: &str) -> Result<Vec<String>, CastError> {
    let cast = Roster::new(Arc::new(settings())).cast(model)?;
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

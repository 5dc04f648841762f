//! Who answers a session in whose place, and when that is worth a notice (contract §5.9). Pure.

use understudy_messages::hooks::TriedModel;
use understudy_messages::ids::ModelRef;
use understudy_messages::tools::FallbackNotice;

/// The most of a reason that a notice gives, in characters.
const REASON: usize = 80;

/// What has changed with a turn that `selected` was chosen for and `active` answered, where `standing` is the last notice of
/// a fallback that has not been cleared: one notice per change, and none while everything stays as it was.
pub(super) fn change(
    standing: Option<&FallbackNotice>,
    selected: &ModelRef,
    active: &ModelRef,
    tried: &[TriedModel],
) -> Option<FallbackNotice> {
    let (selected, active) = (selected.to_string(), active.to_string());
    match (standing, selected == active) {
        (None, true) => None,
        (Some(before), true) => Some(FallbackNotice {
            text: format!("↪️ Fallback over: {selected} answers again (was {})", before.active),
            active: before.active.clone(),
            selected,
            cleared: true,
        }),
        (Some(before), false) if before.selected == selected && before.active == active => None,
        (_, false) => Some(FallbackNotice {
            text: format!("↪️ Fallback: {active} answers (selected {selected}; {})", why(tried)),
            selected,
            active,
            cleared: false,
        }),
    }
}

/// The first reason, and how many more there are.
fn why(tried: &[TriedModel]) -> String {
    let first = tried.first().map_or("unknown", |tried| tried.reason.as_label());
    let first: String = first.chars().take(REASON).collect();
    match tried.len().saturating_sub(1) {
        0 => first,
        1 => format!("{first}, +1 more attempt"),
        more => format!("{first}, +{more} more attempts"),
    }
}

#[cfg(test)]
mod tests {
    use understudy_messages::failure::Reason;

    use super::*;

    fn model(name: &str) -> ModelRef {
        ModelRef::new(name, "m")
    }

    fn tried(names: &[&str]) -> Vec<TriedModel> {
        let tried = |name: &&str| TriedModel {
            provider: (*name).into(),
            model: "m".into(),
            reason: Reason::RateLimit,
        };
        names.iter().map(tried).collect()
    }

    /// The notices of turns by who was chosen and who answered; the standing one as a session keeps it.
    fn notices(turns: &[(&str, &str)]) -> Vec<String> {
        let (mut standing, mut texts) = (None, Vec::new());
        for (selected, active) in turns {
            let notice = change(standing.as_ref(), &model(selected), &model(active), &tried(&[selected]));
            if let Some(notice) = notice {
                texts.push(notice.text.clone());
                standing = (!notice.cleared).then_some(notice);
            }
        }
        texts
    }

    #[test]
    fn one_notice_for_each_change_and_one_when_all_is_as_before_case_57() {
        let told = notices(&[("a", "a"), ("a", "b"), ("a", "b"), ("a", "b"), ("a", "a"), ("a", "a")]);
        assert_eq!(
            told,
            [
                "↪️ Fallback: b/m answers (selected a/m; rate_limit)",
                "↪️ Fallback over: a/m answers again (was b/m)"
            ]
        );
    }

    #[test]
    fn another_model_in_the_place_or_another_choice_is_a_change() {
        assert_eq!(notices(&[("a", "b"), ("a", "c"), ("d", "c")]).len(), 3);
        let told = notices(&[("a", "b"), ("c", "c")]);
        assert_eq!(told[1], "↪️ Fallback over: c/m answers again (was b/m)");
    }

    #[test]
    fn further_reasons_are_counted() {
        let one = |names: &[&str]| {
            change(None, &model("a"), &model("z"), &tried(names))
                .expect("a change")
                .text
        };
        assert!(one(&["a", "b"]).ends_with("rate_limit, +1 more attempt)"));
        assert!(one(&["a", "b", "c"]).ends_with("rate_limit, +2 more attempts)"));
        assert!(one(&[]).ends_with("unknown)"));
    }
}

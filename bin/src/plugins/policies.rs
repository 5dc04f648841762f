//! Who may register which trusted policy of tools (contract §5.7): what is not compiled in declares it in its manifest.

use understudy_plugins::Registration;
use understudy_plugins::manifest::Manifest;

/// Takes those policies out of a registration that the plugin has not declared, and says so.
pub(super) fn admit(manifest: Option<&Manifest>, registration: &mut Registration) -> Vec<String> {
    let Some(manifest) = manifest else { return Vec::new() };
    let mut refusals = Vec::new();
    registration.policies.retain(|policy| {
        let declared = manifest.policies.contains(&policy.id);
        if !declared {
            let id = &policy.id;
            refusals.push(format!(
                "policy {id} is refused: it is not among contracts.trustedToolPolicies of its manifest"
            ));
        }
        declared
    });
    refusals
}

/// Policies that a manifest promises and nobody registered.
pub(super) fn absent<'a>(
    manifest: Option<&'a Manifest>,
    registration: &'a Registration,
) -> impl Iterator<Item = String> + 'a {
    let there = |id: &str| registration.policies.iter().any(|policy| policy.id == id);
    let declared = manifest.into_iter().flat_map(|manifest| &manifest.policies);
    let absent = declared.filter(move |id| !there(id));
    absent.map(|id| {
        let id = id.escape_debug();
        format!("declares the policy {id} and has not registered it: nobody judges tools by it")
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use understudy_messages::hooks::HookResult;
    use understudy_plugins::registration::Handler;

    use super::*;

    fn registering(ids: &[&str]) -> Registration {
        let mut registration = Registration::default();
        for id in ids {
            registration.policy(id, Handler::Quick(Arc::new(|_, _| Ok(HookResult::None))));
        }
        registration
    }

    #[test]
    fn an_outsiders_policy_is_declared_in_its_manifest_and_one_that_is_not_there_is_named() {
        let text = "{ id: 'p', main: 'a.js', contracts: { trustedToolPolicies: ['a', 'c'] } }";
        let (manifest, _) = Manifest::read(text).expect("a manifest");
        let mut registration = registering(&["a", "b"]);
        let refusals = admit(Some(&manifest), &mut registration);
        assert!(refusals.len() == 1 && refusals[0].contains("policy b"), "{refusals:?}");
        assert_eq!((registration.policies.len(), &*registration.policies[0].id), (1, "a"));
        let absent: Vec<String> = absent(Some(&manifest), &registration).collect();
        assert!(absent.len() == 1 && absent[0].contains("policy c"), "{absent:?}");
    }

    #[test]
    fn what_is_compiled_in_declares_nothing() {
        let mut registration = registering(&["a"]);
        assert!(admit(None, &mut registration).is_empty() && registration.policies.len() == 1);
    }
}

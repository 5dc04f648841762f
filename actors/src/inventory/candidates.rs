//! Which plugins there are: what is compiled in, and what folders hold.

use std::path::PathBuf;
use std::sync::Arc;

use understudy_messages::ids::Name;
use understudy_plugins::discovery::{Discovery, Finding, Found};
use understudy_plugins::enablement::Origin;
use understudy_plugins::manifest::{HostKind, Manifest};
use understudy_plugins::native::NativePlugin;

use super::{Diagnostic, Level, Loader, Phase, Planned};

/// A plugin that might be loaded.
pub(super) struct Candidate {
    pub(super) id: Name,
    pub(super) origin: Origin,
    pub(super) host: Option<HostKind>,
    pub(super) manifest: Option<Arc<Manifest>>,
    pub(super) folder: Option<PathBuf>,
    pub(super) default_on: bool,
    /// Why it cannot be loaded whatever the settings say.
    pub(super) refused: Option<String>,
}

impl Candidate {
    fn built_in(plugin: &dyn NativePlugin) -> Self {
        Self {
            id: plugin.id().into(),
            origin: Origin::Bundled,
            host: Some(HostKind::Native),
            manifest: None,
            folder: None,
            default_on: plugin.enabled_by_default(),
            refused: None,
        }
    }

    fn found(found: Found) -> Self {
        Self {
            id: found.manifest.id.clone(),
            origin: Origin::Config,
            host: Some(found.manifest.host),
            manifest: Some(found.manifest),
            folder: Some(found.folder),
            default_on: false,
            refused: None,
        }
    }

    fn refused(id: Name, finding: Finding) -> Self {
        Self {
            id,
            origin: Origin::Config,
            host: None,
            manifest: None,
            folder: Some(finding.source),
            default_on: false,
            refused: Some(finding.message),
        }
    }
}

impl Loader {
    /// What is compiled in, then what folders hold. A folder comes before what is compiled in under the same id.
    pub(super) fn candidates(&self, planned: &mut Planned) -> Vec<Candidate> {
        let Discovery { found, findings } = Discovery::look(&planned.settings.plugins.load_paths);
        let mut candidates = Vec::new();
        for plugin in &self.hosts.native {
            let same = found.iter().find(|it| it.manifest.id.eq_ignore_ascii_case(plugin.id()));
            match same {
                Some(same) if same.manifest.host != HostKind::Native => {
                    let message = format!("what is built in is not loaded: {} comes first", same.folder.display());
                    planned.diagnostics.push(Diagnostic {
                        active: Some(same.folder.clone()),
                        ..Diagnostic::new(Level::Warn, Phase::Discovery, Some(&same.manifest.id), message)
                    });
                }
                Some(_) => {}
                None => candidates.push(Candidate::built_in(&**plugin)),
            }
        }
        candidates.extend(found.into_iter().map(Candidate::found));
        for finding in findings {
            let known = |id: &Name| candidates.iter().any(|it: &Candidate| it.id.eq_ignore_ascii_case(id));
            match finding.id.clone() {
                Some(id) if finding.refused && !known(&id) => candidates.push(Candidate::refused(id, finding)),
                id => planned.diagnostics.push(Diagnostic {
                    source: Some(finding.source),
                    active: finding.active,
                    ..Diagnostic::new(Level::Warn, Phase::Discovery, id.as_ref(), finding.message)
                }),
            }
        }
        candidates
    }
}

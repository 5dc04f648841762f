//! Which plugins there are: what is compiled in, and what folders hold.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use understudy_messages::ids::Name;
use understudy_plugins::discovery::{Discovery, Finding, Found};
use understudy_plugins::enablement::Origin;
use understudy_plugins::manifest::{HostKind, Manifest};
use understudy_plugins::native::NativePlugin;

use super::{Code, Diagnostic, Level, Loader, Phase, Planned};

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
    /// What is compiled in, with what it says of itself; a manifest that cannot be used keeps it from being loaded.
    fn built_in(plugin: &dyn NativePlugin) -> Self {
        let read = plugin.manifest().map(Manifest::read).transpose();
        let (manifest, refused) = match read {
            Ok(Some((manifest, _))) if !manifest.id.eq_ignore_ascii_case(plugin.id()) => (
                None,
                Some(format!("its manifest is of another plugin, {}", manifest.id)),
            ),
            Ok(read) => (read.map(|(manifest, _)| Arc::new(manifest)), None),
            Err(error) => (None, Some(format!("its manifest {}", error.message))),
        };
        let said = manifest.as_ref().is_some_and(|it| it.is_enabled_by_default());
        Self {
            id: plugin.id().into(),
            origin: Origin::Bundled,
            host: refused.is_none().then_some(HostKind::Native),
            manifest,
            folder: None,
            default_on: plugin.enabled_by_default() || said,
            refused,
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
                        ..Diagnostic::new(
                            Code::Hidden,
                            Level::Warn,
                            Phase::Discovery,
                            Some(&same.manifest.id),
                            message,
                        )
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
                    active: finding.active.clone(),
                    ..Diagnostic::new(
                        hidden_or_odd(finding.active.as_deref()),
                        Level::Warn,
                        Phase::Discovery,
                        id.as_ref(),
                        finding.message,
                    )
                }),
            }
        }
        candidates
    }
}

const fn hidden_or_odd(active: Option<&Path>) -> Code {
    match active {
        Some(_) => Code::Hidden,
        None => Code::Discovery,
    }
}

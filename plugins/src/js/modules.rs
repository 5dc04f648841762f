//! What a plugin may import: files of its own folder by relative paths, and the modules that are built in.

use std::path::{Path, PathBuf};

use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::Declared;
use rquickjs::{Ctx, Error, Module, Result};

use super::files::Files;

/// The name of the script that runs before any code of the plugin.
pub(super) const PRELUDE: &str = "understudy:prelude";

/// The modules that are built in: their name, and their source.
const BUILT_IN: [(&str, &str); 6] = [
    ("openclaw/plugin-sdk", include_str!("modules/plugin-entry.js")),
    (
        "openclaw/plugin-sdk/plugin-entry",
        include_str!("modules/plugin-entry.js"),
    ),
    ("node:fs", include_str!("modules/fs.js")),
    ("node:fs/promises", include_str!("modules/fs-promises.js")),
    ("node:path", include_str!("modules/path.js")),
    ("node:process", include_str!("modules/process.js")),
];

/// Finds modules.
pub(super) struct Modules {
    folder: PathBuf,
    files: Files,
}

impl Modules {
    /// Modules of the plugin in this folder. The folder's path must be a true one.
    pub(super) fn new(folder: PathBuf) -> Self {
        let files = Files::new(folder.clone(), Vec::new());
        Self { folder, files }
    }

    fn find(&self, base: &str, name: &str) -> std::result::Result<String, String> {
        if let Some((name, _)) = built_in(name) {
            return Ok((*name).to_owned());
        }
        let path = match base {
            PRELUDE => PathBuf::from(name),
            _ if name.starts_with("./") || name.starts_with("../") => {
                Path::new(base).parent().unwrap_or(&self.folder).join(name)
            }
            _ => {
                let names: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
                return Err(format!(
                    "is not here; there are {} and files of the plugin",
                    names.join(", ")
                ));
            }
        };
        let path = path.to_str().ok_or("has a name that is no text")?;
        let real = self.files.real(path).map_err(|why| why.to_string())?;
        real.into_os_string()
            .into_string()
            .map_err(|_| "has a name that is no text".to_owned())
    }
}

fn built_in(name: &str) -> Option<&'static (&'static str, &'static str)> {
    let node = |known: &str| known.strip_prefix("node:") == Some(name);
    BUILT_IN.iter().find(|(known, _)| *known == name || node(known))
}

impl Resolver for Modules {
    fn resolve<'js>(
        &mut self,
        _: &Ctx<'js>,
        base: &str,
        name: &str,
        _: Option<ImportAttributes<'js>>,
    ) -> Result<String> {
        self.find(base, name)
            .map_err(|why| Error::new_resolving_message(base, name, why))
    }
}

/// Reads modules.
pub(super) struct Sources(pub(super) Files);

impl Loader for Sources {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        _: Option<ImportAttributes<'js>>,
    ) -> Result<Module<'js, Declared>> {
        if let Some((_, source)) = built_in(name) {
            return Module::declare(ctx.clone(), name, *source);
        }
        let source = self
            .0
            .read(name)
            .map_err(|why| Error::new_loading_message(name, why.to_string()))?;
        Module::declare(ctx.clone(), name, source)
    }
}

//! What plugins of the demo need on disk: a workspace with a canon, and a plugin that is an example of ours. Gone with the demo.

use std::path::PathBuf;
use std::{fs, io};

use anyhow::Context;
use understudy_messages::ids::TurnId;

/// What the workspace's `AGENTS.md` says, and whoever answers for its agent must have been told.
pub(super) const CANON: &str = "The show goes on. Never promise a refund.";

/// A guard in JavaScript: its id, and its files.
pub(super) const GUARD: &str = "js-guard";
const GUARDS_FILES: [(&str, &str); 2] = [
    (
        "index.js",
        include_str!("../../../../examples/plugins/js-guard/index.js"),
    ),
    (
        "openclaw.plugin.json",
        include_str!("../../../../examples/plugins/js-guard/openclaw.plugin.json"),
    ),
];

/// A folder of the demo's own.
pub(super) struct Props(PathBuf);

impl Props {
    /// Writes everything.
    pub(super) fn lay_out() -> anyhow::Result<Self> {
        let name = format!("understudy-demo-{}", TurnId::new());
        let props = Self(std::env::temp_dir().join(name));
        let written = props.write();
        written.with_context(|| format!("cannot write to {}", props.0.display()))?;
        Ok(props)
    }

    fn write(&self) -> io::Result<()> {
        // fails where there is one already: nobody else's files are used
        fs::create_dir(&self.0)?;
        fs::create_dir(self.workspace())?;
        fs::write(self.workspace().join("AGENTS.md"), CANON)?;
        fs::create_dir(self.guard())?;
        GUARDS_FILES
            .iter()
            .try_for_each(|(name, text)| fs::write(self.guard().join(name), text))
    }

    /// The folder that the agent with a canon works in.
    pub(super) fn workspace(&self) -> PathBuf {
        self.0.join("workspace")
    }

    /// Where the gateway keeps what would outlive it.
    pub(super) fn state(&self) -> PathBuf {
        self.0.join("state")
    }

    /// The guard's folder.
    pub(super) fn guard(&self) -> PathBuf {
        self.0.join(GUARD)
    }
}

impl Drop for Props {
    fn drop(&mut self) {
        let _best_effort = fs::remove_dir_all(&self.0);
    }
}

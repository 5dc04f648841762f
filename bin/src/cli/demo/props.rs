//! What plugins of the demo need on disk: a workspace with a canon. Gone with the demo.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use understudy_messages::ids::TurnId;

/// What the workspace's `AGENTS.md` says, and whoever answers for its agent must have been told.
pub(super) const CANON: &str = "The show goes on. Never promise a refund.";

/// A folder of the demo's own.
pub(super) struct Props(PathBuf);

impl Props {
    /// Writes everything.
    pub(super) fn lay_out() -> anyhow::Result<Self> {
        let name = format!("understudy-demo-{}", TurnId::new());
        let props = Self(std::env::temp_dir().join(name));
        // fails where there is one already: nobody else's files are used
        let made = fs::create_dir(&props.0).and_then(|()| fs::create_dir(props.workspace()));
        let written = made.and_then(|()| fs::write(props.workspace().join("AGENTS.md"), CANON));
        written.with_context(|| format!("cannot write to {}", props.0.display()))?;
        Ok(props)
    }

    /// The folder that the agent with a canon works in.
    pub(super) fn workspace(&self) -> PathBuf {
        self.0.join("workspace")
    }
}

impl Drop for Props {
    fn drop(&mut self) {
        let _best_effort = fs::remove_dir_all(&self.0);
    }
}

//! What a handler of `before_prompt_build` may hold while it works, and no longer.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use tokio_util::sync::CancellationToken;

use crate::ids::Name;

/// One call of one handler: active until the handler has returned, failed or taken too long.
#[derive(Clone, Debug)]
pub struct HookInvocation(CancellationToken);

/// What was held is of a call that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the handler's call is over")]
pub struct CallIsOver;

impl HookInvocation {
    /// A call that is over when `over` is cancelled.
    pub const fn new(over: CancellationToken) -> Self {
        Self(over)
    }

    /// Whether the call still goes on.
    ///
    /// # Errors
    /// [`CallIsOver`].
    pub fn assert_active(&self) -> Result<(), CallIsOver> {
        match self.0.is_cancelled() {
            true => Err(CallIsOver),
            false => Ok(()),
        }
    }
}

/// The tools that a model may call, when nobody narrows them any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledTools {
    names: BTreeSet<Name>,
    fingerprint: String,
}

impl SettledTools {
    /// These tools and no others.
    pub fn new(names: impl IntoIterator<Item = Name>) -> Self {
        let names: BTreeSet<Name> = names.into_iter().collect();
        // FNV-1a: the same tools have the same fingerprint on every machine and in every release
        let bytes = names.iter().flat_map(|name| name.bytes().chain([0]));
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self {
            names,
            fingerprint: format!("{hash:016x}"),
        }
    }
}

/// Which tools the prompt's model may call, for a handler that registered with `requiresToolAuthority`: good for one call.
#[derive(Clone, Debug)]
pub struct ToolAuthority {
    tools: Arc<SettledTools>,
    call: HookInvocation,
}

impl ToolAuthority {
    /// Over `tools`, for one call.
    pub const fn new(tools: Arc<SettledTools>, call: HookInvocation) -> Self {
        Self { tools, call }
    }

    /// The same for the same tools.
    pub fn fingerprint(&self) -> &str {
        &self.tools.fingerprint
    }

    /// The tools, by name.
    pub fn tools(&self) -> impl Iterator<Item = &Name> {
        self.tools.names.iter()
    }

    /// Whether the model may call a tool.
    ///
    /// # Errors
    /// [`CallIsOver`]: what held then may not hold now.
    pub fn allows(&self, tool: &str) -> Result<bool, CallIsOver> {
        self.call.assert_active()?;
        Ok(self.tools.names.contains(tool))
    }

    /// Whether the call still goes on.
    ///
    /// # Errors
    /// [`CallIsOver`].
    pub fn assert_active(&self) -> Result<(), CallIsOver> {
        self.call.assert_active()
    }
}

impl Serialize for ToolAuthority {
    /// As data, for handlers that are not of this process: `{fingerprint, tools}`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut shown = serializer.serialize_struct("ToolAuthority", 2)?;
        shown.serialize_field("fingerprint", self.fingerprint())?;
        shown.serialize_field("tools", &self.tools.names)?;
        shown.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settled(names: &[&str]) -> Arc<SettledTools> {
        Arc::new(SettledTools::new(names.iter().map(|&name| Name::from(name))))
    }

    #[test]
    fn an_authority_ends_with_its_call_case_5() {
        let over = CancellationToken::new();
        let authority = ToolAuthority::new(settled(&["read"]), HookInvocation::new(over.clone()));
        assert_eq!(
            (authority.allows("read"), authority.allows("exec")),
            (Ok(true), Ok(false))
        );
        assert_eq!(authority.assert_active(), Ok(()));
        over.cancel();
        assert_eq!(authority.allows("read"), Err(CallIsOver));
        assert_eq!(authority.assert_active(), Err(CallIsOver));
    }

    #[test]
    fn a_fingerprint_is_of_the_tools_and_not_of_their_order() {
        let print = |names: &[&str]| settled(names).fingerprint.clone();
        assert_eq!(print(&["a", "b"]), print(&["b", "a", "b"]));
        assert_ne!(print(&["a", "b"]), print(&["ab"]));
        assert_ne!(print(&[]), print(&["a"]));
    }

    #[test]
    fn on_a_wire_it_is_data() {
        let call = HookInvocation::new(CancellationToken::new());
        let shown = json!(ToolAuthority::new(settled(&["b", "a"]), call));
        assert_eq!(shown["tools"], json!(["a", "b"]));
        assert_eq!(shown["fingerprint"].as_str().map(str::len), Some(16));
    }
}

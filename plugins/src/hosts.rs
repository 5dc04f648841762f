//! What makes an instance of a plugin, by the kind of its host.

use std::path::PathBuf;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use understudy_messages::clock::Clock;
use understudy_messages::ids::Name;
use understudy_messages::settings::{PluginGrants, PluginLimits};

use crate::Instance;
use crate::listeners::Listeners;
use crate::manifest::{HostKind, Manifest};
use crate::native::{NativeInstance, NativePlugin};

/// An instance that is to be made.
#[derive(Clone, Debug)]
pub struct Load {
    /// The plugin.
    pub id: Name,
    /// What it says of itself; `None` for what is compiled in and lies in no folder.
    pub manifest: Option<Arc<Manifest>>,
    /// Its folder; empty for what lies in none.
    pub folder: PathBuf,
    /// Its settings, which its schema takes.
    pub settings: Value,
    /// The folders of agents: what a plugin may read beside its own.
    pub workspaces: Vec<PathBuf>,
    /// What its code may reach.
    pub grants: PluginGrants,
    /// What the instance may use up.
    pub limits: PluginLimits,
    /// The one source of time.
    pub clock: Clock,
    /// Where the gateway itself listens.
    pub listeners: Listeners,
}

/// What came of it: an instance that has registered, or why there is none, in one line.
pub type Loaded = Result<Arc<dyn Instance>, String>;

/// Makes instances of one kind of host.
pub type Constructor = Arc<dyn Fn(Load) -> BoxFuture<'static, Loaded> + Send + Sync>;

/// Every host that there is. A plugin for one that is not here cannot be loaded, and says so.
#[derive(Clone, Default)]
pub struct Hosts {
    /// Plugins that are compiled in.
    pub native: Vec<Arc<dyn NativePlugin>>,
    /// The embedded engine.
    pub js: Option<Constructor>,
    /// Child processes.
    pub process: Option<Constructor>,
    /// HTTP endpoints.
    pub webhook: Option<Constructor>,
    /// Where the gateway that they are for listens; nowhere unless somebody says so.
    pub listeners: Listeners,
}

impl Hosts {
    /// Makes an instance. A panic of the plugin's code while it registers is an error.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn load(&self, host: HostKind, load: Load) -> Loaded {
        let constructor = match host {
            HostKind::Native => return self.load_native(load).await,
            HostKind::Js => &self.js,
            HostKind::Process => &self.process,
            HostKind::Webhook => &self.webhook,
        };
        let Some(constructor) = constructor else {
            return Err(format!("this build has no host for {} plugins", host.as_label()));
        };
        let loading = std::panic::AssertUnwindSafe(async { constructor(load).await });
        loading
            .catch_unwind()
            .await
            .unwrap_or_else(|_| Err("its host panicked".to_owned()))
    }

    /// Its registration may take a while, and other work has to go on meanwhile: it has a thread of its own.
    async fn load_native(&self, load: Load) -> Loaded {
        let is_it = |plugin: &&Arc<dyn NativePlugin>| plugin.id().eq_ignore_ascii_case(&load.id);
        let plugin = self
            .native
            .iter()
            .find(is_it)
            .ok_or("no plugin of this id is compiled in")?
            .clone();
        let registering = tokio::task::spawn_blocking(move || NativeInstance::load(&*plugin, &load.settings));
        let registered = registering.await.map_err(|_| "its registration was lost")?;
        Ok(Arc::new(registered?))
    }
}

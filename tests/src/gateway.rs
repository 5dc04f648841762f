//! The real app on free ports, in a thread of its own: real sockets, real actors.

use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{broadcast, oneshot};
use understudy::config::ServerConfig;
use understudy::scrape::Scrape;
use understudy::{App, AppOptions};
use understudy_actors::tap::EventTap;
use understudy_messages::clock::Clock;
use understudy_messages::events::SharedEvent;
use understudy_plugins::hosts::Hosts;

/// The line of the configuration that is added: both listeners on free ports.
pub const LISTEN: &str = "listen: { api: \"127.0.0.1:0\", admin: \"127.0.0.1:0\" }\n";
/// How long the thread waits for turns in flight when a gateway is stopped without a budget.
const NO_PATIENCE: Duration = Duration::from_millis(100);

/// A running gateway. Dropped, it stops.
pub struct Gateway {
    api: String,
    admin: String,
    client: reqwest::Client,
    tap: EventTap,
    clock: Clock,
    stop: Option<oneshot::Sender<Duration>>,
    thread: Option<JoinHandle<()>>,
}

impl Gateway {
    /// Starts the app with this configuration, on the real clock; `listen` is added.
    pub fn start(yaml: &str) -> Self {
        Self::start_with(
            yaml,
            AppOptions {
                clock: Clock::real(),
                arbiters: 2,
            },
        )
    }

    /// Starts the app with this configuration and these options.
    pub fn start_with(yaml: &str, options: AppOptions) -> Self {
        Self::start_hosting(yaml, options, understudy::plugins::standard_hosts())
    }

    /// Starts the app with these hosts of plugins and plugins that are compiled in.
    pub fn start_hosting(yaml: &str, options: AppOptions, hosts: Hosts) -> Self {
        understudy::install_tls();
        let yaml = format!("{LISTEN}{yaml}");
        let config = ServerConfig::parse_hosting(&yaml, &|_| None, &hosts).unwrap_or_else(|error| {
            panic!("{}", understudy::config::report::for_people("test", &error));
        });
        Self::start_configured(config, options, hosts)
    }

    /// Starts the app with what was read from a file.
    pub fn start_configured(config: ServerConfig, options: AppOptions, hosts: Hosts) -> Self {
        understudy::install_tls();
        let (up, is_up) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let clock = options.clock.clone();
        let thread = std::thread::spawn(move || {
            actix::System::with_tokio_rt(understudy::shared_runtime).block_on(async move {
                let app = App::start_hosting(config, options, &hosts)
                    .await
                    .expect("the app starts");
                up.send((app.api(), app.admin(), app.tap().clone()))
                    .expect("the test waits");
                let budget = stopped.await.unwrap_or(NO_PATIENCE);
                app.stop(budget).await;
            });
        });
        let (api, admin, tap) = is_up.recv().expect("the app is up");
        Self {
            api: format!("http://{api}"),
            admin: format!("http://{admin}"),
            client: client(),
            tap,
            clock,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// A URL of the API listener.
    pub fn api(&self, path: &str) -> String {
        format!("{}{path}", self.api)
    }

    /// A URL of the admin listener.
    pub fn admin(&self, path: &str) -> String {
        format!("{}{path}", self.admin)
    }

    /// A client for requests of the test's own; it keeps no connection that is not used.
    pub fn client(&self) -> &reqwest::Client {
        &self.client
    }

    /// Every event from now on.
    pub fn events(&self) -> broadcast::Receiver<SharedEvent> {
        self.tap.subscribe()
    }

    /// What Prometheus would see now.
    pub async fn scrape(&self) -> Scrape {
        let response = self.client.get(self.admin("/metrics")).send().await;
        Scrape::parse(&response.expect("a scrape").text().await.expect("text"))
    }

    /// Sends a chat completion; `edit` may add to the request.
    pub async fn chat(
        &self,
        body: &serde_json::Value,
        edit: impl FnOnce(reqwest::RequestBuilder) -> reqwest::RequestBuilder,
    ) -> reqwest::Response {
        let request = self
            .client
            .post(self.api("/v1/chat/completions"))
            .body(body.to_string());
        edit(request).send().await.expect("a response")
    }

    /// Begins to stop: admission closes, turns in flight have `budget` to end.
    pub fn begin_stop(&mut self, budget: Duration) {
        if let Some(stop) = self.stop.take() {
            let _died_already = stop.send(budget);
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.begin_stop(NO_PATIENCE);
        // clients that were given up close their connections on this thread, which waits: only the patience ends their turns
        self.clock.release();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the gateway's thread panicked");
        }
    }
}

/// A client that follows no proxy. It keeps no idle connection: a server that stops would wait for it.
pub fn client() -> reqwest::Client {
    understudy::install_tls();
    reqwest::Client::builder()
        .no_proxy()
        .pool_max_idle_per_host(0)
        .tcp_nodelay(true)
        .build()
        .expect("a client")
}

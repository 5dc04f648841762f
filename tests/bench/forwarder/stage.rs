//! Who plays: one upstream, the forwarder, and gateways that differ in one setting each.

use std::fs;
use std::path::{Path, PathBuf};

use understudy_tests::bench::load::SENTENCE;
use understudy_tests::bench::process::{Core, Pinning, Program};
use understudy_tests::bench::target::{CHAT, FIRST_ATTEMPT, Target};
use understudy_tests::bench::upstream;

use crate::forwarder;

/// More failures in a row than any run has: the breaker never opens, every turn fails over anew.
const NEVER: u32 = 1_000_000;
/// The default of `defaults.breaker.failures`: during an outage the lead is asked by a probe now and then.
const AS_SHIPPED: u32 = 3;

const UPSTREAM_PATH: &str = "/ok/v1/chat/completions";

/// The size of the canon, about: what an `AGENTS.md` of a small project has.
const CANON: usize = 4 << 10;

/// Names of targets that others are compared with.
pub const FORWARDER: &str = "forwarder";
pub const DIRECT: &str = "upstream, asked directly";
pub const GATEWAY: &str = "gateway";
pub const FAILS_OVER: &str = "gateway, every turn fails over";

/// The running programs.
pub struct Stage {
    upstream: Program,
    forwarder: Program,
    /// Its breaker never opens.
    gateway: Program,
    /// Its one agent has a canon.
    with_canon: Program,
    /// Its breaker opens at once, and stays open: the outage lasts as long as the bench.
    in_outage: Program,
}

impl Stage {
    /// Starts everybody.
    pub fn set(gateway: &Path, pinning: Pinning) -> Self {
        let this = std::env::current_exe().expect("an executable");
        let upstream = Program::start(pinning, Core::Other, &this, &[upstream::ROLE]);
        let origin = format!("http://{}", upstream.address);
        let serve = |name, failures, more: &str| {
            let file = write_config(name, &origin, failures, more);
            let file = file.to_str().expect("a path in UTF-8");
            Program::start(pinning, Core::Measured, gateway, &["--json", "serve", "--config", file])
        };
        Self {
            forwarder: Program::start(pinning, Core::Measured, &this, &[forwarder::ROLE, &origin]),
            gateway: serve("gateway", NEVER, ""),
            with_canon: serve("with-canon", NEVER, &canon()),
            in_outage: serve("in-outage", AS_SHIPPED, ""),
            upstream,
        }
    }

    /// Everything that is measured; the first is what the others are compared with.
    pub fn targets(&self) -> [Target<'_>; 7] {
        let healthy = Target {
            name: GATEWAY,
            program: &self.gateway,
            path: CHAT,
            model: "direct",
            sessions: false,
            expected: FIRST_ATTEMPT,
        };
        let forwarder = Target {
            name: FORWARDER,
            program: &self.forwarder,
            path: UPSTREAM_PATH,
            model: upstream::MODEL,
            expected: &[],
            ..healthy
        };
        [
            Target { ..forwarder },
            Target {
                name: DIRECT,
                program: &self.upstream,
                ..forwarder
            },
            Target { ..healthy },
            Target {
                name: "gateway, named sessions",
                sessions: true,
                ..healthy
            },
            Target {
                name: "gateway, named sessions and canon",
                program: &self.with_canon,
                sessions: true,
                ..healthy
            },
            Target {
                name: FAILS_OVER,
                model: "hop",
                expected: &[("x-understudy-served-by", "ok/m"), ("x-understudy-attempts", "2")],
                ..healthy
            },
            Target {
                name: "gateway, lead known to be down",
                program: &self.in_outage,
                model: "hop",
                expected: &[("x-understudy-served-by", "ok/m")],
                ..healthy
            },
        ]
    }
}

/// What a configuration says besides, where its agent has a workspace with an `AGENTS.md`.
fn canon() -> String {
    let workspace = Path::new(env!("CARGO_TARGET_TMPDIR")).join("forwarder-bench-workspace");
    fs::create_dir_all(&workspace).expect("the target directory can be written");
    let text = SENTENCE.repeat(CANON / SENTENCE.len());
    fs::write(workspace.join("AGENTS.md"), text).expect("the target directory can be written");
    let (workspace, model) = (workspace.to_str().expect("a path in UTF-8"), upstream::MODEL);
    format!(
        r#"agents:
  main: {{ model: {{ primary: ok/{model} }}, workspace: "{workspace}" }}
plugins:
  entries:
    canon: {{ enabled: true }}
"#
    )
}

fn write_config(name: &str, origin: &str, failures: u32, more: &str) -> PathBuf {
    let model = upstream::MODEL;
    let config = format!(
        r#"listen: {{ api: "127.0.0.1:0", admin: "127.0.0.1:0" }}
providers:
  ok: {{ api: openai-chat, base_url: "{origin}/ok/v1", models: [{model}] }}
  bad: {{ api: openai-chat, base_url: "{origin}/bad/v1", models: [{model}] }}
models:
  direct: {{ chain: [ok/{model}] }}
  hop: {{ chain: [bad/{model}, ok/{model}] }}
state: {{ store: memory }}
defaults:
  retry: {{ max_per_target: 0 }}
  breaker: {{ failures: {failures} }}
{more}"#
    );
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("forwarder-bench-{name}.yaml"));
    fs::write(&file, config).expect("the target directory can be written");
    file
}

//! What is said in sessions, and what is done to them behind a gateway's back.

use std::process::Command;

use redb::{ReadableTable, TableDefinition};
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use understudy_actors::state::State;
use understudy_messages::clock::Clock;

use super::place::{Gateway, Place, read};

/// Somebody who speaks in sessions, and may outlive the gateway.
pub(crate) struct Talk {
    url: String,
    client: Client,
}

impl Talk {
    /// A turn: whether it was acknowledged; `None`: there is nobody any more.
    pub(crate) async fn turn(&self, session: &str, input: &str, stream: bool) -> Option<bool> {
        let body = json!({ "input": input, "model": "main", "stream": stream }).to_string();
        let request = self
            .client
            .post(format!("{}/sessions/{session}/turns", self.url))
            .body(body);
        let response = request.send().await.ok()?;
        let status = response.status();
        let text = response.text().await.ok()?;
        Some(status == StatusCode::OK && (!stream || text.contains("turn.completed")))
    }
}

impl Gateway {
    pub(crate) fn talk(&self) -> Talk {
        Talk {
            url: self.api.clone(),
            client: self.client.clone(),
        }
    }

    /// A turn that is answered whole.
    pub(crate) async fn whole_turn(&self, session: &str, input: &str) -> (StatusCode, Value) {
        let body = json!({ "input": input, "model": "main", "stream": false }).to_string();
        let request = self
            .client
            .post(format!("{}/sessions/{session}/turns", self.api))
            .body(body);
        read(request.send().await.expect("a response")).await
    }

    pub(crate) async fn session(&self, session: &str) -> (StatusCode, Value) {
        let request = self.client.get(format!("{}/sessions/{session}", self.api));
        read(request.send().await.expect("a response")).await
    }

    /// How many writes of sessions have ended.
    pub(crate) async fn writes(&self) -> u64 {
        self.counted("understudy_session_store_duration_seconds_count{op=\"save\"} ")
            .await
    }

    /// How many of them have failed.
    pub(crate) async fn failed_writes(&self) -> u64 {
        self.counted("understudy_session_store_errors_total{op=\"save\"} ")
            .await
    }

    async fn counted(&self, series: &str) -> u64 {
        let scrape = self.client.get(format!("{}/metrics", self.admin)).send().await;
        let text = scrape.expect("a scrape").text().await.expect("text");
        let count = text.lines().find_map(|line| line.strip_prefix(series));
        count.map_or(0, |count| count.parse().expect("a number"))
    }

    /// Its files may grow again.
    pub(crate) fn has_room(&self) {
        let pid = self.pid().to_string();
        let mut raise = Command::new("prlimit");
        let raised = raise.args(["--pid", &pid, "--fsize=unlimited:"]).status();
        assert!(raised.expect("prlimit runs").success());
    }

    pub(crate) async fn delete(&self, session: &str) -> StatusCode {
        let request = self.client.delete(format!("{}/sessions/{session}", self.api));
        request.send().await.expect("a response").status()
    }
}

impl Place {
    /// The program, within these limits of the shell's `ulimit`. Where its files may have so many KiB and no more, its disk is full
    /// then.
    pub(crate) fn limited(&self, arguments: &[&str], limits: &[&str]) -> Command {
        let limits: String = limits.iter().map(|limit| format!("ulimit {limit}; ")).collect();
        let own = self.command(arguments);
        let mut command = Command::new("bash");
        // that a write beyond it is not its end is the program's own doing
        command
            .arg("-c")
            .arg(format!("{limits}exec \"$@\""))
            .arg("bash")
            .arg(own.get_program())
            .args(own.get_args());
        for (name, value) in own.get_envs() {
            command.env(name, value.expect("set"));
        }
        command
    }

    /// Changes one bit of what was said in the first turn of a session.
    pub(crate) fn damage_turn(&self, session: &str) {
        type Turns = TableDefinition<'static, (&'static [u8], u64), &'static [u8]>;
        const TURNS: Turns = TableDefinition::new("session_turns");
        let key = [b"\0", session.as_bytes()].concat();
        let state = State::open(&self.state(), &Clock::real()).expect("free");
        let damage = |write: &redb::WriteTransaction| {
            let mut turns = write.open_table(TURNS)?;
            let record = turns.get((&*key, 0))?.map(|record| record.value().to_vec());
            let mut record = record.expect("there");
            *record.last_mut().expect("not empty") ^= 1;
            turns.insert((&*key, 0), &*record)?;
            Ok(())
        };
        state.file().write_now(damage).expect("written");
        state.close();
    }
}

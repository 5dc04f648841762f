//! Questions to the admin listener of a running gateway.

use std::io::Write;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use serde_json::Value;

/// Nobody answers.
#[derive(Debug, thiserror::Error)]
#[error("no gateway answers at {0}")]
pub(super) struct Unreachable(String);

/// Which gateway is asked.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Admin {
    /// The gateway's admin listener: an address, with or without `http://`.
    #[arg(long, default_value = "http://127.0.0.1:4243", env = "UNDERSTUDY_ADMIN")]
    admin: String,
    /// The admin token, where the gateway asks for one.
    #[arg(long, env = "UNDERSTUDY_ADMIN_TOKEN", hide_env_values = true)]
    token: Option<String>,
}

impl Admin {
    /// The JSON at a path.
    pub(super) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let body = self.get_bytes(path).await?;
        let url = self.url(path);
        serde_json::from_slice(&body).with_context(|| format!("{url} is not an Understudy admin listener"))
    }

    /// The text at a path.
    pub(super) async fn get_text(&self, path: &str) -> anyhow::Result<String> {
        let body = self.get_bytes(path).await?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// Asks for something to be done, however long it takes: the status and the JSON of the answer. Given up, so is what was
    /// asked for, where the gateway can still do so.
    pub(super) async fn post(&self, path: &str, body: &Value) -> anyhow::Result<(u16, Value)> {
        let url = self.url(path);
        let client = reqwest::Client::builder().no_proxy().build()?;
        let request = client.post(&url).header("content-type", "application/json");
        let (status, body) = self.ask(request.body(body.to_string()), &url).await?;
        let answer = serde_json::from_slice(&body);
        Ok((
            status,
            answer.with_context(|| format!("{url} is not an Understudy admin listener"))?,
        ))
    }

    /// Puts a text in the place of the one that has this tag: the JSON of the answer, whether or not it was taken.
    pub(super) async fn put(&self, path: &str, text: &str, tag: &str) -> anyhow::Result<Value> {
        let url = self.url(path);
        let client = reqwest::Client::builder().no_proxy().build()?;
        let request = client.put(&url).header("if-match", format!("\"{tag}\""));
        let (_, body) = self.ask(request.body(text.to_owned()), &url).await?;
        serde_json::from_slice(&body).with_context(|| format!("{url} is not an Understudy admin listener"))
    }

    /// Asks for something about sessions: the status and the answer, whatever it is.
    pub(super) async fn call(&self, method: &str, path: &str, body: Option<String>) -> anyhow::Result<(u16, Bytes)> {
        let url = self.url(path);
        let client = reqwest::Client::builder().no_proxy().build()?;
        let request = client.request(method.parse()?, &url).body(body.unwrap_or_default());
        let response = self.send(request, &url).await?;
        let status = response.status().as_u16();
        Ok((status, response.bytes().await.context("the answer broke off")?))
    }

    /// Asks for a file and writes it: how many bytes it has, or the status and the body of another answer.
    pub(super) async fn fetch(&self, path: &str, to: &mut impl Write) -> anyhow::Result<Result<u64, (u16, Bytes)>> {
        let url = self.url(path);
        let client = reqwest::Client::builder().no_proxy().build()?;
        let mut response = self.send(client.post(&url), &url).await?;
        let status = response.status().as_u16();
        if status != 200 {
            return Ok(Err((status, response.bytes().await.context("the answer broke off")?)));
        }
        let mut written = 0;
        while let Some(chunk) = response.chunk().await.context("the answer broke off")? {
            to.write_all(&chunk)?;
            written += chunk.len() as u64;
        }
        Ok(Ok(written))
    }

    async fn get_bytes(&self, path: &str) -> anyhow::Result<Bytes> {
        let url = self.url(path);
        let client = reqwest::Client::builder()
            .no_proxy()
            .timeout(Duration::from_secs(10))
            .build()?;
        let (status, body) = self.ask(client.get(&url), &url).await?;
        anyhow::ensure!((200..300).contains(&status), "{url} answered {status}");
        Ok(body)
    }

    async fn ask(&self, request: reqwest::RequestBuilder, url: &str) -> anyhow::Result<(u16, Bytes)> {
        let response = self.send(request, url).await?;
        let status = response.status().as_u16();
        anyhow::ensure!(
            status != 404,
            "{url} does not exist: --admin takes the address of `listen.admin`"
        );
        Ok((status, response.bytes().await.context("the answer broke off")?))
    }

    async fn send(&self, request: reqwest::RequestBuilder, url: &str) -> anyhow::Result<reqwest::Response> {
        let request = match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        let response = request.send().await.with_context(|| Unreachable(url.to_owned()))?;
        anyhow::ensure!(
            response.status() != 401,
            "{url} asks for an admin token: give --token or UNDERSTUDY_ADMIN_TOKEN"
        );
        Ok(response)
    }

    fn url(&self, path: &str) -> String {
        let scheme = if self.admin.contains("://") { "" } else { "http://" };
        format!("{scheme}{}{path}", self.admin.trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_admin_listener_is_found_with_and_without_a_scheme() {
        for (admin, found) in [
            ("127.0.0.1:4243", "http://127.0.0.1:4243/admin/v1/status"),
            ("http://127.0.0.1:4243/", "http://127.0.0.1:4243/admin/v1/status"),
            ("https://ops.example.com", "https://ops.example.com/admin/v1/status"),
        ] {
            let admin = Admin {
                admin: admin.to_owned(),
                token: None,
            };
            assert_eq!(admin.url("/admin/v1/status"), found);
        }
    }
}

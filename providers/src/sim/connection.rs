//! One connection: request after request, each played as its target's script says.

use std::sync::Arc;

use bytes::BytesMut;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;
use understudy_messages::ids::ModelRef;

use super::asked::Asked;
use super::call::Connect;
use super::http1::{ReadRequestError, Request, read_request};
use super::journal::OpenConnection;
use super::player::{Played, play};
use super::response::Response;
use super::script::LIST;
use super::stage::{Door, Stage};

/// A connection from its accept to its end.
pub(crate) struct Connection {
    stage: Arc<Stage>,
    stream: TcpStream,
    /// Read from the client and not yet used.
    ahead: BytesMut,
    open: OpenConnection,
}

impl Connection {
    /// Counts the connection as open.
    pub(crate) fn new(stage: Arc<Stage>, stream: TcpStream) -> Self {
        Self {
            open: stage.journal.connection(),
            stage,
            stream,
            ahead: BytesMut::new(),
        }
    }

    /// Serves until either side ends it, or, on a port of its own, until that port stops accepting.
    pub(crate) async fn serve(mut self, mut door: Option<watch::Receiver<Door>>) {
        if self.stream.set_nodelay(true).is_err() {
            return;
        }
        loop {
            let read = tokio::select! {
                biased;
                () = closed(&mut door) => return,
                read = read_request(&mut self.stream, &mut self.ahead) => read,
            };
            match read {
                Ok(Some(request)) => {
                    if !self.answer(&request).await {
                        return;
                    }
                }
                Ok(None) | Err(ReadRequestError::Left | ReadRequestError::Broken(_)) => return,
                Err(ReadRequestError::Malformed) => return self.turn_away(400, "malformed").await,
                Err(ReadRequestError::TooLarge) => return self.turn_away(413, "too_large").await,
            }
        }
    }

    /// Answers one request; whether the connection can carry another.
    async fn answer(&mut self, request: &Request) -> bool {
        let provider = provider(&request.path);
        let asked = Asked::read(&request.path, &request.body);
        let lists = request.method == "GET" && is_list(&request.path);
        let model = if lists {
            LIST
        } else {
            asked.model.as_deref().unwrap_or("-")
        };
        let target = ModelRef::new(provider, model);
        if lists && !self.stage.upstreams.contains_key(&target) {
            let models = Response::json(200, &self.models(provider));
            return self.send(&models).await && request.keep_alive;
        }
        let (number, response) = self.cast(&target, request, &asked).await;
        self.open.asks(&target);
        let journal = &self.stage.journal;
        let mut call = journal.begin(target, number, request, response.then);
        let (mut reader, mut writer) = self.stream.split();
        let ends = (&mut reader, &mut writer);
        let clock = &self.stage.clock;
        let played = play(ends, &mut self.ahead, &response, clock, &mut call).await;
        let reusable = played == Played::Whole && response.reusable && request.keep_alive;
        match played {
            Played::Whole if !reusable => drop(self.stream.shutdown().await),
            Played::Reset => drop(self.stream.set_zero_linger()),
            Played::Whole | Played::PeerLeft => {}
        }
        call.ended(played);
        reusable
    }

    /// The response to the target's next request, and its number.
    async fn cast(&self, target: &ModelRef, request: &Request, asked: &Asked<'_>) -> (u64, Response) {
        let Some(upstream) = self.stage.upstream(target) else {
            let unknown = Response::error(404, "model_not_found", "no script for this target");
            return (0, unknown);
        };
        let journal = &self.stage.journal;
        let credential = request.headers.credential();
        let draw = upstream.draw(journal, credential.as_ref()).await;
        let response = match draw.call {
            Some(call) => Response::new(&call, asked, draw.number),
            None => {
                journal.violated(target.clone(), draw.number);
                Response::error(599, "script_exhausted", "the script has no further call")
            }
        };
        (draw.number, response)
    }

    /// The models of a provider that have scripts, as its API lists them.
    fn models(&self, provider: &str) -> serde_json::Value {
        let targets = self.stage.upstreams.keys();
        let own = targets.filter(|target| &*target.provider == provider && &*target.model != LIST);
        let listed: Vec<_> = own
            .map(|target| json!({ "id": &*target.model, "object": "model", "created": 0, "owned_by": provider }))
            .collect();
        json!({ "object": "list", "data": listed })
    }

    /// Answers what is not a request, and ends.
    async fn turn_away(mut self, status: u16, code: &str) {
        let refusal = Response::error(status, code, "the simulator cannot read this request");
        if self.send(&refusal).await {
            let _ = self.stream.shutdown().await;
        }
    }

    /// Sends a response that no script plays; whether the client took it.
    async fn send(&mut self, response: &Response) -> bool {
        for piece in &response.pieces {
            if self.stream.write_all(&piece.bytes).await.is_err() {
                return false;
            }
        }
        true
    }
}

/// Whether a path is that of a provider's list of models.
fn is_list(path: &str) -> bool {
    let (path, _query) = path.split_once('?').unwrap_or((path, ""));
    path.ends_with("/models")
}

/// The provider that a path names: its first segment.
fn provider(path: &str) -> &str {
    path.split('/').find(|segment| !segment.is_empty()).unwrap_or("-")
}

/// Waits until the connection's own port stops accepting; for ever on a shared port.
async fn closed(door: &mut Option<watch::Receiver<Door>>) {
    match door {
        // fails when the upstream is gone, and its connections with it
        Some(door) => drop(door.wait_for(|door| door.connect != Connect::Accept).await),
        None => std::future::pending().await,
    }
}

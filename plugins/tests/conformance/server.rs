//! An HTTP service on the loopback, small enough to misbehave in every way.

use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// What came in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    /// Lower-case names.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| &**value)
    }
}

/// What goes out; `None`: the connection is closed without an answer.
pub(crate) type Reply = Option<(u16, Vec<u8>)>;

type Service = Arc<dyn Fn(Request) -> BoxFuture<'static, Reply> + Send + Sync>;

/// A service at work; it ends when it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Server {
    pub(crate) async fn start<F>(at: &str, service: impl Fn(Request) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        let listener = TcpListener::bind(at).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let service: Service = Arc::new(move |request| Box::pin(service(request)));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(connection(stream, service.clone()));
            }
        });
        Self { address, _tasks: tasks }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hooks", self.address)
    }
}

async fn connection(stream: TcpStream, service: Service) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream).await {
        let Some((status, body)) = service(request).await else {
            return;
        };
        let location = if status == 302 { "location: /elsewhere\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {status} X\r\n{location}content-length: {}\r\n\r\n",
            body.len()
        );
        let sent = stream.write_all(&[head.as_bytes(), &body].concat()).await;
        if sent.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut request = Request::default();
    let mut line = String::new();
    stream.read_line(&mut line).await.ok().filter(|&read| read > 0)?;
    loop {
        line.clear();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        request.headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let length = request.header("content-length")?.parse().ok()?;
    request.body.resize(length, 0);
    stream.read_exact(&mut request.body).await.ok()?;
    Some(request)
}

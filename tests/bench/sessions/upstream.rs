//! The upstream, in this process and as plain as it gets: it tells whoever asks who that is, out of what it is told.

use std::fmt::Write;

use memchr::memmem;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use understudy_actors::supervision::Tasks;

use super::clients::{FILLER, name};
use super::wire::Received;

/// The model that it serves.
pub const MODEL: &str = "m";
/// What stands before a session's name in what it says first.
pub const I_AM: &str = "I am ";

/// Serves as long as the runtime runs, and says where.
pub async fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let tasks = Tasks::default();
    let each = tasks.clone();
    tasks.spawn("upstream", async move {
        while let Ok((connection, _)) = listener.accept().await {
            each.spawn("connection", answer(connection));
        }
    });
    format!("http://{address}/v1")
}

/// What it says to a session that has told it so many messages.
pub fn saying(number: u64, messages: usize) -> String {
    format!("You are {}, and I was told {messages} messages.", name(number))
}

async fn answer(mut connection: TcpStream) {
    connection.set_nodelay(true).expect("a TCP socket");
    let (mut received, mut response) = (Received::default(), String::new());
    while let Some(request) = received.next(&mut connection).await {
        let said = what_to_say(&request.body);
        let body = format!(
            r#"{{"id":"chatcmpl-1","object":"chat.completion","created":1760000000,"model":"{MODEL}","choices":[{{"index":0,"message":{{"role":"assistant","content":"{said}"}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":500,"completion_tokens":12,"total_tokens":512}}}}"#
        );
        response.clear();
        let length = body.len();
        write!(
            response,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .expect("memory");
        if connection.write_all(response.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn what_to_say(request: &[u8]) -> String {
    let messages = memmem::find_iter(request, br#""role":"#).count();
    let first = memmem::find(request, I_AM.as_bytes()).map(|at| &request[at + I_AM.len()..]);
    let told = first.and_then(|first| first.split_at_checked(name(0).len()));
    match told {
        Some((name, rest)) if rest.starts_with(FILLER.as_bytes()) => {
            let name = String::from_utf8_lossy(name);
            format!("You are {name}, and I was told {messages} messages.")
        }
        Some(_) | None => "I was not told who you are.".to_owned(),
    }
}

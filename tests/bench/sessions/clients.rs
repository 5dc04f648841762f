//! Clients on connections that are kept, each with one request after the other; every answer is looked at.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::LazyLock;

use futures::future::join_all;
use memchr::memmem;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::upstream::{I_AM, saying};
use super::wire::Received;

/// How many ask at once.
const CONNECTIONS: u64 = 32;

/// What a session says first, behind its name: what it adds to its transcript is 2 KiB with what it is answered.
pub static FILLER: LazyLock<String> = LazyLock::new(|| {
    let filler = " and I know every line of the play, whoever else forgets his own;".repeat(29);
    filler[..1_850].to_owned()
});

/// What is asked.
#[derive(Clone, Copy)]
pub enum Turn {
    /// The first turn of a session that the gateway remembers.
    First,
    /// A later one, which the upstream can answer when it is told what was said before: so many messages with this one.
    Later(usize),
    /// No turn: what was said in a session is looked at.
    View,
    /// One of a session whose client remembers it.
    Named,
    /// One without a session.
    Unnamed,
}

impl Turn {
    fn request(self, number: u64, into: &mut Vec<u8>) {
        let (name, filler) = (name(number), &*FILLER);
        let method = match self {
            Self::View => "GET",
            Self::First | Self::Later(_) | Self::Named | Self::Unnamed => "POST",
        };
        let (path, header, body) = match self {
            Self::View => (format!("/v1/sessions/{name}"), String::new(), String::new()),
            Self::First | Self::Later(_) => {
                let input = match self {
                    Self::First => format!("{I_AM}{name}{filler}"),
                    Self::View | Self::Later(_) | Self::Named | Self::Unnamed => "Who is it?".to_owned(),
                };
                let body = format!(r#"{{"model":"main","stream":false,"input":"{input}"}}"#);
                (format!("/v1/sessions/{name}/turns"), String::new(), body)
            }
            Self::Named | Self::Unnamed => {
                let header = match self {
                    Self::Named => format!("x-session-id: {name}\r\n"),
                    Self::View | Self::Unnamed | Self::First | Self::Later(_) => String::new(),
                };
                let message = format!(r#"{{"role":"user","content":"{I_AM}{name}{filler}"}}"#);
                let body = format!(r#"{{"model":"main","messages":[{message}]}}"#);
                ("/v1/chat/completions".to_owned(), header, body)
            }
        };
        let length = body.len();
        into.clear();
        into.extend_from_slice(
            format!(
                "{method} {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n{header}content-length: {length}\r\n\r\n{body}"
            )
            .as_bytes(),
        );
    }

    fn messages(self) -> usize {
        match self {
            Self::Later(messages) => messages,
            Self::View | Self::First | Self::Named | Self::Unnamed => 1,
        }
    }
}

/// The name of a session. Neighbours in time are none in the tables.
pub fn name(number: u64) -> String {
    format!("s-{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// One turn of each session, several at once. Tells how many were not answered as they should have been.
pub async fn ask(address: SocketAddr, sessions: impl IntoIterator<Item = u64>, turn: Turn) -> u64 {
    let sessions = RefCell::new(sessions.into_iter());
    let clients = (0..CONNECTIONS).map(|_| client(address, &sessions, turn));
    join_all(clients).await.into_iter().sum()
}

async fn client(address: SocketAddr, sessions: &RefCell<impl Iterator<Item = u64>>, turn: Turn) -> u64 {
    let mut connection = TcpStream::connect(address).await.expect("the gateway listens");
    connection.set_nodelay(true).expect("a TCP socket");
    let (mut received, mut request, mut lost) = (Received::default(), Vec::new(), 0);
    loop {
        let next = sessions.borrow_mut().next();
        let Some(number) = next else { return lost };
        turn.request(number, &mut request);
        connection.write_all(&request).await.expect("the gateway reads");
        let response = received.next(&mut connection).await.expect("the gateway answers");
        let expected = saying(number, turn.messages());
        if response.status != 200 || memmem::find(&response.body, expected.as_bytes()).is_none() {
            lost += 1;
            if lost == 1 {
                let said = String::from_utf8_lossy(&response.body);
                eprintln!("lost: {} {said}, not {expected:?}", response.status);
            }
        }
    }
}

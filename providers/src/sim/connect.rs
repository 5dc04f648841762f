//! A port that accepts, refuses or swallows connects, and keeps its number through every change.
//!
//! Refusing: the port is bound and nobody listens, so the kernel answers a connect with a reset. Swallowing: the accept
//! queue has room for one connection and holds one of our own, so Linux drops every further connect unanswered.
//! Both happen below us: **neither can be seen or counted here.**

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use understudy_messages::clock::Clock;

use super::call::Connect;

/// Connections that may wait for their accept.
const BACKLOG: u32 = 1024;
/// How long the filling of the accept queue may take: it hangs when somebody else has filled it first.
const FILL_TIME: Duration = Duration::from_millis(500);

/// A port number that stays ours.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) address: SocketAddr,
    /// Bound, never listening: holds the number while nobody else does.
    _keeper: TcpSocket,
}

/// What the port does now. Dropping it makes the port refuse.
#[derive(Debug)]
pub(crate) enum OpenPort {
    Accepting(TcpListener),
    Refusing,
    Swallowing {
        _listener: TcpListener,
        _filler: Option<TcpStream>,
    },
}

impl Port {
    /// Takes a free port; it refuses.
    pub(crate) fn reserve(ip: IpAddr) -> io::Result<Self> {
        let keeper = bound(SocketAddr::new(ip, 0))?;
        Ok(Self {
            address: keeper.local_addr()?,
            _keeper: keeper,
        })
    }

    /// Makes the port do this; what it did before must have been dropped.
    pub(crate) async fn open(&self, connect: Connect, clock: &Clock) -> io::Result<OpenPort> {
        match connect {
            Connect::Accept => Ok(OpenPort::Accepting(bound(self.address)?.listen(BACKLOG)?)),
            Connect::Refuse => Ok(OpenPort::Refusing),
            Connect::Blackhole => {
                let listener = bound(self.address)?.listen(0)?;
                let deadline = clock.now() + FILL_TIME;
                let filler = TcpStream::connect(self.address);
                let filler = clock.timeout_at(deadline, filler).await;
                Ok(OpenPort::Swallowing {
                    _listener: listener,
                    _filler: filler.ok().and_then(Result::ok),
                })
            }
        }
    }
}

impl OpenPort {
    /// The next connection; never, while the port does not accept. **Cancel safety:** safe.
    pub(crate) async fn accept(&self) -> io::Result<TcpStream> {
        match self {
            Self::Accepting(listener) => Ok(listener.accept().await?.0),
            Self::Refusing | Self::Swallowing { .. } => std::future::pending().await,
        }
    }
}

/// A socket bound beside others that are bound to the same address and do not listen.
fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn connect(port: &Port, clock: &Clock) -> Option<io::Result<TcpStream>> {
        let deadline = clock.now() + Duration::from_millis(100);
        let connecting = TcpStream::connect(port.address);
        clock.timeout_at(deadline, connecting).await.ok()
    }

    #[tokio::test]
    async fn a_port_changes_between_its_three_ways_and_keeps_its_number() {
        let clock = Clock::real();
        let port = Port::reserve([127, 0, 0, 1].into()).expect("reserves");
        for _ in 0..3 {
            let refused = connect(&port, &clock).await.expect("is answered");
            let kind = refused.expect_err("is refused").kind();
            assert_eq!(kind, io::ErrorKind::ConnectionRefused);

            let open = port.open(Connect::Accept, &clock).await.expect("opens");
            let client = connect(&port, &clock).await.expect("is answered");
            assert!(client.is_ok() && open.accept().await.is_ok());
            drop(open);

            let open = port.open(Connect::Blackhole, &clock).await.expect("opens");
            assert!(connect(&port, &clock).await.is_none(), "must time out");
            drop(open);
        }
    }
}

//! A client that does not read. Its turn has ended by then, or ends with its time; what has been written to its connection waits
//! there, and the server waits for the connection.
//!
//! The system knows whether any of it was taken in, and ends a connection of which nothing was for too long.

use std::any::Any;
use std::time::Duration;

use actix_web::rt::net::TcpStream;

/// Has the system end this connection when its client takes in nothing of what was sent for `unread`.
#[cfg(target_os = "linux")]
pub(crate) fn bound_unread(connection: &dyn Any, unread: Duration) {
    let Some(socket) = connection.downcast_ref::<TcpStream>() else {
        return;
    };
    let millis = u32::try_from(unread.as_millis()).unwrap_or(u32::MAX);
    if let Err(error) = rustix::net::sockopt::set_tcp_user_timeout(socket, millis) {
        tracing::warn!(%error, "a client that does not read may keep its connection");
    }
}

/// Other systems have no such bound.
#[cfg(not(target_os = "linux"))]
pub(crate) fn bound_unread(_: &dyn Any, _: Duration) {}

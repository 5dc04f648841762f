//! From a client library's error to what went wrong on the way.

use std::error::Error;
use std::io::{self, ErrorKind};

use crate::classify::TransportFault;

#[cfg(test)]
mod tests;

/// What `error` means; `lost` is what a broken connection means at this point.
pub(crate) fn fault(error: &reqwest::Error, lost: TransportFault) -> TransportFault {
    if !error.is_connect() {
        return lost;
    }
    if error.is_timeout() {
        return TransportFault::ConnectTimeout;
    }
    causes(error).find_map(of_cause).unwrap_or(TransportFault::Refused)
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause| (*cause).source())
}

fn of_cause(cause: &(dyn Error + 'static)) -> Option<TransportFault> {
    if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
        return Some(of_tls(tls));
    }
    let error = cause.downcast_ref::<io::Error>()?;
    // the chain of sources leaves out what an I/O error wraps: TLS comes wrapped twice
    let wrapped = error.get_ref().and_then(|wrapped| of_cause(wrapped));
    wrapped.or_else(|| of_kind(error))
}

fn of_kind(error: &io::Error) -> Option<TransportFault> {
    match error.kind() {
        ErrorKind::ConnectionRefused => Some(TransportFault::Refused),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => Some(TransportFault::Unreachable),
        ErrorKind::TimedOut => Some(TransportFault::ConnectTimeout),
        // TCP has connected by then
        ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof => Some(TransportFault::TlsHandshake),
        _ if error.to_string().contains("lookup address") => Some(TransportFault::NameNotFound),
        _ => None,
    }
}

fn of_tls(error: &rustls::Error) -> TransportFault {
    match error {
        rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => TransportFault::TlsCertificate,
        _ => TransportFault::TlsHandshake,
    }
}

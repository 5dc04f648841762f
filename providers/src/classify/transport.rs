//! Failures of the way to a provider, where nobody answered.

use understudy_messages::failure::{Cut, Failure, Nuance, Reason};

/// What went wrong between the gateway and a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransportFault {
    /// Nobody listens there.
    Refused,
    /// No route to the host or its network.
    Unreachable,
    /// This process may open no more files, so that it can open no connection.
    NoFiles,
    /// The name does not resolve.
    NameNotFound,
    /// No connection within the connect limit.
    ConnectTimeout,
    /// The provider's certificate cannot be trusted.
    TlsCertificate,
    /// The TLS handshake failed for another reason.
    TlsHandshake,
    /// The connection broke before the first byte of the response.
    LostBeforeFirstByte,
    /// The connection broke, or spoke no HTTP, after the response had begun.
    Lost,
    /// Nothing useful arrived within the first-content limit.
    FirstContentLimit,
    /// The stream fell silent for longer than the idle limit.
    IdleLimit,
    /// The whole non-streaming answer took longer than its limit.
    WholeLimit,
}

/// The failure that a fault of the transport is: `tls_certificate` for that one, `overloaded` for what is our own, else `timeout`
/// (contract §5.3).
pub const fn transport(fault: TransportFault) -> Failure {
    use TransportFault as Fault;
    let (reason, cut) = match fault {
        Fault::NoFiles => {
            let mut failure = Failure::observed(Reason::Overloaded, Cut::Refused);
            failure.nuance = Some(Nuance::OwnLimit);
            return failure;
        }
        Fault::TlsCertificate => (Reason::TlsCertificate, Cut::Refused),
        Fault::Refused | Fault::Unreachable | Fault::NameNotFound | Fault::ConnectTimeout | Fault::TlsHandshake => {
            (Reason::Timeout, Cut::Refused)
        }
        Fault::LostBeforeFirstByte => (Reason::Timeout, Cut::LostBeforeFirstByte),
        Fault::Lost => (Reason::Timeout, Cut::Lost),
        Fault::FirstContentLimit => (Reason::Timeout, Cut::FirstContentLimit),
        Fault::IdleLimit => (Reason::Timeout, Cut::IdleLimit),
        Fault::WholeLimit => (Reason::Timeout, Cut::WholeLimit),
    };
    Failure::observed(reason, cut)
}

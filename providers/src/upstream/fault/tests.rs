use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection};
use understudy_messages::failure::{Nuance, Reason};
use understudy_messages::ids::ModelRef;

use super::*;
use crate::http_client;
use crate::sim::{SimOptions, Simulator};

/// Long enough for a handshake on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// What comes before the seed of an Ed25519 key in PKCS #8 (RFC 8410).
const KEY_HEAD: &[u8] = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";
const SEED: [u8; 32] = [7; 32];
/// Signed by that key itself, for `localhost`, from 2000 to 2049.
const SELF_SIGNED: &str = "MIHkMIGXoAMCAQICAQcwBQYDK2VwMA8xDTALBgNVBAMMBHNlbGYwHhcNMDAwMTAxMDAwMDAwWhcNNDkxMjMxMDAw\
    MDAwWjAPMQ0wCwYDVQQDDARzZWxmMCowBQYDK2VwAyEA6kpsY+KcUgq+9VB7Ey7F+ZVHdq6+vnuSQh7qaRRG0iyjGDAWMBQGA1UdEQQNMAuCCWxv\
    Y2FsaG9zdDAFBgMrZXADQQCF4qU4aJPomhyD6iODtaujpTv4/gVyM09mxTyhc6tf2yketJ+K/Rt7HiPGTej0Y2e738y/XQ+UXvmEk9sthcAG";

/// How a request to this address fails.
async fn fault_within(connect: Duration, url: &str) -> TransportFault {
    let _already_installed = rustls::crypto::ring::default_provider().install_default();
    let client = http_client(connect).expect("a client");
    let error = client.post(url).send().await.expect_err("must fail");
    fault(&error, TransportFault::LostBeforeFirstByte)
}

async fn fault_at(url: &str) -> TransportFault {
    fault_within(PATIENCE, url).await
}

/// A server that treats its one connection so; its port.
fn server(treat: impl FnOnce(TcpStream) + Send + 'static) -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("is bound").port();
    let server = std::thread::spawn(move || treat(listener.accept().expect("a connection").0));
    (port, server)
}

async fn simulated(connect: &str) -> (Simulator, String) {
    let plan = serde_json::json!({ "a/m": { "calls": [{ "connect": connect }] } });
    let plan = serde_json::from_value(plan).expect("a plan");
    let simulator = Simulator::start(plan, SimOptions::default()).await.expect("starts");
    let url = simulator.base_url_of(&ModelRef::new("a", "m"));
    (simulator, url)
}

#[tokio::test]
async fn a_port_where_nobody_listens_refuses() {
    let (_simulator, url) = simulated("refuse").await;
    assert_eq!(fault_at(&url).await, TransportFault::Refused);
}

#[tokio::test]
async fn a_connect_that_nobody_answers_ends_at_its_limit() {
    let (_simulator, url) = simulated("blackhole").await;
    let limit = Duration::from_millis(50);
    assert_eq!(fault_within(limit, &url).await, TransportFault::ConnectTimeout);
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_told_apart() {
    // longer than a label may be: no resolver has to be asked
    let url = format!("http://{}.invalid/", "x".repeat(64));
    assert_eq!(fault_at(&url).await, TransportFault::NameNotFound);
}

#[tokio::test]
async fn plain_http_where_tls_is_expected_is_a_failed_handshake() {
    let (port, server) = server(|mut socket| {
        socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("is read");
        let _until_the_client_leaves = socket.read_to_end(&mut Vec::new());
    });
    let url = format!("https://localhost:{port}/");
    assert_eq!(fault_at(&url).await, TransportFault::TlsHandshake);
    server.join().expect("served");
}

#[tokio::test]
async fn a_server_that_hangs_up_within_the_handshake_has_failed_it() {
    let (port, server) = server(|mut socket| {
        socket.read_exact(&mut [0]).expect("a hello");
    });
    let url = format!("https://localhost:{port}/");
    assert_eq!(fault_at(&url).await, TransportFault::TlsHandshake);
    server.join().expect("served");
}

#[tokio::test]
async fn a_certificate_that_its_owner_signed_is_not_trusted() {
    let (port, server) = server(|mut socket| {
        let mut tls = ServerConnection::new(Arc::new(self_signed())).expect("a session");
        while tls.complete_io(&mut socket).is_ok_and(|(read, _)| read > 0) {}
    });
    let url = format!("https://localhost:{port}/");
    assert_eq!(fault_at(&url).await, TransportFault::TlsCertificate);
    server.join().expect("served");
}

fn self_signed() -> ServerConfig {
    let key = PrivatePkcs8KeyDer::from([KEY_HEAD, &SEED].concat());
    let certificate = CertificateDer::from(STANDARD_NO_PAD.decode(SELF_SIGNED).expect("base64"));
    ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key.into())
        .expect("they belong together")
}

#[tokio::test]
async fn a_connection_closed_before_the_response_is_what_the_caller_calls_it() {
    let (port, server) = server(|mut socket| {
        socket.read_exact(&mut [0]).expect("a request");
    });
    let url = format!("http://127.0.0.1:{port}/");
    assert_eq!(fault_at(&url).await, TransportFault::LostBeforeFirstByte);
    server.join().expect("served");
}

#[test]
fn a_host_or_network_without_a_route_is_unreachable() {
    for kind in [ErrorKind::HostUnreachable, ErrorKind::NetworkUnreachable] {
        let error = io::Error::from(kind);
        assert_eq!(of_cause(&error), Some(TransportFault::Unreachable), "{kind}");
    }
}

#[test]
fn a_process_that_may_open_no_more_files_is_no_fault_of_the_provider() {
    for code in [EMFILE, ENFILE] {
        let error = io::Error::from_raw_os_error(code);
        let fault = of_cause(&error).expect("known");
        assert_eq!(fault, TransportFault::NoFiles);
        let failure = crate::classify::transport(fault);
        assert_eq!(
            (failure.reason, failure.nuance),
            (Reason::Overloaded, Some(Nuance::OwnLimit))
        );
    }
}

//! Where the gateway itself listens: what a plugin asks there it asks in the midst of its own call, and says so.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use reqwest::Url;

/// The addresses of the gateway's own listeners.
#[derive(Clone, Debug, Default)]
pub struct Listeners(Arc<[SocketAddr]>);

impl Listeners {
    /// Those.
    pub fn new(addresses: impl IntoIterator<Item = SocketAddr>) -> Self {
        Self(addresses.into_iter().collect())
    }

    /// Whether one of them is certainly what answers there. Names are not looked up, `localhost` excepted: who answers to a name
    /// may be somebody else.
    pub fn answer(&self, url: &Url) -> bool {
        let (Some(host), Some(port), "http") = (url.host_str(), url.port_or_known_default(), url.scheme()) else {
            return false;
        };
        let given = match host.trim_matches(['[', ']']) {
            "localhost" => vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)],
            number => number.parse().into_iter().collect(),
        };
        let listens = |own: &SocketAddr| {
            let here = |ip: &IpAddr| own.ip() == *ip || (own.ip().is_unspecified() && ip.is_loopback());
            own.port() == port && given.iter().any(here)
        };
        self.0.iter().any(listens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_number_of_its_own_or_localhost_is_the_gateway() {
        let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let own = Listeners::new([address("127.0.0.1:8080"), address("0.0.0.0:9090")]);
        let answers = |url: &str| own.answer(&Url::parse(url).expect("a URL"));
        for gateway in [
            "http://127.0.0.1:8080/v1",
            "http://localhost:8080",
            "http://127.0.0.1:9090",
            "http://[::1]:9090/",
        ] {
            assert!(answers(gateway), "{gateway}");
        }
        for other in [
            "http://127.0.0.1:8081/",
            "https://127.0.0.1:8080/",
            "http://127.0.0.2:8080/",
            "http://gateway.example:8080/",
            "http://10.0.0.1:9090/",
        ] {
            assert!(!answers(other), "{other}");
        }
    }
}

//! Where a gateway is, as requests need it.

use std::net::{SocketAddr, ToSocketAddrs};

use reqwest::Url;

/// A gateway that is asked.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) socket: SocketAddr,
    /// The `Host` header.
    pub(crate) host: String,
    /// What comes before `/chat/completions`.
    pub(crate) path: String,
    /// The client key, where the gateway asks for one.
    pub(crate) key: Option<String>,
}

/// Why nobody can be asked there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAddress {
    #[error("`{0}` is not the address of a gateway: write http://127.0.0.1:4242/v1")]
    NoUrl(String),
    #[error("`{0}` is not plain HTTP, the only thing the driver speaks: put what ends TLS before the gateway aside")]
    NotPlain(String),
    #[error("`{0}` has no known address")]
    Unknown(String),
    #[error("a client key has characters that no header has")]
    Key,
}

impl Address {
    /// Reads a base URL as clients take it; without a path it ends in `/v1`.
    ///
    /// # Errors
    /// Nothing can be asked there.
    pub(crate) fn read(text: &str, key: Option<String>) -> Result<Self, NoAddress> {
        let url = Url::parse(text).map_err(|_| NoAddress::NoUrl(text.to_owned()))?;
        if url.scheme() != "http" {
            return Err(NoAddress::NotPlain(text.to_owned()));
        }
        if key
            .as_ref()
            .is_some_and(|key| !key.bytes().all(|byte| byte.is_ascii_graphic()))
        {
            return Err(NoAddress::Key);
        }
        let host = url.host_str().ok_or_else(|| NoAddress::NoUrl(text.to_owned()))?;
        let host = format!("{host}:{}", url.port_or_known_default().unwrap_or(80));
        let mut found = host.to_socket_addrs().map_err(|_| NoAddress::Unknown(host.clone()))?;
        let path = match url.path().trim_end_matches('/') {
            "" => "/v1".to_owned(),
            path => path.to_owned(),
        };
        Ok(Self {
            socket: found.next().ok_or_else(|| NoAddress::Unknown(host.clone()))?,
            host,
            path,
            key,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_read_as_clients_take_it() {
        let read = |text| Address::read(text, None).expect("is an address");
        let own = read("http://127.0.0.1:4242/v1/");
        assert_eq!(
            (own.socket.port(), &*own.host, &*own.path),
            (4242, "127.0.0.1:4242", "/v1")
        );
        assert_eq!(read("http://127.0.0.1:4242").path, "/v1");
        assert_eq!(read("http://127.0.0.1/ok/v1").path, "/ok/v1");
    }

    #[test]
    fn what_cannot_be_asked_is_refused_with_a_way_out() {
        for (text, said) in [
            ("127.0.0.1:4242", "is not"),
            ("https://127.0.0.1", "plain HTTP"),
            ("http://nowhere.invalid", "no known address"),
        ] {
            let error = Address::read(text, None).expect_err(text).to_string();
            assert!(error.contains(said), "{error}");
        }
        assert!(Address::read("http://127.0.0.1", Some("a\r\nb".to_owned())).is_err());
    }
}

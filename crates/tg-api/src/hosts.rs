//! By which names a server is called, and by which pages.
//!
//! A page of the web may have its own name lead to this machine (DNS rebinding): its browser then takes the server for the page's own and lets it
//! read all that the API shows. It cannot choose what the browser writes into `Host`, which is that name. So a listener on loopback answers
//! to names of loopback, to addresses, and to those that its operator named; any other one to every name unless its operator named some. Where TLS
//! is spoken the certificate says the name, and `Host` is not looked at.
//!
//! A page may also send requests that it cannot read the answers of. A browser says in `Origin` whose page sends one that changes something: it is
//! taken if the page is the server's own, or one of a name that the operator named. Programs that are no browsers send no `Origin`.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, Method, header};

use crate::error::ApiError;

/// Most letters of a name that a refusal repeats.
const SHOWN_LETTERS_MAX: usize = 100;

/// In it a browser says how the page that sends a request is related to the server, as the browser sees it: through a proxy of another name, too.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// A name of a server, or its address, with a port or for all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostName {
    name: String,
    port: Option<u16>,
}

/// A text names no host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no name of a host: write one such as grid.example.org or 10.0.0.7:7070")]
pub struct HostNameError {
    /// The text.
    text: String,
}

impl FromStr for HostName {
    type Err = HostNameError;

    fn from_str(text: &str) -> Result<Self, HostNameError> {
        let error = || HostNameError {
            text: text.to_owned(),
        };
        let authority = text.parse::<Authority>().ok();
        let authority = authority.filter(|it| !it.as_str().contains('@'));
        let authority = authority.ok_or_else(error)?;
        let name = authority.host().trim_end_matches('.').to_lowercase();
        // What follows a name is a port with its colon, or nothing.
        let port = match authority.as_str().strip_prefix(authority.host()) {
            Some("") => None,
            Some(rest) => {
                let port = rest.strip_prefix(':').and_then(|it| it.parse().ok());
                Some(port.ok_or_else(error)?)
            }
            None => return Err(error()),
        };
        match name.is_empty() {
            true => Err(error()),
            false => Ok(Self { name, port }),
        }
    }
}

impl HostName {
    fn address(&self) -> Option<IpAddr> {
        let inner = self.name.strip_prefix('[');
        let inner = inner.and_then(|it| it.strip_suffix(']'));
        inner.unwrap_or(&self.name).parse().ok()
    }

    /// Whether no server of names can lead it elsewhere than it says: an address, or this machine.
    fn is_fixed(&self) -> bool {
        let is_local = self.name == "localhost" || self.name.ends_with(".localhost");
        is_local || self.address().is_some()
    }

    /// Whether a request may name this as `asked`.
    fn covers(&self, asked: &Self) -> bool {
        self.name == asked.name && (self.port.is_none() || self.port == asked.port)
    }
}

/// The names by which a listener is called.
#[derive(Debug, Clone)]
pub(crate) struct ListenerNames {
    /// Those that the operator named.
    named: Vec<HostName>,
    /// Whether other names are taken, too.
    takes_any: bool,
}

impl ListenerNames {
    /// Of a listener at an address.
    pub(crate) fn of(address: SocketAddr, named: Vec<HostName>) -> Self {
        let is_loopback = address.ip().to_canonical().is_loopback();
        Self {
            takes_any: !is_loopback && named.is_empty(),
            named,
        }
    }

    /// Of a listener that speaks TLS.
    pub(crate) const fn of_tls(named: Vec<HostName>) -> Self {
        Self {
            named,
            takes_any: true,
        }
    }

    /// Refuses a request under another name, and one by a page of somebody else that may change something.
    pub(crate) fn check(&self, request: &Request) -> Result<(), ApiError> {
        let headers = request.headers();
        let host = text(headers, &header::HOST);
        if let Some(host) = &host {
            self.check_host(host)?;
        }
        if let Some(authority) = request.uri().authority() {
            self.check_host(authority.as_str())?;
        }
        let is_reading = matches!(
            *request.method(),
            Method::GET | Method::HEAD | Method::OPTIONS
        );
        match text(headers, &header::ORIGIN) {
            Some(origin) if !is_reading => {
                let is_own = text(headers, &FETCH_SITE).as_deref() == Some("same-origin");
                if is_own || self.takes_page(&origin, host.as_deref()) {
                    return Ok(());
                }
                Err(ApiError::WrongOrigin {
                    origin: origin.chars().take(SHOWN_LETTERS_MAX).collect(),
                })
            }
            Some(_) | None => Ok(()),
        }
    }

    fn check_host(&self, host: &str) -> Result<(), ApiError> {
        let named = host.parse::<HostName>();
        let is_taken = named.is_ok_and(|asked| {
            asked.is_fixed() || self.named.iter().any(|known| known.covers(&asked))
        });
        if is_taken || self.takes_any {
            return Ok(());
        }
        Err(ApiError::WrongHost {
            host: host.chars().take(SHOWN_LETTERS_MAX).collect(),
        })
    }

    /// Whether a page of this origin may change something here.
    fn takes_page(&self, origin: &str, host: Option<&str>) -> bool {
        let Some((scheme, place)) = origin.split_once("://") else {
            // It says "null" of pages that have none.
            return false;
        };
        let Ok(page) = place.parse::<HostName>() else {
            return false;
        };
        let usual = match scheme {
            "https" => 443,
            _ => 80,
        };
        let full = |it: &HostName| (it.name.clone(), it.port.unwrap_or(usual));
        let own = host.and_then(|host| host.parse::<HostName>().ok());
        own.is_some_and(|own| full(&own) == full(&page))
            || self.named.iter().any(|known| known.covers(&page))
    }
}

/// The text of a header; what is no text is none that is known.
fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?;
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use axum::body::Body;

    use super::*;

    fn names(listen: &str, named: &[&str]) -> ListenerNames {
        let named = named.iter().map(|it| it.parse().unwrap());
        ListenerNames::of(listen.parse().unwrap(), named.collect())
    }

    fn check(names: &ListenerNames, method: Method, headers: &[(&str, &str)]) -> Option<String> {
        let mut request = axum::http::Request::builder()
            .method(method)
            .uri("/v1/status");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let refused = names.check(&request.body(Body::empty()).unwrap()).err();
        refused.map(|error| error.code().to_owned())
    }

    fn host(names: &ListenerNames, host: &str) -> Option<String> {
        check(names, Method::GET, &[("host", host)])
    }

    /// A page whose name leads here for a second.
    #[test]
    fn a_name_that_leads_to_loopback_is_not_answered() {
        let own = names("127.0.0.1:7070", &[]);
        for good in [
            "127.0.0.1:7070",
            "localhost:7070",
            "LOCALHOST.",
            "grid.localhost",
            "[::1]:7070",
            "10.0.0.7",
        ] {
            assert_eq!(host(&own, good), None, "{good}");
        }
        for bad in [
            "evil.example:7070",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "user@localhost",
            "localhost:99999",
            "localhost:x",
            ":7070",
            "",
            "a b",
        ] {
            assert_eq!(host(&own, bad).as_deref(), Some("TG-API-014"), "{bad}");
        }
        assert_eq!(check(&own, Method::GET, &[]), None);
        let proxied = names("[::1]:7070", &["Grid.Example.org", "b.example:81"]);
        for (asked, is_taken) in [
            ("grid.example.org", true),
            ("grid.example.org:443", true),
            ("b.example:81", true),
            ("b.example:82", false),
            ("c.example", false),
        ] {
            assert_eq!(host(&proxied, asked).is_none(), is_taken, "{asked}");
        }
    }

    #[test]
    fn other_listeners_answer_to_any_name_until_some_are_named() {
        let open = names("0.0.0.0:7070", &[]);
        assert_eq!(host(&open, "my_gateway:7070"), None);
        let named = names("0.0.0.0:7070", &["grid.example.org"]);
        assert_eq!(host(&named, "10.0.0.7:7070"), None);
        assert!(host(&named, "evil.example").is_some());
        let tls = ListenerNames::of_tls(Vec::new());
        assert_eq!(host(&tls, "grid.example.org"), None);
    }

    #[test]
    fn pages_of_others_change_nothing() {
        let own = names("127.0.0.1:7070", &["grid.example.org"]);
        let here = ("host", "localhost:7070");
        let of = |method, headers: &[(&str, &str)]| check(&own, method, headers);
        for (origin, is_taken) in [
            ("http://localhost:7070", true),
            ("https://grid.example.org", true),
            ("http://localhost:5173", false),
            ("http://evil.example", false),
            ("null", false),
            ("http://", false),
        ] {
            let refused = of(Method::POST, &[here, ("origin", origin)]);
            assert_eq!(refused.is_none(), is_taken, "{origin}");
            if !is_taken {
                assert_eq!(refused.as_deref(), Some("TG-API-015"), "{origin}");
            }
            assert_eq!(of(Method::GET, &[here, ("origin", origin)]), None);
        }
        // Programs send none, and a browser behind a proxy says that the page is the proxy's own.
        assert_eq!(of(Method::POST, &[here]), None);
        let proxied = [
            ("host", "10.0.0.7:7070"),
            ("origin", "https://other.example"),
            ("sec-fetch-site", "same-origin"),
        ];
        assert_eq!(of(Method::POST, &proxied), None);
        assert!(of(Method::POST, &proxied[..2]).is_some());
        // The usual port is not written.
        let usual = [("host", "[::1]"), ("origin", "http://[::1]:80")];
        assert_eq!(of(Method::DELETE, &usual), None);
    }
}

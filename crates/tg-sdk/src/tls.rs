//! Connections by TCP, and by TLS where the address begins with `https`.
//!
//! A server's certificate is checked against those that the system trusts, or that `SSL_CERT_FILE` or `SSL_CERT_DIR` name.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::{ClientConfig, RootCertStore};

/// What makes connections.
pub type Connector = HttpsConnector<HttpConnector>;

/// Why no certificate can be checked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RootsError {
    /// The system has none.
    #[error("there is no certificate of an authority that this system trusts{}", why(.0))]
    None(Vec<String>),
    /// What should be certificates is not.
    #[error("it holds no certificate in PEM")]
    NotPem(#[source] Arc<pem::Error>),
}

fn why(errors: &[String]) -> String {
    errors.first().map_or_else(String::new, |first| {
        format!(" ({first}); SSL_CERT_FILE names a file with some")
    })
}

/// The certificates by which those of servers are checked.
#[derive(Debug, Clone)]
pub struct TlsRoots(Arc<RootCertStore>);

impl TlsRoots {
    /// Those that the system trusts, read once.
    ///
    /// # Errors
    /// If there are none.
    pub fn of_system() -> Result<Self, RootsError> {
        static ROOTS: OnceLock<Result<TlsRoots, RootsError>> = OnceLock::new();
        let read = || {
            let found = rustls_native_certs::load_native_certs();
            let mut roots = RootCertStore::empty();
            let (taken, _) = roots.add_parsable_certificates(found.certs);
            let errors = found.errors.iter().map(ToString::to_string);
            match taken {
                0 => Err(RootsError::None(errors.collect())),
                _ => Ok(Self(Arc::new(roots))),
            }
        };
        ROOTS.get_or_init(read).clone()
    }

    /// Those of a text in PEM: of a grid with an authority of its own, or a server's own certificate.
    ///
    /// # Errors
    /// If it holds none.
    pub fn from_pem(pem: &[u8]) -> Result<Self, RootsError> {
        let mut roots = RootCertStore::empty();
        let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
        let certificates = certificates.map_err(|error| RootsError::NotPem(Arc::new(error)))?;
        match roots.add_parsable_certificates(certificates).0 {
            0 => Err(RootsError::None(Vec::new())),
            _ => Ok(Self(Arc::new(roots))),
        }
    }

    /// None: for addresses that do not begin with `https`.
    #[must_use]
    pub fn none() -> Self {
        Self(Arc::new(RootCertStore::empty()))
    }

    /// What makes connections, each within `time_max`.
    ///
    /// # Panics
    /// Never: the provider of ciphers speaks the versions it is asked for.
    #[must_use]
    pub fn connector(&self, time_max: Duration) -> Connector {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(time_max));
        tcp.enforce_http(false);
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider speaks TLS 1.2 and 1.3")
            .with_root_certificates(Arc::clone(&self.0))
            .with_no_client_auth();
        HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp)
    }
}

/// Certificates for an address: the system's if it begins with `https`, else none.
///
/// # Errors
/// If the system has none.
pub fn roots_for(url: &str) -> Result<TlsRoots, RootsError> {
    match is_secure(url) {
        true => TlsRoots::of_system(),
        false => Ok(TlsRoots::none()),
    }
}

/// Whether a connection failed because of the server's certificate.
pub(crate) fn is_untrusted(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut chain = std::iter::successors(Some(error), |error| error.source());
    chain.any(|error| {
        let mut made_of = std::iter::successors(Some(error), |error| within(*error));
        made_of.any(|error| {
            let error = error.downcast_ref::<rustls::Error>();
            matches!(error, Some(rustls::Error::InvalidCertificate(_)))
        })
    })
}

/// The error of which an `io::Error` is made. It is no part of the chain: the source of an `io::Error` is that error's.
fn within<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> Option<&'a (dyn std::error::Error + 'static)> {
    let within = error.downcast_ref::<std::io::Error>()?.get_ref()?;
    Some(within)
}

/// Whether an address begins with `https`, in any case of its letters.
fn is_secure(url: &str) -> bool {
    url.get(..6)
        .is_some_and(|it| it.eq_ignore_ascii_case("https:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_needed_for_https_alone() {
        assert!(is_secure("https://a") && is_secure("HTTPS://a"));
        assert!(!is_secure("http://https:1") && !is_secure("h"));
        assert!(roots_for("http://a").is_ok());
    }

    #[test]
    fn what_holds_no_certificate_is_said() {
        let nothing = TlsRoots::from_pem(b"").map_err(|error| error.to_string());
        let said = "there is no certificate of an authority that this system trusts";
        assert_eq!(nothing.err().as_deref(), Some(said));
        assert!(TlsRoots::from_pem(b"-----BEGIN CERTIFICATE-----\n").is_err());
    }
}

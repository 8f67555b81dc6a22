//! Where a node's API speaks TLS.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tg_api::{ApiListener, ServerTls, TlsFiles};

use tg_console::outcome::{Exit, Failure, OrFail};

/// An address with a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsPlace {
    /// The address.
    pub(crate) listen: SocketAddr,
    /// The certificate and its key.
    pub(crate) files: TlsFiles,
}

/// What a file of settings says of TLS.
#[derive(Debug, Clone, Default)]
pub(crate) struct TlsSettings {
    /// The address.
    pub(crate) listen: Option<SocketAddr>,
    /// The file of the certificate, from the folder of the settings.
    pub(crate) certificate: Option<PathBuf>,
    /// The file of the key, from the folder of the settings.
    pub(crate) key: Option<PathBuf>,
}

impl TlsSettings {
    /// The place that flags name, or else the settings of `file`, if either does.
    ///
    /// # Errors
    /// If only a part of it is in the settings.
    pub(crate) fn place(
        self,
        file: &Path,
        of_flags: Option<&TlsPlace>,
    ) -> Result<Option<TlsPlace>, Failure> {
        if let Some(place) = of_flags {
            return Ok(Some(place.clone()));
        }
        let folder = file.parent().unwrap_or(Path::new(""));
        match (self.listen, self.certificate, self.key) {
            (None, None, None) => Ok(None),
            (Some(listen), Some(certificate), Some(key)) => Ok(Some(TlsPlace {
                listen,
                files: TlsFiles {
                    certificate: folder.join(certificate),
                    key: folder.join(key),
                },
            })),
            _ => {
                let text = format!("{}: TLS is half set up", file.display());
                Err(Failure::new(Exit::Usage, anyhow::anyhow!(text))
                    .hint("tls_listen, tls_certificate and tls_key belong together"))
            }
        }
    }
}

impl TlsPlace {
    /// Takes the address for an API.
    ///
    /// # Errors
    /// If the files are wrong, or the address cannot be listened on.
    pub(crate) async fn take(self, listener: ApiListener) -> Result<ApiListener, Failure> {
        let Self { listen, files } = self;
        let tls = ServerTls::read(files)
            .or_fail(Exit::Usage, "speak TLS")
            .map_err(|failure| {
                failure.hint(
                    "a certificate and its key are files in PEM, such as those that `certbot` or `openssl req -x509` writes",
                )
            })?;
        listener
            .with_tls(listen, tls)
            .await
            .or_fail(Exit::Failed, format!("listen on {listen} for TLS"))
            .map_err(|failure| failure.hint("--tls-listen names another address"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn an_address_and_two_files_belong_together() {
        let file = Path::new("/etc/grid/gateway.toml");
        assert_eq!(TlsSettings::default().place(file, None).unwrap(), None);
        let listen: SocketAddr = "0.0.0.0:443".parse().unwrap();
        let whole = TlsSettings {
            listen: Some(listen),
            certificate: Some("chain.pem".into()),
            key: Some("/run/key.pem".into()),
        };
        let place = whole.clone().place(file, None).unwrap().unwrap();
        assert_eq!(place.files.certificate, Path::new("/etc/grid/chain.pem"));
        assert_eq!(place.files.key, Path::new("/run/key.pem"));
        for half in [
            TlsSettings {
                key: None,
                ..whole.clone()
            },
            TlsSettings {
                listen: None,
                ..whole
            },
        ] {
            let failure = half.place(file, None).unwrap_err();
            assert!(failure.error.to_string().contains("gateway.toml"));
        }
    }
}

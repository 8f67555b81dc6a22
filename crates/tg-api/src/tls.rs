//! TLS: a certificate and its key as PEM files, read again when they change.
//!
//! Certificates of public authorities last some weeks. Whatever renews them replaces the files; the server looks at them
//! again at handshakes, at most once in [`LOOK_AGAIN`], so nothing has to be restarted. Files that do not fit together are
//! left alone and said in the log: the certificate that was in use stays.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, ServerConfig};

/// How often the files are looked at again, at most.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// Bytes of a file of certificates or of a key, at most: a chain has some kB.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file is larger than any certificate.
    #[error("{} has more than {FILE_BYTES_MAX} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// A file holds none of what it should.
    #[error("{} holds no {what} in PEM", path.display())]
    NotPem {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
        /// Why.
        #[source]
        source: pem::Error,
    },
    /// The file of certificates is empty.
    #[error("{} holds no certificate", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// The key is not the certificate's, or of a kind that is not spoken.
    #[error("{} and {} do not fit together", certificate.display(), key.display())]
    Unfit {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// Why.
        #[source]
        source: rustls::Error,
    },
}

/// Where a server's certificate and its key are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and after it those by which it is signed, in PEM.
    pub certificate: PathBuf,
    /// Its key in PEM.
    pub key: PathBuf,
}

/// What speaks TLS for a server.
#[derive(Clone)]
pub struct ServerTls(Arc<ServerConfig>);

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ServerTls").finish_non_exhaustive()
    }
}

impl ServerTls {
    /// Reads the files: TLS 1.2 and 1.3, HTTP/1.1, no certificates of clients.
    ///
    /// # Errors
    /// If a file cannot be read, or they do not fit together.
    ///
    /// # Panics
    /// Never: the provider of ciphers speaks the versions it is asked for.
    pub fn read(files: TlsFiles) -> Result<Self, TlsError> {
        let certificates = ReloadedCertificate::read(files)?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider);
        let builder = builder
            .with_safe_default_protocol_versions()
            .expect("the provider speaks TLS 1.2 and 1.3");
        let mut config = builder
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(certificates));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.0))
    }
}

/// The certificate in use.
#[derive(Debug)]
struct ReloadedCertificate {
    files: TlsFiles,
    state: Mutex<CertificateState>,
}

#[derive(Debug)]
struct CertificateState {
    certified: Arc<CertifiedKey>,
    /// When the files were written that were looked at last.
    written: [Option<SystemTime>; 2],
    looked: Instant,
}

impl ReloadedCertificate {
    fn read(files: TlsFiles) -> Result<Self, TlsError> {
        let state = CertificateState {
            written: written(&files),
            certified: Arc::new(certified(&files)?),
            looked: Instant::now(),
        };
        Ok(Self {
            files,
            state: Mutex::new(state),
        })
    }

    /// The certificate; that of files that changed, if the last look was `age` ago.
    fn current(&self, age: Duration) -> Arc<CertifiedKey> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.looked.elapsed() >= age {
            state.looked = Instant::now();
            let now = written(&self.files);
            if now != state.written {
                state.written = now;
                match certified(&self.files) {
                    Ok(certified) => state.certified = Arc::new(certified),
                    Err(error) => {
                        tracing::warn!(
                            error = &error as &dyn std::error::Error,
                            "the certificate in use stays"
                        );
                    }
                }
            }
        }
        Arc::clone(&state.certified)
    }
}

impl ResolvesServerCert for ReloadedCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current(LOOK_AGAIN))
    }
}

fn written(files: &TlsFiles) -> [Option<SystemTime>; 2] {
    [&files.certificate, &files.key].map(|path| {
        let metadata = std::fs::metadata(path).ok()?;
        metadata.modified().ok()
    })
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    use std::io::Read as _;
    let unreadable = |source| TlsError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    let mut file = file.take(FILE_BYTES_MAX + 1);
    file.read_to_end(&mut bytes).map_err(unreadable)?;
    match bytes.len() as u64 > FILE_BYTES_MAX {
        true => Err(TlsError::TooLarge {
            path: path.to_owned(),
        }),
        false => Ok(bytes),
    }
}

fn certified(files: &TlsFiles) -> Result<CertifiedKey, TlsError> {
    let TlsFiles { certificate, key } = files;
    let not_pem = |path: &Path, what, source| TlsError::NotPem {
        path: path.to_owned(),
        what,
        source,
    };
    let bytes = read(certificate)?;
    let chain = CertificateDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|source| not_pem(certificate, "certificate", source))?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate {
            path: certificate.clone(),
        });
    }
    let own = PrivateKeyDer::from_pem_slice(&read(key)?);
    let own = own.map_err(|source| not_pem(key, "private key", source))?;
    let provider = aws_lc_rs::default_provider();
    CertifiedKey::from_der(chain, own, &provider).map_err(|source| TlsError::Unfit {
        certificate: certificate.clone(),
        key: key.clone(),
        source,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn write(files: &TlsFiles, name: &str) {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        std::fs::write(&files.certificate, made.cert.pem()).unwrap();
        std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    }

    fn files(folder: &Path) -> TlsFiles {
        TlsFiles {
            certificate: folder.join("certificate.pem"),
            key: folder.join("key.pem"),
        }
    }

    #[test]
    fn files_that_change_are_read_again_and_wrong_ones_change_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        write(&files, "localhost");
        let certificate = ReloadedCertificate::read(files.clone()).unwrap();
        let first = certificate.current(Duration::ZERO);
        assert!(Arc::ptr_eq(&first, &certificate.current(Duration::ZERO)));
        let later = |path: &Path, seconds| {
            let file = std::fs::File::options().write(true).open(path).unwrap();
            let time = SystemTime::now() + Duration::from_secs(seconds);
            file.set_modified(time).unwrap();
        };
        write(&files, "localhost");
        later(&files.key, 5);
        assert!(Arc::ptr_eq(
            &first,
            &certificate.current(Duration::from_secs(60))
        ));
        let second = certificate.current(Duration::ZERO);
        assert!(!Arc::ptr_eq(&first, &second));
        std::fs::write(&files.key, "nothing").unwrap();
        later(&files.key, 9);
        assert!(Arc::ptr_eq(&second, &certificate.current(Duration::ZERO)));
    }

    #[test]
    fn what_is_wrong_with_the_files_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        let error = || ServerTls::read(files.clone()).unwrap_err();
        assert!(matches!(error(), TlsError::Unreadable { .. }));
        std::fs::write(&files.certificate, "").unwrap();
        assert!(matches!(error(), TlsError::NoCertificate { .. }));
        write(&files, "localhost");
        let key = std::fs::read(&files.key).unwrap();
        std::fs::write(&files.key, "-----BEGIN").unwrap();
        assert!(matches!(error(), TlsError::NotPem { .. }));
        write(&files, "localhost");
        std::fs::write(&files.key, key).unwrap();
        assert!(matches!(error(), TlsError::Unfit { .. }));
        std::fs::write(&files.certificate, vec![b'-'; (1 << 20) + 1]).unwrap();
        assert!(matches!(error(), TlsError::TooLarge { .. }));
    }
}

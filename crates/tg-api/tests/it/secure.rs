//! The API by TLS, beside the one without.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tg_api::{ApiConfig, ApiListener, ApiServer, GridPort, ServerTls, TlsFiles};
use tg_sdk::tls::TlsRoots;
use tg_sdk::{Client, ClientError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::grid::Grid;

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// A server on two addresses, and its certificate.
async fn serve(config: ApiConfig) -> (ApiServer, String) {
    let folder = tempfile::tempdir().unwrap();
    let files = TlsFiles {
        certificate: folder.path().join("certificate.pem"),
        key: folder.path().join("key.pem"),
    };
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(&files.certificate, made.cert.pem()).unwrap();
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    let listener = ApiListener::bind(ANY).await.unwrap();
    let tls = ServerTls::read(files).unwrap();
    let listener = listener.with_tls(ANY, tls).await.unwrap();
    let port: Arc<dyn GridPort> = Grid::new();
    (listener.serve(port, config), made.cert.pem())
}

fn secure_url(server: &ApiServer) -> String {
    format!(
        "https://localhost:{}",
        server.secure_address().unwrap().port()
    )
}

#[tokio::test]
async fn a_client_that_trusts_the_certificate_is_answered_and_no_other() {
    let (server, certificate) = serve(ApiConfig::default()).await;
    let roots = TlsRoots::from_pem(certificate.as_bytes()).unwrap();
    let url = secure_url(&server);
    let secure = Client::trusting(&url, &roots).unwrap();
    let plain = Client::new(&server.url()).unwrap();
    let (one, other) = (secure.status().await, plain.status().await);
    assert_eq!(one.unwrap().height, other.unwrap().height);
    // By another name the certificate is nobody's.
    let address = format!("https://{}", server.secure_address().unwrap());
    for (url, roots) in [(&address, &roots), (&url, &TlsRoots::none())] {
        let stranger = Client::trusting(url, roots).unwrap();
        let refused = stranger.status().await.unwrap_err();
        assert!(
            matches!(refused, ClientError::Unreachable { .. }),
            "{refused}"
        );
        assert!(refused.hint().contains("SSL_CERT_FILE"), "{refused:?}");
    }
    server.stop(Duration::from_secs(5)).await;
    assert!(secure.status().await.is_err());
}

#[tokio::test]
async fn who_does_not_shake_hands_is_let_go() {
    let config = ApiConfig {
        head_time_max: Duration::from_millis(200),
        ..ApiConfig::default()
    };
    let (server, certificate) = serve(config).await;
    let address = server.secure_address().unwrap();
    let mut silent = TcpStream::connect(address).await.unwrap();
    assert_eq!(silent.read(&mut [0; 8]).await.unwrap_or(0), 0);
    let mut plain = TcpStream::connect(address).await.unwrap();
    plain
        .write_all(b"GET /v1/status HTTP/1.1\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    // The server's alert, or nothing: no answer.
    let _ended = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"));
    let roots = TlsRoots::from_pem(certificate.as_bytes()).unwrap();
    let client = Client::trusting(&secure_url(&server), &roots).unwrap();
    client.status().await.unwrap();
}

//! Blobs are stored for accounts that sign for them and have something to lose.

use tg_api::{ApiConfig, UploadAllowance, allowance};
use tg_sdk::{Client, ClientError};
use tg_types::{Digest, SignedUpload, TimestampMs, UploadPermit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::grid::{Grid, wallet};

/// Puts `bytes` under the name `digest` with any permit; returns the head and body of the answer.
async fn put(client: &Client, digest: Digest, permit: Option<&str>, bytes: &[u8]) -> String {
    let address = client.url().strip_prefix("http://").unwrap();
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let permit = permit.map_or_else(String::new, |it| format!("tg-upload: {it}\r\n"));
    let head = format!(
        "PUT /v1/blobs/{digest} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{permit}content-length: {}\r\n\r\n",
        bytes.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn a_stranger_stores_nothing() {
    let grid = Grid::new();
    let (server, client) = grid.serve(ApiConfig::default()).await;
    let error = Client::new(&server.url())
        .unwrap()
        .put_blob(b"x".to_vec())
        .await
        .unwrap_err();
    assert_eq!(
        (error.status(), error.code()),
        (Some(401), Some("TG-API-009"))
    );
    let poor = client.uploading_as(&wallet("nobody"));
    let error = poor.put_blob(b"x".to_vec()).await.unwrap_err();
    assert_eq!(error.code(), Some("TG-API-009"));
    assert!(error.to_string().contains("has no money"), "{error}");
    assert!(!error.is_transient());
    let absent = client.blob(Digest::of_blob(b"x"), 9).await.unwrap_err();
    assert!(matches!(absent, ClientError::Refused { status: 404, .. }));
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one table of permits")]
async fn a_permit_holds_for_one_blob_for_minutes_on_one_network() {
    let (_server, client) = Grid::new().serve(ApiConfig::default()).await;
    let status = client.status().await.unwrap();
    let domain: tg_types::ChainDomain = status.domain.clone().into();
    let digest = Digest::of_blob(b"hello");
    let good = UploadPermit {
        digest,
        length: 5,
        expires: TimestampMs::new(status.timestamp_ms + 60_000),
    };
    let sign = |permit, domain| SignedUpload::new(permit, &wallet("alice"), domain).to_string();
    let other = tg_types::ChainDomain {
        chain_id: domain.chain_id + 1,
        ..domain
    };
    let cases = [
        (None, "there is no header"),
        (Some("0x12".to_owned()), "it is not one"),
        (
            Some(sign(
                UploadPermit {
                    digest: Digest::of_blob(b"hullo"),
                    ..good
                },
                &domain,
            )),
            "for the blob",
        ),
        (
            Some(sign(UploadPermit { length: 6, ..good }, &domain)),
            "for 6 bytes, not 5",
        ),
        (
            Some(sign(
                UploadPermit {
                    expires: TimestampMs::new(1),
                    ..good
                },
                &domain,
            )),
            "it expires at",
        ),
        (
            Some(sign(
                UploadPermit {
                    expires: TimestampMs::new(u64::MAX),
                    ..good
                },
                &domain,
            )),
            "it expires at",
        ),
        (Some(sign(good, &other)), "has no money"),
    ];
    for (permit, expected) in cases {
        let answer = put(&client, digest, permit.as_deref(), b"hello").await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
        assert!(
            answer.contains("TG-API-009") && answer.contains(expected),
            "{answer}"
        );
    }
    let permit = sign(good, &domain);
    let answer = put(&client, digest, Some(&permit), b"hullo").await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(answer.contains("TG-API-004"), "{answer}");
    let answer = put(&client, digest, Some(&permit), b"hello").await;
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    // Bytes under a name that is held are looked at, too.
    let answer = put(&client, digest, Some(&permit), b"hullo").await;
    assert!(answer.contains("TG-API-004"), "{answer}");
    let answer = put(&client, digest, Some(&permit), b"hello").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn money_allows_uploads_and_none_allows_none() {
    let grid = Grid::new();
    let state = tg_api::GridPort::state(&*grid);
    let rich = allowance(&state, &wallet("alice").address());
    let expected = UploadAllowance {
        balance: 1_000 * (16 << 20),
        leases: 0,
    };
    assert_eq!(rich, expected);
    let poor = allowance(&state, &wallet("nobody").address());
    assert_eq!(poor, UploadAllowance::default());
}

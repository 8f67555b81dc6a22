//! Blobs: checked, bounded, idempotent.

use tg_api::ApiConfig;
use tg_sdk::Digest;

use crate::grid::{ELSEWHERE, Grid};

#[tokio::test]
async fn a_blob_comes_back_as_it_went() {
    let (_server, client) = Grid::new().serve(ApiConfig::default()).await;
    let bytes: Vec<u8> = (0..300_000_u32).map(|i| i.to_le_bytes()[0]).collect();
    let stored = client.put_blob(bytes.clone()).await.unwrap();
    assert_eq!(stored.size, 300_000);
    assert_eq!(client.put_blob(bytes.clone()).await.unwrap(), stored);
    assert_eq!(client.blob(stored.digest, 300_000).await.unwrap(), bytes);
    let empty = client.put_blob(Vec::new()).await.unwrap();
    let nothing = client.blob(empty.digest, 0).await.unwrap();
    assert!(nothing.is_empty());
}

#[tokio::test]
async fn a_blob_that_is_not_held_is_not_found() {
    let (_server, client) = Grid::new().serve(ApiConfig::default()).await;
    let absent = Digest::of_blob(b"absent");
    let error = client.blob(absent, 10).await.unwrap_err();
    assert!(error.is_not_found());
    assert_eq!(error.code(), Some("TG-API-002"));
}

#[tokio::test]
async fn a_blob_that_others_have_is_looked_for() {
    // Whole, and the chunks that a larger one is asked for by.
    for limit in [ELSEWHERE.len(), 2 << 20] {
        let (_server, client) = Grid::new().serve(ApiConfig::default()).await;
        let digest = Digest::of_blob(ELSEWHERE);
        assert_eq!(client.blob(digest, limit).await.unwrap(), ELSEWHERE);
    }
}

#[tokio::test]
async fn a_blob_above_the_limit_is_refused() {
    let config = ApiConfig {
        blob_bytes_max: 100,
        ..ApiConfig::default()
    };
    let (_server, client) = Grid::new().serve(config).await;
    client.put_blob(vec![1; 100]).await.unwrap();
    let error = client.put_blob(vec![1; 101]).await.unwrap_err();
    assert_eq!(error.status(), Some(413));
    assert_eq!(error.code(), Some("TG-API-003"));
}

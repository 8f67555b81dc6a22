//! Large blobs come in chunks, and go on where the connection broke.

use std::sync::Mutex;

use tg_sdk::Digest;
use tg_types::Encode as _;
use tg_types::chunks::ChunkTreeBuilder;

use crate::gateway::{Gateway, refusal};

const CHUNK: usize = 1 << 20;

/// The tree was asked for once, so that a whole download failed with its first call.
#[tokio::test]
async fn a_download_that_breaks_off_asks_for_nothing_twice_that_came() {
    let bytes: Vec<u8> = (0..5 * CHUNK + 9).map(|at| (at / 7 % 253) as u8).collect();
    let mut builder = ChunkTreeBuilder::default();
    builder.update(&bytes);
    let tree = builder.finish().unwrap().to_bytes();
    let served = bytes.clone();
    // Whether the call for the tree, and one for a chunk, were broken off.
    let broken = Mutex::new((false, false));
    let gateway = Gateway::start(move |asked| {
        let mut broken = broken.lock().unwrap();
        let (of_tree, of_chunk) = &mut *broken;
        let (_, index) = asked.path.rsplit_once('/')?;
        if index == "chunks" {
            return Some(match std::mem::replace(of_tree, true) {
                true => (200, tree.clone()),
                false => refusal(503, "TG-API-007"),
            });
        }
        let index: usize = index.parse().ok()?;
        if index == 2 && !std::mem::replace(of_chunk, true) {
            return Some(refusal(502, "HTTP-502"));
        }
        let chunk = served.chunks(CHUNK).nth(index)?;
        Some((200, chunk.to_vec()))
    })
    .await;
    let digest = Digest::of_blob(&bytes);
    let came = gateway.client.blob(digest, bytes.len()).await.unwrap();
    assert!(came == bytes);
    let asked = gateway.asked("GET", "/v1/blobs/");
    let ends = asked.iter().filter_map(|it| it.path.rsplit('/').next());
    let ends: Vec<&str> = ends.collect();
    assert_eq!(
        ends,
        ["chunks", "chunks", "0", "1", "2", "2", "3", "4", "5"]
    );
}

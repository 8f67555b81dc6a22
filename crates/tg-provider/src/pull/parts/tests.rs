//! Files of several chunks from a server that stops answering in the middle.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::{Mutex, PoisonError};

use tg_types::Encode as _;
use tg_types::chunks::ChunkTreeBuilder;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::super::{OwnedTask, Puller};
use super::*;

const CHUNK: usize = CHUNK_BYTES as usize;

const LIMIT: usize = 8 * CHUNK;

/// Long enough for anything that happens here at all.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server of one file, by chunks; those from `until` on are never given.
#[derive(Clone)]
struct ChunkServer {
    file: Arc<Vec<u8>>,
    until: u64,
    asked: Arc<Mutex<Vec<u64>>>,
}

impl ChunkServer {
    /// A server, and a client of it.
    async fn start(file: &Arc<Vec<u8>>, until: u64) -> (Self, Client) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = Self {
            file: Arc::clone(file),
            until,
            asked: Arc::default(),
        };
        let serving = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().answer(stream));
            }
        });
        (server, Client::new(&url).unwrap())
    }

    /// Answers the one request of a connection.
    async fn answer(self, mut stream: TcpStream) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let Ok(byte) = stream.read_u8().await else {
                return;
            };
            head.push(byte);
        }
        let head = String::from_utf8(head).unwrap();
        let path = head.split(' ').nth(1).unwrap();
        let body = match path.split_once("/chunks/") {
            None => tree(&self.file).to_bytes(),
            Some((_, index)) => {
                let index: u64 = index.parse().unwrap();
                self.asked().push(index);
                if index >= self.until {
                    // Until whoever asked leaves.
                    let _ = stream.read_u8().await;
                    return;
                }
                let start = usize::try_from(index).unwrap() * CHUNK;
                self.file[start..(start + CHUNK).min(self.file.len())].to_vec()
            }
        };
        let size = body.len();
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-length: {size}\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&body).await.unwrap();
    }

    fn asked(&self) -> std::sync::MutexGuard<'_, Vec<u64>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn tree(file: &[u8]) -> ChunkTree {
    let mut builder = ChunkTreeBuilder::default();
    builder.update(file);
    builder.finish().unwrap()
}

fn file() -> Arc<Vec<u8>> {
    let bytes = (0..3 * CHUNK + 77).map(|at| (at / 3 % 251) as u8);
    Arc::new(bytes.collect())
}

/// Waits until something is so.
async fn wait(mut is_so: impl FnMut() -> bool) {
    let waited = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waited).await.unwrap();
}

/// Pulls until the chunk `until` is asked for, which does not come, and ends there.
async fn break_off(file: &Arc<Vec<u8>>, folder: &Path, until: u64) {
    let (server, client) = ChunkServer::start(file, until).await;
    let puller = Puller::new(client, LIMIT, Some(folder.to_path_buf()));
    let digest = Digest::of_blob(file);
    let lease = OwnedTask::spawn(async move {
        let _ = puller.model(digest).await;
    });
    wait(|| server.asked().last() == Some(&until)).await;
    drop(lease);
    let path = folder.join(name(&digest));
    wait(|| !is_in_use(&path)).await;
}

/// Pulls the whole file, and gives the chunks that were asked for.
async fn pull_rest(file: &Arc<Vec<u8>>, folder: &Path) -> Vec<u64> {
    let (server, client) = ChunkServer::start(file, u64::MAX).await;
    let puller = Puller::new(client, LIMIT, Some(folder.to_path_buf()));
    let pulled = tokio::time::timeout(PATIENCE, puller.model(Digest::of_blob(file))).await;
    assert!(*pulled.unwrap().unwrap() == **file);
    assert!(!folder.join(name(&Digest::of_blob(file))).exists());
    server.asked().clone()
}

#[tokio::test]
async fn a_killed_provider_asks_for_no_chunk_again_that_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let parts = folder.path().join("account.key.parts");
    let file = file();
    break_off(&file, &parts, 2).await;
    assert_eq!(pull_rest(&file, &parts).await, [2, 3]);
    // Nothing of it is left.
    assert_eq!(pull_rest(&file, &parts).await, [0, 1, 2, 3]);
}

#[tokio::test]
async fn a_part_that_changed_on_disk_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let file = file();
    break_off(&file, folder.path(), 3).await;
    let path = folder.path().join(name(&Digest::of_blob(&file)));
    let mut part = fs::read(&path).unwrap();
    assert_eq!(part.len(), 3 * CHUNK);
    part[CHUNK + 9] ^= 1;
    fs::write(&path, part).unwrap();
    assert_eq!(pull_rest(&file, folder.path()).await, [1, 2, 3]);
}

#[tokio::test]
async fn a_file_comes_although_its_parts_cannot_be_kept() {
    let folder = tempfile::tempdir().unwrap();
    let no_folder = folder.path().join("a file");
    fs::write(&no_folder, b"in the way").unwrap();
    assert_eq!(pull_rest(&file(), &no_folder).await, [0, 1, 2, 3]);
}

#[test]
fn parts_are_removed_when_they_are_old_or_others_need_the_room() {
    let folder = tempfile::tempdir().unwrap();
    let (file, limit) = (file(), LIMIT as u64);
    let (digest, whole) = (Digest::of_blob(&file), tree(&file));
    let parts = PartsFolder {
        path: folder.path().to_path_buf(),
        bytes_max: file.len() as u64 + 10,
    };
    let write = |name: &str, bytes: usize, age: Duration| {
        let path = folder.path().join(name);
        fs::write(&path, vec![1; bytes]).unwrap();
        let written = File::options().write(true).open(&path).unwrap();
        written.set_modified(SystemTime::now() - age).unwrap();
        path
    };
    let minute = Duration::from_secs(60);
    let old = write("old", 1, 2 * KEPT_FOR);
    let (first, second) = (write("first", 6, 2 * minute), write("second", 6, minute));
    let (part, chunks) = parts.resume(&digest, &whole, limit).unwrap();
    assert_eq!((chunks.bytes.len(), chunks.count), (0, 0));
    assert!(!old.exists() && !first.exists() && second.exists());
    // It is being pulled already.
    let (none, _) = parts.resume(&digest, &whole, limit).unwrap();
    assert!(part.is_some() && none.is_none());
    // One that is being pulled is not removed for another one.
    let other = [file.as_slice(), b"x"].concat();
    let other_tree = tree(&other);
    let (none, _) = parts
        .resume(&Digest::of_blob(&other), &other_tree, limit)
        .unwrap();
    assert!(none.is_none() && folder.path().join(name(&digest)).exists());
    assert!(second.exists(), "its room would not do");
    // Once it broke off, there is room.
    drop(part);
    let (some, _) = PartsFolder {
        bytes_max: other.len() as u64,
        ..parts
    }
    .resume(&Digest::of_blob(&other), &other_tree, limit)
    .unwrap();
    assert!(some.is_some() && !second.exists());
}

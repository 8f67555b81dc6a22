//! Blobs on their way to a grid: small ones in one call, large ones in chunks, so that an upload goes on where it broke off.

use std::future::Future;
use std::time::{Duration, Instant};

use http_body_util::Either;
use hyper::Method;
use tg_types::chunks::{CHUNK_BYTES, ChunkTree, ChunkTreeBuilder};
use tg_types::{
    DecodeError, Digest, DurationMs, Encode as _, SignedUpload, TimestampMs, UploadPermit, Wallet,
};
use tokio::sync::mpsc;

use crate::client::Client;
use crate::dto::{BlobDto, UploadDto};
use crate::error::ClientError;
use crate::transport::{Payload, whole};
use crate::upload::UploadBody;

/// How long an upload may take to arrive.
const UPLOAD_TIME: DurationMs = DurationMs::new(5 * 60 * 1_000);

/// Blobs of at most so many bytes go in one call: sent again they cost less than the calls that chunks take.
pub const ONE_CALL_BYTES: u64 = 4 * CHUNK_BYTES;

/// How often an upload in chunks is tried without that it goes on.
const TRIES: u32 = 8;

/// How long to wait before, times the tries so far.
const PAUSE: Duration = Duration::from_millis(300);

/// How long a permit is sent before another one is signed: half of its time.
const PERMIT_AGE_MAX: Duration = Duration::from_secs(150);

/// The refusal of an upload in chunks because too many are open.
const TOO_MANY: &str = "TG-NODE-033";

/// The refusal of a chunk because it is not the blob's, as somebody said another size of it.
const WRONG_CHUNK: &str = "TG-API-017";

/// The refusal of a call because a chunk of the blob is being written.
const BUSY: &str = "TG-NODE-029";

/// How often an upload in chunks is begun again after one of these two.
const DISTURBED_MAX: u32 = 4;

impl Client {
    /// Stores a blob under its digest, on behalf of the account of [`Self::uploading_as`]. Storing it again does
    /// nothing; a blob that no order, lease or model names within some minutes goes again. One of more than 4 MiB goes in chunks: if
    /// the connection breaks, the grid is asked for the chunk that is missing and the upload goes on there, a few times. If others disturb
    /// that, the whole goes in one call.
    ///
    /// # Errors
    /// Those of any call; status 401 if this client signs no uploads or the account has no money, 413 if the blob is
    /// larger than the grid takes, 422 if the account has too much stored that nothing names.
    pub async fn put_blob(&self, bytes: Vec<u8>) -> Result<BlobDto, ClientError> {
        let digest = Digest::of_blob(&bytes);
        let size = bytes.len() as u64;
        if let Some(wallet) = self.uploader()
            && size > ONE_CALL_BYTES
            && let Some(tree) = tree_of(&bytes)
        {
            let chunk_bytes = usize::try_from(CHUNK_BYTES).unwrap_or(usize::MAX);
            let upload = ChunkedUpload {
                client: self,
                permits: UploadPermits::Signing {
                    wallet,
                    newest: None,
                },
                digest,
                tree,
                chunk: |index: u64| {
                    let number = usize::try_from(index).unwrap_or(usize::MAX);
                    let chunk = bytes.chunks(chunk_bytes).nth(number).unwrap_or_default();
                    std::future::ready(Ok::<_, ClientError>(chunk.to_vec()))
                },
            };
            if upload.run().await? {
                return Ok(BlobDto { digest, size });
            }
        }
        let path = format!("/v1/blobs/{digest}");
        let mut headers = Vec::new();
        if let Some(wallet) = self.uploader() {
            headers.push(("tg-upload", self.permit(wallet, digest, size).await?));
        }
        self.transport()
            .json(Method::PUT, &path, Payload::Upload(whole(bytes), headers))
            .await
    }

    /// Stores a blob of several chunks under a permit that its owner signed, and goes on where an earlier call for it broke off. `chunk` gives
    /// the bytes of the chunk with a number, again if they are sent again. False if the grid takes no chunks of this blob, which may go
    /// in one call then: [`Client::put_permitted`].
    ///
    /// # Errors
    /// Those of [`Client::put_blob`], and those of `chunk`; status 400 if the bytes of a chunk are not those of its place.
    pub async fn put_permitted_chunks<F, R>(
        &self,
        permit: &SignedUpload,
        tree: ChunkTree,
        chunk: F,
    ) -> Result<bool, ClientError>
    where
        F: Fn(u64) -> R + Send + Sync,
        R: Future<Output = Result<Vec<u8>, ClientError>> + Send,
    {
        let upload = ChunkedUpload {
            client: self,
            permits: UploadPermits::Given(permit.to_string()),
            digest: permit.permit.digest,
            tree,
            chunk,
        };
        upload.run().await
    }

    /// Stores a blob under a permit that its owner signed. Its pieces come through a channel; if they end before the permit's length, the
    /// call fails. The whole must arrive within the client's time limit.
    ///
    /// # Errors
    /// Those of [`Client::put_blob`].
    pub async fn put_permitted(
        &self,
        permit: &SignedUpload,
        pieces: mpsc::Receiver<Vec<u8>>,
    ) -> Result<BlobDto, ClientError> {
        let path = format!("/v1/blobs/{}", permit.permit.digest);
        let headers = vec![("tg-upload", permit.to_string())];
        let body = Either::Right(UploadBody::new(permit.permit.length, pieces));
        self.transport()
            .json(Method::PUT, &path, Payload::Upload(body, headers))
            .await
    }

    /// A permit of now, as its header says it.
    async fn permit(
        &self,
        wallet: &Wallet,
        digest: Digest,
        length: u64,
    ) -> Result<String, ClientError> {
        let status = self.status().await?;
        let permit = UploadPermit {
            digest,
            length,
            expires: TimestampMs::new(status.timestamp_ms).saturating_add(UPLOAD_TIME),
        };
        Ok(SignedUpload::new(permit, wallet, &status.domain.into()).to_string())
    }
}

/// The chunks of a blob; nothing if it has more than any grid takes.
fn tree_of(bytes: &[u8]) -> Option<ChunkTree> {
    let mut builder = ChunkTreeBuilder::default();
    builder.update(bytes);
    builder.finish()
}

/// Under which permits an upload goes.
enum UploadPermits<'a> {
    /// Those of this account, signed here.
    Signing {
        wallet: &'a Wallet,
        /// The last one.
        newest: Option<NewestPermit>,
    },
    /// The one that the blob's owner signed elsewhere.
    Given(String),
}

/// A permit that was signed here.
struct NewestPermit {
    since: Instant,
    /// As its header says it.
    header: String,
    /// Whether the grid took a call with it.
    is_taken: bool,
}

/// A blob that goes chunk by chunk.
struct ChunkedUpload<'a, F> {
    client: &'a Client,
    permits: UploadPermits<'a>,
    digest: Digest,
    tree: ChunkTree,
    /// Gives the bytes of a chunk that the blob has.
    chunk: F,
}

impl<F, R> ChunkedUpload<'_, F>
where
    F: Fn(u64) -> R,
    R: Future<Output = Result<Vec<u8>, ClientError>>,
{
    /// Sends what the grid lacks; false if it takes no chunks of this blob, which may go in one call then.
    async fn run(mut self) -> Result<bool, ClientError> {
        // The chunk that is missing, once the grid has said it.
        let mut missing = None;
        let (mut furthest, mut tries, mut disturbed) = (0, 0, 0);
        loop {
            let told = match missing {
                None => self.begin().await,
                Some(index) => self.put(index).await,
            };
            let is_refused = matches!(&told, Err(error) if error.status() == Some(401));
            // Stops: a permit that ends while this machine sleeps, when its clock stands still, and with it an upload that has begun.
            let is_ended = is_refused && self.forget_permit();
            match told {
                Ok(UploadDto { next: None, .. }) => return Ok(true),
                Ok(UploadDto {
                    next: Some(next), ..
                }) => {
                    if next > furthest {
                        (furthest, tries) = (next, 0);
                    } else if missing.is_some_and(|sent| next <= sent) {
                        // Stops: a grid that takes chunks and says for ever that the same one is missing. One that ended the upload, and
                        // takes it from the start, goes on; what it forgets again and again counts as tries.
                        tries += 1;
                    }
                    missing = Some(next);
                }
                Err(_) if is_ended && tries < TRIES => tries += 1,
                Err(error) if missing.is_none() && takes_no_chunks(&error) => return Ok(false),
                // Stops: somebody who sends a tree of a wrong size, or wrong chunks, so that the blob never comes.
                Err(error) if is_disturbed(&error) && disturbed == DISTURBED_MAX => {
                    return Ok(false);
                }
                // One that is no longer open is begun again, and one of another size then goes by this one's.
                Err(error) if tries < TRIES && may_go_on(&error) => {
                    disturbed += u32::from(is_disturbed(&error));
                    tries += 1;
                    tokio::time::sleep(PAUSE * tries).await;
                    missing = None;
                }
                Err(error) => return Err(error),
            }
            if tries > TRIES {
                return Err(self.no_such_chunk(furthest));
            }
        }
    }

    /// Tells the grid of the blob's chunks, and asks which is missing.
    async fn begin(&mut self) -> Result<UploadDto, ClientError> {
        let path = format!("/v1/blobs/{}/chunks", self.digest);
        let tree = self.tree.to_bytes();
        self.send(&path, tree).await
    }

    async fn put(&mut self, index: u64) -> Result<UploadDto, ClientError> {
        if index >= self.tree.chunks() {
            return Err(self.no_such_chunk(index));
        }
        let chunk = (self.chunk)(index);
        let chunk = chunk.await?;
        let path = format!("/v1/blobs/{}/chunks/{index}", self.digest);
        self.send(&path, chunk).await
    }

    async fn send(&mut self, path: &str, bytes: Vec<u8>) -> Result<UploadDto, ClientError> {
        let permit = self.permit().await?;
        let payload = Payload::Upload(whole(bytes), vec![("tg-upload", permit)]);
        let transport = self.client.transport();
        let told = transport.json(Method::PUT, path, payload).await?;
        if let UploadPermits::Signing {
            newest: Some(newest),
            ..
        } = &mut self.permits
        {
            newest.is_taken = true;
        }
        Ok(told)
    }

    /// Forgets a permit that the grid took before, so that the next call has a new one; false if there is none.
    fn forget_permit(&mut self) -> bool {
        match &mut self.permits {
            UploadPermits::Signing { newest, .. } => newest.take_if(|it| it.is_taken).is_some(),
            UploadPermits::Given(_) => false,
        }
    }

    /// The permit of a call, as its header says it.
    async fn permit(&mut self) -> Result<String, ClientError> {
        let (wallet, newest) = match &mut self.permits {
            UploadPermits::Given(permit) => return Ok(permit.clone()),
            UploadPermits::Signing { wallet, newest } => (*wallet, newest),
        };
        if let Some(newest) = &*newest
            && newest.since.elapsed() < PERMIT_AGE_MAX
        {
            return Ok(newest.header.clone());
        }
        let size = self.tree.size();
        let header = self.client.permit(wallet, self.digest, size).await?;
        *newest = Some(NewestPermit {
            since: Instant::now(),
            header: header.clone(),
            is_taken: false,
        });
        Ok(header)
    }

    /// The grid asks for a chunk that cannot be missing.
    fn no_such_chunk(&self, index: u64) -> ClientError {
        ClientError::Malformed {
            path: format!("/v1/blobs/{}/chunks", self.digest),
            source: DecodeError::Invalid {
                field: "missing chunk",
                value: index,
            },
        }
    }
}

/// Whether a grid takes no chunks of a blob that was to begin: it is older than these, or as many uploads are open as it takes.
fn takes_no_chunks(error: &ClientError) -> bool {
    matches!(error.status(), Some(404 | 405)) || error.code() == Some(TOO_MANY)
}

/// Whether somebody else keeps an upload of the same blob from going on.
fn is_disturbed(error: &ClientError) -> bool {
    matches!(error.code(), Some(WRONG_CHUNK | BUSY))
}

/// Whether an upload that is begun again may go on.
fn may_go_on(error: &ClientError) -> bool {
    error.is_transient() || error.is_not_found() || is_disturbed(error)
}

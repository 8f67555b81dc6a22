//! Blobs that this validator lacks, from the others.
//!
//! Each validator has a store of its own. What the ledger names (inputs of open jobs, files of models, evidence) is
//! looked for at one other validator after the other, in parts of `BLOB_CHUNK_BYTES`, and counts as held when the
//! digest of the whole is right. Of one of more than a MiB the hash tree is asked for first: each MiB is checked when it is here, and what was
//! checked stays when the transfer ends, for the next peer or the next process. What a faulty peer costs is bounded:
//!
//! - It sends wrong bytes, or a size that cannot be right: it is not asked for that blob again. That costs a MiB
//!   for each of its blobs, at most `BLOB_TRANSFERS_PER_PEER_MAX` at once.
//! - It lies about the size by less than a MiB, which its tree does not show: the next peer that says another one is asked for its own tree.
//! - It gives the beginning of many blobs and never an end: of `ASIDE_MAX` the chunks stay, and they take the store's room.
//! - It sends nothing, or little: after `BLOB_CHUNK_PATIENCE`, or below `BLOB_RATE_MIN_PER_SECOND`, another is asked.
//! - It asks for much: it gets at most `BLOB_SERVED_BYTES_PER_SECOND`, and what it asks beyond a short queue is dropped.
//! - It asks for trees, each of which takes a read of its blob: `trees`.
//! - The ledger names blobs that nobody has: the asks of a second are bounded, those never looked for come first, and
//!   the waits between rounds double up to `ROUND_WAIT_MAX`.
//!
//! What another validator keeps and is asked for comes from that one alone: `question_fetches`.
//!
//! `Fetcher` is a machine: messages and the time go in, messages come out; only the store is used directly.

mod machine;
mod needs;
mod question_fetches;
mod receiving;
mod run;
mod trees;

pub(crate) use needs::{Need, NeededFor};
#[cfg(test)]
pub(crate) use question_fetches::AskedFinding;
pub(crate) use question_fetches::AskedFindings;
pub(crate) use run::Fetching;

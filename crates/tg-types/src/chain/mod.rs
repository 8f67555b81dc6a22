//! What a client can check of a chain without executing it: headers, finality certificates and proofs about the state.
//!
//! - [`FinalityCertificate`]: n - f seats made a block final; its [`BlockHeader`] commits to the state's root.
//! - [`StateProof`]: what the state of that root contains; a [`StateAnswer`] has certificate, header and proof together.
//! - [`VoteCertificate`]: a certificate of any kind of vote; two that contradict each other convict seats ([`Equivocation`]).
//! - [`TrustedHead`]: the block from which a client continues.
//! - [`ChainPage`]: consecutive final blocks, for a node that follows the chain.
//!
//! Nothing here does I/O, and every decoder is bounded.

mod answer;
mod certificate;
mod equivocation;
mod finality;
mod header;
mod leaf;
mod page;
mod proof;
mod seat;
mod seats;
mod trusted;
mod vote;

pub use answer::{AnswerError, FinalAnswer, HEADERS_MAX, StateAnswer};
pub use certificate::VoteCertificate;
pub use equivocation::{Equivocation, EquivocationError};
pub use finality::{Finality, FinalityCertificate, FinalityError, SEATS_MAX, TrustRoot};
pub use header::{BlockHeader, Reserved};
pub use leaf::{EMPTY_LEAF, Leaf, LeafHead, LeafKey, Link, content_digest, free_leaf, kind};
pub use page::{
    BLOCK_BYTES_MAX, BlockBytes, ChainPage, FinalityProof, PAGE_BLOCKS_MAX, PAGE_BYTES_MAX,
    SNAPSHOT_HEAD_BYTES_MAX, SnapshotHead,
};
pub use proof::{DEPTH, LeafPath, ProofError, StateProof, node_hash};
pub use seat::{is_possession, is_seat_endpoint, seat_namespace, seat_possession};
pub use seats::{SEAT_CHANGES_MAX, SeatChange, SeatChanges};
pub use trusted::{
    Checkpoint, CheckpointBlock, CheckpointError, HeadTooOld, NetworkTrust, ParseCheckpointError,
    TrustedHead, trusting_period,
};
pub use vote::{SignedVote, VoteKind};

pub(crate) use vote::is_signature as is_ed25519;

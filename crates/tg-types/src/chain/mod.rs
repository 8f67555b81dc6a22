//! What a client checks of a chain without executing it: headers, finality certificates, and proofs of what a state has.
//!
//! A [`FinalityCertificate`] shows that n - f seats made a block final; its [`BlockHeader`] names the state's root; a [`StateProof`]
//! shows what stands there; a [`StateAnswer`] is all three. A [`VoteCertificate`] is one of any kind of votes, of which two may convict seats ([`Equivocation`]). A [`TrustedHead`] is from where a client goes on. A node that follows takes a [`ChainPage`] of blocks. Nothing here does I/O, and every decoder is bounded.

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

//! The names under which the network, consensus and the ledger know each validator and each block.

use std::collections::BTreeMap;

use commonware_consensus::simplex::scheme;
use commonware_consensus::simplex::types::Context;
use commonware_cryptography::{ed25519, sha256};
use tg_types::{Address, BlockId};

/// A validator as the network library names it.
pub type Peer = ed25519::PublicKey;

/// The address that names each validator in blocks, by its ed25519 key.
pub(crate) type Addresses = BTreeMap<[u8; 32], Address>;

/// What consensus tells about a proposal: round, leader, parent.
pub(crate) type Proposal = Context<sha256::Digest, Peer>;

/// The signature scheme of votes: ed25519, attributable, so a double vote convicts its signer.
pub type Scheme = scheme::ed25519::Scheme;

/// A block id as the payload that consensus votes on.
pub(crate) fn payload(id: &BlockId) -> sha256::Digest {
    sha256::Digest::from(*id.as_bytes())
}

/// The block that a payload of consensus names.
pub(crate) fn block_id(payload: &sha256::Digest) -> BlockId {
    BlockId::new(payload.0)
}

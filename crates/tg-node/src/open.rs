//! Opening a validator's data: the store is bound to its network and key, and the state is rebuilt from the last
//! snapshot and the final blocks after it.

use std::collections::BTreeSet;
use std::sync::Arc;

use commonware_utils::channel::mpsc;
use tg_types::chain::SeatChange;
use tg_types::{BlockId, CheckedSignatures, Decode as _, Domain};

use crate::blob::BlobStore;
use crate::chain::{self, Executed, LastSnapshot};
use crate::clock::WallClock;
use crate::engine::Parts;
use crate::evidence::EvidenceChecker;
use crate::handle::{NodeHandle, NodeStatus};
use crate::key::{ValidatorKey, peer_of};
use crate::limits::Timers;
use crate::limits::{
    BLOBS_URGENT_MAX, HEARTBEATS_MAX, MAILBOX_MAX, SIGNATURES_KEPT, VALIDATORS_MAX,
};
use crate::protocol;
use crate::signer::VoteSigner;
use crate::store::History;
use crate::store::{Location, OpenError, Store};
use crate::term::{self, SeatTerm};
use tg_ledger::Genesis;
use tg_types::digest::hex;

/// What a validator is opened with.
#[derive(Debug)]
pub struct Opening<'a> {
    /// The network.
    pub genesis: &'a Genesis,
    /// The validator's key.
    pub key: ValidatorKey,
    /// Where its database lives.
    pub location: Location<'a>,
    /// Where evidence and models are found.
    pub blobs: Arc<BlobStore>,
    /// Decides on evidence.
    pub checker: Arc<dyn EvidenceChecker>,
    /// The timers of consensus.
    pub timers: Timers,
    /// What it means if there are no data.
    pub history: History,
    /// The wall clock.
    pub wall: WallClock,
    /// The newest version of the protocol that it executes.
    pub speaks: u16,
    /// The signatures that it has looked at: its own ([`own_signatures`]), unless nothing is lost by sharing them.
    pub signatures: Arc<CheckedSignatures>,
}

/// Room for the signatures that one node has looked at.
#[must_use]
pub fn own_signatures() -> Arc<CheckedSignatures> {
    Arc::new(CheckedSignatures::new(SIGNATURES_KEPT))
}

/// Opens the data of one validator: what it returns is started with [`crate::engine::start`].
///
/// # Errors
/// [`OpenError`] if the data are of another network, validator or format, in use, or damaged, if the key is no
/// validator of the network, or if the processor computes other floats than all others.
pub fn open(opening: Opening<'_>) -> Result<(NodeHandle, Parts), OpenError> {
    let Opening {
        genesis,
        key,
        location,
        blobs,
        checker,
        timers,
        history,
        wall,
        speaks,
        signatures,
    } = opening;
    // Stops: a validator that accuses what is right, and votes against blocks that all others accept.
    tg_float::job::check_floats()?;
    let root = chain::genesis(genesis)?;
    check_genesis(genesis)?;
    let store = Arc::new(Store::open(location, root.id.as_bytes(), &key.public())?);
    let (tip, snapshot) = replay(&store, &root, speaks)?;
    let term = present_term(&store, &tip, root.id)?;
    if !term.has(&key.public()) {
        return Err(OpenError::NotAValidator {
            key: hex(&key.public()),
        });
    }
    let node_status = Arc::new(NodeStatus::new(
        key.public(),
        term.seats.len(),
        &tip,
        (speaks, signatures),
    ));
    for proof in store.faults()? {
        node_status.convict(proof);
    }
    let (sender, submissions) = mpsc::channel(MAILBOX_MAX);
    let (urgent, asked) = mpsc::channel(BLOBS_URGENT_MAX);
    let (heartbeats, beats) = mpsc::channel(HEARTBEATS_MAX);
    let handle = NodeHandle::new(
        node_status.clone(),
        store.clone(),
        blobs.clone(),
        sender,
        urgent.clone(),
        heartbeats,
    );
    let partition = votes_partition(&key);
    let parts = Parts {
        signer: VoteSigner {
            namespace: namespace(Domain::Vote, &root.id),
            key: key.clone(),
        },
        key,
        term,
        genesis: root.id,
        // Nobody listens, unless somebody asks.
        seated: mpsc::channel(1).0,
        tip,
        snapshot,
        store,
        node_status,
        blobs,
        checker,
        submissions,
        beats,
        urgent,
        asked,
        timers,
        partition,
        history,
        wall,
        forger: None,
    };
    Ok((handle, parts))
}

/// Names a validator's journal of votes within the runtime's storage.
pub(crate) fn votes_partition(key: &ValidatorKey) -> String {
    format!("votes-{}", &hex(&key.public())[..16])
}

/// Whether the key is one of genesis, and genesis is one that validators run.
pub(crate) fn check_key(genesis: &Genesis, key: &ValidatorKey) -> Result<(), OpenError> {
    check_genesis(genesis)?;
    let public = key.public();
    let mut validators = genesis.validators.iter();
    match validators.any(|it| *it.key.as_bytes() == public) {
        true => Ok(()),
        false => Err(OpenError::NotAValidator { key: hex(&public) }),
    }
}

/// The namespace of connections of the network that `parts` belong to.
pub(crate) fn network_namespace(parts: &Parts) -> Vec<u8> {
    namespace(Domain::Connection, &parts.genesis)
}

/// A purpose of one network: what is signed for it means nothing in another.
fn namespace(domain: Domain, genesis: &BlockId) -> Vec<u8> {
    [domain.as_str().as_bytes(), genesis.as_bytes()].concat()
}

/// Whether genesis is one that validators run.
pub(crate) fn check_genesis(genesis: &Genesis) -> Result<(), OpenError> {
    let publics = genesis.validators.iter().map(|it| *it.key.as_bytes());
    let count = genesis.validators.len();
    if count > VALIDATORS_MAX {
        return Err(OpenError::ValidatorCount {
            count,
            limit: VALIDATORS_MAX,
        });
    }
    let mut known = BTreeSet::new();
    for public in publics {
        if !known.insert(public) || peer_of(&public).is_err() {
            return Err(OpenError::ValidatorKey { key: hex(&public) });
        }
    }
    Ok(())
}

/// Who votes after the last final block. A change of the set that is in the state and not in the store yet, since the process
/// ended between the two, is noted there.
pub(crate) fn present_term(
    store: &Store,
    tip: &Executed,
    genesis: BlockId,
) -> Result<SeatTerm, OpenError> {
    let voting = store.voting()?;
    let began = voting.anchor.unwrap_or((0, genesis));
    let since = tip.state.seats().since.get();
    let last = last_of_set_before(store, since, genesis)?;
    let mut term = SeatTerm {
        epoch: voting.epoch,
        anchor: began,
        ordered_by: last,
        seats: term::seats(&tip.state),
    };
    if since > began.0 {
        term.epoch += 1;
        term.anchor = (since, last);
        let seats = chain::encode_seats(tip.state.validators());
        store.enter_term(term.epoch, term.anchor, &seats)?;
    }
    Ok(term)
}

/// The last block that the set of validators before the present one voted on, at the height `since`; genesis if none was before.
/// A node that began at a snapshot of a later height does not have the block; it has its header, in what showed it the change of the set.
fn last_of_set_before(store: &Store, since: u64, genesis: BlockId) -> Result<BlockId, OpenError> {
    if since == 0 {
        return Ok(genesis);
    }
    if store.block(since)?.is_some() {
        return Ok(stored_block(store, since)?.id);
    }
    let changes = store.changes_above(since - 1, 1)?;
    let change = changes
        .first()
        .and_then(|bytes| SeatChange::from_bytes(bytes).ok());
    // The header that a change shows is the last one of its proof.
    let header = change.and_then(|it| it.proof.headers.last().copied());
    match header.filter(|it| it.height.get() == since) {
        Some(header) => Ok(header.id()),
        None => Err(OpenError::Inconsistent {
            height: since,
            reason: "nothing is here of the block after which the set of validators changed",
        }),
    }
}

/// The state after the last final block, and the snapshot it was rebuilt from; an error if its next block has another
/// version of the protocol than this program `speaks`.
pub(crate) fn replay(
    store: &Store,
    root: &Executed,
    speaks: u16,
) -> Result<(Executed, LastSnapshot), OpenError> {
    let height = store.height()?;
    let (mut snapshot, mut tip) = match store.snapshot()? {
        None => (LastSnapshot::default(), root.clone()),
        Some((at, state)) => {
            let block = stored_block(store, at)?;
            let tip = chain::restore(&block, &state).ok_or(OpenError::Inconsistent {
                height: at,
                reason: "the snapshot is not the state of its block",
            })?;
            (LastSnapshot::new(at, state.len()), tip)
        }
    };
    while tip.height() < height {
        protocol::check(&tip.state, speaks)?;
        let next = tip.height() + 1;
        let body = stored_block(store, next)?;
        snapshot.note(chain::encode(&body.block).len());
        tip = chain::execute(&tip, &body, &CheckedSignatures::none()).map_err(|_| {
            OpenError::Inconsistent {
                height: next,
                reason: "the block is not valid on its parent",
            }
        })?;
    }
    if tip.height() != height {
        return Err(OpenError::Inconsistent {
            height,
            reason: "the snapshot is above the last block",
        });
    }
    protocol::check(&tip.state, speaks)?;
    Ok((tip, snapshot))
}

fn stored_block(store: &Store, height: u64) -> Result<chain::Body, OpenError> {
    store
        .block(height)?
        .and_then(|bytes| chain::Body::decode(&bytes))
        .ok_or(OpenError::Inconsistent {
            height,
            reason: "the block is missing or damaged",
        })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use tg_ledger::{ConsensusKey, Parameters, Proposal, Validator};
    use tg_types::chain::FinalityProof;
    use tg_types::{Amount, Encode as _, Height, SignedTransaction, TimestampMs, Wallet};

    use super::*;
    use crate::store::FinalBlock;

    /// Genesis and a block on it.
    fn two_blocks() -> (Executed, Executed) {
        let validators = (0..4).map(|seed| {
            let key = ValidatorKey::from_seed(seed).public();
            Validator {
                address: Wallet::from_seed(&key).address(),
                key: ConsensusKey::new(key),
                stake: Amount::from_tgrid(1),
            }
        });
        let mut validators: Vec<Validator> = validators.collect();
        validators.sort_unstable_by_key(|it| it.address);
        let proposer = validators[0].address;
        let root = chain::genesis(&Genesis {
            domain: tg_ledger::development_domain(),
            parameters: Parameters::development(),
            timestamp: TimestampMs::new(1_000),
            accounts: vec![(
                Wallet::from_seed(b"rich").address(),
                Amount::from_tgrid(1_000),
            )],
            validators,
        })
        .unwrap();
        let content = Proposal::empty(proposer, TimestampMs::new(1_100));
        let signatures = CheckedSignatures::none();
        let mut nothing = Vec::<SignedTransaction>::new().into_iter();
        let built = chain::build(&root, content, &mut nothing, &signatures);
        (root, built.unwrap().executed)
    }

    fn store(root: &Executed) -> Store {
        let key = ValidatorKey::from_seed(0).public();
        Store::open(Location::Memory, root.id.as_bytes(), &key).unwrap()
    }

    /// Stops: validators that know different leaders, since some have the block and others began at a snapshot after it.
    #[test]
    fn the_last_block_of_the_set_before_is_known_with_its_body_and_without() {
        let (root, last) = two_blocks();
        let whole = store(&root);
        assert_eq!(last_of_set_before(&whole, 0, root.id).unwrap(), root.id);
        let written = FinalBlock {
            height: 1,
            id: *last.id.as_bytes(),
            bytes: chain::encode(&last.block),
            certificate: None,
        };
        whole.finalise(&[written], None).unwrap();
        assert_eq!(last_of_set_before(&whole, 1, root.id).unwrap(), last.id);

        let begun = store(&root);
        let missing = last_of_set_before(&begun, 1, root.id).unwrap_err();
        assert!(
            matches!(missing, OpenError::Inconsistent { height: 1, .. }),
            "{missing}"
        );
        let mut certified = last.block.header;
        certified.height = Height::new(2);
        let change = |headers| SeatChange {
            proof: FinalityProof {
                certificate: vec![1],
                headers,
            },
            seats: vec![2],
        };
        // A change of another height says nothing of this one.
        let later = change(vec![certified]).to_bytes();
        begun.put_changes(&[(2, later)]).unwrap();
        last_of_set_before(&begun, 1, root.id).unwrap_err();
        let shown = change(vec![certified, last.block.header]).to_bytes();
        begun.put_changes(&[(1, shown)]).unwrap();
        assert_eq!(last_of_set_before(&begun, 1, root.id).unwrap(), last.id);
    }
}

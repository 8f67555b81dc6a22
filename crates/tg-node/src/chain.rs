//! The ledger as the validator uses it: blocks, and the states after them.

use std::sync::Arc;

use tg_ledger::block::body_digest;
use tg_ledger::{
    Block, BlockError, Event, EvidenceTask, Genesis, GenesisError, Proposal, State,
    TransactionError, TransactionSource, Verdict,
};
use tg_types::{
    BlockId, CheckedSignatures, Decode as _, Encode as _, NonceLane, SignedTransaction,
    TimestampMs, TransactionId,
};

use crate::canary::{NodeCanary, is_armed};
use crate::limits::{SNAPSHOT_BLOCK_BYTES, SNAPSHOT_INTERVAL};
use crate::mempool::Standing;
use crate::store::{FinalBlock, Store, StoreError};
use crate::submit::SubmitError;

/// A block that was executed, with the state after it.
#[derive(Debug, Clone)]
pub(crate) struct Executed {
    pub(crate) id: BlockId,
    pub(crate) block: Arc<Block>,
    pub(crate) state: Arc<State>,
    pub(crate) events: Arc<Vec<Event>>,
}

impl Executed {
    pub(crate) fn height(&self) -> u64 {
        self.block.header.height.get()
    }

    pub(crate) fn timestamp(&self) -> TimestampMs {
        self.block.header.timestamp
    }
}

/// A block whose body is the one that its header, and so its id, commits to.
#[derive(Debug, Clone)]
pub(crate) struct Body {
    pub(crate) id: BlockId,
    pub(crate) block: Arc<Block>,
}

impl Body {
    /// The block in `bytes`; `None` if they are not the canonical encoding of one, or if the body is not the
    /// header's: otherwise a liar could attach other transactions to the id of a good block.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let block = Block::from_bytes(bytes).ok()?;
        let body = body_digest(&block.transactions, &block.verdicts);
        (body == block.header.body).then(|| Self {
            id: block.id(),
            block: Arc::new(block),
        })
    }

    pub(crate) fn height(&self) -> u64 {
        self.block.header.height.get()
    }

    pub(crate) fn parent(&self) -> BlockId {
        self.block.header.parent
    }
}

impl From<&Executed> for Body {
    fn from(executed: &Executed) -> Self {
        Self {
            id: executed.id,
            block: executed.block.clone(),
        }
    }
}

/// Block 0 and its state. Its id is the hash of genesis; the block itself is empty and stands for genesis.
pub(crate) fn genesis(genesis: &Genesis) -> Result<Executed, GenesisError> {
    let state = State::genesis(genesis)?;
    let block = Block {
        header: tg_ledger::header::genesis_header(&state, genesis.timestamp),
        transactions: Vec::new(),
        verdicts: Vec::new(),
    };
    Ok(Executed {
        id: genesis.id(),
        block: Arc::new(block),
        state: Arc::new(state),
        events: Arc::default(),
    })
}

/// Executes a block on its parent.
pub(crate) fn execute(
    parent: &Executed,
    body: &Body,
    signatures: &CheckedSignatures,
) -> Result<Executed, Box<BlockError>> {
    let height = body.block.header.height.get();
    let _span = tracing::info_span!("execute block", height).entered();
    let (state, events) = tg_ledger::apply_once(&parent.state, &body.block, signatures)?;
    Ok(Executed {
        id: body.id,
        block: body.block.clone(),
        state: Arc::new(state),
        events: Arc::new(events),
    })
}

/// A block built on a parent, and the transactions that no later block can hold either, by sender and nonce.
pub(crate) struct Built {
    pub(crate) executed: Executed,
    pub(crate) refused: Vec<(NonceLane, u64, TransactionError)>,
}

/// Builds a block of what holds, in the given order.
pub(crate) fn build(
    parent: &Executed,
    proposal: Proposal,
    candidates: &mut dyn TransactionSource,
    signatures: &CheckedSignatures,
) -> Result<Built, Box<BlockError>> {
    let height = parent.block.header.height.next().get();
    let _span = tracing::info_span!("propose block", height).entered();
    let proposed = tg_ledger::propose_from(&parent.state, proposal, candidates, signatures)?;
    let refused = proposed
        .refused
        .into_iter()
        .filter(|(_, error)| !error.may_hold_later())
        .map(|(signed, error)| {
            tracing::debug!(sender = %signed.sender, nonce = signed.nonce, %error, "transaction is refused");
            (signed.lane(), signed.nonce, error)
        })
        .collect();
    for (verdict, error) in &proposed.refused_verdicts {
        tracing::warn!(subject = %verdict.subject, %error, "own verdict does not fit");
    }
    Ok(Built {
        executed: Executed {
            id: proposed.block.id(),
            block: Arc::new(proposed.block),
            state: Arc::new(proposed.state),
            events: Arc::new(proposed.events),
        },
        refused,
    })
}

/// The block as it travels and is stored.
pub(crate) fn encode(block: &Block) -> Vec<u8> {
    block.to_bytes()
}

/// A set of validators as headers name it.
pub(crate) fn encode_seats(validators: &[tg_ledger::Validator]) -> Vec<u8> {
    let mut writer = tg_types::Writer::new();
    writer.seq(validators);
    writer.into_bytes()
}

/// The state as it is stored.
pub(crate) fn encode_state(state: &State) -> Vec<u8> {
    state.to_bytes()
}

/// A block with its stored state; `None` if the state is not the one that the block leads to.
pub(crate) fn restore(body: &Body, state: &[u8]) -> Option<Executed> {
    let state = State::from_bytes(state).ok()?;
    let fits = state.root() == body.block.header.state_root
        && state.head().block == body.id
        && state.head().timestamp == body.block.header.timestamp;
    (fits || is_armed(NodeCanary::StaleSnapshot)).then(|| Executed {
        id: body.id,
        block: body.block.clone(),
        state: Arc::new(state),
        events: Arc::default(),
    })
}

/// The newest snapshot of the state, and what was written after it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LastSnapshot {
    /// Its block.
    pub(crate) height: u64,
    /// Its bytes.
    bytes: u64,
    /// Bytes of the blocks after it, each counted as [`SNAPSHOT_BLOCK_BYTES`] at least.
    since: u64,
}

impl LastSnapshot {
    /// A snapshot of so many bytes that was just written, or read.
    pub(crate) fn new(height: u64, bytes: usize) -> Self {
        Self {
            height,
            bytes: bytes as u64,
            since: 0,
        }
    }

    /// A block of so many bytes was written after it.
    pub(crate) fn note(&mut self, bytes: usize) {
        let bytes = (bytes as u64).max(SNAPSHOT_BLOCK_BYTES);
        self.since = self.since.saturating_add(bytes);
    }

    /// Whether another one is due after the block of a height. Stops: a state of hundreds of megabytes that is written again with every few blocks
    /// which change a thousandth of it; what is written stays within twice what blocks have.
    const fn is_old(&self, height: u64) -> bool {
        height >= self.height + SNAPSHOT_INTERVAL && self.since >= self.bytes
    }
}

/// Writes final blocks after `parent`, of which the certificate makes one final, with a snapshot of the state if the last one is old. Gives the
/// newest snapshot.
pub(crate) fn write_final(
    store: &Store,
    parent: &Executed,
    executed: &[Executed],
    (certified, certificate): (BlockId, &[u8]),
    mut newest: LastSnapshot,
) -> Result<LastSnapshot, StoreError> {
    let blocks: Vec<FinalBlock> = executed
        .iter()
        .map(|block| FinalBlock {
            height: block.height(),
            id: *block.id.as_bytes(),
            bytes: encode(&block.block),
            certificate: (block.id == certified).then(|| certificate.to_vec()),
        })
        .collect();
    let Some(last) = executed.last() else {
        return Ok(newest);
    };
    for block in &blocks {
        newest.note(block.bytes.len());
    }
    let state = match is_armed(NodeCanary::StaleSnapshot) {
        true => &parent.state,
        false => &last.state,
    };
    let snapshot = newest.is_old(last.height()).then(|| encode_state(state));
    store.finalise(&blocks, snapshot.as_deref())?;
    Ok(match snapshot {
        Some(bytes) => LastSnapshot::new(last.height(), bytes.len()),
        None => newest,
    })
}

/// Evidence that waits for a verdict on this state.
pub(crate) fn evidence(state: &State) -> Vec<EvidenceTask> {
    state.pending_evidence().collect()
}

/// Whether a verdict is about evidence that waits on this state.
pub(crate) fn is_due(due: &[EvidenceTask], verdict: &Verdict) -> bool {
    due.iter()
        .any(|task| task.subject() == verdict.subject && task.evidence() == verdict.evidence)
}

/// What the final state says of a sender; `None` without an account, or without the session key that signs for it.
pub(crate) fn standing(state: &State, lane: &NonceLane) -> Option<Standing> {
    let account = state.account(&lane.account())?;
    Some(Standing {
        next: match lane.session() {
            None => account.nonce,
            Some(key) => account.session(key)?.nonce,
        },
        balance: account.balance,
    })
}

/// Checks a transaction before it enters the pool. One whose nonce is ahead is checked again when it is its turn.
pub(crate) fn check(
    state: &State,
    signed: &SignedTransaction,
    signatures: &CheckedSignatures,
) -> Result<TransactionId, SubmitError> {
    tg_ledger::check_transaction(state, signed, signatures).map_err(SubmitError::Refused)?;
    Ok(signed.id(state.domain()))
}

//! The ledger as the validator uses it: blocks with the states they lead to.

use std::sync::Arc;

use tg_types::{Address, BlockId, Decode as _, DecodeError, Encode as _, Height, SignedTransaction, TimestampMs};

use crate::interim::{Block, BlockError, BlockHeader, Event, Genesis, State, Verdict};

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

/// A decoded block with its name.
#[derive(Debug, Clone)]
pub(crate) struct Body {
    pub(crate) id: BlockId,
    pub(crate) block: Arc<Block>,
}

impl Body {
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let block = Block::from_bytes(bytes)?;
        Ok(Self {
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

/// Block 0 and the state it leads to.
pub(crate) fn genesis(genesis: &Genesis) -> Executed {
    let state = State::genesis(genesis);
    let block = Block {
        header: BlockHeader {
            height: Height::ZERO,
            parent: BlockId::default(),
            timestamp: genesis.timestamp,
            proposer: [0; 32],
            state_root: state.root(),
        },
        transactions: vec![],
        verdicts: vec![],
    };
    Executed {
        id: block.id(),
        block: Arc::new(block),
        state: Arc::new(state),
        events: Arc::default(),
    }
}

/// Executes a block on its parent.
pub(crate) fn execute(parent: &Executed, body: &Body) -> Result<Executed, BlockError> {
    let block = &body.block;
    if block.header.parent != parent.id
        || block.header.height != parent.block.header.height.next()
        || block.header.timestamp <= parent.timestamp()
    {
        return Err(BlockError);
    }
    let mut state = State::clone(&parent.state);
    state.height = block.header.height;
    state.timestamp = block.header.timestamp;
    for transaction in &block.transactions {
        state.execute(transaction).map_err(|_| BlockError)?;
    }
    if state.root() != block.header.state_root {
        return Err(BlockError);
    }
    Ok(Executed {
        id: body.id,
        block: body.block.clone(),
        state: Arc::new(state),
        events: Arc::default(),
    })
}

/// A block built on a parent, and the candidates that it could not hold.
pub(crate) struct Built {
    pub(crate) executed: Executed,
    pub(crate) refused: Vec<(Address, u64)>,
}

/// Builds a block of those candidates that are valid in their order.
pub(crate) fn build(
    parent: &Executed,
    timestamp: TimestampMs,
    proposer: [u8; 32],
    candidates: Vec<SignedTransaction>,
    verdicts: Vec<Verdict>,
) -> Built {
    let mut state = State::clone(&parent.state);
    state.height = parent.block.header.height.next();
    state.timestamp = timestamp;
    let mut refused = vec![];
    let mut transactions = vec![];
    for t in candidates {
        if state.execute(&t).is_ok() {
            transactions.push(t);
        } else {
            refused.push((t.sender, t.nonce));
        }
    }
    let block = Block {
        header: BlockHeader {
            height: state.height,
            parent: parent.id,
            timestamp,
            proposer,
            state_root: state.root(),
        },
        transactions,
        verdicts,
    };
    Built {
        executed: Executed {
            id: block.id(),
            block: Arc::new(block),
            state: Arc::new(state),
            events: Arc::default(),
        },
        refused,
    }
}

/// The block's bytes as they travel and are stored.
pub(crate) fn encode(block: &Block) -> Vec<u8> {
    block.to_bytes()
}

/// The sender's next free nonce.
pub(crate) fn next_nonce(state: &State, sender: &Address) -> u64 {
    state.nonce(sender)
}

/// Evidence that waits for a verdict on this state.
pub(crate) fn evidence(_state: &State) -> Vec<crate::interim::EvidenceTask> {
    Vec::new()
}

/// The state as it is stored.
pub(crate) fn encode_state(state: &State) -> Vec<u8> {
    state.to_bytes()
}

/// Checks a transaction before it enters the pool. One whose nonce is ahead is checked again when it is its turn.
pub(crate) fn check(
    state: &State,
    signed: &SignedTransaction,
) -> Result<tg_types::TransactionId, crate::handle::SubmitError> {
    let verified = signed
        .verify(&state.domain)
        .map_err(crate::handle::SubmitError::Signature)?;
    Ok(verified.id())
}

/// The ed25519 public keys of the validators.
pub(crate) fn validators(genesis: &Genesis) -> Vec<[u8; 32]> {
    genesis.validators.clone()
}

/// A block with its stored state; `None` if the state is not the one that the block leads to.
pub(crate) fn restore(body: &Body, state: &[u8]) -> Option<Executed> {
    let state = State::from_bytes(state).ok()?;
    (state.root() == body.block.header.state_root).then(|| Executed {
        id: body.id,
        block: body.block.clone(),
        state: Arc::new(state),
        events: Arc::default(),
    })
}

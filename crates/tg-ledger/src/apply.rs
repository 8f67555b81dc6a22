//! What a block does to a state.
//!
//! In this order, each step seeing what the ones before it did: **transactions** (in the block's order), **verdicts**
//! (in the block's order), **timeouts** (leases and jobs whose time is over at the block's ledger time, so that what
//! comes in the block in which a window ends is in time), **matching** (the lanes of the market), **rewards** (the block's fees, split among the
//! validators), **pruning** (ended jobs beyond the bound leave the state). Then money is counted and the state root
//! computed. A block with anything in it that does not hold is refused whole: whoever proposes a block drops such
//! transactions first ([`propose`]).

mod check;
mod decline;
mod dispute;
mod dry_run;
mod endpoint;
mod equivocation;
mod execute;
mod execution;
mod gas;
mod lanes;
mod lifecycle;
mod market;
mod matching;
mod rent;
mod replicas;
mod retention;
mod rewards;
mod sealed;
mod seats;
mod seeds;
mod sessions;
mod storage;
mod sync;
mod timeouts;
mod upgrade;
mod verdicts;

use tg_types::{Address, CheckedSignatures, Encode, SignedTransaction, TimestampMs};

use crate::block::{Block, BlockHeader, body_digest};
use crate::error::{BlockError, TransactionError, VerdictError};
use crate::event::Event;
use crate::gas::LANE_GAS_MAX;
use crate::header::header_after;
use crate::limits::{
    BLOCK_BYTES_MAX, NONCES_AHEAD_MAX, PROPOSED_BYTES_MAX, TRANSACTIONS_PER_BLOCK_MAX,
    VERDICTS_PER_BLOCK_MAX,
};
use crate::state::State;
use crate::verdict::Verdict;

pub use dry_run::DryRun;
pub(crate) use execution::Execution;

/// The state after `block`, and what happened in it.
///
/// # Errors
/// [`BlockError`] says why the block does not follow from `state`.
pub fn apply(state: &State, block: &Block) -> Result<(State, Vec<Event>), BlockError> {
    apply_once(state, block, &CheckedSignatures::none())
}

/// The same; signatures that are among `signatures` are not looked at again.
///
/// # Errors
/// [`BlockError`] says why the block does not follow from `state`.
pub fn apply_once(
    state: &State,
    block: &Block,
    signatures: &CheckedSignatures,
) -> Result<(State, Vec<Event>), BlockError> {
    check_header(state, block)?;
    let header = &block.header;
    let mut execution = Execution::begin(state, header.timestamp);
    for (index, transaction) in block.transactions.iter().enumerate() {
        let verified = transaction
            .verify_once(state.domain(), signatures)
            .map_err(TransactionError::Signature)
            .and_then(|verified| {
                let fee = check::check(&execution.state, execution.now, &verified)?;
                Ok((verified, fee))
            })
            .map_err(|source| BlockError::Transaction { index, source })?;
        let (verified, fee) = verified;
        let gas = execution.gas.with(verified.transaction());
        execution.gas = gas.ok_or(BlockError::TooMuchGas {
            index,
            limit: LANE_GAS_MAX,
        })?;
        execution.execute(&verified, fee)?;
    }
    for (index, verdict) in block.verdicts.iter().enumerate() {
        execution
            .check_verdict(verdict)
            .map_err(|source| BlockError::Verdict { index, source })?;
        execution.execute_verdict(verdict)?;
    }
    let (mut next, events, root) = execution.finish(header.proposer)?;
    if root != header.state_root {
        return Err(BlockError::WrongStateRoot {
            expected: header.state_root,
            got: root,
        });
    }
    let (parent, body) = (header.parent, header.body);
    let expected = header_after(&next, parent, header.timestamp, header.proposer, body);
    if *header != expected {
        return Err(BlockError::WrongHeader {
            expected: Box::new(expected),
            got: Box::new(*header),
        });
    }
    next.head.block = block.id();
    Ok((next, events))
}

/// Whether a mempool may keep a transaction: it is signed, its nonce is not used, and, if it is the account's next,
/// it would hold at the state's time; if its turn has not come, its sender has an account, and what it serves, if it is
/// of a prepaid kind, is the sender's. A signature that is among `signatures` is not checked again.
///
/// # Errors
/// [`TransactionError`] says why not.
pub fn check_transaction(
    state: &State,
    transaction: &SignedTransaction,
    signatures: &CheckedSignatures,
) -> Result<(), TransactionError> {
    let verified = transaction
        .verify_once(state.domain(), signatures)
        .map_err(TransactionError::Signature)?;
    match check::check(state, state.head.time, &verified) {
        Err(TransactionError::NonceGap { expected, got }) if got - expected > NONCES_AHEAD_MAX => {
            Err(TransactionError::NonceTooFarAhead {
                expected,
                got,
                limit: NONCES_AHEAD_MAX,
            })
        }
        Err(TransactionError::NonceGap { .. }) => check::check_ahead(state, &verified),
        result => result.map(|_| ()),
    }
}

/// What a proposer wants in a block.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// Who proposes; must be a validator.
    pub proposer: Address,
    /// Block time; must be after the parent's.
    pub timestamp: TimestampMs,
    /// Transactions in the wanted order.
    pub transactions: Vec<SignedTransaction>,
    /// The proposer's own findings.
    pub verdicts: Vec<Verdict>,
}

impl Proposal {
    /// A proposal without content.
    #[must_use]
    pub const fn empty(proposer: Address, timestamp: TimestampMs) -> Self {
        Self {
            proposer,
            timestamp,
            transactions: Vec::new(),
            verdicts: Vec::new(),
        }
    }
}

/// A proposed block that is valid, the state after it, and the candidates that were left out.
#[derive(Debug)]
pub struct Proposed {
    /// The block.
    pub block: Block,
    /// The state after it.
    pub state: State,
    /// What happened in it.
    pub events: Vec<Event>,
    /// Transactions that do not hold, with the reason.
    pub refused: Vec<(SignedTransaction, TransactionError)>,
    /// Verdicts that do not fit, with the reason.
    pub refused_verdicts: Vec<(Verdict, VerdictError)>,
    /// Transactions that hold no place in this block because it is full; they stay in the mempool.
    pub left: Vec<SignedTransaction>,
}

/// The block that follows from `state` with as much of `proposal` as holds and fits.
///
/// # Errors
/// If the proposer is no validator, the time is not after the parent's, or a rule of the ledger itself broke.
pub fn propose(state: &State, mut proposal: Proposal) -> Result<Proposed, BlockError> {
    let transactions = std::mem::take(&mut proposal.transactions);
    let mut listed = transactions.into_iter();
    propose_from(state, proposal, &mut listed, &CheckedSignatures::none())
}

/// Where the transactions of a block come from, one after the other.
pub trait TransactionSource {
    /// The next one.
    fn next(&mut self) -> Option<SignedTransaction>;

    /// Whether the last one is in the block: it holds, and there is room.
    fn has_place(&mut self, has_place: bool);
}

impl TransactionSource for std::vec::IntoIter<SignedTransaction> {
    fn next(&mut self) -> Option<SignedTransaction> {
        Iterator::next(self)
    }

    fn has_place(&mut self, _: bool) {}
}

/// The same, of the proposal's own transactions first and then of `candidates`; signatures that are among `signatures` are not looked at again.
///
/// # Errors
/// If the proposer is no validator, the time is not after the parent's, or a rule of the ledger itself broke.
pub fn propose_from(
    state: &State,
    proposal: Proposal,
    candidates: &mut dyn TransactionSource,
    signatures: &CheckedSignatures,
) -> Result<Proposed, BlockError> {
    let Proposal {
        proposer,
        timestamp,
        transactions: _,
        verdicts,
    } = proposal;
    check_place(state, proposer, timestamp)?;
    let mut execution = Execution::begin(state, timestamp);
    // Verdicts first take their room: they free providers and money, and there are few of them.
    let mut room = PROPOSED_BYTES_MAX - HEADER_AND_COUNTS_BYTES;
    let mut verdicts = verdicts;
    verdicts.truncate(VERDICTS_PER_BLOCK_MAX);
    room = room.saturating_sub(verdicts.iter().map(|it| it.to_bytes().len()).sum());
    let (mut taken, mut refused, mut left) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(transaction) = candidates.next() {
        let size = transaction.to_bytes().len();
        let gas = execution.gas.with(&transaction.transaction);
        let (true, Some(gas)) = (
            size <= room && taken.len() < TRANSACTIONS_PER_BLOCK_MAX,
            gas,
        ) else {
            candidates.has_place(false);
            left.push(transaction);
            continue;
        };
        match execution.admit(&transaction, signatures) {
            Ok((verified, fee)) => {
                execution.gas = gas;
                execution.execute(&verified, fee)?;
                room -= size;
                candidates.has_place(true);
                taken.push(transaction);
            }
            Err(error) => {
                candidates.has_place(false);
                refused.push((transaction, error));
            }
        }
    }
    let (mut found, mut refused_verdicts) = (Vec::new(), Vec::new());
    for verdict in verdicts {
        match execution.check_verdict(&verdict) {
            Ok(()) => {
                execution.execute_verdict(&verdict)?;
                found.push(verdict);
            }
            Err(error) => refused_verdicts.push((verdict, error)),
        }
    }
    let (mut next, events, _) = execution.finish(proposer)?;
    let body = body_digest(&taken, &found);
    let header = header_after(&next, state.head.block, timestamp, proposer, body);
    next.head.block = header.id();
    Ok(Proposed {
        block: Block {
            header,
            transactions: taken,
            verdicts: found,
        },
        state: next,
        events,
        refused,
        refused_verdicts,
        left,
    })
}

/// Bytes of a block without transactions and verdicts.
const HEADER_AND_COUNTS_BYTES: usize = BlockHeader::BYTES + 4 + 4;

/// Whether a block may stand after `state` at all.
fn check_place(state: &State, proposer: Address, timestamp: TimestampMs) -> Result<(), BlockError> {
    if timestamp <= state.head.timestamp {
        return Err(BlockError::TimeNotIncreasing {
            parent: state.head.timestamp,
            got: timestamp,
        });
    }
    let known = state.validators.iter().any(|it| it.address == proposer);
    if !known {
        return Err(BlockError::UnknownProposer { proposer });
    }
    Ok(())
}

fn check_header(state: &State, block: &Block) -> Result<(), BlockError> {
    // What is not looked at here follows from executing the block, and is compared after that.
    let BlockHeader {
        height,
        parent,
        timestamp,
        proposer,
        body,
        ..
    } = block.header;
    let expected = state.head.height.next();
    if height != expected {
        return Err(BlockError::WrongHeight {
            expected,
            got: height,
        });
    }
    if parent != state.head.block {
        return Err(BlockError::WrongParent {
            expected: state.head.block,
            got: parent,
        });
    }
    check_place(state, proposer, timestamp)?;
    let count = block.transactions.len();
    if count > TRANSACTIONS_PER_BLOCK_MAX {
        return Err(BlockError::TooManyTransactions {
            count,
            limit: TRANSACTIONS_PER_BLOCK_MAX,
        });
    }
    let count = block.verdicts.len();
    if count > VERDICTS_PER_BLOCK_MAX {
        return Err(BlockError::TooManyVerdicts {
            count,
            limit: VERDICTS_PER_BLOCK_MAX,
        });
    }
    let size = block.to_bytes().len();
    if size > BLOCK_BYTES_MAX {
        return Err(BlockError::TooLarge {
            size,
            limit: BLOCK_BYTES_MAX,
        });
    }
    let got = body_digest(&block.transactions, &block.verdicts);
    if got != body {
        return Err(BlockError::WrongBody {
            expected: body,
            got,
        });
    }
    Ok(())
}

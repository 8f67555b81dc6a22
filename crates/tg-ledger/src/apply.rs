//! Block execution: the state and the events that follow from a state and a block.
//!
//! A block is executed in this order, each step on the state that the steps before it left:
//! 1. **transactions**, in the block's order
//! 2. **verdicts**, in the block's order
//! 3. **timeouts**: leases and jobs whose time is over at the block's ledger time. What is in the block in which a window
//!    ends is still in time
//! 4. **matching**: the lanes of the market
//! 5. **rewards**: the block's fees, split among the validators
//! 6. **pruning**: ended jobs beyond the limit are removed from the state
//!
//! Then money is counted and the state root is computed. A block that contains anything invalid is refused as a whole; a
//! proposer leaves invalid transactions out ([`propose`]).

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

/// Executes `block` on `state`. Returns the state after it, and what happened in it.
///
/// # Errors
/// [`BlockError`] says why the block does not follow from `state`.
pub fn apply(state: &State, block: &Block) -> Result<(State, Vec<Event>), BlockError> {
    apply_once(state, block, &CheckedSignatures::none())
}

/// As [`apply`], but does not verify signatures that are among `signatures`.
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

/// Checks that a mempool may keep a transaction: it is signed, and its nonce is not used. If it is the account's next, it must be valid at
/// the state's time. If its turn has not come, its sender must have an account, and a transaction of a prepaid kind must be about
/// something of the sender's. A signature that is among `signatures` is not verified again.
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

/// What a proposer wants to put into a block.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// Who proposes; must be a validator.
    pub proposer: Address,
    /// Block time; must be after the parent's.
    pub timestamp: TimestampMs,
    /// Transactions in the wanted order.
    pub transactions: Vec<SignedTransaction>,
    /// The verdicts of the proposer's own checks.
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
    /// Invalid transactions, with the reason.
    pub refused: Vec<(SignedTransaction, TransactionError)>,
    /// Verdicts that do not fit, with the reason.
    pub refused_verdicts: Vec<(Verdict, VerdictError)>,
    /// Transactions that do not fit into this block; they stay in the mempool.
    pub left: Vec<SignedTransaction>,
}

/// Makes the next block after `state` from the valid part of `proposal`, as far as it fits.
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

    /// Says whether the transaction that was returned last is in the block: it is valid, and there is room.
    fn has_place(&mut self, has_place: bool);
}

impl TransactionSource for std::vec::IntoIter<SignedTransaction> {
    fn next(&mut self) -> Option<SignedTransaction> {
        Iterator::next(self)
    }

    fn has_place(&mut self, _: bool) {}
}

/// As [`propose`], but takes the transactions from `candidates` and not from the proposal, and does not verify signatures that are among
/// `signatures`.
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
    // Room for the verdicts is reserved first: they free providers and money, and there are few of them.
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

/// Size of a block without transactions and verdicts, in bytes.
const HEADER_AND_COUNTS_BYTES: usize = BlockHeader::BYTES + 4 + 4;

/// Checks time and proposer of a block after `state`.
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
    // The other fields follow from executing the block, and are compared after that.
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

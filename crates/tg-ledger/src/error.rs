//! Errors of the ledger: one type for each operation, each with a stable code and whose fault it is.

mod transaction;

use tg_types::{Address, Amount, BlockId, Digest, Fault, Height, StateRoot, TimestampMs};

pub use transaction::{
    EndpointProblem, MachineProblem, NeedsProblem, TransactionError, VoucherProblem,
};

use crate::block::BlockHeader;
use crate::record::{BadLeaseStep, JobState};
use crate::verdict::Subject;

/// Why a verdict does not fit the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VerdictError {
    /// Nothing of that name exists.
    #[error("the verdict is about the unknown {subject}")]
    UnknownSubject {
        /// What it is about.
        subject: Subject,
    },
    /// No evidence of the subject waits for a verdict.
    #[error("the {subject} does not wait for a verdict")]
    NotPending {
        /// What it is about.
        subject: Subject,
    },
    /// The verdict is about other evidence than the one that waits.
    #[error("the {subject} waits for a verdict on {expected}, not on {got}")]
    WrongEvidence {
        /// What it is about.
        subject: Subject,
        /// The evidence that waits.
        expected: Digest,
        /// The evidence of the verdict.
        got: Digest,
    },
    /// The outcome is one of another kind of subject.
    #[error("the outcome does not fit the {subject}")]
    WrongOutcome {
        /// What it is about.
        subject: Subject,
    },
    /// The facts of a model are outside the grid's limits.
    #[error("the {subject} is accepted with facts outside the limits: {field} is {value}")]
    FactsOutOfBounds {
        /// What it is about.
        subject: Subject,
        /// Which fact.
        field: &'static str,
        /// Its value.
        value: u64,
    },
}

impl VerdictError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::UnknownSubject { .. } => "TG-LED-070",
            Self::NotPending { .. } => "TG-LED-071",
            Self::WrongEvidence { .. } => "TG-LED-072",
            Self::WrongOutcome { .. } => "TG-LED-073",
            Self::FactsOutOfBounds { .. } => "TG-LED-074",
        }
    }

    /// Whose fault it is: only a proposer puts verdicts in a block.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        Fault::Peer
    }
}

/// A rule of the ledger itself is broken: a bug, or a damaged state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvariantError {
    /// Money came from nowhere or went nowhere.
    #[error("money is not conserved: {minted} TGRID were minted, and {found} are accounted for")]
    MoneyNotConserved {
        /// What was minted.
        minted: Amount,
        /// What the tables and the burned sum have.
        found: Amount,
    },
    /// A record that another one names is missing.
    #[error("a record is missing in {table}")]
    Missing {
        /// The table.
        table: &'static str,
    },
    /// A job would take a step that its state machine does not have.
    #[error("a job cannot go from {from} to {to}")]
    BadStep {
        /// Where it stands.
        from: JobState,
        /// Where it would go.
        to: JobState,
    },
    /// A lease would take a step that does not follow from where it stands.
    #[error(transparent)]
    BadLeaseStep(#[from] BadLeaseStep),
    /// An amount would fall below zero or pass the maximum.
    #[error("an amount of {account} would be out of range")]
    AmountOutOfRange {
        /// Whose amount.
        account: Address,
    },
    /// Leases hold more of a machine than it has.
    #[error("leases hold more of a machine than it has")]
    Stock(#[source] tg_market::HoldError),
    /// Every leaf of the state tree was used.
    #[error("the state tree has no leaf left")]
    TreeFull,
}

/// Why a block does not follow from a state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// The height is not the next one.
    #[error("the block has height {got}, the next is {expected}")]
    WrongHeight {
        /// The next height.
        expected: Height,
        /// The block's.
        got: Height,
    },
    /// The parent is another block.
    #[error("the block's parent is {got}, the state belongs to {expected}")]
    WrongParent {
        /// The block the state belongs to.
        expected: BlockId,
        /// The block's parent.
        got: BlockId,
    },
    /// The time is not later than the parent's.
    #[error("the block's time {got} is not after its parent's {parent}")]
    TimeNotIncreasing {
        /// The parent's time.
        parent: TimestampMs,
        /// The block's.
        got: TimestampMs,
    },
    /// The proposer is no validator.
    #[error("the proposer {proposer} is no validator")]
    UnknownProposer {
        /// Who proposed.
        proposer: Address,
    },
    /// The body is not the one that the header commits to.
    #[error("the block's body hashes to {got}, its header says {expected}")]
    WrongBody {
        /// The header's.
        expected: Digest,
        /// The body's.
        got: Digest,
    },
    /// Too many transactions.
    #[error("the block has {count} transactions, at most {limit} are allowed")]
    TooManyTransactions {
        /// How many there are.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
    /// Too many verdicts.
    #[error("the block has {count} verdicts, at most {limit} are allowed")]
    TooManyVerdicts {
        /// How many there are.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
    /// Too many bytes.
    #[error("the block has {size} bytes, at most {limit} are allowed")]
    TooLarge {
        /// How many there are.
        size: usize,
        /// How many there may be.
        limit: usize,
    },
    /// A transaction uses more gas than its lane of the block has left.
    #[error("transaction {index} of the block brings its lane above {limit} gas")]
    TooMuchGas {
        /// Which one.
        index: usize,
        /// How much gas the lane has.
        limit: u64,
    },
    /// A transaction does not hold.
    #[error("transaction {index} of the block is invalid")]
    Transaction {
        /// Which one.
        index: usize,
        /// Why.
        #[source]
        source: TransactionError,
    },
    /// A verdict does not fit.
    #[error("verdict {index} of the block does not fit")]
    Verdict {
        /// Which one.
        index: usize,
        /// Why.
        #[source]
        source: VerdictError,
    },
    /// The state after the block has another root.
    #[error("the block leads to the state root {got}, its header says {expected}")]
    WrongStateRoot {
        /// The header's.
        expected: StateRoot,
        /// The one it leads to.
        got: StateRoot,
    },
    /// The header says something else than what follows from the block and its parent: the version, the ledger time,
    /// the epoch, the base fee, the validators, or a field that has no rule yet.
    #[error("the block's header is {got:?}, what follows from it is {expected:?}")]
    WrongHeader {
        /// What follows.
        expected: Box<BlockHeader>,
        /// The block's.
        got: Box<BlockHeader>,
    },
    /// A rule of the ledger itself broke.
    #[error("executing the block broke a rule of the ledger")]
    Invariant(#[source] InvariantError),
}

impl From<InvariantError> for BlockError {
    fn from(error: InvariantError) -> Self {
        Self::Invariant(error)
    }
}

impl BlockError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::WrongHeight { .. } => "TG-LED-080",
            Self::WrongParent { .. } => "TG-LED-081",
            Self::TimeNotIncreasing { .. } => "TG-LED-082",
            Self::UnknownProposer { .. } => "TG-LED-083",
            Self::WrongBody { .. } => "TG-LED-084",
            Self::TooManyTransactions { .. } => "TG-LED-085",
            Self::TooManyVerdicts { .. } => "TG-LED-086",
            Self::TooLarge { .. } => "TG-LED-087",
            Self::Transaction { .. } => "TG-LED-088",
            Self::Verdict { .. } => "TG-LED-089",
            Self::WrongStateRoot { .. } => "TG-LED-090",
            Self::Invariant(_) => "TG-LED-091",
            Self::WrongHeader { .. } => "TG-LED-092",
            Self::TooMuchGas { .. } => "TG-LED-099",
        }
    }

    /// Whose fault it is.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        match self {
            Self::Invariant(_) => Fault::Ours,
            Self::WrongHeight { .. }
            | Self::WrongParent { .. }
            | Self::TimeNotIncreasing { .. }
            | Self::UnknownProposer { .. }
            | Self::WrongBody { .. }
            | Self::TooManyTransactions { .. }
            | Self::TooManyVerdicts { .. }
            | Self::TooLarge { .. }
            | Self::TooMuchGas { .. }
            | Self::Transaction { .. }
            | Self::Verdict { .. }
            | Self::WrongStateRoot { .. }
            | Self::WrongHeader { .. } => Fault::Peer,
        }
    }
}

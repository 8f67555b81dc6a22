//! A submitted transaction on its way to the validator's loop, and the errors with which it is refused.

use tg_types::{Fault, SignedTransaction, TransactionId};
use tokio::sync::oneshot;

use crate::mempool::MempoolError;
use tg_ledger::TransactionError;

/// Why a transaction was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The ledger would refuse it on the last final state.
    #[error(transparent)]
    Refused(TransactionError),
    /// The pool cannot hold it.
    #[error("transaction does not fit into the pool")]
    Mempool(#[source] MempoolError),
    /// Too many submissions wait for this validator; try again.
    #[error("validator is busy with earlier submissions")]
    Busy,
    /// The validator has stopped.
    #[error("validator has stopped")]
    Stopped,
}

impl SubmitError {
    /// The stable code; of the ledger where the ledger refused.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Refused(error) => error.code(),
            Self::Mempool(MempoolError::Full { .. }) => "TG-NODE-042",
            Self::Mempool(MempoolError::SenderFull { .. }) => "TG-NODE-043",
            Self::Mempool(MempoolError::NonceUsed { .. }) => "TG-NODE-044",
            Self::Mempool(MempoolError::NonceTooFar { .. }) => "TG-NODE-045",
            Self::Mempool(MempoolError::NonceTaken { .. }) => "TG-NODE-046",
            Self::Mempool(MempoolError::ReplacementTooCheap { .. }) => "TG-NODE-049",
            Self::Mempool(MempoolError::Unfunded { .. }) => "TG-NODE-050",
            Self::Busy => "TG-NODE-047",
            Self::Stopped => "TG-NODE-048",
        }
    }

    /// Whose fault it is: the client's, or a shortage that passes.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        match self {
            Self::Refused(error) => error.fault(),
            Self::Mempool(
                MempoolError::SenderFull { .. }
                | MempoolError::NonceUsed { .. }
                | MempoolError::NonceTooFar { .. }
                | MempoolError::NonceTaken { .. }
                | MempoolError::ReplacementTooCheap { .. }
                | MempoolError::Unfunded { .. },
            ) => Fault::Client,
            Self::Mempool(MempoolError::Full { .. }) | Self::Busy | Self::Stopped => {
                Fault::Environment
            }
        }
    }
}

/// A submission on its way to the validator's loop.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) signed: SignedTransaction,
    pub(crate) reply: oneshot::Sender<Result<TransactionId, SubmitError>>,
}

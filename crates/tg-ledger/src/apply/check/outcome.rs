//! What comes of a check.

use tg_types::Amount;

use crate::error::TransactionError;

/// What comes of looking at a transaction: why it does not hold.
pub(super) type Check = Result<(), TransactionError>;

/// What each check returns: what the transaction spends beside the fee.
pub(super) type Spent = Result<Amount, TransactionError>;

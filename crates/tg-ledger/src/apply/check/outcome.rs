//! The result types of checks.

use tg_types::Amount;

use crate::error::TransactionError;

/// The result of a check that returns nothing.
pub(super) type Check = Result<(), TransactionError>;

/// The result of a check that returns what the transaction spends beside its fee.
pub(super) type Spent = Result<Amount, TransactionError>;

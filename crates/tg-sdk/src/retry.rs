//! What may be done with a transaction that an API refused, so that nothing is paid twice.
//!
//! Of two transactions of an account with one nonce the ledger takes one. So a transaction is signed again with the nonce that it had,
//! whatever the API says: an API that lies keeps what it refused, and one under another nonce would be taken beside it. Under another nonce
//! is signed again only what has no effect a second time, or where the API is of the caller's own node ([`Client::of_own_node`]).
//!
//! [`Client::of_own_node`]: crate::Client::of_own_node

use tg_types::{Transaction, TransactionKind};

use crate::error::ClientError;

/// With how many nonces one transaction is signed at most on a stranger's word, each of which may cost its gas.
pub const NONCES_MAX: u32 = 3;

/// What may be done with a transaction that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Nothing.
    Stop,
    /// The same bytes are sent again.
    SameBytes,
    /// It is signed again with the nonce that it had, and the fees of now.
    SameNonce,
    /// It is signed again with the nonce that the API tells now.
    NextNonce,
    /// Nothing: its nonce is taken, as the API says, and with another one it might be taken twice.
    NonceTaken,
}

/// What may be done with a transaction that an API refused with an error.
#[must_use]
pub fn retry_of(error: &ClientError, transaction: &Transaction, is_own_node: bool) -> Retry {
    if error.is_full() {
        return Retry::SameBytes;
    }
    if error.is_fee_too_low() {
        return Retry::SameNonce;
    }
    if !error.is_nonce_taken() {
        return Retry::Stop;
    }
    match is_own_node || !acts_again(transaction.kind()) {
        true => Retry::NextNonce,
        false => Retry::NonceTaken,
    }
}

/// Whether the account's own key may sign a transaction that was refused for the session key that signed it. An API that lies keeps the refused one,
/// so that both hold: what has an effect twice is signed so on the word of one's own node alone.
#[must_use]
pub fn account_may_sign(error: &ClientError, transaction: &Transaction, is_own_node: bool) -> bool {
    error.is_of_session() && (is_own_node || !acts_again(transaction.kind()))
}

/// Whether a second transaction with the same content has an effect beside its gas.
const fn acts_again(kind: TransactionKind) -> bool {
    match kind {
        TransactionKind::Transfer
        | TransactionKind::SubmitJob
        | TransactionKind::CommitBid
        | TransactionKind::PostOffer
        | TransactionKind::PayRent
        | TransactionKind::RegisterSessionKey => true,
        // About one record that is in another state after the first, or has a name by its content.
        TransactionKind::RegisterModel
        | TransactionKind::WithdrawOffer
        | TransactionKind::CancelJob
        | TransactionKind::StartLease
        | TransactionKind::CommitReceipt
        | TransactionKind::SubmitEvidence
        | TransactionKind::UpdateOffer
        | TransactionKind::RevealBid
        | TransactionKind::RateJob
        | TransactionKind::ReportLiveness
        | TransactionKind::ReportStorage
        | TransactionKind::DeclineLease
        | TransactionKind::CommitPart
        | TransactionKind::RaiseJob
        | TransactionKind::RevokeSessionKey
        | TransactionKind::JoinValidators
        | TransactionKind::LeaveValidators
        | TransactionKind::ReportEquivocation
        | TransactionKind::PostDealing
        | TransactionKind::CommitVotes
        | TransactionKind::RevealVotes
        | TransactionKind::ChallengeResult
        | TransactionKind::AskStored
        | TransactionKind::ArgueResult
        | TransactionKind::ReadyForProtocol
        | TransactionKind::SettleEndpoint
        | TransactionKind::SealResult
        | TransactionKind::OpenResult
        | TransactionKind::RegisterSealingKey
        | TransactionKind::GrantKey
        | TransactionKind::RevealKey => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorBody;
    use tg_types::{Address, Amount, JobId};

    fn refused(code: &str) -> ClientError {
        ClientError::Refused {
            status: 409,
            body: ErrorBody {
                code: code.to_owned(),
                message: String::new(),
                hint: String::new(),
            },
        }
    }

    #[test]
    fn what_pays_is_never_signed_under_a_second_nonce_on_a_strangers_word() {
        let pay = Transaction::Transfer {
            to: Address::new([1; 20]),
            amount: Amount::from_tgrid(1),
        };
        let cancel = Transaction::CancelJob {
            job: JobId::new([1; 32]),
        };
        for code in ["TG-LED-002", "TG-LED-003", "TG-NODE-046", "TG-NODE-049"] {
            let error = refused(code);
            assert_eq!(retry_of(&error, &pay, false), Retry::NonceTaken, "{code}");
            assert_eq!(retry_of(&error, &pay, true), Retry::NextNonce, "{code}");
            assert_eq!(retry_of(&error, &cancel, false), Retry::NextNonce, "{code}");
        }
        for code in ["TG-NODE-042", "TG-NODE-043", "TG-NODE-047"] {
            assert_eq!(retry_of(&refused(code), &pay, true), Retry::SameBytes);
        }
        for code in ["TG-LED-151", "TG-LED-152", "TG-LED-153", "TG-LED-154"] {
            let error = refused(code);
            assert!(account_may_sign(&error, &pay, true), "{code}");
            assert!(!account_may_sign(&error, &pay, false), "{code}");
            assert!(account_may_sign(&error, &cancel, false), "{code}");
            assert_eq!(retry_of(&error, &cancel, true), Retry::Stop, "{code}");
            assert_eq!(error.is_session_used_up(), code != "TG-LED-153", "{code}");
        }
        assert!(!account_may_sign(&refused("TG-LED-014"), &pay, true));
        let fee = refused("TG-LED-008");
        assert_eq!(retry_of(&fee, &pay, true), Retry::SameNonce);
        assert_eq!(retry_of(&refused("TG-LED-014"), &pay, true), Retry::Stop);
    }
}

//! Answers that are checked here, whoever gave them.
//!
//! A gateway's word is not taken: an answer counts if a certificate of n - f seats makes its block final and the block's state
//! has what it says. What the caller must know is a [`TrustRoot`]: the genesis of the network. An old answer is true of an
//! old state; [`FinalValue::timestamp_ms`] says how old.

use tg_types::chain::{AnswerError, LeafHead, TrustRoot};
use tg_types::{Address, Amount};

use crate::client::Client;
use crate::dto::StateRecordDto;
use crate::error::ClientError;

/// What a final state has, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FinalValue<T> {
    /// Height of the block whose state it is.
    pub height: u64,
    /// That block's time in milliseconds since 1970.
    pub timestamp_ms: u64,
    /// What it has.
    pub value: T,
}

/// Why nothing was shown.
#[derive(Debug, thiserror::Error)]
pub enum LightError {
    /// The call failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The answer is not the bytes of one.
    #[error("the grid's proof cannot be read")]
    Unreadable,
    /// The answer shows nothing: the gateway lies, or is of another network.
    #[error("what the grid says is not shown to be true")]
    NotShown(#[from] AnswerError),
}

impl Client {
    /// Whom somebody who trusts `root` may trust now, and before the last change of the set of validators: learnt from changes that
    /// each set shows of the next one ([`TrustRoot::after`] says what that is worth).
    ///
    /// # Errors
    /// [`LightError`] if a call fails or a change is not shown.
    pub async fn newest_roots(&self, root: &TrustRoot) -> Result<[TrustRoot; 2], LightError> {
        let mut roots = [root.clone(), root.clone()];
        let mut height = 0;
        loop {
            let changes = self.seat_changes(height).await?;
            if changes.0.is_empty() {
                return Ok(roots);
            }
            for change in &changes.0 {
                let (next, at) = roots[1].after(change)?;
                // Stops: a list without an end.
                if at <= height {
                    return Err(LightError::Unreadable);
                }
                height = at;
                roots = [roots[1].clone(), next];
            }
        }
    }

    /// The head of a record (owner, state, money), or that there is none, as the newest final state has it.
    ///
    /// # Errors
    /// [`LightError`] if the call fails or its answer does not hold.
    pub async fn shown_record(
        &self,
        root: &TrustRoot,
        record: StateRecordDto,
        id: &[u8],
    ) -> Result<FinalValue<Option<LeafHead>>, LightError> {
        let answer = self.state_answer(record, id).await?;
        let answer = answer.read().ok_or(LightError::Unreadable)?;
        let key = record.leaf_key(id);
        let shown = match answer.check(root, &key) {
            Ok(shown) => shown,
            // Perhaps of other validators than those that are known.
            Err(AnswerError::Finality(error)) => {
                let [before, now] = self.newest_roots(root).await?;
                if now == *root {
                    return Err(AnswerError::Finality(error).into());
                }
                // The newest block may be the last one of the set before.
                let shown = answer.check(&now, &key);
                shown.or_else(|_| answer.check(&before, &key))?
            }
            Err(error) => return Err(error.into()),
        };
        Ok(FinalValue {
            height: shown.header.height.get(),
            timestamp_ms: shown.header.timestamp.get(),
            value: shown.found.map(|(head, _)| head),
        })
    }

    /// The balance of an account; zero if there is none.
    ///
    /// # Errors
    /// Those of [`Client::shown_record`].
    pub async fn shown_balance(
        &self,
        root: &TrustRoot,
        address: Address,
    ) -> Result<FinalValue<Amount>, LightError> {
        let shown = self
            .shown_record(root, StateRecordDto::Account, address.as_bytes())
            .await?;
        let value = shown.value.map_or(Amount::ZERO, |head| head.amount);
        Ok(FinalValue {
            height: shown.height,
            timestamp_ms: shown.timestamp_ms,
            value,
        })
    }
}

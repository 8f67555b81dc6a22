//! Answers that are checked here, whoever gave them.
//!
//! A gateway's word is not taken: an answer counts if a certificate of n - f seats makes its block final and the block's state
//! has what it says. A [`LightClient`] begins at genesis while that is young, later at a block that an earlier run knew
//! ([`LightClient::head`]) or at a [`Checkpoint`] that somebody vouches for; what is too old is refused ([`tg_types::chain::TrustedHead`] has the reason). An old answer is true of
//! an old state; [`FinalValue::timestamp_ms`] says how old.

use crate::clock;
use tg_types::chain::{
    AnswerError, Checkpoint, CheckpointError, FinalAnswer, HeadTooOld, LeafHead, NetworkTrust,
    TrustedHead,
};
use tg_types::{Address, Amount, BlockId};

use crate::client::Client;
use crate::dto::{StateAnswerDto, StateRecordDto};
use crate::error::ClientError;
use crate::evidence::{CertificateEvidence, SeenCertificates};
use crate::shown::{self, AnswerChecks, ShownError};

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
    /// The record that came with the proof is not the one that the state has.
    #[error("the record that the grid gives is not the one that the final state has")]
    OtherContent,
    /// The answer shows nothing: the gateway lies, or is of another network.
    #[error("what the grid says is not shown to be true")]
    NotShown(#[from] AnswerError),
    /// The checkpoint is none of this chain, or too old itself.
    #[error("the checkpoint is not taken")]
    Checkpoint(#[from] CheckpointError),
    /// What is known of the chain is too old to follow it from.
    #[error("the chain is not followed from what is known of it")]
    Old(#[from] HeadTooOld),
    /// What an earlier run knew is of another network.
    #[error("what is known is of the network of genesis {found}, not of {expected}")]
    OtherNetwork {
        /// The genesis asked for.
        expected: BlockId,
        /// The one that is known.
        found: BlockId,
    },
}

impl From<ShownError> for LightError {
    fn from(error: ShownError) -> Self {
        match error {
            ShownError::Unreadable => Self::Unreadable,
            ShownError::OtherContent => Self::OtherContent,
            ShownError::NotShown(error) => Self::NotShown(error),
            ShownError::Old(error) => Self::Old(error),
        }
    }
}

/// A client that believes what a quorum of the seats made final, and nothing else.
#[derive(Debug, Clone)]
pub struct LightClient {
    client: Client,
    checks: AnswerChecks,
    certificates: SeenCertificates,
}

impl LightClient {
    /// Begins at what an earlier run knew, else at genesis; or at a checkpoint that is above that. For the checkpoint's block the
    /// grid is asked.
    ///
    /// # Errors
    /// [`LightError::Old`] if that is too old by this machine's clock, [`LightError::Checkpoint`] if the checkpoint is, or the
    /// grid has another block there.
    pub async fn begin(
        client: Client,
        trust: NetworkTrust,
        known: Option<TrustedHead>,
        checkpoint: Option<Checkpoint>,
    ) -> Result<Self, LightError> {
        let mut head = known.unwrap_or_else(|| trust.genesis());
        let (expected, found) = (trust.root.genesis(), head.genesis());
        if expected != found {
            return Err(LightError::OtherNetwork { expected, found });
        }
        if let Some(checkpoint) = checkpoint {
            let known = head.checkpoint();
            // Stops: a checkpoint of another chain than that which this client followed.
            if checkpoint.height == known.height && checkpoint.block != known.block {
                return Err(LightError::Checkpoint(CheckpointError::Block {
                    height: checkpoint.height,
                    expected: checkpoint.block,
                    got: known.block,
                }));
            }
            if checkpoint.height > known.height {
                let told = client
                    .checkpoint_block(Some(checkpoint.height.get()))
                    .await?;
                head = trust.begin_at(&checkpoint, &told)?;
                let young = head.check_age(clock::now(), trust.period());
                young.map_err(CheckpointError::from)?;
            }
        }
        head.check_age(clock::now(), trust.period())?;
        Ok(Self {
            client,
            checks: AnswerChecks::new(trust, head),
            certificates: SeenCertificates::default(),
        })
    }

    /// Certificates of which this client was shown that they contradict each other, or a block that it knew to be final: who is
    /// in two of them loses its stake once they are shown to the ledger ([`crate::evidence::equivocations`]).
    #[must_use]
    pub fn evidence(&self) -> &[CertificateEvidence] {
        self.certificates.evidence()
    }

    /// The newest block of which this client knows that it is final: what a later run goes on from.
    #[must_use]
    pub const fn head(&self) -> &TrustedHead {
        self.checks.head()
    }

    /// The head of a record (owner, state, money), or that there is none, as the newest final state has it.
    ///
    /// # Errors
    /// [`LightError`] if the call fails, its answer does not hold, or this client was not asked for too long.
    pub async fn record(
        &mut self,
        record: StateRecordDto,
        id: &[u8],
    ) -> Result<FinalValue<Option<LeafHead>>, LightError> {
        let (shown, _) = self.shown(record, id).await?;
        Ok(FinalValue {
            height: shown.header.height.get(),
            timestamp_ms: shown.header.timestamp.get(),
            value: shown.found.map(|(head, _)| head),
        })
    }

    /// The canonical bytes of a record, or that there is none, as the newest final state has it.
    ///
    /// # Errors
    /// Those of [`LightClient::record`]; [`LightError::OtherContent`] if what the grid gives is not what the state has, or it gives none.
    pub async fn content(
        &mut self,
        record: StateRecordDto,
        id: &[u8],
    ) -> Result<FinalValue<Option<Vec<u8>>>, LightError> {
        let (shown, told) = self.shown(record, id).await?;
        Ok(FinalValue {
            height: shown.header.height.get(),
            timestamp_ms: shown.header.timestamp.get(),
            value: shown::content(&shown, &told)?,
        })
    }

    /// What the newest final state has under a key, and what the grid gave to show it.
    async fn shown(
        &mut self,
        record: StateRecordDto,
        id: &[u8],
    ) -> Result<(FinalAnswer, StateAnswerDto), LightError> {
        self.checks.check_age(clock::now())?;
        let told = self.client.state_answer(record, id).await?;
        let shown = match self.check(&told, record, id) {
            // Perhaps of other validators than those that are known.
            Err(ShownError::NotShown(AnswerError::Finality(error)))
                if self.learn().await? == Learnt::Nothing =>
            {
                return Err(AnswerError::Finality(error).into());
            }
            Err(ShownError::NotShown(AnswerError::Finality(_))) => self.check(&told, record, id)?,
            shown => shown?,
        };
        Ok((shown, told))
    }

    /// What an answer shows by the seats that are known; its certificate is compared with those before it.
    fn check(
        &mut self,
        told: &StateAnswerDto,
        record: StateRecordDto,
        id: &[u8],
    ) -> Result<FinalAnswer, ShownError> {
        let shown = self.checks.take(told, record, id);
        if let Some(answer) = told.read() {
            let root = self.checks.head().root();
            self.certificates.note(root, &answer.certificate, &shown);
        }
        shown
    }

    /// The balance of an account; zero if there is none.
    ///
    /// # Errors
    /// Those of [`LightClient::record`].
    pub async fn balance(&mut self, address: Address) -> Result<FinalValue<Amount>, LightError> {
        let shown = self
            .record(StateRecordDto::Account, address.as_bytes())
            .await?;
        let value = shown.value.map_or(Amount::ZERO, |head| head.amount);
        Ok(FinalValue {
            height: shown.height,
            timestamp_ms: shown.timestamp_ms,
            value,
        })
    }

    /// Follows the changes of the set of validators, which each set shows of the next one.
    async fn learn(&mut self) -> Result<Learnt, LightError> {
        let mut learnt = Learnt::Nothing;
        loop {
            let known = self.checks.head().changed().get();
            let changes = self.client.seat_changes(known).await?;
            if changes.0.is_empty() {
                return Ok(learnt);
            }
            self.checks.learn(&changes)?;
            learnt = Learnt::Seats;
        }
    }
}

/// Whether other validators were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Learnt {
    Nothing,
    Seats,
}

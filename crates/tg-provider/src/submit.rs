//! Transactions of one account, signed and sent in the order of their nonces: those that serve leases with a session key, if
//! there is one, all others with the account's own key.

use std::time::Duration;

use tg_sdk::dto::AccountDto;
use tg_sdk::retry::{NONCES_MAX, Retry, account_may_sign, retry_of};
use tg_sdk::{Client, ClientError, MachineSession, Signer};
use tg_types::{ChainDomain, Fees, NonceLane, Transaction, TransactionId, Wallet};

/// How often one transaction is signed.
const SIGNED_MAX: u32 = 5;

/// How long the ledger's nonce may take to be told.
const SIGN_AGAIN: Duration = Duration::from_millis(300);

/// A transaction that the grid took.
#[derive(Debug, Clone, Copy)]
pub struct SubmittedTransaction {
    /// Its name.
    pub id: TransactionId,
    /// In whose sequence its nonce is: the account's, or that of the session key that signed it.
    pub lane: NonceLane,
    /// Its nonce.
    pub nonce: u64,
}

/// Signs and submits the transactions of one account. The nonce of each is asked of the API, whose pool knows what waits:
/// counted on here, those behind one that was dropped would wait until its place is used.
#[derive(Debug)]
pub struct Submitter {
    client: Client,
    wallet: Wallet,
    /// The session key that signs what serves leases.
    session: Option<MachineSession>,
    domain: Option<ChainDomain>,
}

impl Submitter {
    /// A submitter for `wallet`, and for a session key of its account. Nothing is sent yet.
    #[must_use]
    pub const fn new(client: Client, wallet: Wallet, session: Option<MachineSession>) -> Self {
        Self {
            client,
            wallet,
            session,
            domain: None,
        }
    }

    /// The session key, if one may sign.
    #[must_use]
    pub const fn session(&self) -> Option<&MachineSession> {
        self.session.as_ref()
    }

    /// The account, with the first nonces of it and of each of its session keys that are neither final nor wait at the API.
    ///
    /// # Errors
    /// Those of the client.
    pub async fn account(&self) -> Result<AccountDto, ClientError> {
        self.client.account(self.wallet.address()).await
    }

    /// Signs and submits a transaction: by the session key if there is one that may sign it, and by the account's own key if there is none, or the
    /// ledger refuses it. So a key that was taken back or is used up makes no lease late.
    ///
    /// # Errors
    /// Those of the client.
    pub async fn submit(
        &mut self,
        transaction: Transaction,
    ) -> Result<SubmittedTransaction, ClientError> {
        let session = self.session.as_ref();
        if let Some(key) = session.and_then(|it| it.signing(transaction.kind())) {
            let sent = self
                .submit_by(Signer::Session(&key), transaction.clone())
                .await;
            let is_own = self.client.is_own_node();
            let refusal = sent.as_ref().err();
            let refusal = refusal.filter(|error| account_may_sign(error, &transaction, is_own));
            let Some(refusal) = refusal else {
                return sent;
            };
            if let Some(session) = &self.session {
                session.refused(&key, refusal);
            }
        }
        let wallet = self.wallet.clone();
        self.submit_by(Signer::Account(&wallet), transaction).await
    }

    /// Signs and submits a transaction. What was refused is sent or signed again a few times, as [`tg_sdk::retry`] says: with the nonce
    /// that it had, or with another one where it has no effect twice. The API that told the nonce may be behind the others.
    async fn submit_by(
        &mut self,
        signer: Signer<'_>,
        transaction: Transaction,
    ) -> Result<SubmittedTransaction, ClientError> {
        let lane = signer.lane();
        let (mut tries, mut nonces) = (0, 1);
        let mut nonce = self.client.next_nonce(&lane).await?;
        loop {
            let error = match self.try_submit(signer, transaction.clone(), nonce).await {
                Ok(submitted) => return Ok(submitted),
                Err(error) => error,
            };
            self.domain = None;
            tries += 1;
            let retry = retry_of(&error, &transaction, self.client.is_own_node());
            match retry {
                // Of two with one nonce the ledger takes one, so that it makes no difference whether these are the same bytes.
                Retry::SameNonce | Retry::SameBytes if tries < SIGNED_MAX => {
                    tokio::time::sleep(SIGN_AGAIN).await;
                }
                Retry::NextNonce if tries < SIGNED_MAX && nonces < NONCES_MAX => {
                    tokio::time::sleep(SIGN_AGAIN).await;
                    nonces += 1;
                    nonce = self.client.next_nonce(&lane).await?;
                }
                _ => return Err(error),
            }
        }
    }

    async fn try_submit(
        &mut self,
        signer: Signer<'_>,
        transaction: Transaction,
        nonce: u64,
    ) -> Result<SubmittedTransaction, ClientError> {
        // What is prepaid needs no fee, however high the base fee is said to be.
        let is_prepaid = transaction.kind().is_prepaid();
        let (domain, fees) = match &self.domain {
            Some(domain) if is_prepaid => (*domain, Fees::NONE),
            _ => {
                let status = self.client.status().await?;
                let fees = match is_prepaid {
                    true => Fees::NONE,
                    false => self.client.fees(status.base_fee_per_gas)?,
                };
                (status.domain.into(), fees)
            }
        };
        let signed = signer.sign_with_fees(transaction, nonce, fees, &domain);
        let id = self.client.submit(&signed).await?;
        self.domain = Some(domain);
        Ok(SubmittedTransaction {
            id,
            lane: signer.lane(),
            nonce,
        })
    }
}

//! Transactions of one account, in order of their nonces, signed here.

use std::time::Duration;

use tg_sdk::retry::{NONCES_MAX, Retry, retry_of};
use tg_sdk::{Client, ClientError};
use tg_types::{ChainDomain, Fees, Transaction, TransactionId, Wallet};

/// How often one transaction is signed.
const SIGNED_MAX: u32 = 5;

/// How long the ledger's nonce may take to be told.
const SIGN_AGAIN: Duration = Duration::from_millis(300);

/// A transaction that the grid took.
#[derive(Debug, Clone, Copy)]
pub struct SubmittedTransaction {
    /// Its name.
    pub id: TransactionId,
    /// Its nonce.
    pub nonce: u64,
}

/// Signs and submits the transactions of one account. The nonce of each is asked of the API, whose pool knows what waits:
/// counted on here, those behind one that was dropped would wait until its place is used.
#[derive(Debug)]
pub struct Submitter {
    client: Client,
    wallet: Wallet,
    domain: Option<ChainDomain>,
}

impl Submitter {
    /// A submitter for `wallet`. Nothing is sent yet.
    #[must_use]
    pub const fn new(client: Client, wallet: Wallet) -> Self {
        Self {
            client,
            wallet,
            domain: None,
        }
    }

    /// The first nonce of the account that is neither final nor waits at the API.
    ///
    /// # Errors
    /// Those of the client.
    pub async fn next_nonce(&self) -> Result<u64, ClientError> {
        let account = self.client.account(self.wallet.address()).await?;
        Ok(account.nonce)
    }

    /// Signs and submits a transaction. What was refused is sent or signed again a few times, as [`tg_sdk::retry`] says: with the nonce
    /// that it had, or with another one where it has no effect twice. The API that told the account's nonce may be behind the others.
    ///
    /// # Errors
    /// Those of the client.
    pub async fn submit(
        &mut self,
        transaction: Transaction,
    ) -> Result<SubmittedTransaction, ClientError> {
        let (mut tries, mut nonces) = (0, 1);
        let mut nonce = self.next_nonce().await?;
        loop {
            let error = match self.try_submit(transaction.clone(), nonce).await {
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
                    nonce = self.next_nonce().await?;
                }
                _ => return Err(error),
            }
        }
    }

    async fn try_submit(
        &mut self,
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
        let signed = self
            .wallet
            .sign_with_fees(transaction, nonce, fees, &domain);
        let id = self.client.submit(&signed).await?;
        self.domain = Some(domain);
        Ok(SubmittedTransaction { id, nonce })
    }
}

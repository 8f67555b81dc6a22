//! Transactions of one account, in order of their nonces, signed here.

use std::time::Duration;

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

    /// Signs and submits a transaction; signs it again, a few times, if its nonce was overtaken. That happens when the
    /// API that told the account's nonce was behind the others.
    ///
    /// # Errors
    /// Those of the client.
    pub async fn submit(
        &mut self,
        transaction: Transaction,
    ) -> Result<SubmittedTransaction, ClientError> {
        let mut tries = 0;
        loop {
            let result = self.try_submit(transaction.clone()).await;
            if result.is_err() {
                self.domain = None;
            }
            tries += 1;
            match &result {
                Err(error) if error.is_overtaken() && tries < SIGNED_MAX => {
                    tokio::time::sleep(SIGN_AGAIN).await;
                }
                _ => return result,
            }
        }
    }

    async fn try_submit(
        &mut self,
        transaction: Transaction,
    ) -> Result<SubmittedTransaction, ClientError> {
        // What is prepaid needs no fee, so nothing has to be asked for it.
        let (domain, fees) = match &self.domain {
            Some(domain) if transaction.kind().is_prepaid() => (*domain, Fees::NONE),
            _ => {
                let status = self.client.status().await?;
                let fees = Fees::from_base_fee(status.base_fee_per_gas);
                (status.domain.into(), fees)
            }
        };
        let nonce = self.next_nonce().await?;
        let signed = self
            .wallet
            .sign_with_fees(transaction, nonce, fees, &domain);
        let id = self.client.submit(&signed).await?;
        self.domain = Some(domain);
        Ok(SubmittedTransaction { id, nonce })
    }
}

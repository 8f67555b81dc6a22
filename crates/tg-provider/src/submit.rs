//! Transactions of one account, in order of their nonces, signed here.

use std::time::{Duration, Instant};

use tg_sdk::{Client, ClientError};
use tg_types::{ChainDomain, Fees, Transaction, TransactionId, Wallet};

/// How often one transaction is signed.
const SIGNED_MAX: u32 = 5;

/// How long the ledger's nonce may take to be told.
const SIGN_AGAIN: Duration = Duration::from_millis(300);

/// How long a submitter counts nonces on from the one that it was told. What it sent before may have been dropped, by an API
/// that was behind when it took it: everything sent after it would wait until its place is used.
pub const COUNTED_FOR: Duration = Duration::from_secs(1);

/// Signs and submits the transactions of one account. It counts nonces itself, so several transactions can be on
/// their way at once; after a refusal or a loss, and after [`COUNTED_FOR`], it asks the API again.
#[derive(Debug)]
pub struct Submitter {
    client: Client,
    wallet: Wallet,
    domain: Option<ChainDomain>,
    nonce: Option<CountedNonce>,
}

/// The next nonce, as far as it was counted.
#[derive(Debug, Clone, Copy)]
struct CountedNonce {
    next: u64,
    /// When the one that it was counted from was told.
    told_at: Instant,
}

impl Submitter {
    /// A submitter for `wallet`. Nothing is sent yet.
    #[must_use]
    pub const fn new(client: Client, wallet: Wallet) -> Self {
        Self {
            client,
            wallet,
            domain: None,
            nonce: None,
        }
    }

    /// Forgets the nonce, so that the ledger's is taken: something sent earlier had no effect.
    pub const fn resync(&mut self) {
        self.nonce = None;
        self.domain = None;
    }

    /// Signs and submits a transaction; signs it again, a few times, if its nonce was overtaken. That happens when the
    /// API that told the account's nonce was behind the others.
    ///
    /// # Errors
    /// Those of the client. Whatever the error, the next call starts from the ledger's nonce.
    pub async fn submit(&mut self, transaction: Transaction) -> Result<TransactionId, ClientError> {
        let mut tries = 0;
        loop {
            let result = self.try_submit(transaction.clone()).await;
            if result.is_err() {
                self.resync();
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

    async fn try_submit(&mut self, transaction: Transaction) -> Result<TransactionId, ClientError> {
        // What is prepaid needs no fee, so nothing has to be asked for it.
        let (domain, fees) = match &self.domain {
            Some(domain) if transaction.kind().is_prepaid() => (*domain, Fees::NONE),
            _ => {
                let status = self.client.status().await?;
                let fees = Fees::from_base_fee(status.base_fee_per_gas);
                (status.domain.into(), fees)
            }
        };
        let counted = match self.nonce {
            Some(counted) if counted.told_at.elapsed() < COUNTED_FOR => counted,
            _ => CountedNonce {
                told_at: Instant::now(),
                next: self.client.account(self.wallet.address()).await?.nonce,
            },
        };
        let signed = self
            .wallet
            .sign_with_fees(transaction, counted.next, fees, &domain);
        let id = self.client.submit(&signed).await?;
        self.domain = Some(domain);
        self.nonce = Some(CountedNonce {
            next: counted.next + 1,
            ..counted
        });
        Ok(id)
    }
}

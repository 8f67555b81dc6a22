//! The money of an endpoint: more of it is locked, or what is left is taken back.

use std::time::{Duration, Instant};

use tg_types::{Amount, JobId, Transaction, Wallet};

use crate::client::Client;
use crate::dto::{JobDto, ModeDto};
use crate::job_error::{Doing as _, JobError};
use crate::jobs::submit;

/// How often the job is asked whether a block took what was sent.
const POLL: Duration = Duration::from_millis(150);

/// How long that takes at most.
const IN_BLOCK_MAX: Duration = Duration::from_secs(60);

/// On whose word it is how much was locked before: what is signed is the new sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockedBefore {
    /// Of the API: it is of the requestor's own node, or the requestor's key is public anyway.
    AsTold,
    /// A final state has so much, or the requestor says so.
    Known(Amount),
}

/// Locks more money for an endpoint, and waits until a block has it. An endpoint whose money is spent waits for this, and is served
/// again.
///
/// # Errors
/// If the job is no endpoint; with the ledger's code if it has ended, is another account's or the account has too little; those of any
/// call.
pub async fn top_up(
    client: &Client,
    wallet: &Wallet,
    job: JobId,
    amount: Amount,
    locked: LockedBefore,
) -> Result<JobDto, JobError> {
    let before = endpoint(client, job).await?;
    let locked = match locked {
        LockedBefore::AsTold => before.max_price,
        // Stops: more that is locked than was meant, since the API says that more was locked before.
        LockedBefore::Known(locked) if locked != before.max_price => {
            return Err(JobError::OtherJob {
                job,
                what: "maximum price",
                signed: locked.to_string(),
                told: before.max_price.to_string(),
            });
        }
        LockedBefore::Known(locked) => locked,
    };
    let max_price = locked.saturating_add(amount);
    let raise = Transaction::RaiseJob {
        job,
        max_price,
        max_attempts: before.max_attempts,
    };
    submit(client, wallet, &raise, "lock more money").await?;
    in_block(client, job, |it| it.max_price >= max_price).await
}

/// Ends an endpoint, and waits until a block has it. Its provider has some seconds for its last claim; then the job ends and what is left
/// comes back.
///
/// # Errors
/// As [`top_up`].
pub async fn close(client: &Client, wallet: &Wallet, job: JobId) -> Result<JobDto, JobError> {
    endpoint(client, job).await?;
    submit(
        client,
        wallet,
        &Transaction::CancelJob { job },
        "end the endpoint",
    )
    .await?;
    let is_ending = |it: &JobDto| {
        let mut meters = it.leases.iter().filter_map(|lease| lease.meter.as_ref());
        it.settlement.is_some() || meters.any(|meter| meter.ends_ms.is_some())
    };
    in_block(client, job, is_ending).await
}

async fn endpoint(client: &Client, job: JobId) -> Result<JobDto, JobError> {
    let known = client.job(job).await.doing("ask for the job")?;
    match known.mode {
        ModeDto::Endpoint => Ok(known),
        _ => Err(JobError::NotEndpoint { job }),
    }
}

async fn in_block(
    client: &Client,
    job: JobId,
    is_there: impl Fn(&JobDto) -> bool,
) -> Result<JobDto, JobError> {
    let sent = Instant::now();
    loop {
        let known = client.job(job).await.doing("ask for the job")?;
        if is_there(&known) {
            return Ok(known);
        }
        if sent.elapsed() > IN_BLOCK_MAX {
            return Err(JobError::NotInBlock { job });
        }
        tokio::time::sleep(POLL).await;
    }
}

//! Jobs of mode `sealed`: an input that only the provider of the lease reads, and an answer that only the requestor reads beside it.
//!
//! [`seal`] an input and order it with [`jobs::order_of`](crate::jobs::order_of); [`grant`] its key to the provider of each lease that waits for it
//! ([`SealingStageDto::AwaitsKey`]), within the grid's window; [`collect`] opens the answer. The key follows from the wallet and the sealed
//! input ([`key_of`]), so that any of it can be done later, elsewhere.
//!
//! Who grants a key to a provider believes whoever says which sealing key that provider has: an API that lies reads the input. Compare it with
//! that of a final state first ([`crate::light`]), unless the API is one's own node.
//!
//! [`reveal`] shows the key to everybody: validators then look at a grant that its provider says is wrong, or at a result, for the fee of a
//! challenge. From then on everybody reads the input and the answer.

pub use tg_privacy::JobKey;
use tg_privacy::SealedFor;
use tg_types::{LeaseId, ModelId, Transaction, Wallet};

use crate::client::Client;
use crate::dto::{JobDto, JobReceiptDto, LeaseDto, SealingStageDto};
use crate::jobs::{Doing as _, JobError, OrderedJob, collect_output, submit};

/// Most bytes of a sealed input.
const SEALED_BYTES_MAX: usize =
    tg_types::limits::INPUT_BYTES_MAX as usize + tg_types::sealing::SEALED_INPUT_OVERHEAD as usize;

/// An input that is sealed, and the key of its job.
#[derive(Debug, Clone)]
pub struct KeyedInput {
    /// What is stored and ordered.
    pub bytes: Vec<u8>,
    /// What opens it, and the answer.
    pub key: JobKey,
}

/// Seals an input for a model; `salt` is 32 fresh random bytes.
///
/// # Errors
/// If it is too long for the cipher.
pub fn seal(
    wallet: &Wallet,
    model: ModelId,
    salt: &[u8; 32],
    input: &[u8],
) -> Result<KeyedInput, JobError> {
    let key = JobKey::of(wallet, salt);
    let purpose = SealedFor {
        model,
        requestor: wallet.address(),
    };
    let doing = "seal the input";
    let bytes = key.seal_input(salt, &purpose, input);
    let bytes = bytes.map_err(|source| JobError::Seal { doing, source })?;
    Ok(KeyedInput { bytes, key })
}

/// The key of a job that was ordered before, from its sealed input, which the grid keeps.
///
/// # Errors
/// If another key file ordered it; those of any call.
pub async fn key_of(client: &Client, wallet: &Wallet, job: &JobDto) -> Result<JobKey, JobError> {
    let sealed = client.blob(job.input, SEALED_BYTES_MAX).await;
    let sealed = sealed.doing("fetch the sealed input")?;
    let doing = "find the key of the job";
    JobKey::of_input(wallet, &sealed).map_err(|source| JobError::Seal { doing, source })
}

/// Whether a lease waits for the key of its job.
#[must_use]
pub fn waits_for_key(lease: &LeaseDto) -> bool {
    let stage = lease.sealing.as_ref().map(|it| it.stage);
    lease.end.is_none() && stage == Some(SealingStageDto::AwaitsKey)
}

/// Grants the key of a job to the provider of a lease that waits for it. See above whom that believes.
///
/// # Errors
/// If the lease waits for no key; those of any call.
pub async fn grant(
    client: &Client,
    wallet: &Wallet,
    lease: &LeaseDto,
    key: &JobKey,
) -> Result<(), JobError> {
    let Some(sealing) = lease.sealing.as_ref().filter(|_| waits_for_key(lease)) else {
        return Err(JobError::NoKeyAwaited { lease: lease.id });
    };
    let doing = "seal the key to the provider";
    let grant = key.grant(&lease.id, &sealing.key);
    let grant = grant.map_err(|source| JobError::Seal { doing, source })?;
    let lease = lease.id;
    let transaction = Transaction::GrantKey { lease, grant };
    submit(client, wallet, &transaction, "grant the key").await?;
    Ok(())
}

/// Shows the key of a job to everybody.
///
/// # Errors
/// If there is nothing that validators would look at; those of any call.
pub async fn reveal(
    client: &Client,
    wallet: &Wallet,
    lease: LeaseId,
    key: &JobKey,
) -> Result<(), JobError> {
    let transaction = Transaction::RevealKey {
        lease,
        key: *key.as_bytes(),
    };
    submit(client, wallet, &transaction, "show the key").await?;
    Ok(())
}

/// Fetches the answer of a paid job and opens it.
///
/// # Errors
/// If the job was not paid or is not what was ordered, or the answer does not open; those of any call.
pub async fn collect(
    client: &Client,
    key: &JobKey,
    (ordered, job): (&OrderedJob, &JobDto),
) -> Result<(JobReceiptDto, Vec<u8>), JobError> {
    let (receipt, sealed) = collect_output(client, ordered, job).await?;
    let doing = "open the answer";
    let answer = key.open_answer(&receipt.lease.id, &sealed);
    let answer = answer.map_err(|source| JobError::Seal { doing, source })?;
    Ok((receipt, answer))
}

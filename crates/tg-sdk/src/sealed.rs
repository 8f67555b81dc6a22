//! Jobs of mode `sealed`: an input that only the provider of the lease reads, and an answer that only the requestor reads beside it.
//!
//! [`seal`] an input and order it with [`jobs::order_of`](crate::jobs::order_of); [`grant`] its key to the provider of each lease that waits for it
//! ([`SealingStageDto::AwaitsKey`]), within the grid's window; [`collect`] opens the answer. The key follows from the wallet and the sealed
//! input ([`key_of`]), so that any of it can be done later, elsewhere. Every provider that was granted the key keeps it: it can read the input
//! and, whoever serves the job, the answer. So can whoever is shown the key of another job that ordered the same sealed bytes: seal anew.
//!
//! Whoever grants a key to a provider believes who says which sealing key that provider has: an API that lies reads the input. Take the key,
//! and the digest of the job's input, from a final state ([`crate::light`]), unless the API is one's own node.
//!
//! [`reveal`] shows the key to everybody: validators then look at a grant that its provider says is wrong, or at a result, for the fee of a
//! challenge. From then on everybody reads the input and the answer; the API that is sent the transaction does in any case. So whether there
//! is a question, or a result that may be doubted, is to be taken from a final state too.

use tg_privacy::SealedFor;
pub use tg_privacy::{JobKey, SealError};
use tg_types::{
    Digest, Domain, JobId, LeaseId, ModelId, SealingPublicKey, Transaction, Wallet, keccak256_of,
};

use crate::client::Client;
use crate::dto::{JobDto, JobReceiptDto, LeaseDto, SealingStageDto};
use crate::job_error::{Doing as _, JobError};
use crate::jobs::{OrderedJob, collect_output, submit};

/// Most bytes of a sealed input.
const SEALED_BYTES_MAX: usize =
    tg_types::limits::INPUT_BYTES_MAX as usize + tg_types::sealing::SEALED_INPUT_OVERHEAD as usize;

/// More leases than a job can have: each attempt makes one, and each time that a provider declines.
const LEASES_MAX: u64 = 256;

/// An input that is sealed, and the key of its job.
#[derive(Debug, Clone)]
pub struct KeyedInput {
    /// What is stored and ordered. Jobs that order the same bytes have one key: showing it for one of them shows all of them.
    pub bytes: Vec<u8>,
    /// What opens it, and the answer.
    pub key: JobKey,
}

/// Seals an input for a model, under a key that is new each time.
///
/// # Errors
/// If it is too long for the cipher, or the system gives no randomness.
pub fn seal(wallet: &Wallet, model: ModelId, input: &[u8]) -> Result<KeyedInput, JobError> {
    // Drawn here. Stops: a salt that is used twice, which seals two inputs by one key and nonce.
    let mut salt = [0; 32];
    let doing = "draw what the key of the job follows from";
    getrandom::fill(&mut salt).map_err(|_| JobError::Seal {
        doing,
        source: SealError::Unsealable,
    })?;
    let key = JobKey::of(wallet, &salt);
    let purpose = SealedFor {
        model,
        requestor: wallet.address(),
    };
    let doing = "seal the input";
    let bytes = key.seal_input(&salt, &purpose, input);
    let bytes = bytes.map_err(|source| JobError::Seal { doing, source })?;
    Ok(KeyedInput { bytes, key })
}

/// The key of a job that was ordered before, from its sealed input, which the grid keeps. The digest of that input is the one that was signed,
/// or that a final state has of the job: on the word of an API it may be that of another job, whose key would then be granted or shown.
///
/// # Errors
/// If another key file ordered it; those of any call.
pub async fn key_of(client: &Client, wallet: &Wallet, input: Digest) -> Result<JobKey, JobError> {
    let sealed = client.blob(input, SEALED_BYTES_MAX).await;
    let sealed = sealed.doing("fetch the sealed input")?;
    let doing = "find the key of the job";
    JobKey::of_input(wallet, &sealed).map_err(|source| JobError::Seal { doing, source })
}

/// The name of a sealed job's lease that follows on so many earlier ones.
#[must_use]
pub fn lease_of(job: JobId, earlier: u64) -> LeaseId {
    let subject = [job.as_bytes().as_slice(), &earlier.to_be_bytes()].concat();
    LeaseId::new(keccak256_of(Domain::Lease, &subject))
}

/// Whether a lease can be one of a sealed job: its name follows from the job's.
#[must_use]
pub fn is_lease_of(job: JobId, lease: LeaseId) -> bool {
    (0..LEASES_MAX).any(|earlier| lease_of(job, earlier) == lease)
}

/// Fails for a lease that is none of a job. Stops: an API that tells a lease of its own job as one of the job whose key is granted or shown.
fn check_lease(job: JobId, lease: LeaseId) -> Result<(), JobError> {
    match is_lease_of(job, lease) {
        true => Ok(()),
        false => Err(JobError::OtherLease { job, lease }),
    }
}

/// To whom the key of a job is granted: the provider of one of its leases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantTo {
    /// The job.
    pub job: JobId,
    /// Its lease.
    pub lease: LeaseId,
    /// The sealing key of that lease's provider. Whoever says what it is can read the input.
    pub key: SealingPublicKey,
}

impl GrantTo {
    /// What the API tells of a lease: its word alone.
    ///
    /// # Errors
    /// If the lease waits for no key.
    pub fn as_told(job: JobId, lease: &LeaseDto) -> Result<Self, JobError> {
        match lease.sealing.as_ref().filter(|_| waits_for_key(lease)) {
            Some(sealing) => Ok(Self {
                job,
                lease: lease.id,
                key: sealing.key.clone(),
            }),
            None => Err(JobError::NoKeyAwaited { lease: lease.id }),
        }
    }
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
/// If the lease is none of the job, or waits for no key; those of any call.
pub async fn grant(
    client: &Client,
    wallet: &Wallet,
    to: &GrantTo,
    key: &JobKey,
) -> Result<(), JobError> {
    let lease = to.lease;
    check_lease(to.job, lease)?;
    let doing = "seal the key to the provider";
    let grant = key.grant(&lease, &to.key);
    let grant = grant.map_err(|source| JobError::Seal { doing, source })?;
    let transaction = Transaction::GrantKey { lease, grant };
    submit(client, wallet, &transaction, "grant the key").await?;
    Ok(())
}

/// Shows the key of a job to everybody, about one of its leases. Whoever is asked to take this has the key, whatever comes of it.
///
/// # Errors
/// If the lease is none of the job, or there is nothing that validators would look at; those of any call.
pub async fn reveal(
    client: &Client,
    wallet: &Wallet,
    (job, lease): (JobId, LeaseId),
    key: &JobKey,
) -> Result<(), JobError> {
    check_lease(job, lease)?;
    let key = *key.as_bytes();
    let transaction = Transaction::RevealKey { lease, key };
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn an_input_is_sealed_under_another_key_each_time() {
        let alice = Wallet::from_seed(b"alice");
        let model = ModelId::new([1; 32]);
        let first = seal(&alice, model, b"a question").unwrap();
        let second = seal(&alice, model, b"a question").unwrap();
        assert_ne!(first.bytes, second.bytes);
        assert_ne!(first.key, second.key);
        let found = JobKey::of_input(&alice, &first.bytes).unwrap();
        assert_eq!(found, first.key);
    }

    #[test]
    fn a_lease_is_one_of_the_job_that_its_name_follows_from() {
        let (job, other) = (JobId::new([1; 32]), JobId::new([2; 32]));
        for earlier in [0, 1, 15, LEASES_MAX - 1] {
            assert!(is_lease_of(job, lease_of(job, earlier)), "{earlier}");
            assert!(!is_lease_of(other, lease_of(job, earlier)), "{earlier}");
        }
        assert!(!is_lease_of(job, LeaseId::new(*job.as_bytes())));
    }
}

//! What is known of a sealed job's lease before its key is granted or shown, and on whose word: that of a final state, or of one's own node.

use tg_ledger::{Lease, SealingStage, SyncStage};
use tg_sdk::dto::{JobDto, LeaseDto, SealingStageDto};
use tg_sdk::{Client, sealed};
use tg_types::{Digest, JobId, SealingPublicKey};

use crate::grid::trust::Trusting;
use tg_console::outcome::{Exit, Failure, Outcome};

/// What a requestor may do about a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KeyStage {
    /// Grant the key, to this one of its provider.
    AwaitsKey(SealingPublicKey),
    /// Show the key: its provider says that what was granted opens nothing.
    Questioned,
    /// Show the key, if this answer is wrong.
    Contestable(Digest),
    /// Nothing; or it is over.
    Other,
}

impl KeyStage {
    /// As a final state has it.
    fn proved(lease: &Lease) -> Self {
        let Some(sealing) = lease.sealing.as_ref().filter(|_| lease.end().is_none()) else {
            return Self::Other;
        };
        let check = lease.check.as_ref().map(|it| &it.stage);
        match (&sealing.stage, check, lease.receipt()) {
            (SealingStage::AwaitsKey, _, _) => Self::AwaitsKey(sealing.key.clone()),
            (SealingStage::Questioned { .. }, _, _) => Self::Questioned,
            (SealingStage::Granted { .. }, Some(SyncStage::Contestable { .. }), Some(receipt)) => {
                Self::Contestable(receipt.output)
            }
            _ => Self::Other,
        }
    }

    /// As the API tells it.
    pub(super) fn told(lease: &LeaseDto) -> Self {
        let Some(sealing) = lease.sealing.as_ref().filter(|_| lease.end.is_none()) else {
            return Self::Other;
        };
        match (sealing.stage, &lease.receipt) {
            (SealingStageDto::AwaitsKey, _) => Self::AwaitsKey(sealing.key.clone()),
            (SealingStageDto::Questioned, _) => Self::Questioned,
            (SealingStageDto::Granted, Some(receipt)) if sealing.may_reveal => {
                Self::Contestable(receipt.output)
            }
            _ => Self::Other,
        }
    }

    /// Whether both cannot be true of one lease, at whatever times.
    fn contradicts(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::AwaitsKey(told), Self::AwaitsKey(proved)) => told != proved,
            (Self::Contestable(told), Self::Contestable(proved)) => told != proved,
            _ => false,
        }
    }
}

/// Why nothing is known of a lease.
pub(super) enum NotKnown {
    /// No proof came, which one that is asked for again may.
    Yet(Failure),
    /// What the API tells is not so, or nobody may be believed.
    Otherwise(Failure),
}

/// Fails where nobody says what a lease is but an API that is not one's own node. Stops: an API that has a key granted to itself, or shown to
/// it about a question that nobody asked.
pub(super) fn refuse_word(client: &Client, trusting: Option<&Trusting>) -> Outcome {
    if trusting.is_some() || client.is_own_node() {
        return Ok(());
    }
    let text = format!(
        "which sealing key a provider has, and whether it doubts a key, is only what {} says: no key is granted or shown on its word",
        client.url()
    );
    Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint(
        "--genesis FILE (or TENSORGRID_GENESIS) has it proved by the validators; the file comes from whoever runs the network, and is \
         genesis.bin in the data folder of `tensorgrid up`. --trust-gateway is about what is shown, and not enough",
    ))
}

/// The digest of a job's input, from which its key follows. Stops: an API that tells the input of another job of the same key file, whose
/// key would be granted or shown.
pub(super) async fn input_of(
    trusting: &mut Option<Trusting>,
    job: &JobDto,
) -> Result<Digest, Failure> {
    match trusting {
        Some(trusting) => Ok(trusting.order(job.id).await?.input),
        None => Ok(job.input),
    }
}

/// What is known of a lease that the API tells as one of a job whose input this is.
pub(super) async fn known(
    client: &Client,
    trusting: &mut Option<Trusting>,
    (job, input): (JobId, Digest),
    lease: &LeaseDto,
) -> Result<KeyStage, NotKnown> {
    if lease.job != job || !sealed::is_lease_of(job, lease.id) {
        let text = format!(
            "{} tells lease {} as one of job {job}, and it is none",
            client.url(),
            lease.id
        );
        return Err(NotKnown::Otherwise(lied(text)));
    }
    refuse_word(client, trusting.as_ref()).map_err(NotKnown::Otherwise)?;
    let told = KeyStage::told(lease);
    let Some(trusting) = trusting else {
        return Ok(told);
    };
    let order = trusting.order(job).await.map_err(not_known)?;
    if order.input != input {
        let text = format!("the key is not that of the input that job {job} was ordered with");
        return Err(NotKnown::Otherwise(lied(text)));
    }
    let shown = trusting.lease(lease.id).await.map_err(not_known)?;
    let Some(found) = shown.value else {
        let text = format!("no final state has lease {} yet", lease.id);
        let failure = Failure::new(Exit::Rejected, anyhow::anyhow!(text));
        return Err(NotKnown::Yet(failure.hint(AHEAD)));
    };
    let proved = KeyStage::proved(&found);
    if found.job != job || told.contradicts(&proved) {
        let text = format!(
            "no final state has the sealing key or the answer that the API tells for lease {} of job {job}",
            lease.id
        );
        return Err(NotKnown::Otherwise(lied(text)));
    }
    trusting.keep();
    Ok(proved)
}

/// What a proof that did not come means: one that is damaged or forged does not get better, what the network does to a call may.
fn not_known(failure: Failure) -> NotKnown {
    match failure.exit {
        Exit::Rejected | Exit::Usage | Exit::Interrupted => NotKnown::Otherwise(failure),
        Exit::Failed | Exit::NotFound | Exit::Unavailable => NotKnown::Yet(failure),
    }
}

const AHEAD: &str = "the API lies or is ahead of its proofs: another one is named with --api";

fn lied(text: String) -> Failure {
    Failure::new(Exit::Rejected, anyhow::anyhow!(text)).hint(
        "no key was granted or shown on its word: the API lies. `tensorgrid job grant`, with another one named by --api, goes on where this stopped",
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const JOB: JobId = JobId::new([1; 32]);

    /// A lease of a sealed job, as an API tells it.
    fn told(lease: tg_types::LeaseId, stage: &str, output: Option<Digest>) -> LeaseDto {
        let zeros = format!("0x{}", "0".repeat(64));
        let receipt = output.map(|output| {
            serde_json::json!({
                "program": zeros, "model": zeros, "input": zeros, "output": output.to_string(), "trace": zeros, "tier": "TGX-1",
            })
        });
        let value = serde_json::json!({
            "id": lease.to_string(), "job": JOB.to_string(), "offer": zeros, "provider": format!("0x{}", "6".repeat(40)),
            "price": "1", "collateral": "0", "state": "leased", "matched_ms": 1, "started": false, "start_by_ms": 2,
            "finish_by_ms": 3, "receipt": receipt, "end": null, "end_text": null, "rejection": null,
            "sealing": {
                "key": format!("0x{}", "00".repeat(tg_types::sealing::SEALING_KEY_BYTES)), "stage": stage,
                "may_reveal": stage == "questioned" || receipt.is_some(),
            },
        });
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_a_requestor_may_do_follows_from_where_the_key_is() {
        let lease = sealed::lease_of(JOB, 0);
        let stage = |stage, output| KeyStage::told(&told(lease, stage, output));
        let awaits = stage("awaits_key", None);
        assert!(matches!(awaits, KeyStage::AwaitsKey(_)));
        assert_eq!(stage("granted", None), KeyStage::Other);
        assert_eq!(stage("questioned", None), KeyStage::Questioned);
        assert_eq!(stage("revealed", None), KeyStage::Other);
        let (one, other) = (Digest::new([1; 32]), Digest::new([2; 32]));
        let doubted = stage("granted", Some(one));
        assert_eq!(doubted, KeyStage::Contestable(one));
        assert!(doubted.contradicts(&KeyStage::Contestable(other)));
        assert!(!doubted.contradicts(&KeyStage::Contestable(one)));
        // A proof may be some blocks behind, or before.
        assert!(!doubted.contradicts(&stage("granted", None)));
        assert!(!stage("questioned", None).contradicts(&doubted));
    }

    #[tokio::test]
    async fn a_lease_of_another_job_or_the_word_of_a_stranger_is_not_taken() {
        // Nothing answers there, and nothing is asked.
        let client = Client::new("http://127.0.0.1:1").unwrap();
        let input = Digest::default();
        let own = told(sealed::lease_of(JOB, 3), "awaits_key", None);
        let refused = known(&client, &mut None, (JOB, input), &own).await;
        let Err(NotKnown::Otherwise(failure)) = refused else {
            panic!("a stranger's word is not taken");
        };
        assert_eq!(failure.exit, Exit::Usage);
        let client = client.of_own_node();
        let taken = known(&client, &mut None, (JOB, input), &own).await;
        assert!(matches!(taken, Ok(KeyStage::AwaitsKey(_))));
        let other = JobId::new([2; 32]);
        let foreign = told(sealed::lease_of(other, 0), "awaits_key", None);
        let refused = known(&client, &mut None, (JOB, input), &foreign).await;
        let Err(NotKnown::Otherwise(failure)) = refused else {
            panic!("the lease is of another job");
        };
        assert_eq!(failure.exit, Exit::Rejected);
    }
}

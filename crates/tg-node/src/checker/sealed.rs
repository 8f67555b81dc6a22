//! Checks after the requestor of a sealed job revealed its key: whether the key was granted and opens the input, or whether
//! the result is that of a repeated run.

use tg_ledger::{GrantTask, Outcome, RevealedKey, SampleTask};
use tg_privacy::{JobKey, SealedFor};
use tg_proof::is_ordered;
use tg_types::Digest;

use super::kept::Executable;
use super::run::RepeatedRun;
use super::{CODE_GRANT, CODE_RUN, CODE_SEALED_INPUT, ProofChecker, Refusal, read, rejected};
use crate::blob::BlobStore;

impl ProofChecker {
    /// Looks at what was granted: the key that was shown, and it opens an input that the model takes. Then the provider that says otherwise is
    /// refuted; else what it says is so.
    pub(super) fn check_grant(
        &self,
        task: &GrantTask,
        blobs: &BlobStore,
    ) -> Result<Outcome, Refusal> {
        let GrantTask {
            revealed,
            key,
            grant,
            public_blob,
        } = task;
        let made = JobKey::new(revealed.secret).grant(&revealed.lease, key);
        // Stops: another key than the one that was granted.
        if made.as_ref() != Ok(grant) {
            return Err(rejected(CODE_GRANT, "another key was granted"));
        }
        let Some(input) = opened(revealed, blobs)? else {
            return Err(rejected(
                CODE_SEALED_INPUT,
                "the key does not open the input",
            ));
        };
        // Stops: an input on which no provider can run the model.
        if let Executable::Model(public) = self.executable(public_blob, blobs)?
            && !is_ordered(public.program(), &input, true)
        {
            return Err(rejected(
                CODE_SEALED_INPUT,
                "the model does not take the input",
            ));
        }
        Ok(Outcome::Refuted)
    }

    /// Runs the model of a sealed job again, and seals what it gives: whoever has the key gets the same bytes. What nobody can open is no fault of
    /// the provider's, which opened something else that its requestor granted, or should not have been asked.
    pub(super) fn check_sealed_run(
        &self,
        task: &SampleTask,
        revealed: &RevealedKey,
        blobs: &BlobStore,
    ) -> Result<Outcome, Refusal> {
        let Some(input) = opened(revealed, blobs)? else {
            return Ok(Outcome::LeaseAccepted);
        };
        let run = RepeatedRun {
            opened: Some(&input),
            ..RepeatedRun::of(task)
        };
        let ran = self.run_of(&run, blobs)?;
        let sealed = JobKey::new(revealed.secret).seal_answer(&revealed.lease, &ran.answer);
        let sealed = sealed.map_err(|error| rejected(CODE_RUN, &error.to_string()))?;
        match Digest::of_blob(&sealed) == task.receipt.output {
            true => Ok(Outcome::LeaseAccepted),
            false => Err(rejected(CODE_RUN, "another answer")),
        }
    }
}

/// What the key that was shown opens, if it does.
fn opened(revealed: &RevealedKey, blobs: &BlobStore) -> Result<Option<Vec<u8>>, Refusal> {
    let RevealedKey {
        lease: _,
        model,
        requestor,
        input,
        input_len,
        secret,
        name: _,
    } = revealed;
    let sealed = read(blobs, input, u64::from(*input_len), "input size")?;
    let purpose = SealedFor {
        model: *model,
        requestor: *requestor,
    };
    Ok(JobKey::new(*secret).open_input(&purpose, &sealed).ok())
}

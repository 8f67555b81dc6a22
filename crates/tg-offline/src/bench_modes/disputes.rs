//! What a dispute that ends at one tile costs each side: false claims about a right run, refuted and judged.

use super::{BLOB_BYTES, Bench, BenchedModel, median};
use crate::measure::Moment;
use tg_console::outcome::{Exit, Failure, OrFail, Outcome as Ended, line};
use tg_ir::CompiledModel;
use tg_ledger::{DisputeFiles, Evidence, EvidenceTask, Outcome, SampleTask};
use tg_node::{EvidenceChecker as _, claim_file};
use tg_provider::Worker as _;
use tg_types::codec::Encode as _;
use tg_types::{Digest, Fees, LeaseId, Transaction, VerificationMode, Vote, Wallet};

/// False claims about one run.
const CLAIMS: usize = 11;

/// What a dispute costs: milliseconds of one core, and bytes.
pub(super) struct DisputeCost {
    pub(super) accuser_ms: f64,
    pub(super) provider_ms: f64,
    pub(super) validator_ms: f64,
    pub(super) validator_most_ms: f64,
    pub(super) claim: usize,
    pub(super) answer: usize,
    pub(super) answer_most: usize,
    /// Of the three transactions.
    pub(super) on_chain: usize,
}

impl Bench<'_> {
    /// Has tiles all over a run claimed to be others than they are.
    pub(super) fn dispute(&self) -> Result<DisputeCost, Failure> {
        let task = self.task(VerificationMode::Optimistic);
        let model = CompiledModel::read(&task.model_file);
        let model = model.or_fail(Exit::Failed, "read the model")?;
        let execution = self.worker.execute(&task, &|_| {});
        let execution = execution.or_fail(Exit::Failed, "execute")?;
        let start = Moment::now();
        let right = claim_file(&model, &task.input);
        let accuser_ms = start.cost().cpu_ms;
        let leaves = right.len().saturating_sub(execution.output.len()) / 32;
        let (mut refuting, mut judging, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        for number in 1..=CLAIMS {
            // The leaves are the end of the file, those of what the run answers the last of them.
            let back = leaves * number / (CLAIMS + 1);
            let mut claim = right.clone();
            let place = claim.len() - 32 * (back + 1 + execution.output.len() / 1_024) - 16;
            claim[place] ^= 1;
            let start = Moment::now();
            let answer = self.worker.refute(&task, &execution, &claim);
            let answer = answer.or_fail(Exit::Failed, "refute a false claim")?;
            refuting.push(start.cost().cpu_ms);
            answers.push(answer.len() as f64);
            let files = DisputeFiles {
                claim: self.stored(&claim)?,
                answer: self.stored(&answer)?,
            };
            let [weights_blob, public_blob] = self.digests;
            let sample = SampleTask {
                dispute: Some(files),
                lease: task.lease,
                model: task.model,
                mode: task.mode,
                public_blob,
                weights_blob,
                program: self.subject.program,
                receipt: Box::new(execution.receipt.clone()),
                seed: Digest::of_blob(b"bench modes"),
                evidence: execution.receipt.output,
                size: 0,
            };
            let vote = Vote::WrongRun;
            let accused = EvidenceTask::Accusation { vote, sample };
            let start = Moment::now();
            let outcome = self.checker.check(&accused, &self.blobs);
            let outcome = outcome.or_fail(Exit::Failed, "judge a claim")?;
            judging.push(start.cost().cpu_ms);
            if outcome != Outcome::Refuted {
                let text = format!("a false claim about {} stands", self.subject.name);
                return Err(Failure::new(Exit::Failed, anyhow::anyhow!(text)));
            }
        }
        let most = |all: &[f64]| all.iter().copied().fold(0.0, f64::max);
        Ok(DisputeCost {
            accuser_ms,
            provider_ms: median(refuting),
            validator_most_ms: most(&judging),
            validator_ms: median(judging),
            claim: right.len(),
            answer_most: most(&answers) as usize,
            answer: median(answers) as usize,
            on_chain: on_chain(task.lease),
        })
    }

    fn stored(&self, bytes: &[u8]) -> Result<Evidence, Failure> {
        let digest = self.blobs.put(bytes, BLOB_BYTES);
        let digest = digest.or_fail(Exit::Failed, "store a file")?;
        let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        Ok(Evidence { digest, size })
    }
}

/// Bytes of a challenge and of the two messages that name a file.
fn on_chain(lease: LeaseId) -> usize {
    let wallet = Wallet::from_seed(b"bench modes");
    let domain = tg_ledger::development_domain();
    let file = Digest::of_blob(b"bench modes");
    let argue = Transaction::ArgueResult {
        lease,
        file,
        size: 1,
    };
    let all = [Transaction::ChallengeResult { lease }, argue.clone(), argue];
    let signed = all.map(|it| wallet.sign_with_fees(it, 0, Fees::NONE, &domain));
    signed.iter().map(|it| it.to_bytes().len()).sum()
}

/// Whether disputes about a subject end at a tile.
pub(super) fn has_tiles(subject: &BenchedModel) -> bool {
    subject.modes.contains(&VerificationMode::Proof)
}

impl DisputeCost {
    pub(super) fn row_json(&self, name: &str) -> serde_json::Value {
        serde_json::json!({
            "model": name,
            "dispute": "tile",
            "accuser_cpu_ms": self.accuser_ms,
            "provider_cpu_ms": self.provider_ms,
            "validator_cpu_ms": self.validator_ms,
            "validator_cpu_ms_most": self.validator_most_ms,
            "claim_bytes": self.claim,
            "answer_bytes": self.answer,
            "answer_bytes_most": self.answer_most,
            "chain_bytes": self.on_chain,
        })
    }
}

/// Prints what disputes cost.
pub(super) fn table(all: &[(&'static str, DisputeCost)]) -> Ended {
    line(format_args!(
        "\n{:<22}{:>14}{:>14}{:>15}{:>14}{:>12}{:>13}{:>10}",
        "dispute", "accuser", "provider", "validator", "at most", "claim", "answer", "chain"
    ))?;
    for (name, it) in all {
        line(format_args!(
            "{:<22}{:>11.2} ms{:>11.2} ms{:>12.2} ms{:>11.2} ms{:>9.1} kB{:>10.1} kB{:>8} B",
            name,
            it.accuser_ms,
            it.provider_ms,
            it.validator_ms,
            it.validator_most_ms,
            it.claim as f64 / 1e3,
            it.answer as f64 / 1e3,
            it.on_chain,
        ))?;
    }
    line(format_args!(
        "CPU time, medians of {CLAIMS} false claims, each about another tile of the run, until every validator has seen which it is; \
         chain: a challenge and the two messages that name claim and answer, signed."
    ))?;
    Ok(())
}

//! Watching over a job of mode `optimistic`: a result that is not what the model gave here is challenged.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tg_types::{Address, Digest, JobId, LeaseId, TraceForm, Transaction, Wallet, stated_trace};

use crate::client::Client;
use crate::dto::{JobDto, JobStateDto, LeaseDto, ReceiptDto};
use crate::jobs::{JobError, claim, submit, waits_for_claim};

/// Between two looks at the job.
const POLL: Duration = Duration::from_millis(150);

/// How long the grid may be away.
const ABSENCE_MAX: Duration = Duration::from_secs(30);

/// How long a challenge that was taken may be in no block before it is made again.
const PLACED_MAX: Duration = Duration::from_secs(20);

/// Challenges of one result: one that is right fails only if its claim could not be handed in in time.
const CHALLENGES_MAX: u8 = 3;

/// What a run here gave of a job's model.
#[derive(Debug, Clone)]
pub struct OwnRun {
    /// The digest of what it answers.
    pub output: Digest,
    /// The trace of the run.
    pub trace: Digest,
    /// What it took of its limit, by which it is billed; 0 in a tier that does not count that.
    pub work: u64,
    /// What an accuser claims of it, for a dispute that ends at a part of the run.
    pub claim: Vec<u8>,
}

impl OwnRun {
    /// Whether a receipt says that this is the run: its answer, and what it has in the place of the trace.
    fn is_said_by(&self, receipt: &ReceiptDto, names: (&JobId, &LeaseId)) -> bool {
        // Stops: a right answer with a bill for work that nobody did, or with another trace.
        let trace = stated_trace(TraceForm::Run, names, self.trace, self.work);
        receipt.output == self.output && receipt.trace == trace
    }

    /// Whether a lease has another result.
    fn is_other(&self, job: &JobId, lease: &LeaseDto) -> bool {
        let receipt = lease.receipt.as_ref();
        receipt.is_some_and(|it| !self.is_said_by(it, (job, &lease.id)))
    }
}

/// What was done about one result.
#[derive(Debug, Default)]
struct WatchedResult {
    /// Challenges that the grid took.
    challenges: u8,
    /// When the last one was taken, unless it failed since.
    placed: Option<Instant>,
    /// Whether its dispute was seen.
    is_seen: bool,
    is_claimed: bool,
}

/// What is due about one result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DueStep {
    Nothing,
    Challenge,
    Claim,
}

impl WatchedResult {
    /// Looks at the result, of `me`, which found another one.
    fn look(&mut self, (state, lease): (JobStateDto, &LeaseDto), me: &Address) -> DueStep {
        let check = lease.check.as_ref().filter(|it| it.members > 0);
        let dispute = check.and_then(|it| it.dispute.as_ref());
        let is_mine = dispute.is_some_and(|it| it.accuser == *me);
        self.is_seen |= is_mine;
        if is_mine {
            return match waits_for_claim(lease, me) && !self.is_claimed {
                true => DueStep::Claim,
                false => DueStep::Nothing,
            };
        }
        // A dispute of mine is over and the result stands, or what was taken is in no block and in no queue.
        let has_failed = self.is_seen && (dispute.is_some() || state != JobStateDto::Disputed);
        let is_lost = !self.is_seen
            && state == JobStateDto::Verifying
            && self.placed.is_some_and(|at| at.elapsed() > PLACED_MAX);
        if has_failed || is_lost {
            *self = Self {
                challenges: self.challenges,
                ..Self::default()
            };
        }
        let may_be = matches!(state, JobStateDto::Verifying | JobStateDto::Disputed);
        match check.is_some() && may_be && self.placed.is_none() && self.challenges < CHALLENGES_MAX
        {
            true => DueStep::Challenge,
            false => DueStep::Nothing,
        }
    }
}

/// Watches over a job of mode `optimistic` until it ends: a result that is not what the program gave here, its answer, bill and trace, is challenged, so that
/// every validator looks at it before it is paid. How many were; each costs the fee of mode `recompute`, which comes back with the
/// validators' finding that the result is wrong.
///
/// What the grid refuses or does not take now is tried again as long as the job is open: a place among those that wait for their turn may become
/// free, and an upload may succeed later.
///
/// # Errors
/// If the grid is away for 30 s; why the last challenge was not taken, if none was and the job ended with a result that is another one.
pub async fn challenge_others(
    client: &Client,
    wallet: &Wallet,
    id: JobId,
    own: OwnRun,
) -> Result<usize, JobError> {
    let me = wallet.address();
    let mut watched: BTreeMap<LeaseId, WatchedResult> = BTreeMap::new();
    let mut answered = Instant::now();
    let mut failed = None;
    loop {
        match client.job(id).await {
            Ok(job) if job.state.is_final() => return ended(&job, &own, &watched, failed),
            Ok(job) => {
                answered = Instant::now();
                for lease in others(&job, &own) {
                    let done = watched.entry(lease.id).or_default();
                    let due = done.look((job.state, lease), &me);
                    if let Err(error) = act(client, wallet, (lease.id, due), (done, &own)).await {
                        failed = Some(error);
                    }
                }
            }
            Err(error)
                if (error.is_not_found() || error.is_transient())
                    && answered.elapsed() < ABSENCE_MAX => {}
            Err(source) => {
                let doing = "watch over the job";
                return Err(JobError::Call { doing, source });
            }
        }
        tokio::time::sleep(POLL).await;
    }
}

/// The results that are others than the own one, of leases that go on.
fn others<'a>(job: &'a JobDto, own: &'a OwnRun) -> impl Iterator<Item = &'a LeaseDto> {
    let open = job.leases.iter().filter(|it| it.end.is_none());
    open.filter(move |it| own.is_other(&job.id, it))
}

/// Does what is due about a result.
async fn act(
    client: &Client,
    wallet: &Wallet,
    (lease, due): (LeaseId, DueStep),
    (done, own): (&mut WatchedResult, &OwnRun),
) -> Result<(), JobError> {
    match due {
        DueStep::Challenge => {
            let challenge = Transaction::ChallengeResult { lease };
            submit(client, wallet, &challenge, "challenge the result").await?;
            done.challenges += 1;
            done.placed = Some(Instant::now());
        }
        DueStep::Claim => {
            claim(client, wallet, lease, own.claim.clone()).await?;
            done.is_claimed = true;
        }
        DueStep::Nothing => {}
    }
    Ok(())
}

/// How many results were challenged in all.
fn ended(
    job: &JobDto,
    own: &OwnRun,
    watched: &BTreeMap<LeaseId, WatchedResult>,
    failed: Option<JobError>,
) -> Result<usize, JobError> {
    let challenged = watched.values().filter(|it| it.challenges > 0).count();
    let last = job.leases.last();
    let is_other = last.is_some_and(|it| own.is_other(&job.id, it));
    match failed.filter(|_| challenged == 0 && is_other) {
        Some(error) => Err(error),
        None => Ok(challenged),
    }
}

#[cfg(test)]
mod tests {
    use tg_types::{ModelId, ProgramId};

    use super::*;

    /// Stops: a right answer whose bill is too high, or whose trace is another, is taken for the own one.
    #[test]
    fn a_receipt_is_the_own_one_by_answer_bill_and_trace() {
        let own = OwnRun {
            output: Digest::new([1; 32]),
            trace: Digest::new([2; 32]),
            work: 700,
            claim: Vec::new(),
        };
        let (job, lease) = (JobId::new([3; 32]), LeaseId::new([4; 32]));
        let receipt = |output: Digest, trace: Digest, work: u64, lease: LeaseId| ReceiptDto {
            program: ProgramId::new([5; 32]),
            model: ModelId::new([6; 32]),
            input: Digest::new([7; 32]),
            output,
            trace: stated_trace(TraceForm::Run, (&job, &lease), trace, work),
            tier: "WASM-1".to_owned(),
        };
        let said = |receipt: ReceiptDto| own.is_said_by(&receipt, (&job, &lease));
        let other = Digest::new([8; 32]);
        assert!(said(receipt(own.output, own.trace, own.work, lease)));
        assert!(!said(receipt(other, own.trace, own.work, lease)));
        assert!(!said(receipt(own.output, other, own.work, lease)));
        assert!(!said(receipt(own.output, own.trace, 701, lease)));
        // What another lease stated says nothing of this one's run.
        let elsewhere = LeaseId::new([9; 32]);
        assert!(!said(receipt(own.output, own.trace, own.work, elsewhere)));
    }
}

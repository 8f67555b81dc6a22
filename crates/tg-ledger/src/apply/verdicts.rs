//! Effects of verdicts: a verdict decides about a model or settles a lease.

use tg_types::limits::{EVIDENCE_BYTES_MAX, INPUT_BYTES_MAX};
use tg_types::{Amount, Digest, Height, Label, LeaseId, ModelId, Tier, VerificationMode, Vote};

use super::Execution;
use super::replicas::ReplicaRun;
use crate::error::{InvariantError, VerdictError};
use crate::event::Event;
use crate::record::{
    DisputeStep, LeaseEnd, LeasePhase, LeaseProgress, Model, ModelFacts, ModelState, Record,
    RefusedBecause, ReplicaStage, SyncStage,
};
use crate::verdict::{DisputeFiles, Outcome, Subject, Verdict, revealed_name, seed_subject};

/// The least that a run of a program is paid, as a part of the price: one over this.
const LEAST_PART: u64 = 4;

/// The code of a card that another account than its provider registered; the checks of validators have those below.
const CODE_ANOTHERS_CARD: u16 = 96;

impl Execution {
    /// Whether a verdict fits the state.
    pub(super) fn check_verdict(&self, verdict: &Verdict) -> Result<(), VerdictError> {
        let Verdict {
            subject,
            evidence,
            outcome,
        } = verdict;
        let subject = *subject;
        let expected = match &subject {
            Subject::Model(id) => self.pending_model(id, subject)?,
            Subject::Lease(id) => self.pending_lease(id, subject)?,
            Subject::SeedKey(round) => self.pending_key(*round, subject)?,
            Subject::Seed(height) => self.pending_seed(*height, subject)?,
            Subject::Accusation(id, vote) => self.pending_accusation(id, *vote, subject)?,
            Subject::Grant(id) => self.pending_grant(id, subject)?,
        };
        if *evidence != expected {
            return Err(VerdictError::WrongEvidence {
                subject,
                expected,
                got: *evidence,
            });
        }
        match (subject, outcome) {
            (Subject::Model(_), Outcome::ModelAccepted(facts)) => check_facts(subject, facts),
            (Subject::Lease(id), Outcome::ReplicasRun { .. }) if self.replicas_differ(&id) => {
                Ok(())
            }
            (Subject::Lease(id), Outcome::LeaseAccepted | Outcome::ProgramAccepted { .. })
                if self.replicas_differ(&id) =>
            {
                Err(VerdictError::WrongOutcome { subject })
            }
            // Of a run every validator repeats all of it, and says what it came to.
            (
                Subject::Accusation(id, Vote::WrongRun),
                Outcome::LeaseAccepted | Outcome::ProgramAccepted { .. },
            ) if !self.is_tile_disputed(&id) => self.check_accepted(&id, outcome),
            (Subject::Accusation(id, Vote::WrongRun), Outcome::Refuted)
                if !self.is_tile_disputed(&id) =>
            {
                Err(VerdictError::WrongOutcome { subject })
            }
            (Subject::SeedKey(_), Outcome::SeedKey(_) | Outcome::Rejected { .. })
            | (Subject::Seed(_), Outcome::Seed(_))
            | (
                Subject::Accusation(..) | Subject::Grant(_),
                Outcome::Refuted | Outcome::Rejected { .. },
            )
            | (Subject::Model(_) | Subject::Lease(_), Outcome::Rejected { .. }) => Ok(()),
            (Subject::Lease(id), Outcome::LeaseAccepted | Outcome::ProgramAccepted { .. }) => {
                self.check_accepted(&id, outcome)
            }
            _ => Err(VerdictError::WrongOutcome { subject }),
        }
    }

    /// Whether an acceptance is the one of its job's mode, with a bill within the order.
    fn check_accepted(&self, id: &LeaseId, outcome: &Outcome) -> Result<(), VerdictError> {
        let subject = Subject::Lease(*id);
        let lease = self.state.lease(id);
        let job = lease.and_then(|lease| self.state.job(&lease.job));
        let job = job.ok_or(VerdictError::UnknownSubject { subject })?;
        let tier = match self.state.model(&job.order.model).map(|it| &it.state) {
            Some(ModelState::Active(facts)) => facts.tier,
            _ => return Err(VerdictError::UnknownSubject { subject }),
        };
        let mode = job.order.mode;
        let is_run = mode == VerificationMode::Recompute || self.state.is_repeated(&job.order);
        let fits = match (tier, outcome) {
            (Tier::Tgf1 | Tier::Wasm1, Outcome::ProgramAccepted { macs }) if is_run => {
                *macs <= job.macs
            }
            // Whatever its tier: what it took is not said.
            (_, Outcome::LeaseAccepted) if mode == VerificationMode::Sealed => true,
            (Tier::Tgx1, Outcome::LeaseAccepted) if is_run => true,
            (_, Outcome::LeaseAccepted) => matches!(
                mode,
                VerificationMode::None | VerificationMode::Proof | VerificationMode::Replicate
            ),
            _ => false,
        };
        match fits {
            true => Ok(()),
            false => Err(VerdictError::WrongOutcome { subject }),
        }
    }

    fn pending_model(&self, id: &ModelId, subject: Subject) -> Result<Digest, VerdictError> {
        let unknown = VerdictError::UnknownSubject { subject };
        let model = self.state.model(id).ok_or(unknown)?;
        match model.state {
            ModelState::Pending => Ok(model.public_blob),
            ModelState::Active(_) | ModelState::Refused(_) => {
                Err(VerdictError::NotPending { subject })
            }
        }
    }

    fn pending_lease(&self, id: &LeaseId, subject: Subject) -> Result<Digest, VerdictError> {
        let unknown = VerdictError::UnknownSubject { subject };
        let lease = self.state.lease(id).ok_or(unknown)?;
        let job = self.state.job(&lease.job).ok_or(unknown)?;
        match (&lease.phase, job.live_lease() == Some(lease.id)) {
            (LeasePhase::Live(LeaseProgress::Verifying { evidence, .. }), true)
                if lease.check.is_none() =>
            {
                Ok(evidence.digest)
            }
            (LeasePhase::Live(_), true) if lease.replicas == Some(ReplicaStage::Differ) => {
                Ok(self.state.replica_claims(lease))
            }
            _ => Err(VerdictError::NotPending { subject }),
        }
    }

    /// Whether the members of a job that this lease leads found different things.
    fn replicas_differ(&self, id: &LeaseId) -> bool {
        let lease = self.state.lease(id);
        lease.is_some_and(|it| it.replicas == Some(ReplicaStage::Differ))
    }

    /// Whether the job that this lease leads is of mode `replicate`.
    fn is_replicated(&self, id: &LeaseId) -> bool {
        let job = self.state.lease(id).and_then(|it| self.state.job(&it.job));
        job.is_some_and(|it| it.order.mode == VerificationMode::Replicate)
    }

    fn pending_key(&self, round: u64, subject: Subject) -> Result<Digest, VerdictError> {
        match self.state.closed_dealings() {
            Some((seeds, digest)) if seeds.round == round => Ok(digest),
            _ => Err(VerdictError::NotPending { subject }),
        }
    }

    fn pending_seed(&self, height: Height, subject: Subject) -> Result<Digest, VerdictError> {
        match self.state.seeds_wanted().contains(&height) {
            true => Ok(seed_subject(self.state.seeds.round, height)),
            false => Err(VerdictError::NotPending { subject }),
        }
    }

    fn pending_accusation(
        &self,
        id: &LeaseId,
        said: Vote,
        subject: Subject,
    ) -> Result<Digest, VerdictError> {
        let lease = self.state.lease(id).filter(|it| it.end().is_none());
        let lease = lease.ok_or(VerdictError::UnknownSubject { subject })?;
        match lease.check.as_ref().map(|it| &it.stage) {
            Some(SyncStage::Disputed { vote, by_tile, .. }) if *vote == said => {
                let evidence = match by_tile {
                    None if lease.revealed().is_some() => revealed_name(lease),
                    None => lease.evidence().map(|it| it.digest),
                    Some(dispute) => match dispute.step {
                        DisputeStep::Judged { claim, answer } => {
                            Some(DisputeFiles { claim, answer }.name())
                        }
                        _ => None,
                    },
                };
                evidence.ok_or(VerdictError::NotPending { subject })
            }
            _ => Err(VerdictError::NotPending { subject }),
        }
    }

    /// The key of a sealed job that was shown before anything was started.
    fn pending_grant(&self, id: &LeaseId, subject: Subject) -> Result<Digest, VerdictError> {
        let lease = self.state.lease(id).filter(|it| it.end().is_none());
        let lease = lease.ok_or(VerdictError::UnknownSubject { subject })?;
        let name = revealed_name(lease).filter(|_| lease.started_at().is_none());
        name.ok_or(VerdictError::NotPending { subject })
    }

    /// Whether the result of a lease is disputed, and one tile decides it.
    fn is_tile_disputed(&self, id: &LeaseId) -> bool {
        let check = self.state.lease(id).and_then(|it| it.check.as_ref());
        check.is_some_and(|it| it.stage.tile_dispute().is_some())
    }

    /// Executes a verdict that fits.
    pub(super) fn execute_verdict(&mut self, verdict: &Verdict) -> Result<(), InvariantError> {
        match (&verdict.subject, &verdict.outcome) {
            (Subject::Model(id), Outcome::ModelAccepted(facts)) => {
                let state = match self.is_anothers_card(id, facts) {
                    false => ModelState::Active(*facts),
                    true => ModelState::Refused(RefusedBecause::Check {
                        code: CODE_ANOTHERS_CARD,
                        check: Label::lossy("another account registered the card of a provider"),
                    }),
                };
                self.decide_model(id, state)
            }
            (Subject::Model(id), Outcome::Rejected { code, check }) => {
                let because = RefusedBecause::Check {
                    code: *code,
                    check: check.clone(),
                };
                self.decide_model(id, ModelState::Refused(because))
            }
            (Subject::Lease(id), Outcome::ReplicasRun { output, trace }) => {
                let (output, trace) = (*output, *trace);
                self.settle_replicas(id, ReplicaRun { output, trace })
            }
            (Subject::Lease(id), Outcome::Rejected { .. }) if self.replicas_differ(id) => {
                self.release_replicas(id)
            }
            (Subject::Lease(id), Outcome::LeaseAccepted) if self.is_replicated(id) => {
                self.accept_replicas(id)
            }
            (Subject::Lease(id), Outcome::LeaseAccepted) => {
                let lease = self.lease(id)?;
                let job = self.job(&lease.job)?;
                self.accept(job, lease)
            }
            (Subject::Lease(id), Outcome::ProgramAccepted { macs }) => {
                let mut lease = self.lease(id)?;
                let job = self.job(&lease.job)?;
                lease.price = billed(lease.price, *macs, job.macs);
                self.accept(job, lease)
            }
            (
                Subject::Lease(id) | Subject::Accusation(id, _),
                Outcome::Rejected { code, check },
            ) => {
                let lease = self.lease(id)?;
                let lease = self.convict(lease)?;
                let job = self.job(&lease.job)?;
                let end = LeaseEnd::Rejected {
                    code: *code,
                    check: check.clone(),
                };
                self.fail(job, &lease, &end)
            }
            (Subject::SeedKey(_), Outcome::SeedKey(key)) => {
                self.decide_key(Some(*key));
                Ok(())
            }
            (Subject::SeedKey(_), Outcome::Rejected { .. }) => {
                self.decide_key(None);
                Ok(())
            }
            (Subject::Seed(height), Outcome::Seed(signature)) => self.take_seed(*height, signature),
            (Subject::Grant(id), Outcome::Refuted) => self.judge_grant(id, true),
            (Subject::Grant(id), Outcome::Rejected { .. }) => self.judge_grant(id, false),
            (Subject::Accusation(id, _), Outcome::Refuted) => self.refute(id),
            (Subject::Accusation(id, _), Outcome::LeaseAccepted) => self.uphold(id, None),
            (Subject::Accusation(id, _), Outcome::ProgramAccepted { macs }) => {
                self.uphold(id, Some(*macs))
            }
            // The check before this refused all others.
            _ => Ok(()),
        }
    }

    /// Stops: the card of a served model that another account than its provider registers, so that leases come to whoever serves no such
    /// model.
    fn is_anothers_card(&self, id: &ModelId, facts: &ModelFacts) -> bool {
        let owner = self.state.model(id).map(|model| model.owner);
        facts.served_by().is_some_and(|it| Some(it) != owner)
    }

    fn decide_model(&mut self, id: &ModelId, state: ModelState) -> Result<(), InvariantError> {
        let missing = InvariantError::Missing { table: Model::NAME };
        let mut model = self.state.model(id).ok_or(missing)?.clone();
        model.state = state.clone();
        if let ModelState::Refused(_) = state {
            self.settle_refused(&mut model)?;
        }
        self.state.put_model(model);
        self.events.push(Event::ModelChanged { model: *id, state });
        Ok(())
    }
}

/// What a run of a program is paid: the part of the price that it took of what it might, at least a quarter, since pulling,
/// making ready and keeping the machine free for the whole of it cost as much for a short run.
pub(super) fn billed(price: Amount, used: u64, most: u64) -> Amount {
    let parts = used.max(most.div_ceil(LEAST_PART));
    price
        .checked_mul_div_ceil(parts, most)
        .map_or(price, |bill| bill.min(price))
}

/// A model whose input or output no proof could carry, or whose proof no evidence could, must not become active.
fn check_facts(subject: Subject, facts: &ModelFacts) -> Result<(), VerdictError> {
    let ModelFacts {
        program: _,
        tier: _,
        macs: _,
        input_len,
        output_len,
        provable: _,
        proof_bytes,
        work: _,
        memory: _,
        trace_bytes: _,
        read_bytes: _,
        looks: _,
    } = facts;
    if *proof_bytes > EVIDENCE_BYTES_MAX {
        return Err(VerdictError::FactsOutOfBounds {
            subject,
            field: "proof_bytes",
            value: u64::from(*proof_bytes),
        });
    }
    for (field, length) in [("input_len", *input_len), ("output_len", *output_len)] {
        if length == 0 || length > INPUT_BYTES_MAX {
            return Err(VerdictError::FactsOutOfBounds {
                subject,
                field,
                value: u64::from(length),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::billed;
    use tg_types::Amount;

    #[test]
    fn a_program_pays_for_what_it_burned_and_at_least_a_quarter() {
        for (price, used, most, expected) in [
            (1_000, 1_000, 1_000, 1_000),
            (1_000, 999, 1_000, 999),
            (1_000, 250, 1_000, 250),
            (1_000, 249, 1_000, 250),
            (1_000, 0, 1_000, 250),
            // Rounded up, and never above the price.
            (10, 1, 3, 4),
            (0, 1, 3, 0),
            (7, 0, 1, 7),
            // A run of nothing, which no program is, has the price of the offer.
            (7, 0, 0, 7),
            (7, 9, 3, 7),
        ] {
            let bill = billed(Amount::new(price), used, most);
            assert_eq!(bill, Amount::new(expected), "{price} {used} of {most}");
        }
    }
}

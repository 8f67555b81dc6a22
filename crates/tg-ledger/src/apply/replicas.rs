//! Jobs of mode `replicate`: several providers run the same program, and their results are compared.
//!
//! ```text
//!  ordered ──► drawn ──────────► sealed ─────────► opened ──► equal ──► delivered ──► paid
//!              (by the seed of    (each member      (each member   │
//!               the order's        seals what        opens its     └──► differ ──► every validator runs it:
//!               block)             it found)         seal)                         who is right is paid
//! ```
//!
//! The members are drawn by the seed of a block at whose end the order waited, among the offers of that moment
//! ([`tg_market::book::draw`]). They seal their receipts, and open them once all are sealed. If all are equal, the lead
//! submits the answer, and once n - f validators hold it all members are paid. If they differ every validator runs the
//! program, which gives them the answer too: members that found it are paid. The collateral of the others is burned, except
//! for the cost of that run, which the validators get. Nobody is slashed by a majority of members.
//!
//! *Who gains by failing on purpose.* A single member that lies, or opens another's answer, is found, because the seals bind
//! before any answer is seen. A member that seals and opens nothing loses all of its collateral, like one that lied: otherwise
//! it would open only what agrees with the others. A member that never seals loses what any late provider loses, out of which
//! the others are paid for their work. One party that controls all members of a job can lie without risk. The chance of that
//! is its share of the collateral to the power of the number of members, under whatever names and with whatever knowledge:
//! nobody knows the seed before the order and the offers are final. Nor does it get a new draw by letting members fail: the
//! seed stays, a failed member is replaced by the next in the order, and the others are drawn again. A requestor can order
//! from its own providers without gain: it pays them what it pays itself.

use tg_market::Quote;
use tg_market::book::Looks;
use tg_market::book::draw::{MemberDraw, drawn};
use tg_types::{
    Digest, Domain, DurationMs, Encode as _, JobId, Label, LeaseId, OfferId, Receipt, TimestampMs,
    VerificationMode, Writer,
};

use super::Execution;
use super::matching::{MatchContext, Outcome};
use crate::error::InvariantError;
use crate::event::Event;
use crate::record::{
    DRAWS_MAX, GangRole, Job, JobState, Lease, LeaseEnd, LeaseProgress, OpenStage, PastDraw,
    ReplicaDraw, ReplicaStage,
};
use crate::state::State;

type Done = Result<(), InvariantError>;

/// How long a drawn job waits for enough offers before those that came are drawn too; twice as long after each such drawing.
const DRAW_AGAIN: DurationMs = DurationMs::from_secs(5);

/// What a member's lease ends with that found something else than every validator.
const CODE_DIFFERS: u16 = 97;

/// The answer, trace and bill that a run of every validator gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReplicaRun {
    /// BLAKE3 of the answer.
    pub(super) output: Digest,
    /// What a right receipt states in the place of the trace.
    pub(super) trace: Digest,
}

impl Execution {
    /// Draws the members of a job, or places them once the seed is known.
    pub(super) fn place_replicas(
        &mut self,
        context: &mut MatchContext,
        mut job: Job,
    ) -> Result<Outcome, InvariantError> {
        let members = usize::from(job.order.needs.gang);
        let Some(draw) = job.draw.clone() else {
            self.draw_first(&mut job);
            self.save_job(job);
            return Ok(Outcome::Waits);
        };
        let Some(seed) = draw.seed else {
            return Ok(Outcome::Waits);
        };
        if !context.budget.admits(members) {
            return Ok(Outcome::Stopped);
        }
        let mut looks = context.budget.next();
        let found = self.drawn_members(context, &job, (&draw, seed), &mut looks);
        context.budget.spend(looks);
        if looks.is_cut_off() {
            return Ok(Outcome::CutOff);
        }
        if let Some(quotes) = found {
            self.lease_gang(context, job, &quotes)?;
            return Ok(Outcome::Settled);
        }
        let wait = DurationMs::new(DRAW_AGAIN.get() << draw.earlier.len());
        if self.now >= draw.since.saturating_add(wait) {
            self.draw_later(&mut job, (draw, seed));
            self.save_job(job);
        }
        Ok(Outcome::Waits)
    }

    /// Draws the members of a job that is not ordered yet by a seed that is none.
    pub(super) fn draw_as_example(&mut self, id: &JobId) -> Done {
        let mut job = self.job(id)?;
        if job.order.mode == VerificationMode::Replicate && job.state() == JobState::Queued {
            job.draw = Some(ReplicaDraw {
                from: self.height,
                since: self.now,
                seed: Some(Digest::default()),
                earlier: Vec::new(),
            });
            self.save_job(job);
        }
        Ok(())
    }

    fn draw_first(&self, job: &mut Job) {
        job.draw = Some(ReplicaDraw {
            from: self.height,
            since: self.now,
            seed: None,
            earlier: Vec::new(),
        });
    }

    /// Draws of the offers that came since a drawing found too few. Those that took part in it keep their places: a drawing that some of its members
    /// made fail must give them no other.
    fn draw_later(&self, job: &mut Job, (before, seed): (ReplicaDraw, Digest)) {
        let mut earlier = before.earlier;
        // The last one is drawn again and again, of the offers that have no place in those before it.
        if earlier.len() + 1 < DRAWS_MAX {
            earlier.push(PastDraw {
                since: before.since,
                seed,
            });
        }
        job.draw = Some(ReplicaDraw {
            from: self.height,
            since: self.now,
            seed: None,
            earlier,
        });
    }

    /// The places of all members, of the offers that stood when nobody knew the seed.
    fn drawn_members(
        &self,
        context: &MatchContext,
        job: &Job,
        (draw, seed): (&ReplicaDraw, Digest),
        looks: &mut Looks,
    ) -> Option<Vec<Quote>> {
        let market = (self.state.stock(), &context.prices);
        let demand = self.state.job_demand(job, market, self.now)?;
        let last = PastDraw {
            since: draw.since,
            seed,
        };
        let drawings = || draw.earlier.iter().copied().chain([last]);
        let takes_part = |offer: &OfferId| {
            let offer = self.state.offer(offer)?;
            // Stops: money that goes to whichever of many names the seed chose, so that each weighs what one puts up.
            let provider = self.state.provider(&offer.provider)?;
            let stands = match provider.short_of < offer.terms.collateral_per_lease {
                true => offer.updated_at.max(provider.short_at),
                false => offer.updated_at,
            };
            drawings().position(|it| stands <= it.since)
        };
        // Of two jobs that are drawn by one seed each has a drawing of its own.
        let own_seed = |it: PastDraw| {
            let name = [it.seed.as_bytes().as_slice(), job.id.as_bytes()].concat();
            Digest::of(Domain::ReplicaDraw, &name)
        };
        let seeds: Vec<Digest> = drawings().map(own_seed).collect();
        let own = MemberDraw {
            seeds: &seeds,
            takes_part: &takes_part,
        };
        let (rates, reserved) = (self.state.rates(), self.state.lease_fees());
        let found = self
            .state
            .book
            .draw(&demand, &rates, (own, reserved), looks);
        if looks.is_cut_off() {
            return None;
        }
        debug_assert_eq!(
            found,
            drawn(&demand, self.views(job.order.needs.class), own, reserved),
            "the book draws as a look at every offer does"
        );
        found
    }

    /// Takes the sealed result of a member; once all members have sealed theirs they open them.
    pub(super) fn seal_result(&mut self, id: &LeaseId, seal: Digest) -> Done {
        let mut lease = self.lease(id)?;
        lease.seal(seal)?;
        let lead = lease.lead().unwrap_or(lease.id);
        self.state.put_lease(lease);
        let mut lead = self.lease(&lead)?;
        if self.state.gang_of(&lead).any(|it| !it.has_result()) {
            return Ok(());
        }
        let mut job = self.job(&lead.job)?;
        self.step(&mut job, OpenStage::Committed(lead.id))?;
        lead.replicas = Some(ReplicaStage::Opening {
            open_by: self.window_from_now(),
        });
        self.save_job(job);
        self.state.put_lease(lead);
        Ok(())
    }

    /// Takes what a member sealed; once all members have opened theirs they are compared.
    pub(super) fn open_result(&mut self, id: &LeaseId, receipt: &Receipt) -> Done {
        let mut lease = self.lease(id)?;
        lease.open(receipt.clone())?;
        let lead = lease.lead().unwrap_or(lease.id);
        self.state.put_lease(lease);
        let mut lead = self.lease(&lead)?;
        let members = self.state.gang_of(&lead);
        let found: Option<Vec<&Receipt>> = members.map(Lease::receipt).collect();
        let Some(found) = found else {
            return Ok(());
        };
        if found.windows(2).all(|pair| pair[0] == pair[1]) {
            lead.replicas = Some(ReplicaStage::Agreed {
                deliver_by: self.window_from_now().max(lead.deadline),
            });
            self.state.put_lease(lead);
            return Ok(());
        }
        lead.replicas = Some(ReplicaStage::Differ);
        let mut job = self.job(&lead.job)?;
        self.step(&mut job, OpenStage::Disputed(lead.id))?;
        // The work is done: what was granted is free for others while validators run it again.
        self.state.release(&lead);
        self.events.push(Event::ReplicasDiffer {
            lease: lead.id,
            job: job.id,
        });
        self.save_job(job);
        self.state.put_lease(lead);
        Ok(())
    }

    /// Until when a step may be taken that nothing but a block keeps anybody from.
    fn window_from_now(&self) -> TimestampMs {
        let validators = self.state.validators.len();
        let least = self.state.parameters.least_window(validators);
        let wait = self.state.parameters.verification_timeout;
        self.now.saturating_add(least.max(wait))
    }

    /// Accepts the answer that all members found and n - f validators hold, for what its run took.
    pub(super) fn accept_replicas(&mut self, id: &LeaseId) -> Done {
        self.bill_members(id)?;
        let lead = self.lease(id)?;
        let job = self.job(&lead.job)?;
        self.accept(job, lead)
    }

    /// Lowers the prices of members to what their runs took.
    fn bill_members(&mut self, lead: &LeaseId) -> Done {
        let lead = self.lease(lead)?;
        let job = self.job(&lead.job)?;
        let leases: Vec<Lease> = self.state.gang_of(&lead).cloned().collect();
        for mut lease in leases.into_iter().filter(|it| it.end().is_none()) {
            self.bill_as_stated(&mut lease, &job);
            self.state.put_lease(lease);
        }
        Ok(())
    }

    /// Settles a job whose members differ by what every validator found: those that found the same are paid.
    pub(super) fn settle_replicas(&mut self, id: &LeaseId, run: ReplicaRun) -> Done {
        let lead = self.lease(id)?;
        let mut job = self.job(&lead.job)?;
        let leases: Vec<Lease> = self.state.gang_of(&lead).cloned().collect();
        let members: Vec<LeaseId> = leases.iter().map(|it| it.id).collect();
        let (right, wrong): (Vec<Lease>, Vec<Lease>) =
            leases.into_iter().partition(|it| run.is_found_by(it));
        let wrong = self.charge_for_run(wrong)?;
        let end = LeaseEnd::Rejected {
            code: CODE_DIFFERS,
            check: Label::lossy("another result than every validator found"),
        };
        if right.is_empty() {
            let guilty: Vec<LeaseId> = wrong.iter().map(|it| it.id).collect();
            let lead = self.lease(id)?;
            return self.fail_gang(job, &lead, &guilty, &end);
        }
        let leads = right[0].id;
        for lease in wrong.iter().chain(&right) {
            self.set_lead(lease.id, (leads, &members))?;
        }
        for lease in wrong {
            let lease = self.lease(&lease.id)?;
            self.punish(&mut job, lease, end.clone())?;
        }
        self.save_job(job);
        self.bill_members(&leads)?;
        let lead = self.lease(&leads)?;
        let job = self.job(&lead.job)?;
        self.accept(job, lead)
    }

    /// Lets another member lead, if this is about it: the lease whose receipt is the job's.
    fn set_lead(&mut self, id: LeaseId, (leads, members): (LeaseId, &[LeaseId])) -> Done {
        let mut lease = self.lease(&id)?;
        lease.role = match id == leads {
            true => GangRole::Leads {
                members: members.iter().copied().filter(|it| *it != leads).collect(),
            },
            false => GangRole::Follows { lead: leads },
        };
        self.state.put_lease(lease);
        Ok(())
    }

    /// Takes the fee for the run of every validator out of what those lose that made it necessary, in equal parts.
    fn charge_for_run(&mut self, wrong: Vec<Lease>) -> Result<Vec<Lease>, InvariantError> {
        let parts = u64::try_from(wrong.len().max(1)).unwrap_or(1);
        let fee = self.state.parameters.challenge_fee();
        let part = fee.checked_mul_div_ceil(1, parts).unwrap_or(fee);
        let mut charged = Vec::with_capacity(wrong.len());
        for mut lease in wrong {
            let taken = part.min(lease.locked());
            lease.collateral = lease.collateral.saturating_sub(taken);
            self.fees = self.fees.saturating_add(taken);
            self.events.push(Event::RunCharged {
                lease: lease.id,
                provider: lease.provider,
                amount: taken,
            });
            self.state.put_lease(lease.clone());
            charged.push(lease);
        }
        Ok(charged)
    }

    /// Nobody can run the program: nobody is paid, and nobody loses anything.
    pub(super) fn release_replicas(&mut self, id: &LeaseId) -> Done {
        let lead = self.lease(id)?;
        let job = self.job(&lead.job)?;
        self.fail_gang(job, &lead, &[], &LeaseEnd::Released)
    }
}

impl ReplicaRun {
    fn is_found_by(&self, lease: &Lease) -> bool {
        let Self { output, trace } = self;
        let found = lease.receipt();
        found.is_some_and(|it| it.output == *output && it.trace == *trace)
    }
}

impl State {
    /// What names the results of members that differ, in the place of evidence.
    pub(crate) fn replica_claims(&self, lead: &Lease) -> Digest {
        let mut writer = Writer::new();
        for lease in self.gang_of(lead) {
            lease.id.encode(&mut writer);
            if let Some(receipt) = lease.receipt() {
                receipt.encode(&mut writer);
            }
        }
        Digest::of(Domain::ReplicaClaims, &writer.into_bytes())
    }

    /// Members that keep a job of mode `replicate` from its next step, of all in `gang`.
    pub(crate) fn absent_replicas(&self, lead: &Lease, state: JobState) -> Vec<LeaseId> {
        let is_absent = |lease: &&Lease| match (state, lead.replicas) {
            (JobState::Running, _) => !lease.has_result(),
            (JobState::Committed, Some(ReplicaStage::Opening { .. })) => {
                matches!(lease.progress(), LeaseProgress::Sealed { .. })
            }
            _ => false,
        };
        let absent = self.gang_of(lead).filter(is_absent);
        absent.map(|it| it.id).collect()
    }
}

//! Requestors and bidders. Honest ones order what they want, rate it, and now and then change their mind.

use std::collections::BTreeSet;

use tg_lab::synthetic::Draws;
use tg_ledger::{Job, JobState, State, SyncStage};
use tg_types::sealing::SEALED_INPUT_OVERHEAD;
use tg_types::transaction::bid_commitment;
use tg_types::{
    Address, BidId, CapacityTier, Digest, DurationMs, GpuModelSet, JobClass, JobId, JobNeeds,
    JobOrder, ModelId, Transaction, VerificationMode, Voucher, Wallet, bid_id, job_id,
};

use crate::files::{Files, HONEST, HOSTILE, INPUT_LEN, Proof, REPEATED_MACS, claim, evidence_of};
use crate::keys::{self, Awaited};
use crate::net::{Moment, Side, digest, milli};
use crate::outbox::Outbox;

/// What a requestor means to do with a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plan {
    /// Wait for the result, and rate it.
    Wait,
    /// Take it back some time, whatever it is doing: people change their mind, and pay for it.
    ChangeMind,
    /// Take it back as soon as it is leased, or as soon as somebody works on it.
    CancelLeased,
    CancelRunning,
    /// Let somebody make room for it, and take it back before it is there.
    CancelQueued,
    /// Pay more for it again and again.
    Raise,
}

/// A job of a requestor.
#[derive(Debug)]
struct Mine {
    job: JobId,
    plan: Plan,
}

/// A sealed bid, and what it hides.
#[derive(Debug)]
struct Sealed {
    bid: BidId,
    salt: Digest,
    order: JobOrder,
    /// Whether it is opened as it must be.
    is_kept: bool,
}

/// A requestor.
#[derive(Debug)]
pub(crate) struct Requestor {
    pub(crate) wallet: Wallet,
    pub(crate) side: Side,
    mine: Vec<Mine>,
    bids: Vec<Sealed>,
    /// Jobs that an honest one took back itself.
    pub(crate) taken_back: BTreeSet<JobId>,
}

/// A share of a GPU for so many seconds of a T4.
fn gpu(moment: &Moment, share: u16, seconds: u64) -> JobNeeds {
    JobNeeds {
        gpus: 1,
        gpu_milli: share,
        models: GpuModelSet::ANY,
        reference: moment.season.secs(seconds),
        ..JobNeeds::ANY_MACHINE
    }
}

/// What an order needs, drawn from all lanes and tiers.
fn needs(moment: &Moment, draws: &mut Draws) -> JobNeeds {
    match draws.below(20) {
        0..10 => JobNeeds::ANY_MACHINE,
        10..14 => JobNeeds {
            tier: CapacityTier::Spot,
            preemptible: true,
            ..gpu(moment, 1_000, 100 + draws.below(300))
        },
        14 => JobNeeds {
            priority: 4,
            ..gpu(moment, 1_000, 10 + draws.below(20))
        },
        15 => gpu(moment, 250, 10 + draws.below(50)),
        16 | 17 => JobNeeds {
            gang: 2 + draws.below(2) as u16,
            neighbourhood_us: 10_000,
            ..JobNeeds::ANY_MACHINE
        },
        18 => JobNeeds {
            gang: 2,
            neighbourhood_us: 10_000,
            ..gpu(moment, 250, 20)
        },
        _ => JobNeeds {
            guaranteed: true,
            tier: CapacityTier::Reserved,
            ..gpu(moment, 500, 20 + draws.below(100))
        },
    }
}

/// An order whose deadline leaves time for several attempts.
fn order(moment: &Moment, model: ModelId, needs: JobNeeds, draws: &mut Draws) -> JobOrder {
    let patience = moment.season.secs(90 + draws.below(400));
    let input = digest(draws);
    // Not drawn: of one of four the answer is kept.
    let retention = match input.as_bytes()[3] % 4 {
        0 => moment.season.secs(1_200),
        _ => DurationMs::ZERO,
    };
    JobOrder {
        model,
        input,
        input_len: INPUT_LEN,
        mode: VerificationMode::Proof,
        max_price: milli(4_000),
        deadline: moment.now.saturating_add(patience),
        max_attempts: 1 + draws.below(4) as u8,
        retention,
        needs,
    }
}

impl Requestor {
    pub(crate) fn new(name: &str, side: Side) -> Self {
        Self {
            wallet: Wallet::from_seed(name.as_bytes()),
            side,
            mine: Vec::new(),
            bids: Vec::new(),
            taken_back: BTreeSet::new(),
        }
    }

    pub(crate) fn act(
        &mut self,
        moment: &Moment,
        (models, traps): (&[ModelId], &[ModelId]),
        files: &mut Files,
        draws: &mut Draws,
        out: &mut Outbox<'_>,
    ) {
        self.tend_jobs(moment, files, draws, out);
        self.open_bids(moment, files, draws, out);
        if models.is_empty() {
            return;
        }
        let model = *draws.pick(models);
        match self.side {
            Side::Honest => match draws.below(400) {
                0..12 => {
                    let needs = needs(moment, draws);
                    let plan = match draws.below(40) {
                        0 => Plan::ChangeMind,
                        1 => Plan::Raise,
                        _ => Plan::Wait,
                    };
                    let order = order(moment, model, needs, draws);
                    self.submit(order, HONEST, plan, files, out);
                }
                12 => self.bid(moment, model, true, draws, out),
                _ => {}
            },
            Side::Hostile if moment.is_hostile => {
                self.harm(moment, (model, traps), files, draws, out);
            }
            Side::Hostile => {}
        }
    }

    fn submit(
        &mut self,
        mut order: JobOrder,
        holders: u8,
        plan: Plan,
        files: &mut Files,
        out: &mut Outbox<'_>,
    ) {
        if order.needs == JobNeeds::ANY_MACHINE
            && order.mode == VerificationMode::Proof
            && order.input.as_bytes()[1] < 32
        {
            order.mode = VerificationMode::Endpoint;
            order.input = Digest::default();
            order.input_len = 0;
            order.retention = DurationMs::ZERO;
        }
        let facts = files.models.get(&order.model).and_then(|it| it.facts);
        // Of one machine, or its price would be above a twentieth of what providers put up.
        let is_sampled = facts.is_some_and(|it| it.is_sampled());
        if order.needs == JobNeeds::ANY_MACHINE
            && order.mode == VerificationMode::Proof
            && is_sampled
        {
            let is_repeated = facts.is_some_and(|it| it.is_recomputable(REPEATED_MACS));
            order.mode = match order.input.as_bytes()[0] % 4 {
                _ if is_repeated && order.input.as_bytes()[4] < 64 => VerificationMode::Sealed,
                0 => VerificationMode::Optimistic,
                1 if !is_repeated => VerificationMode::Optimistic,
                1 => VerificationMode::Replicate,
                _ => VerificationMode::Sync,
            };
            if order.mode == VerificationMode::Sealed {
                order.input_len = INPUT_LEN + SEALED_INPUT_OVERHEAD;
            }
            if order.mode == VerificationMode::Replicate {
                order.needs.gang = 2 + u16::from(order.input.as_bytes()[2] % 2);
                let members = u64::from(order.needs.gang);
                order.max_price = order.max_price.saturating_mul(members);
            }
        }
        files.inputs.insert(order.input, holders);
        let sent = out.send_named(&self.wallet, Transaction::SubmitJob { order });
        let job = job_id(sent);
        self.mine.push(Mine { job, plan });
    }

    /// One of the ways in which an order does harm.
    fn harm(
        &mut self,
        moment: &Moment,
        (model, traps): (ModelId, &[ModelId]),
        files: &mut Files,
        draws: &mut Draws,
        out: &mut Outbox<'_>,
    ) {
        let needs = needs(moment, draws);
        let mut order = order(moment, model, needs, draws);
        match draws.below(200) {
            // Inputs that nobody has, that f have, or that f say they have.
            0 | 1 => {
                let holders = *draws.pick(&[0, 0b0001, HOSTILE, HOSTILE | 0b0001]);
                self.submit(order, holders, Plan::Wait, files, out);
            }
            2 => self.submit(order, HONEST, Plan::CancelLeased, files, out),
            3 => self.submit(order, HONEST, Plan::CancelRunning, files, out),
            4 | 5 => {
                let needs = gpu(moment, 1_000, 10);
                order.needs = JobNeeds {
                    priority: 8,
                    ..needs
                };
                self.submit(order, HONEST, Plan::CancelQueued, files, out);
            }
            6 => self.submit(order, HONEST, Plan::Raise, files, out),
            // Too near for anybody.
            7..9 => {
                let near = moment.season.ms(1 + draws.below(1_500));
                order.deadline = moment.now.saturating_add(tg_types::DurationMs::new(near));
                self.submit(order, HONEST, Plan::Wait, files, out);
            }
            // Models that nobody can serve.
            9..12 if !traps.is_empty() => {
                order.model = *draws.pick(traps);
                order.needs = JobNeeds::ANY_MACHINE;
                self.submit(order, HONEST, Plan::Wait, files, out);
            }
            // From oneself, it hopes: unchecked, and at the least price.
            12 => {
                order.mode = VerificationMode::None;
                order.max_price = milli(20);
                order.needs = JobNeeds::ANY_MACHINE;
                self.submit(order, HONEST, Plan::Wait, files, out);
            }
            // Gangs and reservations that nothing fits.
            13 => {
                order.needs = JobNeeds {
                    gang: 32,
                    neighbourhood_us: 1,
                    ..JobNeeds::ANY_MACHINE
                };
                self.submit(order, HONEST, Plan::CancelQueued, files, out);
            }
            14 | 15 => self.bid(moment, model, false, draws, out),
            20..23 => self.ask(draws, out),
            16..20 if moment.season.scale > 1 => {
                order.deadline = moment.now.saturating_add(tg_types::DurationMs::new(1));
                self.submit(order, HONEST, Plan::Wait, files, out);
            }
            _ => {}
        }
    }

    /// Asks any validator for any answer that it stated to keep.
    fn ask(&self, draws: &mut Draws, out: &mut Outbox<'_>) {
        let state = out.state;
        let kept = state.retained().iter().flat_map(|file| {
            let seats = (0u8..).zip(state.validators());
            let holders = seats.filter(|(place, _)| file.held.contains(*place));
            holders.map(|(_, it)| (file.job, it.address))
        });
        let kept: Vec<(JobId, Address)> = kept.collect();
        if !kept.is_empty() {
            let (job, seat) = *draws.pick(&kept);
            out.send(&self.wallet, Transaction::AskStored { job, seat });
        }
    }

    fn tend_jobs(
        &mut self,
        moment: &Moment,
        files: &mut Files,
        draws: &mut Draws,
        out: &mut Outbox<'_>,
    ) {
        let state = out.state;
        // What no block took is given up.
        self.mine.retain(|it| state.job(&it.job).is_some());
        let mut left = Vec::new();
        for mine in std::mem::take(&mut self.mine) {
            let Some(job) = state.job(&mine.job) else {
                continue;
            };
            if !job.state().is_final() {
                self.owe(job, files, out.state);
                self.tend_key(job, files, draws, out);
                self.tend(moment, &mine, job, draws, out);
                left.push(mine);
            } else if job.state() == JobState::Paid
                && job.order.mode.is_checked()
                && job.stars().is_none()
                && draws.below(3) > 0
            {
                let stars = match self.side {
                    Side::Honest => 3 + draws.below(3) as u8,
                    Side::Hostile => 1,
                };
                let job = mine.job;
                out.send(&self.wallet, Transaction::RateJob { job, stars });
            }
        }
        self.mine = left;
    }

    fn tend(
        &mut self,
        moment: &Moment,
        mine: &Mine,
        job: &Job,
        draws: &mut Draws,
        out: &mut Outbox<'_>,
    ) {
        let waits = matches!(job.state(), JobState::Submitted | JobState::Queued);
        let takes_back = match mine.plan {
            // In quiet times nothing of the hostile ones is left in the queue.
            _ if self.side == Side::Hostile && !moment.is_hostile => waits,
            Plan::ChangeMind => draws.below(30) == 0,
            Plan::CancelLeased => job.state() == JobState::Leased,
            Plan::CancelRunning => job.state() == JobState::Running && draws.below(4) == 0,
            Plan::CancelQueued => job.state() == JobState::Queued,
            Plan::Wait | Plan::Raise => false,
        };
        let may_take_back = matches!(
            job.state(),
            JobState::Submitted | JobState::Queued | JobState::Leased | JobState::Running
        );
        if takes_back && may_take_back {
            self.taken_back.insert(job.id);
            out.send(&self.wallet, Transaction::CancelJob { job: job.id });
        } else if mine.plan == Plan::Raise && draws.below(20) == 0 {
            let raise = Transaction::RaiseJob {
                job: job.id,
                max_price: job.order.max_price.saturating_add(milli(10)),
                max_attempts: job.order.max_attempts.max(2),
            };
            out.send(&self.wallet, raise);
        } else if self.side == Side::Hostile && draws.below(3) == 0 {
            self.challenge(job, out);
        }
        // Who challenges here claims something wrong, or nothing.
        for task in out.state.claim_tasks(&self.wallet.address()) {
            if Some(task.lease) == job.live_lease() && draws.below(3) == 0 {
                out.send(&self.wallet, claim(task.lease, false));
            }
        }
    }

    /// Signs for one more answer of an endpoint.
    fn owe(&self, job: &Job, files: &mut Files, state: &State) {
        let lease = job.live_lease().and_then(|it| state.lease(&it));
        let Some(lease) = lease.filter(|it| it.meter.is_some() && it.started_at().is_some()) else {
            return;
        };
        let last = files.vouchers.get(&lease.id).map(|it| it.voucher);
        let last = last.unwrap_or(Voucher::first(lease.id));
        if let Some(next) = last.after(milli(1)) {
            let signed = next.sign(&self.wallet, state.domain());
            files.vouchers.insert(lease.id, signed);
        }
    }

    /// Does what a sealed job of its own waits for: an honest one grants the key, shows it to a provider that denies it, and doubts what is wrong.
    /// A hostile one grants and shows the key, or something else, or nothing.
    fn tend_key(&self, job: &Job, files: &Files, draws: &mut Draws, out: &mut Outbox<'_>) {
        let Some(lease) = job.live_lease().and_then(|it| out.state.lease(&it)) else {
            return;
        };
        let Some(awaited) = Awaited::of(lease) else {
            return;
        };
        let id = lease.id;
        let is_honest =
            self.side == Side::Honest || !Moment::is_hostile_at(lease.matched_height.get());
        // What becomes of a lease follows from its name.
        let whim = id.as_bytes()[7] % 8;
        let is_wrong = files.evidence.get(&evidence_of(&id)) == Some(&Proof::Wrong);
        let does = match awaited {
            Awaited::Grant => is_honest || whim != 0,
            Awaited::Proof => is_honest || whim < 4,
            Awaited::Look if is_honest => is_wrong,
            Awaited::Look => draws.below(8) == 0,
        };
        if does {
            out.send(
                &self.wallet,
                match awaited {
                    Awaited::Grant => keys::grant(id, is_honest || whim > 2),
                    Awaited::Proof | Awaited::Look => keys::show(id, is_honest || whim != 3),
                },
            );
        }
    }

    /// Doubts a result of its own job, right or wrong.
    fn challenge(&self, job: &Job, out: &mut Outbox<'_>) {
        let lease = job.live_lease().and_then(|it| out.state.lease(&it));
        let stage = lease.and_then(|it| Some((it.id, &it.check.as_ref()?.stage)));
        if let Some((lease, SyncStage::Contestable { .. })) = stage {
            out.send(&self.wallet, Transaction::ChallengeResult { lease });
        }
    }

    fn bid(
        &mut self,
        moment: &Moment,
        model: ModelId,
        is_kept: bool,
        draws: &mut Draws,
        out: &mut Outbox<'_>,
    ) {
        let needs = JobNeeds {
            class: JobClass::Batch,
            ..gpu(moment, 500, 20 + draws.below(60))
        };
        let order = order(moment, model, needs, draws);
        let salt = digest(draws);
        let commitment = bid_commitment(&order, &salt, &self.wallet.address());
        let deposit = milli(50);
        let commit = Transaction::CommitBid {
            commitment,
            deposit,
        };
        let bid = bid_id(out.send_named(&self.wallet, commit));
        self.bids.push(Sealed {
            bid,
            salt,
            order,
            is_kept,
        });
    }

    fn open_bids(
        &mut self,
        moment: &Moment,
        files: &mut Files,
        draws: &mut Draws,
        out: &mut Outbox<'_>,
    ) {
        let state = out.state;
        self.bids.retain(|it| state.bid(&it.bid).is_some());
        let mut opened = Vec::new();
        for sealed in &self.bids {
            let slot = state.bid(&sealed.bid).map_or(0, |it| it.slot);
            let now = state.parameters().slot(moment.now);
            // A hostile one opens too late, or not at all.
            let is_time = match sealed.is_kept {
                true => now == slot + 1,
                false => draws.below(200) == 0,
            };
            if !is_time {
                continue;
            }
            files.inputs.insert(sealed.order.input, HONEST);
            let reveal = Transaction::RevealBid {
                bid: sealed.bid,
                salt: sealed.salt,
                order: sealed.order.clone(),
            };
            opened.push(job_id(out.send_named(&self.wallet, reveal)));
        }
        let plan = Plan::Wait;
        self.mine
            .extend(opened.into_iter().map(|job| Mine { job, plan }));
    }

    /// What is open of it past its deadline, so late that it must have ended.
    pub(crate) fn forget(&mut self, state: &State) {
        self.taken_back.retain(|job| state.job(job).is_some());
    }

    /// What a gift to a friend is.
    pub(crate) fn gift(&self, to: &Wallet, out: &mut Outbox<'_>) {
        let (to, amount) = (to.address(), milli(1));
        out.send(&self.wallet, Transaction::Transfer { to, amount });
    }
}

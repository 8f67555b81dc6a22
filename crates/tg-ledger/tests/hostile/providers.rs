//! Providers: honest ones do what a lease demands as soon as it does; hostile ones fail in every way there is.

use std::collections::BTreeMap;

use tg_lab::synthetic::Draws;
use tg_ledger::{
    DisputeTurn, EndpointMeter, Job, JobState, Lease, LeaseProgress, ReplicaStage, SealingStage,
    State, SyncStage,
};
use tg_types::transaction::result_seal;
use tg_types::{
    Address, Amount, CapacityTier, DeclineReason, Digest, GpuLink, GpuModel, Label, Machine,
    ModeSet, OfferId, OfferTerms, Pricing, Receipt, RunCommitment, SharingMode, SharingSet, Tier,
    TierSet, TraceForm, Transaction, VerificationMode, Wallet,
};

use crate::files::{CHECKSUM, Files, ONE, Proof, answer, answer_of, evidence_of};
use crate::keys;
use crate::net::{Moment, Side, milli};
use crate::outbox::Outbox;
use crate::season::Season;

/// What a provider owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hardware {
    Cpu,
    /// One GPU that can be shared in every way, near the others of its kind.
    Gpu,
}

/// A provider.
#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) wallet: Wallet,
    pub(crate) side: Side,
    name: String,
    /// How often it took a new name.
    generation: u32,
    hardware: Hardware,
    /// What it asks, in thousandths of a TGRID.
    price: u64,
    collateral: u64,
}

/// In which way a hostile provider fails a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mischief {
    None,
    Decline(DeclineReason),
    NeverStart,
    NeverCommit,
    NameNothing,
    DeliverNothing,
    Lie,
    /// It takes its offer back while it works.
    Withdraw,
    /// It shows nothing in a dispute, right or wrong, to the cost of whoever found its result right.
    NeverAnswer,
}

impl Mischief {
    /// What becomes of a lease, by its name: hostile providers serve honestly in quiet times, and in others sometimes.
    fn of(provider: &Provider, lease: &Lease) -> Self {
        if provider.side == Side::Honest || !Moment::is_hostile_at(lease.matched_height.get()) {
            return Self::None;
        }
        match lease.id.as_bytes()[5] % 16 {
            0 => Self::Decline(DeclineReason::Unwilling),
            1 => Self::Decline(DeclineReason::InputMissing),
            2 => Self::Decline(DeclineReason::ModelMissing),
            3 | 4 => Self::NeverStart,
            5 | 6 => Self::NeverCommit,
            7 => Self::NameNothing,
            8 => Self::DeliverNothing,
            9 => Self::Lie,
            10 => Self::Withdraw,
            11 => Self::NeverAnswer,
            12.. if lease.sealing.is_some() => Self::Decline(DeclineReason::Key),
            _ => Self::None,
        }
    }
}

/// Live leases with their jobs.
pub(crate) type Work<'a> = Vec<(&'a Job, &'a Lease)>;

/// Live leases by provider.
pub(crate) fn work_of(state: &State) -> BTreeMap<Address, Work<'_>> {
    let mut work: BTreeMap<Address, Work<'_>> = BTreeMap::new();
    for (job, lease) in state.live_members() {
        work.entry(lease.provider).or_default().push((job, lease));
    }
    work
}

/// Offers by provider.
pub(crate) fn offers_of(state: &State) -> BTreeMap<Address, Vec<OfferId>> {
    let mut offers: BTreeMap<Address, Vec<OfferId>> = BTreeMap::new();
    for offer in state.offers().iter() {
        offers.entry(offer.provider).or_default().push(offer.id);
    }
    offers
}

impl Provider {
    pub(crate) fn new(
        name: &str,
        side: Side,
        hardware: Hardware,
        (price, collateral): (u64, u64),
    ) -> Self {
        Self {
            wallet: Wallet::from_seed(name.as_bytes()),
            side,
            name: name.to_owned(),
            generation: 0,
            hardware,
            price,
            collateral,
        }
    }

    fn terms(&self, season: Season, price: u64) -> OfferTerms {
        let machine = match self.hardware {
            Hardware::Cpu => Machine::CPU_ONLY,
            Hardware::Gpu => Machine {
                gpu_count: 1,
                gpu: GpuModel::A100M80,
                gpu_memory_mib: 81_920,
                capability: 80,
                tensor_cores: true,
                link: GpuLink::Nvlink,
                sharing: SharingSet::of(&[
                    SharingMode::TimeSlice,
                    SharingMode::Mps,
                    SharingMode::Mig,
                ]),
                cpu_milli: 64_000,
                memory_mib: 262_144,
                disk_gib: 1_000,
                region: 0,
                coordinate_us: [i32::from(self.name.len() as u8) * 100, 0],
                tiers: TierSet::of(CapacityTier::ALL),
            },
        };
        OfferTerms {
            hardware: Label::lossy("a machine"),
            price_base: milli(price),
            price_per_mmac: Amount::ZERO,
            latency_base_ms: season.secs(2),
            speed_mmac_per_s: 100_000,
            memory_bytes: 1 << 34,
            slots: 3,
            collateral_per_lease: milli(self.collateral),
            modes: ModeSet::ALL,
            machine,
            price_per_gpu_second: Amount::new(milli(2).get() / u128::from(season.scale)),
            pricing: match price % 3 {
                0 => Pricing::Dynamic,
                _ => Pricing::Fixed,
            },
        }
    }

    pub(crate) fn act(
        &self,
        moment: &Moment,
        (work, offers): (&Work<'_>, &[OfferId]),
        files: &mut Files,
        draws: &mut Draws,
        out: &mut Outbox<'_>,
    ) {
        self.tend_offers(moment, offers, draws, out);
        for (job, lease) in work {
            // Nobody reacts in every block, unless time is short.
            let time = lease.deadline.saturating_since(lease.grant.from);
            let is_short = time < grace(moment.season, lease);
            if draws.below(5) == 0 && !(is_short && self.side == Side::Honest) {
                continue;
            }
            let mischief = Mischief::of(self, lease);
            let waits = matches!(&lease.check, Some(it) if it.stage == SyncStage::AwaitsSeed);
            if waits {
                continue;
            }
            if job.order.mode == VerificationMode::Replicate && job.state() != JobState::Leased {
                self.replicate(moment, (job, lease), mischief, files, out);
            } else if lease.lead().is_none() && job.state() == JobState::Committed {
                self.name_evidence(lease, mischief, files, out);
            } else if job.state() == JobState::Running {
                self.hand_in(moment, (job, lease), mischief, files, out);
            } else if job.state() == JobState::Leased {
                self.begin((job, lease), mischief, files, out);
            } else if job.state() == JobState::Disputed
                && is_asked(lease)
                && mischief != Mischief::NeverAnswer
            {
                out.send(&self.wallet, answer(lease.id));
            }
        }
        if self.side == Side::Hostile && draws.below(400) == 0 && moment.is_hostile {
            // A machine that is gone for a while.
            files.offline.insert(self.wallet.address());
        } else if draws.below(200) == 0 {
            files.offline.remove(&self.wallet.address());
        }
    }

    fn tend_offers(
        &self,
        moment: &Moment,
        offers: &[OfferId],
        draws: &mut Draws,
        out: &mut Outbox<'_>,
    ) {
        let price = self.price + draws.below(10);
        let terms = self.terms(moment.season, price);
        let record = out.state.provider(&self.wallet.address());
        if record.is_none_or(|it| it.sealing.is_none()) {
            if draws.below(8) == 0 {
                out.send(&self.wallet, keys::register());
            }
            return;
        }
        let wanted = match self.hardware {
            Hardware::Cpu => 2,
            Hardware::Gpu => 1,
        };
        if offers.len() < wanted {
            if draws.below(8) == 0 {
                out.send(&self.wallet, Transaction::PostOffer { terms });
            }
            return;
        }
        let offer = *draws.pick(offers);
        let name = Digest::new(*offer.as_bytes());
        match draws.below(900) {
            0 => out.send(&self.wallet, Transaction::UpdateOffer { offer, terms }),
            // Hostile ones let their rent run out.
            1..4 if self.side == Side::Honest => {
                let (record, amount) = (name, milli(20));
                out.send(&self.wallet, Transaction::PayRent { record, amount });
                let record = tg_ledger::rent::name_of_address(&self.wallet.address());
                out.send(&self.wallet, Transaction::PayRent { record, amount });
            }
            4 if self.side == Side::Hostile => {
                out.send(&self.wallet, Transaction::WithdrawOffer { offer });
            }
            _ => {}
        }
    }

    fn begin(
        &self,
        (job, lease): (&Job, &Lease),
        mischief: Mischief,
        files: &Files,
        out: &mut Outbox<'_>,
    ) {
        let (id, now) = (lease.id, out.state.head().time);
        if lease.started_at().is_some() || lease.grant.from > now {
            return;
        }
        let input = files.inputs.get(&job.order.input).copied().unwrap_or(0);
        let model = files.models.get(&job.order.model);
        let model = model.map_or(0, |it| it.holders);
        // Without the key of a sealed job there is nothing to do.
        let key = match lease.sealing.as_ref().map(|it| &it.stage) {
            None => None,
            Some(SealingStage::Granted { grant, .. }) => Some(grant),
            Some(_) => return,
        };
        // It pulls before it starts, from whoever states that it holds it.
        let honest = if !job.is_endpoint() && !Files::is_served(input) {
            Some(DeclineReason::InputMissing)
        } else if !Files::is_served(model) {
            Some(DeclineReason::ModelMissing)
        } else if key.is_some_and(|it| !keys::opens(it)) {
            Some(DeclineReason::Key)
        } else {
            None
        };
        // Where validators will not agree, a hostile one hopes that nobody answers.
        let is_doubtful = mischief != Mischief::None && input == ONE;
        let reason = match mischief {
            _ if is_doubtful => Some(DeclineReason::InputMissing),
            Mischief::NeverStart => return,
            Mischief::Decline(reason) => Some(reason),
            // It has no answer without the key, and hopes that nobody looks.
            _ if mischief != Mischief::None && honest == Some(DeclineReason::Key) => None,
            _ => honest,
        };
        out.send(
            &self.wallet,
            match reason {
                Some(reason) => Transaction::DeclineLease { lease: id, reason },
                None => Transaction::StartLease { lease: id },
            },
        );
        if mischief == Mischief::Withdraw {
            let offer = lease.offer;
            out.send(&self.wallet, Transaction::WithdrawOffer { offer });
        }
    }

    fn hand_in(
        &self,
        moment: &Moment,
        (job, lease): (&Job, &Lease),
        mischief: Mischief,
        files: &mut Files,
        out: &mut Outbox<'_>,
    ) {
        let (state, now) = (out.state, out.state.head().time);
        if let Some(meter) = lease.meter {
            self.claim(lease, meter, files, out);
            return;
        }
        let truth = files.models.get(&job.order.model);
        let can_be_served = truth.is_none_or(|it| it.can_be_served);
        let started = lease.started_at().unwrap_or(now);
        if mischief == Mischief::NeverCommit || !can_be_served || lease.receipt().is_some() {
            return;
        }
        if now.saturating_since(started) < declared(moment.season, lease) {
            return;
        }
        let is_whole = state.is_run_whole(&job.order);
        if is_whole {
            // Nothing is handed in after it: this is what a run again finds.
            let is_lie = mischief == Mischief::Lie;
            let proof = if is_lie { Proof::Wrong } else { Proof::Right };
            files.evidence.insert(evidence_of(&lease.id), proof);
        }
        if matches!(
            job.order.mode,
            VerificationMode::None | VerificationMode::Sealed
        ) {
            // Nobody checks it, or its requestor alone: it is delivered or not.
            let has_input = (lease.granted()).is_none_or(|(grant, _)| keys::opens(grant));
            let proof = match mischief {
                Mischief::DeliverNothing => Proof::Absent,
                Mischief::Lie => Proof::Wrong,
                _ if has_input => Proof::Right,
                _ => Proof::Wrong,
            };
            files.evidence.insert(evidence_of(&lease.id), proof);
        }
        let receipt = Receipt {
            program: tg_types::ProgramId::new(*job.order.model.as_bytes()),
            model: job.order.model,
            input: job.order.input,
            output: evidence_of(&lease.id),
            trace: match TraceForm::of(job.order.mode, is_whole) {
                TraceForm::Run => RunCommitment::of(&lease.id, CHECKSUM, 0).digest(),
                _ => Digest::default(),
            },
            tier: Tier::Tgx1,
        };
        let lease_id = lease.id;
        if lease.lead().is_some() {
            let part = Transaction::CommitPart {
                lease: lease_id,
                receipt,
            };
            out.send(&self.wallet, part);
            return;
        }
        let mut parts = lease.members().iter().filter_map(|it| state.lease(it));
        if parts.all(|it| it.receipt().is_some()) {
            let whole = Transaction::CommitReceipt {
                lease: lease_id,
                receipt,
            };
            out.send(&self.wallet, whole);
        }
    }

    /// Seals what a member of mode `replicate` found, opens it, and names the answer if it leads.
    fn replicate(
        &self,
        moment: &Moment,
        (job, lease): (&Job, &Lease),
        mischief: Mischief,
        files: &mut Files,
        out: &mut Outbox<'_>,
    ) {
        let (state, now) = (out.state, out.state.head().time);
        let id = lease.id;
        let receipt = Receipt {
            program: tg_types::ProgramId::new(*job.order.model.as_bytes()),
            model: job.order.model,
            input: job.order.input,
            output: match mischief {
                Mischief::Lie => evidence_of(&id),
                _ => answer_of(&job.id),
            },
            trace: Digest::default(),
            tier: Tier::Tgx1,
        };
        let salt = Digest::default();
        let lead = lease.lead().and_then(|it| state.lease(&it));
        match (lease.progress(), lead.unwrap_or(lease).replicas) {
            (LeaseProgress::Running { started_at }, _) => {
                let truth = files.models.get(&job.order.model);
                let can_be_served = truth.is_none_or(|it| it.can_be_served);
                let is_done = now.saturating_since(*started_at) >= declared(moment.season, lease);
                if mischief != Mischief::NeverCommit && can_be_served && is_done {
                    let seal = result_seal(&id, &receipt, &salt);
                    out.send(&self.wallet, Transaction::SealResult { lease: id, seal });
                }
            }
            (LeaseProgress::Sealed { .. }, Some(ReplicaStage::Opening { .. }))
                if mischief != Mischief::NameNothing =>
            {
                let opened = Transaction::OpenResult {
                    lease: id,
                    receipt,
                    salt,
                };
                out.send(&self.wallet, opened);
            }
            (LeaseProgress::Committed { receipt, .. }, Some(ReplicaStage::Agreed { .. }))
                if lease.lead().is_none() && mischief != Mischief::NameNothing =>
            {
                let proof = match mischief {
                    Mischief::DeliverNothing => Proof::Absent,
                    _ => Proof::Right,
                };
                files.evidence.insert(receipt.output, proof);
                let named = Transaction::SubmitEvidence {
                    lease: id,
                    evidence: receipt.output,
                    size: 10,
                };
                out.send(&self.wallet, named);
            }
            _ => {}
        }
    }

    /// Claims what an endpoint owes, now and then; some leave before its end.
    fn claim(&self, lease: &Lease, meter: EndpointMeter, files: &Files, out: &mut Outbox<'_>) {
        let height = out.state.head().height.get();
        let leaves = lease.id.as_bytes()[6] < 64 && height.is_multiple_of(128);
        let ends = leaves || meter.ends_at.is_some();
        if !ends && !height.is_multiple_of(16) {
            return;
        }
        let voucher = files.vouchers.get(&lease.id).copied();
        let claim = Transaction::SettleEndpoint {
            lease: lease.id,
            voucher: voucher.filter(|it| it.voucher.answered > meter.answered),
            ends,
        };
        out.send(&self.wallet, claim);
    }

    fn name_evidence(
        &self,
        lease: &Lease,
        mischief: Mischief,
        files: &mut Files,
        out: &mut Outbox<'_>,
    ) {
        let proof = match mischief {
            Mischief::NameNothing => return,
            Mischief::DeliverNothing => Proof::Absent,
            Mischief::Lie => Proof::Wrong,
            _ => Proof::Right,
        };
        let evidence = evidence_of(&lease.id);
        files.evidence.insert(evidence, proof);
        let named = Transaction::SubmitEvidence {
            lease: lease.id,
            evidence,
            size: 40_000,
        };
        out.send(&self.wallet, named);
    }

    /// Whether it would do better under a new name: it gets no leases for long, or its name is bad.
    pub(crate) fn is_spent(&self, state: &State) -> bool {
        let address = self.wallet.address();
        self.side == Side::Hostile
            && state.provider(&address).is_some_and(|it| {
                let record = it.record;
                record.rejected > 0 || record.late + record.abandoned >= 4
            })
            && !state.live_members().any(|(_, it)| it.provider == address)
    }

    /// Takes all that it can to a new name. The old one keeps a little dust and its record.
    pub(crate) fn whitewash(&mut self, offers: &[OfferId], out: &mut Outbox<'_>) -> Address {
        for offer in offers {
            out.send(&self.wallet, Transaction::WithdrawOffer { offer: *offer });
        }
        let next = format!("{} {}", self.name, self.generation + 1);
        let next = Wallet::from_seed(next.as_bytes());
        let to = next.address();
        let balance = out.state.balance(&self.wallet.address());
        let amount = balance.saturating_sub(milli(100));
        out.send(&self.wallet, Transaction::Transfer { to, amount });
        to
    }

    /// Goes on under the new name once its money is there.
    pub(crate) fn settle_in(&mut self, state: &State) {
        let next = format!("{} {}", self.name, self.generation + 1);
        let next = Wallet::from_seed(next.as_bytes());
        if state.account(&next.address()).is_some() {
            self.generation += 1;
            self.wallet = next;
        }
    }
}

/// What the ledger gives a lease beside the declared time; in a gang more, for the start of the others and their parts.
fn grace(season: Season, lease: &Lease) -> tg_types::DurationMs {
    let parameters = season.parameters();
    let grace = parameters.lease_grace;
    match lease.lead().is_none() && lease.members().is_empty() {
        true => grace,
        // Of the four validators of every season.
        false => grace
            .saturating_add(parameters.start_timeout)
            .saturating_add(parameters.least_window(4)),
    }
}

/// The declared time of a lease: what the ledger adds to it or multiplies it by is taken off again.
fn declared(season: Season, lease: &Lease) -> tg_types::DurationMs {
    let parameters = season.parameters();
    let longest = lease.deadline.saturating_since(lease.grant.from).get();
    let without = longest.saturating_sub(grace(season, lease).get());
    let factor = u64::from(parameters.duration_factor);
    tg_types::DurationMs::new(match without / factor {
        0 => longest / 3,
        declared => declared,
    })
}

/// Whether the provider of a lease has to show where a claim is wrong.
fn is_asked(lease: &Lease) -> bool {
    let dispute = lease.check.as_ref().and_then(|it| it.stage.tile_dispute());
    dispute.is_some_and(|it| it.step.turn() == DisputeTurn::Provider && it.step.waits_for_file())
}

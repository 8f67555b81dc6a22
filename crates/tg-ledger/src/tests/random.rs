//! Hundreds of small random markets, without signatures: machines of every kind, orders of every lane, providers that
//! take the time they declared. Each promise of the market is a test with markets of its own.

use std::collections::BTreeMap;

use tg_lab::synthetic::Draws;
use tg_market::placement::{ask, charged};
use tg_types::{
    Address, Amount, CapacityTier, Decode, Digest, DurationMs, Encode, GpuModel, GpuModelSet,
    JobClass, JobId, JobNeeds, JobOrder, Label, Lane, Machine, ModeSet, OfferId, OfferTerms,
    Pricing, ProgramId, Receipt, SharingMode, SharingSet, Tier, TierSet, TimestampMs,
    VerificationMode,
};

use super::pruning::{MODEL, network};
use crate::apply::Execution;
use crate::{Account, EndReason, Event, JobState, LeaseEnd, Offer, Provider, State};

/// Markets in each test: 1,000 where `TENSORGRID_NIGHTLY` is set, 300 in the gate.
///
/// What 300 give up: what goes wrong in one market of a thousand is found with probability 0.26 instead of 0.63, in one of a hundred with
/// 0.95 instead of 0.99996.
fn markets() -> u64 {
    match std::env::var_os("TENSORGRID_NIGHTLY") {
        Some(_) => 1_000,
        None => 300,
    }
}

/// Blocks of each market.
const BLOCKS: u64 = 7;

/// Short enough that leases start and results come in time.
pub(super) const TICK_MS: u64 = 8_000;

/// One market as it runs.
#[derive(Clone)]
pub(super) struct Market {
    pub(super) state: State,
    pub(super) draws: Draws,
    pub(super) jobs: u64,
    /// Whether offers come, change and go.
    is_lively: bool,
}

pub(super) fn bytes_of<const N: usize>(kind: u8, number: u64) -> [u8; N] {
    let mut bytes = [kind; N];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes
}

pub(super) fn requestor(number: u64) -> Address {
    Address::new(bytes_of(1, number))
}

fn machine(draws: &mut Draws) -> Machine {
    let models = [GpuModel::T4, GpuModel::A100M80, GpuModel::H100];
    let sharing: [&[SharingMode]; 4] = [
        &[],
        &[SharingMode::TimeSlice],
        &[SharingMode::Mps],
        &[SharingMode::Mig],
    ];
    Machine {
        gpu_count: 1 + draws.below(4) as u8,
        gpu: *draws.pick(&models),
        gpu_memory_mib: 81_920,
        capability: 80,
        tensor_cores: draws.below(4) > 0,
        sharing: SharingSet::of(draws.pick::<&[SharingMode]>(&sharing)),
        cpu_milli: 16_000,
        memory_mib: 65_536,
        disk_gib: 100,
        region: draws.below(2) as u8,
        coordinate_us: [10 * draws.below(3) as i32, 0],
        tiers: TierSet::ANY,
        ..Machine::CPU_ONLY
    }
}

pub(super) fn terms(draws: &mut Draws) -> OfferTerms {
    OfferTerms {
        hardware: Label::default(),
        price_base: Amount::new(u128::from(draws.below(100))),
        price_per_mmac: Amount::ZERO,
        // Blocks are far apart: what waits for one is a part of the declared time.
        latency_base_ms: DurationMs::new(3 * TICK_MS),
        speed_mmac_per_s: 1_000,
        memory_bytes: 1 << 20,
        slots: 1 + draws.below(6) as u16,
        collateral_per_lease: Amount::new(10),
        modes: ModeSet::UNSEALED,
        machine: machine(draws),
        price_per_gpu_second: Amount::new(1 + u128::from(draws.below(50))),
        pricing: *draws.pick(&[Pricing::Fixed, Pricing::Dynamic]),
    }
}

fn needs(draws: &mut Draws) -> JobNeeds {
    let whole = JobNeeds {
        gpus: 1,
        gpu_milli: 1_000,
        reference: DurationMs::from_secs(1 + draws.below(40)),
        cpu_milli: 1_000 * draws.below(6) as u32,
        priority: *draws.pick(&[1, 1, 2, 8]),
        ..JobNeeds::ANY_MACHINE
    };
    match draws.below(8) {
        0 => JobNeeds::ANY_MACHINE,
        1 => JobNeeds {
            gpus: 1 + draws.below(4) as u8,
            class: JobClass::Training,
            ..whole
        },
        2 => JobNeeds {
            gpu_milli: 100 * (1 + draws.below(9)) as u16,
            isolation: *draws.pick(&SharingMode::ALL[..3]),
            ..whole
        },
        3 => JobNeeds {
            gang: 2 + draws.below(3) as u16,
            neighbourhood_us: *draws.pick(&[5, 100]),
            ..whole
        },
        4 => JobNeeds {
            guaranteed: true,
            tier: CapacityTier::Reserved,
            ..whole
        },
        5 => JobNeeds {
            class: JobClass::Batch,
            priority: 1,
            ..whole
        },
        6 => JobNeeds {
            preemptible: true,
            tier: CapacityTier::Spot,
            ..whole
        },
        _ => JobNeeds {
            models: GpuModelSet::of(&[GpuModel::H100, GpuModel::A100M80]),
            ..whole
        },
    }
}

impl Market {
    /// The market of `seed`, with its offers entered in the order that `order` sorts them by.
    pub(super) fn new(seed: u64, order: impl Fn(u64) -> u64) -> Self {
        let mut state = network();
        let mut draws = Draws::new(seed);
        let count = 1 + draws.below(5);
        let mut offers: Vec<(u64, OfferTerms)> =
            (0..count).map(|index| (index, terms(&mut draws))).collect();
        offers.sort_by_key(|(index, _)| order(*index));
        let rich = Amount::new(1_000_000_000_000);
        for (index, terms) in offers {
            let provider = Address::new(bytes_of(2, index));
            state.put_account(Account::new(provider, rich));
            state.put_provider(Provider::new(provider));
            state.put_offer(Offer {
                id: OfferId::new(bytes_of(3, index)),
                provider,
                terms,
                slots_taken: 0,
                updated_at: TimestampMs::ZERO,
                rent: crate::Rent::default(),
            });
        }
        for index in 0..3 {
            state.put_account(Account::new(requestor(index), rich));
        }
        // Lease fees are a part of what providers have here.
        state.fee_market.base_fee = Amount::new(1);
        state.parameters.base_fee_min = Amount::new(1);
        state.parameters.reputation_stake = Amount::new(1_000);
        state.totals.minted = state.money().balances;
        state.seal();
        state.stock_is_stale = true;
        Self {
            state,
            draws,
            jobs: 0,
            is_lively: false,
        }
    }

    /// An offer comes, another one changes its prices, an idle one goes.
    fn change_offers(&mut self, execution: &mut Execution) {
        let all: Vec<Offer> = execution.state.offers().iter().cloned().collect();
        let id = OfferId::new(bytes_of(3, 1_000 + self.jobs));
        if self.draws.below(2) == 0 && execution.state.offer(&id).is_none() {
            execution.state.put_offer(Offer {
                id,
                provider: Address::new(bytes_of(2, 0)),
                terms: terms(&mut self.draws),
                slots_taken: 0,
                updated_at: execution.now,
                rent: crate::Rent::default(),
            });
            execution.state.stock_is_stale = true;
        }
        for offer in all {
            match self.draws.below(4) {
                0 => {
                    let new = terms(&mut self.draws);
                    let terms = OfferTerms {
                        machine: offer.terms.machine,
                        slots: offer.terms.slots,
                        ..new
                    };
                    execution.update_offer(&offer.id, &terms).unwrap();
                }
                1 if offer.slots_taken == 0 => execution.state.remove_offer(&offer.id),
                _ => {}
            }
        }
    }

    /// The next block: what is due is handed in, new orders come, and the lanes match.
    fn block(&mut self) -> Vec<Event> {
        let now = TimestampMs::new(self.state.head.time.get() + TICK_MS);
        let mut execution = Execution::begin(&self.state, now);
        work(&mut execution, now);
        if self.is_lively {
            self.change_offers(&mut execution);
        }
        for _ in 0..self.draws.below(6) {
            let needs = needs(&mut self.draws);
            let order = JobOrder {
                model: MODEL,
                input: Digest::default(),
                input_len: 1,
                mode: VerificationMode::None,
                max_price: Amount::new(1 + u128::from(self.draws.below(20_000))),
                deadline: TimestampMs::new(now.get() + 1_000 * (30 + self.draws.below(100))),
                max_attempts: 3,
                retention: tg_types::DurationMs::ZERO,
                needs,
            };
            let id = JobId::new(bytes_of(4, self.jobs));
            self.jobs += 1;
            let who = requestor(self.draws.below(3));
            execution.submit_as(id, who, &order).unwrap();
        }
        let proposer = self.state.validators()[0].address;
        let (state, events, _) = execution.finish(proposer).unwrap();
        self.state = state;
        events
    }
}

/// Leases start at once, and results come when the declared time is over.
pub(super) fn work(execution: &mut Execution, now: TimestampMs) {
    let state = &execution.state;
    let mut starts = Vec::new();
    let mut results = Vec::new();
    for (job, lease) in state.live_members() {
        let offer = state.offer(&lease.offer).unwrap();
        let facts = state.offer_facts(offer, job.order.needs.class);
        let (_, time) = ask(&offer.terms, &facts, job.macs, &job.order.needs);
        if lease.started_at().is_none() && lease.grant.from <= now {
            starts.push(lease.id);
        }
        let begun = lease
            .started_at()
            .filter(|_| job.state() == JobState::Running);
        let work = time.get().saturating_sub(3 * TICK_MS);
        let is_due = begun.is_some_and(|at| at.get().saturating_add(work) <= now.get());
        if is_due && lease.lead().is_none() {
            results.push(lease.id);
        }
    }
    for lease in starts {
        execution.start(&lease).unwrap();
    }
    let receipt = Receipt {
        program: ProgramId::default(),
        model: MODEL,
        input: Digest::default(),
        output: Digest::default(),
        trace: Digest::default(),
        tier: Tier::Tgx1,
    };
    for lease in results {
        let lead = execution.state.lease(&lease).unwrap().clone();
        for member in lead.members() {
            execution.commit_part(member, &receipt).unwrap();
        }
        execution.commit(&lease, &receipt).unwrap();
    }
}

/// Runs the markets of one test and looks at each after every block.
fn every_block(salt: u64, look: impl FnMut(&State, &[Event])) {
    every_block_of(markets(), salt, look);
}

/// The same of so many markets.
fn every_block_of(markets: u64, salt: u64, mut look: impl FnMut(&State, &[Event])) {
    for seed in 0..markets {
        let mut market = Market::new(salt << 32 | seed, |index| index);
        for _ in 0..BLOCKS {
            let events = market.block();
            look(&market.state, &events);
        }
    }
}

#[test]
fn never_over_capacity() {
    let mut taken = 0_u64;
    every_block(1, |state, _| {
        let now = state.head.time;
        // Taking everything again from empty machines fails where too much was promised.
        assert_eq!(&state.rebuilt_stock(now).unwrap(), state.stock());
        assert_eq!(state.rebuilt_book(), state.current_book());
        assert_eq!(state.rebuilt_consents(), *state.consents);
        assert_eq!(state.rebuilt_declined(), state.declined);
        assert_eq!(state.rebuilt_checked(), state.checked);
        let mut held: BTreeMap<(OfferId, u32), u32> = BTreeMap::new();
        for (job, lease) in state.live_members() {
            let runs = job.holds_machine() && lease.grant.from <= now;
            for device in (0..8).filter(|it| runs && lease.grant.devices >> it & 1 == 1) {
                let sum = held.entry((lease.offer, device)).or_default();
                *sum += u32::from(lease.grant.gpu_milli);
                assert!(*sum <= 1_000, "a GPU of {}", lease.offer);
                taken += 1;
            }
        }
    });
    assert!(taken > markets(), "{taken}");
}

#[test]
fn never_over_budget() {
    let mut paid = 0;
    every_block(2, |state, _| {
        for job in state.jobs().iter() {
            let Some(settlement) = job.settlement() else {
                continue;
            };
            let spent = [settlement.members, settlement.compensation]
                .into_iter()
                .fold(settlement.price, Amount::saturating_add);
            assert!(spent <= job.order.max_price, "job {}", job.sequence);
            paid += u64::from(job.state() == JobState::Paid);
        }
        for (job, lead) in state.live_leases() {
            let prices = state.gang_of(lead).map(|lease| lease.price);
            let sum = prices.fold(job.owed_sum(), Amount::saturating_add);
            assert!(sum <= job.order.max_price, "job {}", job.sequence);
        }
    });
    assert!(paid > markets() / 2, "{paid}");
}

#[test]
fn nobody_is_worse_off_than_without_the_market() {
    // A requestor pays at most its maximum (above); a provider gets at least what it asks in that tier.
    let mut leases = 0;
    every_block(3, |state, events| {
        for event in events {
            let Event::LeaseMade { lease, job, .. } = event else {
                continue;
            };
            let job = state.job(job).unwrap();
            let lease = state.lease(lease).unwrap();
            let offer = state.offer(&lease.offer).unwrap();
            let mut facts = state.offer_facts(offer, job.order.needs.class);
            // Its own ask: what the moving price adds is more.
            facts.class_price = Amount::ZERO;
            let asked = ask(&offer.terms, &facts, job.macs, &job.order.needs).0;
            let least = asked.and_then(|it| charged(it, &job.order.needs));
            // What was learned in this block comes after the lease was priced.
            let tolerance = Amount::new(lease.price.get() / 3 + 2);
            assert!(least.unwrap() <= lease.price.saturating_add(tolerance));
            leases += 1;
        }
    });
    assert!(leases > markets(), "{leases}");
}

#[test]
fn the_budget_balances() {
    every_block(4, |state, _| {
        assert!(state.money().is_conserved());
        for job in state.jobs().iter().filter(|it| it.settlement().is_some()) {
            assert!(job.escrow().is_zero());
        }
        for lease in state.leases().iter().filter(|it| it.end().is_some()) {
            assert!(lease.locked().is_zero());
        }
    });
}

#[test]
fn admitted_deadlines_are_met_when_nobody_fails() {
    let (mut admitted, mut refused) = (0, 0);
    every_block(5, |state, _| {
        for job in state.jobs().iter() {
            if job.order.needs.lane() != Lane::Deadline {
                continue;
            }
            refused += u64::from(job.end() == Some(EndReason::NotAdmitted));
            let missed =
                !job.leases().is_empty() && job.end().is_some() && job.state() != JobState::Paid;
            assert!(
                !missed,
                "job {} was admitted and is {}",
                job.sequence,
                job.state()
            );
            for lease in job.leases().iter().filter_map(|id| state.lease(id)) {
                assert!(lease.deadline <= job.order.deadline);
                admitted += 1;
            }
        }
    });
    let enough = [admitted > markets() / 5, refused > markets() / 20];
    assert_eq!(enough, [true; 2], "{admitted} {refused}");
}

#[test]
fn gangs_run_whole_or_not_at_all() {
    let mut gangs = 0;
    every_block(6, |state, _| {
        for job in state.jobs().iter().filter(|it| it.order.needs.gang > 1) {
            for lead in job.leases().iter().filter_map(|id| state.lease(id)) {
                let members: Vec<_> = state.gang_of(lead).collect();
                assert_eq!(members.len(), usize::from(job.order.needs.gang));
                let done = |it: &&crate::Lease| it.end() == Some(&LeaseEnd::Fulfilled);
                let whole = members.iter().copied().filter(|it| done(it)).count();
                assert!(whole == 0 || whole == members.len());
                gangs += 1;
            }
        }
    });
    assert!(gangs > markets() / 10, "{gangs}");
}

#[test]
fn nobody_is_overtaken_by_a_later_turn_of_the_same_needs() {
    let mut compared = 0;
    // Two that are alike wait together in few markets.
    every_block_of(1_000, 7, |state, events| {
        let now = state.head.time;
        let placed = events.iter().filter_map(|event| match event {
            Event::LeaseMade { job, .. } => state.job(job),
            _ => None,
        });
        for placed in placed.filter(|it| it.order.needs.lane() == Lane::Posted) {
            for waiting in state.queued_jobs() {
                // Alike but for priority: whatever took the one would have taken the other, which pays at least as much.
                let needs = |job: &crate::Job| JobNeeds {
                    priority: 1,
                    ..job.order.needs
                };
                let alike = needs(placed) == needs(waiting)
                    && waiting.order.max_price >= placed.order.max_price
                    && waiting.order.needs.priority == placed.order.needs.priority
                    && waiting.order.deadline >= placed.order.deadline
                    // One whose lease ends with its deadline holds the machine for less time than the other would.
                    && placed
                        .live_lease()
                        .and_then(|it| state.lease(&it))
                        .is_some_and(|it| it.deadline < placed.order.deadline)
                    && waiting.excluded.is_empty();
                if alike {
                    let (first, other) = (State::waiting(placed), State::waiting(waiting));
                    assert!(first.turn(now) < other.turn(now), "{placed:?} {waiting:?}");
                    compared += 1;
                }
            }
        }
    });
    assert!(compared > 0);
}

#[test]
fn whoever_waited_long_enough_goes_before_any_priority() {
    for seed in 0..markets() {
        let mut draws = Draws::new(8 << 32 | seed);
        let now = TimestampMs::new(100_000_000);
        let full = tg_market::lane::queue::AGE_FULL.get();
        let mut waiting = |job: u64, wait: u64| tg_market::lane::queue::Waiting {
            job,
            price: Amount::new(1 + u128::from(draws.below(1_000))),
            priority: 1 + draws.below(8) as u8,
            since: TimestampMs::new(now.get() - wait),
            expected: DurationMs::ZERO,
        };
        let old = waiting(1, full + seed);
        let older = waiting(2, full + seed + 1);
        let young = waiting(3, full * (seed % 100) / 100);
        assert!(old.turn(now) < young.turn(now), "{seed}");
        assert!(older.turn(now) < old.turn(now), "{seed}");
    }
}

#[test]
fn the_order_in_which_offers_came_does_not_matter() {
    for seed in 0..markets() / 4 {
        let mut one = Market::new(9 << 32 | seed, |index| index);
        let mut other = Market::new(9 << 32 | seed, |index| 100 - index);
        for _ in 0..BLOCKS {
            let (one, other) = (one.block(), other.block());
            assert_eq!(one, other, "seed {seed}");
        }
        assert_eq!(one.state.stock(), other.state.stock());
        assert_eq!(one.state.schedule(), other.state.schedule());
    }
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let roots = || -> Vec<_> {
        let run = |seed: u64| {
            let mut market = Market::new(10 << 32 | seed, |index| index);
            (0..BLOCKS).for_each(|_| drop(market.block()));
            market.state.root()
        };
        (0..markets() / 10).map(run).collect()
    };
    let alone = roots();
    std::thread::scope(|scope| {
        let many: Vec<_> = (0..3).map(|_| scope.spawn(roots)).collect();
        for thread in many {
            assert_eq!(thread.join().unwrap(), alone);
        }
    });
}

#[test]
fn nobody_waits_for_what_is_free() {
    // Waiting jobs belong to no machine: whatever is free takes them in the block in which it is.
    every_block(11, |state, _| {
        for job in state.queued_jobs() {
            if job.order.needs.lane() != Lane::Posted {
                continue;
            }
            let why = state.why_waiting(&job.id).unwrap();
            let found = why.placement.chosen;
            // What others were granted in this block was dearer for it then: prices moved down since.
            let fits = found.filter(|quote| quote.price <= job.order.max_price);
            assert_eq!(fits.map(|it| it.offer), None, "job {}", job.sequence);
        }
    });
}

#[test]
fn prices_of_placements_stand_for_blocks_and_are_set_anew_where_machines_fill() {
    let (mut stood, mut set) = (0, 0);
    for seed in 0..markets() {
        let mut market = Market::new(12 << 32 | seed, |index| index);
        market.block();
        for _ in 1..BLOCKS {
            let before = market.state.schedule().anchor.clone();
            market.block();
            let now = market.state.schedule().anchor.clone();
            match before == now {
                true => stood += 1,
                false => set += 1,
            }
        }
    }
    let enough = markets() / 2;
    assert!(stood > enough && set > enough, "{stood} {set}");
}

#[test]
fn undone_blocks_and_changed_offers_leave_the_book_as_the_records_say() {
    let (mut undone, mut leases) = (0, 0);
    for seed in 0..markets() {
        let mut market = Market::new(77 << 32 | seed, |index| index);
        market.is_lively = true;
        for _ in 0..BLOCKS {
            let before = market.clone();
            leases += market.block().len();
            let sound = |state: &State| {
                let now = state.head.time;
                assert_eq!(&state.rebuilt_stock(now).unwrap(), state.stock());
                assert_eq!(state.rebuilt_book(), state.current_book());
                assert_eq!(state.rebuilt_consents(), *state.consents);
                assert_eq!(state.rebuilt_declined(), state.declined);
                assert_eq!(state.rebuilt_checked(), state.checked);
            };
            sound(&market.state);
            // The first one was put together by hand.
            if !before.state.stock_is_stale {
                sound(&before.state);
            }
            // The same block once more, from a state that was written down and read back.
            let bytes = before.state.to_bytes();
            let mut again = before.clone();
            again.state = State::from_bytes(&bytes).unwrap();
            again.block();
            assert_eq!(again.state.root(), market.state.root(), "seed {seed}");
            // Another block takes its place.
            if market.draws.below(3) == 0 {
                undone += 1;
                market.state = before.state;
            }
        }
    }
    let enough = [undone > markets(), leases as u64 > 10 * markets()];
    assert_eq!(enough, [true; 2], "{undone} {leases}");
}

//! A job that pays least waits, but not for ever: the bound on its wait, where others that pay eight times as much never
//! stop coming. So does one for a whole machine, or a gang, where jobs for single GPUs never stop coming: machines are held
//! back for it, and nobody gains by abusing that.

use tg_types::{
    Address, Amount, Decode, Digest, DurationMs, Encode, GpuModel, JobId, JobNeeds, JobOrder,
    Machine, OfferId, OfferTerms, Pricing, SharingSet, TimestampMs, VerificationMode,
};

use super::pruning::MODEL;
use super::random::{Market, TICK_MS, bytes_of, requestor, terms, work};
use crate::apply::Execution;
use crate::{Account, Event, JobState, Offer, Provider, State};

/// Markets that are run.
const MARKETS: u64 = 24;

/// The longest that one job may take the machine: from its lease to its result, in blocks.
const SERVICE_BLOCKS: u64 = 8;

/// A market with one machine that serves one job at a time.
fn single(seed: u64) -> Market {
    let mut market = Market::new(0x57 << 32 | seed, |index| index);
    let first = OfferId::new(bytes_of(3, 0));
    let others: Vec<OfferId> = market.state.offers().iter().map(|it| it.id).collect();
    for offer in others.iter().filter(|it| **it != first) {
        market.state.remove_offer(offer);
    }
    let mut offer = market.state.offer(&first).unwrap().clone();
    let drawn = terms(&mut market.draws);
    offer.terms = OfferTerms {
        slots: 1,
        pricing: Pricing::Fixed,
        price_per_gpu_second: Amount::new(1),
        machine: Machine {
            gpu_count: 1,
            gpu: GpuModel::T4,
            sharing: SharingSet::of(&[]),
            ..drawn.machine
        },
        ..drawn
    };
    market.state.put_offer(offer);
    market
}

fn order(market: &mut Market, now: TimestampMs, priority: u8) -> JobOrder {
    JobOrder {
        model: MODEL,
        input: Digest::default(),
        input_len: 1,
        mode: VerificationMode::None,
        max_price: Amount::new(1_000_000),
        deadline: TimestampMs::new(now.get() + 4 * 3_600_000),
        max_attempts: 3,
        retention: tg_types::DurationMs::ZERO,
        needs: JobNeeds {
            gpus: 1,
            gpu_milli: 1_000,
            reference: DurationMs::from_secs(1 + market.draws.below(30)),
            priority,
            ..JobNeeds::ANY_MACHINE
        },
    }
}

/// The next block, in which jobs of these priorities are ordered; the jobs, and what happened.
fn block(market: &mut Market, priorities: &[u8]) -> (Vec<JobId>, Vec<Event>) {
    let now = TimestampMs::new(market.state.head().time.get() + TICK_MS);
    let mut execution = Execution::begin(&market.state, now);
    work(&mut execution, now);
    let mut ids = Vec::new();
    for priority in priorities {
        let order = order(market, now, *priority);
        let id = JobId::new(bytes_of(4, market.jobs));
        market.jobs += 1;
        execution
            .submit_as(id, requestor(market.jobs % 3), &order)
            .unwrap();
        ids.push(id);
    }
    let proposer = market.state.validators()[0].address;
    let (state, events, _) = execution.finish(proposer).unwrap();
    market.state = state;
    (ids, events)
}

#[test]
fn the_wait_of_whoever_pays_least_is_bounded() {
    let (mut overtaken, mut waited_most) = (0, 0_u64);
    for seed in 0..MARKETS {
        let mut market = single(seed);
        // The machine is taken when it comes.
        block(&mut market, &[8, 8]);
        let (ids, _) = block(&mut market, &[1]);
        let low = ids[0];
        let (since, patience) = {
            let waiting = State::waiting(market.state.job(&low).unwrap());
            (waiting.since, waiting.patience())
        };
        let mut blocks = 0;
        while market.state.job(&low).unwrap().state() == JobState::Queued {
            let arrivals = 1 + market.draws.below(2) as usize;
            let (_, events) = block(&mut market, &[8, 8][..arrivals]);
            let waited = market.state.head().time.saturating_since(since);
            let leases = |it: &&Event| matches!(it, Event::LeaseMade { job, .. } if *job != low);
            let others = events.iter().filter(leases).count();
            overtaken += others;
            if waited >= patience {
                assert_eq!(others, 0, "whoever waited long enough is next, seed {seed}");
            }
            blocks += 1;
            let most = patience.get() / TICK_MS + SERVICE_BLOCKS;
            assert!(blocks <= most, "seed {seed}: {blocks} blocks");
        }
        waited_most += u64::from(blocks * TICK_MS >= patience.get());
    }
    // They did overtake it, and it did come to its bound: or else nothing was shown.
    assert!(overtaken > 500, "{overtaken}");
    assert!(waited_most > 0);
}

/// GPUs of each machine of [`busy`].
const GPUS: u8 = 4;

/// A market of `machines` machines with four GPUs, all in one place and of one owner each, which ask the same.
fn busy(seed: u64, machines: u64) -> Market {
    let mut market = Market::new(0x58 << 32 | seed, |index| index);
    let others: Vec<OfferId> = market.state.offers().iter().map(|it| it.id).collect();
    others.iter().for_each(|it| market.state.remove_offer(it));
    for number in 0..machines {
        let provider = Address::new(bytes_of(2, number));
        if market.state.account(&provider).is_none() {
            let account = Account::new(provider, Amount::new(1_000_000_000));
            market.state.totals.minted = market.state.totals.minted.saturating_add(account.balance);
            market.state.put_account(account);
            market.state.put_provider(Provider::new(provider));
        }
        let drawn = terms(&mut market.draws);
        market.state.put_offer(Offer {
            id: OfferId::new(bytes_of(3, number)),
            provider,
            terms: OfferTerms {
                slots: u16::from(GPUS),
                pricing: Pricing::Fixed,
                price_base: Amount::new(100),
                price_per_gpu_second: Amount::new(100),
                machine: Machine {
                    gpu_count: GPUS,
                    gpu: GpuModel::T4,
                    sharing: SharingSet::of(&[]),
                    coordinate_us: [0, 0],
                    ..drawn.machine
                },
                ..drawn
            },
            slots_taken: 0,
            updated_at: TimestampMs::ZERO,
            rent: crate::Rent::default(),
        });
    }
    market.state.seal();
    market.state.stock_is_stale = true;
    market
}

/// An order for `gpus` GPUs on each of `gang` machines, of priority 1; its maximum price is `times` what it costs there.
fn wide(market: &Market, (gpus, gang): (u8, u16), seconds: u64, times: u128) -> JobOrder {
    let now = market.state.head().time.get() + TICK_MS;
    let price = 100 + 100 * u128::from(seconds) * u128::from(gpus);
    JobOrder {
        model: MODEL,
        input: Digest::default(),
        input_len: 1,
        mode: VerificationMode::None,
        max_price: Amount::new(price * times * u128::from(gang)),
        deadline: TimestampMs::new(now + 8 * 3_600_000),
        max_attempts: 3,
        retention: tg_types::DurationMs::ZERO,
        needs: JobNeeds {
            gpus,
            gpu_milli: 1_000,
            gang,
            neighbourhood_us: u32::from(gang > 1) * 5,
            // Of all GPUs together.
            reference: DurationMs::from_secs(seconds * u64::from(gpus)),
            ..JobNeeds::ANY_MACHINE
        },
    }
}

/// The next block: so many single jobs come that no GPU stays free, each of up to half a minute, and `orders`.
fn crowded(market: &mut Market, orders: &[(u64, JobOrder)]) -> (Vec<JobId>, Vec<Event>) {
    let now = TimestampMs::new(market.state.head().time.get() + TICK_MS);
    let mut execution = Execution::begin(&market.state, now);
    work(&mut execution, now);
    let gpus = market.state.offers().len() as u64 * u64::from(GPUS);
    let singles = gpus.saturating_sub(market.state.queued_jobs().count() as u64);
    let singles: Vec<JobOrder> = (0..singles.min(gpus))
        .map(|_| JobOrder {
            max_price: Amount::new(1_000_000),
            ..order(market, now, 8)
        })
        .collect();
    let singles = singles.into_iter().map(|it| (market.jobs, it));
    let mut ids = Vec::new();
    for (who, order) in orders.iter().cloned().chain(singles.collect::<Vec<_>>()) {
        let id = JobId::new(bytes_of(4, market.jobs));
        market.jobs += 1;
        execution.submit_as(id, requestor(who % 3), &order).unwrap();
        ids.push(id);
    }
    let proposer = market.state.validators()[0].address;
    let (state, events, _) = execution.finish(proposer).unwrap();
    market.state = state;
    (ids, events)
}

/// What every block must keep, whatever is held back.
fn sound(state: &State) {
    let now = state.head().time;
    let is_quiet = state.reservations().is_empty() && !state.head().height.get().is_multiple_of(64);
    if is_quiet {
        return;
    }
    assert_eq!(&state.rebuilt_stock(now).unwrap(), state.stock());
    assert_eq!(state.rebuilt_book(), state.current_book());
    assert!(state.money().is_conserved());
    let read = State::from_bytes(&state.to_bytes()).unwrap();
    assert_eq!(read.root(), state.root());
    assert_eq!(read.reservations(), state.reservations());
    for reservation in state.reservations() {
        let job = state.job(&reservation.job).unwrap();
        assert_eq!(job.state(), JobState::Queued);
        assert!(reservation.from > now);
    }
}

/// What became of a wide job among single ones.
struct WideJobRun {
    waited: u64,
    patience: u64,
    /// The start of the first reservation, and how often there was another one with a later start.
    promised: Option<TimestampMs>,
    delays: u32,
    /// Single jobs that began while machines were held back.
    backfilled: u32,
    burned: Amount,
    state: JobState,
}

/// Runs a market until the wide job has its machines, or `blocks` are over.
fn run(market: &mut Market, order: JobOrder, blocks: u64) -> WideJobRun {
    // It comes when all GPUs are taken.
    crowded(market, &[]);
    let (ids, _) = crowded(market, &[(0, order)]);
    let id = ids[0];
    let waiting = State::waiting(market.state.job(&id).unwrap());
    let mut wide = WideJobRun {
        waited: 0,
        patience: waiting.patience().get(),
        promised: None,
        delays: 0,
        backfilled: 0,
        burned: Amount::ZERO,
        state: JobState::Queued,
    };
    for _ in 0..blocks {
        let (_, events) = crowded(market, &[]);
        sound(&market.state);
        let job = market.state.job(&id).unwrap();
        wide.burned = job.escrow_burned;
        wide.state = job.state();
        if job.state() != JobState::Queued {
            break;
        }
        wide.waited = market
            .state
            .head()
            .time
            .saturating_since(waiting.since)
            .get();
        let held = market.state.reservation_of(&id);
        if let Some(held) = held {
            wide.delays += u32::from(wide.promised.is_some_and(|it| held.from > it));
            wide.promised = Some(held.from);
            let began = |it: &&Event| matches!(it, Event::LeaseMade { .. });
            wide.backfilled += events.iter().filter(began).count() as u32;
        }
    }
    wide
}

#[test]
fn a_job_for_a_whole_machine_comes_to_its_turn_among_single_jobs_that_never_stop() {
    let mut backfilled = 0;
    for seed in 0..4 {
        let machines = 1 + seed % 3;
        let mut market = busy(seed, machines);
        let order = wide(&market, (GPUS, 1), 30, 3);
        let wide = run(&mut market, order, 400);
        assert_ne!(wide.state, JobState::Queued, "seed {seed}");
        assert!(
            wide.waited >= wide.patience,
            "nothing frees a machine before"
        );
        // The longest a single job may hold its GPU: three times its declared minute, and the grace.
        let most = 3 * (60_000 + 3 * TICK_MS) + 20_000;
        assert!(
            wide.waited <= wide.patience + most,
            "seed {seed}: {}",
            wide.waited
        );
        assert_eq!(
            wide.delays, 0,
            "nobody delays what was promised, seed {seed}"
        );
        backfilled += wide.backfilled;
    }
    assert!(backfilled > 0, "what ends before is let in");
}

#[test]
fn a_gang_comes_to_its_turn_among_single_jobs_that_never_stop() {
    for seed in 0..2 {
        let mut market = busy(0x100 + seed, 3);
        let order = wide(&market, (GPUS, 2), 30, 4);
        let wide = run(&mut market, order, 400);
        assert_ne!(wide.state, JobState::Queued, "seed {seed}");
        assert_eq!(wide.delays, 0, "seed {seed}");
    }
}

#[test]
fn who_leaves_nothing_for_what_is_idle_has_nothing_held_back() {
    let mut market = busy(0x200, 1);
    let order = wide(&market, (GPUS, 1), 30, 1);
    let wide = run(&mut market, order, 300);
    assert_eq!((wide.state, wide.promised), (JobState::Queued, None));
    assert!(wide.waited > wide.patience);
    assert!(wide.burned.is_zero());
}

/// What stayed idle of all GPUs in a market since `from`, in thousandths of a GPU times blocks.
fn idle_milli(state: &State) -> u64 {
    let cluster = state.stock().cluster();
    let free = |node| cluster.free(node).gpu_milli;
    let all = cluster.nodes().flat_map(free);
    all.map(u64::from).sum()
}

#[test]
fn what_is_held_back_for_an_order_that_is_taken_back_costs_what_it_took_from_others() {
    for seed in 0..2 {
        let mut with = busy(0x300 + seed, 2);
        let mut idle = 0;
        let long = wide(&with, (GPUS, 1), 60, 40);
        crowded(&mut with, &[]);
        let (ids, _) = crowded(&mut with, &[(0, long)]);
        let mut blocks = 0;
        while with.state.reservation_of(&ids[0]).is_none() {
            crowded(&mut with, &[]);
            blocks += 1;
            assert!(blocks < 3_000, "seed {seed}");
        }
        // As long as it waits what is idle is idle for it; it is taken back when it would have its machine.
        loop {
            let state = with.state.clone();
            idle += idle_milli(&state) * TICK_MS;
            crowded(&mut with, &[]);
            if with.state.job(&ids[0]).unwrap().state() != JobState::Queued {
                with.state = state;
                break;
            }
        }
        let now = TimestampMs::new(with.state.head().time.get() + TICK_MS);
        let mut execution = Execution::begin(&with.state, now);
        let job = execution.state.job(&ids[0]).unwrap().clone();
        execution.cancel(job).unwrap();
        let proposer = with.state.validators()[0].address;
        let (state, _, _) = execution.finish(proposer).unwrap();
        sound(&state);
        assert!(state.reservations().is_empty());
        let job = state.job(&ids[0]).unwrap();
        let back = job.settlement().unwrap().refund;
        let cost = job.order.max_price.saturating_sub(back).get();
        // 100 for a second of a GPU; the machine's base price comes on top.
        let lost = u128::from(idle) * 100 / 1_000_000;
        assert!(cost >= lost, "seed {seed}: burned {cost}, idle {lost}");
        assert!(cost > 0, "seed {seed}");
    }
}

#[test]
fn a_single_job_that_states_too_little_to_slip_in_delays_nobody() {
    // It states a second and never hands in anything: its lease is cut before the machine is promised to another one.
    let mut market = busy(0x400, 1);
    let order = wide(&market, (GPUS, 1), 30, 3);
    crowded(&mut market, &[]);
    let (ids, _) = crowded(&mut market, &[(0, order)]);
    let id = ids[0];
    let mut promised: Option<TimestampMs> = None;
    for _ in 0..400 {
        crowded(&mut market, &[]);
        let Some(held) = market.state.reservation_of(&id) else {
            if promised.is_some() {
                break;
            }
            continue;
        };
        assert!(promised.is_none_or(|it| held.from <= it));
        promised = Some(held.from);
        for (job, lease) in market.state.live_members() {
            assert!(
                job.sequence == 0 || lease.deadline < held.from,
                "cut before"
            );
        }
    }
    assert!(promised.is_some());
    assert_ne!(market.state.job(&id).unwrap().state(), JobState::Queued);
}

#[test]
fn squatters_who_wait_for_their_own_machine_are_in_nobodys_way() {
    // A machine of the attacker's runs an own lease for hours; orders that only it can serve take the first reservations.
    let mut market = busy(0x500, 1);
    let own = OfferId::new(bytes_of(3, 9));
    let mut offer = market
        .state
        .offer(&OfferId::new(bytes_of(3, 0)))
        .unwrap()
        .clone();
    offer.id = own;
    offer.terms.machine.gpu = GpuModel::H100;
    market.state.put_offer(offer);
    let own_only = |mut order: JobOrder| {
        order.needs.models = tg_types::GpuModelSet::of(&[GpuModel::H100]);
        order
    };
    let t4_only = |mut order: JobOrder| {
        order.needs.models = tg_types::GpuModelSet::of(&[GpuModel::T4]);
        order
    };
    // It holds its machine for hours.
    let holds = own_only(wide(&market, (GPUS, 1), 4 * 3_600, 3));
    crowded(&mut market, &[(1, holds)]);
    let squats = own_only(wide(&market, (GPUS, 1), 1, 5_000));
    let (squatters, _) = crowded(&mut market, &[(1, squats.clone()), (1, squats)]);
    let mut came = None;
    let mut had = false;
    for _ in 0..500 {
        let orders = match came {
            None if market.state.reservation_of(&squatters[0]).is_some() => {
                had = true;
                vec![(0, t4_only(wide(&market, (GPUS, 1), 30, 3)))]
            }
            _ => Vec::new(),
        };
        let (ids, _) = crowded(&mut market, &orders);
        sound(&market.state);
        if !orders.is_empty() {
            came = Some(ids[0]);
        }
        let state = came.map(|id| market.state.job(&id).unwrap().state());
        if state.is_some_and(|it| it != JobState::Queued) {
            assert!(had);
            return;
        }
    }
    panic!("the honest job waits for ever: {had}");
}

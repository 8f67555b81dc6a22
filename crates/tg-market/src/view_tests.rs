//! The machines behind offers, and the cost of a place on them: against looking at everything, and against machines built
//! anew.

#![allow(clippy::unwrap_used, reason = "tests")]

use tg_types::{
    Address, Amount, Decode, DecodeError, DurationMs, Encode, GpuModel, GpuModelSet, JobNeeds,
    Label, LeaseId, Machine, ModeSet, OfferId, OfferTerms, Pricing, SharingMode, SharingSet,
    TierSet, TimestampMs, VerificationMode,
};

use crate::cluster::{AllocateError, Cluster, Needs, NodeIndex, Request};
use crate::mig::{MigInstance, MigProfile};
use crate::packing::profile::JOB_PARTS;
use crate::packing::{Learner, Shape, WorkloadProfile};
use crate::placement::{best_offer, cheapest};
use crate::throughput::{GpuClass, ThroughputMatrix, WorkKind};
use crate::view::{node_spec, request_of};
use crate::{
    Hold, HoldError, JobDemand, OfferFacts, OfferView, PriceAnchor, Room, Stock, TrackRecord,
};
use tg_lab::synthetic::Draws;

const NOW: TimestampMs = TimestampMs::new(1_000);
const UNTIL: TimestampMs = TimestampMs::new(1_000_000);

/// Markets in each test.
const MARKETS: u64 = 1_000;

fn id<const N: usize>(kind: u8, number: u64) -> [u8; N] {
    let mut bytes = [kind; N];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn machine(draws: &mut Draws) -> Machine {
    let sharing: [&[SharingMode]; 3] = [&[], &[SharingMode::Mps], &[SharingMode::Mig]];
    Machine {
        gpu_count: *draws.pick(&[1, 2, 4, 8]),
        gpu: *draws.pick(&[GpuModel::T4, GpuModel::A100M80, GpuModel::H100]),
        gpu_memory_mib: 81_920,
        sharing: SharingSet::of(draws.pick::<&[SharingMode]>(&sharing)),
        cpu_milli: 8_000 * (1 + draws.below(4)) as u32,
        memory_mib: 131_072,
        tiers: TierSet::ANY,
        ..Machine::CPU_ONLY
    }
}

fn terms(machine: Machine) -> OfferTerms {
    OfferTerms {
        hardware: Label::default(),
        price_base: Amount::new(100),
        price_per_mmac: Amount::ZERO,
        latency_base_ms: DurationMs::new(60_000),
        speed_mmac_per_s: 1,
        memory_bytes: 1_000,
        slots: 64,
        collateral_per_lease: Amount::ZERO,
        modes: ModeSet::UNSEALED,
        machine,
        price_per_gpu_second: Amount::new(1_000_000),
        pricing: Pricing::Fixed,
    }
}

fn needs(draws: &mut Draws) -> JobNeeds {
    let whole = JobNeeds {
        gpus: *draws.pick(&[1, 1, 2, 4, 8]),
        gpu_milli: 1_000,
        cpu_milli: 1_000 * draws.below(8) as u32,
        memory_mib: 1_024,
        ..JobNeeds::ANY_MACHINE
    };
    match draws.below(4) {
        0 => whole,
        1 => JobNeeds {
            gpus: 1,
            models: GpuModelSet::of(&[*draws.pick(&[GpuModel::T4, GpuModel::H100])]),
            ..whole
        },
        _ => JobNeeds {
            gpus: 1,
            gpu_milli: 100 * (1 + draws.below(9)) as u16,
            isolation: *draws.pick(&[SharingMode::Mps, SharingMode::Mig]),
            ..whole
        },
    }
}

/// Offers of one price, and jobs that come and go.
struct Market {
    draws: Draws,
    offers: Vec<(OfferId, OfferTerms)>,
    work: WorkloadProfile,
    stock: Stock,
    holds: Vec<Hold>,
    leases: u64,
}

impl Market {
    fn new(seed: u64) -> Self {
        let mut draws = Draws::new(seed);
        let count = 1 + draws.below(8);
        let offers: Vec<_> = (0..count)
            .map(|index| (OfferId::new(id(1, index)), terms(machine(&mut draws))))
            .collect();
        let requests: Vec<_> = (0..6)
            .map(|_| request_of(&needs(&mut draws)).unwrap())
            .collect();
        let work = WorkloadProfile::of(&requests);
        let stock = Stock::new(offers.iter().map(|(id, it)| (*id, &it.machine)), &work);
        Self {
            draws,
            offers,
            work,
            stock,
            holds: Vec::new(),
            leases: 0,
        }
    }

    fn rebuilt(&self) -> Stock {
        let machines = self.offers.iter().map(|(id, it)| (*id, &it.machine));
        let mut stock = Stock::new(machines, &self.work);
        for hold in self.holds.iter().rev() {
            stock.take(hold, NOW).unwrap();
        }
        stock
    }

    /// The market's choice for `needs`, with the place.
    fn choice(&self, needs: &JobNeeds) -> Option<(OfferId, Room, Amount)> {
        let prices = self
            .stock
            .packing_prices(self.offers.iter().map(|it| &it.1));
        let demand = demand(needs, &self.stock, Some(&prices));
        let views = || self.offers.iter().map(|(offer, terms)| view(*offer, terms));
        let quote = cheapest(&demand, views());
        let slow = best_offer(&demand, views()).chosen;
        assert_eq!(quote, slow, "looking at less gives the same answer");
        let quote = quote?;
        let request = request_of(needs).unwrap();
        let room = self
            .stock
            .room(&quote.offer, &request, NOW, (NOW, UNTIL), Some(&prices))
            .unwrap();
        assert_eq!(
            (room.devices, room.partition),
            (quote.devices, quote.partition)
        );
        Some((quote.offer, room, quote.packing))
    }

    fn take(&mut self, needs: &JobNeeds, offer: OfferId, room: Room) {
        self.leases += 1;
        let hold = Hold {
            lease: LeaseId::new(id(2, self.leases)),
            offer,
            devices: room.devices,
            partition: room.partition,
            request: request_of(needs).unwrap(),
            from: NOW,
            until: UNTIL,
        };
        self.stock.take(&hold, NOW).unwrap();
        self.holds.push(hold);
    }

    fn leave(&mut self) {
        if !self.holds.is_empty() {
            let at = self.draws.below(self.holds.len() as u64) as usize;
            let gone = self.holds.swap_remove(at);
            self.stock.give_back(&gone.lease);
        }
    }
}

fn demand<'a>(
    needs: &'a JobNeeds,
    stock: &'a Stock,
    prices: Option<&'a crate::PackingPrices>,
) -> JobDemand<'a> {
    JobDemand {
        macs: 1,
        memory_bytes: 1,
        mode: VerificationMode::None,
        stake_min: Amount::ZERO,
        max_price: Amount::new(1_000_000_000),
        now: NOW,
        deadline: TimestampMs::new(10_000_000),
        spare: DurationMs::ZERO,
        excluded: &[],
        tie_seed: [7; 32],
        needs,
        stock: Some(stock),
        prices,
        start: NOW,
        lease_factor: 1,
        lease_grace: DurationMs::from_secs(1),
    }
}

fn view(offer: OfferId, terms: &OfferTerms) -> OfferView<'_> {
    OfferView {
        offer,
        provider: Address::new(id(3, 1)),
        terms,
        slots_free: 64,
        funds: Amount::MAX,
        suspended_until: TimestampMs::ZERO,
        record: TrackRecord::default(),
        facts: OfferFacts::default(),
    }
}

impl Market {
    /// The least that `needs` take from the work to come anywhere, with the model there, by trying every set of GPUs of
    /// every machine; `None` if they fit nowhere.
    fn least_cost(&self, needs: &JobNeeds, duration: DurationMs) -> Option<Amount> {
        let terms = self.offers.iter().map(|it| &it.1);
        let prices = self.stock.packing_prices(terms);
        let request = request_of(needs).unwrap();
        let cluster = self.stock.cluster();
        let costs = self.offers.iter().flat_map(|(offer, terms)| {
            let node = self.stock.node(offer).unwrap();
            let (stock, prices) = (&self.stock, &prices);
            let may_serve = cluster
                .kinds()
                .filter(&request)
                .contains(cluster.kind(node));
            let sets = (0..=u8::MAX).filter(|it| it.count_ones() == u32::from(request.gpus()));
            sets.filter_map(move |devices| {
                let partition = cluster.partition(node, devices, &request);
                let taken = cluster
                    .clone()
                    .allocate_at(node, devices, &request, partition);
                taken.ok().filter(|_| may_serve)?;
                let burden = stock.burden_of(offer, &request, devices, prices)?;
                Some(prices.cost(terms.machine.gpu, burden, duration))
            })
        });
        costs.min()
    }
}

#[test]
fn at_one_price_the_choice_takes_least_from_the_work_to_come() {
    let mut placed = 0;
    for seed in 0..MARKETS / 4 {
        let mut market = Market::new(seed);
        for step in 0..12 {
            if step % 4 == 3 {
                market.leave();
            }
            let needs = needs(&mut market.draws);
            let least = market.least_cost(&needs, DurationMs::new(60_001));
            let ours = market.choice(&needs);
            let cost = ours.map(|(_, _, packing)| packing);
            assert_eq!(cost, least, "seed {seed}, step {step}: {needs:?}");
            let Some((offer, room, _)) = ours else {
                continue;
            };
            market.take(&needs, offer, room);
            placed += 1;
        }
    }
    assert!(placed > 1_000, "{placed}");
}

#[test]
fn what_was_kept_up_to_date_is_what_is_built_anew() {
    for seed in 0..MARKETS {
        let mut market = Market::new(seed);
        for step in 0..8 {
            if step % 3 == 2 {
                market.leave();
            }
            let needs = needs(&mut market.draws);
            if let Some((offer, room, _)) = market.choice(&needs) {
                market.take(&needs, offer, room);
            }
        }
        let rebuilt = market.rebuilt();
        assert_eq!(rebuilt, market.stock, "seed {seed}");
        let none = || std::iter::empty();
        assert_eq!(
            rebuilt.packing_prices(none()),
            market.stock.packing_prices(none())
        );
    }
}

#[test]
fn prices_stand_until_something_is_half_gone() {
    let (mut stood, mut fell) = (0, 0);
    for seed in 0..MARKETS / 4 {
        let mut market = Market::new(seed);
        let seconds = [Amount::new(7); GpuModel::ALL.len()];
        let anchor = market.stock.anchor(seconds);
        assert_eq!(
            PriceAnchor::from_bytes(&anchor.to_bytes()),
            Ok(anchor.clone())
        );
        assert!(market.stock.stands(&anchor));
        let set = market.stock.packing_prices_at(seconds);
        assert_eq!(market.stock.prices_from(&anchor), Some(set.clone()));
        for _ in 0..12 {
            let needs = needs(&mut market.draws);
            if let Some((offer, room, _)) = market.choice(&needs) {
                market.take(&needs, offer, room);
            }
            // Prices that stand are those that were set, however much was taken since.
            assert_eq!(market.stock.prices_from(&anchor), Some(set.clone()));
            // Whether they stand follows from the machines as they are, and from nothing else.
            let stands = market.stock.stands(&anchor);
            assert_eq!(market.rebuilt().stands(&anchor), stands, "seed {seed}");
            stood += u32::from(stands);
            fell += u32::from(!stands);
        }
        while !market.holds.is_empty() {
            market.leave();
        }
        assert!(
            market.stock.stands(&anchor),
            "all is as it was, seed {seed}"
        );
        let other = WorkloadProfile::of(&[request_of(&needs(&mut market.draws)).unwrap(); 3]);
        market.stock.expect(&other);
        if market.stock.anchor(seconds) != anchor {
            assert!(!market.stock.stands(&anchor), "other work is expected");
            assert_eq!(market.stock.prices_from(&anchor), None);
        }
    }
    assert!(stood > 100 && fell > 100, "{stood} {fell}");
}

#[test]
fn an_anchor_of_more_groups_than_there_can_be_is_refused() {
    let mut bytes = vec![0; 16];
    bytes.extend_from_slice(&u32::MAX.to_le_bytes());
    let refused = PriceAnchor::from_bytes(&bytes).unwrap_err();
    assert!(
        matches!(refused, DecodeError::TooLong { .. }),
        "{refused:?}"
    );
    // One that is cut off is refused wherever that is.
    let stock = Market::new(1).stock;
    let whole = stock
        .anchor([Amount::new(1); GpuModel::ALL.len()])
        .to_bytes();
    for length in 0..whole.len() {
        assert!(PriceAnchor::from_bytes(&whole[..length]).is_err());
    }
}

#[test]
fn without_leases_it_is_as_if_they_held_nothing() {
    for seed in 0..MARKETS / 4 {
        let mut market = Market::new(seed);
        for _ in 0..6 {
            let needs = needs(&mut market.draws);
            if let Some((offer, room, _)) = market.choice(&needs) {
                market.take(&needs, offer, room);
            }
        }
        let Some(gone) = market.holds.first().copied() else {
            continue;
        };
        let time = (NOW, UNTIL);
        let without = |lease: &[LeaseId]| {
            market
                .stock
                .room_without(&gone.offer, &gone.request, NOW, time, lease, None)
        };
        let mut trial = market.stock.clone();
        trial.give_back(&gone.lease);
        let then = trial.room(&gone.offer, &gone.request, NOW, time, None);
        // It looks as it is until they are gone.
        let node = market.stock.node(&gone.offer).unwrap();
        let look = Shape {
            kind: 0,
            ..Shape::of(market.stock.cluster(), node)
        };
        let then = then.map(|room| Room { look, ..room });
        assert_eq!(without(&[gone.lease]), then, "seed {seed}");
        let now = market
            .stock
            .room(&gone.offer, &gone.request, NOW, time, None);
        assert_eq!(without(&[]), now);
        assert!(then.is_some(), "where it was it fits");
    }
}

#[test]
fn a_partition_is_taken_where_it_was_named_or_not_at_all() {
    let mut cut = machine(&mut Draws::new(1));
    cut.gpu = GpuModel::A100M80;
    cut.gpu_count = 1;
    cut.sharing = SharingSet::of(&[SharingMode::Mig]);
    let mut cluster = Cluster::new(vec![node_spec(&cut)]);
    let needs = JobNeeds {
        gpus: 1,
        gpu_milli: 280,
        ..JobNeeds::ANY_MACHINE
    };
    let request = request_of(&needs).unwrap();
    let node = NodeIndex(0);
    let at = |profile, start| Some(MigInstance { profile, start });
    let first = cluster
        .allocate_at(node, 1, &request, at(MigProfile::G2, 2))
        .unwrap();
    assert_eq!(first.mig(), at(MigProfile::G2, 2));
    // (what is named, why not)
    for named in [
        at(MigProfile::G2, 2),
        at(MigProfile::G2, 1),
        at(MigProfile::G1, 0),
        at(MigProfile::G7, 0),
    ] {
        let before = *cluster.free(node);
        let refused = cluster.allocate_at(node, 1, &request, named);
        assert_eq!(refused, Err(AllocateError::Gpu { device: 0 }), "{named:?}");
        assert_eq!(*cluster.free(node), before);
    }
    assert!(
        cluster
            .allocate_at(node, 1, &request, at(MigProfile::G2, 4))
            .is_ok()
    );
    cluster.release(&first);
    assert!(cluster.allocate(node, 1, &request).is_ok());
}

#[test]
fn a_hold_of_a_share_says_its_partition_where_shares_are_partitions() {
    let mut cut = machine(&mut Draws::new(1));
    cut.gpu = GpuModel::H100;
    cut.sharing = SharingSet::of(&[SharingMode::Mig]);
    let offer = OfferId::new([1; 32]);
    let mut stock = Stock::new([(offer, &cut)].into_iter(), &WorkloadProfile::new());
    let share = JobNeeds {
        gpus: 1,
        gpu_milli: 500,
        ..JobNeeds::ANY_MACHINE
    };
    let request = request_of(&share).unwrap();
    let room = stock
        .room(&offer, &request, NOW, (NOW, UNTIL), None)
        .unwrap();
    let hold = Hold {
        lease: LeaseId::new([2; 32]),
        offer,
        devices: room.devices,
        partition: None,
        request,
        from: NOW,
        until: UNTIL,
    };
    let missing = HoldError::Full(AllocateError::Devices);
    assert_eq!(stock.take(&hold, NOW), Err(missing));
    let hold = Hold {
        partition: room.partition,
        ..hold
    };
    assert_eq!(stock.take(&hold, NOW), Ok(()));
    assert_eq!(stock.take(&hold, NOW), Err(HoldError::Held(hold.lease)));
}

#[test]
fn the_middle_ask_is_nobodys_to_move() {
    let ask = |milli: u128, gpus: u8| {
        let mut terms = terms(Machine {
            gpu_count: gpus,
            gpu: GpuModel::T4,
            ..machine(&mut Draws::new(2))
        });
        terms.price_per_gpu_second = Amount::new(milli);
        terms
    };
    // (asks and GPUs, the one in the middle)
    let cases: [(&[(u128, u8)], u128); 4] = [
        (&[(10, 1)], 10),
        (&[(10, 1), (20, 1), (1_000_000, 1)], 20),
        (&[(10, 8), (1_000_000, 2)], 10),
        (&[(1, 1), (5, 4), (9, 4)], 5),
    ];
    for (asks, middle) in cases {
        let offers: Vec<OfferTerms> = asks
            .iter()
            .map(|(milli, gpus)| ask(*milli, *gpus))
            .collect();
        let stock = Stock::default();
        let prices = stock.packing_prices(offers.iter());
        // A thousandth of a GPU for a thousand seconds is a GPU second.
        let burden = crate::packing::burden::MILLI_COST;
        let cost = prices.cost(GpuModel::T4, burden, DurationMs::from_secs(1_000));
        assert_eq!(cost, Amount::new(middle), "{asks:?}");
        let other = prices.cost(GpuModel::H100, burden, DurationMs::from_secs(1_000));
        assert_eq!(other, Amount::ZERO);
    }
}

#[test]
fn what_was_learned_has_one_encoding() {
    let mut matrix = ThroughputMatrix::default();
    let second = DurationMs::from_secs(1);
    for (index, gpu) in GpuClass::ALL.into_iter().enumerate() {
        for kind in WorkKind::ALL {
            let took = DurationMs::new(200 * (1 + index as u64));
            matrix.learn(gpu, kind, second, took);
            let bytes = matrix.to_bytes();
            assert_eq!(ThroughputMatrix::from_bytes(&bytes).unwrap(), matrix);
        }
    }
    let bytes = matrix.to_bytes();
    for at in 4..bytes.len() {
        let mut spoiled = bytes.clone();
        spoiled[at] = 0xff;
        // Either it is refused, or it is another matrix: never the same one twice.
        if let Ok(read) = ThroughputMatrix::from_bytes(&spoiled) {
            assert_eq!(read.to_bytes(), spoiled);
        }
        assert!(ThroughputMatrix::from_bytes(&bytes[..at]).is_err());
    }
    let twice = [&[2, 0, 0, 0][..], &bytes[4..10], &bytes[4..10]].concat();
    assert!(matches!(
        ThroughputMatrix::from_bytes(&twice),
        Err(DecodeError::Invalid {
            field: "throughput",
            ..
        })
    ));
}

#[test]
fn expected_work_has_one_encoding_and_a_bound() {
    let mut draws = Draws::new(3);
    let mut learner = Learner::new(WorkloadProfile::new());
    for _ in 0..500 {
        learner.observe(&request_of(&needs(&mut draws)).unwrap());
        learner.bound(16, 200);
    }
    assert!(learner.profile().weights().len() <= 16);
    assert!(learner.profile().total() <= 201);
    let bytes = learner.to_bytes();
    assert_eq!(Learner::from_bytes(&bytes).unwrap(), learner);
    for at in 0..bytes.len() {
        assert!(Learner::from_bytes(&bytes[..at]).is_err());
        let mut spoiled = bytes.clone();
        spoiled[at] ^= 0x55;
        if let Ok(read) = Learner::from_bytes(&spoiled) {
            assert_eq!(read.to_bytes(), spoiled);
        }
    }
}

#[test]
fn the_rarest_work_is_forgotten_first() {
    let request = |cores: u32| {
        request_of(&JobNeeds {
            gpus: 1,
            gpu_milli: 1_000,
            cpu_milli: cores * 4_000,
            ..JobNeeds::ANY_MACHINE
        })
        .unwrap()
    };
    let mut profile = WorkloadProfile::new();
    for (cores, times) in [(1, 5), (2, 1), (3, 3)] {
        profile.observe_worth(&request(cores), times);
    }
    profile.keep_at_most(2);
    assert_eq!(profile.total(), 8);
    profile.keep_at_most(1);
    assert_eq!(profile.total(), 5);
    let mut joined = WorkloadProfile::of([&request(1)]);
    joined.join_seen(&profile);
    assert_eq!(joined.total(), 1 + 5 * JOB_PARTS);
}

#[test]
fn kinds_of_one_gpu_follow_each_other_and_those_valued_alike_count_once() {
    let machine = |gpu, region| Machine {
        gpu_count: 1,
        gpu,
        gpu_memory_mib: 81_920,
        region,
        tiers: TierSet::ANY,
        ..Machine::CPU_ONLY
    };
    let machines: Vec<Machine> = [GpuModel::T4, GpuModel::H100]
        .into_iter()
        .flat_map(|gpu| [0, 1, 2].map(|region| machine(gpu, region)))
        .collect();
    let work_in = |region| {
        let needs = Needs {
            region,
            ..Needs::NONE
        };
        let request = Request::new(0, 0, 1, 1_000).unwrap();
        WorkloadProfile::of(&[request.with_needs(needs)])
    };
    let distinct = |work: &WorkloadProfile| {
        let offers = (0..).map(|number| OfferId::new(id(1, number)));
        let stock = Stock::new(offers.zip(&machines), work);
        let kinds = stock.cluster().kinds();
        let gpu = *kinds.gpu(4).unwrap();
        assert_eq!(kinds.len(), machines.len());
        assert_eq!(kinds.with_gpu(&gpu).collect::<Vec<_>>(), [3, 4, 5]);
        let prices = stock.packing_prices_at([Amount::new(1); GpuModel::ALL.len()]);
        prices.distinct(kinds.with_gpu(&gpu), [4, 5].into_iter())
    };
    // The work fits every region alike, so the first kind stands for all; or one region, which is a kind of its own.
    assert_eq!(distinct(&work_in(None)), [3]);
    assert_eq!(distinct(&work_in(Some(1))), [4, 3]);
}

#[test]
fn what_is_booked_counts_while_it_lasts_and_not_beside_it() {
    let machine = Machine {
        gpu_count: 1,
        gpu: GpuModel::H100,
        gpu_memory_mib: 81_920,
        tiers: TierSet::ANY,
        ..Machine::CPU_ONLY
    };
    let offer = OfferId::new(id(1, 1));
    let request = Request::new(0, 0, 1, 1_000).unwrap();
    let work = WorkloadProfile::of(&[request]);
    let mut stock = Stock::new([(offer, &machine)].into_iter(), &work);
    let at = |after: u64| TimestampMs::new(NOW.get() + after);
    let booked = Hold {
        lease: LeaseId::new(id(2, 1)),
        offer,
        devices: 1,
        partition: None,
        request,
        from: at(10),
        until: at(20),
    };
    stock.take(&booked, NOW).unwrap();
    for (from, until, taken) in [
        (1, 9, false),
        (1, 10, true),
        (15, 16, true),
        (20, 30, true),
        (21, 30, false),
    ] {
        let taken_milli = stock.gpu_milli_taken(&offer, at(from), at(until));
        assert_eq!(
            taken_milli,
            1_000 * u64::from(taken),
            "from {from} until {until}"
        );
        let room = stock.room(&offer, &request, NOW, (at(from), at(until)), None);
        assert_eq!(room.is_none(), taken, "from {from} until {until}");
    }
}

#[test]
fn an_offer_suits_who_can_pay_ahead_and_a_provider_that_can_lock() {
    let machine = Machine {
        gpu_count: 1,
        gpu: GpuModel::H100,
        gpu_memory_mib: 81_920,
        cpu_milli: 8_000,
        memory_mib: 131_072,
        tiers: TierSet::ANY,
        ..Machine::CPU_ONLY
    };
    let terms = OfferTerms {
        collateral_per_lease: Amount::new(500),
        ..terms(machine)
    };
    let offer = OfferId::new(id(1, 1));
    let needs = JobNeeds {
        gpus: 1,
        gpu_milli: 1_000,
        ..JobNeeds::ANY_MACHINE
    };
    let stock = Stock::new([(offer, &machine)].into_iter(), &WorkloadProfile::default());
    let asked = demand(&needs, &stock, None);
    let view = view(offer, &terms);
    let suits = |max_price: Amount, funds: u128, locked: u128| {
        let asked = JobDemand { max_price, ..asked };
        let view = OfferView {
            funds: Amount::new(funds),
            ..view
        };
        crate::lane::backfill::suits(&asked, &view, &|_| Amount::new(locked))
    };
    let price = crate::lane::backfill::quote_at(&asked, &view, NOW)
        .unwrap()
        .price;
    assert!(!suits(price, 500, 0), "nothing is left for the wait");
    assert!(suits(asked.max_price, 500, 0));
    assert!(!suits(asked.max_price, 499, 0));
    assert!(
        suits(asked.max_price, 499, 1),
        "what it has locked there comes back"
    );
}

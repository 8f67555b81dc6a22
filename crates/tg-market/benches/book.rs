//! Decisions per second on the ledger's path: the book's answer, the lease, and stock and book brought up to date;
//! against a look at every offer.
//!
//! `cargo bench -p tg-market --bench book` prints them for 1,000, 10,000 and 100,000 GPUs (`-- 5000 Own` for others), for offers that are alike,
//! of some prices, and each of its own price, speed and record. Jobs come until four fifths of the compute is used, and
//! then come and go. Prices of placements are set anew every 256 decisions, as the ledger does for each block.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a benchmark measures time and talks"
)]

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use tg_lab::synthetic::{Draws, Variety, numbered, synthetic_needs, synthetic_standing};
use tg_market::book::{Looks, Rates, Standing};
use tg_market::packing::WorkloadProfile;
use tg_market::throughput::ThroughputMatrix;
use tg_market::view::request_of;
use tg_market::{Hold, JobDemand, OfferBook, PackingPrices, PriceAnchor, Quote, Stock, cheapest};
use tg_types::{
    Amount, DurationMs, GpuModel, JobNeeds, LeaseId, OfferId, TimestampMs, VerificationMode,
};

const NOW: TimestampMs = TimestampMs::new(1_000);

/// Decisions of a block.
const BLOCK: usize = 256;

/// Decisions that are timed.
const TIMED: usize = 10_240;

struct Market {
    standings: BTreeMap<OfferId, Standing>,
    stock: Stock,
    book: OfferBook,
    class_prices: [Amount; GpuModel::ALL.len()],
    throughput: ThroughputMatrix,
    holds: VecDeque<Hold>,
    used_milli: u64,
    leases: u64,
    anchor: PriceAnchor,
    prices: PackingPrices,
    renewals: u32,
}

impl Market {
    fn new(draws: &mut Draws, variety: Variety, gpus: u64, work: &WorkloadProfile) -> Self {
        let (mut standings, mut have) = (BTreeMap::new(), 0);
        while have < gpus {
            let number = standings.len() as u64;
            let standing = synthetic_standing(draws, variety, number);
            have += u64::from(standing.terms.machine.gpu_count);
            standings.insert(standing.offer, standing);
        }
        let machines = standings.values().map(|it| (it.offer, &it.terms.machine));
        let stock = Stock::new(machines, work);
        let seconds = [Amount::ZERO; GpuModel::ALL.len()];
        Self {
            anchor: PriceAnchor::default(),
            prices: stock.packing_prices_at(seconds),
            renewals: 0,
            stock,
            book: OfferBook::new([7; 32]),
            class_prices: [Amount::ZERO; GpuModel::ALL.len()],
            throughput: ThroughputMatrix::default(),
            holds: VecDeque::new(),
            standings,
            used_milli: 0,
            leases: 0,
        }
    }

    fn rebuilt(&self) -> OfferBook {
        let mut book = OfferBook::new([7; 32]);
        for standing in self.standings.values() {
            book.set(standing.clone(), &self.stock);
        }
        book
    }

    /// Sets prices anew if they do not stand, or if it `must`.
    fn renew(&mut self, must: bool) {
        if must || !self.stock.stands(&self.anchor) {
            self.anchor = self.stock.anchor(self.book.middle_asks());
            self.prices = self.stock.prices_from(&self.anchor).unwrap();
            self.renewals += 1;
        }
    }

    fn rates(&self) -> Rates<'_> {
        Rates {
            class_prices: &self.class_prices,
            throughput: &self.throughput,
        }
    }

    fn demand<'a>(&'a self, prices: &'a PackingPrices, needs: &'a JobNeeds) -> JobDemand<'a> {
        JobDemand {
            macs: 500_000_000,
            memory_bytes: 1 << 20,
            mode: VerificationMode::Proof,
            stake_min: Amount::ZERO,
            max_price: Amount::new(100_000_000_000),
            now: NOW,
            deadline: TimestampMs::new(1 << 40),
            spare: DurationMs::ZERO,
            excluded: &[],
            tie_seed: [7; 32],
            needs,
            stock: Some(&self.stock),
            prices: Some(prices),
            start: NOW,
            lease_factor: 3,
            lease_grace: DurationMs::from_secs(20),
        }
    }

    fn best(&self, prices: &PackingPrices, needs: &JobNeeds, looks: &mut Looks) -> Option<Quote> {
        let demand = self.demand(prices, needs);
        self.book.cheapest(&demand, &self.rates(), looks, None)
    }

    fn scan(&self, prices: &PackingPrices, needs: &JobNeeds) -> Option<Quote> {
        let (demand, rates) = (self.demand(prices, needs), self.rates());
        let views = self
            .standings
            .values()
            .map(|it| it.view(needs.class, &rates));
        cheapest(&demand, views)
    }

    fn enter(&mut self, offer: &OfferId, change: impl Fn(&mut Standing)) {
        let standing = self.standings.get_mut(offer).unwrap();
        change(standing);
        self.book.set(standing.clone(), &self.stock);
    }

    fn lease(&mut self, needs: &JobNeeds, quote: &Quote) {
        let hold = Hold {
            lease: LeaseId::new(numbered(4, self.leases)),
            offer: quote.offer,
            devices: quote.devices,
            partition: quote.partition,
            request: request_of(needs).unwrap(),
            from: NOW,
            until: quote.until,
        };
        self.leases += 1;
        self.used_milli += u64::from(needs.gpu_milli_total());
        self.stock.take(&hold, NOW).unwrap();
        self.holds.push_back(hold);
        self.enter(&quote.offer, |it| it.slots_free -= 1);
    }

    fn end(&mut self) {
        if let Some(hold) = self.holds.pop_front() {
            self.used_milli -= u64::from(hold.request.gpu_milli_total());
            self.stock.give_back(&hold.lease);
            self.enter(&hold.offer, |it| it.slots_free += 1);
        }
    }
}

/// What was measured.
#[derive(Default)]
struct Tally {
    times: Vec<u64>,
    placed: u64,
    looked: u64,
    answer_seconds: f64,
    scan_seconds: f64,
    scans: u32,
    copy_seconds: f64,
    price_seconds: f64,
    blocks: u32,
}

impl Tally {
    /// Decisions between two settings of prices; counted once the market is as full as it gets.
    fn block(&mut self, market: &mut Market, draws: &mut Draws, distinct: &[JobNeeds], full: u64) {
        let started = Instant::now();
        market.renew(false);
        let prices = market.prices.clone();
        let priced = started.elapsed().as_secs_f64();
        let shared = (market.stock.clone(), market.book.clone());
        let mut is_full = false;
        for index in 0..BLOCK {
            let needs = *draws.pick(distinct);
            while market.used_milli >= full {
                is_full = true;
                market.end();
            }
            let mut looks = Looks::default();
            let before = Instant::now();
            let chosen = market.best(&prices, &needs, &mut looks);
            let answered = before.elapsed();
            if let Some(quote) = &chosen {
                market.lease(&needs, quote);
            }
            let took = before.elapsed();
            if !is_full {
                continue;
            }
            if index == 0 {
                // The first lease of a block copies what versions of the state share.
                self.copy_seconds += took.as_secs_f64();
            }
            self.times.push(took.as_nanos() as u64);
            self.answer_seconds += answered.as_secs_f64();
            self.placed += u64::from(chosen.is_some());
            self.looked += looks.get();
        }
        drop(shared);
        if is_full {
            self.price_seconds += priced;
            self.blocks += 1;
            if self.blocks.is_multiple_of(4) {
                self.scan(market, &prices, draws.pick(distinct));
            }
        }
    }

    fn scan(&mut self, market: &Market, prices: &PackingPrices, needs: &JobNeeds) {
        let before = Instant::now();
        let scanned = market.scan(prices, needs);
        self.scan_seconds += before.elapsed().as_secs_f64();
        self.scans += 1;
        let best = market.best(prices, needs, &mut Looks::default());
        assert_eq!(best, scanned, "book and scan agree");
    }
}

/// Milliseconds of a block in which prices move, 1,000 offers change what they ask, and 500 jobs come; the longest of some.
fn longest_block(market: &mut Market, draws: &mut Draws, distinct: &[JobNeeds], full: u64) -> f64 {
    let offers: Vec<OfferId> = market.standings.keys().copied().collect();
    let mut longest: f64 = 0.0;
    for _ in 0..8 {
        let needs: Vec<JobNeeds> = (0..500).map(|_| *draws.pick(distinct)).collect();
        let coming: u64 = needs.iter().map(|it| u64::from(it.gpu_milli_total())).sum();
        while market.used_milli + coming > full {
            market.end();
        }
        let shared = (market.stock.clone(), market.book.clone());
        let before = Instant::now();
        market.renew(true);
        for _ in 0..1_000 {
            let step = Amount::new(u128::from(draws.below(100)));
            market.enter(draws.pick(&offers), |it| {
                it.terms.price_base = it.terms.price_base.saturating_add(step);
            });
        }
        let prices = market.prices.clone();
        for needs in &needs {
            if let Some(quote) = market.best(&prices, needs, &mut Looks::default()) {
                market.lease(needs, &quote);
            }
        }
        longest = longest.max(before.elapsed().as_secs_f64() * 1e3);
        drop(shared);
    }
    longest
}

fn run(variety: Variety, gpus: u64) {
    let mut draws = Draws::new(11);
    let distinct: Vec<JobNeeds> = (0..600).map(|_| synthetic_needs(&mut draws)).collect();
    let requests: Vec<_> = distinct.iter().map(|it| request_of(it).unwrap()).collect();
    let work = WorkloadProfile::of(&requests);
    let mut market = Market::new(&mut draws, variety, gpus, &work);
    market.book = market.rebuilt();
    let mut tally = Tally::default();
    while tally.times.len() < TIMED {
        tally.block(&mut market, &mut draws, &distinct, gpus * 800);
    }
    let renewals = market.renewals;
    let longest = longest_block(&mut market, &mut draws, &distinct, gpus * 800);
    let before = Instant::now();
    let rebuilt = market.rebuilt();
    let built = before.elapsed();
    assert_eq!(rebuilt, market.book, "rebuilt and kept agree");
    let times = &mut tally.times;
    let total: u64 = times.iter().sum();
    let rate = times.len() as f64 * 1e9 / total as f64;
    times.sort_unstable();
    let at = |permille: usize| times[(times.len() - 1) * permille / 1_000] as f64 / 1e3;
    let scan_rate = f64::from(tally.scans) / tally.scan_seconds;
    let a_block = |seconds: f64| seconds * 1e6 / f64::from(tally.blocks);
    println!(
        "{variety:?}, {gpus} gpus, {} offers, {} leases: {rate:.0}/s, p50 {:.1} us, p99 {:.1} us, p99.9 {:.1} us, mean \
         of the answer alone {:.1} us; {:.0} looks a decision, {} of {} placed; scan {scan_rate:.0}/s, ratio {:.0}; a block: prices {:.0} us (set \
         {renewals} times), first copy {:.0} us; longest block {longest:.1} ms; rebuilt in {} \
         ms",
        market.standings.len(),
        market.holds.len(),
        at(500),
        at(990),
        at(999),
        tally.answer_seconds * 1e6 / times.len() as f64,
        tally.looked as f64 / times.len() as f64,
        tally.placed,
        times.len(),
        rate / scan_rate,
        a_block(tally.price_seconds),
        a_block(tally.copy_seconds),
        built.as_millis(),
    );
}

/// Thousandths of the compute that are placed when jobs for 95, 100 and 130 % of it came.
fn fill(variety: Variety, gpus: u64, every_block: bool) -> ([u64; 3], u32) {
    let mut draws = Draws::new(12);
    let distinct: Vec<JobNeeds> = (0..600).map(|_| synthetic_needs(&mut draws)).collect();
    let requests: Vec<_> = distinct.iter().map(|it| request_of(it).unwrap()).collect();
    let work = WorkloadProfile::of(&requests);
    let mut market = Market::new(&mut draws, variety, gpus, &work);
    market.book = market.rebuilt();
    let capacity = market.stock.cluster().gpu_milli_capacity();
    let (mut came, mut index, mut shares) = (0, 0, Vec::new());
    for percent in [95, 100, 130] {
        while came < capacity * percent / 100 {
            if index % BLOCK == 0 {
                market.renew(every_block);
            }
            index += 1;
            let needs = *draws.pick(&distinct);
            came += u64::from(needs.gpu_milli_total());
            let prices = market.prices.clone();
            if let Some(quote) = market.best(&prices, &needs, &mut Looks::default()) {
                market.lease(&needs, &quote);
            }
        }
        shares.push(market.used_milli * 1_000 / capacity);
    }
    (shares.try_into().unwrap(), market.renewals)
}

fn main() {
    let is_fill = std::env::args().any(|it| it == "fill");
    let named: Vec<u64> = std::env::args().filter_map(|it| it.parse().ok()).collect();
    let sizes = match named.is_empty() {
        true => vec![1_000, 10_000, 100_000],
        false => named,
    };
    let varieties = [Variety::Alike, Variety::Some, Variety::Own];
    let is_named = |it: &Variety| std::env::args().any(|word| word == format!("{it:?}"));
    let is_any = varieties.iter().any(is_named);
    for variety in varieties.into_iter().filter(|it| !is_any || is_named(it)) {
        for gpus in &sizes {
            if is_fill {
                for every_block in [true, false] {
                    let (shares, renewals) = fill(variety, *gpus, every_block);
                    println!(
                        "{variety:?}, {gpus} gpus, prices of every block: {every_block}; placed {shares:?} thousandths at \
                         95, 100, 130 %; prices set {renewals} times"
                    );
                }
                continue;
            }
            run(variety, *gpus);
        }
    }
}

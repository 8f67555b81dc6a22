//! What a block costs where an attacker has filled the market, and whether an honest order is served in its block.
//!
//! 65,000 offers, 9,000 waiting orders and 1,000 gang orders in many shapes ([`shape::SHAPES`]), put there by transactions.
//! Then blocks with one honest order each, executed by a voter whose memory is its own. Times are CPU times of the
//! thread that executes, beside wall times, as machines are shared.
//!
//! `cargo run --release -p tg-ledger --example crowd [-- WORDS OF A SHAPE'S NAME]`, or `-- --draw N SEED` for N shapes
//! that are drawn.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "an example that measures"
)]

mod chain;
mod draw;
mod shape;

use chain::{Chain, INPUT, MODEL, TICK_MS, Took, timed};
use shape::{SHAPES, Shape};
use tg_ledger::{Event, JobState};
use tg_types::{
    Address, Amount, JobId, JobNeeds, JobOrder, OfferId, SignedTransaction, TimestampMs,
    Transaction, VerificationMode, Wallet, job_id, offer_id,
};

/// Offers of one account.
const OFFERS_EACH: usize = 16;

/// Open jobs of one account.
const JOBS_EACH: usize = 1_000;

/// Blocks that are measured; the first ones bring a voter's memory up to date, which a restart does too.
const MEASURED: usize = 40;

/// Offers of the honest provider, of eight GPUs each.
const HONEST_OFFERS: usize = 8;

/// Orders for which it was paid before the attacker came.
const HISTORY: usize = 32;

/// Within so many milliseconds an honest order is to be paid.
const WAIT_MS: u64 = 5_000;

/// An attacker's market.
struct Crowd {
    shape: Shape,
    chain: Chain,
    providers: Vec<Address>,
    requestors: Vec<Address>,
    /// A requestor, and a provider that does its work.
    honest: Address,
    server: Address,
    /// The honest orders, with the time at which each came.
    orders: Vec<(JobId, u64)>,
    offers: Vec<OfferId>,
    /// Waiting orders that may be raised or taken back, with the requestor.
    waiting: Vec<(Address, JobId)>,
    /// How many orders of all kinds came.
    ordered: usize,
    updated: usize,
    raised: usize,
    version: usize,
}

impl Crowd {
    fn new(shape: &Shape) -> Self {
        let wallet = |number: usize| Wallet::from_seed(format!("account {number}").as_bytes());
        // Some accounts more, for what comes later.
        let providers = shape.offers.div_ceil(OFFERS_EACH) + 80;
        let requestors = 2 * (shape.jobs + shape.gangs + shape.spot).div_ceil(JOBS_EACH) + 4;
        let wallets: Vec<Wallet> = (0..providers + requestors + 2).map(wallet).collect();
        let addresses: Vec<Address> = wallets.iter().map(Wallet::address).collect();
        let honest = addresses[providers + requestors];
        let mut chain = Chain::new(wallets);
        chain.activate_model(honest);
        Self {
            shape: *shape,
            chain,
            providers: addresses[..providers].to_vec(),
            requestors: addresses[providers..providers + requestors].to_vec(),
            honest,
            server: addresses[providers + requestors + 1],
            orders: Vec::new(),
            offers: Vec::new(),
            waiting: Vec::new(),
            ordered: 0,
            updated: 0,
            raised: 0,
            version: 0,
        }
    }

    fn post(&mut self) -> SignedTransaction {
        let number = self.offers.len();
        let terms = self.shape.terms(number, 0);
        let owner = self.providers[number / OFFERS_EACH];
        let signed = self.chain.sign(owner, Transaction::PostOffer { terms });
        self.offers
            .push(offer_id(signed.id(self.chain.state.domain())));
        signed
    }

    fn order(&mut self, mode: VerificationMode, needs: JobNeeds) -> SignedTransaction {
        let requestor = self.requestors[self.ordered % self.requestors.len()];
        self.ordered += 1;
        let order = self.order_of(mode, needs);
        let signed = self.chain.sign(requestor, Transaction::SubmitJob { order });
        let job = job_id(signed.id(self.chain.state.domain()));
        if needs.gang == 1 && !needs.guaranteed && !needs.preemptible {
            self.waiting.push((requestor, job));
        }
        signed
    }

    fn order_of(&self, mode: VerificationMode, needs: JobNeeds) -> JobOrder {
        JobOrder {
            model: MODEL,
            input: INPUT,
            input_len: 784,
            mode,
            max_price: Amount::from_tgrid(100),
            deadline: TimestampMs::new(self.chain.state.head().timestamp.get() + 3_600_000),
            max_attempts: 3,
            retention: tg_types::DurationMs::ZERO,
            needs,
        }
    }

    fn fill(&mut self) {
        let shape = self.shape;
        self.serve_before();
        let posts = (0..shape.offers).map(|_| self.post()).collect();
        self.chain.fill(posts);
        let none = VerificationMode::None;
        let spot = (0..shape.spot).map(|_| self.order(none, shape.spot_job()));
        let spot = spot.collect();
        self.chain.fill(spot);
        let gangs = (0..shape.gangs).map(|at| self.order(none, shape.gang(at)));
        let gangs: Vec<_> = gangs.collect();
        self.chain.fill(gangs);
        let jobs = (0..shape.jobs).map(|at| {
            let (mode, needs) = shape.job(at);
            self.order(mode, needs)
        });
        let jobs = jobs.collect();
        self.chain.fill(jobs);
        self.chain.part_voter();
    }

    /// The honest provider has offers and was paid for some orders before the attacker came.
    fn serve_before(&mut self) {
        let terms = self.shape.honest_terms();
        let post = Transaction::PostOffer { terms };
        let posts = (0..HONEST_OFFERS).map(|_| self.chain.sign(self.server, post.clone()));
        let posts = posts.collect();
        self.chain.fill(posts);
        self.chain.part_voter();
        let orders = (0..HISTORY).map(|_| self.honest_order().0).collect();
        self.chain.block(orders);
        for _ in 0..10 {
            let duties = self.chain.duties(self.server);
            self.chain.block(duties);
        }
        let record = self.chain.state.provider(&self.server).unwrap().record;
        assert_eq!(record.accepted as usize, HISTORY);
    }

    fn honest_order(&mut self) -> (SignedTransaction, JobId) {
        let order = self.order_of(VerificationMode::Proof, Shape::honest_job());
        let honest = self.honest;
        let signed = self.chain.sign(honest, Transaction::SubmitJob { order });
        let job = job_id(signed.id(self.chain.state.domain()));
        (signed, job)
    }

    /// How long after its order each honest one was paid, in milliseconds.
    fn paid_after(&self) -> Vec<Option<u64>> {
        let after = |(job, came): &(JobId, u64)| {
            let job = self.chain.state.job(job)?;
            let last = job
                .history
                .last()
                .filter(|_| job.state() == JobState::Paid)?;
            Some(last.timestamp.get() - came)
        };
        self.orders.iter().map(after).collect()
    }

    /// What the attacker puts into the next block.
    fn churn(&mut self) -> Vec<SignedTransaction> {
        let shape = self.shape;
        let mut transactions = Vec::new();
        for _ in 0..shape.updates {
            if self.updated.is_multiple_of(shape.offers) {
                self.version += 1;
            }
            let number = self.updated % shape.offers;
            self.updated += 1;
            let terms = shape.terms(number, self.version);
            let offer = self.offers[number];
            let update = Transaction::UpdateOffer { offer, terms };
            let owner = self.providers[number / OFFERS_EACH];
            transactions.push(self.chain.sign(owner, update));
        }
        for _ in 0..shape.posts {
            transactions.push(self.post());
        }
        for _ in 0..shape.raises {
            let (owner, job) = self.waiting[self.raised % self.waiting.len()];
            let round = (self.raised / self.waiting.len()) as u64;
            self.raised += 1;
            let raise = Transaction::RaiseJob {
                job,
                max_price: Amount::from_tgrid(101 + round),
                max_attempts: 3,
            };
            transactions.push(self.chain.sign(owner, raise));
        }
        for _ in 0..shape.cancels {
            let (owner, job) = self.waiting.swap_remove(0);
            transactions.push(self.chain.sign(owner, Transaction::CancelJob { job }));
        }
        self.new_orders(&mut transactions);
        transactions
    }

    fn new_orders(&mut self, transactions: &mut Vec<SignedTransaction>) {
        let shape = self.shape;
        let none = VerificationMode::None;
        for _ in 0..shape.guaranteed {
            let needs = shape.guaranteed(self.ordered);
            transactions.push(self.order(none, needs));
        }
        for _ in 0..shape.orders {
            let (mode, needs) = shape.job(self.ordered);
            // They go first.
            let needs = JobNeeds {
                priority: 8,
                ..needs
            };
            transactions.push(self.order(mode, needs));
        }
        for _ in 0..shape.new_gangs {
            let needs = shape.gang(self.ordered);
            transactions.push(self.order(none, needs));
        }
    }

    /// A block with an honest order in it: what it took, and in how many blocks the order was leased, 1 if in its own.
    fn step(&mut self) -> Step {
        let (signed, job) = self.honest_order();
        // It is sent when the block before it comes.
        let came = self.chain.state.head().timestamp.get();
        self.orders.push((job, came));
        let mut transactions = self.chain.duties(self.server);
        transactions.push(signed);
        transactions.extend(self.churn());
        let (proposing, executing, events) = self.chain.block(transactions);
        let leases = events
            .iter()
            .filter(|it| matches!(it, Event::LeaseMade { .. }));
        Step {
            proposing,
            executing,
            leases: leases.count(),
            is_served: self.chain.state.job(&job).unwrap().state() == JobState::Leased,
        }
    }
}

struct Step {
    proposing: Took,
    executing: Took,
    leases: usize,
    is_served: bool,
}

/// What the blocks of one shape cost.
pub(crate) struct Cost {
    pub(crate) worst_us: u64,
    pub(crate) median_us: u64,
}

/// Fills a market and executes blocks; prints one line.
pub(crate) fn measure(shape: &Shape, blocks: usize) -> Cost {
    let mut crowd = Crowd::new(shape);
    let burned = crowd.chain.state.totals().burned;
    let ((), filling) = timed(|| crowd.fill());
    let burned = crowd.chain.state.totals().burned.saturating_sub(burned);
    eprintln!("{}: filled", shape.name);
    let waiting = crowd.chain.state.queued_jobs().count();
    let steps: Vec<Step> = (0..blocks).map(|_| crowd.step()).collect();
    let of = |took: fn(&Step) -> u64| {
        let mut times: Vec<u64> = steps.iter().map(took).collect();
        times.sort_unstable();
        (times[times.len() / 2], times[times.len() - 1])
    };
    for _ in 0..WAIT_MS.div_ceil(TICK_MS) {
        let mut transactions = crowd.chain.duties(crowd.server);
        transactions.extend(crowd.churn());
        crowd.chain.block(transactions);
    }
    let mut paid: Vec<u64> = crowd.paid_after().into_iter().flatten().collect();
    paid.sort_unstable();
    let in_time = paid.iter().filter(|it| **it <= WAIT_MS).count();
    let (median, worst) = of(|it| it.executing.cpu_us);
    let (wall, wall_worst) = of(|it| it.executing.wall_us);
    let (own, own_worst) = of(|it| it.proposing.cpu_us);
    let served = steps.iter().filter(|it| it.is_served).count();
    let leases: usize = steps.iter().map(|it| it.leases).sum();
    let ms = |us: u64| us.div_ceil(1_000);
    println!(
        "{}: CPU {} ms in the middle, {} at most (wall {} and {}; proposing {} and {}); {served} of {blocks} honest orders \
         leased at once, {in_time} paid within {} s (median {} ms, at most {}), {leases} leases; {waiting} wait; filled in {} blocks for {} TGRID burned, {} s",
        shape.name,
        ms(median),
        ms(worst),
        ms(wall),
        ms(wall_worst),
        ms(own),
        ms(own_worst),
        WAIT_MS / 1_000,
        paid.get(paid.len() / 2).copied().unwrap_or_default(),
        paid.last().copied().unwrap_or_default(),
        crowd.chain.blocks,
        burned.get() / 10_u128.pow(18),
        filling.wall_us / 1_000_000,
    );
    Cost {
        worst_us: worst,
        median_us: median,
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|it| it == "--draw") {
        let number = |at: usize| arguments.get(at).map_or(1, |it| it.parse().unwrap());
        draw::search(number(1), number(2));
        return;
    }
    let words = arguments.join(" ");
    for shape in SHAPES.iter().filter(|it| it.name.contains(&words)) {
        measure(shape, MEASURED);
    }
}

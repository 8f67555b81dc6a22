//! An attacker's market, put there by transactions, and what the attacker puts into each block.

use tg_ledger::Validator;
use tg_types::{
    Address, Amount, Digest, JobId, JobNeeds, JobOrder, OfferId, SignedTransaction, TimestampMs,
    Transaction, VerificationMode, Wallet, job_id, offer_id,
};

use super::chain::{Chain, MODEL};
use super::shape::Shape;

/// Offers of one account.
const OFFERS_EACH: usize = 16;

/// Open jobs of one account.
const JOBS_EACH: usize = 1_000;

/// An attacker's market.
pub(crate) struct Crowd {
    pub(crate) shape: Shape,
    pub(crate) chain: Chain,
    providers: Vec<Address>,
    requestors: Vec<Address>,
    pub(crate) honest: Address,
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
    /// Accounts and the model; the honest one is provider and requestor in one. The first validator makes all blocks.
    pub(crate) fn new(shape: &Shape, validators: Vec<Validator>, timestamp: TimestampMs) -> Self {
        let wallet = |number: usize| Wallet::from_seed(format!("account {number}").as_bytes());
        // Some accounts more, for what comes later.
        let providers = shape.offers.div_ceil(OFFERS_EACH) + 80;
        let requestors = 2 * (shape.jobs + shape.gangs + shape.spot).div_ceil(JOBS_EACH) + 4;
        let wallets: Vec<Wallet> = (0..providers + requestors + 1).map(wallet).collect();
        let addresses: Vec<Address> = wallets.iter().map(Wallet::address).collect();
        let honest = addresses[providers + requestors];
        let mut chain = Chain::new(wallets, validators, timestamp);
        chain.activate_model(honest);
        Self {
            shape: *shape,
            chain,
            providers: addresses[..providers].to_vec(),
            requestors: addresses[providers..providers + requestors].to_vec(),
            honest,
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

    pub(crate) fn order_of(&self, mode: VerificationMode, needs: JobNeeds) -> JobOrder {
        JobOrder {
            model: MODEL,
            input: Digest::new([0x31; 32]),
            input_len: 784,
            mode,
            max_price: Amount::from_tgrid(100),
            deadline: TimestampMs::new(self.chain.state.head().timestamp.get() + 3_600_000),
            max_attempts: 3,
            needs,
        }
    }

    pub(crate) fn fill(&mut self) {
        let shape = self.shape;
        let posts = (0..shape.offers).map(|_| self.post()).collect();
        self.chain.fill(posts);
        let honest = Transaction::PostOffer {
            terms: shape.honest_terms(),
        };
        let honest = self.chain.sign(self.honest, honest);
        self.chain.fill(vec![honest]);
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

    /// What the attacker puts into the next block.
    pub(crate) fn churn(&mut self) -> Vec<SignedTransaction> {
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
}

//! What a block costs where an attacker has filled the market, and whether an honest order is served in its block.
//!
//! 65,000 offers of lonely machines, each at another price; 8,900 orders that fit no offer, but only after a look at each
//! price; 1,000 gang orders that every machine fits and no neighbourhood has room for. Then blocks with one honest order
//! each, executed as a voter does.
//!
//! `cargo run --release -p tg-ledger --example crowd [-- OFFERS JOBS GANGS]`
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "an example that measures"
)]

use std::time::Instant;

use tg_ledger::{
    ConsensusKey, Genesis, JobState, ModelFacts, Outcome, Parameters, Proposal, State, Validator,
    apply, development_domain, propose,
};
use tg_types::{
    Address, Amount, Digest, DurationMs, GpuModel, JobId, JobNeeds, JobOrder, Label, Machine,
    ModeSet, ModelId, OfferTerms, Pricing, ProgramId, SignedTransaction, TierSet, TimestampMs,
    Transaction, VerificationMode, Wallet, job_id,
};

const MODEL: ModelId = ModelId::new([0x11; 32]);

/// Offers of one account.
const OFFERS_EACH: usize = 16;

/// Open jobs of one account.
const JOBS_EACH: usize = 1_000;

/// Blocks that are measured.
const MEASURED: usize = 24;

struct Chain {
    state: State,
    proposer: Address,
}

impl Chain {
    fn new(wallets: &[Wallet]) -> Self {
        let mut accounts: Vec<_> = wallets
            .iter()
            .map(|it| (it.address(), Amount::from_tgrid(1_000_000)))
            .collect();
        accounts.sort();
        let proposer = Wallet::from_seed(b"validator").address();
        let genesis = Genesis {
            domain: development_domain(),
            parameters: Parameters::development(),
            timestamp: TimestampMs::new(1_000_000),
            accounts,
            validators: vec![Validator {
                address: proposer,
                key: ConsensusKey::new([1; 32]),
                stake: Amount::from_tgrid(1),
            }],
        };
        let state = State::genesis(&genesis).unwrap();
        Self { state, proposer }
    }

    fn proposal(&self, transactions: Vec<SignedTransaction>) -> Proposal {
        let time = self.state.head().timestamp.get() + 400;
        Proposal {
            transactions,
            ..Proposal::empty(self.proposer, TimestampMs::new(time))
        }
    }

    /// Puts transactions into as many blocks as they need.
    fn fill(&mut self, transactions: &[SignedTransaction]) {
        for part in transactions.chunks(1_000) {
            let proposed = propose(&self.state, self.proposal(part.to_vec())).unwrap();
            assert!(proposed.refused.is_empty(), "{:?}", proposed.refused[0].1);
            assert!(proposed.left.is_empty());
            self.state = proposed.state;
        }
    }

    fn activate_model(&mut self, owner: &Wallet) {
        let register = Transaction::RegisterModel {
            model: MODEL,
            public_blob: Digest::new([0x12; 32]),
            weights_blob: Digest::new([0x13; 32]),
            name: Label::lossy("crowd"),
        };
        let signed = owner.sign(register, 0, self.state.domain());
        self.fill(&[signed]);
        let task = self.state.pending_evidence().next().unwrap();
        let facts = ModelFacts {
            program: ProgramId::new([0x10; 32]),
            macs: 420_000,
            input_len: 784,
            output_len: 10,
            provable: true,
            proof_bytes: 200_000,
            work: 420_000,
            memory: 1 << 20,
        };
        let mut proposal = self.proposal(Vec::new());
        proposal.verdicts = vec![task.verdict(Outcome::ModelAccepted(facts))];
        self.state = propose(&self.state, proposal).unwrap().state;
    }

    fn order(&self, mode: VerificationMode, needs: JobNeeds) -> JobOrder {
        JobOrder {
            model: MODEL,
            input: Digest::new([0x31; 32]),
            input_len: 784,
            mode,
            max_price: Amount::from_tgrid(100),
            deadline: TimestampMs::new(self.state.head().timestamp.get() + 3_600_000),
            max_attempts: 3,
            needs,
        }
    }
}

/// One of the offers: no two machines are near each other, no two ask the same.
fn terms(number: usize) -> OfferTerms {
    let at = i32::try_from(number).unwrap();
    OfferTerms {
        hardware: Label::default(),
        price_base: Amount::new(1_000_000_000_000_000 + number as u128),
        price_per_mmac: Amount::ZERO,
        latency_base_ms: DurationMs::new(500),
        speed_mmac_per_s: 1_000,
        memory_bytes: 1 << 20,
        slots: 1,
        collateral_per_lease: Amount::from_tgrid(1),
        modes: ModeSet::of(&[VerificationMode::None]),
        machine: Machine {
            gpu_count: 1,
            gpu: GpuModel::T4,
            gpu_memory_mib: 16_384,
            capability: 75,
            cpu_milli: 8_000,
            memory_mib: 65_536,
            disk_gib: 100,
            coordinate_us: [1_000 * (at % 256), 1_000 * (at / 256)],
            tiers: TierSet::ANY,
            ..Machine::CPU_ONLY
        },
        price_per_gpu_second: Amount::new(1_000_000_000_000_000 + number as u128),
        pricing: Pricing::Fixed,
    }
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|it| it.parse().unwrap());
    let offers: usize = numbers.next().unwrap_or(65_000);
    let jobs: usize = numbers.next().unwrap_or(8_900);
    let gangs: usize = numbers.next().unwrap_or(1_000);
    let wallet = |number: usize| Wallet::from_seed(format!("account {number}").as_bytes());
    let providers = offers.div_ceil(OFFERS_EACH);
    let requestors = (jobs + gangs).div_ceil(JOBS_EACH);
    let wallets: Vec<Wallet> = (0..providers + requestors + 1).map(wallet).collect();
    let honest = &wallets[providers + requestors];
    let mut chain = Chain::new(&wallets);
    chain.activate_model(honest);
    let domain = *chain.state.domain();
    let post = |number: usize| {
        let terms = terms(number);
        let nonce = (number % OFFERS_EACH) as u64;
        wallets[number / OFFERS_EACH].sign(Transaction::PostOffer { terms }, nonce, &domain)
    };
    let posts: Vec<_> = (0..offers).map(post).collect();
    chain.fill(&posts);
    let gpu = JobNeeds {
        gpus: 1,
        gpu_milli: 1_000,
        reference: DurationMs::from_secs(10),
        ..JobNeeds::ANY_MACHINE
    };
    let submit = |number: usize| {
        let order = match number < gangs {
            true => {
                let needs = JobNeeds {
                    gang: 2 + (number % 31) as u16,
                    neighbourhood_us: 1 + (number % 900) as u32,
                    ..gpu
                };
                chain.order(VerificationMode::None, needs)
            }
            false => chain.order(VerificationMode::Zk, gpu),
        };
        let nonce = (number % JOBS_EACH) as u64;
        let wallet = &wallets[providers + number / JOBS_EACH];
        wallet.sign(Transaction::SubmitJob { order }, nonce, &domain)
    };
    let orders: Vec<_> = (0..gangs + jobs).map(submit).collect();
    chain.fill(&orders);
    println!(
        "{offers} offers, {} jobs wait",
        chain.state.queued_jobs().count()
    );
    measure(&mut chain, honest, gpu);
}

fn measure(chain: &mut Chain, honest: &Wallet, gpu: JobNeeds) {
    let mut took = Vec::new();
    for block in 0..MEASURED {
        let order = chain.order(VerificationMode::None, gpu);
        let nonce = chain.state.nonce(&honest.address());
        let domain = *chain.state.domain();
        let signed = honest.sign(Transaction::SubmitJob { order }, nonce, &domain);
        let job: JobId = job_id(signed.id(&domain));
        // Every third block somebody also posts an offer, which changes all that is kept of machines.
        let mut transactions = vec![signed];
        if block % 3 == 2 {
            let terms = terms(65_535 - block);
            transactions.push(honest.sign(Transaction::PostOffer { terms }, nonce + 1, &domain));
        }
        let proposed = propose(&chain.state, chain.proposal(transactions)).unwrap();
        assert!(proposed.refused.is_empty(), "{:?}", proposed.refused);
        let begun = Instant::now();
        let (state, _) = apply(&chain.state, &proposed.block).unwrap();
        took.push((begun.elapsed().as_millis(), block % 3 == 2));
        assert_eq!(state.job(&job).unwrap().state, JobState::Leased);
        chain.state = state;
    }
    let of = |is_post: bool| {
        let mut times: Vec<_> = took
            .iter()
            .filter(|it| it.1 == is_post)
            .map(|it| it.0)
            .collect();
        times.sort_unstable();
        (times[times.len() / 2], times[times.len() - 1])
    };
    let (quiet, posts) = (of(false), of(true));
    println!(
        "executing a block: {} ms in the middle, {} ms at most; with a new offer {} and {} ms; every honest order was \
         matched in its block",
        quiet.0, quiet.1, posts.0, posts.1
    );
}

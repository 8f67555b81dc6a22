//! Decisions per second of the ledger's market on a trace or a generated one, one order a block, and the batch auction.
//!
//! `cargo bench -p tg-market` prints medians. With `TG_MARKET_TRACE=DIR` (the folder of the openb trace) the machines
//! and arrivals are copies of the trace; without it they are generated.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a benchmark measures time and talks"
)]

use std::time::Instant;

use tg_lab::ledger_market::LedgerMarket;
use tg_lab::synthetic::{Draws, synthetic_trace};
use tg_lab::trace::Trace;
use tg_market::lane::auction::{Ask, Bid, ClassSet, clear_uniform};
use tg_market::packing::WorkloadProfile;
use tg_market::view::request_of;
use tg_market::{Hold, Stock};
use tg_types::{
    Amount, GpuModel, JobNeeds, LeaseId, Machine, OfferId, SharingMode, SharingSet, TimestampMs,
};

fn base_trace() -> (Trace, &'static str) {
    let folder = std::env::var_os("TG_MARKET_TRACE").map(std::path::PathBuf::from);
    let read = |name: &str| std::fs::read_to_string(folder.as_ref()?.join(name)).ok();
    let texts = (
        read("nodes_default_42.csv"),
        read("arrivals_default_42.csv"),
    );
    match texts {
        (Some(nodes), Some(arrivals)) => (Trace::parse(&nodes, &arrivals).unwrap(), "openb trace"),
        _ => (synthetic_trace(42, 1_213, 10_866), "generated trace"),
    }
}

fn run(label: &str, trace: &Trace) -> f64 {
    let requests = trace.requests();
    let started = Instant::now();
    let mut market = LedgerMarket::new(&trace.specs(), 1).unwrap();
    let built = started.elapsed();
    let mut times = Vec::with_capacity(requests.len());
    let mut placed = 0_u64;
    let started = Instant::now();
    for request in &requests {
        let before = Instant::now();
        market.observe(request);
        placed += u64::from(market.place(request).is_some());
        times.push(before.elapsed().as_nanos() as u64);
    }
    let elapsed = started.elapsed();
    times.sort_unstable();
    let at = |permille: usize| times[(times.len() - 1) * permille / 1_000];
    let rate = requests.len() as f64 / elapsed.as_secs_f64();
    println!(
        "{label}: {} gpus, {} decisions, {placed} placed: {rate:.0}/s, p50 {} ns, p99 {} ns, p99.9 {} ns, max {} us; \
         built in {} ms",
        market.cluster().gpu_milli_capacity() / 1_000,
        requests.len(),
        at(500),
        at(990),
        at(999),
        at(1_000) / 1_000,
        built.as_millis(),
    );
    rate
}

/// 10,000 bids for 1 to 16 GPUs over 100,000 GPUs in 64 classes.
fn auction() {
    let mut draws = Draws::new(7);
    let asks: Vec<Ask> = (0..25_000)
        .map(|_| Ask {
            class: draws.below(64) as u8,
            units: 4,
            cost: Amount::new(u128::from(500 + draws.below(1_000))),
        })
        .collect();
    let bids: Vec<Bid> = (0..10_000)
        .map(|_| {
            let first = draws.below(64) as u8;
            let mut accepts = ClassSet::NONE.with(first);
            for _ in 0..draws.below(4) {
                accepts = accepts.with((first + draws.below(8) as u8) % 64);
            }
            Bid {
                accepts,
                units: 1 + draws.below(16) as u32,
                value: Amount::new(u128::from(400 + draws.below(1_500))),
            }
        })
        .collect();
    let mut times: Vec<u128> = Vec::new();
    let (mut sold, mut welfare, mut bound) = (0, 0, 1);
    for _ in 0..5 {
        let started = Instant::now();
        let clearing = clear_uniform(&bids, &asks);
        times.push(started.elapsed().as_micros());
        sold = clearing.sold.iter().sum();
        welfare = clearing.welfare(&bids, &asks).unwrap();
        bound = clearing.welfare_bound(&bids, &asks).unwrap();
    }
    times.sort_unstable();
    println!(
        "batch auction: 10,000 bids, 100,000 gpus, {sold} sold: median {} us; welfare {:.4} % of the dual bound",
        times[2],
        welfare as f64 * 100.0 / bound as f64,
    );
}

/// Time to build the ledger's stock of machines from offers and leases, and the prices of one block.
fn stock() {
    let offer = |index: u32| {
        let mut bytes = [1; 32];
        bytes[..4].copy_from_slice(&index.to_be_bytes());
        OfferId::new(bytes)
    };
    let machine = Machine {
        gpu_count: 8,
        gpu: GpuModel::A100M80,
        gpu_memory_mib: 81_920,
        sharing: SharingSet::of(&[SharingMode::Mig]),
        cpu_milli: 128_000,
        memory_mib: 1 << 20,
        ..Machine::CPU_ONLY
    };
    let machines: Vec<_> = (0..12_500).map(|index| (offer(index), machine)).collect();
    let needs = [(1, 1_000), (1, 300), (4, 1_000), (1, 140)].map(|(gpus, gpu_milli)| JobNeeds {
        gpus,
        gpu_milli,
        cpu_milli: 2_000,
        ..JobNeeds::ANY_MACHINE
    });
    let requests = needs.map(|needs| request_of(&needs).unwrap());
    let work = WorkloadProfile::of(&requests);
    let build = || Stock::new(machines.iter().map(|(id, it)| (*id, it)), &work);
    let (now, until) = (TimestampMs::new(1), TimestampMs::new(1_000));
    let mut stock = build();
    let mut holds = Vec::new();
    for index in 0..20_000_u32 {
        let offer = machines[index as usize % machines.len()].0;
        let request = requests[index as usize % requests.len()];
        let Some(room) = stock.room(&offer, &request, now, (now, until), None) else {
            continue;
        };
        let mut lease = [2; 32];
        lease[..4].copy_from_slice(&index.to_be_bytes());
        let hold = Hold {
            lease: LeaseId::new(lease),
            offer,
            devices: room.devices,
            partition: room.partition,
            request,
            from: now,
            until,
        };
        stock.take(&hold, now).unwrap();
        holds.push(hold);
    }
    let started = Instant::now();
    let mut again = build();
    for hold in &holds {
        again.take(hold, now).unwrap();
    }
    let built = started.elapsed();
    assert_eq!(again, stock);
    let started = Instant::now();
    let prices = again.packing_prices(std::iter::empty());
    println!(
        "the ledger's stock at 100,000 gpus with {} leases: rebuilt in {} ms, prices of a block in {} us",
        holds.len(),
        built.as_millis(),
        started.elapsed().as_micros(),
    );
    drop(prices);
}

fn main() {
    stock();
    auction();
    let (trace, source) = base_trace();
    println!("{source}");
    let mut rates: Vec<f64> = (0..3).map(|_| run("1x", &trace)).collect();
    rates.sort_by(f64::total_cmp);
    println!("1x median {:.0}/s", rates[1]);
    let sixteen = trace.cloned(16);
    let mut rates: Vec<f64> = (0..3).map(|_| run("16x", &sixteen)).collect();
    rates.sort_by(f64::total_cmp);
    println!("16x median {:.0}/s", rates[1]);
}

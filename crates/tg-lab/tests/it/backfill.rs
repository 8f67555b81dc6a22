#![allow(clippy::unwrap_used, reason = "tests")]

//! Which machines are held back for a job that waited long enough.

use std::cell::Cell;

use tg_lab::synthetic::{Draws, Variety, numbered, synthetic_standing};
use tg_market::book::{Rates, Standing};
use tg_market::lane::backfill::{MACHINES_MAX, OFFERS_MAX, earliest};
use tg_market::packing::WorkloadProfile;
use tg_market::throughput::ThroughputMatrix;
use tg_market::view::request_of;
use tg_market::{Hold, JobDemand, Quote, Stock};
use tg_types::{
    Amount, DurationMs, GpuModel, JobClass, JobNeeds, LeaseId, Machine, OfferTerms, Pricing,
    TimestampMs, VerificationMode,
};

/// A machine with two GPUs that asks `second` for a second of one.
fn machine_of_two(draws: &mut Draws, number: u64, second: u128) -> Standing {
    let drawn = synthetic_standing(draws, Variety::Alike, number);
    Standing {
        terms: OfferTerms {
            pricing: Pricing::Fixed,
            price_per_gpu_second: Amount::new(second),
            machine: Machine {
                gpu_count: 2,
                gpu: GpuModel::T4,
                gpu_memory_mib: 16_384,
                coordinate_us: [0, 0],
                ..drawn.terms.machine
            },
            ..drawn.terms
        },
        funds: Amount::new(1_000),
        ..drawn
    }
}

/// The machines that [`earliest`] chooses of `standings` for two GPUs on each of `gang` machines at `NOW`, where each runs a
/// lease for one GPU until its time, and at how many offers it looked.
fn chosen(standings: &[Standing], until: &[u64], gang: u16) -> (Vec<Quote>, usize) {
    let now = TimestampMs::new(1_000);
    let one = JobNeeds {
        gpus: 1,
        gpu_milli: 1_000,
        ..JobNeeds::ANY_MACHINE
    };
    let machines = standings.iter().map(|it| (it.offer, &it.terms.machine));
    let mut stock = Stock::new(machines, &WorkloadProfile::new());
    for (number, (standing, until)) in (0..).zip(standings.iter().zip(until)) {
        let hold = Hold {
            lease: LeaseId::new(numbered(4, number)),
            offer: standing.offer,
            devices: 1,
            partition: None,
            request: request_of(&one).unwrap(),
            from: now,
            until: TimestampMs::new(*until),
        };
        stock.take(&hold, now).unwrap();
    }
    let needs = JobNeeds {
        gpus: 2,
        gang,
        neighbourhood_us: 10,
        reference: DurationMs::from_secs(60),
        ..one
    };
    let demand = JobDemand {
        macs: 0,
        memory_bytes: 0,
        mode: VerificationMode::Proof,
        stake_min: Amount::ZERO,
        max_price: Amount::new(1 << 100),
        now,
        deadline: TimestampMs::new(1 << 50),
        spare: DurationMs::ZERO,
        excluded: &[],
        tie_seed: [7; 32],
        needs: &needs,
        stock: Some(&stock),
        prices: None,
        start: now,
        lease_factor: 3,
        lease_grace: DurationMs::from_secs(20),
    };
    let throughput = ThroughputMatrix::default();
    let rates = Rates {
        class_prices: &[Amount::ZERO; GpuModel::ALL.len()],
        throughput: &throughput,
    };
    let looked = Cell::new(0);
    let views = standings.iter().map(|it| {
        looked.set(looked.get() + 1);
        it.view(JobClass::Inference, &rates)
    });
    let quotes = earliest(&demand, views, &|_| Amount::ZERO);
    (quotes, looked.get())
}

#[test]
fn the_machine_that_is_free_first_is_held_back_and_of_equals_the_cheapest() {
    let mut draws = Draws::new(5);
    let asks = [100, 100, 90, 80];
    let standings: Vec<Standing> = (0..)
        .zip(asks)
        .map(|(number, ask)| machine_of_two(&mut draws, number, ask))
        .collect();
    let until = [9_000, 5_000, 5_000, 7_000];
    let (quotes, _) = chosen(&standings, &until, 1);
    let got: Vec<_> = quotes.iter().map(|it| (it.offer, it.start.get())).collect();
    assert_eq!(got, [(standings[2].offer, 5_001)]);
    // A gang of three begins when the third machine is free.
    let (quotes, _) = chosen(&standings, &until, 3);
    let mut got: Vec<_> = quotes.iter().map(|it| it.offer).collect();
    got.sort_unstable();
    let mut expected = vec![standings[1].offer, standings[2].offer, standings[3].offer];
    expected.sort_unstable();
    assert_eq!(got, expected);
    assert!(
        quotes
            .iter()
            .all(|it| it.start.get() == 7_001 && it.devices == 3)
    );
    assert_eq!(chosen(&standings, &until, 5).0, []);
}

#[test]
fn of_many_machines_few_are_looked_at() {
    let mut draws = Draws::new(6);
    let standings: Vec<Standing> = (0..3 * OFFERS_MAX as u64)
        .map(|number| machine_of_two(&mut draws, number, 100))
        .collect();
    let until: Vec<u64> = (0..standings.len() as u64).map(|at| 100_000 - at).collect();
    let (quotes, looked) = chosen(&standings, &until, 1);
    assert_eq!(looked, MACHINES_MAX);
    assert_eq!(quotes[0].offer, standings[MACHINES_MAX - 1].offer);
    // Where none suits, a bounded number of offers tells so; they come at another one in the next block.
    let poor: Vec<Standing> = standings
        .iter()
        .map(|it| Standing {
            funds: Amount::ZERO,
            ..it.clone()
        })
        .collect();
    assert_eq!(chosen(&poor, &until, 1), (vec![], OFFERS_MAX));
}

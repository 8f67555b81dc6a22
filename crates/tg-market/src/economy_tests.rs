#![allow(clippy::unwrap_used, reason = "tests")]

//! Prices, reputation, speed tables, turns, and what is expected of the work to come.

use proptest::prelude::*;
use tg_types::{Amount, DurationMs, TimestampMs};

use crate::cluster::{Request, WHOLE_GPU};
use crate::lane::queue::{PRIORITY_MAX, TURN_TIME_BASE, Waiting};
use crate::packing::{Learner, WorkloadProfile};
use crate::pricing::{DynamicPrice, Load, STEP_MAX_PPM};
use crate::reputation::{LeaseOutcome, Reputation, ReputationLevel};
use crate::throughput::{Correction, GpuClass, ThroughputMatrix, WorkKind, duration_on};
use tg_lab::synthetic::Draws;

const fn amount(units: u64) -> Amount {
    Amount::new(units as u128)
}

const fn hours(count: u64) -> TimestampMs {
    TimestampMs::new(count * 3_600_000)
}

/// The price after each block when demand of `elasticity` steps from `before` to `after` units at price 1,000,000.
fn run_of_prices(elasticity: u32, before: u64, after: u64, blocks: u32) -> Vec<u128> {
    let mut price = DynamicPrice::new(amount(1_000_000), amount(1_000), amount(1 << 40));
    let mut run = Vec::new();
    for block in 0..blocks {
        let mut wanted = u128::from(if block < blocks / 2 { before } else { after });
        for _ in 0..elasticity {
            wanted = wanted * 1_000_000 / price.price().get();
        }
        let wanted = u64::try_from(wanted).unwrap();
        price.step(&Load {
            capacity: 1_000_000,
            used: wanted.min(1_000_000),
            queued: wanted.saturating_sub(1_000_000),
        });
        run.push(price.price().get());
    }
    run
}

#[test]
fn steps_of_load_up_and_down_are_followed_without_oscillation() {
    for elasticity in [1, 2, 4, 8] {
        for (before, after) in [
            (850_000, 1_700_000),
            (850_000, 425_000),
            (1_200_000, 600_000),
        ] {
            let run = run_of_prices(elasticity, before, after, 3_000);
            for half in [&run[..1_500], &run[1_500..]] {
                let up = half.windows(2).filter(|it| it[1] > it[0]).count();
                let down = half.windows(2).filter(|it| it[1] < it[0]).count();
                assert!(
                    up == 0 || down == 0,
                    "{elasticity} {before} {after}: {up} up {down} down"
                );
                assert_eq!(
                    half[1_400..].iter().min(),
                    half[1_400..].iter().max(),
                    "it rests"
                );
            }
            for pair in run.windows(2) {
                let most = pair[0] * u128::from(STEP_MAX_PPM) / 1_000_000 + 1;
                assert!(pair[0].abs_diff(pair[1]) <= most);
            }
        }
    }
}

#[test]
fn ratings_move_the_posterior_a_little_and_cost_money() {
    let one = Amount::from_tgrid(10);
    let ppm = |it: &Reputation| it.failure_ppm(Amount::ZERO, one);
    let fresh = Reputation::default();
    let rated = |stars, spent| {
        let mut it = fresh;
        it.rate(stars, spent);
        it
    };
    // Ten tokens of praise are one success: 2 failures of 5 outcomes; of blame one failure: 3 of 5.
    assert_eq!(ppm(&rated(5, one)), 400_000);
    assert_eq!(ppm(&rated(1, one)), 600_000);
    assert_eq!(ppm(&rated(3, one)), 500_000);
    assert_eq!(
        ppm(&rated(5, Amount::new(1))),
        500_000,
        "cheap praise is nothing"
    );
    let most = ppm(&rated(5, Amount::from_tgrid(80)));
    assert_eq!(
        ppm(&rated(5, Amount::from_tgrid(1_000_000))),
        most,
        "capped"
    );
    // Bought ratings do not make a liar good.
    let mut liar = rated(5, Amount::from_tgrid(1_000_000));
    for _ in 0..3 {
        liar.observe(LeaseOutcome::Rejected);
    }
    assert_eq!(liar.standing(Amount::ZERO, one), ReputationLevel::Removed);
    // Bad ratings alone remove nobody: there is no failed lease.
    let disliked = rated(1, Amount::from_tgrid(1_000_000));
    assert_eq!(
        disliked.standing(Amount::ZERO, one),
        ReputationLevel::Regular
    );
}

#[test]
fn worse_outcomes_weigh_more() {
    let one = Amount::from_tgrid(10);
    let after = |outcome| {
        let mut it = Reputation::default();
        it.observe(outcome);
        it.failure_ppm(Amount::ZERO, one)
    };
    let order = [
        LeaseOutcome::Accepted,
        LeaseOutcome::Late,
        LeaseOutcome::Lost,
        LeaseOutcome::Rejected,
    ];
    let ppm = order.map(after);
    assert!(
        ppm.is_sorted() && ppm[0] < ppm[1] && ppm[2] < ppm[3],
        "{ppm:?}"
    );
}

#[test]
fn the_matrix_learns_each_class_and_model_apart() {
    let mut matrix = ThroughputMatrix::default();
    let t4 = DurationMs::from_secs(1_000);
    let table = |gpu, kind| duration_on(gpu, kind, t4, &Correction::default());
    let (gpu, kind) = (GpuClass::H100, WorkKind::Training);
    let told = |matrix: &ThroughputMatrix, gpu, kind| {
        duration_on(gpu, kind, t4, &matrix.correction(gpu, kind))
    };
    assert_eq!(told(&matrix, gpu, kind), table(gpu, kind));
    let real = DurationMs::new(table(gpu, kind).get() * 2);
    for _ in 0..200 {
        matrix.learn(gpu, kind, t4, real);
    }
    let learned = told(&matrix, gpu, kind);
    assert!(
        learned.get().abs_diff(real.get()) * 50 < real.get(),
        "{learned:?}"
    );
    assert_eq!(
        told(&matrix, gpu, WorkKind::Generation),
        table(gpu, WorkKind::Generation)
    );
    assert_eq!(
        told(&matrix, GpuClass::H200, kind),
        table(GpuClass::H200, kind)
    );
    // One receipt moves a sixteenth of the way, however absurd.
    let before = matrix.correction(gpu, kind).milli();
    matrix.learn(gpu, kind, t4, DurationMs::new(u64::MAX));
    let after = matrix.correction(gpu, kind).milli();
    assert!(before > after && (before - after) * 16 <= before + 16);
}

#[test]
fn the_table_orders_models_as_their_data_sheets_do() {
    let rates = |kind: WorkKind| GpuClass::ALL.map(|gpu| gpu.relative_milli(kind));
    for kind in [
        WorkKind::IntegerInference,
        WorkKind::Generation,
        WorkKind::Training,
    ] {
        assert_eq!(GpuClass::T4.relative_milli(kind), 1_000);
        let most = *rates(kind).iter().max().unwrap();
        assert_eq!(GpuClass::H200.relative_milli(kind), most);
    }
    // A100 against V100: 624 to 56 TOPS int8, 312 to 112 TFLOPS, 1,555 to 900 GB/s.
    let ratio = |kind| {
        let rate = |gpu: GpuClass| u64::from(gpu.relative_milli(kind));
        rate(GpuClass::A100M40) * 100 / rate(GpuClass::V100)
    };
    assert_eq!(ratio(WorkKind::IntegerInference), 1_116);
    assert_eq!(ratio(WorkKind::Training), 278);
    assert_eq!(ratio(WorkKind::Generation), 172);
}

fn waiting(job: u64, price: u64, priority: u8, since: TimestampMs) -> Waiting {
    Waiting {
        job,
        price: amount(price),
        priority,
        since,
        expected: DurationMs::ZERO,
    }
}

#[test]
fn a_turn_weighs_pay_against_the_time_it_takes() {
    let now = hours(1);
    let minutes = |count: u64| DurationMs::new(count * 60_000);
    let turn = |price, priority, expected| {
        let it = waiting(0, price, priority, now);
        Waiting { expected, ..it }.turn(now)
    };
    // Twice the time for the same pay goes later, twice the pay or twice the priority makes up for it.
    assert!(turn(100, 1, minutes(10)) < turn(100, 1, minutes(30)));
    assert_eq!(turn(100, 1, minutes(10)), turn(200, 1, minutes(30)));
    assert_eq!(turn(100, 1, minutes(10)), turn(100, 2, minutes(30)));
    // Priority beyond the largest is none, and no time at all is not infinitely good.
    assert_eq!(
        turn(100, 200, minutes(5)),
        turn(100, PRIORITY_MAX, minutes(5))
    );
    assert_eq!(turn(100, 1, DurationMs::ZERO), turn(200, 1, TURN_TIME_BASE));
    // Extremes do not overflow.
    let extreme = Waiting {
        price: Amount::MAX,
        ..waiting(1, 1, 8, TimestampMs::new(u64::MAX))
    };
    let extreme = Waiting {
        expected: DurationMs::new(u64::MAX),
        ..extreme
    };
    let _ = extreme.turn(TimestampMs::new(u64::MAX));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn nobody_starves_by_time_either(seed: u64, rivals in 1_u64..4, expected_h in 1_u64..20) {
        // A long cheap job; every hour one job is served and `rivals` short rich ones arrive.
        let mut draws = Draws::new(seed);
        let expected = DurationMs::new(expected_h * 3_600_000);
        let long = Waiting { expected, ..waiting(0, 1, 1, hours(0)) };
        let mut queue = vec![long];
        let mut next = 1;
        let mut served_at = None;
        for now in 0..4_000 {
            for _ in 0..rivals {
                let rich = waiting(next, 1_000 + draws.below(1_000), 8, hours(now));
                queue.push(Waiting { expected: DurationMs::new(60_000), ..rich });
                next += 1;
            }
            let first = (0..queue.len())
                .min_by_key(|at| queue[*at].turn(hours(now)))
                .unwrap();
            if queue.swap_remove(first).job == 0 {
                served_at = Some(now);
                break;
            }
        }
        // When its time has come, those whose time came before go before it: at most all that came until then, one an hour.
        let bound = long.patience().get() / 3_600_000 + 1;
        let before = rivals * bound;
        prop_assert!(served_at.is_some_and(|at| at <= bound + before), "{served_at:?}");
    }

    #[test]
    fn turns_are_a_total_order(seed: u64, jobs in 2_usize..20) {
        let mut draws = Draws::new(seed);
        let list: Vec<Waiting> = (0..jobs as u64)
            .map(|job| {
                let since = TimestampMs::new(draws.below(80 * 3_600_000));
                let one = waiting(job, draws.below(20), 1 + draws.below(8) as u8, since);
                Waiting { expected: DurationMs::new(draws.below(4) * 3_600_000), ..one }
            })
            .collect();
        let now = hours(80);
        let order = |list: &[Waiting]| {
            let mut sorted = list.to_vec();
            sorted.sort_by_key(|job| job.turn(now));
            sorted.into_iter().map(|job| job.job).collect::<Vec<u64>>()
        };
        let mut other = list.clone();
        other.reverse();
        other.rotate_left(seed as usize % jobs);
        prop_assert_eq!(order(&list), order(&other));
    }
}

#[test]
fn learning_is_due_ever_more_rarely() {
    let request = Request::new(1_000, 0, 1, WHOLE_GPU).unwrap();
    let mut learner = Learner::new(WorkloadProfile::new());
    let mut due = Vec::new();
    for seen in 1..200 {
        learner.observe(&request);
        if learner.due() {
            due.push(seen);
        }
    }
    assert_eq!(due[..4], [8, 11, 14, 18]);
    assert!(due.len() < 20, "{due:?}");
    assert!(!learner.due(), "once each time");
}

#![allow(clippy::unwrap_used, reason = "tests")]

//! Prices, reputation, speed tables, turns, what is expected of the work to come, and whole runs with departures.

use proptest::prelude::*;
use tg_types::{Amount, DurationMs, TimestampMs};

use crate::baseline::Policy;
use crate::cluster::{Cluster, ModelSet, Request, WHOLE_GPU};
use crate::compare::{Comparison, compare};
use crate::lane::queue::{PRIORITY_MAX, TURN_TIME_BASE, Waiting};
use crate::packing::{Learner, PackingScheduler, WorkloadProfile};
use crate::pricing::{DynamicPrice, Load, STEP_MAX_PPM};
use crate::reputation::{LeaseOutcome, Reputation, Standing};
use crate::simulate::{Outcome, simulate, simulate_knowing};
use crate::synthetic::{Draws, synthetic_node, synthetic_request, synthetic_trace};
use crate::throughput::{Correction, GpuClass, ThroughputMatrix, WorkKind, duration_on};
use crate::trace::{Trace, TraceJob, TraceNode, write_placements};

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
    assert_eq!(liar.standing(Amount::ZERO, one), Standing::Removed);
    // Bad ratings alone remove nobody: there is no failed lease.
    let disliked = rated(1, Amount::from_tgrid(1_000_000));
    assert_eq!(disliked.standing(Amount::ZERO, one), Standing::Regular);
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

    #[test]
    fn learning_anew_forgets_no_allocation(seed: u64, nodes in 1_u64..12) {
        let mut draws = Draws::new(seed);
        let specs: Vec<_> = (0..nodes).map(|_| synthetic_node(&mut draws)).collect();
        let mut learner = Learner::new(WorkloadProfile::prior(&specs, 2));
        let mut scheduler = PackingScheduler::new(Cluster::new(specs.clone()), learner.profile(), seed);
        let mut held = Vec::new();
        for _ in 0..60 {
            let request = synthetic_request(&mut draws);
            if learner.due() {
                let before = scheduler.cluster().clone();
                scheduler.learn(learner.profile());
                prop_assert!(*scheduler.cluster() == before);
                // Learned anew or built anew from the same state: the same answer.
                let mut built = PackingScheduler::new(before, learner.profile(), seed);
                prop_assert_eq!(scheduler.best(&request), built.best(&request));
            }
            learner.observe(&request);
            held.extend(scheduler.place(&request));
        }
        for allocation in &held {
            scheduler.release(allocation);
        }
        prop_assert!(*scheduler.cluster() == Cluster::new(specs));
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

#[test]
fn the_prior_knows_the_machines_and_nothing_else() {
    let mut draws = Draws::new(3);
    let specs: Vec<_> = (0..50).map(|_| synthetic_node(&mut draws)).collect();
    let kinds: std::collections::BTreeSet<(u8, u8)> = specs
        .iter()
        .map(|it| (it.gpu.model, it.gpu_count))
        .collect();
    let plain = WorkloadProfile::prior(&specs, 2).weights();
    assert_eq!(plain.len(), kinds.len());
    for (class, _) in &plain {
        assert_eq!((class.gpus, class.gpu_milli), (1, WHOLE_GPU));
        let models: Vec<u8> = (0..64)
            .filter(|it| class.needs.models.contains(*it))
            .collect();
        assert_eq!(models.len(), 1);
    }
    let gangs = WorkloadProfile::prior_with_gangs(&specs, 2, 2).weights();
    assert!(
        gangs
            .iter()
            .any(|(class, _)| class.gpus == 8 && class.needs.models == ModelSet::ANY)
    );
    let mut other = specs;
    other.reverse();
    assert_eq!(WorkloadProfile::prior(&other, 2).weights(), plain);
    assert!(WorkloadProfile::prior(&[], 2).is_empty());
}

#[test]
fn knowing_the_future_is_hardly_better_than_learning() {
    let trace = synthetic_trace(19, 100, 1_300);
    let used = |placements: &[_]| Outcome::of(&trace, placements).series.last().unwrap().1;
    let learned = used(&simulate(&trace, Policy::Tensorgrid, 1));
    let known = used(&simulate_knowing(&trace, 1));
    assert!(learned * 100 >= known * 98, "{learned} of {known}");
}

#[test]
fn the_future_does_not_change_the_past() {
    // What comes later has no influence on where the first jobs go: the rule reads no work to come.
    let trace = synthetic_trace(23, 60, 700);
    let mut shorter = trace.clone();
    shorter.jobs.truncate(350);
    let all = simulate(&trace, Policy::Tensorgrid, 5);
    let first = simulate(&shorter, Policy::Tensorgrid, 5);
    assert_eq!(all[..350], first[..]);
}

#[test]
fn neither_the_order_of_machines_nor_threads_change_a_placement() {
    let header = "sn,cpu_milli,memory_mib,gpu,model";
    let lines: Vec<String> = (0..40)
        .map(|at| {
            format!(
                "n{at:02},{},262144,{},M{}",
                64_000,
                [2, 4, 8][at % 3],
                at % 4
            )
        })
        .collect();
    let mut jobs = String::from("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n");
    let mut draws = Draws::new(8);
    for job in 0..400 {
        let (gpus, milli) = *draws.pick(&[(1, 1_000), (1, 470), (1, 810), (2, 1_000), (8, 1_000)]);
        let spec = *draws.pick(&["", "", "M1", "M2|M3"]);
        jobs += &format!("j{job},{},4096,{gpus},{milli},{spec}\n", 4_000 * gpus);
    }
    let placed = |by: usize| {
        let mut lines = lines.clone();
        lines.rotate_left(by);
        if by % 2 == 1 {
            lines.reverse();
        }
        let nodes = format!("{header}\n{}\n", lines.join("\n"));
        let trace = Trace::parse(&nodes, &jobs).unwrap();
        write_placements(&trace, &simulate(&trace, Policy::Tensorgrid, 4))
    };
    let one = placed(0);
    assert!(one.lines().filter(|line| line.ends_with(",,")).count() < 400);
    std::thread::scope(|scope| {
        let running: Vec<_> = [1, 7, 13, 22]
            .map(|by| scope.spawn(move || placed(by)))
            .into_iter()
            .collect();
        for it in running {
            assert_eq!(it.join().unwrap(), one);
        }
    });
}

/// One machine of two GPUs; single jobs that overlap for ever, and one job for both GPUs.
fn crowded(singles: u64) -> Trace {
    let mut draws = Draws::new(1);
    let mut spec = synthetic_node(&mut draws);
    while spec.gpu_count != 2 {
        spec = synthetic_node(&mut draws);
    }
    let job = |name: String, gpus, arrival_s, duration_s| TraceJob {
        name,
        request: Request::new(1_000, 0, gpus, WHOLE_GPU).unwrap(),
        arrival_s,
        duration_s,
    };
    // Each runs for an hour, one starts every half an hour: one of the two GPUs is always taken, the other never long
    // free together with it.
    let mut jobs: Vec<TraceJob> = (0..singles)
        .map(|at| job(format!("single-{at}"), 1, at * 1_800, 3_600))
        .collect();
    jobs.push(job("gang".to_owned(), 2, 900, 600));
    let node = TraceNode {
        name: "n".to_owned(),
        spec,
        position: 0,
    };
    Trace {
        nodes: vec![node],
        jobs,
    }
}

#[test]
fn a_gang_is_not_starved_by_a_stream_of_single_jobs() {
    let longest = |policy, singles| {
        let result = compare(&crowded(singles), policy, 1);
        assert_eq!(u64::from(result.served), singles + 1);
        result.wait_s(1_000)
    };
    // Whoever lets everybody pass keeps the gang waiting as long as the stream is.
    assert!(longest(Policy::BestFit, 100) > 100 * 1_700);
    let (short, long) = (
        longest(Policy::Tensorgrid, 100),
        longest(Policy::Tensorgrid, 400),
    );
    assert!(short <= 4 * 3_600 && long <= 4 * 3_600, "{short} {long}");
}

#[test]
fn runs_with_departures_add_up_under_every_rule() {
    let mut trace = synthetic_trace(33, 10, 400);
    for job in &mut trace.jobs {
        job.duration_s /= 10;
    }
    let most: u128 = trace
        .jobs
        .iter()
        .map(|job| 4 * u128::from(job.request.gpu_milli_total()) * u128::from(job.duration_s))
        .sum();
    let mut pooled: Option<Comparison> = None;
    for policy in Policy::ALL {
        let result = compare(&trace, policy, 2);
        assert_eq!(result.served + result.impossible, 400, "{policy:?}");
        assert!(result.waits_s.is_sorted());
        assert!(result.late <= result.served && result.revenue_milli <= most);
        assert!(result.idle_milli_s <= result.capacity_milli_s);
        assert!(result.idle_while_waiting_ppm() <= 1_000_000);
        assert_eq!(compare(&trace, policy, 2), result, "the same run twice");
        pooled = Some(match pooled {
            None => result,
            Some(sum) => {
                let (served, late) = (sum.served + result.served, sum.late + result.late);
                let both = sum.pooled(result);
                assert_eq!((both.served, both.late), (served, late));
                assert_eq!(both.waits_s.len(), served as usize);
                both
            }
        });
    }
    assert!(pooled.is_some_and(|it| it.waits_s.is_sorted() && it.wait_s(0) <= it.wait_s(1_000)));
}

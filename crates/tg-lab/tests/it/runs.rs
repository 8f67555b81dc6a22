#![allow(clippy::unwrap_used, reason = "tests")]

//! Traces, and whole runs of them with and without departures.

use proptest::prelude::*;

use tg_lab::baseline::Policy;
use tg_lab::compare::{Comparison, compare};
use tg_lab::simulate::{Outcome, simulate, simulate_knowing};
use tg_lab::synthetic::{Draws, synthetic_node, synthetic_trace};
use tg_lab::trace::{Trace, TraceError, TraceJob, TraceNode, write_placements};
use tg_market::cluster::{Request, RequestError, WHOLE_GPU};

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
fn a_job_for_a_whole_machine_waits_while_single_jobs_come() {
    // Without machines held back whoever needs two GPUs at once waits as long as the stream is, however early its turn. A block
    // holds them back (`tests/starvation.rs` of tg-ledger); this simulation has no ends of leases to do it by.
    let longest = |policy| {
        let result = compare(&crowded(100), policy, 1);
        assert_eq!(result.served, 101);
        result.wait_s(1_000)
    };
    assert!(longest(Policy::BestFit) > 100 * 1_700);
    assert!(longest(Policy::Tensorgrid) > 100 * 1_700);
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_text_is_a_trace_or_an_error(nodes in "[a-z0-9,\n.|-]{0,200}", jobs in "[a-z0-9,\n.|-]{0,200}") {
        let nodes = format!("sn,cpu_milli,memory_mib,gpu,model\n{nodes}");
        let jobs = format!("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n{jobs}");
        if let Ok(trace) = Trace::parse(&nodes, &jobs) {
            let placements = simulate(&trace, Policy::Tensorgrid, 1);
            prop_assert_eq!(placements.len(), trace.jobs.len());
        }
    }
}

#[test]
fn traces_are_read_and_placements_written() {
    let nodes = "sn,cpu_milli,memory_mib,gpu,model\nb,8000,1000,2,T4\na,4000,1000,0,\n";
    let jobs = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n\
                cpu,3000,10,0,0,\nshare,1000,10,1,500,T4|P100\ngang,1000,10,2,1000,\nodd,1.0,10,1,100,X9\n";
    let trace = Trace::parse(nodes, jobs).unwrap();
    assert_eq!(
        (trace.nodes[0].name.as_str(), trace.nodes[0].position),
        ("a", 1)
    );
    let placements = simulate(&trace, Policy::Tensorgrid, 1);
    let text = write_placements(&trace, &placements);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "pod,node,gpus");
    assert!(lines[1] == "cpu,a," || lines[1] == "cpu,b,");
    assert!(lines[2] == "share,b,0");
    assert_eq!(lines[3..], ["gang,,", "odd,,"]);
}

#[test]
fn bad_traces_name_the_line() {
    let nodes = "sn,cpu_milli,memory_mib,gpu,model\n";
    let jobs = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n";
    let check = |nodes: &str, jobs: &str, expected: TraceError| {
        assert_eq!(Trace::parse(nodes, jobs), Err(expected));
    };
    check("sn,gpu\n", jobs, TraceError::NoColumn("cpu_milli"));
    let line = 2;
    check(
        &format!("{nodes}a,1\n"),
        jobs,
        TraceError::NoField {
            line,
            column: "model",
        },
    );
    let column = "gpu";
    check(
        &format!("{nodes}a,1,1,9,T4\n"),
        jobs,
        TraceError::NoNumber { line, column },
    );
    check(
        &format!("{nodes},1,1,1,T4\n"),
        jobs,
        TraceError::BadName { line },
    );
    let twice = format!("{nodes}a,1,1,1,T4\na,1,1,1,T4\n");
    check(&twice, jobs, TraceError::BadName { line: 3 });
    let column = "cpu_milli";
    check(
        nodes,
        &format!("{jobs}j,1.5,1,1,10\n"),
        TraceError::NoNumber { line, column },
    );
    let source = RequestError::BadShare { got: 10, gpus: 2 };
    check(
        nodes,
        &format!("{jobs}j,1,1,2,10\n"),
        TraceError::BadRequest { line, source },
    );
    let many: String = (0..65).map(|it| format!("n{it},1,1,1,M{it}\n")).collect();
    check(&format!("{nodes}{many}"), jobs, TraceError::TooManyModels);
}

#[test]
fn every_rule_places_validly_and_ours_places_most() {
    let trace = synthetic_trace(7, 120, 1_400);
    let used = |policy: Policy| {
        let placements = simulate(&trace, policy, 3);
        let outcome = Outcome::of(&trace, &placements);
        assert_eq!(outcome.needless, 0, "{policy:?}");
        assert_eq!(simulate(&trace, policy, 3), placements, "{policy:?}");
        outcome.series.last().unwrap().1
    };
    let ours = used(Policy::Tensorgrid);
    for policy in Policy::ALL {
        assert!(used(policy) <= ours + ours / 200, "{policy:?}");
        assert_eq!(Policy::parse(policy.as_str()), Some(policy));
    }
    assert_eq!(Policy::parse("best"), None);
}

#[test]
fn everybody_is_served_in_the_end_and_ours_earns_more_than_strict_order() {
    let mut trace = synthetic_trace(21, 12, 600);
    for job in &mut trace.jobs {
        job.duration_s /= 20;
    }
    let run = |policy| compare(&trace, policy, 1);
    let ours = run(Policy::Tensorgrid);
    let strict = run(Policy::Fifo);
    for result in [&ours, &strict] {
        assert_eq!(result.served + result.impossible, 600);
        assert_eq!(result.waits_s.len(), result.served as usize);
        assert!(result.wait_s(500) <= result.wait_s(990));
    }
    assert!(ours.revenue_milli > strict.revenue_milli);
    assert!(ours.late < strict.late);
    assert_eq!(
        run(Policy::Tensorgrid),
        ours,
        "the same input gives the same run"
    );
}

//! Arrivals and departures by the timestamps of a trace, under each placement rule: waits, deadlines, revenue.
//!
//! A job that does not fit waits. `fifo` serves strictly in order: nobody overtakes the first job that waits. The
//! other baselines serve any job that fits, in order of arrival. `tensorgrid` serves by [`crate::lane::queue`]: paid
//! priority that ages; here all pay alike but for a priority of 1 to 4 drawn from a hash of the job. For the first job
//! that has waited so long that only its age counts and still does not fit, it keeps the machine free on which the job
//! fits first: gangs do not starve.
//!
//! Deadlines and prices are not in the trace: a job is due after its duration and half of it more (at least ten
//! minutes more), pays for each GPU second times its priority if it is done by then, and nothing if it is late.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use tg_types::{Amount, TimestampMs};

use crate::baseline::{BaselineScheduler, Policy};
use crate::cluster::{Allocation, Cluster, NodeIndex, Request};
use crate::lane::queue::{AGE_FULL, Waiting};
use crate::packing::shape::mix;
use crate::packing::{PackingScheduler, WorkloadProfile};
use crate::trace::Trace;

/// What came of one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// The rule.
    pub policy: Policy,
    /// Jobs that ran.
    pub served: u32,
    /// Jobs that no empty machine can take.
    pub impossible: u32,
    /// Waits of the jobs that ran, in seconds, rising.
    pub waits_s: Vec<u64>,
    /// Jobs that ended after they were due.
    pub late: u32,
    /// Paid GPU seconds times priority, in thousandths.
    pub revenue_milli: u128,
    /// GPU compute that was idle while jobs with GPUs waited, in thousandths of a per cent of the capacity, as a mean
    /// over the time in which any waited.
    pub idle_while_waiting_ppm: u64,
}

impl Comparison {
    /// The wait that `permille` of the jobs do not exceed, in seconds.
    #[must_use]
    pub fn wait_s(&self, permille: usize) -> u64 {
        let last = self.waits_s.len().saturating_sub(1);
        let at = last * permille.min(1_000) / 1_000;
        self.waits_s.get(at).copied().unwrap_or(0)
    }
}

enum Placer {
    Packing(Box<PackingScheduler>),
    Baseline(Box<(Cluster, BaselineScheduler)>),
}

impl Placer {
    fn new(trace: &Trace, policy: Policy, seed: u64) -> Self {
        let cluster = Cluster::new(trace.specs());
        let requests = trace.requests();
        if policy == Policy::Tensorgrid {
            let profile = WorkloadProfile::of(&requests);
            return Self::Packing(Box::new(PackingScheduler::new(cluster, &profile, seed)));
        }
        let positions = trace.positions();
        let baseline = BaselineScheduler::new(&cluster, policy, seed, positions, &requests);
        Self::Baseline(Box::new((cluster, baseline)))
    }

    fn cluster(&self) -> &Cluster {
        match self {
            Self::Packing(scheduler) => scheduler.cluster(),
            Self::Baseline(pair) => &pair.0,
        }
    }

    fn place(&mut self, request: &Request) -> Option<Allocation> {
        match self {
            Self::Packing(scheduler) => {
                let placed = scheduler.place(request);
                let mark = scheduler.mark();
                scheduler.make_final(mark);
                placed
            }
            Self::Baseline(pair) => {
                let (cluster, baseline) = &mut **pair;
                let (node, devices) = baseline.best(cluster, request)?;
                let allocation = cluster.allocate(node, devices, request).ok()?;
                baseline.node_changed(node);
                Some(allocation)
            }
        }
    }

    fn release(&mut self, allocation: &Allocation) {
        match self {
            Self::Packing(scheduler) => {
                scheduler.release(allocation);
                let mark = scheduler.mark();
                scheduler.make_final(mark);
            }
            Self::Baseline(pair) => {
                pair.0.release(allocation);
                pair.1.node_changed(allocation.node());
            }
        }
    }
}

/// Runs the jobs of `trace` by `policy`; jobs arrive in the order of their times.
#[must_use]
pub fn compare(trace: &Trace, policy: Policy, seed: u64) -> Comparison {
    let mut run = Run::new(trace, policy, seed);
    let mut order: Vec<usize> = (0..trace.jobs.len()).collect();
    order.sort_by_key(|at| (trace.jobs[*at].arrival_s, *at));
    for at in order {
        let now = trace.jobs[at].arrival_s;
        run.end_jobs_until(now);
        run.advance(now);
        run.arrive(at);
        run.serve();
    }
    run.end_jobs_until(u64::MAX);
    run.finish()
}

struct Run<'a> {
    trace: &'a Trace,
    placer: Placer,
    /// Jobs that run: end, number.
    running: BinaryHeap<Reverse<(u64, usize)>>,
    held: BTreeMap<usize, Allocation>,
    waiting: Vec<usize>,
    /// What keeps a machine free for a job that waited long.
    block: Option<Allocation>,
    now: u64,
    waited_s: u128,
    idle: u128,
    result: Comparison,
}

impl<'a> Run<'a> {
    fn new(trace: &'a Trace, policy: Policy, seed: u64) -> Self {
        Self {
            trace,
            placer: Placer::new(trace, policy, seed),
            running: BinaryHeap::new(),
            held: BTreeMap::new(),
            waiting: Vec::new(),
            block: None,
            now: 0,
            waited_s: 0,
            idle: 0,
            result: Comparison {
                policy,
                served: 0,
                impossible: 0,
                waits_s: Vec::new(),
                late: 0,
                revenue_milli: 0,
                idle_while_waiting_ppm: 0,
            },
        }
    }

    fn advance(&mut self, now: u64) {
        let gpus_wait = |at: &usize| self.trace.jobs[*at].request.gpus() > 0;
        if now > self.now && self.waiting.iter().any(gpus_wait) {
            let span = u128::from(now - self.now);
            let cluster = self.placer.cluster();
            let free: u64 = cluster
                .nodes()
                .map(|node| cluster.free(node).gpu_milli)
                .map(|gpus| gpus.iter().map(|it| u64::from(*it)).sum::<u64>())
                .sum();
            self.waited_s += span;
            self.idle += span * u128::from(free);
        }
        self.now = now;
    }

    fn end_jobs_until(&mut self, until: u64) {
        while let Some(Reverse((end, at))) = self.running.peek().copied() {
            if end > until {
                return;
            }
            self.advance(end);
            self.running.pop();
            if let Some(allocation) = self.held.remove(&at) {
                self.placer.release(&allocation);
            }
            self.serve();
        }
    }

    fn arrive(&mut self, at: usize) {
        let request = &self.trace.jobs[at].request;
        let cluster = self.placer.cluster();
        let kinds = cluster.kinds().filter(request);
        let could = |node: NodeIndex| {
            let spec = cluster.spec(node);
            kinds.contains(cluster.kind(node))
                && spec.cpu_milli >= request.cpu_milli()
                && spec.memory_mib >= request.memory_mib()
                && spec.gpu_count >= request.gpus()
        };
        if cluster.nodes().any(could) {
            self.waiting.push(at);
        } else {
            self.result.impossible += 1;
        }
    }

    fn serve(&mut self) {
        if let Some(block) = self.block.take() {
            self.placer.release(&block);
        }
        let mut order = std::mem::take(&mut self.waiting);
        if self.result.policy == Policy::Tensorgrid {
            let now = TimestampMs::new(self.now.saturating_mul(1_000));
            order.sort_by_cached_key(|at| self.as_waiting(*at).turn(now));
        }
        let mut blocked = false;
        // A request that did not fit fits no better a moment later.
        let mut refused: Vec<Request> = Vec::new();
        for at in order {
            let request = self.trace.jobs[at].request;
            let placed = if blocked || refused.contains(&request) {
                None
            } else {
                self.placer.place(&request)
            };
            match placed {
                Some(allocation) => self.start(at, allocation),
                None => {
                    blocked |= self.result.policy == Policy::Fifo;
                    self.keep_free_for(at);
                    if !refused.contains(&request) {
                        refused.push(request);
                    }
                    self.waiting.push(at);
                }
            }
        }
    }

    fn start(&mut self, at: usize, allocation: Allocation) {
        let job = &self.trace.jobs[at];
        let wait = self.now - job.arrival_s;
        let end = self.now.saturating_add(job.duration_s);
        self.result.served += 1;
        self.result.waits_s.push(wait);
        let slack = (job.duration_s / 2).max(600);
        if wait > slack {
            self.result.late += 1;
        } else {
            self.result.revenue_milli += u128::from(job.request.gpu_milli_total())
                * u128::from(job.duration_s)
                * u128::from(priority(at));
        }
        self.held.insert(at, allocation);
        self.running.push(Reverse((end, at)));
    }

    /// Keeps the machine free on which `at` fits first, if it waited long and no machine is kept free yet.
    fn keep_free_for(&mut self, at: usize) {
        let job = &self.trace.jobs[at];
        let aged = (self.now - job.arrival_s).saturating_mul(1_000) >= AGE_FULL.get();
        let Placer::Packing(scheduler) = &mut self.placer else {
            return;
        };
        if !aged || self.block.is_some() {
            return;
        }
        let mut later = scheduler.cluster().clone();
        let mut ends: Vec<(u64, usize)> = self.running.iter().map(|Reverse(it)| *it).collect();
        ends.sort_unstable();
        let freed = ends.iter().filter_map(|(_, at)| self.held.get(at));
        for allocation in freed {
            later.release(allocation);
            let node = allocation.node();
            if later.fits(node, &job.request) {
                let cpu_milli = scheduler.cluster().free(node).cpu_milli;
                if let Ok(all_cpu) = Request::new(cpu_milli, 0, 0, 0) {
                    self.block = scheduler.place_on(node, 0, &all_cpu);
                }
                return;
            }
        }
    }

    fn as_waiting(&self, at: usize) -> Waiting {
        Waiting {
            job: at as u64,
            price: Amount::new(1_000),
            priority: priority(at),
            since: TimestampMs::new(self.trace.jobs[at].arrival_s.saturating_mul(1_000)),
        }
    }

    fn finish(mut self) -> Comparison {
        self.result.waits_s.sort_unstable();
        let capacity = u128::from(self.placer.cluster().gpu_milli_capacity().max(1));
        let whole = (self.waited_s * capacity).max(1);
        self.result.idle_while_waiting_ppm = (self.idle * 1_000_000 / whole) as u64;
        self.result
    }
}

/// Priority of a job: 1 for most, up to 4.
fn priority(at: usize) -> u8 {
    match mix(at as u64) % 10 {
        0 => 4,
        1 | 2 => 2,
        _ => 1,
    }
}

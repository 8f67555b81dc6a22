//! Arrivals and departures by the timestamps of a trace, under each placement rule: waits, deadlines, revenue.
//!
//! A job that does not fit waits. `fifo` serves strictly in order: nobody overtakes the first job that waits. The
//! other baselines serve any job that fits, in order of arrival. `tensorgrid` is the ledger's lane of posted prices: all that
//! wait, in the order of [`tg_market::lane::queue::Waiting::turn`]; here all pay alike but for a priority of 1 to 4 drawn from a
//! hash of the job. It takes the time a job runs as known, as orders state it, which the baselines do not use; what work will
//! come it learns from the work that came.
//!
//! Deadlines and prices are not in the trace: a job is due after its duration and half of it more (at least ten
//! minutes more), pays for each GPU second times its priority if it is done by then, and nothing if it is late.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use tg_types::{Amount, DurationMs, TimestampMs};

use crate::baseline::{BaselineScheduler, Policy};
use crate::ledger_market::{LedgerMarket, Place};
use crate::trace::Trace;
use tg_market::cluster::{Allocation, Cluster, NodeIndex, Request};
use tg_market::lane::queue::Waiting;
use tg_types::draw::mix;

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
    /// GPU compute that was idle while jobs with GPUs waited, in thousandths of a GPU times seconds.
    pub idle_milli_s: u128,
    /// GPU compute there was while jobs with GPUs waited, in thousandths of a GPU times seconds.
    pub capacity_milli_s: u128,
}

impl Comparison {
    /// The wait that `permille` of the jobs do not exceed, in seconds.
    #[must_use]
    pub fn wait_s(&self, permille: usize) -> u64 {
        let last = self.waits_s.len().saturating_sub(1);
        let at = last * permille.min(1_000) / 1_000;
        self.waits_s.get(at).copied().unwrap_or(0)
    }

    /// Share of the GPU compute that was idle while jobs with GPUs waited, in millionths: what no waiting job could
    /// use where it was, or was not given.
    #[must_use]
    pub const fn idle_while_waiting_ppm(&self) -> u64 {
        match (self.idle_milli_s * 1_000_000).checked_div(self.capacity_milli_s) {
            Some(ppm) => ppm as u64,
            None => 0,
        }
    }

    /// Both together, as if the two markets were one list of jobs.
    #[must_use]
    pub fn pooled(mut self, other: Self) -> Self {
        let Self {
            policy: _,
            served,
            impossible,
            waits_s,
            late,
            revenue_milli,
            idle_milli_s,
            capacity_milli_s,
        } = other;
        self.served += served;
        self.impossible += impossible;
        self.waits_s.extend(waits_s);
        self.waits_s.sort_unstable();
        self.late += late;
        self.revenue_milli += revenue_milli;
        self.idle_milli_s += idle_milli_s;
        self.capacity_milli_s += capacity_milli_s;
        self
    }
}

/// Places jobs by one rule, and keeps what they hold by their numbers.
enum Placer {
    Ledger(Box<LedgerMarket>, BTreeMap<usize, Place>),
    Baseline(
        Box<(Cluster, BaselineScheduler)>,
        BTreeMap<usize, Allocation>,
    ),
}

impl Placer {
    fn new(trace: &Trace, policy: Policy, seed: u64) -> Self {
        if policy == Policy::Tensorgrid {
            let market = LedgerMarket::new(&trace.specs(), seed);
            let market = market.expect("a trace has no more GPU models than the ledger names");
            return Self::Ledger(Box::new(market), BTreeMap::new());
        }
        let cluster = Cluster::new(trace.specs());
        let (positions, requests) = (trace.positions(), trace.requests());
        let baseline = BaselineScheduler::new(&cluster, policy, seed, positions, &requests);
        Self::Baseline(Box::new((cluster, baseline)), BTreeMap::new())
    }

    fn cluster(&self) -> &Cluster {
        match self {
            Self::Ledger(market, _) => market.cluster(),
            Self::Baseline(pair, _) => &pair.0,
        }
    }

    /// Places job `at`, which takes `request`; whether it did.
    fn place(&mut self, at: usize, request: &Request) -> bool {
        match self {
            Self::Ledger(market, held) => {
                let placed = market.place(request);
                placed.map(|place| held.insert(at, place)).is_some()
            }
            Self::Baseline(pair, held) => {
                let (cluster, baseline) = &mut **pair;
                let placed = baseline.best(cluster, request).and_then(|(node, devices)| {
                    let allocation = cluster.allocate(node, devices, request).ok()?;
                    baseline.node_changed(node);
                    Some(allocation)
                });
                placed
                    .map(|allocation| held.insert(at, allocation))
                    .is_some()
            }
        }
    }

    /// Takes note of a job that came.
    fn observe(&mut self, request: &Request) {
        if let Self::Ledger(market, _) = self {
            market.observe(request);
        }
    }

    /// Gives back what job `at` holds.
    fn release(&mut self, at: usize) {
        match self {
            Self::Ledger(market, held) => {
                if let Some(place) = held.remove(&at) {
                    market.release(&place);
                }
            }
            Self::Baseline(pair, held) => {
                if let Some(allocation) = held.remove(&at) {
                    pair.0.release(&allocation);
                    pair.1.node_changed(allocation.node());
                }
            }
        }
    }
}

/// Runs the jobs of `trace` by `policy`; jobs arrive in the order of their times.
///
/// # Panics
/// By `tensorgrid` if machines are of models, regions or partitions that no [`Trace::parse`] gives.
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
    waiting: Vec<usize>,
    now: u64,
    result: Comparison,
}

impl<'a> Run<'a> {
    fn new(trace: &'a Trace, policy: Policy, seed: u64) -> Self {
        Self {
            trace,
            placer: Placer::new(trace, policy, seed),
            running: BinaryHeap::new(),
            waiting: Vec::new(),
            now: 0,
            result: Comparison {
                policy,
                served: 0,
                impossible: 0,
                waits_s: Vec::new(),
                late: 0,
                revenue_milli: 0,
                idle_milli_s: 0,
                capacity_milli_s: 0,
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
            let capacity = cluster.gpu_milli_capacity();
            self.result.idle_milli_s += span * u128::from(free);
            self.result.capacity_milli_s += span * u128::from(capacity);
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
            self.placer.release(at);
            self.serve();
        }
    }

    fn arrive(&mut self, at: usize) {
        let request = &self.trace.jobs[at].request;
        self.placer.observe(request);
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
        let mut order = std::mem::take(&mut self.waiting);
        let now = TimestampMs::new(self.now.saturating_mul(1_000));
        if self.result.policy == Policy::Tensorgrid {
            order.sort_by_cached_key(|at| self.as_waiting(*at).turn(now));
        }
        let mut blocked = false;
        // A request that did not fit fits no better a moment later.
        let mut refused: Vec<Request> = Vec::new();
        for at in order {
            let request = &self.trace.jobs[at].request;
            if !blocked && !refused.contains(request) {
                if self.placer.place(at, request) {
                    self.start(at);
                    continue;
                }
                blocked = self.result.policy == Policy::Fifo;
                refused.push(*request);
            }
            self.waiting.push(at);
        }
    }

    fn start(&mut self, at: usize) {
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
        self.running.push(Reverse((end, at)));
    }

    fn as_waiting(&self, at: usize) -> Waiting {
        Waiting {
            job: at as u64,
            price: Amount::new(1_000),
            priority: priority(at),
            since: TimestampMs::new(self.trace.jobs[at].arrival_s.saturating_mul(1_000)),
            expected: DurationMs::new(self.trace.jobs[at].duration_s.saturating_mul(1_000)),
        }
    }

    fn finish(mut self) -> Comparison {
        self.result.waits_s.sort_unstable();
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

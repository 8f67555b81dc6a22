//! Arrivals and departures by the timestamps of a trace, under each placement rule: waits, deadlines, revenue.
//!
//! A job that does not fit waits. `fifo` serves strictly in order: nobody overtakes the first job that waits. The
//! other baselines serve any job that fits, in order of arrival. `tensorgrid` serves by
//! [`crate::lane::queue::Waiting::turn`]: paid priority over the time a job takes, bounded by its age; here all
//! pay alike but for a priority of 1 to 4 drawn from a hash of the job. For the first job in turn that does not fit it
//! reserves the machine on which the job can start first, from that time on: others run there if they end before (EASY
//! backfill), so gangs do not starve and what they wait for is not idle. Both take the time a job runs as known, which the
//! baselines do not use; what work will come it [learns](Learner). `ledger` serves as the ledger's lane of posted prices
//! does: all that wait, in the order of [`crate::lane::queue::Waiting::turn`], and reserves nothing.
//!
//! Deadlines and prices are not in the trace: a job is due after its duration and half of it more (at least ten
//! minutes more), pays for each GPU second times its priority if it is done by then, and nothing if it is late.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use tg_types::{Amount, DurationMs, TimestampMs};

use crate::baseline::{BaselineScheduler, Policy};
use crate::cluster::{Allocation, Cluster, NodeIndex, Request};
use crate::lane::queue::Waiting;
use crate::ledger_market::{LedgerMarket, Place};
use crate::packing::profile::PRIOR_JOBS_WITH_GANGS;
use crate::packing::shape::mix;
use crate::packing::{Learner, PackingScheduler, WorkloadProfile};
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

/// What a job holds.
#[derive(Debug, Clone, Copy)]
enum Held {
    Allocation(Allocation),
    Lease(Place),
}

enum Placer {
    Packing(Box<PackingScheduler>),
    Ledger(Box<LedgerMarket>),
    Baseline(Box<(Cluster, BaselineScheduler)>),
}

impl Placer {
    fn new(trace: &Trace, policy: Policy, seed: u64, prior: &WorkloadProfile) -> Self {
        let cluster = Cluster::new(trace.specs());
        let requests = trace.requests();
        if policy == Policy::Tensorgrid {
            return Self::Packing(Box::new(PackingScheduler::new(cluster, prior, seed)));
        }
        if policy == Policy::Ledger {
            let market = LedgerMarket::new(&trace.specs(), seed);
            let market = market.expect("a trace has no more GPU models than the ledger names");
            return Self::Ledger(Box::new(market));
        }
        let positions = trace.positions();
        let baseline = BaselineScheduler::new(&cluster, policy, seed, positions, &requests);
        Self::Baseline(Box::new((cluster, baseline)))
    }

    fn cluster(&self) -> &Cluster {
        match self {
            Self::Packing(scheduler) => scheduler.cluster(),
            Self::Ledger(market) => market.cluster(),
            Self::Baseline(pair) => &pair.0,
        }
    }

    fn place(&mut self, request: &Request) -> Option<Held> {
        match self {
            Self::Packing(scheduler) => {
                let placed = scheduler.place(request);
                let mark = scheduler.mark();
                scheduler.make_final(mark);
                placed.map(Held::Allocation)
            }
            Self::Ledger(market) => market.place(request).map(Held::Lease),
            Self::Baseline(pair) => {
                let (cluster, baseline) = &mut **pair;
                let (node, devices) = baseline.best(cluster, request)?;
                let allocation = cluster.allocate(node, devices, request).ok()?;
                baseline.node_changed(node);
                Some(Held::Allocation(allocation))
            }
        }
    }

    /// Takes note of a job that came.
    fn observe(&mut self, request: &Request) {
        if let Self::Ledger(market) = self {
            market.observe(request);
        }
    }

    /// Learns the work of `profile`.
    fn learn(&mut self, profile: &WorkloadProfile) {
        if let Self::Packing(scheduler) = self {
            scheduler.learn(profile);
        }
    }

    /// Takes all CPU of `node`, so that nothing is placed there.
    fn block(&mut self, node: NodeIndex) -> Option<Held> {
        let Self::Packing(scheduler) = self else {
            return None;
        };
        let free = scheduler.cluster().free(node).cpu_milli;
        let all_cpu = Request::new(free, 0, 0, 0).ok()?;
        scheduler.place_on(node, 0, &all_cpu).map(Held::Allocation)
    }

    fn release(&mut self, held: &Held) {
        match (self, held) {
            (Self::Packing(scheduler), Held::Allocation(allocation)) => {
                scheduler.release(allocation);
                let mark = scheduler.mark();
                scheduler.make_final(mark);
            }
            (Self::Baseline(pair), Held::Allocation(allocation)) => {
                pair.0.release(allocation);
                pair.1.node_changed(allocation.node());
            }
            (Self::Ledger(market), Held::Lease(place)) => market.release(place),
            (Self::Ledger(_), Held::Allocation(_)) | (_, Held::Lease(_)) => {
                unreachable!("each rule gives back what it gave")
            }
        }
    }
}

/// Runs the jobs of `trace` by `policy`; jobs arrive in the order of their times.
///
/// # Panics
/// By the rule of the ledger if machines are of models, regions or partitions that no [`Trace::parse`] gives.
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

/// A machine that is kept for a job from a time on.
#[derive(Debug, Clone, Copy)]
struct Reserved {
    node: NodeIndex,
    from_s: u64,
}

struct Run<'a> {
    trace: &'a Trace,
    placer: Placer,
    /// Jobs that run: end, number.
    running: BinaryHeap<Reverse<(u64, usize)>>,
    learner: Learner,
    held: BTreeMap<usize, Held>,
    waiting: Vec<usize>,
    /// Where and when the first job that waits can start.
    reserved: Option<Reserved>,
    now: u64,
    result: Comparison,
}

impl<'a> Run<'a> {
    fn new(trace: &'a Trace, policy: Policy, seed: u64) -> Self {
        let prior = WorkloadProfile::prior_with_gangs(
            &trace.specs(),
            PRIOR_JOBS_WITH_GANGS,
            PRIOR_JOBS_WITH_GANGS,
        );
        let learner = Learner::new(prior);
        Self {
            trace,
            placer: Placer::new(trace, policy, seed, learner.profile()),
            running: BinaryHeap::new(),
            learner,
            held: BTreeMap::new(),
            waiting: Vec::new(),
            reserved: None,
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
            if let Some(held) = self.held.remove(&at) {
                self.placer.release(&held);
            }
            self.serve();
        }
    }

    fn arrive(&mut self, at: usize) {
        let request = &self.trace.jobs[at].request;
        self.learner.observe(request);
        self.placer.observe(request);
        if self.learner.due() {
            self.placer.learn(self.learner.profile());
        }
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
        if matches!(self.result.policy, Policy::Ledger | Policy::Tensorgrid) {
            order.sort_by_cached_key(|at| self.as_waiting(*at).turn(now));
        }
        let mut blocked = false;
        self.reserved = None;
        // A request that did not fit fits no better a moment later.
        let mut refused: Vec<(Request, bool)> = Vec::new();
        for at in order {
            let job = &self.trace.jobs[at];
            let held = self
                .reserved
                .filter(|it| self.now.saturating_add(job.duration_s) > it.from_s);
            let key = (job.request, held.is_some());
            let placed = if blocked || refused.contains(&key) {
                None
            } else {
                self.place_beside(&job.request, held)
            };
            match placed {
                Some(held) => self.start(at, held),
                None => {
                    blocked |= self.result.policy == Policy::Fifo;
                    if self.reserved.is_none() {
                        self.reserved = self.reservation(at);
                    }
                    if !refused.contains(&key) {
                        refused.push(key);
                    }
                    self.waiting.push(at);
                }
            }
        }
    }

    /// Places `request`, not on the machine of `held`.
    fn place_beside(&mut self, request: &Request, held: Option<Reserved>) -> Option<Held> {
        let block = held.and_then(|it| self.placer.block(it.node));
        let placed = self.placer.place(request);
        if let Some(block) = block {
            self.placer.release(&block);
        }
        placed
    }

    fn start(&mut self, at: usize, held: Held) {
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
        self.held.insert(at, held);
        self.running.push(Reverse((end, at)));
    }

    /// The machine on which `at` fits first if nobody else comes, and when.
    fn reservation(&self, at: usize) -> Option<Reserved> {
        let job = &self.trace.jobs[at];
        let Placer::Packing(scheduler) = &self.placer else {
            return None;
        };
        let mut later = scheduler.cluster().clone();
        let mut ends: Vec<(u64, usize)> = self.running.iter().map(|Reverse(it)| *it).collect();
        ends.sort_unstable();
        for (from_s, at) in ends {
            let Some(Held::Allocation(allocation)) = self.held.get(&at) else {
                continue;
            };
            later.release(allocation);
            let node = allocation.node();
            if later.fits(node, &job.request) {
                return Some(Reserved { node, from_s });
            }
        }
        None
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

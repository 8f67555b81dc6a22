//! Arrivals without departures, as in the published experiment: every job is placed or refused once.

use crate::baseline::{BaselineScheduler, Policy};
use crate::ledger_market::LedgerMarket;
use crate::trace::Trace;
use tg_market::cluster::{Allocation, Cluster, NodeIndex, Request};
use tg_market::packing::WorkloadProfile;

/// Places the jobs of `trace` one after the other by `policy`. `seed` breaks ties where the rule has any.
///
/// `tensorgrid` is what a block of the ledger executes, one order a block: it knows the machines and the jobs that came
/// before, nothing of the work to come. FGD takes the most frequent work of the whole trace as known, as in its experiment.
///
/// # Panics
/// By `tensorgrid` if machines are of models, regions or partitions that no [`Trace::parse`] gives.
#[must_use]
pub fn simulate(trace: &Trace, policy: Policy, seed: u64) -> Vec<Option<Allocation>> {
    if policy == Policy::Tensorgrid {
        let mut market = ledger(trace, seed);
        return placed(trace, |request| {
            market.observe(request);
            market.place(request).map(|it| (it.node, it.devices))
        });
    }
    let requests = trace.requests();
    let mut cluster = Cluster::new(trace.specs());
    let mut scheduler =
        BaselineScheduler::new(&cluster, policy, seed, trace.positions(), &requests);
    requests
        .iter()
        .map(|request| {
            let (node, devices) = scheduler.best(&cluster, request)?;
            let allocation = cluster.allocate(node, devices, request).ok()?;
            scheduler.node_changed(node);
            Some(allocation)
        })
        .collect()
}

/// As [`simulate`] by `tensorgrid`, but with the [`WorkloadProfile`] of the whole trace known from the start: what
/// learning is measured against.
///
/// # Panics
/// As [`simulate`].
#[must_use]
pub fn simulate_knowing(trace: &Trace, seed: u64) -> Vec<Option<Allocation>> {
    let mut market = ledger(trace, seed);
    market.expect(&WorkloadProfile::of(&trace.requests()));
    placed(trace, |request| {
        market.place(request).map(|it| (it.node, it.devices))
    })
}

fn ledger(trace: &Trace, seed: u64) -> LedgerMarket {
    LedgerMarket::new(&trace.specs(), seed)
        .expect("a trace has no more GPU models than the ledger names")
}

/// The allocations of the places that `place` gives to the jobs of `trace`.
fn placed(
    trace: &Trace,
    mut place: impl FnMut(&Request) -> Option<(NodeIndex, u8)>,
) -> Vec<Option<Allocation>> {
    let mut cluster = Cluster::new(trace.specs());
    let take = |request: &Request| {
        let (node, devices) = place(request)?;
        let taken = cluster.allocate(node, devices, request);
        Some(taken.expect("what the ledger leases is free"))
    };
    trace.requests().iter().map(take).collect()
}

/// What came of a simulation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// GPU compute of all machines, in thousandths of a GPU.
    pub capacity_milli: u64,
    /// Jobs that were refused, by number of GPUs; fractions count as one.
    pub refused: [u32; 9],
    /// Jobs that were refused although a machine fitted. Always 0 for a rule that looks at every machine.
    pub needless: u32,
    /// After each arrival: compute that was asked for and compute that is allocated, in thousandths of a GPU.
    pub series: Vec<(u64, u64)>,
}

impl Outcome {
    /// Plays `placements` again and measures.
    ///
    /// # Panics
    /// If the placements are not of `trace`.
    #[must_use]
    pub fn of(trace: &Trace, placements: &[Option<Allocation>]) -> Self {
        let mut cluster = Cluster::new(trace.specs());
        let mut outcome = Self {
            capacity_milli: cluster.gpu_milli_capacity(),
            refused: [0; 9],
            needless: 0,
            series: Vec::with_capacity(placements.len()),
        };
        let (mut arrived, mut used) = (0, 0);
        for (job, placement) in trace.jobs.iter().zip(placements) {
            let request = &job.request;
            arrived += u64::from(request.gpu_milli_total());
            if let Some(allocation) = placement {
                let mask = allocation.devices().fold(0, |mask, it| mask | 1 << it);
                let taken = cluster.allocate(allocation.node(), mask, request);
                assert!(taken.is_ok(), "the placements fit the trace");
                used += u64::from(request.gpu_milli_total());
            } else {
                outcome.refused[usize::from(request.gpus())] += 1;
                let fits = cluster.nodes().any(|node| cluster.fits(node, request));
                outcome.needless += u32::from(fits);
            }
            outcome.series.push((arrived, used));
        }
        outcome
    }

    /// Allocated GPU share in hundredths of a per cent when `arrived_percent` of the capacity was asked for: the mean
    /// over the arrivals whose rounded percentage this is. `None` if there are none.
    #[must_use]
    pub fn allocated_at(&self, arrived_percent: u64) -> Option<u64> {
        let capacity = self.capacity_milli.max(1);
        let within = |arrived: &u64| (arrived * 200 + capacity) / (2 * capacity) == arrived_percent;
        let shares: Vec<u64> = self
            .series
            .iter()
            .filter(|(arrived, _)| within(arrived))
            .map(|(_, used)| used * 10_000 / capacity)
            .collect();
        let count = shares.len() as u64;
        (count > 0).then(|| (shares.iter().sum::<u64>() + count / 2) / count)
    }
}

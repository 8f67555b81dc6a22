//! Placement rules of the literature, for comparison: each looks at every machine for every job.
//!
//! * `fgd`: fragmentation gradient descent (ATC'23), with its quantised score and ties by the order of the machines.
//! * `best-fit`: least CPU and GPU left, equally weighted, in hundred steps.
//! * `least-loaded`: most left.
//! * `fifo`: the first machine that fits.
//! * `random`: any machine that fits, by a seeded hash.
//! * `weighted`: `0.4 reputation + 0.3 / price + 0.2 uptime + 0.1 speed`, on simulated attributes of the machines
//!   (drawn from a hash of their index), as no trace has them.

use std::collections::BTreeMap;

use tg_market::cluster::{Cluster, GPUS_PER_NODE_MAX, NodeFree, NodeIndex, Request};
use tg_types::draw::mix;

/// A placement rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// What a block of the ledger executes ([`crate::ledger_market`]): proportionally fair packing ([`tg_market::packing`]).
    Tensorgrid,
    /// Fragmentation gradient descent.
    Fgd,
    /// Least left.
    BestFit,
    /// Most left.
    LeastLoaded,
    /// First that fits.
    Fifo,
    /// Any that fits.
    Random,
    /// Weighted sum of reputation, price, uptime and speed.
    Weighted,
}

impl Policy {
    /// Every rule.
    pub const ALL: [Self; 7] = [
        Self::Tensorgrid,
        Self::Fgd,
        Self::BestFit,
        Self::LeastLoaded,
        Self::Fifo,
        Self::Random,
        Self::Weighted,
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tensorgrid => "tensorgrid",
            Self::Fgd => "fgd",
            Self::BestFit => "best-fit",
            Self::LeastLoaded => "least-loaded",
            Self::Fifo => "fifo",
            Self::Random => "random",
            Self::Weighted => "weighted",
        }
    }

    /// The rule called `name`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.as_str() == name)
    }
}

/// Work that FGD measures fragmentation by, with how often it comes.
type TypicalWork = (Request, i64);

/// Looks at every machine, remembering scores of machines that did not change.
#[derive(Debug, Clone)]
pub struct BaselineScheduler {
    policy: Policy,
    seed: u64,
    /// Position of each machine in the order that breaks ties.
    order: Vec<u32>,
    typical: Vec<TypicalWork>,
    typical_total: i64,
    /// By kind of machine: whether each typical work can use it.
    typical_kinds: Vec<Vec<bool>>,
    versions: Vec<u32>,
    fragmentation: Vec<(u32, i64)>,
    requests: BTreeMap<Request, usize>,
    scores: Vec<Vec<Score>>,
    decisions: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Score {
    version: u32,
    devices: u8,
    value: i64,
}

impl BaselineScheduler {
    /// The rule `policy` for `cluster`. `order` is the position of each machine where ties go by order; `work` is what
    /// FGD takes its typical work from.
    ///
    /// # Panics
    /// If `order` does not have one entry for each machine.
    #[must_use]
    pub fn new(
        cluster: &Cluster,
        policy: Policy,
        seed: u64,
        order: Vec<u32>,
        work: &[Request],
    ) -> Self {
        assert_eq!(order.len(), cluster.len(), "one position for each machine");
        let typical = typical_work(work);
        let typical_kinds = (0..cluster.kinds().len())
            .map(|kind| {
                let serves = |(request, _): &TypicalWork| {
                    request.gpus() > 0 && cluster.kinds().filter(request).contains(kind)
                };
                typical.iter().map(serves).collect()
            })
            .collect();
        Self {
            policy,
            seed,
            order,
            typical_total: typical.iter().map(|(_, count)| *count).sum::<i64>().max(1),
            typical,
            typical_kinds,
            versions: vec![1; cluster.len()],
            fragmentation: vec![(0, 0); cluster.len()],
            requests: BTreeMap::new(),
            scores: Vec::new(),
            decisions: 0,
        }
    }

    /// The machine this rule takes for `request`, and the devices.
    pub fn best(&mut self, cluster: &Cluster, request: &Request) -> Option<(NodeIndex, u8)> {
        self.decisions += 1;
        let kinds = cluster.kinds().filter(request);
        let next = self.requests.len();
        let slot = *self.requests.entry(*request).or_insert(next);
        if slot == self.scores.len() {
            self.scores.push(vec![Score::default(); cluster.len()]);
        }
        let mut best: Option<((i64, u64), NodeIndex, u8)> = None;
        for node in cluster.nodes() {
            let at = node.0 as usize;
            if !kinds.contains(cluster.kind(node)) || !cluster.free(node).fits_host(request) {
                continue;
            }
            let Some(devices) = cluster.devices_for(node, request, None) else {
                continue;
            };
            if self.scores[slot][at].version != self.versions[at] {
                let (value, devices) = self.score(cluster, node, request, devices);
                self.scores[slot][at] = Score {
                    version: self.versions[at],
                    devices,
                    value,
                };
            }
            let score = self.scores[slot][at];
            let tie = match self.policy {
                Policy::Random => mix(self.seed ^ mix(self.decisions) ^ u64::from(node.0)),
                _ => u64::from(self.order[at]),
            };
            let key = (score.value, tie);
            if best.is_none_or(|(least, _, _)| key < least) {
                best = Some((key, node, score.devices));
            }
        }
        best.map(|(_, node, devices)| (node, devices))
    }

    /// What is free on `node` changed.
    pub fn node_changed(&mut self, node: NodeIndex) {
        self.versions[node.0 as usize] += 1;
    }

    /// The score of a machine, lower is better, and the devices it goes with.
    fn score(
        &mut self,
        cluster: &Cluster,
        node: NodeIndex,
        request: &Request,
        devices: u8,
    ) -> (i64, u8) {
        let free = cluster.free(node);
        match self.policy {
            Policy::Tensorgrid | Policy::Fgd => self.fgd_score(cluster, node, request, devices),
            Policy::Fifo | Policy::Random => (0, devices),
            Policy::BestFit => (
                left(free, request),
                tightest(cluster, node, request, devices),
            ),
            Policy::LeastLoaded => (-left(free, request), devices),
            Policy::Weighted => (-weighted(self.seed, node), devices),
        }
    }

    fn fgd_score(
        &mut self,
        cluster: &Cluster,
        node: NodeIndex,
        request: &Request,
        devices: u8,
    ) -> (i64, u8) {
        let at = node.0 as usize;
        let kind = cluster.kind(node);
        if self.fragmentation[at].0 != self.versions[at] {
            self.fragmentation[at] = (
                self.versions[at],
                self.fragmentation_of(kind, cluster.free(node)),
            );
        }
        let before = self.fragmentation[at].1;
        let options: Vec<u8> = if request.is_fraction() {
            (0..GPUS_PER_NODE_MAX)
                .filter(|it| cluster.device_serves(node, *it, request))
                .map(|it| 1 << it)
                .collect()
        } else {
            vec![devices]
        };
        let mut best = (i64::MAX, devices);
        for mask in options {
            let mut after = *cluster.free(node);
            after.cpu_milli -= request.cpu_milli();
            for device in 0..GPUS_PER_NODE_MAX {
                if mask >> device & 1 == 1 {
                    after.gpu_milli[device] -= request.gpu_milli();
                }
            }
            let gained = before - self.fragmentation_of(kind, &after);
            let level = -i64::from(sigmoid_level(gained, self.typical_total));
            if level < best.0 {
                best = (level, mask);
            }
        }
        best
    }

    /// Idle compute that typical work cannot use, weighted by how often it comes.
    fn fragmentation_of(&self, kind: usize, free: &NodeFree) -> i64 {
        let idle: i64 = free.gpu_milli.iter().map(|it| i64::from(*it)).sum();
        let mut sum = 0;
        for ((request, count), served) in self.typical.iter().zip(&self.typical_kinds[kind]) {
            let fitting = |it: &&u16| **it >= request.gpu_milli();
            let enough =
                free.gpu_milli.iter().filter(fitting).count() >= usize::from(request.gpus());
            let lost = if *served && enough && free.cpu_milli >= request.cpu_milli() {
                let small = free.gpu_milli.iter().filter(|it| !fitting(it));
                small.map(|it| i64::from(*it)).sum()
            } else {
                idle
            };
            sum += count * lost;
        }
        sum
    }
}

/// The most frequent work (by GPUs, share, CPU and needs) that makes up 95 % of all.
fn typical_work(work: &[Request]) -> Vec<TypicalWork> {
    let mut counts: BTreeMap<(Request, u32), i64> = BTreeMap::new();
    for request in work {
        let class = Request::new(request.cpu_milli(), 0, request.gpus(), request.gpu_milli())
            .map_or(*request, |it| it.with_needs(*request.needs()));
        *counts.entry((class, 0)).or_default() += 1;
    }
    let mut sorted: Vec<TypicalWork> = counts
        .into_iter()
        .map(|((request, _), count)| (request, count))
        .collect();
    sorted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let total = work.len() as i64;
    let mut covered = 0;
    sorted
        .into_iter()
        .take_while(|(_, count)| {
            let wanted = covered * 100 < total * 95;
            covered += count;
            wanted
        })
        .collect()
}

/// `floor(100 * sigmoid(gained / total / 1000))` without floats.
fn sigmoid_level(gained: i64, total: i64) -> u8 {
    let scaled = i128::from(gained) * 1_000;
    SIGMOID_LEVELS.partition_point(|threshold| scaled >= i128::from(*threshold) * i128::from(total))
        as u8
}

/// `10^6 * ln(k / (100 - k))` for k = 1 to 99.
#[rustfmt::skip]
const SIGMOID_LEVELS: [i64; 99] = [
    -4_595_120, -3_891_820, -3_476_099, -3_178_054, -2_944_439, -2_751_535, -2_586_689, -2_442_347, -2_313_635,
    -2_197_225, -2_090_741, -1_992_430, -1_900_959, -1_815_290, -1_734_601, -1_658_228, -1_585_627, -1_516_347,
    -1_450_010, -1_386_294, -1_324_925, -1_265_666, -1_208_311, -1_152_680, -1_098_612, -1_045_969, -994_623,
    -944_462, -895_384, -847_298, -800_119, -753_772, -708_185, -663_294, -619_039, -575_364,
    -532_217, -489_548, -447_312, -405_465, -363_965, -322_773, -281_851, -241_162, -200_671,
    -160_343, -120_144, -80_043, -40_005, 0, 40_005, 80_043, 120_144, 160_343,
    200_671, 241_162, 281_851, 322_773, 363_965, 405_465, 447_312, 489_548, 532_217,
    575_364, 619_039, 663_294, 708_185, 753_772, 800_119, 847_298, 895_384, 944_462,
    994_623, 1_045_969, 1_098_612, 1_152_680, 1_208_311, 1_265_666, 1_324_925, 1_386_294, 1_450_010,
    1_516_347, 1_585_627, 1_658_228, 1_734_601, 1_815_290, 1_900_959, 1_992_430, 2_090_741, 2_197_225,
    2_313_635, 2_442_347, 2_586_689, 2_751_535, 2_944_439, 3_178_054, 3_476_099, 3_891_820, 4_595_120,
];

/// CPU and GPU left after `request`, in hundred steps of the largest machine (128 cores, 8 GPUs).
fn left(free: &NodeFree, request: &Request) -> i64 {
    let gpu: i64 = free.gpu_milli.iter().map(|it| i64::from(*it)).sum();
    let gpu_left = gpu - i64::from(request.gpu_milli_total());
    let cpu_left = i64::from(free.cpu_milli) - i64::from(request.cpu_milli());
    (50 * 8_000 * cpu_left + 50 * 128_000 * gpu_left).div_euclid(8_000 * 128_000)
}

/// The device of a fraction with the least compute left; `devices` where that was decided.
fn tightest(cluster: &Cluster, node: NodeIndex, request: &Request, devices: u8) -> u8 {
    if !request.is_fraction() {
        return devices;
    }
    let free = cluster.free(node);
    (0..GPUS_PER_NODE_MAX)
        .filter(|it| cluster.device_serves(node, *it, request))
        .min_by_key(|it| (free.gpu_milli[*it], *it))
        .map_or(devices, |it| 1 << it)
}

/// The weighted formula on simulated attributes, in millionths.
fn weighted(seed: u64, node: NodeIndex) -> i64 {
    let draw = |salt: u64| (mix(seed ^ mix(u64::from(node.0) << 8 | salt)) % 1_000_000) as i64;
    let reputation = draw(1);
    let price = 500_000 + draw(2);
    let uptime = 900_000 + draw(3) / 10;
    let speed = draw(4);
    (4 * reputation + 3 * 1_000_000_000_000 / price + 2 * uptime + speed) / 10
}

//! The rows of the benchmark suite: what stands in them, and what they are held to.

use serde::{Deserialize, Serialize};
use tg_compile::suite::Architecture;

/// Rows that are measured in zero knowledge too.
pub(crate) const MASKED: [usize; 10] = [0, 1, 2, 4, 5, 6, 7, 8, 9, 12];
/// What stands in a row of the suite: a model proved for a batch of inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry(pub Architecture, pub usize);

/// What a row is held to: milliseconds, milliseconds, kilobytes, megabytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Target {
    pub prove_ms: f64,
    pub verify_ms: f64,
    pub proof_kb: f64,
    pub peak_mb: f64,
}

/// The rows in order, with what they are held to.
pub(crate) const ENTRIES: [(Entry, Target); 14] = [
    (
        Entry(Architecture::LinearRegression, 1),
        target([2.0, 3.0, 16.0, 50.0]),
    ),
    (
        Entry(Architecture::Mlp, 1),
        target([10.0, 3.0, 160.0, 50.0]),
    ),
    (
        Entry(Architecture::LeNet, 1),
        target([40.0, 8.0, 220.0, 100.0]),
    ),
    (
        Entry(Architecture::LeNet, 64),
        target([400.0, 80.0, 1_000.0, 1_000.0]),
    ),
    (
        Entry(Architecture::Cnn264k, 1),
        target([120.0, 12.0, 240.0, 200.0]),
    ),
    (
        Entry(Architecture::Dense4M, 1),
        target([350.0, 12.0, 240.0, 500.0]),
    ),
    (
        Entry(Architecture::Vgg16, 1),
        target([1_200.0, 25.0, 350.0, 3_000.0]),
    ),
    (
        Entry(Architecture::ResNet18, 1),
        target([3_000.0, 40.0, 450.0, 4_000.0]),
    ),
    (
        Entry(Architecture::Gpt250k, 1),
        target([800.0, 30.0, 400.0, 1_000.0]),
    ),
    (
        Entry(Architecture::Lstm, 1),
        target([400.0, 20.0, 400.0, 500.0]),
    ),
    (
        Entry(Architecture::VitTiny, 1),
        target([7_000.0, 60.0, 700.0, 4_000.0]),
    ),
    (
        Entry(Architecture::BertBase, 1),
        target([16_000.0, 100.0, 1_000.0, 4_000.0]),
    ),
    (
        Entry(Architecture::Gpt2, 1),
        target([10_000.0, 100.0, 1_000.0, 8_000.0]),
    ),
    (
        Entry(Architecture::Gpt2Of512, 1),
        target([200_000.0, 200.0, 2_000.0, 16_000.0]),
    ),
];

const fn target([prove_ms, verify_ms, proof_kb, peak_mb]: [f64; 4]) -> Target {
    Target {
        prove_ms,
        verify_ms,
        proof_kb,
        peak_mb,
    }
}

impl Entry {
    pub(crate) fn name(self) -> String {
        let Self(architecture, batch) = self;
        match batch {
            1 => architecture.name().to_owned(),
            batch => format!("{} x {batch}", architecture.name()),
        }
    }
}

/// What the runs of something cost.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// Median.
    pub wall_ms: f64,
    /// Median, in this process and in the kernel for it.
    pub cpu_ms: f64,
    pub least_wall_ms: f64,
    /// How much of all runs' CPU time was the kernel's.
    pub system_share: f64,
    /// Median of the page faults.
    pub faults: f64,
}

/// What was measured for one row.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Row {
    pub name: String,
    pub zk: bool,
    pub parameters: usize,
    pub macs: u64,
    pub batch: usize,
    pub runs: usize,
    pub security_bits: f64,
    /// Committing the weights and proving their range, once per model.
    pub register: Figure,
    /// Checking that, once per model.
    pub registration_verify: Figure,
    /// Parts of `prove`, in order.
    pub stages: Vec<(String, Figure)>,
    /// Execution, witness, commitment, everything.
    pub prove: Figure,
    pub verify: Figure,
    pub proof_bytes: usize,
    pub public_model_bytes: usize,
    /// Highest resident set while proving and verifying, the model included.
    pub peak_mib: Option<f64>,
    /// What `--memory` would compare with its limit.
    pub estimated_mib: f64,
    /// Load of the machine when the row began.
    pub load: Option<f64>,
}

impl Row {
    /// The median of one stage.
    pub(crate) fn stage(&self, name: &str) -> Figure {
        let stage = self.stages.iter().find(|(stage, _)| stage == name);
        stage.map_or_else(Figure::default, |&(_, figure)| figure)
    }
}

//! Estimates of a proof's memory and work, from its shape alone.

use crate::limits::Stage;
use crate::witness::Cell;
use tg_ir::CompiledModel;
use tg_proof::commitment::Pcs;
use tg_proof::facts::{self, committed_bytes, opening_bytes};
use tg_proof::layout::TensorLayout;
use tg_proof::plan::Plan;
use tg_proof::shape::{ProofShape, WeightsShape};
use tg_proof::zk::ZkShape;

/// Bytes of a base field element and of an extension element.
const BASE: u64 = 4;
const EXTENSION: u64 = 20;

/// Bytes at the highest point of a proof, the model's commitment included. A peak lies between half of it and five
/// quarters.
pub(crate) fn memory(model: &CompiledModel, shape: &ProofShape) -> u64 {
    let program = &model.program;
    facts::prove_memory(program, shape, size_of::<Cell>() as u64)
}

/// The same for a proof in zero knowledge.
pub(crate) fn memory_zk(
    model: &CompiledModel,
    weights: Option<&WeightsShape>,
    shape: &ZkShape,
) -> u64 {
    let layers = &model.weights.layers;
    let own: usize = layers.iter().map(|layer| 3 * layer.weights.len()).sum();
    let tensors: usize = shape.plan.layouts.iter().map(TensorLayout::padded).sum();
    let tables = shape.plan.witness.iter();
    let cells: usize = tables.map(|table| table.columns << table.chunk.vars).sum();
    // Columns as positions and as elements, and forms: some terms for each secret.
    let fixed = (own + 6 * tensors + 6 * cells + 200 * shape.secrets.count()) as u64;
    let hiding = shape.hiding.codewords().map(|(vars, rate, rows)| {
        // Polynomial, codeword with its random rows, salted leaves and hashes; then values and weights of the last sum.
        let codeword = BASE << (vars + rate);
        ((2 * BASE + 2 * EXTENSION) << vars) + codeword + codeword / 8 + (84 << rows)
    });
    let leaves = (4 * EXTENSION) << shape.plan.leaf_vars;
    let weights = weights.map(|own| &own.scheme);
    let opening = weights.map_or(0, opening_bytes).max(leaves);
    fixed + hiding.sum::<u64>() + weights.map_or(0, committed_bytes) + opening
}

/// How the work of a proof is spread over its stages: for progress and for the time that is left.
///
/// The shares are nanoseconds of one core as measured once; only their proportions matter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// Execution, witness, commitment, nodes, lookup, opening of the witness, opening of the weights.
    stages: [f64; 7],
}

impl Work {
    #[expect(clippy::cast_precision_loss, reason = "proportions")]
    pub(crate) fn of(model: &CompiledModel, shape: &ProofShape) -> Self {
        let layers = &model.weights.layers;
        let weights: usize = layers.iter().map(|layer| layer.weights.len()).sum();
        let batch = shape.plan.layouts[0].batch as f64;
        let macs = model.program.macs() as f64 * batch;
        let cells = |scheme: &Pcs| (scheme.num_variables() as f64).exp2();
        let witness: f64 = shape.sections.iter().map(|(scheme, _)| cells(scheme)).sum();
        let committed = shape.weights.as_ref();
        let committed = committed.map_or(0.0, |own| cells(&own.scheme));
        let leaves: f64 = shape.plan.sum_vars().map(|vars| (vars as f64).exp2()).sum();
        // What is not held is committed again before its opening.
        let again = if shape.plan.is_anchored() {
            40.0 * witness
        } else {
            0.0
        };
        // A search for a nonce takes a millisecond, and there are a few.
        let opening = |cells: f64| {
            if cells > 0.0 { 20.0 * cells + 4e6 } else { 0.0 }
        };
        let pushforwards = shape.pushforwards.as_ref().map(|(scheme, _)| cells(scheme));
        let pushforwards = pushforwards.map_or(0.0, |cells| 80.0 * cells + opening(cells));
        Self {
            stages: [
                macs / 20.0,
                8.0 * witness,
                40.0 * witness,
                macs / 16.0 + 5.0 * weights as f64 + 2e5 * shape.plan.nodes.len() as f64,
                65.0 * leaves + pushforwards,
                opening(witness) + again,
                opening(committed),
            ],
        }
    }

    /// The part of the work, 0 to 1, that is done when a stage starts (for nodes: when so many are done).
    #[must_use]
    pub fn done(&self, stage: Stage) -> f64 {
        let (before, within) = match stage {
            Stage::Execute => (0, 0.0),
            Stage::Witness => (1, 0.0),
            Stage::Commit => (2, 0.0),
            Stage::Nodes(done, all) => {
                #[expect(clippy::cast_precision_loss, reason = "a proportion")]
                let part = done as f64 / all.max(1) as f64;
                (3, part)
            }
            Stage::Lookup => (4, 0.0),
            Stage::OpenWitness => (5, 0.0),
            Stage::OpenWeights => (6, 0.0),
            Stage::Done => return 1.0,
        };
        let done: f64 = self.stages[..before].iter().sum();
        (done + within * self.stages[before]) / self.stages.iter().sum::<f64>()
    }
}

/// Whether a proof is so small that handing parts of it to other threads takes longer than doing them.
pub(crate) fn is_small(shape: &ProofShape) -> bool {
    let weights = shape.weights.as_ref();
    has_small_sums(&shape.plan) && weights.is_none_or(|own| own.scheme.num_variables() <= 13)
}

/// Whether no sum of a proof is worth handing parts of it to other threads.
pub(crate) fn has_small_sums(plan: &Plan) -> bool {
    plan.sum_vars().all(|vars| vars <= 13)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::ProvingModel;
    use tg_compile::suite::Architecture;

    /// The highest resident set of this process since it was last reset, in bytes.
    #[cfg(target_os = "linux")]
    fn peak() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM"));
        let kib = line.unwrap().split_whitespace().nth(1).unwrap();
        kib.parse::<u64>().unwrap() << 10
    }

    /// A peak lies between half of the estimate and five quarters of it, with one section and with several. Each proof
    /// is made by a process of its own, which this test starts as itself.
    #[cfg(target_os = "linux")]
    #[test]
    fn memory_is_what_a_proof_takes() {
        use crate::{ProveRequest, prove};
        use tg_proof::plan::SectionSize;
        const CHILD: &str = "TG_PROVER_PEAK_OF";
        if let Ok(cells) = std::env::var(CHILD) {
            let (model, input) = Architecture::Gpt250k.model(1);
            let model = ProvingModel::new(model).unwrap();
            let size = SectionSize::forced(cells.parse().unwrap());
            let model = model.with_sections(size).unwrap();
            std::fs::write("/proc/self/clear_refs", "5").unwrap();
            prove(&model, ProveRequest::of(vec![input]), &mut |_| {}).unwrap();
            let figures = format!("of {} {}\n", peak(), model.memory(1).unwrap());
            std::io::Write::write_all(&mut std::io::stdout(), figures.as_bytes()).unwrap();
            return;
        }
        for cells in [1usize << 27, 1 << 20] {
            let output = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "estimate::tests::memory_is_what_a_proof_takes"])
                .arg("--nocapture")
                .env(CHILD, cells.to_string())
                .output()
                .unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let figures = text.split("of ").last().unwrap().split_whitespace();
            let figures: Vec<u64> = figures.take(2).map(|f| f.parse().unwrap()).collect();
            let [peak, estimate] = figures[..] else {
                panic!("{text}");
            };
            let is_near = 2 * peak >= estimate && 4 * peak <= 5 * estimate;
            assert!(is_near, "{cells}: {peak} of {estimate}");
        }
    }

    #[test]
    fn work_rises_from_nothing_to_all() {
        let model = ProvingModel::new(Architecture::Mlp.model(1).0).unwrap();
        let work = model.work(1).unwrap();
        let stages = [
            Stage::Execute,
            Stage::Witness,
            Stage::Commit,
            Stage::Nodes(0, 3),
            Stage::Nodes(2, 3),
            Stage::Lookup,
            Stage::OpenWitness,
            Stage::OpenWeights,
            Stage::Done,
        ];
        let done = stages.map(|stage| work.done(stage));
        assert_eq!((done[0], done[8]), (0.0, 1.0));
        assert!(done.windows(2).all(|pair| pair[0] < pair[1]), "{done:?}");
        assert!(model.work(0).is_err());
    }
}

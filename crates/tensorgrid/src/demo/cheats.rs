//! Three providers that cheat. They are actors of the demo, built on what any stranger can import: the worker trait of
//! `tg-provider` and the honest prover. Each lies in the way its name says and then goes on as if it had not.

use std::sync::Mutex;
use std::sync::PoisonError;
use tg_ir::op;

use tg_cuda::ExecutedOn;
use tg_exec::IntTensor;
use tg_ir::{CompiledModel, Op, TensorId};
use tg_proof::ProofFile;
use tg_prover::{ProveRequest, ProvingModel, prove};
use tg_provider::{Execution, Progress, ProvingWorker, Task, WorkError, Worker};
use tg_types::codec::Encode;
use tg_types::{Address, Digest, JobId, Receipt, Tier};

/// A way to cheat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    /// Does the work, then reports another output.
    WrongOutput,
    /// Leaves a hidden layer out to save the work, and says it did not.
    LayerSkipped,
    /// Sends the proof of another input.
    ProofReplayed,
}

impl Lie {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::WrongOutput, Self::LayerSkipped, Self::ProofReplayed];

    /// The lie in words.
    pub(crate) const fn describe(self) -> &'static str {
        match self {
            Self::WrongOutput => "reports a wrong output",
            Self::LayerSkipped => "skips one layer",
            Self::ProofReplayed => "replays the proof of another input",
        }
    }
}

/// A worker that lies.
#[derive(Debug)]
pub(crate) struct Cheat {
    lie: Lie,
    honest: ProvingWorker,
    /// What the lie needs to remember between execution and proof.
    kept: Mutex<Option<ProofFile>>,
}

/// The model has no layer that could be left out.
#[derive(Debug, thiserror::Error)]
#[error("the model has no hidden dense layer to leave out")]
struct NothingToSkip;

impl Cheat {
    /// A worker that tells this lie.
    pub(crate) fn new(lie: Lie) -> Self {
        Self {
            lie,
            honest: ProvingWorker::new(),
            kept: Mutex::new(None),
        }
    }

    /// A proof of something else than the task: of a smaller model, or of a blank input.
    fn proof_of_something_else(&self, task: &Task) -> Result<ProofFile, WorkError> {
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| WorkError::Model {
            model: task.model,
            source,
        };
        let compiled =
            CompiledModel::read(&task.model_file).map_err(|error| failed(error.into()))?;
        let input: Vec<i8> = task.input.iter().map(|byte| byte.cast_signed()).collect();
        let (compiled, input, job, provider) = match self.lie {
            Lie::LayerSkipped => {
                let smaller = without_last_hidden_layer(compiled.into_inner())
                    .ok_or_else(|| failed(NothingToSkip.into()))?;
                (smaller, input, task.job, task.provider)
            }
            Lie::ProofReplayed | Lie::WrongOutput => {
                let blank = vec![0; input.len()];
                (
                    compiled.into_inner(),
                    blank,
                    JobId::default(),
                    Address::default(),
                )
            }
        };
        let model = ProvingModel::new(compiled).map_err(|error| failed(error.into()))?;
        let request = ProveRequest::of(vec![IntTensor::I8(input)]).named(job, provider);
        let (file, _traces) =
            prove(&model, request, &mut |_| {}).map_err(|error| WorkError::Prove(error.into()))?;
        Ok(file)
    }

    /// The receipt an honest provider would sign, but for the output.
    fn claim(task: &Task, output: &[u8]) -> Result<Receipt, WorkError> {
        let compiled = CompiledModel::read(&task.model_file).map_err(|error| WorkError::Model {
            model: task.model,
            source: error.into(),
        })?;
        Ok(Receipt {
            program: compiled.program.id(),
            model: task.model,
            input: Digest::of_blob(&task.input),
            output: Digest::of_blob(output),
            trace: Digest::default(),
            tier: Tier::Tgx1,
        })
    }
}

impl Worker for Cheat {
    fn takes_tokens(&self, task: &Task) -> bool {
        self.honest.takes_tokens(task)
    }

    fn answer(
        &self,
        task: &Task,
        piece: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<Vec<u8>, WorkError> {
        // The lies of this demo are about proofs.
        self.honest.answer(task, piece)
    }

    fn execute(&self, task: &Task, progress: &dyn Fn(Progress)) -> Result<Execution, WorkError> {
        if self.lie == Lie::WrongOutput {
            let mut execution = self.honest.execute(task, progress)?;
            // Every class gets the score of its neighbour.
            execution.output.rotate_left(4);
            execution.receipt.output = Digest::of_blob(&execution.output);
            return Ok(execution);
        }
        let file = self.proof_of_something_else(task)?;
        let execution = Execution {
            receipt: Self::claim(task, &file.output)?,
            output: file.output.clone(),
            on: ExecutedOn::Cpu,
        };
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
        Ok(execution)
    }

    fn open(
        &self,
        task: &Task,
        execution: &Execution,
        seed: &Digest,
    ) -> Result<Vec<u8>, WorkError> {
        // The lies of this demo are about proofs.
        self.honest.open(task, execution, seed)
    }

    fn prove(
        &self,
        task: &Task,
        execution: &Execution,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Vec<u8>, WorkError> {
        if self.lie == Lie::WrongOutput {
            // An honest worker sends no proof that it could not verify: it proves the truth, and the lie comes after.
            let honest = self.honest.execute(task, &|_| {})?;
            let proof = self.honest.prove(task, &honest, progress)?;
            let mut file =
                ProofFile::read(&proof).map_err(|error| WorkError::Prove(error.into()))?;
            file.output.clone_from(&execution.output);
            file.statement.output = execution.receipt.output;
            return Ok(file.to_bytes());
        }
        let kept = self
            .kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let mut file = match kept {
            Some(file) => file,
            None => self.proof_of_something_else(task)?,
        };
        if self.lie == Lie::LayerSkipped {
            file.statement.model = task.model;
        }
        Ok(file.to_bytes())
    }
}

/// The model without its last hidden dense layer: the output layer reads the layer before it, cut to size or padded
/// by zero weights.
fn without_last_hidden_layer(model: CompiledModel) -> Option<CompiledModel> {
    let CompiledModel {
        mut program,
        mut weights,
    } = model;
    let last = program.nodes.len().checked_sub(1)?;
    let [hidden, requantise] = [last.checked_sub(2)?, last.checked_sub(1)?];
    let dense = |node: usize| match program.nodes[node].op {
        Op::Dense(op::Dense { input }) => Some(input),
        _ => None,
    };
    let (before, read) = (dense(hidden)?, dense(last)?);
    if !matches!(program.nodes[requantise].op, Op::Requantise(_))
        || read != TensorId::of_node(requantise)
        || !program.ties.is_empty()
    {
        return None;
    }
    let (had, has) = (
        program.shape(read).elements(),
        program.shape(before).elements(),
    );
    weights.layers.remove(weights.layers.len().checked_sub(2)?);
    let output = weights.layers.last_mut()?;
    output.weights = output
        .weights
        .chunks_exact(had)
        .flat_map(|row| (0..has).map(|index| row.get(index).copied().unwrap_or(0)))
        .collect();
    program.nodes[last].op = Op::Dense(op::Dense { input: before });
    program.nodes.drain(hidden..last);
    program.weights_root = weights.root();
    Some(CompiledModel { program, weights })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tg_offline::bundled::Bundled;

    #[test]
    fn a_layer_can_be_left_out_of_the_built_in_model() {
        let whole = Bundled::Lenet.compile().unwrap().model.into_inner();
        let nodes = whole.program.nodes.len();
        let cut = without_last_hidden_layer(whole).unwrap();
        assert_eq!(cut.program.nodes.len(), nodes - 2);
        assert_eq!(cut.program.validate(), Ok(()));
        assert_eq!(cut.weights.check(&cut.program), Ok(()));
    }
}

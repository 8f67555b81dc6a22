//! A checked model, and its runs.

use super::answer::{FloatAnswer, FloatEnd};
use super::file::{FloatFileError, FloatLimits, FloatModelFile, PublicFloatModel};
use super::limits::ITERATIONS_MAX;
use super::named::NamedTensors;
use crate::graph::Graph;
use crate::tensor::FloatTensor;
use crate::tgf::{Budget, NodeSeen, RunError, Shortage, run_watched};
use tg_types::{Digest, Domain, Encode as _, ModelId, ProgramId, Writer};

/// What a run gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FloatRun {
    /// What it answers.
    pub answer: FloatAnswer,
    /// The digest of the run: of its input and its answer.
    pub trace: Digest,
}

/// A float model that was checked, ready to run any number of times.
#[derive(Debug)]
pub struct FloatModel {
    public: PublicFloatModel,
    graph: Graph,
}

impl FloatModel {
    /// Reads a whole file and checks it. Takes time and memory in proportion to the file.
    ///
    /// # Errors
    /// [`FloatFileError`], with what is wrong.
    pub fn read(file: &[u8]) -> Result<Self, FloatFileError> {
        let (public, constants) = FloatModelFile::parts(file)?;
        let public = PublicFloatModel::read(public)?;
        let graph = public.graph(constants)?;
        Ok(Self { public, graph })
    }

    /// The hash of its public part.
    #[must_use]
    pub const fn id(&self) -> ProgramId {
        self.public.id()
    }

    /// The id under which it is registered and ordered.
    #[must_use]
    pub fn model_id(&self) -> ModelId {
        self.public.model_id()
    }

    /// What one run may take.
    #[must_use]
    pub const fn limits(&self) -> FloatLimits {
        self.public.limits()
    }

    /// Its graph.
    #[must_use]
    pub const fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Bytes of memory that it takes to be kept ready, about.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.public.memory()
    }

    /// Runs it on an input, on this thread's processor. The same on every machine.
    #[must_use]
    pub fn run(&self, input: &[u8]) -> FloatRun {
        let answer = self.answer(input, &mut |_| ());
        let trace = Self::digest_of(input, &answer);
        FloatRun { answer, trace }
    }

    /// The digest of a run that answered this.
    pub(crate) fn digest_of(input: &[u8], answer: &FloatAnswer) -> Digest {
        let mut writer = Writer::new();
        Digest::of_blob(input).encode(&mut writer);
        answer.encode(&mut writer);
        Digest::of(Domain::FloatTrace, &writer.into_bytes())
    }

    /// What a run answers; `see` is shown what each node gave.
    pub(super) fn answer(&self, input: &[u8], see: &mut dyn FnMut(&NodeSeen<'_>)) -> FloatAnswer {
        let (end, work, output) = self.outcome(input, see);
        FloatAnswer { end, work, output }
    }

    fn outcome(
        &self,
        input: &[u8],
        see: &mut dyn FnMut(&NodeSeen<'_>),
    ) -> (FloatEnd, u64, Vec<u8>) {
        let bad = || (FloatEnd::BadInput, 0, Vec::new());
        let Some(tensors) = self.taken(input) else {
            return bad();
        };
        let Ok(inputs) = tensors.inputs_of(&self.graph) else {
            return bad();
        };
        let execution = run_watched(&self.graph, &inputs, &self.budget(), see);
        match execution.result {
            Ok(values) => self.finished(values, execution.work),
            Err(error) => (end_of(error), execution.work, Vec::new()),
        }
    }

    /// The tensors of an input, if it is a file of some that is not too long.
    pub(super) fn taken(&self, input: &[u8]) -> Option<NamedTensors> {
        match input.len() as u64 > u64::from(self.limits().input) {
            true => None,
            false => NamedTensors::read(input).ok(),
        }
    }

    /// What one run may take.
    pub(super) fn budget(&self) -> Budget {
        let limits = self.limits();
        Budget {
            bytes: usize::try_from(limits.memory).unwrap_or(usize::MAX),
            iterations: ITERATIONS_MAX,
            work: limits.work,
        }
    }

    /// How a run ends whose outputs have these values, after so much work; and the file of the outputs.
    pub(super) fn finished(&self, values: Vec<FloatTensor>, work: u64) -> (FloatEnd, u64, Vec<u8>) {
        let most = self.limits().output as usize;
        // Before they are written: a graph may give one value many times.
        let bytes = values.iter().map(FloatTensor::bytes);
        let output = match bytes.fold(0usize, usize::saturating_add) > 8 * most {
            true => Vec::new(),
            false => NamedTensors::outputs_of(&self.graph, values).to_bytes(),
        };
        if output.is_empty() || output.len() > most {
            return (FloatEnd::BadOutput, work, Vec::new());
        }
        (FloatEnd::Finished, work, output)
    }
}

/// How a run ends that has no result.
pub(super) fn end_of(error: RunError) -> FloatEnd {
    match error {
        RunError::Inputs { .. } | RunError::Input { .. } => FloatEnd::BadInput,
        RunError::Node { node, source, .. } => match source.shortage() {
            Some(Shortage::Work) => FloatEnd::OutOfWork(node),
            Some(Shortage::Memory) => FloatEnd::OutOfMemory(node),
            None => FloatEnd::Failed(node),
        },
        RunError::Value(name) => FloatEnd::Failed(name),
    }
}

//! A model ready to prove: its shape and its committed weights.

use crate::columns::{NodeColumns, cells, weight_tables};
use crate::estimate::{self, Work};
use crate::fold::dot;
use crate::hiding::Kept;
use crate::workers;
use p3_commit::MultilinearPcs;
use p3_sumcheck::layout::Layout;
use tg_ir::{CheckedProgram, CompiledModel, ExecutableModel, LinearWeights};
use tg_proof::commitment::{Challenger, Pcs, Stacking, WeightCommitment};
use tg_proof::error::PlanError;
use tg_proof::field::{E, eq_table};
use tg_proof::hiding::Strength;
use tg_proof::model::{ProofShape, WeightsShape, model_id};
use tg_proof::plan::{Plan, SectionSize};
use tg_proof::private::PrivateShape;
use tg_proof::transcript;
use tg_proof::zk::ZkShape;
use tg_proof::{Modes, Part, Parts};
use tg_types::{ModelId, ProgramId};

/// What a commitment keeps for its openings.
pub(crate) type ProverData = <Pcs as MultilinearPcs<E, Challenger>>::ProverData;

/// Why a model cannot be made ready.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The model's weights are not those of its program.
    #[error("the model is refused")]
    Model(#[from] tg_ir::model::ModelError),
    /// The program cannot be proved.
    #[error("the model cannot be proved")]
    Plan(#[from] PlanError),
    /// The commitment scheme failed.
    #[error("the weights cannot be committed")]
    Commit,
    /// The secret of private weights is another model's.
    #[error("the secret is another model's")]
    Secret,
    /// The weights are public.
    #[error("the weights are public")]
    Public,
    /// There are no weights that could be private.
    #[error(
        "the program has no weights: there is nothing to keep private, and its model id is that of the program"
    )]
    NoWeights,
    /// An opening of private weights that may not begin.
    #[error("no opening of these private weights may begin")]
    Opening(#[from] crate::openings::OpeningError),
}

/// The committed weights of a model that shows nothing of them.
#[derive(Debug)]
pub(crate) struct PrivateWeights {
    pub(crate) shape: PrivateShape,
    pub(crate) kept: Kept,
}

/// Whether a program can be proved, without its weights: the error names the first operator that cannot.
///
/// # Errors
/// If an operator has no proof with these shapes and ranges, or it costs too much.
pub fn provable(program: CheckedProgram<'_>) -> Result<(), PlanError> {
    ProofShape::new(program).map(drop)
}

/// A compiled model with its weights committed.
pub struct ProvingModel {
    pub(crate) model: ExecutableModel,
    pub(crate) program_id: ProgramId,
    pub(crate) shape: ProofShape,
    /// Per weighted node its committed columns.
    pub(crate) columns: Vec<NodeColumns>,
    /// The commitment to the weights, if there are some.
    pub(crate) commitment: Option<WeightCommitment>,
    /// The point of the commitment's anchor.
    pub(crate) anchor_point: Vec<E>,
    /// What openings need, if there are weights and they are public.
    pub(crate) data: Option<ProverData>,
    /// What proofs need, if they are private.
    pub(crate) private: Option<PrivateWeights>,
    /// Where witnesses are cut.
    section_size: SectionSize,
    id: ModelId,
}

impl ProvingModel {
    /// Checks the model, derives its proof's shape and commits its weights (about 20 ns per weight).
    ///
    /// # Errors
    /// If the model is not well formed, cannot be proved or not be committed.
    pub fn new(model: CompiledModel) -> Result<Self, ModelError> {
        Self::of_checked(model.checked()?)
    }

    /// The same of a model that is checked already.
    ///
    /// # Errors
    /// If the model cannot be proved or not be committed.
    pub fn of_checked(model: ExecutableModel) -> Result<Self, ModelError> {
        let (shape, columns) = Self::columns_of(&model)?;
        workers::run(estimate::is_small(&shape), || {
            Self::commit(model, shape, columns)
        })
    }

    /// The shape of a model's proofs, and its committed columns.
    pub(crate) fn columns_of(
        model: &ExecutableModel,
    ) -> Result<(ProofShape, Vec<NodeColumns>), ModelError> {
        model
            .weights
            .check(&model.program)
            .map_err(tg_ir::model::ModelError::from)?;
        let shape = ProofShape::new(model.checked_program())?;
        let columns = shape
            .plan
            .weights
            .iter()
            .zip(&model.weights.layers)
            .map(|(layout, layer): (_, &LinearWeights)| NodeColumns {
                pieces: layout
                    .own_pieces()
                    .iter()
                    .map(|piece| layout.weight_column(piece, layer))
                    .collect(),
                bias: layout.biased.then(|| layout.bias_columns(layer)),
            })
            .collect();
        Ok((shape, columns))
    }

    /// Commits columns as they are.
    pub(crate) fn commit(
        model: ExecutableModel,
        shape: ProofShape,
        columns: Vec<NodeColumns>,
    ) -> Result<Self, ModelError> {
        let program_id = model.program.id();
        let Some(weights) = &shape.weights else {
            let committed = (None, Vec::new(), model_id(program_id, None));
            return Ok(Self::of((model, shape, columns), committed, None, None));
        };
        let fold = weights.scheme.folding_schedule()[0];
        let witness = Stacking::new_witness(weight_tables(&columns), fold);
        let mut scratch = transcript::registration(program_id);
        let committed = weights.scheme.commit(witness, &mut scratch);
        let (root, data) = committed.map_err(|_| ModelError::Commit)?;
        let tables = tg_proof::registration::weight_tables(&shape.plan.weights);
        let (_, anchor_point) =
            tg_proof::registration::anchor_point(program_id, &weights.scheme, &root, &tables);
        let anchor = tables
            .iter()
            .zip(cells(&columns))
            .map(|(table, cells)| {
                let eq = eq_table(table.last_coordinates(&anchor_point).as_slice());
                cells.iter().map(|column| dot(column, &eq)).collect()
            })
            .collect();
        let commitment = WeightCommitment { root, anchor };
        let id = model_id(program_id, Some(&commitment));
        let committed = (Some(commitment), anchor_point, id);
        Ok(Self::of(
            (model, shape, columns),
            committed,
            Some(data),
            None,
        ))
    }

    pub(crate) fn of(
        (model, shape, columns): (ExecutableModel, ProofShape, Vec<NodeColumns>),
        (commitment, anchor_point, id): (Option<WeightCommitment>, Vec<E>, ModelId),
        data: Option<ProverData>,
        private: Option<PrivateWeights>,
    ) -> Self {
        Self {
            program_id: model.program.id(),
            model,
            shape,
            columns,
            commitment,
            anchor_point,
            data,
            private,
            section_size: SectionSize::default(),
            id,
        }
    }

    /// Gives it another id.
    #[cfg(test)]
    pub(crate) const fn rename(&mut self, id: ModelId) {
        self.id = id;
    }

    /// How the weights are committed, and their commitment, if there are some.
    pub(crate) fn weights(&self) -> Option<(&WeightsShape, &WeightCommitment)> {
        self.shape.weights.as_ref().zip(self.commitment.as_ref())
    }

    /// The parts of proofs with a plan, as their transcripts absorb them.
    pub(crate) const fn parts(&self, plan: &Plan) -> Parts {
        Parts {
            weights: Part::of(self.commitment.is_some()),
            witness: Part::of(plan.looks_up()),
        }
    }

    /// The model's id.
    #[must_use]
    pub const fn id(&self) -> ModelId {
        self.id
    }

    /// The same model with sections of another size, see [`SectionSize::forced`].
    ///
    /// # Errors
    /// If the program cannot be proved with such sections.
    pub fn with_sections(mut self, size: SectionSize) -> Result<Self, PlanError> {
        self.shape = ProofShape::sectioned(self.model.checked_program(), 1, size)?;
        self.section_size = size;
        Ok(self)
    }

    /// The shape of proofs about a batch of inputs.
    pub(crate) fn shape_of(&self, batch: usize) -> Result<ProofShape, PlanError> {
        ProofShape::sectioned(self.model.checked_program(), batch, self.section_size)
    }

    /// Bytes of memory that a proof about a batch of inputs needs at its highest point, about, the model included.
    ///
    /// # Errors
    /// If the program cannot be proved for so many inputs at once.
    pub fn memory(&self, batch: usize) -> Result<u64, PlanError> {
        let shape = self.shape_of(batch)?;
        Ok(estimate::memory(&self.model, &shape))
    }

    /// The same for proofs in zero knowledge.
    ///
    /// # Errors
    /// If the program cannot be proved for so many inputs at once.
    pub fn memory_zk(&self, batch: usize, modes: Modes) -> Result<u64, PlanError> {
        Ok(self.memory_of(&self.zk_shape(batch, modes)?))
    }

    /// Bytes of memory that a proof in zero knowledge of a shape needs at its highest point, about.
    pub(crate) fn memory_of(&self, shape: &ZkShape) -> u64 {
        estimate::memory_zk(&self.model, self.shape.weights.as_ref(), shape)
    }

    /// The shape of proofs in zero knowledge.
    pub(crate) fn zk_shape(&self, batch: usize, modes: Modes) -> Result<ZkShape, PlanError> {
        let program = self.model.checked_program();
        match &self.private {
            None => ZkShape::new(program, batch, modes),
            Some(private) => {
                let kept = &private.shape.kept;
                ZkShape::private(program, batch, modes, kept, Strength::FULL)
            }
        }
    }

    /// How the work of a proof about a batch of inputs is spread over its stages.
    ///
    /// # Errors
    /// If the program cannot be proved for so many inputs at once.
    pub fn work(&self, batch: usize) -> Result<Work, PlanError> {
        let shape = self.shape_of(batch)?;
        Ok(Work::of(&self.model, &shape))
    }

    /// The compiled model.
    #[must_use]
    pub const fn compiled(&self) -> &ExecutableModel {
        &self.model
    }
}

impl std::fmt::Debug for ProvingModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProvingModel")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

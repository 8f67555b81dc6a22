//! The state of the walk.

use crate::lookup::Read;
use crate::model::ProvingModel;
use crate::witness::Witness;
use std::sync::Arc;
use tg_exec::IntTensor;
use tg_ir::TensorId;
use tg_proof::field::E;
use tg_proof::plan::Plan;
use tg_proof::verify::Claim;

/// The point of a node's weights and, if it has some, of its bias digits.
pub(crate) type WeightPoints = (Vec<E>, Option<Vec<E>>);

/// The state of the walk.
pub(crate) struct Walk<'a> {
    pub(super) model: &'a ProvingModel,
    pub(super) plan: &'a Plan,
    pub(super) tensors: &'a [IntTensor],
    pub(super) witness: &'a Witness,
    pub(super) claims: Vec<Vec<Claim>>,
    pub(super) reads: Vec<Option<Read>>,
    pub(super) weights: Vec<Option<WeightPoints>>,
    pub(super) opened: Vec<Vec<Vec<E>>>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(
        model: &'a ProvingModel,
        plan: &'a Plan,
        tensors: &'a [IntTensor],
        witness: &'a Witness,
    ) -> Self {
        Self {
            model,
            plan,
            tensors,
            witness,
            claims: vec![Vec::new(); plan.layouts.len()],
            reads: vec![None; plan.groups.len()],
            weights: vec![None; plan.weights.len()],
            opened: vec![Vec::new(); plan.witness.len()],
        }
    }

    /// A claim on a tensor, to be shown when the walk comes to its node.
    pub(super) fn claim(&mut self, tensor: TensorId, point: Vec<E>, value: E) {
        self.claims[tensor.index()].push(Claim { point, value });
    }

    /// Lets a reader group read its columns at a point (with its equality table), and gives what it read: columns of its
    /// table are pulled from it.
    pub(super) fn read_columns(&mut self, group: usize, point: &Arc<[E]>, eq: &[E]) -> &Read {
        let read = Read::new(self.plan, self.witness, group, point, eq);
        self.reads[group].insert(read)
    }
}

//! Private weights: their commitment, their registration, and proofs about them.

use crate::channel::Channel;
use crate::columns::{NodeColumns, cells};
use crate::estimate;
use crate::fractional::{self, LeavesBuilder};
use crate::hiding::{self, Kept, uniform};
use crate::model::{ModelError, PrivateWeights, ProvingModel};
use crate::openings::{Openings, Secret};
use crate::registration::count;
use crate::workers;
use p3_field::PrimeCharacteristicRing;
use p3_multi_stark::fractional_gkr::FractionGkrProof;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tg_ir::weights::WEIGHT_MAX;
use tg_ir::{CompiledModel, ExecutableModel};
use tg_proof::commitment::WeightCommitment;
use tg_proof::field::{E, F, signed};
use tg_proof::hiding::{Strength, extension_cells, observe};
use tg_proof::messages;
use tg_proof::model::{ProofShape, private_model_id};
use tg_proof::private::{PrivateRegistration, PrivateShape, walk};
use tg_proof::registration::WEIGHT_VALUES;
use tg_proof::tape::{self, Tape};
use tg_proof::transcript::absorb;
use tg_proof::{PublicModel, zk};

impl ProvingModel {
    /// Checks the model, derives its proof's shape and commits its weights so that registration and proofs show nothing of
    /// them, see `docs/PROOF.md`, "Private weights". The same secret gives the same commitment.
    ///
    /// # Errors
    /// If the model is not well formed, cannot be proved or not be committed, or the secret is another model's.
    pub fn private(model: CompiledModel, secret: &Secret) -> Result<Self, ModelError> {
        Self::private_with(model.checked()?, secret, Strength::FULL)
    }

    /// The same with openings that withstand less: for statistics over many.
    pub(crate) fn private_with(
        model: ExecutableModel,
        secret: &Secret,
        strength: Strength,
    ) -> Result<Self, ModelError> {
        let (shape, columns) = Self::columns_of(&model)?;
        workers::run(estimate::is_small(&shape), || {
            Self::commit_private(model, (shape, columns), secret, strength)
        })
    }

    /// Commits columns as they are.
    pub(crate) fn commit_private(
        model: ExecutableModel,
        (shape, columns): (ProofShape, Vec<NodeColumns>),
        secret: &Secret,
        strength: Strength,
    ) -> Result<Self, ModelError> {
        let program_id = model.program.id();
        if secret.program != program_id {
            return Err(ModelError::Secret);
        }
        if shape.weights.is_none() {
            return Err(ModelError::NoWeights);
        }
        let private = PrivateShape::with_strength(&shape.plan, secret.proofs as usize, strength)
            .map_err(tg_proof::PlanError::from)?;
        let elements: Vec<F> = (0..=u8::MAX)
            .map(|byte| signed(i64::from(byte.cast_signed())))
            .collect();
        let element = |&value: &i8| elements[usize::from(value.cast_unsigned())];
        let all: Vec<Vec<F>> = cells(&columns)
            .into_iter()
            .flatten()
            .map(|column| column.iter().map(element).collect())
            .collect();
        let all = all.iter().map(Vec::as_slice).enumerate();
        let mut rng = StdRng::from_seed(secret.rows());
        let kept = Kept::commit(&private.kept, all, &mut rng).map_err(|_| ModelError::Commit)?;
        let (_, anchor_point) = private.anchor_point(program_id, kept.root());
        let commitment = WeightCommitment {
            root: kept.root().clone(),
            anchor: vec![vec![kept.evaluate(&anchor_point)]],
        };
        let id = private_model_id(program_id, &commitment, private.proofs);
        let private = PrivateWeights {
            shape: private,
            kept,
        };
        let committed = (Some(commitment), anchor_point, id);
        Ok(Self::of(
            (model, shape, columns),
            committed,
            None,
            Some(private),
        ))
    }

    /// How many openings the commitment of private weights serves, the registration's among them; none if they are public.
    #[must_use]
    pub fn openings(&self) -> usize {
        let private = self.private.as_ref();
        private.map_or(0, |private| private.shape.kept.openings())
    }

    /// The public model of private weights with its registration proof, which takes one of their openings. The seed is 32
    /// bytes that nobody else knows and that are used once.
    ///
    /// # Errors
    /// If the weights are public, all openings were begun, or the commitment cannot be opened.
    pub fn register_private(
        &self,
        openings: &dyn Openings,
        seed: [u8; 32],
    ) -> Result<PublicModel, ModelError> {
        let private = self.private.as_ref().ok_or(ModelError::Public)?;
        let commitment = self.commitment.clone().ok_or(ModelError::NoWeights)?;
        openings.begin(self.program_id, self.openings())?;
        let proof = workers::run(estimate::is_small(&self.shape), || {
            prove_registration(self, private, &mut StdRng::from_seed(seed))
        })?;
        Ok(PublicModel::with_private_weights(
            self.model.program.clone(),
            commitment,
            private.shape.proofs,
            messages::encode(&proof),
        )?)
    }
}

/// That every weight is in range and every padded cell zero, showing nothing else.
pub(crate) fn prove_registration(
    model: &ProvingModel,
    private: &PrivateWeights,
    rng: &mut StdRng,
) -> Result<PrivateRegistration, ModelError> {
    let failed = |_| ModelError::Commit;
    let shape = &private.shape;
    let columns = cells(&model.columns);
    let multiplicities = count(&columns);
    let secrets = shape.secrets.from_uniform(|| uniform(rng));
    let mut counted: Vec<F> = multiplicities.iter().map(|&m| F::from_u32(m)).collect();
    counted.resize(WEIGHT_VALUES.next_power_of_two(), F::ZERO);
    let hidden = extension_cells(&secrets, shape.secret_vars());
    let (root, fresh) =
        hiding::commit(&shape.hiding, 0, &[&hidden, &counted], rng).map_err(failed)?;
    let (mut challenger, anchor) = shape.anchor_point(model.program_id, private.kept.root());
    let commitment = model.commitment.as_ref().ok_or(ModelError::NoWeights)?;
    let values = commitment.anchor.iter();
    values.for_each(|values| absorb(&mut challenger, values));
    observe(&root, &mut challenger);
    let pads = secrets[..shape.secrets.messages].to_vec();
    #[cfg(test)]
    let pads = crate::tests::zk::leaked(pads);
    let mut channel = Channel::padded(challenger.clone(), pads);
    let gkr = prove_range(shape, &columns, &counted, &mut channel);

    let replay = Tape::of_secrets(shape.secrets, &secrets);
    let (mut owed, mut products) =
        walk(shape, &gkr, replay, &mut challenger).ok_or(ModelError::Commit)?;
    let eta = zk::bind_factors(&products, &mut challenger);
    products.compared = tape::compare(shape.secrets, &secrets, eta);
    let beta = zk::bind_compared(&products, &mut challenger);
    owed.compare(shape.secrets, &products.compared, eta)
        .ok_or(ModelError::Commit)?;
    let (functionals, sum) = owed.batched(shape.secrets, beta);
    let weights = private.kept.open(rng).map_err(failed)?;
    let opening = hiding::prove_kept(
        &shape.hiding,
        vec![fresh, weights],
        Some(&anchor),
        &functionals,
        sum,
        &mut challenger,
    )
    .map_err(failed)?;
    Ok(PrivateRegistration {
        root,
        gkr,
        products,
        opening,
    })
}

/// The fractional sum of all cells and their multiplicities.
fn prove_range(
    shape: &PrivateShape,
    columns: &[Vec<&[i8]>],
    multiplicities: &[F],
    channel: &mut Channel,
) -> FractionGkrProof<E> {
    let pole = channel.draw();
    let (blocks, vars) = &shape.leaves;
    let mut leaves = LeavesBuilder::new(*vars);
    for block in blocks {
        if let Some((table, column)) = block.cell {
            let offset = pole - E::from_u32(WEIGHT_MAX.unsigned_abs());
            let of_value: Vec<E> = (0..=u8::MAX)
                .map(|byte| offset - signed(i64::from(byte.cast_signed())))
                .collect();
            let cells = columns[table][column].iter();
            let denominators = cells.map(|value| of_value[usize::from(value.cast_unsigned())]);
            leaves.fractions(vec![E::ONE; 1 << block.vars], denominators.collect());
        } else {
            let numerators = multiplicities.iter().map(|&count| E::from(-count));
            let places = (0..multiplicities.len()).map(|value| pole - F::from_usize(value));
            leaves.fractions(numerators.collect(), places.collect());
        }
    }
    let leaves = leaves.finish();
    #[cfg(test)]
    let leaves = crate::lookup::closed(leaves);
    fractional::prove(&leaves, channel).0
}

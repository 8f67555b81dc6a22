//! Proofs in zero knowledge, from start to end.

use crate::channel::Channel;
use crate::clear::{execute, open_weights, stack};
use crate::error::ProveError;
use crate::estimate;
use crate::hiding::{self, Committed, uniform};
use crate::limits::{Limits, Stage};
use crate::lookup::{self, Columns, Pushing, Read};
use crate::masking::{Masking, Shows, files, salts, unnamed_are_zero};
use crate::model::ProvingModel;
use crate::request::ProveRequest;
use crate::walk::{Walk, WeightPoints};
use crate::witness::{Witness, integer};
use crate::workers;
use p3_commit::MultilinearPcs;
use p3_field::PrimeCharacteristicRing;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::borrow::Cow;
use tg_exec::{IntTensor, Trace};
use tg_proof::ajtai::TensorCommitment;
use tg_proof::commitment::{Challenger, Commitment, OpeningArgument};
use tg_proof::field::{E, F};
use tg_proof::hiding::{HidingProof, extension_cells};
use tg_proof::messages::{self, LookupProof};
use tg_proof::tape::{self, ProductMessages, Tape};
use tg_proof::verify::{ShownPart, Walked, walk_hidden};
use tg_proof::zk::{self, ZkProof, ZkShape};
use tg_proof::{ProofFile, Statement, Visibility};

/// Executes a model on a batch of inputs and proves all results in one proof that hides what its modes say and everything
/// between inputs and outputs. If the weights are private nothing of them is shown either: it takes one of the openings of
/// their commitment before anything is drawn that hides.
///
/// # Errors
/// Those of `crate::prove`.
pub(crate) fn prove(
    model: &ProvingModel,
    request: ProveRequest<'_>,
    masking: &Masking,
    observe: &mut (dyn FnMut(Stage) + Send),
) -> Result<(ProofFile, Vec<Trace>), ProveError> {
    let limits = &Limits {
        record: None,
        ..request.limits
    };
    let shape = model.zk_shape(request.inputs.len(), masking.modes)?;
    if let Some(limit) = limits.memory {
        let need = model.memory_of(&shape);
        if need > limit {
            return Err(ProveError::Memory { need, limit });
        }
    }
    workers::run(estimate::has_small_sums(&shape.plan), || {
        prove_on_workers((model, &shape), request, masking, (limits, observe))
    })
}

/// As [`prove`], within the limits of memory, on a worker thread: parts that run in parallel are then handed over without
/// waking anybody.
fn prove_on_workers(
    (model, shape): (&ProvingModel, &ZkShape),
    request: ProveRequest<'_>,
    masking: &Masking,
    (limits, observe): (&Limits<'_>, &mut (dyn FnMut(Stage) + Send)),
) -> Result<(ProofFile, Vec<Trace>), ProveError> {
    let ProveRequest {
        inputs,
        job,
        provider,
        openings,
        ..
    } = request;
    let (batch, modes, program) = (inputs.len(), masking.modes, &model.model.program);
    observe(Stage::Execute);
    let traces = execute(model, inputs, limits)?;
    let executions: Vec<&[IntTensor]> = traces.iter().map(Trace::tensors).collect();
    let listed = matches!(modes.input, Visibility::Each(_));
    if listed && !executions.iter().all(|own| unnamed_are_zero(program, own)) {
        return Err(ProveError::Unnamed);
    }
    let tensors = match executions.as_slice() {
        [one] => Cow::Borrowed(*one),
        several => Cow::Owned(stack(model, several)),
    };
    observe(Stage::Witness);
    let mut witness = Witness::of(program, &shape.plan, &tensors)?;
    let shows = masking.shows(program, &executions);
    witness.set_salts(&shape.plan, &salts(&shows));
    let [(input, input_digest), (output, output_digest)] = files(&shows, batch);
    let statement = Statement {
        model: model.id(),
        job,
        provider,
        batch: batch as u32,
        input: input_digest,
        output: output_digest,
        zk: Some(modes),
    };
    let execution = ZkExecution {
        model,
        shape,
        tensors: &tensors,
        witness: &witness,
        commitments: shows.iter().map(Shows::commitment).collect(),
        parts: shows[0].parts(program.input.element_type()),
    };
    if let Some(openings) = openings {
        openings.begin(model.program_id, model.openings())?;
    }
    let mut rng = StdRng::from_seed(masking.seed);
    let proof = execution.prove(&statement, &mut rng, limits, observe)?;
    let file = ProofFile {
        statement,
        input,
        output,
        proof: proof.encode(),
    };
    Ok((file, traces))
}

/// What is proved: batched tensors and their columns, true or not.
pub(crate) struct ZkExecution<'a> {
    pub(crate) model: &'a ProvingModel,
    pub(crate) shape: &'a ZkShape,
    pub(crate) tensors: &'a [IntTensor],
    pub(crate) witness: &'a Witness,
    /// Of the input, then of each output.
    pub(crate) commitments: Vec<Option<&'a TensorCommitment>>,
    /// Of inputs within the program's.
    pub(crate) parts: Vec<ShownPart>,
}

const FAILED: ProveError = ProveError::Commitment { which: "witness" };
const WEIGHTS: ProveError = ProveError::Commitment { which: "weights" };

impl ZkExecution<'_> {
    /// Proves it for a statement.
    pub(crate) fn prove(
        &self,
        statement: &Statement,
        rng: &mut StdRng,
        limits: &Limits<'_>,
        observe: &mut (dyn FnMut(Stage) + Send),
    ) -> Result<ZkProof, ProveError> {
        let model = self.model;
        let (shown, points, mut challenger) = self.show(statement, rng, limits, observe)?;
        limits.check()?;
        let mut weights = None;
        if model.private.is_none() {
            observe(Stage::OpenWeights);
            weights = open_weights(model, &points, &mut challenger)?;
        }
        observe(Stage::Done);
        Ok(shown.into_proof(weights))
    }

    /// Everything but the opening of the weights, where these are claimed, and the transcript up to it.
    pub(crate) fn show(
        &self,
        statement: &Statement,
        rng: &mut StdRng,
        limits: &Limits<'_>,
        observe: &mut (dyn FnMut(Stage) + Send),
    ) -> Result<(Shown, Vec<Option<WeightPoints>>, Challenger), ProveError> {
        let (model, shape) = (self.model, self.shape);
        limits.check()?;
        observe(Stage::Commit);
        let secrets = shape.secrets.from_uniform(|| uniform(rng));
        let columns = self.columns();
        let (root, committed) = self.commit(&columns, &secrets, rng)?;
        let absorb_weights = |challenger: &mut Challenger| match (&model.private, model.weights()) {
            (None, Some((weights, own))) => {
                weights.scheme.observe_commitment(&own.root, challenger);
            }
            (Some(_), Some((_, own))) => tg_proof::hiding::observe(&own.root, challenger),
            (_, None) => {}
        };
        let statement = statement.digest(model.program_id, model.parts(&shape.plan));
        let challenger = zk::start(statement, absorb_weights, &root);

        let pads = secrets[..shape.secrets.messages].to_vec();
        #[cfg(test)]
        let pads = crate::tests::zk::leaked(pads);
        let mut channel = Channel::padded(challenger.clone(), pads)
            .with_private_weights(shape.plan.private_weights);
        let mut walk = Walk::new(model, &shape.plan, self.tensors, self.witness);
        let all = model.model.program.nodes.len();
        let nodes = walk.run(&mut channel, &mut |done| {
            observe(Stage::Nodes(done, all));
            limits.check()
        })?;

        let walked = walk.walked();
        let mut all = vec![committed];
        let mut lookup = None;
        if shape.plan.looks_up() {
            observe(Stage::Lookup);
            let reads = (columns.as_slice(), walked.reads.as_slice());
            let (proof, pushforwards) = self.look_up(reads, (&mut channel, limits), rng)?;
            lookup = Some(proof);
            all.push(pushforwards);
        }
        if let Some(private) = &model.private {
            all.push(private.kept.open(rng).map_err(|_| WEIGHTS)?);
        }
        let sent = Sent {
            root,
            committed: all,
            nodes,
            lookup,
            challenger,
        };
        limits.check()?;
        observe(Stage::OpenWitness);
        let (shown, challenger) = self.open(sent, &secrets)?;
        Ok((shown, walked.weights, challenger))
    }

    /// The lookup argument, and the commitment of its pushforwards.
    fn look_up(
        &self,
        (columns, reads): (&[Vec<Vec<F>>], &[Read]),
        channel: (&mut Channel, &Limits<'_>),
        rng: &mut StdRng,
    ) -> Result<(LookupProof, Committed), ProveError> {
        let shape = self.shape;
        let mut pushforwards = None;
        let mut hide = |tables: &[Vec<E>]| {
            let cells = extension_cells(&tables.concat(), shape.pushforward_vars());
            let hidden =
                hiding::commit(&shape.hiding, 1, &[cells.as_slice()], rng).map_err(|_| FAILED)?;
            pushforwards = Some(hidden.1);
            Ok(hidden.0)
        };
        let column = |table: usize, column: usize| columns[table][column].as_slice();
        let (pushing, looked_up) = (Pushing::Hidden(&mut hide), Columns::Held(&column));
        let looked_up = lookup::prove(&shape.plan, pushing, &looked_up, reads, channel)?;
        Ok((looked_up.proof, pushforwards.ok_or(FAILED)?))
    }

    /// Per witness table its columns, without padding beyond their chunks.
    fn columns(&self) -> Vec<Vec<Vec<F>>> {
        let tables = self.shape.plan.witness.iter().zip(&self.witness.columns);
        tables
            .map(|(table, columns)| {
                let column = |cells: &Vec<_>| -> Vec<F> {
                    let cells = cells[..table.chunk.rows()].iter();
                    cells.map(|&cell| F::from_u32(integer(cell))).collect()
                };
                columns.iter().map(column).collect()
            })
            .collect()
    }

    /// Commits columns and secrets.
    fn commit(
        &self,
        columns: &[Vec<Vec<F>>],
        secrets: &[E],
        rng: &mut StdRng,
    ) -> Result<(Commitment, Committed), ProveError> {
        let secrets = extension_cells(secrets, self.shape.secret_vars());
        let mut all: Vec<&[F]> = columns.iter().flatten().map(Vec::as_slice).collect();
        all.push(&secrets);
        hiding::commit(&self.shape.hiding, 0, &all, rng).map_err(|_| FAILED)
    }

    /// Replays what was sent as its verifier will, and shows that all that must vanish does.
    fn open(&self, sent: Sent, secrets: &[E]) -> Result<(Shown, Challenger), ProveError> {
        let (model, shape) = (self.model, self.shape);
        let Sent {
            root,
            committed,
            nodes,
            lookup,
            mut challenger,
        } = sent;
        let (input, outputs) = crate::walk::shown(&model.model.program, self.tensors);
        let walked = Walked {
            program: &model.model.program,
            plan: &shape.plan,
            input: &input,
            outputs: &outputs,
            commitments: &self.commitments,
            parts: &self.parts,
            nodes: &nodes,
            lookup: lookup.as_ref(),
        };
        let replay = Tape::of_secrets(shape.secrets, secrets);
        let (mut obligations, mut products) =
            walk_hidden(&walked, replay, &mut challenger).map_err(|_| ProveError::Pads)?;
        let eta = zk::bind_factors(&products, &mut challenger);
        products.compared = tape::compare(shape.secrets, secrets, eta);
        let beta = zk::bind_compared(&products, &mut challenger);
        obligations
            .compare(shape.secrets, &products.compared, eta)
            .map_err(|_| ProveError::Pads)?;
        let batch = obligations.batched(shape.secrets, beta);
        let functionals = shape.functionals(&batch);
        let anchor = model
            .private
            .as_ref()
            .map(|_| model.anchor_point.as_slice());
        let opening = hiding::prove_kept(
            &shape.hiding,
            committed,
            anchor,
            &functionals,
            batch.sum,
            &mut challenger,
        )
        .map_err(|_| FAILED)?;
        let shown = Shown {
            witness: root,
            nodes,
            lookup,
            products,
            opening,
        };
        Ok((shown, challenger))
    }
}

/// A proof without the opening of the weights, which depend on nothing that is hidden.
pub(crate) struct Shown {
    pub(crate) witness: Commitment,
    pub(crate) nodes: Vec<messages::NodeProof>,
    pub(crate) lookup: Option<LookupProof>,
    pub(crate) products: ProductMessages,
    pub(crate) opening: HidingProof,
}

impl Shown {
    /// The proof, with an opening of the weights or none.
    fn into_proof(self, weights_opening: Option<OpeningArgument>) -> ZkProof {
        let Self {
            witness,
            nodes,
            lookup,
            products,
            opening,
        } = self;
        ZkProof {
            witness,
            nodes,
            lookup,
            products,
            opening,
            weights_opening,
        }
    }
}

/// What was committed and sent before everything is opened.
struct Sent {
    root: Commitment,
    committed: Vec<Committed>,
    nodes: Vec<messages::NodeProof>,
    lookup: Option<LookupProof>,
    /// The transcript before the first message.
    challenger: Challenger,
}

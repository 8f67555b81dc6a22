//! Making a proof.

use crate::lookup::{self, Read};
use crate::model::ProvingModel;
use crate::walk::Walk;
use crate::witness::Witness;
use p3_commit::MultilinearPcs;
use p3_sumcheck::PrescribedPointPcs;
use p3_sumcheck::layout::Layout;
use tg_model::{ExecuteError, Tensor, Trace};
use tg_proof::commitment::{FOLDING, Stacking};
use tg_proof::field::E;
use tg_proof::messages::{self, InferenceProof};
use tg_proof::verify::padded_point;
use tg_proof::{ProofFile, Statement, transcript};
use tg_types::{Address, Digest, JobId};

/// What the prover is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Executing the program.
    Execute,
    /// Computing the witness columns.
    Witness,
    /// Committing them.
    Commit,
    /// Walking the nodes: done, of.
    Nodes(usize, usize),
    /// The lookup argument.
    Lookup,
    /// Opening the witness.
    OpenWitness,
    /// Opening the weights.
    OpenWeights,
    /// Finished.
    Done,
}

/// Why no proof was made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProveError {
    /// The program cannot be executed on the input.
    #[error("the program cannot be executed")]
    Execute(#[from] ExecuteError),
    /// An accumulator outside the range of its segment table: not an execution of this program.
    #[error("node `{node}` has the accumulator {value}, outside its range [{}, {}]", range[0], range[1])]
    Range {
        /// The node.
        node: String,
        /// The accumulator.
        value: i32,
        /// The range.
        range: [i32; 2],
    },
    /// The commitment scheme failed.
    #[error("the {which} cannot be committed or opened")]
    Commitment {
        /// Witness or weights.
        which: &'static str,
    },
}

/// Executes a model on an input (i8, storage order) and proves the result for a job and a provider.
///
/// `observe` hears each stage as it starts; the prover itself knows no clock.
///
/// # Errors
/// If the input has the wrong length or a commitment fails.
pub fn prove(
    model: &ProvingModel,
    input: &[i8],
    job: JobId,
    provider: Address,
    observe: &mut dyn FnMut(Stage),
) -> Result<(ProofFile, Trace), ProveError> {
    observe(Stage::Execute);
    let trace = tg_model::execute(&model.model, input)?;
    observe(Stage::Witness);
    let witness = Witness::of(&model.model.program, &model.shape.plan, trace.tensors())?;
    let file = prove_witness(model, trace.tensors(), &witness, (job, provider), observe)?;
    Ok((file, trace))
}

/// Proves given tensors and columns, true or not.
pub(crate) fn prove_witness(
    model: &ProvingModel,
    tensors: &[Tensor],
    witness: &Witness,
    (job, provider): (JobId, Address),
    observe: &mut dyn FnMut(Stage),
) -> Result<ProofFile, ProveError> {
    let input = tensors.first().map(Tensor::to_bytes).unwrap_or_default();
    let output = tensors.last().map(Tensor::to_bytes).unwrap_or_default();
    let statement = Statement {
        model: model.id(),
        job,
        provider,
        input: Digest::of_blob(&input),
        output: Digest::of_blob(&output),
    };
    let proof = prove_statement(model, tensors, witness, &statement, observe)?;
    Ok(ProofFile {
        statement,
        input,
        output,
        proof: messages::encode(&proof),
    })
}

/// Proves given tensors and columns for a statement, true or not.
pub(crate) fn prove_statement(
    model: &ProvingModel,
    tensors: &[Tensor],
    witness: &Witness,
    statement: &Statement,
    observe: &mut dyn FnMut(Stage),
) -> Result<InferenceProof, ProveError> {
    let shape = &model.shape;
    let mut challenger = transcript::inference(model.program_id, statement);
    shape
        .weights_scheme
        .observe_commitment(&model.commitment.root, &mut challenger);

    observe(Stage::Commit);
    let tables = witness.tables();
    let stacked = Stacking::new_witness(tables.clone(), FOLDING);
    let failed = ProveError::Commitment { which: "witness" };
    let (commitment, data) = shape
        .witness_scheme
        .commit(stacked, &mut challenger)
        .map_err(|_| failed.clone())?;

    let mut walk = Walk::new(model, tensors, witness);
    let all = model.model.program.nodes.len();
    let nodes = walk.run(&mut challenger, &mut |done| {
        observe(Stage::Nodes(done, all))
    });

    observe(Stage::Lookup);
    let reads: Vec<Read> = walk
        .reads
        .into_iter()
        .map(|read| read.expect("every reader is visited"))
        .collect();
    let (lookup, point) = lookup::prove(&shape.plan, witness, &tables, &reads, &mut challenger);

    observe(Stage::OpenWitness);
    let points = witness_points(model, &point, &walk.attained);
    let witness_opening = shape
        .witness_scheme
        .open_at(data, &shape.witness_protocol, &points, &mut challenger)
        .map_err(|_| failed)?;

    observe(Stage::OpenWeights);
    let points: Vec<_> = shape
        .plan
        .weights
        .iter()
        .zip(&walk.weights)
        .flat_map(|(layout, claims)| {
            let (weight, bias) = claims.as_ref().expect("every weighted node is visited");
            let anchor = |vars| {
                tg_proof::field::point(&model.anchor_point[model.anchor_point.len() - vars..])
            };
            let [weight_vars, bias_vars] = [layout.weight_vars(), layout.bias_vars()];
            [
                padded_point(weight, weight_vars),
                anchor(weight_vars),
                padded_point(bias, bias_vars),
                anchor(bias_vars),
            ]
        })
        .collect();
    let weights_opening = shape
        .weights_scheme
        .open_at(
            model.data.clone(),
            &shape.weights_protocol,
            &points,
            &mut challenger,
        )
        .map_err(|_| ProveError::Commitment { which: "weights" })?;
    observe(Stage::Done);
    Ok(InferenceProof {
        witness: commitment,
        nodes,
        lookup,
        witness_opening,
        weights_opening,
    })
}

/// The points of the witness opening: each table at its part of the lookup point, maxima also at their zero-check.
fn witness_points(
    model: &ProvingModel,
    lookup_point: &[E],
    attained: &[Option<Vec<E>>],
) -> Vec<p3_multilinear_util::point::Point<E>> {
    let mut points = Vec::new();
    for (table, attained) in model.shape.plan.witness.iter().zip(attained) {
        let vars = table.chunk.column_vars();
        points.push(padded_point(
            &lookup_point[lookup_point.len() - table.chunk.vars..],
            vars,
        ));
        points.extend(attained.as_ref().map(|at| padded_point(at, vars)));
    }
    points
}

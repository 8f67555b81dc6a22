//! Proofs in the clear, from start to end.

use crate::channel::Channel;
use crate::error::ProveError;
use crate::estimate;
use crate::limits::{Limits, Stage};
use crate::lookup::{self, Columns, LookedUp, Pushing, Read};
use crate::model::ProvingModel;
use crate::record::step;
use crate::request::ProveRequest;
use crate::sections::Committed;
use crate::walk::{Execution, Walk, Walked, WeightPoints};
use crate::witness::Witness;
use crate::workers;
use p3_commit::MultilinearPcs;
use p3_maybe_rayon::prelude::*;
use p3_multilinear_util::poly::PolyView;
use p3_sumcheck::PrescribedPointPcs;
use tg_exec::{IntTensor, Trace};
use tg_ir::TensorId;
use tg_proof::commitment::{Challenger, OpeningArgument};
use tg_proof::field::{E, F};
use tg_proof::messages::{self, InferenceProof, NodeProof, SectionProofs};
use tg_proof::model::ProofShape;
use tg_proof::verify::{interleaved, padded_point};
use tg_proof::{ProofFile, Statement, transcript};
use tg_types::Digest;
#[cfg(test)]
use tg_types::{Address, JobId};

/// Executes a model on a batch of inputs and proves all results in one proof in the clear.
///
/// # Errors
/// Those of `crate::prove`.
pub(crate) fn prove(
    model: &ProvingModel,
    request: ProveRequest<'_>,
    observe: &mut (dyn FnMut(Stage) + Send),
) -> Result<(ProofFile, Vec<Trace>), ProveError> {
    let batched;
    let shape = if request.inputs.len() == 1 {
        &model.shape
    } else {
        batched = model.shape_of(request.inputs.len())?;
        &batched
    };
    if let Some(limit) = request.limits.memory {
        let need = estimate::memory(&model.model, shape);
        if need > limit {
            return Err(ProveError::Memory { need, limit });
        }
    }
    let ProveRequest {
        inputs,
        job,
        provider,
        limits,
        ..
    } = request;
    let statement = Statement {
        model: model.id(),
        job,
        provider,
        batch: inputs.len() as u32,
        input: Digest::default(),
        output: Digest::default(),
        zk: None,
    };
    workers::run(estimate::is_small(shape), || {
        prove_on_workers((model, shape), statement, inputs, &limits, observe)
    })
}

/// As [`prove`], with the tensors of the statement still to name, on a worker thread: parts that run in parallel are then handed over without waking anybody.
fn prove_on_workers(
    (model, shape): (&ProvingModel, &ProofShape),
    named: Statement,
    inputs: Vec<IntTensor>,
    limits: &Limits<'_>,
    observe: &mut (dyn FnMut(Stage) + Send),
) -> Result<(ProofFile, Vec<Trace>), ProveError> {
    observe(Stage::Execute);
    let traces = execute(model, inputs, limits)?;
    let stacked;
    let tensors = if let [trace] = traces.as_slice() {
        trace.tensors()
    } else {
        let executions: Vec<&[IntTensor]> = traces.iter().map(Trace::tensors).collect();
        stacked = stack(model, &executions);
        &stacked
    };
    observe(Stage::Witness);
    let witness = Witness::of(&model.model.program, &shape.plan, tensors)?;
    let bytes = |of: fn(&Trace) -> Vec<u8>| traces.iter().flat_map(of).collect::<Vec<u8>>();
    let first = |trace: &Trace| trace.tensors()[0].to_bytes();
    let (input, output) = (bytes(first), bytes(Trace::output_bytes));
    let statement = Statement {
        input: Digest::of_blob(&input),
        output: Digest::of_blob(&output),
        ..named
    };
    let execution = Execution {
        shape,
        tensors,
        witness: &witness,
    };
    let proof = prove_execution(model, &execution, &statement, limits, observe)?;
    let file = ProofFile {
        statement,
        input,
        output,
        proof: messages::encode_inference(&proof),
    };
    Ok((file, traces))
}

/// Executes a model on inputs.
pub(crate) fn execute(
    model: &ProvingModel,
    inputs: Vec<IntTensor>,
    limits: &Limits<'_>,
) -> Result<Vec<Trace>, ProveError> {
    let execute = |input| {
        limits.check()?;
        Ok(tg_exec::execute_tensor(&model.model, input)?)
    };
    inputs.into_par_iter().map(execute).collect()
}

/// The tensors of several executions as batched tensors: pixels, then inputs, then channels.
pub(crate) fn stack(model: &ProvingModel, executions: &[&[IntTensor]]) -> Vec<IntTensor> {
    let program = &model.model.program;
    let count = executions.len();
    (0..=program.nodes.len())
        .into_par_iter()
        .map(|index| {
            let shape = program.shape(TensorId(index as u32));
            let tensors = executions.iter().map(|tensors| &tensors[index]);
            let values: Vec<i32> = tensors.flat_map(IntTensor::widened).collect();
            let kind = executions[0][index].element_type();
            IntTensor::of(kind, &interleaved(values, shape, count))
        })
        .collect()
}

/// Proves given tensors and columns, true or not.
#[cfg(test)]
pub(crate) fn prove_witness(
    model: &ProvingModel,
    tensors: &[IntTensor],
    witness: &Witness,
    (job, provider): (JobId, Address),
    observe: &mut (dyn FnMut(Stage) + Send),
) -> Result<ProofFile, ProveError> {
    let input = tensors.first().map(IntTensor::to_bytes).unwrap_or_default();
    let outputs = model.model.program.outputs().into_iter();
    let output: Vec<u8> = outputs
        .flat_map(|output| tensors[output.index()].to_bytes())
        .collect();
    let statement = Statement {
        model: model.id(),
        job,
        provider,
        batch: 1,
        input: Digest::of_blob(&input),
        output: Digest::of_blob(&output),
        zk: None,
    };
    let proof = prove_statement(model, tensors, witness, &statement, observe)?;
    Ok(ProofFile {
        statement,
        input,
        output,
        proof: messages::encode_inference(&proof),
    })
}

/// Proves given tensors and columns for a statement about one input, true or not.
#[cfg(test)]
pub(crate) fn prove_statement(
    model: &ProvingModel,
    tensors: &[IntTensor],
    witness: &Witness,
    statement: &Statement,
    observe: &mut (dyn FnMut(Stage) + Send),
) -> Result<InferenceProof, ProveError> {
    let execution = Execution {
        shape: &model.shape,
        tensors,
        witness,
    };
    prove_execution(model, &execution, statement, &Limits::default(), observe)
}

/// Proves an execution for a statement.
pub(crate) fn prove_execution(
    model: &ProvingModel,
    execution: &Execution<'_>,
    statement: &Statement,
    limits: &Limits<'_>,
    observe: &mut (dyn FnMut(Stage) + Send),
) -> Result<InferenceProof, ProveError> {
    let &Execution { shape, witness, .. } = execution;
    let parts = model.parts(&shape.plan);
    let mut challenger = transcript::inference(statement.digest(model.program_id, parts));
    if let Some((weights, commitment)) = model.weights() {
        let root = &commitment.root;
        weights.scheme.observe_commitment(root, &mut challenger);
    }

    let mut channel = Channel::clear(challenger);
    let committed = Committed::new((shape, witness), &mut channel, limits, &mut || {
        observe(Stage::Commit);
    })?;

    let (nodes, walked) = walk_nodes(model, execution, (&mut channel, limits), observe)?;

    let mut proof = InferenceProof {
        witness: None,
        nodes,
        lookup: None,
        witness_opening: None,
        weights_opening: None,
        sections: SectionProofs::default(),
    };
    if parts.witness.is_committed() {
        observe(Stage::Lookup);
        limits.check()?;
        let (reads, with) = (&walked.reads, (&mut channel, limits));
        let looked_up = look_up(shape, (&committed, witness), reads, with)?;
        let opened = (looked_up, walked.opened.as_slice());
        open_witness(
            committed,
            opened,
            (&mut proof, limits),
            &mut channel,
            observe,
        )?;
    }
    limits.check()?;
    observe(Stage::OpenWeights);
    proof.weights_opening = open_weights(model, &walked.weights, channel.challenger())?;
    observe(Stage::Done);
    Ok(proof)
}

/// Opens the sections of the witness, and puts what is sent of it in its places.
fn open_witness(
    mut committed: Committed<'_>,
    (looked_up, opened): (LookedUp, &[Vec<Vec<E>>]),
    (proof, limits): (&mut InferenceProof, &Limits<'_>),
    channel: &mut Channel,
    observe: &mut (dyn FnMut(Stage) + Send),
) -> Result<(), ProveError> {
    let mut openings = committed
        .open((&looked_up, opened), channel, limits, &mut || {
            observe(Stage::OpenWitness);
        })?
        .into_iter();
    let mut roots = committed.roots.into_iter();
    proof.witness = roots.next();
    proof.lookup = Some(looked_up.proof);
    proof.witness_opening = openings.next();
    proof.sections = SectionProofs {
        roots: roots.collect(),
        anchors: committed.anchors,
        sums: looked_up.sums,
        tables: looked_up.tables,
        openings: openings.collect(),
    };
    Ok(())
}

/// Opens public weights where they were claimed; nothing if there are none.
pub(crate) fn open_weights(
    model: &ProvingModel,
    claims: &[Option<WeightPoints>],
    challenger: &mut Challenger,
) -> Result<Option<OpeningArgument>, ProveError> {
    let Some((weights, _)) = model.weights() else {
        return Ok(None);
    };
    let data = model.data.clone().ok_or(ProveError::PrivateWeights)?;
    let points = weight_points(model, claims);
    let opening = weights
        .scheme
        .open_at(data, &weights.protocol, &points, challenger)
        .map_err(|_| ProveError::Commitment { which: "weights" })?;
    Ok(Some(opening.whir))
}

/// The messages of the nodes, and what the walk over them leaves behind.
fn walk_nodes(
    model: &ProvingModel,
    execution: &Execution<'_>,
    (channel, limits): (&mut Channel, &Limits<'_>),
    observe: &mut (dyn FnMut(Stage) + Send),
) -> Result<(Vec<NodeProof>, Walked), ProveError> {
    let all = model.model.program.nodes.len();
    let mut visited = |done| {
        observe(Stage::Nodes(done, all));
        limits.check()
    };
    step(
        limits.record,
        channel,
        |nodes: &Vec<NodeProof>, challenger| Walked::replay(model, execution, nodes, challenger),
        |channel| {
            let plan = &execution.shape.plan;
            let mut walk = Walk::new(model, plan, execution.tensors, execution.witness);
            let nodes = walk.run(channel, &mut visited)?;
            Ok((nodes, walk.walked()))
        },
    )
}

/// The lookup argument over columns that are held, or made section by section.
fn look_up(
    shape: &ProofShape,
    (committed, witness): (&Committed<'_>, &Witness),
    reads: &[Read],
    (channel, limits): (&mut Channel, &Limits<'_>),
) -> Result<LookedUp, ProveError> {
    let pushing = Pushing::Plain(shape.pushforwards.as_ref());
    let plan = &shape.plan;
    let Some(data) = &committed.whole else {
        let columns = Columns::Sections(witness);
        return lookup::prove(plan, pushing, &columns, reads, (channel, limits));
    };
    let tables = plan.witness.iter().enumerate();
    let columns: Vec<Vec<PolyView<'_, F>>> = tables
        .map(|(table, own)| {
            let columns = 0..own.columns;
            columns
                .map(|column| data.table(table).poly(column))
                .collect()
        })
        .collect();
    let column = |table: usize, column: usize| columns[table][column].as_slice();
    let columns = Columns::Held(&column);
    lookup::prove(plan, pushing, &columns, reads, (channel, limits))
}

/// The points of the weights' opening: per column its part of the claim's point, and the anchor.
pub(crate) fn weight_points(
    model: &ProvingModel,
    claims: &[Option<WeightPoints>],
) -> Vec<p3_multilinear_util::point::Point<E>> {
    let at = &model.anchor_point;
    let anchor = |vars: usize| tg_proof::field::point(&at[at.len() - vars..]);
    let mut points = Vec::new();
    let plan = &model.shape.plan;
    let claim = |index: usize| {
        let claim = claims[index].as_ref();
        claim.expect("every weighted node is visited")
    };
    for (own, layout) in plan.weights.iter().enumerate() {
        for piece in layout.own_pieces() {
            let vars = piece.column_vars();
            for reader in plan.readers_of(own) {
                let (at, _) = layout.piece_point(&piece, &claim(reader).0);
                points.push(padded_point(&at, vars));
            }
            points.push(anchor(vars));
        }
        if let Some(bias) = &claim(own).1 {
            points.push(padded_point(bias, layout.bias_vars()));
            points.push(anchor(layout.bias_vars()));
        }
    }
    points
}

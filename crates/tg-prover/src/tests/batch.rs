//! Several inputs in one proof: honest ones verify, and each input of a batch is bound as a single one is.

use super::models::{
    ADD, CONV, DENSE, JOB, POOL, PROVIDER, SECOND, SUM, bytes, case, everything, set,
};
use crate::clear::{prove_execution, stack};
use crate::walk::Execution;
use crate::witness::Witness;
use crate::{Limits, ModelError, ProveError, ProvingModel, prove};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use tg_compile::suite;
use tg_exec::sample::{Numbers, random_model};
use tg_exec::{IntTensor, Trace};
use tg_proof::cost::BATCH_MAX;
use tg_proof::error::NodeCheck;
use tg_proof::messages;
use tg_proof::model::ProofShape;
use tg_proof::{
    ExpectedStatement, PlanError, ProofFile, PublicModel, Statement, VerifyError, verify,
};
use tg_types::Digest;
use tg_types::codec::{Decode, Encode};

fn inputs(elements: usize, count: usize, seed: u64) -> Vec<Vec<i8>> {
    let mut numbers = Numbers::new(seed);
    let mut input = || (0..elements).map(|_| numbers.activation()).collect();
    (0..count).map(|_| input()).collect()
}

fn proved(model: &ProvingModel, inputs: &[Vec<i8>]) -> (ProofFile, Vec<Trace>) {
    prove(model, bytes(inputs).named(JOB, PROVIDER), &mut |_| {}).unwrap()
}

fn verdict(public: &PublicModel, file: &ProofFile) -> Result<(), VerifyError> {
    verify(public, file, &ExpectedStatement::default())
}

/// Three executions of the model of [`everything`].
struct Batch {
    traces: Vec<Trace>,
    file: ProofFile,
    shape: ProofShape,
}

const COUNT: usize = 3;

fn batch() -> &'static Batch {
    static BATCH: OnceLock<Batch> = OnceLock::new();
    BATCH.get_or_init(|| {
        let model = &case().model;
        let (file, traces) = proved(model, &inputs(108, COUNT, 4));
        let shape = ProofShape::batched(model.model.program.check().unwrap(), COUNT).unwrap();
        Batch {
            traces,
            file,
            shape,
        }
    })
}

impl Batch {
    fn tensors(&self) -> Vec<Vec<IntTensor>> {
        let traces = self.traces.iter();
        traces.map(|trace| trace.tensors().to_vec()).collect()
    }

    /// The verdict on a proof of given executions, about their inputs and outputs.
    fn verdict(&self, executions: &[Vec<IntTensor>]) -> Result<(), VerifyError> {
        let bytes = |of: fn(&Vec<IntTensor>) -> &IntTensor| {
            let tensors = executions.iter().map(of);
            tensors.flat_map(IntTensor::to_bytes).collect::<Vec<u8>>()
        };
        let input = bytes(|tensors| &tensors[0]);
        let output = bytes(|tensors| tensors.last().unwrap());
        let statement = Statement {
            input: Digest::of_blob(&input),
            output: Digest::of_blob(&output),
            ..self.file.statement
        };
        let proof = self.proof(executions, &statement);
        let file = ProofFile {
            statement,
            input,
            output,
            proof,
        };
        verdict(&case().public, &file)
    }

    /// A proof of given executions for a statement.
    fn proof(&self, executions: &[Vec<IntTensor>], statement: &Statement) -> Vec<u8> {
        let model = &case().model;
        let executions: Vec<&[IntTensor]> = executions.iter().map(Vec::as_slice).collect();
        let tensors = stack(model, &executions);
        let witness = Witness::of(&model.model.program, &self.shape.plan, &tensors).unwrap();
        let execution = Execution {
            shape: &self.shape,
            tensors: &tensors,
            witness: &witness,
        };
        let limits = Limits::default();
        let proof = prove_execution(model, &execution, statement, &limits, &mut |_| {}).unwrap();
        messages::encode(&proof)
    }
}

#[test]
fn batches_of_every_size_prove_and_verify() {
    let case = case();
    for count in [1, 2, 3, 4, 5, 9] {
        let inputs = inputs(108, count, 40 + count as u64);
        let (file, traces) = proved(&case.model, &inputs);
        assert_eq!(file.statement.batch as usize, count);
        let outputs: Vec<u8> = traces.iter().flat_map(Trace::output_bytes).collect();
        assert_eq!(file.output, outputs);
        let read = ProofFile::from_bytes(&file.to_bytes()).unwrap();
        assert_eq!(verdict(&case.public, &read), Ok(()), "{count} inputs");
    }
}

#[test]
fn batches_of_random_models_prove_and_verify() {
    let mut proved_models = 0;
    for seed in 300..360u64 {
        let (compiled, _) = random_model(seed);
        let elements = compiled.program.input.shape.elements();
        let model = match ProvingModel::new(compiled) {
            Ok(model) => model,
            Err(ModelError::Plan(_)) => continue,
            Err(error) => panic!("seed {seed}: {error}"),
        };
        let public = model.register().unwrap();
        let (file, _) = proved(&model, &inputs(elements, 3, seed));
        assert_eq!(verdict(&public, &file), Ok(()), "seed {seed}");
        proved_models += 1;
    }
    assert!(proved_models >= 12, "{proved_models}");
}

#[test]
fn a_wrong_element_of_one_input_is_caught_at_its_node() {
    let (batch, case) = (batch(), case());
    assert_eq!(batch.verdict(&batch.tensors()), Ok(()));
    for (node, check) in [
        (CONV, NodeCheck::Products),
        (SECOND, NodeCheck::Products),
        (DENSE, NodeCheck::Products),
        (ADD, NodeCheck::Addition),
        (SUM, NodeCheck::Sources),
        (POOL, NodeCheck::Sources),
    ] {
        for input in 0..COUNT {
            let mut lie = batch.tensors();
            let tensors = &mut lie[input];
            let honest = tensors[node + 1].widened()[2];
            // A maximum that is too small has a negative difference; an accumulator is another one.
            set(&mut tensors[node + 1], 2, honest - 1);
            case.recompute(tensors, node + 1);
            assert_eq!(
                batch.verdict(&lie),
                case.failed(node, check),
                "input {input}"
            );
        }
    }
}

#[test]
fn outputs_of_a_batch_are_not_exchanged() {
    let (batch, case) = (batch(), case());
    // A proof of the executions in another order, for the statement in this one.
    let mut swapped = batch.tensors();
    swapped.swap(0, 2);
    let file = ProofFile {
        proof: batch.proof(&swapped, &batch.file.statement),
        ..batch.file.clone()
    };
    assert!(verdict(&case.public, &file).is_err());
    // The honest proof under exchanged inputs or outputs, whether or not the statement names them.
    for which in ["input", "output"] {
        let mut file = batch.file.clone();
        let bytes = if which == "input" {
            &mut file.input
        } else {
            &mut file.output
        };
        let length = bytes.len() / COUNT;
        bytes.rotate_left(length);
        let refused = Err(VerifyError::Digest { which });
        assert_eq!(verdict(&case.public, &file), refused);
        file.statement.input = Digest::of_blob(&file.input);
        file.statement.output = Digest::of_blob(&file.output);
        assert!(verdict(&case.public, &file).is_err(), "{which}");
    }
}

#[test]
fn another_batch_size_is_refused() {
    let (batch, case) = (batch(), case());
    for size in [0, 2, 4, u32::MAX] {
        let mut file = batch.file.clone();
        file.statement.batch = size;
        let verdict = verdict(&case.public, &file);
        let length = matches!(verdict, Err(VerifyError::Length { which: "input", .. }));
        assert!(length, "{size}: {verdict:?}");
    }
    // No bytes at all are as long as no inputs.
    let mut file = batch.file.clone();
    file.statement.batch = 0;
    (file.input, file.output) = (Vec::new(), Vec::new());
    let empty = Digest::of_blob(&[]);
    (file.statement.input, file.statement.output) = (empty, empty);
    let refused = Err(VerifyError::Batch { batch: 0 });
    assert_eq!(verdict(&case.public, &file), refused);
    // Two inputs' bytes, rightly named, do not make a proof of three one of two.
    let mut file = batch.file.clone();
    file.statement.batch = 2;
    file.input.truncate(file.input.len() / 3 * 2);
    file.output.truncate(file.output.len() / 3 * 2);
    file.statement.input = Digest::of_blob(&file.input);
    file.statement.output = Digest::of_blob(&file.output);
    assert!(verdict(&case.public, &file).is_err());
}

#[test]
fn batches_beyond_the_limit_are_refused() {
    let model = &case().model;
    let refused = |count: usize| {
        let inputs = vec![[0i8; 108].as_slice(); count];
        prove(model, bytes(&inputs), &mut |_| {}).unwrap_err()
    };
    for got in [0, BATCH_MAX + 1] {
        let error = PlanError::Batch {
            got,
            limit: BATCH_MAX,
        };
        assert_eq!(refused(got), ProveError::Plan(error));
        assert!(case().public.shape_of(got).is_err());
    }
}

#[test]
fn a_batch_reaches_a_hundred_bits() {
    let public = &case().public;
    for size in [2, 64, 1_000] {
        let report = tg_proof::security::report_batch(public, size).unwrap();
        assert!(report.bits >= 100.0, "{size}: {}", report.bits);
    }
    assert!(tg_proof::security::report_batch(public, BATCH_MAX + 1).is_none());
}

#[test]
fn limits_are_kept() {
    let (compiled, input) = everything();
    let model = ProvingModel::new(compiled).unwrap();
    let prove_within = |limits: Limits<'_>, observe: &mut (dyn FnMut(crate::Stage) + Send)| {
        prove(&model, bytes(&[&input]).within(limits), observe).map(drop)
    };
    let need = model.memory(1).unwrap();
    assert!(need > 100_000 && model.memory(64).unwrap() > 2 * need);
    let mut stages = 0;
    for (limit, fits) in [(need, true), (need - 1, false), (0, false)] {
        let limits = Limits {
            memory: Some(limit),
            cancel: None,
            record: None,
        };
        let expected = if fits {
            Ok(())
        } else {
            Err(ProveError::Memory { need, limit })
        };
        stages = 0;
        assert_eq!(prove_within(limits, &mut |_| stages += 1), expected);
        assert_eq!(stages > 0, fits, "nothing starts beyond the limit");
    }
    assert_eq!(stages, 0);
    let cancel = AtomicBool::new(false);
    let limits = Limits {
        memory: None,
        cancel: Some(&cancel),
        record: None,
    };
    let stopped = prove_within(limits, &mut |stage| {
        stages += 1;
        cancel.store(stage == crate::Stage::Nodes(2, 11), Ordering::Relaxed);
    });
    assert_eq!(stopped, Err(ProveError::Cancelled));
    // Execution, witness, commitment, two nodes.
    assert_eq!(stages, 5);
}

/// The bytes of a proof depend on its statement alone, not on the number of threads.
#[cfg(feature = "parallel")]
#[test]
fn any_number_of_threads_makes_the_same_proof() {
    let (compiled, input) = suite::Architecture::LeNet.model(5);
    let input = input.activations().unwrap().to_vec();
    let model = ProvingModel::new(compiled).unwrap();
    let files: Vec<(ProofFile, Vec<u8>)> = [1, 2, 7]
        .into_iter()
        .map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            let registration = pool.install(|| model.register().unwrap().encode());
            let file = pool.install(|| proved(&model, &[input.clone(), input.clone()]).0);
            (file, registration)
        })
        .collect();
    assert!(files[1..].iter().all(|made| *made == files[0]));
}

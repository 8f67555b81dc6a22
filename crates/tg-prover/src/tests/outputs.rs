//! Programs that give several tensors: of every type, a node that others read, the input, one twice. Each is bound in the clear
//! and in zero knowledge, and none stands for another.

use super::codings::Lie;
use super::hidden::all_modes;
use super::models::{Case, Draft, JOB, PROVIDER, window};
use crate::clear::prove_statement;
use crate::masking::{Shows, files, salts};
use crate::witness::Witness;
use crate::zk::ZkExecution;
use crate::{Limits, Masking, ProveRequest, prove};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tg_exec::IntTensor;
use tg_ir::op;
use tg_ir::{CompiledModel, Op, Shape, TensorId};
use tg_proof::messages;
use tg_proof::{Modes, ProofFile, Statement, VerifyError, Visibility};
use tg_types::Digest;

const INPUT: TensorId = TensorId::INPUT;
/// Places in the list of [`several`].
const SCORES: usize = 0;
const FIRST: usize = 1;
const WIDE: usize = 2;
const SUMS: usize = 3;
const GIVEN: usize = 4;
const AGAIN: usize = 5;
const OTHER: usize = 6;

/// A convolution whose sums, 8-bit and 16-bit outputs are given, the input, one tensor twice, and two layers on top: of the last
/// node, which is listed first, and of one that nobody reads.
fn several() -> (CompiledModel, IntTensor) {
    let mut draft = Draft::new(41, Shape::new(4, 4, 3));
    let map = Shape::new(4, 4, 5);
    let sums = draft.push(Op::conv(INPUT, window(3, 1, [1; 4])), map);
    let first = draft.requantise(sums, 23, [-128, 127]);
    let wide = draft.narrowed(sums, 12);
    let input = first;
    let other = draft.push(Op::Dense(op::Dense { input }), Shape::vector(3));
    let scores = draft.push(Op::Dense(op::Dense { input }), Shape::vector(3));
    draft.outputs = vec![scores, first, wide, sums, INPUT, first, other];
    draft.finish_tensor()
}

fn case() -> Case {
    Case::of_tensor(several())
}

/// Linear maps and nothing to look up: what is read twice has two claims, one of them an output's.
fn linear() -> (CompiledModel, IntTensor) {
    let shape = Shape::new(2, 3, 5);
    let mut draft = Draft::new(42, shape);
    let twice = draft.push(Op::add([INPUT, INPUT], [1, 1]), shape);
    let last = draft.push(Op::add([twice, INPUT], [1, -3]), shape);
    draft.outputs = vec![twice, last];
    draft.finish_tensor()
}

#[test]
fn honest_outputs_verify_in_every_mode() {
    for built in [several(), linear()] {
        let (input, case) = (built.1.clone(), Case::of_tensor(built));
        assert_eq!(case.check(&case.file), Ok(()));
        assert_eq!(case.file.output, case.trace.output_bytes());
        for count in [1, 3] {
            let inputs = || vec![input.clone(); count];
            let request = ProveRequest::of(inputs()).named(JOB, PROVIDER);
            let (file, traces) = prove(&case.model, request, &mut |_| {}).unwrap();
            assert_eq!(case.check(&file), Ok(()), "{count}");
            assert_eq!(file.output, traces[0].output_bytes().repeat(count));
        }
        for modes in all_modes() {
            let masking = Masking::new([3; 32], modes);
            let request = ProveRequest::of(vec![input.clone(); 2]).named(JOB, PROVIDER);
            let proved = prove(&case.model, request.masked(&masking), &mut |_| {});
            assert_eq!(case.check(&proved.unwrap().0), Ok(()), "{modes:?}");
        }
    }
}

/// The bytes of each output.
fn parts(case: &Case) -> Vec<Vec<u8>> {
    case.trace.outputs().map(IntTensor::to_bytes).collect()
}

/// The verdict on a proof of the true execution for a statement with other outputs.
fn claimed(case: &Case, parts: &[Vec<u8>]) -> Result<(), VerifyError> {
    let output = parts.concat();
    let statement = Statement {
        output: Digest::of_blob(&output),
        ..case.file.statement
    };
    let (tensors, witness) = (case.trace.tensors(), case.witness());
    let proof = prove_statement(&case.model, tensors, &witness, &statement, &mut |_| {});
    case.check(&ProofFile {
        statement,
        output,
        proof: messages::encode_inference(&proof.unwrap()),
        ..case.file.clone()
    })
}

/// The same in zero knowledge.
fn claimed_hidden(case: &Case, parts: &[Vec<u8>]) -> Result<(), VerifyError> {
    let modes = Modes::HIDDEN_INPUT;
    let program = &case.model.model.program;
    let shape = case.model.zk_shape(1, modes).unwrap();
    let tensors = case.trace.tensors();
    let witness = Witness::of(program, &shape.plan, tensors).unwrap();
    let output = parts.concat();
    let statement = Statement {
        input: Digest::default(),
        output: Digest::of_blob(&output),
        zk: Some(modes),
        ..case.file.statement
    };
    let execution = ZkExecution {
        model: &case.model,
        shape: &shape,
        tensors,
        witness: &witness,
        commitments: Vec::new(),
        parts: Vec::new(),
    };
    let mut rng = StdRng::seed_from_u64(5);
    let proof = execution.prove(&statement, &mut rng, &Limits::default(), &mut |_| {});
    case.check(&ProofFile {
        statement,
        input: Vec::new(),
        output,
        proof: proof.unwrap().encode(),
    })
}

#[test]
fn a_wrong_element_of_any_output_is_refused() {
    let case = case();
    let honest = parts(&case);
    assert_eq!(claimed(&case, &honest), Ok(()));
    assert_eq!(claimed_hidden(&case, &honest), Ok(()));
    for output in [SCORES, FIRST, WIDE, SUMS, GIVEN, AGAIN, OTHER] {
        for place in [0, honest[output].len() - 4] {
            let mut wrong = honest.clone();
            wrong[output][place] ^= 1;
            let refused = claimed(&case, &wrong).unwrap_err();
            // The walk finds it: the statement is what was proved.
            let by_walk = matches!(
                refused,
                VerifyError::Node { .. } | VerifyError::Lookup(_) | VerifyError::Input
            );
            assert!(by_walk, "{output} {refused}");
            assert!(claimed_hidden(&case, &wrong).is_err(), "{output}");
        }
    }
}

#[test]
fn outputs_do_not_stand_for_each_other() {
    let case = case();
    let honest = parts(&case);
    assert_eq!(honest[FIRST], honest[AGAIN]);
    assert_eq!(honest[SCORES].len(), honest[OTHER].len());
    // Two of one shape; one twice instead of both.
    let mut swapped = honest.clone();
    swapped.swap(SCORES, OTHER);
    let mut repeated = honest.clone();
    repeated[OTHER] = honest[SCORES].clone();
    // All in another order, which has as many bytes.
    let mut turned = honest.clone();
    turned.rotate_left(1);
    for lie in [swapped, repeated] {
        assert!(matches!(
            claimed(&case, &lie),
            Err(VerifyError::Node { .. })
        ));
        assert!(claimed_hidden(&case, &lie).is_err());
    }
    // Its bytes of 32 bits may be beyond what any accumulator is.
    assert!(claimed(&case, &turned).is_err());
    let mut short = honest;
    short.pop();
    assert!(matches!(
        claimed(&case, &short),
        Err(VerifyError::Length {
            which: "output",
            ..
        })
    ));
}

/// The tensor itself is another: the columns of its node, or its readers, do not agree with it.
#[test]
fn another_tensor_behind_an_output_is_refused() {
    let case = case();
    for output in case.model.model.program.outputs() {
        let Some(node) = output.index().checked_sub(1) else {
            continue;
        };
        let value = case.trace.tensor(output).widened()[2];
        let tensors = case.tensors_with(node, 2, if value > 0 { value - 1 } else { value + 1 });
        let witness = case.witness_of(&tensors).unwrap();
        assert!(case.verdict(&tensors, &witness).is_err(), "node {node}");
    }
}

#[test]
fn every_column_of_a_hidden_output_is_bound() {
    let (input, output) = (Visibility::Hidden, Visibility::Hidden);
    let modes = Modes { input, output };
    let lie = Lie {
        case: case(),
        modes,
    };
    let shape = lie.shape();
    let tensors = lie.case.trace.tensors();
    let program = &lie.case.model.model.program;
    let honest = Witness::of(program, &shape.plan, tensors).unwrap();
    assert_eq!(lie.verdict(tensors, &honest), Ok(()));
    assert_eq!(shape.plan.outputs.len(), 7);
    for own in shape.plan.outputs.iter().flatten() {
        let table = own.columns.witness.start;
        let mut witness = honest.clone();
        witness.columns[table][0][0] ^= 1;
        assert!(lie.verdict(tensors, &witness).is_err());
    }
    // The columns of two outputs of one shape, swapped.
    let start = |index: usize| {
        shape.plan.outputs[index]
            .as_ref()
            .unwrap()
            .columns
            .witness
            .start
    };
    let [one, two] = [SCORES, OTHER].map(start);
    let mut witness = honest;
    witness.columns.swap(one, two);
    assert!(lie.verdict(tensors, &witness).is_err());
}

/// The verdict on a proof whose statement names some commitments, of columns that open others.
fn committed(case: &Case, named: &[Shows], opened: &[Shows]) -> Result<(), VerifyError> {
    let (input, output) = (Visibility::Hidden, Visibility::Committed);
    let modes = Modes { input, output };
    let program = &case.model.model.program;
    let shape = case.model.zk_shape(1, modes).unwrap();
    let tensors = case.trace.tensors();
    let mut witness = Witness::of(program, &shape.plan, tensors).unwrap();
    witness.set_salts(&shape.plan, &salts(opened));
    let [(input, input_digest), (output, output_digest)] = files(named, 1);
    let statement = Statement {
        input: input_digest,
        output: output_digest,
        zk: Some(modes),
        ..case.file.statement
    };
    let execution = ZkExecution {
        model: &case.model,
        shape: &shape,
        tensors,
        witness: &witness,
        commitments: named.iter().map(Shows::commitment).collect(),
        parts: Vec::new(),
    };
    let mut rng = StdRng::seed_from_u64(5);
    let proof = execution.prove(&statement, &mut rng, &Limits::default(), &mut |_| {});
    let proof = proof.unwrap().encode();
    case.check(&ProofFile {
        statement,
        input,
        output,
        proof,
    })
}

#[test]
fn commitments_of_outputs_are_opened_each_by_its_own() {
    let case = case();
    let (input, output) = (Visibility::Hidden, Visibility::Committed);
    let masking = Masking {
        salts: [[1; 32], [2; 32]],
        ..Masking::new([3; 32], Modes { input, output })
    };
    let program = &case.model.model.program;
    let shows = || masking.shows(program, &[case.trace.tensors()]);
    assert_eq!(committed(&case, &shows(), &shows()), Ok(()));
    // Equal tensors have commitments of their own.
    let honest = shows();
    let bytes = |place: usize| honest[1 + place].bytes().0;
    assert_ne!(bytes(FIRST), bytes(AGAIN));
    for (one, two) in [(SCORES, OTHER), (FIRST, AGAIN)] {
        let mut swapped = shows();
        swapped.swap(1 + one, 1 + two);
        assert!(committed(&case, &swapped, &honest).is_err());
    }
    // One that is missing, and one more.
    let mut file = {
        let request = ProveRequest::of(vec![case.trace.tensors()[0].clone()]);
        let request = request.named(JOB, PROVIDER).masked(&masking);
        prove(&case.model, request, &mut |_| {}).unwrap().0
    };
    assert_eq!(case.check(&file), Ok(()));
    let all = file.output.clone();
    let longer = [all.clone(), bytes(AGAIN)].concat();
    for output in [all[bytes(SCORES).len()..].to_vec(), longer] {
        file.statement.output = Digest::of_blob(&output);
        file.output = output;
        let refused = VerifyError::Commitment { which: "output" };
        assert_eq!(case.check(&file), Err(refused));
    }
}

//! Statements that say one thing of one input of a file and another of the next, and likewise of outputs.

use super::models::{Case, Draft, JOB, PROVIDER};
use crate::masking::{Shows, files, salts};
use crate::witness::Witness;
use crate::zk::ZkExecution;
use crate::{Limits, Masking, ProveError, ProveRequest, prove};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tg_exec::IntTensor;
use tg_ir::{
    Coding, CompiledModel, ElementType, InputPort, Op, OutputPort, Shape, Signature, TensorId, op,
};
use tg_proof::ajtai;
use tg_proof::verify::ShownPart;
use tg_proof::zk::ZkShape;
use tg_proof::{
    ExpectedStatement, Modes, PartModes, PlanError, ProofFile, Statement, VerifyError, Visibility,
    verify,
};
use tg_types::Digest;
use tg_types::codec::{Decode, Encode};

use Visibility::{Committed, Hidden, Public};

const SALTS: [[u8; 32]; 2] = [[31; 32], [32; 32]];

/// Inputs of a file in one tensor, a dense layer whose sums are given, and their requantisation.
fn case(inputs: &[&[u32]], shape: Shape, seed: u64) -> (Case, IntTensor) {
    let mut draft = Draft::new(seed, shape);
    let input = TensorId::INPUT;
    let sums = draft.push(Op::Dense(op::Dense { input }), Shape::vector(3));
    let last = draft.requantise(sums, 22, [-128, 127]);
    draft.outputs = vec![sums, last];
    let (mut model, input) = draft.finish_tensor();
    let port = |(index, shape): (usize, &&[u32])| InputPort {
        name: format!("x{index}"),
        shape: shape.to_vec(),
    };
    let output = |name: &str| OutputPort {
        name: name.to_owned(),
        scale: 0.5,
        zero: 0,
        shape: vec![3],
        order: vec![0],
        labels: Vec::new(),
    };
    model.program.signature = Some(Signature {
        inputs: inputs.iter().enumerate().map(port).collect(),
        outputs: vec![output("sums"), output("scores")],
    });
    (Case::of_tensor((model, input.clone())), input)
}

/// Three inputs one after the other.
fn in_a_row() -> (Case, IntTensor) {
    case(&[&[1, 2], &[3], &[2, 2]], Shape::vector(9), 61)
}

/// Two inputs beside each other.
fn beside() -> (Case, IntTensor) {
    case(&[&[1, 4], &[1, 4]], Shape::new(4, 1, 2), 62)
}

fn each(modes: &[Visibility]) -> Visibility {
    Visibility::Each(PartModes::new(modes).unwrap())
}

fn masking(input: Visibility, output: Visibility) -> Masking {
    Masking {
        salts: SALTS,
        ..Masking::new([7; 32], Modes { input, output })
    }
}

fn proved(case: &Case, inputs: Vec<IntTensor>, masking: &Masking) -> ProofFile {
    let request = ProveRequest::of(inputs).named(JOB, PROVIDER);
    let proved = prove(&case.model, request.masked(masking), &mut |_| {});
    proved.unwrap().0
}

/// Every list of modes of so many parts that is one.
fn lists(count: u32) -> Vec<Visibility> {
    let all = [Public, Committed, Hidden];
    let list = |number: usize| {
        let digit = |place: u32| all[number / 3usize.pow(place) % 3];
        let modes: Vec<Visibility> = (0..count).map(digit).collect();
        PartModes::new(&modes).map(Visibility::Each)
    };
    (0..3usize.pow(count)).filter_map(list).collect()
}

#[test]
fn honest_parts_verify_in_every_list_of_modes() {
    assert_eq!([lists(2).len(), lists(3).len()], [7, 25]);
    let (row, input) = in_a_row();
    for (index, modes) in lists(3).into_iter().enumerate() {
        let output = lists(2)[index % 7];
        let file = proved(
            &row,
            vec![input.clone(); 1 + index % 2],
            &masking(modes, output),
        );
        assert_eq!(row.check(&file), Ok(()), "{modes:?} {output:?}");
        assert_eq!(ProofFile::from_bytes(&file.to_bytes()), Ok(file));
    }
    let (beside, input) = beside();
    for modes in lists(2) {
        for plain in [Public, Committed, Hidden] {
            for (input_modes, output_modes) in [(modes, plain), (plain, modes)] {
                let masking = masking(input_modes, output_modes);
                let file = proved(&beside, vec![input.clone()], &masking);
                assert_eq!(beside.check(&file), Ok(()), "{masking:?}");
                let report = tg_proof::security::report_zk(&beside.public, 1, masking.modes);
                assert!(report.unwrap().bits >= 100.0, "{masking:?}");
            }
        }
    }
}

/// A job that names the digest of all inputs takes no proof that hides one of them.
#[test]
fn a_job_takes_no_proof_that_hides_a_part() {
    let (case, input) = in_a_row();
    let file = proved(
        &case,
        vec![input],
        &masking(each(&[Public, Hidden, Public]), Public),
    );
    let expected = ExpectedStatement {
        input: Some(file.statement.input),
        ..ExpectedStatement::default()
    };
    let refused = VerifyError::Statement { field: "input" };
    assert_eq!(verify(&case.public, &file, &expected), Err(refused));
}

/// What the file shows is exactly the public inputs, and the commitments are those of the inputs alone.
#[test]
fn a_file_shows_what_its_modes_say() {
    let (case, input) = in_a_row();
    let bytes = input.to_bytes();
    let file = proved(
        &case,
        vec![input.clone()],
        &masking(each(&[Hidden, Public, Hidden]), Public),
    );
    assert_eq!(file.input, bytes[2..5]);
    let file = proved(
        &case,
        vec![input.clone()],
        &masking(each(&[Public, Committed, Public]), Public),
    );
    assert_eq!(file.input[..2], bytes[..2]);
    assert_eq!(file.input[2 + ajtai::COMMITMENT_BYTES..], bytes[5..]);
    let other = Masking {
        seed: [8; 32],
        ..masking(each(&[Hidden, Committed, Public]), Public)
    };
    let again = proved(&case, vec![input.clone()], &other);
    assert_eq!(
        again.input[..2057],
        file.input[2..2059],
        "one input, one salt, one commitment"
    );
    let resalted = Masking {
        salts: [[9; 32]; 2],
        ..other
    };
    let third = proved(&case, vec![input], &resalted);
    assert_ne!(third.input[..2057], again.input[..2057]);
}

/// Every change of what an honest proof shows is refused.
#[test]
fn changed_parts_are_refused() {
    let (case, input) = in_a_row();
    let modes = masking(each(&[Public, Committed, Hidden]), each(&[Public, Hidden]));
    let honest = proved(&case, vec![input], &modes);
    assert_eq!(case.check(&honest), Ok(()));
    let with = |change: &dyn Fn(&mut ProofFile)| {
        let mut file = honest.clone();
        change(&mut file);
        file.statement.input = Digest::of_blob(&file.input);
        file.statement.output = Digest::of_blob(&file.output);
        case.check(&file).unwrap_err()
    };
    for place in [0, 1, 20, 2000] {
        with(&|file| file.input[place] ^= 1);
    }
    for place in [0, 5, 11] {
        with(&|file| file.output[place] ^= 1);
    }
    let of_input = VerifyError::Commitment { which: "input" };
    let of_output = VerifyError::Commitment { which: "output" };
    assert_eq!(with(&|file| file.input.truncate(9)), of_input);
    assert_eq!(with(&|file| file.input.push(0)), of_input);
    assert_eq!(with(&|file| file.output.push(0)), of_output);
    assert_eq!(with(&|file| file.output.truncate(11)), of_output);
    // Type and number of a commitment's elements.
    assert_eq!(with(&|file| file.input[2 + 4] = 1), of_input);
    assert_eq!(with(&|file| file.input[2 + 5] ^= 1), of_input);
    let mut undigested = honest.clone();
    undigested.input[0] ^= 1;
    let refused = VerifyError::Digest { which: "input" };
    assert_eq!(case.check(&undigested), Err(refused));
    // Other lists of modes, of the same or of other lengths.
    let plain = [Public, Committed, Hidden];
    for other in lists(3).into_iter().chain(lists(2)).chain(plain) {
        let Modes { input, output } = modes.modes;
        for (input, output) in [(other, output), (input, other)] {
            if (Modes { input, output }) == modes.modes {
                continue;
            }
            let refused = |file: &mut ProofFile| file.statement.zk = Some(Modes { input, output });
            with(&refused);
        }
    }
}

/// A prover that follows the protocol, and may compute on other tensors, or commit other columns, than it names.
struct Lie<'a> {
    case: &'a Case,
    masking: Masking,
}

impl Lie<'_> {
    fn shape(&self) -> ZkShape {
        self.case.model.zk_shape(1, self.masking.modes).unwrap()
    }

    /// The verdict on a proof about tensors that names others, with the blinding of a third's commitments, and columns that
    /// are changed before they are committed.
    fn verdict(
        &self,
        [computed, named, blinded]: [&[IntTensor]; 3],
        change: impl FnOnce(&mut Witness),
    ) -> Result<(), VerifyError> {
        let (case, shape) = (self.case, self.shape());
        let program = &case.model.model.program;
        let [shown, hidden] = [named, blinded].map(|own| self.masking.shows(program, &[own]));
        let mut witness = Witness::of(program, &shape.plan, computed).unwrap();
        witness.set_salts(&shape.plan, &salts(&hidden));
        change(&mut witness);
        let [(input, input_digest), (output, output_digest)] = files(&shown, 1);
        let statement = Statement {
            input: input_digest,
            output: output_digest,
            zk: Some(self.masking.modes),
            ..case.file.statement
        };
        let execution = ZkExecution {
            model: &case.model,
            shape: &shape,
            tensors: computed,
            witness: &witness,
            commitments: shown.iter().map(Shows::commitment).collect(),
            parts: shown[0].parts(program.input.element_type()),
        };
        let mut rng = StdRng::seed_from_u64(1);
        let proof = execution.prove(&statement, &mut rng, &Limits::default(), &mut |_| {});
        case.check(&ProofFile {
            statement,
            input,
            output,
            proof: proof.unwrap().encode(),
        })
    }

    /// The verdict on a proof about the true execution that names others.
    fn named(&self, named: &[IntTensor], blinded: &[IntTensor]) -> Result<(), VerifyError> {
        self.verdict([self.case.trace.tensors(), named, blinded], |_| {})
    }
}

/// The execution with another value of one element of a tensor.
fn with_other(case: &Case, tensor: usize, element: usize) -> Vec<IntTensor> {
    let mut tensors = case.trace.tensors().to_vec();
    let value = tensors[tensor].value(element);
    super::models::set(&mut tensors[tensor], element, value ^ 1);
    tensors
}

/// Provers that follow the protocol, and name another input, or another's commitment, than they computed on.
#[test]
fn parts_that_were_not_computed_on_are_not_shown() {
    for (case, modes) in [
        (in_a_row().0, vec![Public, Committed, Hidden]),
        (beside().0, vec![Committed, Public]),
    ] {
        let masking = masking(each(&modes), Public);
        let lie = Lie {
            case: &case,
            masking,
        };
        let tensors = case.trace.tensors();
        assert_eq!(lie.named(tensors, tensors), Ok(()));
        let program = &case.model.model.program;
        let signature = program.signature.as_ref().unwrap();
        let places = signature.input_places(program.input.shape).unwrap();
        for (mode, places) in modes.iter().zip(&places) {
            let other = with_other(&case, 0, places[1]);
            let hidden = *mode == Hidden;
            assert_eq!(lie.named(&other, &other).is_ok(), hidden, "{mode:?}");
            assert_eq!(lie.named(&other, tensors).is_ok(), hidden, "{mode:?}");
        }
    }
}

/// Outputs of a list: one that is shown is the model's, the commitment of one is opened by its columns, and the columns of
/// one that is committed or hidden hold what the model gives.
#[test]
fn outputs_of_a_list_are_bound_each() {
    let (case, _) = in_a_row();
    let tensors = case.trace.tensors();
    let outputs = case.model.model.program.outputs();
    for modes in lists(2) {
        for input in [Public, Hidden, each(&[Hidden, Public, Committed])] {
            let lie = Lie {
                case: &case,
                masking: masking(input, modes),
            };
            assert_eq!(lie.named(tensors, tensors), Ok(()), "{modes:?}");
            let shape = lie.shape();
            let planned = shape.plan.outputs.iter();
            let each = planned.zip(&outputs).zip(modes.of_parts(2));
            for ((planned, output), mode) in each {
                let other = with_other(&case, output.index(), 2);
                let [by_both, by_name] = [&other, tensors].map(|own| lie.named(&other, own));
                let hidden = mode == Hidden;
                assert_eq!(by_both.is_ok(), hidden, "{modes:?} {output:?}");
                assert_eq!(by_name.is_ok(), hidden, "{modes:?} {output:?}");
                assert_eq!(planned.is_none(), mode == Public);
                let Some(own) = planned else { continue };
                let flip = |witness: &mut Witness| {
                    witness.columns[own.columns.witness.start][0][2] ^= 1;
                };
                let refused = lie.verdict([tensors; 3], flip);
                assert!(refused.is_err(), "{modes:?} {output:?}");
            }
        }
    }
}

/// Elements that belong to no input of the file are 0, or a program gave any output on inputs that are shown.
#[test]
fn elements_of_no_input_are_zero() {
    let (case, input) = case(&[&[2], &[2]], Shape::new(2, 1, 3), 63);
    let modes = masking(each(&[Public, Committed]), Public);
    let tensors = case.trace.tensors();
    assert_ne!([input.value(4), input.value(5)], [0, 0]);
    let lie = Lie {
        case: &case,
        masking: modes,
    };
    assert!(lie.named(tensors, tensors).is_err());
    let request = ProveRequest::of(vec![input.clone()]).named(JOB, PROVIDER);
    let error = prove(&case.model, request.masked(&lie.masking), &mut |_| {});
    assert_eq!(error.unwrap_err(), ProveError::Unnamed);
    // One that is, alone and in a batch with other elements of the inputs.
    let mut honest = input;
    for place in [4, 5] {
        super::models::set(&mut honest, place, 0);
    }
    let mut other = honest.clone();
    super::models::set(&mut other, 1, honest.value(1) ^ 1);
    for inputs in [vec![honest.clone()], vec![other.clone(), honest.clone()]] {
        let file = proved(&case, inputs, &lie.masking);
        assert_eq!(case.check(&file), Ok(()));
    }
    // Each element of the rest is compared.
    for place in [4, 5] {
        let mut wrong = other.clone();
        super::models::set(&mut wrong, place, 1);
        let trace = Case::of_tensor((case.model.model.clone().into_inner(), wrong)).trace;
        assert!(lie.verdict([trace.tensors(); 3], |_| {}).is_err());
    }
}

/// A batch for which nothing in the file pays is refused before anything is made of it.
#[test]
fn a_batch_of_elements_of_no_input_is_bounded() {
    let (case, mut input) = case(&[&[0], &[4]], Shape::new(2, 1, 3), 64);
    for place in [4, 5] {
        super::models::set(&mut input, place, 0);
    }
    let modes = masking(each(&[Public, Hidden]), Hidden);
    let honest = proved(&case, vec![input], &modes);
    assert_eq!((case.check(&honest), honest.input.len()), (Ok(()), 0));
    for batch in [1 << 20, u32::MAX] {
        let mut file = honest.clone();
        file.statement.batch = batch;
        assert_eq!(case.check(&file), Err(VerifyError::Batch { batch }));
    }
}

/// A program of one convolution and its requantisation on two inputs of a coding, one after the other.
fn coded(coding: Coding, inputs: [u32; 2]) -> (CompiledModel, IntTensor) {
    let ports = inputs.map(|length| InputPort {
        name: format!("x{length}"),
        shape: vec![length],
    });
    let tokens = matches!(coding, Coding::Tokens(_));
    let input = TensorId::INPUT;
    let (mut draft, elements) = if tokens {
        let mut draft = Draft::new(31, Shape::new(1, 4, 1)).coded(coding);
        let embedded = draft.push(Op::Embed(op::Embed { input, rows: 7 }), Shape::new(1, 4, 6));
        draft.narrowed(embedded, 8);
        (draft, 24)
    } else {
        let mut draft = Draft::new(17, Shape::new(2, 2, 3)).coded(coding);
        let acc = Op::conv(input, super::models::window(1, 1, [0; 4]));
        let acc = draft.push(acc, Shape::new(2, 2, 4));
        draft.narrowed(acc, 8);
        (draft, 16)
    };
    draft.outputs = Vec::new();
    let (mut model, input) = draft.finish_tensor();
    model.program.signature = Some(Signature {
        inputs: ports.to_vec(),
        outputs: vec![OutputPort {
            name: "y".to_owned(),
            scale: 1.0,
            zero: 0,
            shape: vec![elements],
            order: vec![0],
            labels: Vec::new(),
        }],
    });
    (model, input)
}

/// Inputs of every coding: shown, committed and hidden, wrong, and beyond what the coding gives.
#[test]
fn inputs_of_all_codings_have_parts() {
    let list = |count: u16| (0..count).map(f32::from).collect();
    let ranks = Coding::Ranks([5, 9, 300].map(list).to_vec());
    for (coding, inputs, beyond) in [
        (Coding::Scaled(ElementType::I8), [4, 8], None),
        (
            Coding::Scaled(ElementType::I16),
            [4, 8],
            Some((-32_768i16).to_le_bytes().to_vec()),
        ),
        (ranks.clone(), [4, 8], Some(6i16.to_le_bytes().to_vec())),
        (Coding::Tokens(7), [1, 3], Some(7i32.to_le_bytes().to_vec())),
        // The bytes of a token, plus 2^32.
        (
            Coding::Tokens(7),
            [1, 3],
            Some((-1i32).to_le_bytes().to_vec()),
        ),
    ] {
        let (model, input) = coded(coding, inputs);
        let case = Case::of_tensor((model, input.clone()));
        for modes in [[Public, Committed], [Committed, Public], [Public, Hidden]] {
            let lie = Lie {
                case: &case,
                masking: masking(each(&modes), Hidden),
            };
            let tensors = case.trace.tensors();
            assert_eq!(lie.named(tensors, tensors), Ok(()), "{modes:?}");
            let other = with_other(&case, 0, 0);
            assert!(lie.named(&other, &other).is_err(), "{modes:?}");
        }
        let Some(beyond) = beyond else { continue };
        let modes = masking(each(&[Public, Hidden]), Hidden);
        let mut file = proved(&case, vec![input], &modes);
        file.input[..beyond.len()].copy_from_slice(&beyond);
        file.statement.input = Digest::of_blob(&file.input);
        let refused = VerifyError::InputCoding { index: 0 };
        assert_eq!(case.check(&file), Err(refused));
    }
    // Of ranks nothing is said of elements of no input.
    let case = Case::of_tensor(coded(ranks, [4, 6]));
    let modes = Modes {
        input: each(&[Public, Hidden]),
        output: Public,
    };
    assert_eq!(case.model.zk_shape(1, modes).unwrap_err(), PlanError::Modes);
}

/// An input that is shown or named, and is not compared with the columns.
#[test]
fn parts_beside_the_plan_are_refused() {
    let (case, input) = in_a_row();
    let modes = masking(each(&[Public, Committed, Hidden]), Public);
    let honest = proved(&case, vec![input], &modes);
    let shape = case.model.zk_shape(1, modes.modes).unwrap();
    let parts = case.model.parts(&shape.plan);
    let proof = tg_proof::zk::ZkProof::decode(&honest.proof, parts).unwrap();
    let shown = modes.shows(&case.model.model.program, &[case.trace.tensors()]);
    let kind = case.model.model.program.input.element_type();
    let verdict = |parts: Vec<ShownPart>| {
        let output = case.trace.outputs().map(IntTensor::widened);
        let output = output.map(|elements| tg_proof::verify::ShownTensor {
            elements,
            ..Default::default()
        });
        let input = tg_proof::verify::ShownTensor {
            parts,
            ..Default::default()
        };
        let tensors: Vec<_> = std::iter::once(input).chain(output).collect();
        let with = (&case.public, &shape, &honest);
        tg_proof::check::verify_zk_messages(with.0, with.1, with.2, &tensors, &proof)
    };
    let own = shown[0].parts(kind);
    assert_eq!(verdict(own.clone()), Ok(()));
    let refused = Err(VerifyError::Commitment { which: "input" });
    assert_eq!(verdict(own[..1].to_vec()), refused);
    assert_eq!(verdict(Vec::new()), refused);
    assert_eq!(verdict([own.clone(), own.clone()].concat()), refused);
    assert_eq!(verdict(own.iter().rev().cloned().collect()), refused);
    assert_eq!(
        verdict(vec![ShownPart::Public(vec![0]), own[1].clone()]),
        refused
    );
}

#[test]
fn modes_of_other_parts_than_the_programs_have_no_plan() {
    let (case, input) = in_a_row();
    let refused = |input_modes, output_modes| {
        let request = ProveRequest::of(vec![input.clone()]).named(JOB, PROVIDER);
        let masking = masking(input_modes, output_modes);
        prove(&case.model, request.masked(&masking), &mut |_| {}).unwrap_err()
    };
    let two = each(&[Public, Hidden]);
    let three = each(&[Public, Hidden, Public]);
    for error in [
        refused(two, Public),
        refused(Public, three),
        refused(three, three),
    ] {
        assert_eq!(error, ProveError::Plan(PlanError::Modes));
    }
    // A program that does not say what its inputs are.
    let (model, input) = super::models::everything();
    let unsigned = Case::of((model, input.clone()));
    let input = IntTensor::I8(input);
    let request = ProveRequest::of(vec![input]).named(JOB, PROVIDER);
    let error = prove(
        &unsigned.model,
        request.masked(&masking(two, Public)),
        &mut |_| {},
    );
    assert_eq!(error.unwrap_err(), ProveError::Plan(PlanError::Modes));
}

/// A list has one form.
#[test]
fn lists_of_modes_are_canonical() {
    for modes in [
        vec![],
        vec![Public],
        vec![Public, Public],
        vec![Hidden, Hidden, Hidden],
        vec![Public; 17],
        [vec![Hidden; 16], vec![Public]].concat(),
        vec![each(&[Public, Hidden]), Public],
    ] {
        assert_eq!(PartModes::new(&modes), None, "{modes:?}");
    }
    let modes = [vec![Committed; 15], vec![Hidden]].concat();
    let list = PartModes::new(&modes).unwrap();
    assert_eq!(list.iter().collect::<Vec<_>>(), modes);
    assert!(PartModes::new(&[Committed, Committed]).is_some());
    let (case, input) = beside();
    let file = proved(
        &case,
        vec![input],
        &masking(each(&[Public, Hidden]), Public),
    );
    let bytes = file.to_bytes();
    // Magic, version, statement of 32 + 32 + 20 + 4 + 32 + 32 bytes, then the list.
    let at = 6 + 152;
    assert_eq!(bytes[at..at + 3], [2, 0, 2]);
    for (place, value) in [
        (0, 0),
        (0, 1),
        (0, 17),
        (1, 2),
        (1, 3),
        (2, 0),
        (2, 3),
        (2, 255),
    ] {
        let mut changed = bytes.clone();
        changed[at + place] = value;
        assert!(ProofFile::from_bytes(&changed).is_err(), "{place} {value}");
    }
}

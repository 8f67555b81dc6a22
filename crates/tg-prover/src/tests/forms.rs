//! Programs of any shape: without weights, without anything to commit of an execution, of one node, with outputs that are
//! inputs and inputs that nobody reads. What is honest verifies in both kinds of proof; a part that is not due, one that is
//! missing, and a tensor that is another's are refused.

use super::hidden::all_modes;
use super::models::{Case, Draft, JOB, PROVIDER, set};
use super::private::{Counted, secret};
use crate::{Masking, ModelError, ProveError, ProveRequest, ProvingModel, prove};
use tg_exec::IntTensor;
use tg_exec::sample::Numbers;
use tg_ir::op::{self, Norm, Softmax};
use tg_ir::{Coding, CompiledModel, ElementType, Op, Requantise, Rescale, Shape, TensorId, View};
use tg_proof::error::{PublicModelError, RegistrationError};
use tg_proof::field::E;
use tg_proof::messages::{self, InferenceProof};
use tg_proof::{
    ExpectedStatement, Modes, Part, Parts, PlanError, ProofFile, PublicModel, VerifyError,
    Visibility, security, verify,
};
use tg_types::codec::{Encode, Writer};
use tg_types::{Digest, ModelId, domain::Domain};

const INPUT: TensorId = TensorId::INPUT;

/// A program of one node, or of a few.
type Built = (CompiledModel, IntTensor);

fn one(input: Shape, op: Op, output: Shape) -> Built {
    let mut draft = Draft::new(11, input);
    draft.push(op, output);
    draft.finish_tensor()
}

/// A linear regression: thirteen inputs, one output.
pub(super) fn regression() -> Built {
    let op = Op::Dense(op::Dense { input: INPUT });
    one(Shape::vector(13), op, Shape::vector(1))
}

/// Twelve multiply-adds.
pub(super) fn twelve() -> Built {
    let op = Op::Dense(op::Dense { input: INPUT });
    one(Shape::vector(3), op, Shape::vector(4))
}

/// A tensor times a number.
fn scaled(input: TensorId, multiplier: i32) -> Op {
    Op::Add(op::Add {
        inputs: vec![input],
        multipliers: vec![multiplier],
        bias: 0,
    })
}

fn identity(shape: Shape) -> Op {
    let (rows, channels) = (shape.pixels() as u32, shape.channels);
    Op::View(op::Unary {
        input: INPUT,
        how: View::transpose(&[rows, channels], &[0, 1]),
    })
}

/// Its output is its input.
fn passed() -> Built {
    let shape = Shape::new(2, 3, 5);
    one(shape, identity(shape), shape)
}

/// Nothing is multiplied and nothing rounded.
fn transposed() -> Built {
    let how = View::transpose(&[6, 5], &[1, 0]);
    let op = Op::View(op::Unary { input: INPUT, how });
    one(Shape::new(2, 3, 5), op, Shape::new(5, 1, 6))
}

fn doubled() -> Built {
    let shape = Shape::new(2, 3, 5);
    one(shape, Op::add([INPUT, INPUT], [3, -7]), shape)
}

fn squared() -> Built {
    let shape = Shape::new(1, 3, 5);
    let inputs = [INPUT, INPUT];
    one(shape, Op::Mul(op::Mul { inputs }), shape)
}

/// A requantisation of the input times a number, and nothing else.
fn rescaled() -> Built {
    let shape = Shape::new(2, 3, 5);
    let mut draft = Draft::new(12, shape);
    let sum = draft.push(scaled(INPUT, 77), shape);
    let how = Requantise {
        pairs: vec![Rescale::nearest(0.01).unwrap()],
        channel_pairs: vec![0],
        zero: 1,
        range: [-10_000, 10_000],
        clamp: [-90, 127],
        table: None,
        output: ElementType::I8,
    };
    draft.push(Op::Requantise(op::Unary { input: sum, how }), shape);
    draft.finish_tensor()
}

fn softmax() -> Built {
    let shape = Shape::new(1, 3, 5);
    let how = Softmax {
        rescale: Rescale::nearest(0.2).unwrap(),
        table: (0..40u16).map(|index| 32_767 - 800 * index).collect(),
        causal: None,
    };
    one(shape, Op::Softmax(op::Unary { input: INPUT, how }), shape)
}

fn norm() -> Built {
    let shape = Shape::new(1, 3, 6);
    let how = Norm {
        centred: true,
        epsilon: 1_000,
        precision: 2,
        fraction: 12,
    };
    one(shape, Op::Norm(op::Unary { input: INPUT, how }), shape)
}

fn greatest() -> Built {
    let op = Op::ArgMax(op::ArgMax { input: INPUT });
    one(Shape::new(2, 2, 7), op, Shape::new(2, 2, 1))
}

/// A table that tokens choose rows of.
fn embedding() -> Built {
    let coding = Coding::Tokens(9);
    let mut draft = Draft::new(13, Shape::new(1, 4, 1)).coded(coding);
    let (input, rows) = (INPUT, 9);
    draft.push(Op::Embed(op::Embed { input, rows }), Shape::new(1, 4, 6));
    draft.finish_tensor()
}

/// Its output is a constant: nobody reads the input.
pub(super) fn constant() -> Built {
    one(
        Shape::vector(4),
        Op::Parameter(op::Parameter),
        Shape::new(1, 2, 3),
    )
}

/// Another constant, which is rounded.
fn rounded_constant() -> Built {
    let mut draft = Draft::new(14, Shape::vector(4));
    let shape = Shape::new(1, 2, 3);
    let own = draft.push(Op::Parameter(op::Parameter), shape);
    let sum = draft.push(scaled(own, 900), shape);
    draft.narrowed(sum, 8);
    draft.finish_tensor()
}

const NONE: Parts = Parts {
    weights: Part::Absent,
    witness: Part::Absent,
};
const WEIGHTS: Parts = Parts {
    weights: Part::Committed,
    ..NONE
};
const WITNESS: Parts = Parts {
    witness: Part::Committed,
    ..NONE
};

/// All forms, with the parts that their proofs in the clear have.
pub(super) fn forms() -> Vec<(&'static str, Parts, Built)> {
    vec![
        ("regression", WEIGHTS, regression()),
        ("twelve products", WEIGHTS, twelve()),
        ("embedding", WEIGHTS, embedding()),
        ("constant", WEIGHTS, constant()),
        ("passed through", NONE, passed()),
        ("transposed", NONE, transposed()),
        ("doubled", NONE, doubled()),
        ("squared", NONE, squared()),
        ("rescale", WITNESS, rescaled()),
        ("softmax", WITNESS, softmax()),
        ("norm", WITNESS, norm()),
        ("greatest", WITNESS, greatest()),
        ("rounded constant", Parts::ALL, rounded_constant()),
    ]
}

fn check(public: &PublicModel, file: &ProofFile) -> Result<(), VerifyError> {
    verify(public, file, &ExpectedStatement::default())
}

fn forged(case: &Case, change: impl FnOnce(&mut InferenceProof)) -> Result<(), VerifyError> {
    let mut proof = messages::decode_inference(&case.file.proof, case.parts()).unwrap();
    change(&mut proof);
    let file = ProofFile {
        proof: messages::encode_inference(&proof),
        ..case.file.clone()
    };
    case.check(&file)
}

#[test]
fn every_form_proves_and_verifies() {
    for (name, parts, built) in forms() {
        let case = Case::of_tensor(built);
        assert_eq!(case.parts(), parts, "{name}");
        assert_eq!(case.check(&case.file), Ok(()), "{name}");
        let read = ProofFile::read(&case.file.to_bytes()).unwrap();
        assert_eq!(read, case.file, "{name}");
        let public = PublicModel::decode(&case.public.encode()).unwrap();
        assert_eq!(public.id(), case.model.id(), "{name}");
        assert_eq!(public.verify_registration(), Ok(()), "{name}");
        assert_eq!(check(&public, &read), Ok(()), "{name}");
        let (report, registration) = (
            security::report(&public).unwrap(),
            security::registration_report(&public).unwrap(),
        );
        assert!(report.bits >= f64::from(security::LEVEL), "{name}");
        assert!(registration.bits >= f64::from(security::LEVEL), "{name}");
        let has = |what: &str| report.terms.iter().any(|term| term.label.contains(what));
        assert_eq!(
            has("weights opening"),
            parts.weights.is_committed(),
            "{name}"
        );
        assert_eq!(has("anchor of the weights"), parts.weights.is_committed());
        for what in ["witness opening", "table poles", "fractional sum", "reader"] {
            assert_eq!(has(what), parts.witness.is_committed(), "{name}: {what}");
        }
        let most = public.facts().proof_bytes;
        assert!(case.file.to_bytes().len() as u64 <= most, "{name}: {most}");
        let root = public.witness_root(&case.file);
        assert_eq!(root.is_some(), parts.witness.is_committed(), "{name}");
        // Another input or output, with its digest.
        for part in [0, 1] {
            let mut file = case.file.clone();
            let bytes = if part == 0 {
                &mut file.input
            } else {
                &mut file.output
            };
            bytes[0] ^= 1;
            file.statement.input = Digest::of_blob(&file.input);
            file.statement.output = Digest::of_blob(&file.output);
            assert!(case.check(&file).is_err(), "{name}: tensor {part}");
        }
    }
}

/// The lie that each form admits: an output that is not the program's, proved as if it were.
#[test]
fn an_output_that_is_not_the_programs_is_refused() {
    for (name, _, built) in forms() {
        let case = Case::of_tensor(built);
        for (element, change) in [(0, 1), (0, -1), (3, 2)] {
            let mut tensors = case.trace.tensors().to_vec();
            let last = tensors.last_mut().unwrap();
            let element = element.min(last.widened().len() - 1);
            let honest = last.widened()[element];
            let lie = if (-120..120).contains(&honest) || last.element_type() != ElementType::I8 {
                honest + change
            } else {
                honest - honest.signum()
            };
            set(last, element, lie);
            // Columns of the honest execution, and those that fit the lie.
            let mut all = vec![case.witness()];
            all.extend(case.witness_of(&tensors).ok());
            for witness in all {
                let verdict = case.verdict(&tensors, &witness);
                assert!(verdict.is_err(), "{name}: element {element} by {change}");
            }
        }
    }
}

/// An input is what its digest says, whether anybody reads it or not, and one of its coding.
#[test]
fn an_input_that_nobody_reads_is_bound() {
    let case = Case::of_tensor(constant());
    let mut file = case.file.clone();
    file.input[0] ^= 1;
    assert_eq!(
        case.check(&file),
        Err(VerifyError::Digest { which: "input" })
    );
    file.statement.input = Digest::of_blob(&file.input);
    assert!(case.check(&file).is_err(), "the transcript has the digest");
    file.input.push(0);
    assert!(matches!(case.check(&file), Err(VerifyError::Length { .. })));
    // A token beyond its vocabulary under a constant output.
    let mut draft = Draft::new(15, Shape::vector(2)).coded(Coding::Tokens(5));
    draft.push(Op::Parameter(op::Parameter), Shape::vector(3));
    let case = Case::of_tensor(draft.finish_tensor());
    let mut file = case.file.clone();
    file.input[0] = 5;
    file.statement.input = Digest::of_blob(&file.input);
    let index = 0;
    assert_eq!(case.check(&file), Err(VerifyError::InputCoding { index }));
}

/// One that nobody reads and nobody sees is committed all the same; that it is in range is tested with other codings.
#[test]
fn a_hidden_input_that_nobody_reads_is_committed() {
    for built in [constant(), rounded_constant()] {
        let case = Case::of_tensor(built);
        for modes in all_modes() {
            let file = super::zk::in_modes(&case, modes);
            assert_eq!(case.check(&file), Ok(()), "{modes:?}");
        }
    }
}

#[test]
fn parts_that_are_missing_or_not_due_are_refused() {
    let all = Case::of_tensor(rounded_constant());
    let donor = messages::decode_inference(&all.file.proof, Parts::ALL).unwrap();
    for (name, parts, built) in forms() {
        let case = Case::of_tensor(built);
        let encoding = Err(VerifyError::Encoding);
        let swap_weights = |proof: &mut InferenceProof| {
            proof.weights_opening = match &proof.weights_opening {
                None => donor.weights_opening.clone(),
                Some(_) => None,
            };
        };
        assert_eq!(forged(&case, swap_weights), encoding, "{name}");
        let swap_witness = |proof: &mut InferenceProof| match &proof.witness {
            None => {
                proof.witness.clone_from(&donor.witness);
                proof.lookup.clone_from(&donor.lookup);
                proof.witness_opening.clone_from(&donor.witness_opening);
            }
            Some(_) => {
                (proof.witness, proof.lookup, proof.witness_opening) = (None, None, None);
            }
        };
        assert_eq!(forged(&case, swap_witness), encoding, "{name}");
        for swap in [
            |proof: &mut InferenceProof, donor: &InferenceProof| match &proof.witness {
                None => proof.witness.clone_from(&donor.witness),
                Some(_) => proof.witness = None,
            },
            |proof: &mut InferenceProof, donor: &InferenceProof| match &proof.lookup {
                None => proof.lookup.clone_from(&donor.lookup),
                Some(_) => proof.lookup = None,
            },
        ] {
            assert_eq!(forged(&case, |proof| swap(proof, &donor)), encoding);
        }
        // Sections of a witness that is not there, or of one section.
        let sections = |proof: &mut InferenceProof| {
            let gkr = donor.lookup.clone().unwrap().gkr;
            let numerator = E::default();
            let sum = messages::SumProof { numerator, gkr };
            proof.sections.sums.push(sum);
        };
        assert!(forged(&case, sections).is_err(), "{name}: {parts:?}");
    }
}

/// The messages of one program are no proof of another, even of the same parts and with its statement.
#[test]
fn proofs_of_other_programs_are_refused() {
    let cases: Vec<(&str, Case)> = forms()
        .into_iter()
        .map(|(name, _, built)| (name, Case::of_tensor(built)))
        .collect();
    for (own_name, own) in &cases {
        for (name, other) in &cases {
            // What moves its input has no messages: its proof is its statement, which is true or refused.
            let silent = own.file.proof.len() < 16 && own.file.proof == other.file.proof;
            if own_name == name || silent {
                continue;
            }
            let file = ProofFile {
                proof: other.file.proof.clone(),
                ..own.file.clone()
            };
            assert!(own.check(&file).is_err(), "{name} for {own_name}");
            assert!(own.check(&other.file).is_err(), "{name} for {own_name}");
        }
    }
}

/// What the transcript absorbs of missing parts: the same messages under other tags are refused.
#[test]
fn the_tags_of_missing_parts_are_absorbed() {
    use tg_proof::transcript::{draw, inference};
    let case = Case::of_tensor(passed());
    let (program, statement) = (case.public.program_id(), &case.file.statement);
    let all = [NONE, WEIGHTS, WITNESS, Parts::ALL];
    let drawn = all.map(|parts| draw(&mut inference(statement.digest(program, parts))));
    for (index, one) in drawn.iter().enumerate() {
        assert!(drawn[..index].iter().all(|other| other != one));
    }
    assert_eq!(NONE.tags(), Some([0, 0]));
    assert_eq!(WEIGHTS.tags(), Some([1, 0]));
    assert_eq!(Parts::ALL.tags(), None);
}

/// A model without weights is its program: one id, whoever registers it, and nothing but nothing as commitment and
/// registration.
#[test]
fn a_model_without_weights_has_one_id_and_an_empty_registration() {
    let (compiled, _) = softmax();
    let program = compiled.program.clone();
    let [first, second] = [compiled.clone(), compiled].map(|own| ProvingModel::new(own).unwrap());
    let (public, again) = (first.register().unwrap(), second.register().unwrap());
    assert_eq!(public.encode(), again.encode());
    assert!(public.registration().is_empty());
    assert!(public.weights_commitment().is_none());
    let mut writer = Writer::new();
    program.id().encode(&mut writer);
    writer.u32(0);
    let id = ModelId::new(*Digest::of(Domain::Model, &writer.into_bytes()).as_bytes());
    assert_eq!((public.id(), first.id()), (id, id));

    // A registration of something.
    let full = PublicModel::new(program.clone(), None, vec![0]).unwrap();
    let malformed = RegistrationError::Malformed;
    assert_eq!(full.verify_registration(), Err(malformed));
    let file = Case::of_tensor(softmax()).file;
    let refused = VerifyError::Registration(malformed);
    assert_eq!(check(&full, &file), Err(refused));
    // A root of weights that are not there, and weights without a root.
    let other = ProvingModel::new(regression().0)
        .unwrap()
        .register()
        .unwrap();
    let root = other.weights_commitment().cloned();
    for (program, root) in [(program.clone(), root), (other.program().clone(), None)] {
        let refused = PublicModel::new(program, root, Vec::new()).unwrap_err();
        assert!(matches!(refused, PlanError::Commitment(_)), "{refused}");
    }
    // A program without weights that names the root of some.
    let mut named = program;
    named.weights_root = other.program().weights_root;
    assert!(PublicModel::new(named, None, Vec::new()).is_err());
    // The same as bytes: a commitment of no bytes under a program with weights, and the reverse.
    let mut writer = Writer::new();
    writer.raw(b"TGV\0");
    writer.u16(tg_proof::model::PUBLIC_MODEL_VERSION);
    other.program().encode(&mut writer);
    writer.bytes(&[]);
    writer.bytes(other.registration());
    let refused = PublicModel::decode(&writer.into_bytes()).unwrap_err();
    assert!(matches!(refused, PublicModelError::Plan(_)), "{refused}");
}

/// Weights that are not there cannot be private.
#[test]
fn private_weights_need_weights() {
    let (compiled, _) = softmax();
    let own = secret(&compiled, 7, 3);
    let refused = ProvingModel::private(compiled.clone(), &own);
    assert!(matches!(refused, Err(ModelError::NoWeights)));
    let known = super::private::private().public.weights_commitment();
    let commitment = known.unwrap().clone();
    let public = PublicModel::with_private_weights(compiled.program, commitment, 3, Vec::new());
    assert!(public.is_err());
}

/// Private weights of a program that commits nothing of its executions.
#[test]
fn private_weights_without_a_witness_are_proved() {
    for (compiled, input) in [regression(), embedding(), constant()] {
        let own = secret(&compiled, 7, 3);
        let model = ProvingModel::private(compiled, &own).unwrap();
        let counted = Counted::default();
        let public = model.register_private(&counted, [1; 32]).unwrap();
        assert_eq!(public.verify_registration(), Ok(()));
        for modes in [Modes::PUBLIC, Modes::HIDDEN_INPUT] {
            let masking = Masking::new([3; 32], modes);
            let request = ProveRequest::of(vec![input.clone()]).named(JOB, PROVIDER);
            let request = request.masked(&masking).counted_by(&counted);
            let (file, _) = prove(&model, request, &mut |_| {}).unwrap();
            assert_eq!(check(&public, &file), Ok(()), "{modes:?}");
            let mut other = file.clone();
            other.output[0] ^= 1;
            other.statement.output = Digest::of_blob(&other.output);
            assert!(check(&public, &other).is_err());
        }
        let clear = prove(&model, ProveRequest::of(vec![input]), &mut |_| {});
        assert_eq!(clear.unwrap_err(), ProveError::PrivateWeights);
    }
}

/// All forms in zero knowledge, in every mode.
#[test]
fn every_form_proves_in_zero_knowledge() {
    for (name, parts, built) in forms() {
        let (compiled, input) = built;
        let model = ProvingModel::new(compiled).unwrap();
        let public = model.register().unwrap();
        for modes in all_modes() {
            let mut masking = Masking::new([5; 32], modes);
            masking.salts = [[1; 32], [2; 32]];
            let request = ProveRequest::of(vec![input.clone(); 2]).named(JOB, PROVIDER);
            let (file, _) = prove(&model, request.masked(&masking), &mut |_| {}).unwrap();
            assert_eq!(check(&public, &file), Ok(()), "{name} {modes:?}");
            let report = security::report_zk(&public, 2, modes).unwrap();
            assert!(
                report.bits >= f64::from(security::LEVEL),
                "{name} {modes:?}"
            );
            // A proof in the clear is none here, nor this one there.
            let mut clear = file.clone();
            clear.statement.zk = None;
            assert!(check(&public, &clear).is_err(), "{name} {modes:?}");
            if modes != Modes::PUBLIC {
                continue;
            }
            // An output that is not the program's.
            let mut other = file.clone();
            other.output[0] ^= 1;
            other.statement.output = Digest::of_blob(&other.output);
            assert!(check(&public, &other).is_err(), "{name}");
            if parts.witness.is_committed() {
                continue;
            }
            no_second_encoding(&public, &file, parts, name);
        }
    }
}

/// Where nothing is inverted the padded inverse is zero.
fn no_second_encoding(public: &PublicModel, file: &ProofFile, parts: Parts, name: &str) {
    let mut proof = tg_proof::zk::ZkProof::decode(&file.proof, parts).unwrap();
    assert_eq!(proof.products.inverse, E::default(), "{name}");
    proof.products.inverse = tg_proof::field::basis(0);
    let file = ProofFile {
        proof: proof.encode(),
        ..file.clone()
    };
    assert!(check(public, &file).is_err(), "{name}");
}

/// Hidden bytes that a public output repeats, in bytes: what one learns of an input is all of it, and it is true.
#[test]
fn a_hidden_input_passed_through_is_its_public_output() {
    let case = Case::of_tensor(passed());
    let modes = Modes {
        input: Visibility::Hidden,
        output: Visibility::Public,
    };
    let file = super::zk::in_modes(&case, modes);
    assert_eq!(case.check(&file), Ok(()));
    assert!(file.input.is_empty());
    assert_eq!(file.output, case.file.input);
}

/// Several inputs at once.
#[test]
fn every_form_proves_a_batch() {
    for (name, _, (compiled, input)) in forms() {
        let model = ProvingModel::new(compiled).unwrap();
        let public = model.register().unwrap();
        let request = ProveRequest::of(vec![input; 3]).named(JOB, PROVIDER);
        let (file, _) = prove(&model, request, &mut |_| {}).unwrap();
        assert_eq!(check(&public, &file), Ok(()), "{name}");
        let mut other = file.clone();
        let last = other.output.len() - 1;
        other.output[last] ^= 1;
        other.statement.output = Digest::of_blob(&other.output);
        assert!(check(&public, &other).is_err(), "{name}");
    }
}

/// Bytes of proofs of small programs, for people: `cargo test -p tg-prover bytes_of_small -- --nocapture`.
#[test]
fn bytes_of_small_proofs() {
    for (name, _, built) in forms() {
        let case = Case::of_tensor(built);
        let hidden = super::zk::in_modes(&case, Modes::PUBLIC);
        let clear = case.file.to_bytes().len();
        let shown = format!(
            "{name}: {clear} bytes in the clear, {} in zero knowledge, {} of the public model\n",
            hidden.to_bytes().len(),
            case.public.encode().len()
        );
        std::io::Write::write_all(&mut std::io::stdout(), shown.as_bytes()).unwrap();
        assert!(clear < 400_000, "{name}");
    }
}

/// Any bytes give a verdict, and those that are not what was sent are refused. What moves its input alone has no messages, so
/// that a changed file may be one of another true statement: there it is enough that nothing panics.
#[test]
fn corrupted_bytes_give_a_verdict() {
    let mut numbers = Numbers::new(17);
    for (name, parts, built) in forms() {
        let case = Case::of_tensor(built);
        let silent = case.file.proof.len() < 16;
        let (file, model) = (case.file.to_bytes(), case.public.encode());
        for round in 0..60 {
            let bytes = super::fuzz::corrupt(&file, &mut numbers);
            let read = ProofFile::read(&bytes);
            let accepted = read.is_ok_and(|file| case.check(&file).is_ok());
            assert!(!accepted || silent, "{name} {parts:?}: round {round}");
            // Without weights a changed program is another model, and may be a valid one.
            let bytes = super::fuzz::corrupt(&model, &mut numbers);
            let accepted = super::fuzz::fuzz_public_model(&bytes);
            assert!(!accepted || !parts.weights.is_committed(), "{name}");
        }
        assert!(super::fuzz::fuzz_public_model(&model), "{name}");
    }
}

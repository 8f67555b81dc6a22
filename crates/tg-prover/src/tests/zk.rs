//! Proofs in zero knowledge, end to end.

use super::models::{Case, Draft, JOB, PROVIDER, case, window};
use crate::ProveRequest;
use crate::error::ProveError;
use crate::limits::Limits;
use crate::masking::{Masking, Shows};
use crate::tests::mutate;
use crate::witness::Witness;
use crate::zk::ZkExecution;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::cell::Cell;
use tg_exec::IntTensor;
use tg_ir::op;
use tg_ir::{Coding, ElementType, Op, Shape, TensorId};
use tg_proof::ajtai::TensorCommitment;
use tg_proof::field::E;
use tg_proof::plan::TensorCoding;
use tg_proof::zk::{ZkProof, ZkShape};
use tg_proof::{
    ExpectedStatement, Modes, Parts, ProofFile, Statement, VerifyError, Visibility, security,
};
use tg_types::Digest;
use tg_types::codec::{Decode, Encode};

thread_local! {
    pub(crate) static LEAK: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The pads, one of them forced to zero by a test that plants a leak.
pub(crate) fn leaked(mut pads: Vec<E>) -> Vec<E> {
    if let Some(pad) = LEAK.get().and_then(|index| pads.get_mut(index)) {
        *pad = E::default();
    }
    pads
}

/// The salts of input and output in these tests.
const SALTS: [[u8; 32]; 2] = [[21; 32], [22; 32]];

fn masking(seed: u8, modes: Modes) -> Masking {
    Masking {
        seed: [seed; 32],
        modes,
        salts: SALTS,
    }
}

/// What statements in some modes show of a case's execution.
pub(super) fn shows(case: &Case, modes: Modes) -> [Shows; 2] {
    let (program, tensors) = (&case.model.model.program, case.trace.tensors());
    let (input, output) = (
        TensorCoding::of_input(program),
        TensorCoding::of_output(program, program.output()),
    );
    let last = tensors.last().unwrap();
    [
        Shows::of(modes.input, &input, &[&tensors[0]], &SALTS[0]),
        Shows::of(modes.output, &output, &[last], &SALTS[1]),
    ]
}

fn prove_as(
    case: &Case,
    inputs: Vec<IntTensor>,
    masking: &Masking,
) -> Result<ProofFile, ProveError> {
    let request = ProveRequest::of(inputs).named(JOB, PROVIDER);
    let proved = crate::prove(&case.model, request.masked(masking), &mut |_| {});
    proved.map(|(file, _)| file)
}

fn prove(case: &Case, input: IntTensor, seed: u8) -> ProofFile {
    prove_as(case, vec![input], &masking(seed, Modes::HIDDEN_INPUT)).unwrap()
}

pub(super) fn in_modes(case: &Case, modes: Modes) -> ProofFile {
    let input = case.trace.tensors()[0].clone();
    prove_as(case, vec![input], &masking(1, modes)).unwrap()
}

fn honest(case: &Case) -> ProofFile {
    prove(case, case.trace.tensors()[0].clone(), 1)
}

#[test]
fn an_honest_proof_verifies_without_the_input() {
    let case = case();
    let file = honest(case);
    assert_eq!(file.statement.zk, Some(Modes::HIDDEN_INPUT));
    assert!(file.input.is_empty());
    assert_eq!(file.statement.input, Digest::default());
    assert_eq!(file.output, case.file.output);
    let read = ProofFile::from_bytes(&file.to_bytes()).unwrap();
    assert_eq!(read, file);
    assert_eq!(case.check(&read), Ok(()));
    assert!(case.public.witness_root(&file).is_some());
    for modes in super::hidden::all_modes() {
        let report = security::report_zk(&case.public, 1, modes).unwrap();
        assert!(report.bits >= f64::from(security::LEVEL), "{}", report.bits);
    }
}

/// A job that names its input is answered by a proof with a public input, in zero knowledge or not, and by no other.
#[test]
fn a_job_that_names_its_input_is_answered_by_a_public_one() {
    let case = case();
    let (input, output) = (case.file.statement.input, case.file.statement.output);
    let expected = ExpectedStatement {
        job: Some(JOB),
        provider: Some(PROVIDER),
        input: Some(input),
        output: Some(output),
    };
    let check = |file: &ProofFile, expected| tg_proof::verify(&case.public, file, &expected);
    for modes in super::hidden::all_modes() {
        let file = in_modes(case, modes);
        assert_eq!(case.check(&file), Ok(()), "{modes:?}");
        let field = match (modes.input, modes.output) {
            (Visibility::Public, Visibility::Public) => {
                assert_eq!(check(&file, expected), Ok(()));
                assert_eq!(
                    (&file.input, &file.output),
                    (&case.file.input, &case.file.output)
                );
                continue;
            }
            (Visibility::Public, _) => "output",
            _ => "input",
        };
        let refused = Err(VerifyError::Statement { field });
        assert_eq!(check(&file, expected), refused, "{modes:?}");
        // Not even one that names what the statement has in its place.
        let named = ExpectedStatement {
            input: Some(file.statement.input),
            output: Some(file.statement.output),
            ..expected
        };
        assert_eq!(check(&file, named), refused, "{modes:?}");
    }
}

/// The modes are part of the statement: a proof in one is none in another.
#[test]
fn other_modes_than_the_proof_s_are_refused() {
    let case = case();
    for modes in super::hidden::all_modes() {
        let honest = in_modes(case, modes);
        for other in super::hidden::all_modes().filter(|other| *other != modes) {
            let mut file = honest.clone();
            file.statement.zk = Some(other);
            assert!(case.check(&file).is_err());
            // With the bytes that such a statement has.
            let [input, output] = shows(case, other);
            (file.input, file.statement.input) = input.bytes();
            (file.output, file.statement.output) = output.bytes();
            assert!(case.check(&file).is_err(), "{modes:?} as {other:?}");
        }
        let mut clear = honest.clone();
        clear.statement.zk = None;
        assert!(case.check(&clear).is_err());
    }
}

const COMMITTED: Modes = Modes {
    input: Visibility::Committed,
    output: Visibility::Committed,
};

/// Two proofs that name one commitment are about one tensor, of which both hide everything.
#[test]
fn a_commitment_links_proofs() {
    let (case, _) = statistics::silent();
    let input = case.trace.tensors()[0].clone();
    let [one, two] =
        [3, 4].map(|seed| prove_as(&case, vec![input.clone()], &masking(seed, COMMITTED)).unwrap());
    assert_eq!((case.check(&one), case.check(&two)), (Ok(()), Ok(())));
    assert_ne!(one.proof, two.proof);
    assert_eq!((&one.input, &one.output), (&two.input, &two.output));
    assert_eq!(one.statement.input, Digest::of_blob(&one.input));
    let commitment = TensorCommitment::from_bytes(&one.input).unwrap();
    assert_eq!(commitment.digest(), one.statement.input);
    // Another salt is another commitment, and says nothing of whether the tensor is the same.
    let mut other = masking(5, COMMITTED);
    other.salts[0] = [9; 32];
    let third = prove_as(&case, vec![input], &other).unwrap();
    assert_eq!(case.check(&third), Ok(()));
    assert_ne!(third.statement.input, one.statement.input);
    assert_eq!(third.statement.output, one.statement.output);
}

/// Commitments of other tensors, under other salts, swapped, or of other shapes, named by an honest proof.
#[test]
fn another_commitment_is_refused() {
    let case = case();
    let honest = in_modes(case, COMMITTED);
    let with = |change: &dyn Fn(&mut ProofFile)| {
        let mut file = honest.clone();
        change(&mut file);
        file.statement.input = Digest::of_blob(&file.input);
        file.statement.output = Digest::of_blob(&file.output);
        case.check(&file).unwrap_err()
    };
    let coding = TensorCoding::of_input(&case.model.model.program);
    let made = |tensor: &IntTensor, salt: u8| {
        let shown = Shows::of(Visibility::Committed, &coding, &[tensor], &[salt; 32]);
        shown.bytes().0
    };
    let input = &case.trace.tensors()[0];
    assert_eq!(honest.input, made(input, 21));
    let mut other = input.clone();
    super::models::set(&mut other, 4, 17);
    for bytes in [made(&other, 21), made(input, 20)] {
        with(&|file| file.input = bytes.clone());
    }
    let of_input = VerifyError::Commitment { which: "input" };
    assert_eq!(
        with(&|file| std::mem::swap(&mut file.input, &mut file.output)),
        of_input
    );
    // The type and the number of elements.
    assert_eq!(with(&|file| file.input[4] = 1), of_input);
    assert_eq!(with(&|file| file.input[5] ^= 1), of_input);
    assert_eq!(with(&|file| file.input.truncate(9)), of_input);
    let refused = VerifyError::Digest { which: "input" };
    let mut file = honest.clone();
    file.input[9] ^= 1;
    assert_eq!(case.check(&file), Err(refused));
}

/// Provers that follow the protocol for a statement that is not true.
#[test]
fn a_commitment_of_another_tensor_is_not_shown() {
    let case = case();
    let program = &case.model.model.program;
    let (plan_input, mut other) = (
        TensorCoding::of_input(program),
        case.trace.tensors()[0].clone(),
    );
    super::models::set(&mut other, 4, 17);
    let shape = ZkShape::new(program.check().unwrap(), 1, COMMITTED).unwrap();
    let tensors = case.trace.tensors();
    let honest = shows(case, COMMITTED);
    let committed =
        |tensor: &IntTensor, salt| Shows::of(Visibility::Committed, &plan_input, &[tensor], salt);
    // Another tensor with the salt's bytes that hide it, or with those of the tensor that was computed on; another salt.
    let of_other = committed(&other, &SALTS[0]);
    let resalted = committed(&tensors[0], &[1; 32]);
    let cases = [
        (&honest[0], &honest[0], true),
        (&of_other, &of_other, false),
        (&of_other, &honest[0], false),
        (&resalted, &honest[0], false),
    ];
    for (named, hidden, holds) in cases {
        let mut witness = Witness::of(program, &shape.plan, tensors).unwrap();
        let salts = [
            crate::masking::salt(hidden),
            crate::masking::salt(&honest[1]),
        ];
        witness.set_salts(&shape.plan, &salts.map(Option::unwrap));
        let [(input, input_digest), (output, output_digest)] = [named.bytes(), honest[1].bytes()];
        let statement = Statement {
            input: input_digest,
            output: output_digest,
            zk: Some(COMMITTED),
            ..case.file.statement
        };
        let execution = ZkExecution {
            model: &case.model,
            shape: &shape,
            tensors,
            witness: &witness,
            commitments: vec![named.commitment(), honest[1].commitment()],
            parts: Vec::new(),
        };
        let mut rng = StdRng::seed_from_u64(1);
        let limits = Limits::default();
        let proof = execution
            .prove(&statement, &mut rng, &limits, &mut |_| {})
            .unwrap();
        let file = ProofFile {
            statement,
            input,
            output,
            proof: proof.encode(),
        };
        assert_eq!(case.check(&file).is_ok(), holds);
    }
}

/// The output of one model is the input of the next, committed in both proofs.
#[test]
fn proofs_are_chained_by_a_commitment() {
    let (first, _) = statistics::silent();
    let [input, output] = [Visibility::Hidden, Visibility::Committed];
    let file = in_modes(&first, Modes { input, output });
    let output = first.trace.tensors().last().unwrap().clone();
    let mut draft = Draft::new(5, Shape::vector(2));
    let acc = draft.push(
        Op::Dense(op::Dense {
            input: TensorId::INPUT,
        }),
        Shape::vector(3),
    );
    draft.requantise(acc, 21, [-128, 127]);
    let next = Case::of_tensor((draft.finish().0, output));
    let [input, output] = [Visibility::Committed, Visibility::Public];
    let mut with = masking(8, Modes { input, output });
    with.salts[0] = SALTS[1];
    let inputs = vec![next.trace.tensors()[0].clone()];
    let second = prove_as(&next, inputs, &with).unwrap();
    assert_eq!(next.check(&second), Ok(()));
    assert_eq!(file.statement.output, second.statement.input);
}

/// Another input gives another commitment, and the same seed the same bytes on any number of threads.
#[test]
fn one_seed_gives_one_proof_on_any_number_of_threads() {
    let case = case();
    let proofs = [1, 2, 5].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.build().unwrap().install(|| honest(case).to_bytes())
    });
    assert!(proofs.iter().all(|bytes| *bytes == proofs[0]));
    let other = prove(case, case.trace.tensors()[0].clone(), 2);
    assert_ne!(other.to_bytes(), proofs[0]);
    assert_eq!(case.check(&other), Ok(()));
}

#[test]
fn a_limit_of_memory_is_kept_to() {
    let case = case();
    let need = case.model.memory_zk(1, Modes::HIDDEN_INPUT).unwrap();
    assert!(need > 1 << 20);
    for (memory, refused) in [(need, false), (need - 1, true)] {
        let limits = Limits {
            memory: Some(memory),
            cancel: None,
            record: None,
        };
        let (masking, inputs) = (
            masking(1, Modes::HIDDEN_INPUT),
            vec![case.trace.tensors()[0].clone()],
        );
        let request = ProveRequest::of(inputs).within(limits).masked(&masking);
        let proved = crate::prove(&case.model, request, &mut |_| {});
        let limit = memory;
        let error = refused.then_some(ProveError::Memory { need, limit });
        assert_eq!(proved.err(), error);
    }
}

#[test]
fn a_batch_is_hidden_too() {
    let case = case();
    let input = case.trace.tensors()[0].clone();
    let mut second = input.clone();
    super::models::set(&mut second, 4, 17);
    let inputs = vec![input.clone(), second, input];
    for modes in [Modes::HIDDEN_INPUT, Modes::PUBLIC, COMMITTED] {
        let (masking, inputs) = (masking(3, modes), inputs.clone());
        let request = ProveRequest::of(inputs).masked(&masking);
        let (file, traces) = crate::prove(&case.model, request, &mut |_| {}).unwrap();
        assert_eq!(traces.len(), 3);
        assert_eq!(case.check(&file), Ok(()));
        let commitment = TensorCommitment::from_bytes(&file.input).ok();
        let elements = commitment.map(|own| own.elements as usize);
        assert_eq!(
            elements,
            (modes == COMMITTED).then(|| 3 * case.file.input.len())
        );
    }
}

/// A statement, an input or an output that the proof is not about.
#[test]
fn another_statement_is_refused() {
    let case = case();
    let honest = honest(case);
    let check = |change: &dyn Fn(&mut ProofFile)| {
        let mut file = honest.clone();
        change(&mut file);
        case.check(&file).unwrap_err()
    };
    let which = "input";
    let input = case.file.input.clone();
    let (expected, got) = (0, input.len());
    let length = VerifyError::Length {
        which,
        expected,
        got,
    };
    assert_eq!(check(&|file| file.input = input.clone()), length);
    let digest = Digest::of_blob(&input);
    let refused = VerifyError::Digest { which };
    assert_eq!(check(&|file| file.statement.input = digest), refused);
    let refused = VerifyError::Digest { which: "output" };
    assert_eq!(check(&|file| file.output[0] ^= 1), refused);
    check(&|file| {
        file.output[0] ^= 1;
        file.statement.output = Digest::of_blob(&file.output);
    });
    check(&|file| file.statement.provider = tg_types::Address::new([1; 20]));
    check(&|file| file.statement.batch = 2);
    // A proof of one kind for a statement of the other.
    assert_eq!(
        check(&|file| file.proof = case.file.proof.clone()),
        VerifyError::Encoding
    );
    let mut clear = case.file.clone();
    clear.statement.zk = Some(Modes::HIDDEN_INPUT);
    assert!(case.check(&clear).is_err());
    let mut clear = case.file.clone();
    clear.proof = honest.proof.clone();
    assert_eq!(case.check(&clear), Err(VerifyError::Encoding));
}

#[test]
fn every_message_is_bound() {
    let (case, _) = statistics::silent();
    let honest = honest(&case);
    let proof = ZkProof::decode(&honest.proof, Parts::ALL).unwrap();
    let message = serde_json::to_value(&proof).unwrap();
    let mut changes = 0;
    let codes = mutate::all(&message, &mut |changed| {
        let proof: ZkProof = serde_json::from_value(changed).ok()?;
        let file = ProofFile {
            proof: proof.encode(),
            ..honest.clone()
        };
        changes += 1;
        Some(
            case.check(&file)
                .expect_err("a changed proof is refused")
                .code(),
        )
    });
    assert!(
        changes > 100 && codes.len() > 30,
        "{changes} {}",
        codes.len()
    );
}

/// A program with an input of 16 bits.
fn words() -> Case {
    let mut draft = Draft::new(3, Shape::new(2, 2, 3)).coded(Coding::Scaled(ElementType::I16));
    let shape = Shape::new(2, 2, 4);
    let acc = draft.push(Op::conv(TensorId::INPUT, window(1, 1, [0; 4])), shape);
    draft.narrowed(acc, 8);
    Case::of_tensor(draft.finish_tensor())
}

/// A program that embeds tokens of a vocabulary of seven.
fn tokens() -> Case {
    let mut draft = Draft::new(31, Shape::new(1, 4, 1)).coded(Coding::Tokens(7));
    let input = TensorId::INPUT;
    let embedded = draft.push(Op::Embed(op::Embed { input, rows: 7 }), Shape::new(1, 4, 6));
    let input = draft.narrowed(embedded, 8);
    draft.push(Op::Dense(op::Dense { input }), Shape::vector(3));
    Case::of_tensor(draft.finish_tensor())
}

/// A program with an input of 16 bits in units of its channels' own.
fn units() -> Case {
    let coding = Coding::PerChannel(vec![1.0, 0.25, 1e6]);
    let mut draft = Draft::new(5, Shape::new(2, 2, 3)).coded(coding);
    let shape = Shape::new(2, 2, 4);
    let acc = draft.push(Op::conv(TensorId::INPUT, window(1, 1, [0; 4])), shape);
    draft.narrowed(acc, 8);
    Case::of_tensor(draft.finish_tensor())
}

/// A program of ranks, up to five, nine and 300.
fn ranks() -> Case {
    let list = |count: u16| (0..count).map(f32::from).collect();
    let thresholds = [5, 9, 300].map(list).to_vec();
    let mut draft = Draft::new(17, Shape::new(2, 2, 3)).coded(Coding::Ranks(thresholds));
    let shape = Shape::new(2, 2, 4);
    let acc = draft.push(Op::conv(TensorId::INPUT, window(1, 1, [0; 4])), shape);
    draft.narrowed(acc, 8);
    Case::of_tensor(draft.finish_tensor())
}

#[test]
fn inputs_of_all_codings_are_hidden_and_committed() {
    for case in [words(), units(), tokens(), ranks()] {
        for modes in super::hidden::all_modes() {
            let file = in_modes(&case, modes);
            assert_eq!(case.check(&file), Ok(()), "{modes:?}");
        }
    }
}

/// Elements that no coding gives, hidden as if they were some.
#[test]
fn elements_that_no_coding_gives_are_refused() {
    let cases = [
        (words(), vec![-32_768, 32_768, -65_536]),
        (units(), vec![-32_768, 32_768, -65_536]),
        (tokens(), vec![-1, 7, 16, 1 << 20]),
        (ranks(), vec![-1, 6, 4_096, 40_000]),
        // Nobody reads it.
        (
            Case::of_tensor(super::forms::constant()),
            vec![128, -129, 4_096],
        ),
    ];
    let mut refused = 0;
    for (case, lies) in cases {
        let program = &case.model.model.program;
        let shape = ZkShape::new(program.check().unwrap(), 1, Modes::HIDDEN_INPUT).unwrap();
        for lie in lies {
            let mut tensors = case.trace.tensors().to_vec();
            let mut values = tensors[0].widened();
            values[0] = lie;
            tensors[0] = IntTensor::I32(values);
            let Ok(witness) = Witness::of(program, &shape.plan, &tensors) else {
                continue;
            };
            let output = tensors.last().unwrap().to_bytes();
            let execution = ZkExecution {
                model: &case.model,
                shape: &shape,
                tensors: &tensors,
                witness: &witness,
                commitments: Vec::new(),
                parts: Vec::new(),
            };
            let statement = Statement {
                input: Digest::default(),
                output: Digest::of_blob(&output),
                zk: Some(Modes::HIDDEN_INPUT),
                ..case.file.statement
            };
            let mut rng = StdRng::seed_from_u64(1);
            let limits = Limits::default();
            let proof = execution.prove(&statement, &mut rng, &limits, &mut |_| {});
            let Ok(proof) = proof else { continue };
            let file = ProofFile {
                statement,
                input: Vec::new(),
                output,
                proof: proof.encode(),
            };
            assert!(case.check(&file).is_err(), "{lie}");
            refused += 1;
        }
    }
    assert!(refused >= 8, "{refused}");
}

mod statistics {
    //! Two inputs with one output: every element that a proof shows at a fixed place is distributed alike.

    use super::super::models::{Case, Draft};
    use super::super::proofs_a_side;
    use super::{COMMITTED, LEAK, Shows};
    use crate::witness::Witness;
    use crate::zk::{Shown, ZkExecution};
    use p3_field::PrimeCharacteristicRing;
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use tg_exec::IntTensor;
    use tg_ir::{Op, Shape, TensorId, op};
    use tg_proof::Modes;
    use tg_proof::Statement;
    use tg_proof::field::{E, F};
    use tg_proof::hiding::{HidingShape, Strength};
    use tg_proof::messages::{self, GadgetProof};
    use tg_proof::plan::TensorCoding;
    use tg_proof::verify::ShownTensor;
    use tg_proof::zk::{ZkProof, ZkShape};
    use tg_types::Digest;

    const BINS: usize = 16;

    /// Two dense layers whose last requantisation gives 0 whatever the input is.
    pub(super) fn silent() -> (Case, [IntTensor; 2]) {
        let mut draft = Draft::new(9, Shape::vector(1));
        let acc = draft.push(
            Op::Dense(op::Dense {
                input: TensorId::INPUT,
            }),
            Shape::vector(3),
        );
        let first = draft.requantise(acc, 21, [-128, 127]);
        let acc = draft.push(Op::Dense(op::Dense { input: first }), Shape::vector(2));
        draft.requantise(acc, 42, [-128, 127]);
        let case = Case::of(draft.finish());
        let inputs = [vec![3i8], vec![97]].map(IntTensor::I8);
        (case, inputs)
    }

    struct Setting {
        case: Case,
        shape: ZkShape,
        modes: Modes,
    }

    impl Setting {
        /// An execution on an input, and a statement about it.
        fn with<T>(
            &self,
            input: &IntTensor,
            seed: u64,
            take: impl FnOnce(&ZkExecution<'_>, &Statement) -> T,
        ) -> T {
            let trace = tg_exec::execute_tensor(&self.case.model.model, input.clone()).unwrap();
            let output = trace.output_bytes();
            assert!(
                output.iter().all(|&byte| byte == 0),
                "the outputs are equal"
            );
            let program = &self.case.model.model.program;
            let mut witness = Witness::of(program, &self.shape.plan, trace.tensors()).unwrap();
            let coding = TensorCoding::of_output(program, program.output());
            // A salt of its own for every proof: what is compared are commitments too.
            let mut salts = [[0; 32]; 2];
            for (place, salt) in salts.iter_mut().enumerate() {
                salt[..8].copy_from_slice(&seed.to_le_bytes());
                salt[8] = u8::try_from(place).unwrap();
            }
            let shows = [
                Shows::of(
                    self.modes.input,
                    &TensorCoding::of_input(program),
                    &[input],
                    &salts[0],
                ),
                Shows::of(self.modes.output, &coding, &[trace.output()], &salts[1]),
            ];
            witness.set_salts(&self.shape.plan, &crate::masking::salts(&shows));
            let execution = ZkExecution {
                model: &self.case.model,
                shape: &self.shape,
                tensors: trace.tensors(),
                witness: &witness,
                commitments: shows.iter().map(Shows::commitment).collect(),
                parts: Vec::new(),
            };
            let [(_, input), (_, output)] = shows.each_ref().map(Shows::bytes);
            let statement = Statement {
                input,
                output,
                zk: Some(self.modes),
                ..self.case.file.statement
            };
            take(&execution, &statement)
        }

        fn prove(&self, input: &IntTensor, seed: u64) -> ZkProof {
            let mut rng = StdRng::seed_from_u64(seed);
            self.with(input, seed, |execution, statement| {
                let limits = crate::Limits::default();
                let proof = execution.prove(statement, &mut rng, &limits, &mut |_| {});
                proof.unwrap()
            })
        }

        fn show(&self, input: &IntTensor, seed: u64) -> Shown {
            let mut rng = StdRng::seed_from_u64(seed);
            self.with(input, seed, |execution, statement| {
                let limits = crate::Limits::default();
                let shown = execution.show(statement, &mut rng, &limits, &mut |_| {});
                shown.unwrap().0
            })
        }

        /// Everything at a fixed place: all messages but the queries of openings, as 32-bit words.
        fn words(&self, input: &IntTensor, seed: u64) -> Vec<u32> {
            let mut rng = StdRng::seed_from_u64(seed);
            let (proof, commitments) = self.with(input, seed, |execution, statement| {
                let limits = crate::Limits::default();
                let shown = execution.show(statement, &mut rng, &limits, &mut |_| {});
                let named = execution.commitments.iter().flatten();
                let named: Vec<Vec<F>> = named.map(|own| own.value.clone()).collect();
                (shown.unwrap().0, named)
            });
            let Shown {
                witness,
                nodes,
                lookup,
                products,
                opening,
            } = &proof;
            let shown = (&opening.mask_sum, &opening.sumcheck, &opening.values);
            let blinded = (&opening.second, &opening.blinded);
            let sent = ((witness, nodes, lookup), products, shown, blinded);
            let bytes = messages::encode(&(sent, commitments));
            let words = bytes.as_chunks::<4>().0.iter();
            words.map(|&word| u32::from_le_bytes(word)).collect()
        }

        /// The greatest two-sample statistic over all places, by low and by high bits, and how many were compared.
        fn compare(&self, inputs: &[IntTensor; 2], proofs: u64) -> (f64, usize) {
            let mut counts: Vec<[[[u32; BINS]; 2]; 2]> = Vec::new();
            for (side, input) in inputs.iter().enumerate() {
                for proof in 0..proofs {
                    let words = self.words(input, 2 * proof + side as u64);
                    counts.resize(words.len(), [[[0; BINS]; 2]; 2]);
                    for (counts, word) in counts.iter_mut().zip(words) {
                        counts[0][side][word as usize % BINS] += 1;
                        counts[1][side][(word >> 27) as usize % BINS] += 1;
                    }
                }
            }
            let statistic = |[a, b]: &[[u32; BINS]; 2]| -> f64 {
                let bins = a.iter().zip(b).filter(|&(&a, &b)| a + b > 0);
                bins.map(|(&a, &b)| {
                    let difference = f64::from(a) - f64::from(b);
                    difference * difference / f64::from(a + b)
                })
                .sum()
            };
            let all = counts.iter().flatten().map(statistic);
            (all.fold(0.0, f64::max), 2 * counts.len())
        }
    }

    /// Chi-square with 15 degrees of freedom exceeds this with probability below 10^-10: below 10^-6 for any of 10^4.
    const BOUND: f64 = 82.0;

    fn setting(modes: Modes) -> (Setting, [IntTensor; 2]) {
        let (case, inputs) = silent();
        let weak = Strength {
            bits: 10.0,
            grinding: 0,
        };
        let hiding = |columns: &[_]| HidingShape::with_strength(columns, weak);
        let shape =
            ZkShape::with(case.model.model.program.check().unwrap(), 1, modes, hiding).unwrap();
        (Setting { case, shape, modes }, inputs)
    }

    #[test]
    fn proofs_about_two_inputs_look_alike() {
        for modes in [Modes::HIDDEN_INPUT, COMMITTED] {
            let (setting, inputs) = setting(modes);
            let (greatest, places) = setting.compare(&inputs, proofs_a_side().into());
            assert!((200..10_000).contains(&places), "{places}");
            assert!(greatest < BOUND, "{greatest} over {places}");
        }
    }

    /// The input itself, which the first layer reads, sent without its pad.
    #[test]
    fn one_pad_that_is_missing_shows() {
        let (setting, inputs) = setting(Modes::HIDDEN_INPUT);
        let reads = |seed: u64| {
            let proof = setting.show(&inputs[0], seed);
            let nodes = proof.nodes.iter().rev();
            let mut products = nodes.filter_map(|node| match &node.gadget {
                GadgetProof::Products(products) => Some(products.reads),
                _ => None,
            });
            products.next().unwrap()
        };
        let leak = (0..setting.shape.secrets.messages).find(|&index| {
            LEAK.set(Some(index));
            reads(0) == E::from_u8(3)
        });
        assert!(leak.is_some(), "some message is what the first layer read");
        let (greatest, _) = setting.compare(&inputs, 200);
        LEAK.set(None);
        assert!(greatest > 3.0 * BOUND, "{greatest}");
    }

    /// Weak proofs are proofs: what is measured is what is sent, and it verifies.
    #[test]
    fn proofs_that_are_measured_verify() {
        let (setting, inputs) = setting(Modes::HIDDEN_INPUT);
        for (seed, input) in (0u64..).zip(&inputs) {
            let proof = setting.prove(input, seed);
            let output = vec![0u8; setting.case.file.output.len()];
            let file = tg_proof::ProofFile {
                statement: Statement {
                    input: Digest::default(),
                    output: Digest::of_blob(&output),
                    zk: Some(Modes::HIDDEN_INPUT),
                    ..setting.case.file.statement
                },
                input: Vec::new(),
                proof: proof.encode(),
                output: output.clone(),
            };
            let output = ShownTensor {
                elements: output.iter().map(|_| 0).collect(),
                ..ShownTensor::default()
            };
            let verdict = tg_proof::check::verify_zk_messages(
                &setting.case.public,
                &setting.shape,
                &file,
                &[ShownTensor::default(), output],
                &proof,
            );
            assert_eq!(verdict, Ok(()));
        }
    }
}

/// A view that repeats its input three times has a factor at a point, which is 1 at the corner that a slice of it reads. Whether
/// a message is sent follows from the plan and not from that: the pads that hide messages are counted without the point.
#[test]
fn a_slice_of_a_partial_repetition_is_proved() {
    let mut draft = Draft::new(31, Shape::vector(4));
    let conv = Op::conv(TensorId::INPUT, window(1, 1, [0; 4]));
    let sums = draft.push(conv, Shape::vector(4));
    let input = draft.narrowed(sums, 8);
    let three = tg_ir::View::new(0, &[(3, 0), (4, 1)]);
    let repeated = Op::View(op::Unary { input, how: three });
    let input = draft.push(repeated, Shape::new(3, 1, 4));
    let slice = tg_ir::View::new(4, &[(4, 1)]);
    let input = draft.push(Op::View(op::Unary { input, how: slice }), Shape::vector(4));
    draft.push(Op::Dense(op::Dense { input }), Shape::vector(3));
    let case = Case::of(draft.finish());
    assert_eq!(case.check(&case.file), Ok(()));
    assert_eq!(case.check(&honest(&case)), Ok(()));
}

//! Proofs in zero knowledge, end to end.

use super::models::{Case, Draft, JOB, PROVIDER, case, window};
use crate::prove::{Limits, ProveError};
use crate::prove_zk;
use crate::tests::mutate;
use std::cell::Cell;
use tg_ir::{Op, Shape, TensorId};
use tg_model::Tensor;
use tg_proof::error::PlanError;
use tg_proof::field::E;
use tg_proof::messages;
use tg_proof::zk::ZkProof;
use tg_proof::{ProofFile, VerifyError, security};
use tg_types::Digest;
use tg_types::codec::{Decode, Encode};

thread_local! {
    static LEAK: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The pads, one of them forced to zero by a test that plants a leak.
pub(crate) fn leaked(mut pads: Vec<E>) -> Vec<E> {
    if let Some(pad) = LEAK.get().and_then(|index| pads.get_mut(index)) {
        *pad = E::default();
    }
    pads
}

fn prove(case: &Case, input: Tensor, seed: u8) -> ProofFile {
    let limits = Limits::default();
    let with = ([seed; 32], &limits);
    let (file, _) = prove_zk(&case.model, vec![input], (JOB, PROVIDER), with, &mut |_| {}).unwrap();
    file
}

fn honest(case: &Case) -> ProofFile {
    prove(case, case.trace.tensors()[0].clone(), 1)
}

#[test]
fn an_honest_proof_verifies_without_the_input() {
    let case = case();
    let file = honest(case);
    assert!(file.statement.zk && file.input.is_empty());
    assert_eq!(file.statement.input, Digest::default());
    assert_eq!(file.output, case.file.output);
    let read = ProofFile::from_bytes(&file.to_bytes()).unwrap();
    assert_eq!(read, file);
    assert_eq!(case.check(&read), Ok(()));
    assert!(file.witness_root().is_some());
    let report = security::report_zk(&case.public, 1).unwrap();
    assert!(report.bits >= f64::from(security::LEVEL), "{}", report.bits);
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
fn a_batch_is_hidden_too() {
    let case = case();
    let input = case.trace.tensors()[0].clone();
    let mut second = input.clone();
    super::models::set(&mut second, 4, 17);
    let limits = Limits::default();
    let inputs = vec![input.clone(), second, input];
    let with = ([3; 32], &limits);
    let (file, traces) = prove_zk(&case.model, inputs, (JOB, PROVIDER), with, &mut |_| {}).unwrap();
    assert_eq!(traces.len(), 3);
    assert_eq!(case.check(&file), Ok(()));
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
    clear.statement.zk = true;
    assert!(case.check(&clear).is_err());
    let mut clear = case.file.clone();
    clear.proof = honest.proof.clone();
    assert_eq!(case.check(&clear), Err(VerifyError::Encoding));
}

#[test]
fn every_message_is_bound() {
    let (case, _) = statistics::silent();
    let honest = honest(&case);
    let proof: ZkProof = messages::decode(&honest.proof).unwrap();
    let message = serde_json::to_value(&proof).unwrap();
    let mut changes = 0;
    let codes = mutate::all(&message, &mut |changed| {
        let proof: ZkProof = serde_json::from_value(changed).ok()?;
        let file = ProofFile {
            proof: messages::encode(&proof),
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

/// A program whose input cannot be hidden is refused by name, not proved in the clear.
#[test]
fn an_input_that_cannot_be_hidden_is_refused() {
    let mut draft =
        Draft::new(3, Shape::new(2, 2, 3)).coded(tg_ir::Coding::Scaled(tg_ir::ElementType::I16));
    let shape = Shape::new(2, 2, 4);
    let acc = draft.push(Op::conv(TensorId::INPUT, window(1, 1, [0; 4])), shape);
    draft.narrowed(acc, 8);
    let case = Case::of_tensor(draft.finish_tensor());
    let limits = Limits::default();
    let input = case.trace.tensors()[0].clone();
    let with = ([1; 32], &limits);
    let refused = prove_zk(&case.model, vec![input], (JOB, PROVIDER), with, &mut |_| {});
    assert_eq!(
        refused.err(),
        Some(ProveError::Plan(PlanError::HiddenInput))
    );
}

mod statistics {
    //! Two inputs with one output: every element that a proof shows at a fixed place is distributed alike.

    use super::super::models::{Case, Draft};
    use super::LEAK;
    use crate::witness::Witness;
    use crate::zk::{Shown, ZkExecution};
    use p3_field::PrimeCharacteristicRing;
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use tg_ir::{Op, Shape, TensorId};
    use tg_model::Tensor;
    use tg_proof::Statement;
    use tg_proof::field::E;
    use tg_proof::hiding::{HidingShape, Strength};
    use tg_proof::messages::{self, GadgetProof};
    use tg_proof::zk::{ZkProof, ZkShape};
    use tg_types::Digest;

    const PROOFS: u64 = 1_000;
    const BINS: usize = 16;

    /// Two dense layers whose last requantisation gives 0 whatever the input is.
    pub(super) fn silent() -> (Case, [Tensor; 2]) {
        let mut draft = Draft::new(9, Shape::vector(1));
        let acc = draft.push(
            Op::Dense {
                input: TensorId::INPUT,
            },
            Shape::vector(3),
        );
        let first = draft.requantise(acc, 21, [-128, 127]);
        let acc = draft.push(Op::Dense { input: first }, Shape::vector(2));
        draft.requantise(acc, 42, [-128, 127]);
        let case = Case::of(draft.finish());
        let inputs = [vec![3i8], vec![97]].map(Tensor::I8);
        (case, inputs)
    }

    struct Setting {
        case: Case,
        shape: ZkShape,
    }

    impl Setting {
        /// An execution on an input, and a statement about it.
        fn with<T>(
            &self,
            input: &Tensor,
            take: impl FnOnce(&ZkExecution<'_>, &Statement) -> T,
        ) -> T {
            let trace = tg_model::execute_tensor(&self.case.model.model, input.clone()).unwrap();
            let output = trace.output_bytes();
            assert!(
                output.iter().all(|&byte| byte == 0),
                "the outputs are equal"
            );
            let program = &self.case.model.model.program;
            let witness = Witness::of(program, &self.shape.plan, trace.tensors()).unwrap();
            let execution = ZkExecution {
                model: &self.case.model,
                shape: &self.shape,
                tensors: trace.tensors(),
                witness: &witness,
            };
            let statement = Statement {
                input: Digest::default(),
                output: Digest::of_blob(&output),
                zk: true,
                ..self.case.file.statement
            };
            take(&execution, &statement)
        }

        fn prove(&self, input: &Tensor, seed: u64) -> ZkProof {
            let mut rng = StdRng::seed_from_u64(seed);
            self.with(input, |execution, statement| {
                let limits = crate::Limits::default();
                let proof = execution.prove(statement, &mut rng, &limits, &mut |_| {});
                proof.unwrap()
            })
        }

        fn show(&self, input: &Tensor, seed: u64) -> Shown {
            let mut rng = StdRng::seed_from_u64(seed);
            self.with(input, |execution, statement| {
                let limits = crate::Limits::default();
                let shown = execution.show(statement, &mut rng, &limits, &mut |_| {});
                shown.unwrap().0
            })
        }

        /// Everything at a fixed place: all messages but the queries of openings, as 32-bit words.
        fn words(&self, input: &Tensor, seed: u64) -> Vec<u32> {
            let proof = self.show(input, seed);
            let Shown {
                witness,
                nodes,
                lookup,
                products,
                opening,
            } = &proof;
            let shown = (&opening.mask_sum, &opening.sumcheck, &opening.values);
            let blinded = (&opening.second, &opening.blinded);
            let bytes = messages::encode(&((witness, nodes, lookup), products, shown, blinded));
            let words = bytes.as_chunks::<4>().0.iter();
            words.map(|&word| u32::from_le_bytes(word)).collect()
        }

        /// The greatest two-sample statistic over all places, by low and by high bits, and how many were compared.
        fn compare(&self, inputs: &[Tensor; 2], proofs: u64) -> (f64, usize) {
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

    fn setting() -> (Setting, [Tensor; 2]) {
        let (case, inputs) = silent();
        let weak = Strength {
            bits: 10.0,
            grinding: 0,
        };
        let hiding = |columns: &[_]| HidingShape::with_strength(columns, weak);
        let shape = ZkShape::with(&case.model.model.program, 1, hiding).unwrap();
        (Setting { case, shape }, inputs)
    }

    #[test]
    fn proofs_about_two_inputs_look_alike() {
        let (setting, inputs) = setting();
        let (greatest, places) = setting.compare(&inputs, PROOFS);
        assert!((200..5_000).contains(&places), "{places}");
        assert!(greatest < BOUND, "{greatest} over {places}");
    }

    /// The input itself, which the first layer reads, sent without its pad.
    #[test]
    fn one_pad_that_is_missing_shows() {
        let (setting, inputs) = setting();
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
        let (greatest, _) = setting.compare(&inputs, PROOFS / 5);
        LEAK.set(None);
        assert!(greatest > 3.0 * BOUND, "{greatest}");
    }

    /// Weak proofs are proofs: what is measured is what is sent, and it verifies.
    #[test]
    fn proofs_that_are_measured_verify() {
        let (setting, inputs) = setting();
        for (seed, input) in (0u64..).zip(&inputs) {
            let proof = setting.prove(input, seed);
            let output = vec![0u8; setting.case.file.output.len()];
            let file = tg_proof::ProofFile {
                statement: Statement {
                    input: Digest::default(),
                    output: Digest::of_blob(&output),
                    zk: true,
                    ..setting.case.file.statement
                },
                input: Vec::new(),
                proof: messages::encode(&proof),
                output: output.clone(),
            };
            let output: Vec<i32> = output.iter().map(|_| 0).collect();
            let verdict = tg_proof::zk::verify_messages(
                &setting.case.public,
                &setting.shape,
                &file,
                &output,
                &proof,
            );
            assert_eq!(verdict, Ok(()));
        }
    }
}

//! Committed inputs and outputs with elements that their coding does not give, all else being an execution on them: the
//! coding's relation alone is broken, and the proof is refused.

use super::models::{Case, Draft, window};
use super::relations::{Relation, Row};
use crate::Limits;
use crate::witness::Witness;
use crate::zk::ZkExecution;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tg_exec::IntTensor;
use tg_ir::op;
use tg_ir::{Coding, ElementType, Op, Requantise, Rescale, Shape, TensorId};
use tg_proof::hiding::HidingError;
use tg_proof::plan::{NodePlan, TensorPlan};
use tg_proof::zk::ZkShape;
use tg_proof::{Modes, ProofFile, Statement, VerifyError, Visibility, messages};
use tg_types::Digest;

/// A program with an input of 16 bits.
fn words() -> Case {
    let mut draft = Draft::new(3, Shape::new(2, 2, 3)).coded(Coding::Scaled(ElementType::I16));
    let shape = Shape::new(2, 2, 4);
    let acc = draft.push(Op::conv(TensorId::INPUT, window(1, 1, [0; 4])), shape);
    draft.narrowed(acc, 8);
    Case::of_tensor(draft.finish_tensor())
}

/// A program that embeds tokens of a vocabulary of five by a table of seven rows: the flags admit more than the coding.
fn tokens() -> Case {
    let mut draft = Draft::new(31, Shape::new(1, 4, 1)).coded(Coding::Tokens(5));
    let input = TensorId::INPUT;
    let embedded = draft.push(Op::Embed(op::Embed { input, rows: 7 }), Shape::new(1, 4, 6));
    let input = draft.narrowed(embedded, 8);
    draft.push(Op::Dense(op::Dense { input }), Shape::vector(3));
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

/// A program whose outputs are -B, whatever the input: sums of sums of a constant.
fn lowest() -> Case {
    let shape = Shape::vector(3);
    let mut draft = Draft::new(4, Shape::vector(2));
    let acc = draft.push(
        Op::Dense(op::Dense {
            input: TensorId::INPUT,
        }),
        shape,
    );
    let how = Requantise::to_i8(
        vec![Rescale::new(1, 20).unwrap()],
        vec![0],
        [-4_000_000, 4_000_000],
        [-128, -128],
    );
    let least = draft.push(Op::Requantise(op::Unary { input: acc, how }), shape);
    let sum = Op::Add(op::Add {
        inputs: vec![least; 8],
        multipliers: vec![32_767; 8],
        bias: 0,
    });
    let sum = draft.push(sum, shape);
    let reach = 128 * 32_767 * 8 * 31;
    let last = Op::Add(op::Add {
        inputs: vec![sum],
        multipliers: vec![31],
        bias: i32::try_from(reach - tg_ir::FIELD_BOUND).unwrap(),
    });
    draft.push(last, shape);
    Case::of_tensor(draft.finish_tensor())
}

/// A lie: the modes, and what is broken of which tensor.
pub(super) struct Lie {
    pub(super) case: Case,
    pub(super) modes: Modes,
}

impl Lie {
    fn hidden_input(case: Case) -> Self {
        Self {
            case,
            modes: Modes::HIDDEN_INPUT,
        }
    }

    pub(super) fn shape(&self) -> ZkShape {
        ZkShape::new(
            self.case.model.model.program.check().unwrap(),
            1,
            self.modes,
        )
        .unwrap()
    }

    /// An execution on an input with another first element, which the executor would not take.
    fn executed(&self, first: i32) -> Vec<IntTensor> {
        let mut tensors = self.case.trace.tensors().to_vec();
        let mut values = tensors[0].widened();
        values[0] = first;
        tensors[0] = match tensors[0].element_type() {
            ElementType::I16 => IntTensor::I16(values.iter().map(|&v| v as i16).collect()),
            _ => IntTensor::I32(values),
        };
        assert_eq!(tensors[0].widened()[0], first);
        self.case.recompute(&mut tensors, 0);
        tensors
    }

    pub(super) fn verdict(
        &self,
        tensors: &[IntTensor],
        witness: &Witness,
    ) -> Result<(), VerifyError> {
        let shape = self.shape();
        let outputs = self.case.model.model.program.outputs().into_iter();
        let given = outputs.flat_map(|output| tensors[output.index()].to_bytes());
        let output = match self.modes.output {
            Visibility::Public => given.collect(),
            _ => Vec::new(),
        };
        let input = match self.modes.input {
            Visibility::Public => tensors[0].to_bytes(),
            _ => Vec::new(),
        };
        let digest = |bytes: &[u8]| match bytes {
            [] => Digest::default(),
            bytes => Digest::of_blob(bytes),
        };
        let statement = Statement {
            input: digest(&input),
            output: digest(&output),
            zk: Some(self.modes),
            ..self.case.file.statement
        };
        let execution = ZkExecution {
            model: &self.case.model,
            shape: &shape,
            tensors,
            witness,
            commitments: Vec::new(),
            parts: Vec::new(),
        };
        let mut rng = StdRng::seed_from_u64(1);
        let limits = Limits::default();
        let proof = execution.prove(&statement, &mut rng, &limits, &mut |_| {});
        let file = ProofFile {
            statement,
            input,
            output,
            proof: messages::encode(&proof.unwrap()),
        };
        self.case.check(&file)
    }

    /// What is broken of the committed tensor's relations, and of any gadget as data.
    fn broken(&self, own: &TensorPlan, tensors: &[IntTensor], witness: &Witness) -> Vec<Relation> {
        let shape = self.shape();
        let plan = &shape.plan;
        let tensors: Vec<Vec<i32>> = tensors.iter().map(IntTensor::widened).collect();
        let tensors = tensors.as_slice();
        let gadgets = plan.nodes.iter().filter_map(|node| match node {
            NodePlan::Gadget(gadget) | NodePlan::Chosen { gadget, .. } => Some(&gadget.staged),
            _ => None,
        });
        for staged in gadgets {
            for pixel in 0..staged.elements.layout.pixels {
                let row = Row {
                    plan,
                    staged,
                    tensors,
                    pixel,
                };
                assert!(row.broken(witness).is_empty());
            }
        }
        let rows = (0..own.columns.layout.pixels).flat_map(|pixel| {
            let row = Row {
                plan,
                staged: &own.staged,
                tensors,
                pixel,
            };
            row.broken(witness)
        });
        let mut relations: Vec<Relation> = rows.map(|broken| broken.relation).collect();
        relations.dedup();
        relations
    }
}

const CODING: Relation = Relation::Constraint {
    rows: false,
    index: 0,
};
const REFUSED: Result<(), VerifyError> = Err(VerifyError::Hidden(HidingError::Mask));

/// The least and the greatest element prove, the next ones do not, and nothing but the coding knows.
#[test]
fn inputs_beyond_their_coding_break_that_alone() {
    let cases = [
        (words(), vec![-32_767, 32_767], vec![-32_768]),
        (tokens(), vec![0, 4], vec![5, 6]),
        (ranks(), vec![0, 5], vec![6, 7, 300, 32_767]),
    ];
    for (case, honest, lies) in cases {
        let lie = Lie::hidden_input(case);
        let shape = lie.shape();
        let own = shape.plan.input.as_ref().unwrap();
        let program = &lie.case.model.model.program;
        for value in honest {
            let tensors = lie.executed(value);
            let witness = Witness::of(program, &shape.plan, &tensors).unwrap();
            assert!(lie.broken(own, &tensors, &witness).is_empty());
            assert_eq!(lie.verdict(&tensors, &witness), Ok(()), "{value}");
        }
        for value in lies {
            let tensors = lie.executed(value);
            let mut witness = Witness::of(program, &shape.plan, &tensors).unwrap();
            // The columns of the element itself are right; those of what it falls short by hold something.
            let columns = own.coding.classes().len();
            let table = own.columns.witness.start;
            for filling in [0, 3] {
                for column in columns / 2..columns {
                    witness.columns[table][column][0] = filling;
                }
                let broken = lie.broken(own, &tensors, &witness);
                assert_eq!(broken, [CODING], "{value}");
                assert_eq!(lie.verdict(&tensors, &witness), REFUSED, "{value}");
            }
        }
    }
}

/// Every cell of every committed tensor, in an element and in its neighbour.
#[test]
fn every_wrong_cell_of_a_committed_tensor_is_refused() {
    for case in [words(), tokens(), ranks(), lowest()] {
        let modes = Modes {
            input: Visibility::Hidden,
            output: Visibility::Hidden,
        };
        let lie = Lie { case, modes };
        let shape = lie.shape();
        let program = &lie.case.model.model.program;
        let tensors = lie.case.trace.tensors();
        let honest = Witness::of(program, &shape.plan, tensors).unwrap();
        for own in shape.plan.statement_tensors().map(Option::unwrap) {
            let table = own.columns.witness.start;
            for column in 0..honest.columns[table].len() {
                for row in [0, 1] {
                    let mut witness = honest.clone();
                    witness.columns[table][column][row] ^= 1;
                    assert_eq!(lie.verdict(tensors, &witness), REFUSED, "column {column}");
                }
            }
        }
    }
}

/// An output of -B, whose digits are those of p: the same element of the field, and another integer.
#[test]
fn a_second_representative_of_an_output_breaks_its_coding_alone() {
    let (input, output) = (Visibility::Public, Visibility::Hidden);
    let modes = Modes { input, output };
    let lie = Lie {
        case: lowest(),
        modes,
    };
    let shape = lie.shape();
    let own = shape.plan.outputs[0].as_ref().unwrap();
    let tensors = lie.case.trace.tensors();
    let values = tensors.last().unwrap().widened();
    assert_eq!(i64::from(values[0]), -tg_ir::FIELD_BOUND);
    let program = &lie.case.model.model.program;
    let honest = Witness::of(program, &shape.plan, tensors).unwrap();
    assert_eq!(lie.verdict(tensors, &honest), Ok(()));
    let table = own.columns.witness.start;
    let prime = [1, 0, 0, 127];
    for rest in [0, 126, 127] {
        let mut witness = honest.clone();
        for (column, digit) in prime.into_iter().chain([rest]).enumerate() {
            witness.columns[table][column][0] = digit;
        }
        let widened: Vec<Vec<i32>> = tensors.iter().map(IntTensor::widened).collect();
        let row = Row {
            plan: &shape.plan,
            staged: &own.staged,
            tensors: &widened,
            pixel: 0,
        };
        let given: Vec<i64> = values.iter().copied().map(i64::from).collect();
        assert_eq!(
            row.outputs(&witness),
            given,
            "the element of the field is right"
        );
        assert_eq!(lie.broken(own, tensors, &witness), [CODING]);
        assert_eq!(lie.verdict(tensors, &witness), REFUSED);
    }
}

//! Messages behind pads: the replay of an honest prover's messages leaves nothing that does not vanish, and that of changed
//! messages does.

use super::linear::linear;
use super::models::{CONV_OUT, Case, POOL, SECOND_OUT, SUM_OUT, case, set};
use super::{mutate, values};
use crate::ProvingModel;
use crate::channel::Channel;
use crate::error::ProveError;
use crate::limits::Limits;
use crate::lookup::{self, Columns, Pushing};
use crate::walk::Walk;
use crate::witness::{Witness, integer};
use p3_challenger::CanObserve;
use p3_field::PrimeCharacteristicRing;
use serde_json::Value;
use tg_exec::IntTensor;
use tg_exec::sample::random_model;
use tg_ir::Program;
use tg_proof::ajtai::{self, TensorCommitment};
use tg_proof::commitment::Challenger;
use tg_proof::error::VerifyError;
use tg_proof::field::{E, F, eq_table, inner_product};
use tg_proof::messages::{LookupProof, NodeProof};
use tg_proof::plan::{Plan, TensorPlan};
use tg_proof::tape::{self, ProductMessages, Secrets, Tape};
use tg_proof::transcript::{self, draw};
use tg_proof::verify::{Batch, Walked, walk_hidden};
use tg_proof::zk::ZkShape;
use tg_proof::{Modes, Visibility};
use tg_types::ProgramId;

fn challenger(seed: u32) -> Challenger {
    let mut challenger = transcript::registration(ProgramId::default());
    challenger.observe(F::from_u32(seed));
    challenger
}

fn plan_of(program: &Program) -> Plan {
    Plan::hidden(program.check().unwrap(), 1, Modes::HIDDEN_INPUT).unwrap()
}

/// Every pair of modes.
pub(super) fn all_modes() -> impl Iterator<Item = Modes> {
    use Visibility::{Committed, Hidden, Public};
    let all = [Public, Committed, Hidden];
    all.into_iter()
        .flat_map(move |input| all.map(move |output| Modes { input, output }))
}

/// The padded messages of an execution, with what was committed.
struct Hidden<'a> {
    case: &'a Case,
    plan: Plan,
    tensors: Vec<IntTensor>,
    pushforwards: Vec<E>,
    columns: Vec<Vec<Vec<F>>>,
    counted: Secrets,
    secrets: Vec<E>,
    nodes: Vec<NodeProof>,
    lookup: Option<LookupProof>,
    products: ProductMessages,
    /// The commitments that the statement names.
    commitments: Vec<Option<TensorCommitment>>,
}

impl<'a> Hidden<'a> {
    /// The messages of an honest prover under some modes.
    fn of_modes(case: &'a Case, modes: Modes) -> Self {
        let program = &case.model.model.program;
        let tensors = case.trace.tensors();
        let plan = Plan::hidden(program.check().unwrap(), 1, modes).unwrap();
        let mut witness = Witness::of(program, &plan, tensors).unwrap();
        let shows = super::zk::shows(case, modes);
        witness.set_salts(&plan, &crate::masking::salts(&shows));
        let mut hidden = Self::of_witness(case, plan, tensors, &witness).unwrap();
        let commitments = shows.iter().map(|shown| shown.commitment().cloned());
        hidden.commitments = commitments.collect();
        hidden
    }

    fn of(case: &'a Case, tensors: &[IntTensor]) -> Result<Self, ProveError> {
        let program = &case.model.model.program;
        let plan = plan_of(program);
        let witness = Witness::of(program, &plan, tensors)?;
        Self::of_witness(case, plan, tensors, &witness)
    }

    fn of_witness(
        case: &'a Case,
        plan: Plan,
        tensors: &[IntTensor],
        witness: &Witness,
    ) -> Result<Self, ProveError> {
        let counted = plan.counted.secrets;
        let mut uniform = challenger(1);
        let secrets = counted.from_uniform(|| draw(&mut uniform));
        let pads = secrets[..counted.messages].to_vec();
        let mut channel = Channel::padded(challenger(2), pads);
        let mut walk = Walk::new(&case.model, &plan, tensors, witness);
        let nodes = walk.run(&mut channel, &mut |_| Ok(())).unwrap();
        let reads = walk.walked().reads;
        let field = |column: &Vec<_>| -> Vec<F> {
            let cells = column.iter().map(|&cell| F::from_u32(integer(cell)));
            cells.collect()
        };
        let tables = witness.columns.iter();
        let columns: Vec<Vec<Vec<F>>> = tables
            .map(|columns| columns.iter().map(field).collect())
            .collect();
        let column = |table: usize, column: usize| columns[table][column].as_slice();
        let mut pushforwards = Vec::new();
        let mut hide = |tables: &[Vec<E>]| {
            pushforwards = tables.concat();
            // Any root: none is opened here.
            let known = super::models::case().model.commitment.as_ref();
            Ok(known.unwrap().root.clone())
        };
        let mut lookup = None;
        if plan.looks_up() {
            let pushing = Pushing::Hidden(&mut hide);
            let columns_of = Columns::Held(&column);
            let with = (&mut channel, &Limits::default());
            lookup = Some(lookup::prove(&plan, pushing, &columns_of, &reads, with)?.proof);
        }
        let mut hidden = Self {
            case,
            plan,
            tensors: tensors.to_vec(),
            pushforwards,
            columns,
            counted,
            secrets,
            nodes,
            lookup,
            products: ProductMessages::default(),
            commitments: Vec::new(),
        };
        // What is sent does not depend on the commitments.
        let blank = |tensor: &TensorPlan| {
            let (kind, value) = (tensor.coding.kind(), vec![F::ZERO; ajtai::DEGREE]);
            let elements = 0;
            tensor.salt.map(|_| TensorCommitment {
                kind,
                elements,
                value,
            })
        };
        let tensors = hidden.plan.statement_tensors();
        hidden.commitments = tensors.map(|tensor| tensor.and_then(blank)).collect();
        let tape = Tape::of_secrets(counted, &hidden.secrets);
        let (_, products) = hidden.replay(tape).unwrap();
        hidden.products = products;
        hidden.products.compared = tape::compare(counted, &hidden.secrets, eta());
        Ok(hidden)
    }

    fn honest(case: &'a Case) -> Self {
        Self::of(case, case.trace.tensors()).unwrap()
    }

    fn replay(
        &self,
        tape: Tape<'_>,
    ) -> Result<(tg_proof::verify::Obligations, ProductMessages), VerifyError> {
        let program = &self.case.model.model.program;
        let (input, outputs) = crate::walk::shown(program, &self.tensors);
        let commitments: Vec<_> = self.commitments.iter().map(Option::as_ref).collect();
        let walked = Walked {
            program,
            plan: &self.plan,
            input: &input,
            outputs: &outputs,
            commitments: &commitments,
            parts: &[],
            nodes: &self.nodes,
            lookup: self.lookup.as_ref(),
        };
        walk_hidden(&walked, tape, &mut challenger(2))
    }

    /// Whether the one batched check holds of what is committed.
    fn holds(&self) -> Result<bool, VerifyError> {
        let tape = Tape::of_proof(self.counted, &self.products);
        let (mut obligations, _) = self.replay(tape)?;
        obligations.compare(self.counted, &self.products.compared, eta())?;
        let beta = E::from_u32(987_654_321);
        Ok(self.evaluate(&obligations.batched(self.counted, beta)))
    }

    fn evaluate(&self, functional: &Batch) -> bool {
        let secrets = functional.secrets.iter().zip(&self.secrets);
        let secrets: E = secrets.map(|(&a, &b)| a * b).sum();
        let evaluations = functional.evaluations.iter();
        let evaluations = evaluations.map(|(table, column, point, factor)| {
            let column = &self.columns[*table][*column][..1 << point.len()];
            *factor * inner_product(column, &eq_table(point))
        });
        let cells = functional.cells.iter().map(|(table, column, factors)| {
            let column = &self.columns[*table][*column];
            let terms = factors.iter();
            let terms = terms.map(|&(cell, factor)| factor * column[cell as usize]);
            terms.sum::<E>()
        });
        let secrets = secrets + cells.sum::<E>();
        let pushforwards = functional.pushforwards.iter().zip(&self.pushforwards);
        let pushforwards: E = pushforwards.map(|(&a, &b)| a * b).sum();
        secrets + evaluations.sum::<E>() + pushforwards == functional.sum
    }
}

fn eta() -> E {
    E::from_u32(123_456_789)
}

#[test]
fn honest_messages_behind_pads_leave_nothing_over() {
    for case in [case(), linear()] {
        assert_eq!(Hidden::honest(case).holds(), Ok(true));
    }
    for (name, case) in values::cases() {
        assert_eq!(Hidden::honest(&case).holds(), Ok(true), "{name}");
    }
}

#[test]
fn input_and_output_may_be_public_committed_or_hidden() {
    for modes in all_modes() {
        let hidden = Hidden::of_modes(case(), modes);
        assert_eq!(hidden.holds(), Ok(true), "{modes:?}");
    }
}

/// The number of messages and products is known from the program alone, whatever its nodes are.
#[test]
fn messages_of_random_programs_are_as_many_as_counted() {
    let mut proved = 0;
    for seed in 0..200 {
        let (compiled, input) = random_model(seed);
        if ProvingModel::new(compiled.clone()).is_err() {
            continue;
        }
        let case = Case::of((compiled, input));
        let modes = all_modes().nth(usize::try_from(seed).unwrap() % 9).unwrap();
        let hidden = Hidden::of_modes(&case, modes);
        assert_eq!(hidden.holds(), Ok(true), "seed {seed}");
        let shape = ZkShape::new(case.model.model.program.check().unwrap(), 1, modes).unwrap();
        let tape = Tape::of_proof(hidden.counted, &hidden.products);
        let (mut obligations, _) = hidden.replay(tape).unwrap();
        let compared = &hidden.products.compared;
        obligations
            .compare(hidden.counted, compared, eta())
            .unwrap();
        assert!(obligations.count() <= shape.checks(), "seed {seed}");
        proved += 1;
    }
    assert!(proved >= 40, "{proved}");
}

/// Whether changed messages are refused, by a check of what is public or because the batch does not hold.
fn refused(hidden: &Hidden<'_>) -> bool {
    hidden.holds() != Ok(true)
}

/// Where two messages differ first.
fn difference(left: &Value, right: &Value) -> String {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let found = left
                .iter()
                .find(|(key, value)| right.get(*key) != Some(value));
            found.map_or_else(String::new, |(key, value)| {
                format!(".{key}{}", difference(value, &right[key]))
            })
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            let place = left.iter().zip(right).position(|(a, b)| a != b);
            place.map_or_else(String::new, |place| {
                format!("[{place}]{}", difference(&left[place], &right[place]))
            })
        }
        _ => format!(" {left} -> {right}"),
    }
}

#[test]
fn every_changed_message_is_refused() {
    let mut hidden = Hidden::honest(case());
    let message = serde_json::to_value((&hidden.nodes, &hidden.lookup, &hidden.products)).unwrap();
    let mut changes = 0;
    mutate::all(&message, &mut |changed| {
        let place = difference(&message, &changed);
        let (nodes, lookup, products) = serde_json::from_value(changed).ok()?;
        (hidden.nodes, hidden.lookup, hidden.products) = (nodes, lookup, products);
        assert!(refused(&hidden), "{place}");
        changes += 1;
        Some(1)
    });
    assert!(changes > 100, "{changes}");
}

/// A prover that lies about an element, and goes on as if it were true, is refused as in the clear.
#[test]
fn a_lie_about_an_element_is_refused() {
    let case = case();
    for (node, element) in [(CONV_OUT, 3), (POOL, 7), (SECOND_OUT, 11), (SUM_OUT, 2)] {
        let honest = case.trace.tensors()[node + 1].widened()[element];
        let lie = if honest > 0 { honest - 1 } else { honest + 1 };
        let tensors = case.tensors_with(node, element, lie);
        let hidden = Hidden::of(case, &tensors).unwrap();
        assert!(refused(&hidden), "{node}");
    }
    let mut tensors = case.trace.tensors().to_vec();
    let output = tensors.last().unwrap().widened()[0];
    set(tensors.last_mut().unwrap(), 0, output + 1);
    assert!(refused(&Hidden::of(case, &tensors).unwrap()));
}

/// The input is hidden, not free: another one than the tensors came from, and a byte that is none.
#[test]
fn another_input_is_refused() {
    let case = case();
    let mut tensors = case.trace.tensors().to_vec();
    let input = tensors[0].widened()[5];
    set(
        &mut tensors[0],
        5,
        if input > 0 { input - 1 } else { input + 1 },
    );
    assert!(refused(&Hidden::of(case, &tensors).unwrap()));
    let program = &case.model.model.program;
    let plan = plan_of(program);
    let tables = plan.witness.iter();
    let input = tables.filter(|table| table.node == program.nodes.len());
    assert!(input.count() > 0);
    let table = plan.input.as_ref().unwrap().columns.witness.start;
    let mut witness = Witness::of(program, &plan, case.trace.tensors()).unwrap();
    witness.columns[table][0][5] = 256;
    let hidden = Hidden::of_witness(case, plan, case.trace.tensors(), &witness).unwrap();
    assert!(refused(&hidden));
}

/// What is not in the tables, or other multiplicities.
#[test]
fn other_pushforwards_are_refused() {
    let mut hidden = Hidden::honest(case());
    for entry in [
        0,
        hidden.pushforwards.len() / 2,
        hidden.pushforwards.len() - 1,
    ] {
        hidden.pushforwards[entry] += E::ONE;
        assert_eq!(hidden.holds(), Ok(false), "{entry}");
        hidden.pushforwards[entry] -= E::ONE;
    }
    assert_eq!(hidden.holds(), Ok(true));
}

/// A column cell that is another than the one the messages are about.
#[test]
fn other_columns_are_refused() {
    let mut hidden = Hidden::honest(case());
    for table in 0..hidden.columns.len() {
        for column in 0..hidden.columns[table].len() {
            hidden.columns[table][column][0] += F::ONE;
            assert_eq!(hidden.holds(), Ok(false), "{table} {column}");
            hidden.columns[table][column][0] -= F::ONE;
        }
    }
    assert_eq!(hidden.holds(), Ok(true));
}

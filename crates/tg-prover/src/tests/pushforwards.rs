//! Committed pushforwards: honest ones verify, forged ones and forged openings of them do not.

use super::models::{Case, Draft, case, window};
use super::values::wide;
use crate::clear::prove_witness;
use p3_field::PrimeCharacteristicRing;
use std::cell::RefCell;
use std::sync::OnceLock;
use tg_ir::{Op, Shape, TensorId};
use tg_proof::error::LookupCheck;
use tg_proof::field::E;
use tg_proof::messages::{self, CommittedPushforwards, InferenceProof, Pushforwards};
use tg_proof::plan::COMMITTED_FROM;
use tg_proof::{VerifyError, security};

/// A change of the pushforwards that a liar commits instead of the true ones.
type Lie = Box<dyn Fn(&mut Vec<Vec<E>>)>;

thread_local! {
    static LIE: RefCell<Option<Lie>> = const { RefCell::new(None) };
}

/// The pushforwards that this thread's prover goes on with.
pub(crate) fn lied(mut pushforwards: Vec<Vec<E>>) -> Vec<Vec<E>> {
    LIE.with_borrow(|lie| lie.iter().for_each(|lie| lie(&mut pushforwards)));
    pushforwards
}

/// A requantisation to 16 bits of so many elements that its limb table may be read in 2^12 places and more.
pub(super) fn committed() -> &'static Case {
    static CASE: OnceLock<Case> = OnceLock::new();
    CASE.get_or_init(|| {
        let out = Shape::new(16, 16, 8);
        let mut draft = Draft::new(11, Shape::new(16, 16, 4));
        let acc = draft.push(Op::conv(TensorId::INPUT, window(1, 1, [0; 4])), out);
        draft.push(wide(acc, &[3, 13], 8, [-2_000, 900]), out);
        Case::of(draft.finish())
    })
}

/// The verdict on the honest execution with other pushforwards than its own.
fn verdict(case: &Case, lie: impl Fn(&mut Vec<Vec<E>>) + 'static) -> Result<(), VerifyError> {
    LIE.set(Some(Box::new(lie)));
    let names = (super::models::JOB, super::models::PROVIDER);
    let tensors = case.trace.tensors();
    let file = prove_witness(&case.model, tensors, &case.witness(), names, &mut |_| {});
    LIE.set(None);
    case.check(&file.unwrap())
}

const PULLED: VerifyError = VerifyError::Lookup(LookupCheck::Pulled);

/// What is committed follows from the plan; an honest proof verifies, and its sum of errors names the third opening.
#[test]
fn large_tables_have_their_pushforwards_committed() {
    let large = committed();
    let layout = large.model.shape.plan.pushforwards.as_ref().unwrap();
    assert!(1 << layout.vars >= COMMITTED_FROM);
    assert_eq!(large.check(&large.file), Ok(()));
    assert_eq!(verdict(large, |_| ()), Ok(()));
    let report = security::report(&large.public).unwrap();
    assert!(report.bits >= f64::from(security::LEVEL), "{}", report.bits);
    for label in ["pushforwards opening: ", "pushforwards"] {
        assert!(
            report
                .terms
                .iter()
                .any(|term| term.label.starts_with(label))
        );
    }
    assert!(case().model.shape.plan.pushforwards.is_none());
}

/// Pushforwards that are not those of the readers, whatever they keep: one entry, a multiple, those of another table,
/// and one that every column of its table sums to the same with.
#[test]
fn forged_pushforwards_are_caught_by_their_sum() {
    let case = committed();
    let tables = &case.model.shape.plan.tables;
    let limbs = (0..tables.len()).max_by_key(|&t| tables[t].len()).unwrap();
    let used = |table: &[E]| table.iter().position(|&value| value != E::ZERO).unwrap();
    let lies: [Lie; 6] = [
        Box::new(move |all| {
            let entry = used(&all[limbs]);
            all[limbs][entry] += E::ONE;
        }),
        Box::new(move |all| all[limbs].iter_mut().for_each(|value| *value += *value)),
        Box::new(|all| all.iter_mut().flatten().for_each(|value| *value = E::ZERO)),
        Box::new(move |all| all[limbs].rotate_right(1)),
        Box::new(move |all| {
            // As many entries of the limb table as another has, and that one's.
            let other = usize::from(limbs == 0);
            let mut own = std::mem::take(&mut all[limbs]);
            let length = own.len().min(all[other].len());
            own[..length].swap_with_slice(&mut all[other][..length]);
            all[limbs] = own;
        }),
        // Values of one class rise by one: neither column's sum changes.
        Box::new(move |all| {
            let last = all[limbs].len() - 1;
            for (entry, change) in [(last - 2, E::ONE), (last - 1, -E::TWO), (last, E::ONE)] {
                all[limbs][entry] += change;
            }
        }),
    ];
    for (index, lie) in lies.into_iter().enumerate() {
        assert_eq!(verdict(case, lie), Err(PULLED), "lie {index}");
    }
}

/// The columns that are read: a wrong cell is caught as it is with pushforwards in clear.
#[test]
fn wrong_cells_are_caught_with_committed_pushforwards() {
    let case = committed();
    let names = (super::models::JOB, super::models::PROVIDER);
    for column in 0..3 {
        for change in [1, 5_000] {
            let mut witness = case.witness();
            let cell = &mut witness.columns[0][column][77];
            *cell = if change == 1 {
                *cell ^ 1
            } else {
                *cell + change
            };
            let tensors = case.trace.tensors();
            let file = prove_witness(&case.model, tensors, &witness, names, &mut |_| {}).unwrap();
            let verdict = case.check(&file);
            let relation = case.failed(1, tg_proof::error::NodeCheck::Relation);
            assert!(
                verdict == Err(PULLED) || verdict == relation,
                "column {column} by {change}: {verdict:?}"
            );
        }
    }
}

fn decoded(case: &Case) -> InferenceProof {
    messages::decode_inference(&case.file.proof, case.parts()).unwrap()
}

fn forged(change: impl FnOnce(&mut CommittedPushforwards)) -> VerifyError {
    committed().forged(
        |proof| match &mut proof.lookup.as_mut().unwrap().pushforwards {
            Pushforwards::Committed(own) => change(own),
            Pushforwards::Clear(_) | Pushforwards::Hidden(_) => panic!("in clear"),
        },
    )
}

/// Openings, columns and roots that are another's, and messages of the other kind.
#[test]
fn forged_messages_of_pushforwards_are_refused() {
    let opening = VerifyError::Opening {
        which: "pushforwards",
    };
    let witness = decoded(committed()).witness_opening.unwrap();
    assert_eq!(forged(|own| own.opening = witness), opening);
    // Two columns that keep their combination: only the opening tells.
    let trade = |own: &mut CommittedPushforwards| {
        let one = tg_proof::field::basis(1);
        own.columns[0][0] += one;
        own.columns[0][1] -= E::ONE;
    };
    assert_eq!(forged(trade), opening);
    assert_eq!(forged(|own| own.columns[0].swap(0, 1)), PULLED);
    assert_eq!(forged(|own| own.sumcheck.claimed_sum += E::ONE), PULLED);
    let shape = VerifyError::Lookup(LookupCheck::Messages);
    assert_eq!(forged(|own| own.columns.truncate(1)), shape);
    // Another root moves the poles.
    let root = decoded(committed()).witness.unwrap();
    let sum = VerifyError::Lookup(LookupCheck::Sum);
    assert_eq!(forged(|own| own.root = root), sum);

    let pushforwards = |case| decoded(case).lookup.unwrap().pushforwards;
    let (clear, hidden) = (pushforwards(case()), pushforwards(committed()));
    let kind = |case: &Case, other| {
        case.forged(|proof| proof.lookup.as_mut().unwrap().pushforwards = other)
    };
    assert_eq!(kind(committed(), clear), shape);
    assert_eq!(kind(case(), hidden), shape);
}

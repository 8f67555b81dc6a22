//! Witnesses committed in several sections: honest proofs verify, and no section stands for another or is left out.

use super::chains::random_chain;
use super::linear::linear;
use super::models::{Case, bytes, case, everything};
use super::mutate;
use super::programs::random_program;
use super::pushforwards::committed;
use super::values;
use crate::clear::prove_witness;
use crate::{ModelError, ProveRequest, ProvingModel, prove};
use p3_field::PrimeCharacteristicRing;
use std::cell::RefCell;
use std::sync::OnceLock;
use tg_exec::IntTensor;
use tg_exec::sample::random_model;
use tg_ir::CompiledModel;
use tg_proof::cost::SECTIONS_MAX;
use tg_proof::error::LookupCheck;
use tg_proof::field::E;
use tg_proof::messages::{self, InferenceProof, SectionProofs};
use tg_proof::plan::SectionSize;
use tg_proof::{ExpectedStatement, PlanError, ProofFile, PublicModel, VerifyError};
use tg_proof::{security, verify};

type Lie = Box<dyn Fn(usize, E) -> E>;

thread_local! {
    /// What is added to the numerator of the n-th sum with a given denominator, and how many sums there were.
    static SUMS: RefCell<Option<(usize, Lie)>> = const { RefCell::new(None) };
    /// Whether the first anchor is another than the column's.
    static ANCHOR: RefCell<bool> = const { RefCell::new(false) };
}

/// The numerator that this thread's prover goes on with.
pub(crate) fn lied_sum(numerator: E, denominator: E) -> E {
    SUMS.with_borrow_mut(|lie| {
        lie.as_mut().map_or(numerator, |(count, lie)| {
            *count += 1;
            numerator + lie(*count - 1, denominator)
        })
    })
}

/// The anchors that this thread's prover goes on with.
pub(crate) fn lied_anchor(mut values: Vec<E>) -> Vec<E> {
    if ANCHOR.with_borrow_mut(std::mem::take) {
        values[0] += E::ONE;
    }
    values
}

const OPENING: VerifyError = VerifyError::Opening { which: "witness" };
const SUM: VerifyError = VerifyError::Lookup(LookupCheck::Sum);
const SHAPE: VerifyError = VerifyError::Lookup(LookupCheck::Messages);

/// Sections of about a part of the witness's cells.
fn size(model: &ProvingModel, parts: usize) -> SectionSize {
    let tables = model.shape.plan.witness.iter();
    let cells: usize = tables
        .map(|table| table.columns << table.chunk.column_vars())
        .sum();
    SectionSize::forced(cells.div_ceil(parts))
}

/// The case of a model whose witness is cut into about so many sections.
fn cut(model: (CompiledModel, IntTensor), parts: usize) -> Case {
    let (model, input) = model;
    let whole = ProvingModel::new(model).unwrap();
    let size = size(&whole, parts);
    let public = whole.register().unwrap().with_sections(size).unwrap();
    let model = whole.with_sections(size).unwrap();
    let request = ProveRequest::of(vec![input]).named(super::models::JOB, super::models::PROVIDER);
    let (file, mut traces) = prove(&model, request, &mut |_| {}).unwrap();
    let trace = traces.remove(0);
    Case {
        model,
        public,
        trace,
        file,
    }
}

/// The sections of [`everything`], three or more.
pub(super) fn sectioned() -> &'static Case {
    static CASE: OnceLock<Case> = OnceLock::new();
    CASE.get_or_init(|| {
        let (model, input) = everything();
        let case = cut((model, IntTensor::I8(input)), 3);
        assert!(case.model.shape.sections.len() >= 3);
        case
    })
}

fn again(case: &Case) -> (CompiledModel, IntTensor) {
    (
        case.model.model.clone().into_inner(),
        case.trace.tensors()[0].clone(),
    )
}

/// Every gadget of the other tests and random programs, with as many sections as their tables allow up to five: honest
/// proofs verify, and a proof with one changed bit does not.
#[test]
fn programs_of_several_sections_prove_and_verify() {
    let mut models: Vec<(String, (CompiledModel, IntTensor))> = Vec::new();
    let cases = [
        ("all", case()),
        ("linear", linear()),
        ("large", committed()),
    ];
    models.extend(cases.map(|(name, case)| (name.to_owned(), again(case))));
    let gadgets = values::cases().into_iter();
    models.extend(gadgets.map(|(name, case)| (name.to_owned(), again(&case))));
    for seed in 0..40 {
        let (model, input) = random_model(seed);
        models.push((format!("model {seed}"), (model, IntTensor::I8(input))));
        let (model, input) = random_chain(1_000 + seed);
        models.push((format!("chain {seed}"), (model, IntTensor::I8(input))));
        models.push((format!("program {seed}"), random_program(2_000 + seed)));
    }
    let mut counts = [0usize; 8];
    for (index, (name, model)) in models.into_iter().enumerate() {
        if ProvingModel::new(model.0.clone()).is_err() {
            continue;
        }
        let case = cut(model, 2 + index % 4);
        assert_eq!(case.check(&case.file), Ok(()), "{name}");
        counts[case.model.shape.sections.len().min(7)] += 1;
        let bit = index * 7_919 % (8 * case.file.proof.len());
        let mut file = case.file.clone();
        file.proof[bit / 8] ^= 1 << (bit % 8);
        assert!(case.check(&file).is_err(), "{name}: bit {bit}");
    }
    assert!(counts[2..].iter().sum::<usize>() >= 60, "{counts:?}");
    assert!(counts[3] >= 5 && counts[4] >= 5, "{counts:?}");
}

/// A batch is cut like one input.
#[test]
fn batches_of_several_sections_verify() {
    let case = sectioned();
    let input = case.trace.tensors()[0].activations().unwrap();
    let inputs = [input, input, input];
    let (file, _) = prove(&case.model, bytes(&inputs), &mut |_| {}).unwrap();
    assert_eq!(case.check(&file), Ok(()));
    assert!(case.public.shape_of(3).unwrap().sections.len() > 1);
}

/// Any cell of any column of any section.
#[test]
fn wrong_cells_of_every_section_are_caught() {
    let case = sectioned();
    let honest = case.witness();
    assert_eq!(case.verdict(case.trace.tensors(), &honest), Ok(()));
    for (index, table) in case.model.shape.plan.witness.iter().enumerate() {
        for column in 0..table.columns {
            let mut witness = honest.clone();
            witness.columns[index][column][0] ^= 1;
            let verdict = case.verdict(case.trace.tensors(), &witness);
            let caught = matches!(
                verdict,
                Err(VerifyError::Node { .. } | VerifyError::Lookup(_))
            );
            assert!(caught, "table {index} column {column}: {verdict:?}");
        }
    }
}

fn forged(change: impl FnOnce(&mut InferenceProof)) -> VerifyError {
    let case = sectioned();
    let mut proof = messages::decode_inference(&case.file.proof, case.parts()).unwrap();
    change(&mut proof);
    let file = ProofFile {
        proof: messages::encode_inference(&proof),
        ..case.file.clone()
    };
    case.check(&file).unwrap_err()
}

#[test]
fn sections_do_not_stand_for_each_other() {
    // Openings of two sections swapped, one left out, one too many.
    assert_eq!(forged(|proof| proof.sections.openings.swap(0, 1)), OPENING);
    let first = |proof: &mut InferenceProof| {
        let own = proof.witness_opening.as_mut().unwrap();
        std::mem::swap(own, &mut proof.sections.openings[0]);
    };
    assert_eq!(forged(first), OPENING);
    let shape: [fn(&mut SectionProofs); 7] = [
        |sections| drop(sections.openings.pop()),
        |sections| drop(sections.roots.pop()),
        |sections| sections.roots.push(sections.roots[0].clone()),
        |sections| drop(sections.anchors.pop()),
        |sections| {
            sections.anchors[1].pop();
        },
        |sections| sections.anchors.push(vec![E::ONE]),
        |sections| {
            drop(sections.roots.pop());
            drop(sections.openings.pop());
        },
    ];
    for (index, change) in shape.into_iter().enumerate() {
        assert_eq!(
            forged(|proof| change(&mut proof.sections)),
            OPENING,
            "{index}"
        );
    }
    // A section without a sum, one with two, a table without a column.
    assert_eq!(forged(|proof| drop(proof.sections.sums.pop())), SHAPE);
    let more = |proof: &mut InferenceProof| {
        let sum = proof.sections.sums[0].clone();
        proof.sections.sums.push(sum);
    };
    assert_eq!(forged(more), SHAPE);
    let column = |proof: &mut InferenceProof| {
        proof.lookup.as_mut().unwrap().columns[2].pop();
    };
    assert_eq!(forged(column), SHAPE);
    // Sums swapped, of another shape, with another fraction; none of them is another's.
    assert_eq!(forged(|proof| proof.sections.sums.swap(0, 1)), SUM);
    assert_eq!(
        forged(|proof| drop(proof.sections.sums[0].gkr.layers.pop())),
        SUM
    );
    assert_eq!(forged(|proof| proof.sections.tables += E::ONE), SUM);
    // What is drawn depends on every root and every anchor.
    let drawn: [fn(&mut SectionProofs); 3] = [
        |sections| sections.roots.swap(0, 1),
        |sections| sections.roots[1] = sections.roots[0].clone(),
        |sections| sections.anchors[0][0] += E::ONE,
    ];
    for change in drawn {
        let verdict = forged(|proof| change(&mut proof.sections));
        assert!(matches!(verdict, VerifyError::Node { .. }), "{verdict}");
    }
}

fn lying(set: impl FnOnce()) -> Result<(), VerifyError> {
    let case = sectioned();
    set();
    let names = (super::models::JOB, super::models::PROVIDER);
    let tensors = case.trace.tensors();
    let file = prove_witness(&case.model, tensors, &case.witness(), names, &mut |_| {});
    SUMS.set(None);
    ANCHOR.set(false);
    case.check(&file.unwrap())
}

/// Provers that lie about a sum or an anchor and go on honestly after it.
#[test]
fn forged_sums_and_anchors_are_caught() {
    assert_eq!(lying(|| ()), Ok(()));
    // One sum alone, and two whose lies cancel each other.
    let one: Lie = Box::new(|count, _| if count == 1 { E::ONE } else { E::ZERO });
    assert_eq!(lying(|| SUMS.set(Some((0, one)))), Err(SUM));
    let two: Lie = Box::new(|count, denominator| match count {
        0 => denominator,
        1 => -denominator,
        _ => E::ZERO,
    });
    assert_eq!(lying(|| SUMS.set(Some((0, two)))), Err(SUM));
    assert_eq!(lying(|| ANCHOR.set(true)), Err(OPENING));
}

/// Every field of what several sections add, changed by itself, is refused.
#[test]
fn every_message_of_the_sections_is_bound() {
    let case = sectioned();
    let proof = messages::decode_inference(&case.file.proof, case.parts()).unwrap();
    let message = serde_json::to_value(&proof.sections).unwrap();
    let codes = mutate::all(&message, &mut |changed| {
        let mut proof = proof.clone();
        proof.sections = serde_json::from_value(changed).ok()?;
        let file = ProofFile {
            proof: messages::encode_inference(&proof),
            ..case.file.clone()
        };
        let refused = case.check(&file).expect_err("a changed proof is refused");
        Some(refused.code())
    });
    for kind in [".roots", ".anchors", ".sums", ".tables", ".openings"] {
        let found = codes.keys().any(|place| place.starts_with(kind));
        assert!(found, "{kind}: {:?}", codes.keys());
    }
}

/// A proof in sections and one as a whole are not each other's, and neither has two encodings.
#[test]
fn a_verifier_takes_the_sections_of_its_plan_only() {
    let (whole, cut) = (case(), sectioned());
    assert_eq!(whole.check(&cut.file), Err(OPENING));
    assert_eq!(cut.check(&whole.file), Err(OPENING));
    let mut proof = whole.file.proof.clone();
    proof.extend(messages::encode(&SectionProofs::default()));
    let file = ProofFile {
        proof,
        ..whole.file.clone()
    };
    assert_eq!(whole.check(&file), Err(VerifyError::Encoding));
    assert!(whole.public.witness_root(&file).is_none());
    assert!(cut.public.witness_root(&cut.file).is_some());
    // Zero knowledge commits as a whole whatever the size.
    assert_eq!(
        cut.public
            .zk_shape_of(1, tg_proof::Modes::HIDDEN_INPUT)
            .unwrap()
            .plan
            .sections
            .len(),
        1
    );
}

/// What several sections add to the errors is added up, and the level holds.
#[test]
fn the_errors_of_all_sections_are_added_up() {
    let case = sectioned();
    let report = security::report(&case.public).unwrap();
    let sections = case.model.shape.sections.len();
    for label in ["witness opening: folds", "anchor of a section"] {
        let terms = report.terms.iter();
        let count = terms.filter(|term| term.label.starts_with(label)).count();
        assert_eq!(count, sections, "{label}");
    }
    assert!(report.bits >= f64::from(security::LEVEL), "{}", report.bits);
}

/// A witness in more sections than a verifier checks is refused, by the node with which there are too many.
#[test]
fn too_many_sections_are_refused() {
    let refused = (0..).find_map(|seed| {
        let (model, _) = random_chain(seed);
        let model = match ProvingModel::new(model) {
            Ok(model) => model,
            Err(ModelError::Plan(_)) => return None,
            Err(error) => panic!("{error}"),
        };
        let tables = model.shape.plan.witness.len();
        (tables > SECTIONS_MAX as usize).then(|| model.with_sections(SectionSize::forced(1)))
    });
    let error = refused.unwrap().err().unwrap();
    let PlanError::TooCostly {
        what, cost, limit, ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(what, "sections of the witness");
    assert_eq!((cost, limit), (SECTIONS_MAX + 1, SECTIONS_MAX));
}

/// The public model's bytes say nothing of sections: these follow from the program.
#[test]
fn sections_are_no_part_of_a_public_model() {
    let case = sectioned();
    let read = PublicModel::decode(&case.public.encode()).unwrap();
    assert_eq!(read.id(), case.public.id());
    let verdict = verify(&read, &case.file, &ExpectedStatement::default());
    assert_eq!(verdict, Err(OPENING));
}

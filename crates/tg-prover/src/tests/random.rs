//! Random programs: what is honest verifies, and nothing else does, whichever bit of proof or witness is another.

use super::chains::random_chain;
use super::models::{Case, case};
use super::programs::random_program;
use crate::ProvingModel;
use std::collections::BTreeMap;
use tg_exec::IntTensor;
use tg_exec::sample::Numbers;
use tg_ir::{CompiledModel, Op};
use tg_proof::plan::{NodePlan, WitnessTable};
use tg_proof::{ProofFile, VerifyError};

/// Whether a refusal is one that a false witness meets.
fn is_caught(verdict: &Result<(), VerifyError>) -> bool {
    matches!(
        verdict,
        Err(VerifyError::Node { .. } | VerifyError::Lookup(_))
    )
}

/// Any cell of any column of a requantisation or a maximum, of elements and of padding.
#[test]
fn every_wrong_cell_of_requantisations_and_maxima_is_caught() {
    let case = case();
    let honest = case.witness();
    let mut columns = 0;
    for (index, table) in case.model.shape.plan.witness.iter().enumerate() {
        let rows = table.chunk.rows();
        let padded =
            (0..rows).find(|row| table.layout.element_at(table.chunk.start + row).is_none());
        for column in 0..table.columns {
            for row in [Some(0), Some(rows / 2), padded].into_iter().flatten() {
                for change in [1, 2, 1 << 11] {
                    let mut witness = honest.clone();
                    witness.columns[index][column][row] ^= change;
                    let verdict = case.verdict(case.trace.tensors(), &witness);
                    let place = format!("node {} column {column} row {row}", table.node);
                    assert!(is_caught(&verdict), "{place}: {verdict:?}");
                }
            }
            columns += 1;
        }
    }
    assert!(columns >= 9 + 4 * 3, "{columns}");
}

fn proved(model: (CompiledModel, IntTensor)) -> Option<Case> {
    // Some random programs may leave the field, or are not provable.
    ProvingModel::new(model.0.clone()).ok()?;
    Some(Case::of_tensor(model))
}

/// Flips bits of the proof, the input and the output.
fn flip_messages(case: &Case, numbers: &mut Numbers, name: &str) {
    assert_eq!(case.check(&case.file), Ok(()), "{name}");
    let mut pick = |count: usize| numbers.between(0, count as i64 - 1) as usize;
    for _ in 0..12 {
        let mut file = case.file.clone();
        let bit = pick(8 * file.proof.len());
        file.proof[bit / 8] ^= 1 << (bit % 8);
        assert!(case.check(&file).is_err(), "{name}: bit {bit} of the proof");
    }
    let bytes: [fn(&mut ProofFile) -> &mut Vec<u8>; 2] =
        [|file| &mut file.input, |file| &mut file.output];
    for bytes in bytes {
        let mut file = case.file.clone();
        let bytes = bytes(&mut file);
        let bit = pick(8 * bytes.len());
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(case.check(&file).is_err(), "{name}: a public byte");
    }
}

/// Whether a row of a witness table is an element that is in use.
fn in_use(case: &Case, table: &WitnessTable, row: usize) -> bool {
    let Some(element) = table.layout.element_at(table.chunk.start + row) else {
        return false;
    };
    let (pixel, channel) = (
        element / table.layout.channels,
        element % table.layout.channels,
    );
    match &case.model.shape.plan.nodes[table.node] {
        NodePlan::Gadget(gadget) => {
            channel < gadget.staged.elements.mask.channels(&table.layout, pixel)
        }
        _ => true,
    }
}

/// Whether a cell is free: of two equal elements either is the greater.
fn is_free(
    case: &Case,
    table: &WitnessTable,
    columns: &[Vec<u32>],
    column: usize,
    row: usize,
) -> bool {
    let op = &case.model.model.program.nodes[table.node].op;
    let sign = column + 1 == table.columns;
    matches!(op, Op::Extremum(_)) && sign && columns[..column].iter().all(|own| own[row] == 0)
}

#[test]
fn no_flipped_bit_of_a_random_chain_verifies() {
    let mut numbers = Numbers::new(77);
    let mut flipped: BTreeMap<&str, u32> = BTreeMap::new();
    for seed in 1_000..1_040 {
        let (model, input) = random_chain(seed);
        let Some(case) = proved((model, IntTensor::I8(input))) else {
            continue;
        };
        flip_messages(&case, &mut numbers, &format!("chain {seed}"));
        let honest = case.witness();
        for _ in 0..6 {
            let mut pick = |count: usize| numbers.between(0, count as i64 - 1) as usize;
            let index = pick(honest.columns.len());
            let table = &case.model.shape.plan.witness[index];
            let (column, row) = (pick(table.columns), pick(table.chunk.rows()));
            if !in_use(&case, table, row)
                || is_free(&case, table, &honest.columns[index], column, row)
            {
                continue;
            }
            let mut witness = honest.clone();
            witness.columns[index][column][row] ^= 1 << pick(12);
            let verdict = case.verdict(case.trace.tensors(), &witness);
            let op = case.model.model.program.nodes[table.node].op.name();
            let place = format!("seed {seed} {op} {} column {column} row {row}", table.node);
            assert!(is_caught(&verdict), "{place}: {verdict:?}");
            *flipped.entry(op).or_default() += 1;
        }
    }
    let all = flipped.values().sum::<u32>();
    assert!(all >= 80 && flipped.len() >= 5, "{flipped:?}");
}

#[test]
fn no_flipped_bit_of_a_random_linear_program_verifies() {
    let mut numbers = Numbers::new(78);
    let programs = (2_000..2_040).filter_map(|seed| Some((seed, proved(random_program(seed))?)));
    let count = programs
        .map(|(seed, case)| flip_messages(&case, &mut numbers, &format!("program {seed}")))
        .count();
    assert!(count >= 20, "{count}");
}

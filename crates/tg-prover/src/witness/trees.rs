//! The columns of decision trees.

use super::sources::{Sources, push_limbs};
use tg_ir::op;
use tg_ir::{Forest, Op};
use tg_proof::plan::ForestShape;

fn forest<'a>(sources: &'a Sources<'_>) -> &'a Forest {
    match sources.op() {
        Op::Trees(op::Trees { forest, .. }) => forest,
        _ => unreachable!("the plan follows the program's operators"),
    }
}

/// How far the input of a branch lies from its threshold, and whether it goes below.
pub(super) fn decision(
    sources: &Sources<'_>,
    shape: &ForestShape,
    (own, branch): (usize, usize),
    cells: &mut Vec<u32>,
) {
    let branch = &forest(sources).branches[branch];
    let value = sources.input(own * channels(sources) + usize::from(branch.feature));
    let apart = i64::from(branch.threshold) - value;
    let below = apart >= 0;
    let apart = if below { apart } else { -apart - 1 };
    push_limbs(cells, apart.into(), shape.difference);
    cells.push(below.into());
}

/// Whether an input falls into a place.
pub(super) fn flag(
    sources: &Sources<'_>,
    shape: &ForestShape,
    (own, place): (usize, usize),
    cells: &mut Vec<u32>,
) {
    let (tree, _) = shape.places[place];
    let first = own * channels(sources);
    let reached = shape.reached(forest(sources), tree as usize, |feature| {
        sources.input(first + feature)
    });
    cells.push((reached == place).into());
}

fn channels(sources: &Sources<'_>) -> usize {
    let input = sources.op().inputs()[0];
    sources.plan.layouts[input.index()].channels
}

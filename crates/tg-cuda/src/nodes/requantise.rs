//! Requantisations.

use super::launches::{elements, int, operand, output, per_element};
use super::linear::finish_words;
use crate::plan::{Arguments, Planner};
use tg_ir::{Requantise, TensorId};

/// `struct RequantiseArguments`.
pub(super) fn requantise(
    planner: &mut Planner<'_>,
    node: usize,
    input: TensorId,
    how: &Requantise,
) {
    let input = operand(planner, input);
    let out = output(planner, node);
    let shape = out.shape;
    let mut arguments = Arguments::default();
    arguments.address(input.address);
    finish_words(planner, &mut arguments, None, Some((out, how)));
    arguments.words(&[input.kind, int(shape.channels), elements(shape)]);
    planner.push(per_element(
        node,
        "tg_requantise",
        shape.elements(),
        arguments,
    ));
}

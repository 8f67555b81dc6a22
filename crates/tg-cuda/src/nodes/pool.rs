//! Sums and maxima of windows.

use super::launches::{elements, int, operand, output, per_element, window_words};
use crate::plan::{Arguments, Planner};
use tg_ir::{TensorId, Window};

/// `struct PoolArguments`.
pub(super) fn pool(
    planner: &mut Planner<'_>,
    node: usize,
    input: TensorId,
    window: &Window,
    is_sum: bool,
) {
    let input = operand(planner, input);
    let out = output(planner, node);
    let mut arguments = Arguments::default();
    arguments.address(input.address).address(out.address);
    arguments.words(&[
        input.kind,
        i32::from(is_sum),
        int(out.shape.width),
        elements(out.shape),
    ]);
    arguments.words(&window_words(window, input.shape));
    planner.push(per_element(
        node,
        "tg_pool",
        out.shape.elements(),
        arguments,
    ));
}

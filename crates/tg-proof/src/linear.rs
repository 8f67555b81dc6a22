//! The public linear maps of convolutions and poolings, as weights on input pixels.

use crate::field::E;
use crate::layout::TensorLayout;
use p3_field::PrimeCharacteristicRing;
use tg_ir::{Shape, Window};

/// Calls `visit(output pixel, position, input pixel or nothing)` for every output pixel and kernel position.
fn for_each_source(
    window: &Window,
    input: Shape,
    output: Shape,
    mut visit: impl FnMut(usize, usize, Option<usize>),
) {
    for row in 0..output.height {
        for column in 0..output.width {
            let pixel = row as usize * output.width as usize + column as usize;
            for position in 0..window.positions() {
                visit(pixel, position, window.source(input, row, column, position));
            }
        }
    }
}

/// `S(s') = sum over (s, k) with source(s, k) = s' of positions[k] * pixels[s]`, over the padded input pixels.
#[must_use]
pub fn source_weights(
    window: &Window,
    input: Shape,
    output: Shape,
    positions: &[E],
    pixels: &[E],
) -> Vec<E> {
    let mut weights = vec![E::ZERO; 1 << TensorLayout::of(input).pixel_vars];
    for_each_source(window, input, output, |pixel, position, source| {
        if let Some(source) = source {
            weights[source] += positions[position] * pixels[pixel];
        }
    });
    weights
}

/// `sum over (s, k) lying in padding of positions[k] * pixels[s]`.
#[must_use]
pub fn padding_weight(
    window: &Window,
    input: Shape,
    output: Shape,
    positions: &[E],
    pixels: &[E],
) -> E {
    let mut weight = E::ZERO;
    for_each_source(window, input, output, |pixel, position, source| {
        if source.is_none() {
            weight += positions[position] * pixels[pixel];
        }
    });
    weight
}

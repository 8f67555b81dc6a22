//! The public linear maps: windows of convolutions and poolings as weights on input pixels, and views.

use crate::field::{E, eq_table};
use crate::layout::TensorLayout;
use p3_field::PrimeCharacteristicRing;
use tg_ir::{Program, Shape, TensorId, Window};

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

/// A window's public weights on input pixels, for one point.
#[derive(Debug)]
pub struct SourceMap<'a> {
    /// The tensor that is read.
    pub input: TensorId,
    window: &'a Window,
    shapes: [Shape; 2],
    positions: Vec<E>,
    pixels: Vec<E>,
}

impl<'a> SourceMap<'a> {
    /// The map of a node's window with weights per position and per output pixel.
    #[must_use]
    pub fn new(
        program: &Program,
        node: usize,
        input: TensorId,
        window: &'a Window,
        positions: Vec<E>,
        pixels: Vec<E>,
    ) -> Self {
        Self {
            input,
            window,
            shapes: [program.shape(input), program.nodes[node].shape],
            positions,
            pixels,
        }
    }

    /// Per input pixel the weight with which it is read.
    #[must_use]
    pub fn weights(&self) -> Vec<E> {
        source_weights(
            self.window,
            self.shapes[0],
            self.shapes[1],
            &self.positions,
            &self.pixels,
        )
    }

    /// The weight that falls on padding.
    #[must_use]
    pub fn padding(&self) -> E {
        padding_weight(
            self.window,
            self.shapes[0],
            self.shapes[1],
            &self.positions,
            &self.pixels,
        )
    }
}

/// What the input's windows of a maximum must sum to: `sum_j eq(tau, j) (v - u_j)`, and -128 where padding is read.
/// (The claim `v` is spread over the real pixels already.)
#[must_use]
pub fn maximum_sum(map: &SourceMap<'_>, maximum: E, differences: &[E]) -> E {
    let shifted: E = differences
        .iter()
        .zip(&map.positions)
        .map(|(&difference, &weight)| weight * (maximum - difference))
        .sum();
    shifted + map.padding() * E::from_u32(128)
}

/// `V(x) = sum of eq(at, j) over the output elements j that show input element x`, over pixels and channels of the
/// padded input of a view, for one input.
#[must_use]
pub fn permutation_weights(source: &[u32], from: Shape, to: Shape, at: &[E]) -> Vec<E> {
    let [from, to] = [from, to].map(TensorLayout::of);
    let eq = eq_table(at);
    let mut weights = vec![E::ZERO; 1 << from.vars()];
    for (element, &source) in source.iter().enumerate() {
        weights[from.index_of_element(source as usize)] += eq[to.index_of_element(element)];
    }
    weights
}

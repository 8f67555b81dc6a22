//! Tensors over hypercubes, and their sums with weights.

use super::Walk;
use crate::fold::{Dots, Integer, fold};
use p3_field::PrimeCharacteristicRing;
use tg_exec::IntTensor;
use tg_ir::TensorId;
use tg_proof::field::{E, eq_table, signed};
use tg_proof::layout::TensorLayout;

/// Calls a function that is generic over the element type of a tensor.
macro_rules! with_values {
    ($tensor:expr, $values:ident => $body:expr) => {
        match $tensor {
            tg_exec::IntTensor::I8($values) => $body,
            tg_exec::IntTensor::I16($values) => $body,
            tg_exec::IntTensor::I32($values) => $body,
        }
    };
}
pub(super) use with_values;

impl<'a> Walk<'a> {
    pub(super) fn tensor(&self, tensor: TensorId) -> &'a IntTensor {
        &self.tensors[tensor.index()]
    }

    /// A tensor over its padded hypercube.
    pub(super) fn padded(&self, tensor: TensorId) -> Vec<E> {
        let layout = self.plan.layouts[tensor.index()];
        let mut padded = vec![E::ZERO; 1 << layout.vars()];
        match self.tensor(tensor) {
            IntTensor::I8(values) => {
                let table = small_integers();
                for (element, &value) in values.iter().enumerate() {
                    padded[layout.index_of_element(element)] =
                        table[usize::from(value.cast_unsigned())];
                }
            }
            wide => {
                for (element, value) in wide.widened().into_iter().enumerate() {
                    padded[layout.index_of_element(element)] = signed(i64::from(value)).into();
                }
            }
        }
        padded
    }

    /// A tensor over pixels and channels, the inputs of the batch summed with weights.
    pub(super) fn over_batch(&self, tensor: TensorId, batch: &[E]) -> Vec<E> {
        let layout = self.plan.layouts[tensor.index()];
        let all = self.padded(tensor);
        if layout.batch == 1 {
            return all;
        }
        let weights = eq_table(batch);
        let channels = 1 << layout.channel_vars;
        let mut values = vec![E::ZERO; 1 << (layout.pixel_vars + layout.channel_vars)];
        let pixels = all.chunks_exact(1 << layout.inner_vars());
        for (sums, rows) in values.chunks_exact_mut(channels).zip(pixels) {
            for (row, &weight) in rows.chunks_exact(channels).zip(&weights) {
                let terms = sums.iter_mut().zip(row);
                terms.for_each(|(sum, &value)| *sum += weight * value);
            }
        }
        values
    }

    /// Per padded pixel the extension in inputs and channels at a point.
    pub(super) fn per_pixel(&self, tensor: TensorId, batch: &[E], channels: &[E]) -> Vec<E> {
        let layout = self.plan.layouts[tensor.index()];
        let weights = inner_weights(layout, batch, channels);
        let mut values = with_values!(self.tensor(tensor), values => {
            Dots::new(&weights).dot_rows(weights.len(), values)
        });
        values.resize(1 << layout.pixel_vars, E::ZERO);
        values
    }

    /// Per padded channel the extension in pixels and inputs at a point.
    pub(super) fn per_channel(&self, tensor: TensorId, pixels: &[E], batch: &[E]) -> Vec<E> {
        let layout = self.plan.layouts[tensor.index()];
        let weights = &eq_table(pixels)[..layout.pixels];
        let mut sums = with_values!(self.tensor(tensor), values => fold_pixels(values, layout, weights, batch));
        sums.resize(1 << layout.channel_vars, E::ZERO);
        sums
    }

    /// The extension of a tensor at a point.
    pub(super) fn evaluate(&self, tensor: TensorId, at: &[E]) -> E {
        let (pixels, batch, channels) = self.plan.layouts[tensor.index()].split(at);
        let rows = self.per_pixel(tensor, batch, channels);
        let weights = eq_table(pixels);
        rows.iter().zip(&weights).map(|(&a, &b)| a * b).sum()
    }
}

/// Per channel the sum over pixels with weights and inputs at a point, without padding.
pub(super) fn fold_pixels<T: Integer>(
    values: &[T],
    layout: TensorLayout,
    weights: &[E],
    batch: &[E],
) -> Vec<E> {
    let width = layout.batch * layout.channels;
    let wide = fold(width, weights, |pixel| {
        Some(&values[pixel * width..][..width])
    });
    sum_batch(wide, layout, batch)
}

/// Rows of (input, channel) summed over the inputs.
pub(super) fn sum_batch(wide: Vec<E>, layout: TensorLayout, batch: &[E]) -> Vec<E> {
    if layout.batch == 1 {
        return wide;
    }
    let inputs = eq_table(batch);
    let mut sums = vec![E::ZERO; layout.channels];
    for (row, &weight) in wide.chunks_exact(layout.channels).zip(&inputs) {
        let terms = sums.iter_mut().zip(row);
        terms.for_each(|(sum, &value)| *sum += weight * value);
    }
    sums
}

/// `eq` of a point of inputs and channels, without padding.
pub(super) fn inner_weights(layout: TensorLayout, batch: &[E], channels: &[E]) -> Vec<E> {
    let channels = eq_table(channels);
    let batch = eq_table(batch);
    let rows = batch.iter().take(layout.batch).flat_map(|&input| {
        let row = channels.iter().take(layout.channels);
        row.map(move |&channel| input * channel)
    });
    rows.collect()
}

/// The element of each byte.
fn small_integers() -> Vec<E> {
    (0..=u8::MAX)
        .map(|byte| signed(i64::from(byte.cast_signed())).into())
        .collect()
}

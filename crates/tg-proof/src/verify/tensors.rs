//! Tensors that a statement shows: their elements and their extensions.

use crate::algebra::field::{E, eq_table, signed};
use crate::algebra::layout::TensorLayout;
use crate::argument::ajtai::TensorCommitment;
use tg_ir::{ElementType, Shape};

/// What a statement in zero knowledge shows of a tensor.
#[derive(Debug, Clone, Default)]
pub struct ShownTensor {
    /// Its elements, batched, if it is public.
    pub elements: Vec<i32>,
    /// Its commitment, if it is named by one.
    pub commitment: Option<TensorCommitment>,
    /// What is shown of inputs within it, in the order of [`crate::plan::TensorPlan::parts`].
    pub parts: Vec<ShownPart>,
}

/// What a statement shows of an input within a tensor that it does not show.
#[derive(Debug, Clone)]
pub enum ShownPart {
    /// Its elements in the order of the file, of one inference after the other; zeros for elements of no input.
    Public(Vec<i32>),
    /// Its commitment.
    Committed(TensorCommitment),
}

/// Little-endian elements of a type.
pub(crate) fn integers(kind: ElementType, bytes: &[u8]) -> Vec<i32> {
    match kind {
        ElementType::I8 => {
            let elements = bytes.iter().map(|&byte| i32::from(byte.cast_signed()));
            elements.collect()
        }
        ElementType::I16 => {
            let words = bytes.as_chunks::<2>().0.iter();
            words.map(|&w| i32::from(i16::from_le_bytes(w))).collect()
        }
        ElementType::I32 => {
            let words = bytes.as_chunks::<4>().0.iter();
            words.map(|&word| i32::from_le_bytes(word)).collect()
        }
    }
}

/// Tensors one after the other as one batched tensor: pixels, then inputs, then channels.
#[must_use]
pub fn interleaved<T: Copy>(values: Vec<T>, shape: Shape, batch: usize) -> Vec<T> {
    if batch <= 1 {
        return values;
    }
    let (channels, elements) = (shape.channels as usize, shape.elements());
    let mut out = Vec::with_capacity(values.len());
    for pixel in 0..shape.pixels() {
        for tensor in values.chunks_exact(elements) {
            out.extend_from_slice(&tensor[pixel * channels..][..channels]);
        }
    }
    out
}

/// The extension of a batched tensor given in storage order.
#[must_use]
pub fn evaluate_tensor(values: &[i32], layout: TensorLayout, at: &[E]) -> E {
    let (pixels, batch, channels) = layout.split(at);
    let (pixels, batch, channels) = (eq_table(pixels), eq_table(batch), eq_table(channels));
    values
        .chunks_exact(layout.batch * layout.channels)
        .zip(pixels)
        .map(|(rows, weight)| {
            let rows = rows.chunks_exact(layout.channels).zip(&batch);
            let sum: E = rows
                .map(|(row, &input)| {
                    let terms = row.iter().zip(&channels);
                    input * terms.map(|(&v, &eq)| eq * signed(i64::from(v))).sum::<E>()
                })
                .sum();
            weight * sum
        })
        .sum()
}

//! The committed columns of a model's weights.

use p3_matrix::dense::RowMajorMatrix;
use p3_sumcheck::layout::Table;
use tg_proof::field::{F, signed};

/// The committed columns of one weighted node.
#[derive(Debug, Clone)]
pub(crate) struct NodeColumns {
    /// Per piece of its own weights its column.
    pub(crate) pieces: Vec<Vec<i8>>,
    /// The bias digits, if there are biases.
    pub(crate) bias: Option<[Vec<i8>; tg_ir::weights::BIAS_DIGITS]>,
}

/// Per weight table its columns.
pub(crate) fn cells(columns: &[NodeColumns]) -> Vec<Vec<&[i8]>> {
    columns
        .iter()
        .flat_map(|node| {
            let pieces = node.pieces.iter().map(|piece| vec![piece.as_slice()]);
            let bias = node.bias.as_ref();
            let bias = bias.map(|bias| bias.iter().map(Vec::as_slice).collect());
            pieces.chain(bias)
        })
        .collect()
}

/// Per node the tables of its pieces and the table of bias digits.
pub(crate) fn weight_tables(columns: &[NodeColumns]) -> Vec<Table<F>> {
    let elements: Vec<F> = (0..=u8::MAX)
        .map(|byte| signed(i64::from(byte.cast_signed())))
        .collect();
    cells(columns)
        .into_iter()
        .map(|columns| {
            let rows = columns[0].len();
            let cells = columns.iter().flat_map(|column| column.iter());
            let values = cells.map(|&value| elements[usize::from(value.cast_unsigned())]);
            Table::new(RowMajorMatrix::new(values.collect(), rows))
        })
        .collect()
}

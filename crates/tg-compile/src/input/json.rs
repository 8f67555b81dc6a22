//! JSON inputs.

use super::form::{Expected, InputError, Layout, ROWS_MAX, reordered};

#[derive(serde::Deserialize)]
struct File {
    input_data: Vec<Vec<f32>>,
}

pub(super) fn read(bytes: &[u8], expected: Expected<'_>) -> Result<Vec<Vec<f32>>, InputError> {
    let File { input_data } = serde_json::from_slice(bytes).map_err(InputError::Json)?;
    if input_data.len() > ROWS_MAX {
        return Err(InputError::TooManyRows {
            rows: input_data.len(),
        });
    }
    let elements = expected.shape.elements();
    let order = Layout::of_flat(expected.shape).order(expected.shape);
    let rows = input_data.iter().enumerate();
    rows.map(|(row, values)| {
        if values.len() != elements {
            return Err(InputError::RowLength {
                row,
                got: values.len(),
                expected: elements,
            });
        }
        reordered(values, row, &order)
    })
    .collect()
}

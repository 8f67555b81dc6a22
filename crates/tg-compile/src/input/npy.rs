//! Numpy arrays as inputs.

use super::form::{Expected, InputError, ROWS_MAX, fit, reordered};
use tg_float::npy::header::{NpyProblem, Raw, raw};
use tg_ir::Shape;

enum Element {
    F32,
    F64,
    I32,
    I64,
    U8,
}

struct Array<'a> {
    element: Element,
    shape: Vec<usize>,
    data: &'a [u8],
}

pub(super) fn read(bytes: &[u8], expected: Expected<'_>) -> Result<Vec<Vec<f32>>, InputError> {
    let array = parse(bytes).map_err(InputError::Npy)?;
    let shape = expected.shape;
    let Some((rows, layout)) = fit(&array.shape, shape) else {
        return Err(InputError::Shape {
            got: array.shape,
            expected: shape,
        });
    };
    if rows > ROWS_MAX {
        return Err(InputError::TooManyRows { rows });
    }
    let order = layout.order(shape);
    let channels = shape.channels as usize;
    match array.element {
        Element::F32 => ordered(&words(array.data, f32::from_le_bytes), shape, &order),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "models take single precision; what does not fit becomes an infinity, which is refused"
        )]
        Element::F64 => ordered(
            &words(array.data, |v| f64::from_le_bytes(v) as f32),
            shape,
            &order,
        ),
        #[expect(clippy::cast_precision_loss, reason = "tokens are below 2^24")]
        Element::I32 => ordered(
            &words(array.data, |v| i32::from_le_bytes(v) as f32),
            shape,
            &order,
        ),
        #[expect(clippy::cast_precision_loss, reason = "tokens are below 2^24")]
        Element::I64 => ordered(
            &words(array.data, |v| i64::from_le_bytes(v) as f32),
            shape,
            &order,
        ),
        Element::U8 => {
            let rows = array.data.chunks_exact(shape.elements());
            let real = |row: &[u8]| {
                let each = order.iter().enumerate();
                each.map(|(to, &from)| expected.real(to % channels, row[from as usize]))
                    .collect()
            };
            Ok(rows.map(real).collect())
        }
    }
}

fn words<const N: usize>(data: &[u8], read: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    let (words, _) = data.as_chunks::<N>();
    words.iter().map(|&word| read(word)).collect()
}

fn ordered(values: &[f32], shape: Shape, order: &[u32]) -> Result<Vec<Vec<f32>>, InputError> {
    let rows = values.chunks_exact(shape.elements()).enumerate();
    rows.map(|(row, values)| reordered(values, row, order))
        .collect()
}

fn parse(bytes: &[u8]) -> Result<Array<'_>, NpyProblem> {
    let raw = raw(bytes)?;
    let (element, width) = match raw.descr {
        "<f4" | "=f4" => (Element::F32, 4),
        "<f8" | "=f8" => (Element::F64, 8),
        "<i4" | "=i4" => (Element::I32, 4),
        "<i8" | "=i8" => (Element::I64, 8),
        "|u1" | "<u1" | "u1" => (Element::U8, 1),
        other => {
            let shown: String = other.chars().take(16).collect();
            return Err(NpyProblem::ElementType(shown));
        }
    };
    raw.check_length(width)?;
    let Raw { shape, data, .. } = raw;
    Ok(Array {
        element,
        shape,
        data,
    })
}

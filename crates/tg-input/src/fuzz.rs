//! One entry per decoder of untrusted bytes: whatever the bytes, it returns.

use crate::{Expected, Kind};
use tg_ir::Shape;

/// Reads a numpy file.
pub fn fuzz_npy(bytes: &[u8]) {
    fuzz_input(bytes, Kind::Npy);
}

/// Reads an archive of numpy files.
pub fn fuzz_npz(bytes: &[u8]) {
    fuzz_input(bytes, Kind::Npz);
}

/// Reads a JSON input.
pub fn fuzz_json(bytes: &[u8]) {
    fuzz_input(bytes, Kind::Json);
}

/// Reads a PNG image.
pub fn fuzz_png(bytes: &[u8]) {
    fuzz_input(bytes, Kind::Png);
}

fn fuzz_input(bytes: &[u8], kind: Kind) {
    for shape in [Shape::new(8, 8, 1), Shape::new(2, 3, 3), Shape::vector(4)] {
        let expected = Expected {
            shape,
            mean: &[],
            std: &[],
            numbers: shape.channels == 3,
            inputs: &[],
        };
        if let Ok(rows) = crate::read(bytes, kind, expected) {
            let good = |row: &Vec<f32>| {
                row.len() == shape.elements() && row.iter().all(|value| value.is_finite())
            };
            assert!(rows.iter().all(good), "a row is finite and fills its shape");
        }
    }
}

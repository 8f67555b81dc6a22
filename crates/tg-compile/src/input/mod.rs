//! Input files: `.npy`, `.json` and `.png` to the reals a model takes ([`tg_ir::coding`] makes its integers of them).
//!
//! A reader gives rows in storage order (row, column, channel). Files may hold channels first, as ONNX does, or last;
//! if both fit, channels come first. Eight-bit values are images: `x = (v / 255 - mean) / std`, or `v / 255`.

mod form;
mod json;
mod load;
mod npy;
mod png;
mod read;

pub use form::{Expected, FILE_BYTES_MAX, InputError, Kind, PngProblem, ROWS_MAX};
pub use load::{LoadError, load};
pub use read::{read, read_one};

#[cfg(test)]
mod tests;

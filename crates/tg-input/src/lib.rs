//! Input files: `.npy`, `.npz`, `.json` and `.png` to the reals a model takes ([`tg_ir::coding`] makes its integers of them).
//!
//! A reader gives rows in storage order (row, column, channel). An array has the axes of the model's file; of several inputs
//! each has an array by its name. One input may also be given flat, or with channels last; if both fit, channels come first.
//! Eight-bit values of a model's one input are images: `x = (v / 255 - mean) / std`, or `v / 255`.

mod array;
mod form;
#[doc(hidden)]
pub mod fuzz;
mod json;
mod load;
mod npz;
mod png;
mod read;
pub mod tokens;

pub use form::{
    Expected, FILE_BYTES_MAX, InputError, Kind, NamedInput, NpzProblem, PngProblem, ROWS_MAX,
};
pub use load::{LoadError, Loaded, load};
pub use read::{read, read_arrays, read_each, read_one, read_tensors};

#[cfg(test)]
mod tests;

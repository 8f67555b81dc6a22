//! Kernels of tier TGF-1, exact by construction: whatever the processor offers and however many threads run, each sum
//! is taken in the order of its reduction, bit for bit.
//!
//! - `tile_f32`: the innermost loops, per processor.
//! - `gemm_f32`: matrix products.
//! - `conv_f32`: convolutions of images.
//!
//! Float sums are never reordered: only rows and columns are tiled.

#![allow(
    unsafe_code,
    reason = "vector instructions take raw pointers and are chosen at run time; every block says why it is sound"
)]

pub mod conv_f32;
pub mod gemm_f32;
mod tile_f32;

pub use conv_f32::{conv_f32, conv_f32_scratch};
pub use gemm_f32::{
    BatchF32, Bias, PackedF32, ProductF32, Right, canonical, gemm_f32, gemm_f32_batch,
    gemm_f32_packed,
};

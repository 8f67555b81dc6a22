//! Fast kernels, exact by construction: whatever the processor offers and however many threads run, the result is
//! the one the scalar definition gives, bit for bit.
//!
//! - [`cpu`]: what the processor offers, detected once.
//! - [`memory`]: aligned buffers that are grown once and used again.
//! - [`pool`]: threads that share the tiles of one output.
//! - [`requantise`]: 32-bit sums to activations.
//! - `tile_int`: the innermost loops over integers, per processor.
//! - `gemm_int`: integer matrix products, weights packed once per model.
//! - [`geometry`], [`conv_int`], [`window`]: convolutions and pools.
//!
//! Integer sums are exact in any order as long as the final value fits its type: sums wrap modulo 2^32, so a partial
//! sum may leave 32 bits and come back.

#![allow(
    unsafe_code,
    reason = "vector instructions take raw pointers and are chosen at run time; every block says why it is sound"
)]

pub mod conv_int;
pub mod cpu;
pub mod gemm_int;
pub mod geometry;
pub mod memory;
pub mod pool;
pub mod requantise;
mod tile_int;
pub mod window;

pub use conv_int::ConvInt;
pub use cpu::{CPU_VARIABLE, Cpu, SimdLevel, SimdLevelError};
pub use gemm_int::{Elements, Matrix, Order, PackedMatrix, Sink, gemm_int, gemm_int_wide};
pub use geometry::{Conv2d, Sliding};
pub use memory::{Buffer, Scratch};
pub use pool::Pool;
pub use requantise::Requantiser;
pub use tile_int::{Width, tallest};
pub use window::{max_pool, window_sum};

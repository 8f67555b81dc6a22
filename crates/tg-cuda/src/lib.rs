//! TGX-1 on NVIDIA GPUs, found at run time.
//!
//! Nothing of CUDA is needed to build, and nothing happens on a machine without it: [`probe`] says what there is, or
//! why there is nothing. The driver (`libcuda`) and the run-time compiler (NVRTC) are loaded when asked for; the
//! kernels in `kernels/` are CUDA C that NVRTC compiles for the device at hand: for tensor cores from compute
//! capability 8.0 on, for dot products of four bytes from 6.1 on.
//!
//! Every result is bit-equal to `tg_ir::scalar`: the kernels hold integers only, and sums of integers that fit are the
//! same in any order. [`CudaEngine`] uploads a model once, lays out memory once (`plan`, `nodes`) and then runs one
//! input after the other.
//!
//! **Status**: the kernels compile for every supported architecture, and they are run and compared with the scalar
//! semantics by an emulation on the CPU (`kernels/emulator.h`). They have never run on a GPU: on a machine with one,
//! the tests of this crate do so first.

mod device;
#[cfg(test)]
mod emulator;
mod engine;
mod kernels;
mod nodes;
mod nvrtc;
mod plan;
mod probe;
#[cfg(test)]
pub(crate) mod tests;

pub use engine::{CudaEngine, CudaError, Executor, Fallback};
pub use nvrtc::{NVRTC_VARIABLE, Nvrtc, NvrtcError, Target};
pub use plan::Keep;
pub use probe::{
    CAPABILITY_MIN, CAPABILITY_TENSOR_CORES, DeviceInfo, DriverFailure, Missing, Probe, Way, probe,
};

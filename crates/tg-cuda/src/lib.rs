//! TGX-1 on NVIDIA GPUs, found at run time.
//!
//! Nothing of CUDA is needed to build, and nothing happens on a machine without it: `probe` says what there is, or
//! why there is nothing. The driver (`libcuda`) and the run-time compiler (NVRTC) are loaded when asked for; the
//! kernels in `kernels/` are CUDA C that NVRTC compiles for the device at hand: for tensor cores from compute
//! capability 8.0 on, for dot products of four bytes from 6.1 on.
//!
//! Every result is bit-equal to `tg_ir::scalar`: the kernels hold integers only, and sums of integers that fit are the
//! same in any order. Nobody has to believe that: [`select`] opens a device only after the check, in which it runs programs
//! for every operator and each bit is compared with the CPU's; [`check_device`] gives the same as a report.
//! [`ExecutionDevice`] then executes programs there, and on the CPU those that do not fit.
//!
//! Read in this order: `selection` (which device), `execution` (what it does), `check`, `engine` (one model on a device),
//! `plan` and `nodes` (a model as memory and kernels), `kernel_device` (what is asked of a device), `device` (a GPU),
//! `probe` and `nvrtc` (what is installed).
//!
//! **Status**: the kernels have run on an NVIDIA H100 (`docs/GPU.md` has the report), compile for every supported architecture,
//! and are compared with the scalar semantics by an emulation on the CPU (`kernels/emulator.h`). On another GPU the tests of this
//! crate and `tensorgrid device --check` run them first.

mod check;
mod device;
#[cfg(test)]
mod emulator;
mod engine;
mod error;
mod execution;
mod kernel_device;
mod kernels;
mod nodes;
mod nvrtc;
mod plan;
mod probe;
mod selection;
#[cfg(test)]
pub(crate) mod tests;

pub use check::{FamilyResult, Fault, FaultKind};
pub use engine::Unfit;
pub use error::CudaError;
pub use execution::{
    Answered, CpuAnswers, Executed, ExecutedOn, ExecutionDevice, ExecutionError, InsteadReason,
};
pub use nvrtc::{NVRTC_VARIABLE, Nvrtc, NvrtcError, Target};
pub use plan::NoKernel;
pub use probe::{
    CAPABILITY_MIN, CAPABILITY_TENSOR_CORES, DeviceInfo, DriverFailure, Missing, Probe, Way, probe,
};
pub use selection::{CheckReport, DeviceChoice, ParseDeviceError, Selection, check_device, select};

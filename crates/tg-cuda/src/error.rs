//! Why a GPU is not used.

use super::check::Fault;
use super::nvrtc::NvrtcError;
use super::probe::{DeviceInfo, DriverFailure, Missing};

/// Why programs are not executed on a GPU.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// The driver or the compiler is not there, or does not start.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// There is no such device.
    #[error("there is no device cuda:{ordinal}: the driver shows {count}")]
    NoSuchDevice {
        /// The index that was asked for.
        ordinal: usize,
        /// Devices.
        count: usize,
    },
    /// The device is too old.
    #[error("cuda:{ordinal} ({name}) has compute capability {}.{}, below 6.1", .capability[0], .capability[1])]
    TooOld {
        /// Its index.
        ordinal: usize,
        /// Its name.
        name: String,
        /// Major and minor version.
        capability: [u32; 2],
    },
    /// The kernels could not be compiled.
    #[error("the kernels are not compiled for the GPU: {0}")]
    Compile(#[from] NvrtcError),
    /// The driver refused to open the device.
    #[error(transparent)]
    Driver(#[from] DriverFailure),
    /// The device has not the results of the CPU: nothing is executed on it.
    #[error("{device} failed the check and is not used: {fault}")]
    Refused {
        /// The device.
        device: Box<DeviceInfo>,
        /// The first fault, with the operator.
        fault: Box<Fault>,
    },
}

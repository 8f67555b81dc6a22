//! Which device executes: chosen by name, and used only after the check.

use super::check::{FamilyResult, Fault, check_families};
use super::device::Gpu;
use super::error::CudaError;
use super::execution::ExecutionDevice;
use super::kernel_device::KernelDevice;
use super::kernels;
use super::nvrtc::Target;
use super::probe::{DeviceInfo, probe};
use std::fmt;
use std::str::FromStr;
use tg_types::Digest;

/// The device that somebody wants programs to be executed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The first GPU that passes the check, else the CPU.
    Auto,
    /// The CPU.
    Cpu,
    /// This GPU and no other device, by its index in the driver's order.
    Cuda(usize),
}

/// A text that names no device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a device is auto, cpu or cuda:N, such as cuda:0")]
pub struct ParseDeviceError;

impl FromStr for DeviceChoice {
    type Err = ParseDeviceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            _ => {
                let digits = text.strip_prefix("cuda:").ok_or(ParseDeviceError)?;
                // `usize` would also take a sign.
                let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
                let ordinal = digits.parse().ok().filter(|_| is_number);
                ordinal.map(Self::Cuda).ok_or(ParseDeviceError)
            }
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

/// A device for executions, and how it was found.
#[derive(Debug, Clone)]
pub struct Selection {
    /// The device.
    pub device: ExecutionDevice,
    /// What it did in the check; none for the CPU.
    pub check: Option<CheckReport>,
    /// Why GPUs were passed over; only [`DeviceChoice::Auto`] passes over any.
    pub passed_over: Vec<CudaError>,
}

/// Opens a device. A GPU runs the check first and is refused if a bit differs; this takes seconds.
///
/// # Errors
/// If a GPU was named that cannot be used or fails the check.
pub fn select(choice: DeviceChoice) -> Result<Selection, CudaError> {
    let mut passed_over = Vec::new();
    let candidates = match choice {
        DeviceChoice::Cpu => Vec::new(),
        DeviceChoice::Cuda(ordinal) => return open(ordinal),
        DeviceChoice::Auto => {
            let found = probe();
            let candidates = found.usable().map(|device| device.ordinal).collect();
            passed_over.extend(found.missing.into_iter().map(CudaError::from));
            candidates
        }
    };
    for ordinal in candidates {
        match open(ordinal) {
            Ok(selection) => {
                return Ok(Selection {
                    passed_over,
                    ..selection
                });
            }
            Err(error) => passed_over.push(error),
        }
    }
    Ok(Selection {
        device: ExecutionDevice::cpu(),
        check: None,
        passed_over,
    })
}

/// A GPU that passes the check.
fn open(ordinal: usize) -> Result<Selection, CudaError> {
    let gpu = Gpu::open(ordinal)?;
    let check = CheckReport::of(&gpu);
    if let Some(fault) = check.fault() {
        return Err(CudaError::Refused {
            device: Box::new(check.device.clone()),
            fault: Box::new(fault.clone()),
        });
    }
    Ok(Selection {
        device: ExecutionDevice::of(Box::new(gpu)),
        check: Some(check),
        passed_over: Vec::new(),
    })
}

/// What a GPU did with the programs of the check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckReport {
    /// The GPU.
    pub device: DeviceInfo,
    /// Bytes of its memory that were free; none if the driver does not say.
    pub free_bytes: Option<u64>,
    /// The newest CUDA version that the driver serves, major and minor.
    pub driver: [u32; 2],
    /// The version of NVRTC, major and minor.
    pub compiler: [u32; 2],
    /// What the kernels were compiled for.
    pub target: Target,
    /// BLAKE3 of the kernels' source.
    pub kernels: Digest,
    /// Each family of operators; the list ends at one in which the driver fails.
    pub families: Vec<FamilyResult>,
}

impl CheckReport {
    fn of(gpu: &Gpu) -> Self {
        let (target, compiler, driver) = gpu.versions();
        let free_bytes = gpu.free_bytes();
        Self {
            device: gpu.info().clone(),
            free_bytes,
            driver,
            compiler,
            target,
            kernels: Digest::of_blob(kernels::SOURCE.as_bytes()),
            families: check_families(gpu),
        }
    }

    /// The first fault; none if every bit was that of the CPU.
    #[must_use]
    pub fn fault(&self) -> Option<&Fault> {
        self.families
            .iter()
            .find_map(|family| family.fault.as_ref())
    }
}

/// Runs the programs of the check on a GPU and compares every bit with the CPU's; takes seconds.
///
/// # Errors
/// If there is no such device, it is too old, or the driver or compiler is missing or refuses. A wrong result is no error
/// but part of the report.
pub fn check_device(ordinal: usize) -> Result<CheckReport, CudaError> {
    Ok(CheckReport::of(&Gpu::open(ordinal)?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn devices_are_named() {
        for (text, choice) in [
            ("auto", DeviceChoice::Auto),
            ("cpu", DeviceChoice::Cpu),
            ("cuda:0", DeviceChoice::Cuda(0)),
            ("cuda:12", DeviceChoice::Cuda(12)),
        ] {
            assert_eq!(text.parse(), Ok(choice));
            assert_eq!(choice.to_string(), text);
        }
        for text in ["", "cuda", "cuda:", "cuda:-1", "cuda:+1", "gpu", "CPU"] {
            assert_eq!(
                text.parse::<DeviceChoice>(),
                Err(ParseDeviceError),
                "{text}"
            );
        }
        let beyond = format!("cuda:{}0", usize::MAX);
        assert_eq!(beyond.parse::<DeviceChoice>(), Err(ParseDeviceError));
    }

    /// On any machine: a GPU that passed the check, or the CPU and the reason.
    #[test]
    fn auto_takes_a_gpu_that_passes_the_check_or_else_the_cpu() {
        let selection = select(DeviceChoice::Auto).unwrap();
        match selection.device.gpu() {
            Some(device) => {
                let check = selection.check.unwrap();
                assert_eq!((&check.device, check.fault()), (device, None));
            }
            None => {
                assert_eq!(selection.check, None);
                assert!(!selection.passed_over.is_empty(), "it is said why");
            }
        }
        let selection = select(DeviceChoice::Cpu).unwrap();
        assert_eq!(selection.device.gpu(), None);
        assert_eq!((selection.check, selection.passed_over), (None, Vec::new()));
    }

    #[test]
    fn a_gpu_that_is_not_there_is_an_error() {
        let error = select(DeviceChoice::Cuda(1_000_000)).unwrap_err();
        let found = probe();
        match error {
            CudaError::Missing(missing) => assert_eq!(Some(&missing), found.missing.first()),
            other => {
                let ordinal = 1_000_000;
                let count = found.devices.len();
                assert_eq!(other, CudaError::NoSuchDevice { ordinal, count });
            }
        }
    }
}

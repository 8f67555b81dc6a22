//! What there is to run on, or why there is nothing.
#![allow(unsafe_code, reason = "asks the CUDA driver, a C library")]

use super::nvrtc::{Nvrtc, NvrtcError};
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUdevice_attribute_enum as Attribute};

/// The least compute capability with dot products of four bytes, times ten.
pub const CAPABILITY_MIN: u32 = 61;
/// The least compute capability whose tensor cores the kernels use, times ten.
pub const CAPABILITY_TENSOR_CORES: u32 = 80;

/// A failed call of the driver.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the CUDA driver could not {operation}: {name}")]
pub struct DriverFailure {
    /// What was asked of it.
    pub operation: &'static str,
    /// The name of its answer, such as `CUDA_ERROR_OUT_OF_MEMORY`.
    pub name: String,
}

impl DriverFailure {
    /// Whether the device has no memory for what was asked.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        self.name == "CUDA_ERROR_OUT_OF_MEMORY"
    }

    pub(crate) fn of(operation: &'static str) -> impl FnOnce(DriverError) -> Self {
        move |error| Self {
            operation,
            name: format!("{:?}", error.0),
        }
    }
}

/// Why GPUs cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// The driver's library is not installed.
    #[error("no CUDA driver: libcuda.so.1 is not found")]
    Driver,
    /// The driver does not start: often no device is visible, or it does not fit the kernel's part.
    #[error(transparent)]
    DriverFailure(#[from] DriverFailure),
    /// The driver works and has no device.
    #[error("the NVIDIA driver sees no device")]
    Device,
    /// The compiler for kernels is not installed.
    #[error(transparent)]
    Compiler(#[from] NvrtcError),
    /// All devices are older than compute capability 6.1.
    #[error("no device has compute capability 6.1 or above")]
    Capability,
}

/// How a device multiplies bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// On tensor cores (compute capability 8.0 and above).
    TensorCores,
    /// By dot products of four bytes (6.1 and above).
    DotProducts,
    /// Not at all: it is too old.
    None,
}

impl Way {
    /// That of a compute capability, times ten.
    #[must_use]
    pub const fn of(capability: u32) -> Self {
        if capability >= CAPABILITY_TENSOR_CORES {
            Self::TensorCores
        } else if capability >= CAPABILITY_MIN {
            Self::DotProducts
        } else {
            Self::None
        }
    }
}

/// One GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its index in the driver's order, which is that of `CUDA_VISIBLE_DEVICES` where that is set.
    pub ordinal: usize,
    /// The name that the driver gives.
    pub name: String,
    /// The identifier by which `CUDA_VISIBLE_DEVICES` names it (a MIG instance has its own), in hexadecimal groups without
    /// the prefix `GPU-` or `MIG-`; empty where the driver is older than 11.4 and does not tell.
    pub uuid: String,
    /// Bytes of memory in all.
    pub memory_bytes: u64,
    /// Compute capability: major and minor version.
    pub capability: [u32; 2],
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
}

impl std::fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cuda:{} ({})", self.ordinal, self.name)
    }
}

impl DeviceInfo {
    /// Ten times the major plus the minor version of the compute capability.
    #[must_use]
    pub const fn capability_number(&self) -> u32 {
        self.capability[0] * 10 + self.capability[1]
    }

    /// How it multiplies bytes.
    #[must_use]
    pub const fn way(&self) -> Way {
        Way::of(self.capability_number())
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The newest CUDA version that the driver serves, major and minor; none without a driver.
    pub driver: Option<[u32; 2]>,
    /// The version of NVRTC, major and minor; none without it.
    pub compiler: Option<[u32; 2]>,
    /// Every device that the driver sees, also those that are too old.
    pub devices: Vec<DeviceInfo>,
    /// What is missing; empty exactly if at least one device can be used.
    pub missing: Vec<Missing>,
}

impl Probe {
    /// The devices that can be used: none unless driver and compiler are there.
    pub fn usable(&self) -> impl Iterator<Item = &DeviceInfo> {
        let ready = self.missing.is_empty();
        let devices = self.devices.iter();
        devices.filter(move |device| ready && device.way() != Way::None)
    }
}

/// Looks for the driver, its devices and the compiler. Costs milliseconds without a driver; the first call with one
/// starts it, which can take a second.
#[must_use]
pub fn probe() -> Probe {
    let mut found = Probe {
        driver: None,
        compiler: None,
        devices: Vec::new(),
        missing: Vec::new(),
    };
    match start_driver() {
        Ok(version) => found.driver = Some(version),
        Err(missing) => found.missing.push(missing),
    }
    if found.driver.is_some() {
        match devices() {
            Ok(devices) if devices.is_empty() => found.missing.push(Missing::Device),
            Ok(devices) => {
                if devices.iter().all(|device| device.way() == Way::None) {
                    found.missing.push(Missing::Capability);
                }
                found.devices = devices;
            }
            Err(failure) => found.missing.push(failure.into()),
        }
    }
    match Nvrtc::load().and_then(|compiler| compiler.version()) {
        Ok(version) => found.compiler = Some(version),
        Err(error) => found.missing.push(error.into()),
    }
    found
}

/// Loads and starts the driver; the newest CUDA version it serves.
pub(crate) fn start_driver() -> Result<[u32; 2], Missing> {
    // SAFETY: the driver's library has no conditions on being loaded.
    if !unsafe { sys::is_culib_present() } {
        return Err(Missing::Driver);
    }
    result::init().map_err(DriverFailure::of("start"))?;
    Ok(driver_version()?)
}

/// The newest CUDA version that a started driver serves.
fn driver_version() -> Result<[u32; 2], DriverFailure> {
    let mut version = 0;
    // SAFETY: a valid place for an integer.
    let result = unsafe { sys::cuDriverGetVersion(&raw mut version) };
    result
        .result()
        .map_err(DriverFailure::of("say its version"))?;
    let version = version.unsigned_abs();
    Ok([version / 1_000, version % 1_000 / 10])
}

/// Every device of a started driver.
fn devices() -> Result<Vec<DeviceInfo>, DriverFailure> {
    (0..device_count()?).map(device).collect()
}

/// How many devices a started driver sees.
pub(crate) fn device_count() -> Result<usize, DriverFailure> {
    let count = result::device::get_count().map_err(DriverFailure::of("count its devices"))?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// One device of a started driver.
pub(crate) fn device(ordinal: usize) -> Result<DeviceInfo, DriverFailure> {
    let index = i32::try_from(ordinal).unwrap_or(i32::MAX);
    let failure = || DriverFailure::of("describe a device");
    let device = result::device::get(index).map_err(failure())?;
    let attribute = |attribute| {
        // SAFETY: the device is one that the driver has just given.
        let value = unsafe { result::device::get_attribute(device, attribute) };
        value.map(i32::unsigned_abs).map_err(failure())
    };
    // SAFETY: as above.
    let memory = unsafe { result::device::total_mem(device) }.map_err(failure())?;
    Ok(DeviceInfo {
        ordinal,
        name: result::device::get_name(device).map_err(failure())?,
        uuid: uuid(device)?,
        memory_bytes: memory as u64,
        capability: [
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ],
        multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
    })
}

/// The identifier of a device that the driver has given.
fn uuid(device: sys::CUdevice) -> Result<String, DriverFailure> {
    // Older drivers lack the function; the other one gives a MIG instance the identifier of its GPU.
    if driver_version()? < [11, 4] {
        return Ok(String::new());
    }
    let mut uuid = sys::CUuuid { bytes: [0; 16] };
    // SAFETY: a valid place for an identifier.
    let result = unsafe { sys::cuDeviceGetUuid_v2(&raw mut uuid, device) };
    result
        .result()
        .map_err(DriverFailure::of("identify a device"))?;
    let hex: String = (uuid.bytes.iter())
        .map(|byte| format!("{:02x}", *byte as u8))
        .collect();
    let groups = [0..8, 8..12, 12..16, 16..20, 20..32].map(|group| &hex[group]);
    Ok(groups.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_device(capability: [u32; 2]) -> DeviceInfo {
        DeviceInfo {
            ordinal: 0,
            name: "a device".to_owned(),
            uuid: String::new(),
            memory_bytes: 1 << 30,
            capability,
            multiprocessors: 4,
        }
    }

    /// On any machine: either something can be used, or it is said what is missing.
    #[test]
    fn the_probe_answers_everywhere() {
        let found = probe();
        assert_eq!(found.missing.is_empty(), found.usable().next().is_some());
        assert!(
            found.driver.is_some()
                || found.missing.contains(&Missing::Driver)
                || found.devices.is_empty()
        );
        assert!(
            found
                .missing
                .iter()
                .all(|missing| !missing.to_string().is_empty())
        );
    }

    #[test]
    fn generations_multiply_in_their_way() {
        let check = |capability, way| assert_eq!(some_device(capability).way(), way);
        check([5, 2], Way::None);
        check([6, 0], Way::None);
        check([6, 1], Way::DotProducts);
        check([7, 5], Way::DotProducts);
        check([8, 0], Way::TensorCores);
        check([9, 0], Way::TensorCores);
        check([12, 1], Way::TensorCores);
    }

    #[test]
    fn nothing_is_usable_while_something_is_missing() {
        let mut found = Probe {
            driver: Some([12, 4]),
            compiler: Some([12, 9]),
            devices: vec![some_device([8, 0]), some_device([5, 2])],
            missing: Vec::new(),
        };
        assert_eq!(found.usable().count(), 1);
        found.missing.push(Missing::Compiler(NvrtcError::NotFound {
            tried: vec!["libnvrtc.so".to_owned()],
        }));
        assert_eq!(found.usable().count(), 0);
        let message = found.missing[0].to_string();
        assert!(message.contains("libnvrtc.so") && message.contains("TENSORGRID_NVRTC"));
    }
}

//! What the rest of the crate asks of a device: to hold plans and to run them.
//!
//! A GPU is one ([`super::device::Gpu`]); in tests the emulation of one on the CPU is another.

use super::plan::{Address, NoKernel, Plan};
use super::probe::{DeviceInfo, DriverFailure};
use std::time::Duration;
use tg_ir::{ElementType, IntTensor};

/// A device that runs kernels.
pub(crate) trait KernelDevice: Send + Sync {
    /// What it is.
    fn info(&self) -> &DeviceInfo;

    /// Bytes of memory that are free at the moment; nothing if the device does not say.
    fn free_bytes(&self) -> Option<u64>;

    /// Uploads a plan's constants and reserves its memory.
    ///
    /// # Errors
    /// If a kernel of the plan is not among the device's, or the driver refuses.
    fn load(&self, plan: &Plan) -> Result<Box<dyn LoadedPlan>, LoadError>;
}

/// A plan that a device holds. After a failure nothing is known of its memory.
pub(crate) trait LoadedPlan: Send {
    /// Writes bytes to a place among the tensors.
    ///
    /// # Errors
    /// If the driver fails.
    ///
    /// # Panics
    /// If they do not fit.
    fn write(&mut self, address: Address, bytes: &[u8]) -> Result<(), DriverFailure>;

    /// Reads bytes from a place.
    ///
    /// # Errors
    /// If the driver fails.
    ///
    /// # Panics
    /// If the place is not inside its region.
    fn read(&self, address: Address, length: usize) -> Result<Vec<u8>, DriverFailure>;

    /// Reads a tensor of so many elements from a place.
    ///
    /// # Errors
    /// As [`Self::read`].
    ///
    /// # Panics
    /// As [`Self::read`].
    fn read_tensor(
        &self,
        address: Address,
        kind: ElementType,
        count: usize,
    ) -> Result<IntTensor, DriverFailure> {
        let bytes = self.read(address, count * kind.bytes())?;
        Ok(IntTensor::from_bytes(kind, &bytes).expect("whole elements"))
    }

    /// Runs every kernel in order and waits for the last one.
    ///
    /// # Errors
    /// If the driver fails.
    fn run(&mut self) -> Result<(), DriverFailure>;

    /// Runs the kernels of one node and waits for the last one.
    ///
    /// # Errors
    /// If the driver fails.
    fn run_node(&mut self, node: usize) -> Result<(), DriverFailure>;

    /// Runs the kernels of one node so many times, and gives how long all of that took the device.
    ///
    /// # Errors
    /// If the driver fails.
    fn time_node(&mut self, node: usize, times: u32) -> Result<Duration, DriverFailure>;
}

/// Why a device does not take a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LoadError {
    #[error(transparent)]
    NoKernel(#[from] NoKernel),
    #[error(transparent)]
    Driver(#[from] DriverFailure),
}

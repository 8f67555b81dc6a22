//! A model in a device's memory: uploaded once, run as often as wanted.

use super::kernel_device::{KernelDevice, LoadError, LoadedPlan};
use super::plan::{Address, Keep, NoKernel, Plan};
use super::probe::DriverFailure;
use std::time::Duration;
use tg_exec::engine::values::Values;
use tg_exec::execute::{ExecuteError, Trace, check_input};
use tg_ir::IntTensor;
use tg_ir::{ExecutableModel, Program, TensorId};

/// Why a device does not take a program that the CPU executes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// An operator has no kernel.
    #[error(transparent)]
    NoKernel(#[from] NoKernel),
    /// It needs more memory than there is.
    #[error(
        "it needs {} MiB of device memory and {} MiB are free", need >> 20, free >> 20
    )]
    Memory {
        /// Bytes for weights and tensors.
        need: u64,
        /// Bytes that are free.
        free: u64,
    },
}

/// Why a program is not made ready on a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OpenError {
    #[error(transparent)]
    Unfit(#[from] Unfit),
    #[error(transparent)]
    Driver(#[from] DriverFailure),
}

/// Why a device gave no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RunError {
    #[error(transparent)]
    Input(#[from] ExecuteError),
    #[error(transparent)]
    Driver(#[from] DriverFailure),
}

/// A model on a device, ready to run.
pub(crate) struct DeviceEngine {
    program: Program,
    tensors: Vec<Option<Address>>,
    loaded: Box<dyn LoadedPlan>,
}

impl DeviceEngine {
    /// Uploads a model and lays out its memory.
    ///
    /// # Errors
    /// If an operator has no kernel, the model does not fit, or the driver fails.
    pub(crate) fn new(
        device: &dyn KernelDevice,
        model: &ExecutableModel,
        keep: Keep,
    ) -> Result<Self, OpenError> {
        let info = device.info();
        let plan = Plan::of(model, keep, info.multiprocessors).map_err(Unfit::from)?;
        let need = plan.bytes();
        if need > info.memory_bytes {
            let free = device.free_bytes().unwrap_or(info.memory_bytes);
            return Err(Unfit::Memory { need, free }.into());
        }
        // Whether it fits what is free only the driver knows: memory that was given back counts later.
        let loaded = device.load(&plan).map_err(|error| match error {
            LoadError::NoKernel(missing) => OpenError::from(Unfit::from(missing)),
            LoadError::Driver(failure) if failure.is_out_of_memory() => {
                let free = device.free_bytes().unwrap_or(0);
                Unfit::Memory { need, free }.into()
            }
            LoadError::Driver(failure) => failure.into(),
        })?;
        Ok(Self {
            program: model.program.clone(),
            tensors: plan.tensors,
            loaded,
        })
    }

    /// The outputs for one input, in order.
    ///
    /// # Errors
    /// If the input is not one that the model takes, or the driver fails.
    pub(crate) fn outputs(&mut self, input: &IntTensor) -> Result<Vec<IntTensor>, RunError> {
        self.execute(input)?;
        let outputs = self.program.outputs().into_iter();
        outputs.map(|id| self.download(id)).collect()
    }

    /// Every tensor for one input.
    ///
    /// # Errors
    /// As [`Self::outputs`].
    ///
    /// # Panics
    /// If the engine was not made with [`Keep::Trace`].
    pub(crate) fn trace(&mut self, input: &IntTensor) -> Result<Trace, RunError> {
        self.execute(input)?;
        let mut tensors = vec![input.clone()];
        for node in 0..self.program.nodes.len() {
            tensors.push(self.download(TensorId::of_node(node))?);
        }
        Ok(Trace::new(&self.program, tensors))
    }

    /// How long the device takes for each node that has kernels, as a mean of several runs, in order. A requantisation is part
    /// of the product that it is fused with.
    ///
    /// # Errors
    /// As [`Self::outputs`].
    pub(crate) fn node_times(
        &mut self,
        input: &IntTensor,
    ) -> Result<Vec<(usize, Duration)>, RunError> {
        const TIMES: u32 = 20;
        // In order, each several times: a node's inputs are there until the next one runs.
        self.upload(input)?;
        let mut times = Vec::new();
        for node in 0..self.program.nodes.len() {
            self.loaded.run_node(node)?;
            let time = self.loaded.time_node(node, TIMES)?;
            times.push((node, time / TIMES));
        }
        Ok(times)
    }

    /// Uploads the input and runs every kernel.
    fn execute(&mut self, input: &IntTensor) -> Result<(), RunError> {
        self.upload(input)?;
        Ok(self.loaded.run()?)
    }

    fn upload(&mut self, input: &IntTensor) -> Result<(), RunError> {
        check_input(&self.program, Values::from(input))?;
        if let Some(address) = self.tensors[0] {
            self.loaded.write(address, &input.to_bytes())?;
        }
        Ok(())
    }

    fn download(&self, id: TensorId) -> Result<IntTensor, RunError> {
        let kind = self.program.element_type(id);
        let count = self.program.shape(id).elements();
        let address = self.tensors[id.index()].expect("a tensor that the engine keeps");
        Ok(self.loaded.read_tensor(address, kind, count)?)
    }
}

//! Where programs are executed: on the CPU, or on a GPU that has passed the check.

use super::engine::{DeviceEngine, OpenError, RunError, Unfit};
use super::kernel_device::KernelDevice;
use super::plan::Keep;
use super::probe::{DeviceInfo, DriverFailure};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use tg_exec::execute::{ExecuteError, Trace, execute_tensor};
use tg_ir::ExecutableModel;
use tg_ir::IntTensor;
use tg_types::ProgramId;

/// Executes programs: on the CPU, or on a GPU with the CPU beside it. The results are the same bits.
///
/// A GPU holds one model at a time, the last one, and runs one input at a time; who comes meanwhile waits. Copies share
/// the GPU.
///
/// ```
/// use tg_cuda::{ExecutedOn, ExecutionDevice};
///
/// let (model, input) = tg_exec::sample::random_model(1);
/// let (model, input) = (model.checked()?, tg_exec::IntTensor::I8(input));
/// let executed = ExecutionDevice::default().execute(&model, input.clone())?;
/// assert_eq!(executed.trace, tg_exec::execute_tensor(&model, input)?);
/// assert_eq!(executed.on, ExecutedOn::Cpu);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct ExecutionDevice {
    /// None: the CPU.
    gpu: Option<Arc<SharedGpu>>,
}

/// An execution and where it took place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executed {
    /// Every tensor.
    pub trace: Trace,
    /// Where.
    pub on: ExecutedOn,
}

/// Where a program was executed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ExecutedOn {
    /// On the CPU, as was asked.
    #[default]
    Cpu,
    /// On a GPU.
    Gpu(Box<DeviceInfo>),
    /// On the CPU instead of a GPU.
    CpuInstead {
        /// The GPU.
        device: Box<DeviceInfo>,
        /// Why not there.
        reason: Box<InsteadReason>,
    },
}

/// Why a program is executed on the CPU although there is a GPU.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InsteadReason {
    /// The program does not fit the device.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// The device failed in an earlier execution.
    #[error("it was lost: {0}")]
    Lost(DriverFailure),
}

/// Why a program was not executed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExecutionError {
    /// The input is not one that the program takes.
    #[error(transparent)]
    Input(#[from] ExecuteError),
    /// The GPU failed; the next execution takes place on the CPU.
    #[error("{device} is lost")]
    Lost {
        /// The GPU.
        device: Box<DeviceInfo>,
        /// What the driver said.
        #[source]
        failure: DriverFailure,
    },
}

impl fmt::Display for ExecutedOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("the CPU"),
            Self::Gpu(device) => write!(f, "{device}"),
            Self::CpuInstead { device, reason } => {
                write!(f, "the CPU instead of {device}: {reason}")
            }
        }
    }
}

impl fmt::Display for ExecutionDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.gpu() {
            None => f.write_str("the CPU"),
            Some(device) => write!(f, "{device}"),
        }
    }
}

impl ExecutionDevice {
    /// The CPU.
    #[must_use]
    pub const fn cpu() -> Self {
        Self { gpu: None }
    }

    /// A device that has passed the check.
    pub(crate) fn of(device: Box<dyn KernelDevice>) -> Self {
        let gpu = SharedGpu {
            device,
            state: Mutex::new(State::Empty),
        };
        Self {
            gpu: Some(Arc::new(gpu)),
        }
    }

    /// The GPU, if there is one.
    #[must_use]
    pub fn gpu(&self) -> Option<&DeviceInfo> {
        self.gpu.as_ref().map(|gpu| gpu.device.info())
    }

    /// Executes a model on one input (quantised, in storage order) and gives every tensor.
    ///
    /// A program that does not fit the GPU, or has an operator without kernel, is executed on the CPU, whole. A GPU that
    /// fails in the middle ends this execution with an error, and all that follow take place on the CPU.
    ///
    /// # Errors
    /// If the input is not one that the model takes, or the GPU fails.
    // A failed GPU is an error and no silent second execution: the caller knows how much time there is. The provider's agent
    // tries failed work again as long as the lease's deadline allows (`tg_provider::lease`) and says why, and its second try
    // is on the CPU because the device is marked here.
    pub fn execute(
        &self,
        model: &ExecutableModel,
        input: IntTensor,
    ) -> Result<Executed, ExecutionError> {
        let on = match &self.gpu {
            None => ExecutedOn::Cpu,
            Some(gpu) => {
                let device = Box::new(gpu.device.info().clone());
                match gpu.trace(model, &input) {
                    Ok(trace) => {
                        let on = ExecutedOn::Gpu(device);
                        return Ok(Executed { trace, on });
                    }
                    Err(TraceError::Instead(reason)) => {
                        let reason = Box::new(reason);
                        ExecutedOn::CpuInstead { device, reason }
                    }
                    Err(TraceError::Input(error)) => return Err(error.into()),
                    Err(TraceError::Lost(failure)) => {
                        return Err(ExecutionError::Lost { device, failure });
                    }
                }
            }
        };
        let trace = execute_tensor(model, input)?;
        Ok(Executed { trace, on })
    }
}

/// A GPU and what it holds.
struct SharedGpu {
    device: Box<dyn KernelDevice>,
    state: Mutex<State>,
}

/// What a GPU holds.
enum State {
    /// Nothing.
    Empty,
    /// A model.
    Holds(ProgramId, Box<DeviceEngine>),
    /// Nothing any more: after an error the driver gives no more results in this process.
    Lost(DriverFailure),
}

/// Why a GPU gave no trace.
enum TraceError {
    Instead(InsteadReason),
    Input(ExecuteError),
    Lost(DriverFailure),
}

impl fmt::Debug for SharedGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("SharedGpu");
        shown
            .field("device", self.device.info())
            .finish_non_exhaustive()
    }
}

impl SharedGpu {
    fn trace(&self, model: &ExecutableModel, input: &IntTensor) -> Result<Trace, TraceError> {
        // A panic of another thread leaves a model that is loaded whole: every run writes all that it reads.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = self.trace_in(&mut state, model, input);
        if let Err(TraceError::Lost(failure)) = &result {
            *state = State::Lost(failure.clone());
        }
        result
    }

    fn trace_in(
        &self,
        state: &mut State,
        model: &ExecutableModel,
        input: &IntTensor,
    ) -> Result<Trace, TraceError> {
        // Weights are part of a program's identity by their root.
        let program = model.program.id();
        match state {
            State::Lost(failure) => {
                return Err(TraceError::Instead(InsteadReason::Lost(failure.clone())));
            }
            State::Holds(held, _) if *held == program => {}
            State::Empty | State::Holds(..) => {
                // The memory of the last model is given back first.
                *state = State::Empty;
                let engine = DeviceEngine::new(&*self.device, model, Keep::Trace);
                let engine = engine.map_err(|error| match error {
                    OpenError::Unfit(unfit) => TraceError::Instead(unfit.into()),
                    OpenError::Driver(failure) => TraceError::Lost(failure),
                })?;
                *state = State::Holds(program, Box::new(engine));
            }
        }
        let State::Holds(_, engine) = state else {
            unreachable!("a model was loaded above")
        };
        engine.trace(input).map_err(|error| match error {
            RunError::Input(error) => TraceError::Input(error),
            RunError::Driver(failure) => TraceError::Lost(failure),
        })
    }
}

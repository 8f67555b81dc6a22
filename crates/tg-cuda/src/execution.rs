//! Where programs are executed: on the CPU, or on a GPU that has passed the check.

use super::engine::{DeviceEngine, OpenError, RunError, Unfit};
use super::kernel_device::KernelDevice;
use super::plan::Keep;
use super::probe::{DeviceInfo, DriverFailure};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tg_exec::engine::Engine;
use tg_exec::engine::values::Values;
use tg_exec::execute::{ExecuteError, Trace, execute_tensor};
use tg_exec::kernels::Cpu;
use tg_ir::ExecutableModel;
use tg_ir::IntTensor;
use tg_types::ProgramId;

/// Models that a GPU holds at once, at most: what is not used any more gives its memory back in the end.
const MODELS_MAX: usize = 16;

/// Executes programs: on the CPU, or on a GPU with the CPU beside it. The results are the same bits.
///
/// A GPU holds the models that were asked for last, as many as its memory takes, and runs one input at a time; who comes
/// meanwhile waits. Copies share the GPU.
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

/// The outputs of an execution and where it took place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The outputs, in the program's order and each in storage order.
    pub outputs: Vec<IntTensor>,
    /// Where.
    pub on: ExecutedOn,
}

/// A model's engine on the CPU: made when it is first needed and kept, for answers without the tensors in between.
#[derive(Debug, Default)]
pub struct CpuAnswers(Mutex<Option<Engine>>);

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
            state: Mutex::new(State::Holds(Vec::new())),
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
        match self.on_gpu(model, Keep::Trace, |engine| engine.trace(&input))? {
            (Some(trace), on) => Ok(Executed { trace, on }),
            (None, on) => {
                let trace = execute_tensor(model, input)?;
                Ok(Executed { trace, on })
            }
        }
    }

    /// Executes a model on one input as [`Self::execute`] does, and gives its outputs alone: the tensors in between are
    /// neither kept nor, from a GPU, copied. `cpu` is this model's and no other's.
    ///
    /// # Errors
    /// As [`Self::execute`].
    pub fn answer(
        &self,
        model: &ExecutableModel,
        input: &IntTensor,
        cpu: &CpuAnswers,
    ) -> Result<Answered, ExecutionError> {
        match self.on_gpu(model, Keep::Output, |engine| engine.outputs(input))? {
            (Some(outputs), on) => Ok(Answered { outputs, on }),
            (None, on) => {
                let outputs = cpu.outputs(model, input)?;
                Ok(Answered { outputs, on })
            }
        }
    }

    /// How long a GPU takes for each node of a model when outputs alone are asked for, by the node's index; nothing on the CPU.
    /// A requantisation counts as a part of the product that it is fused with.
    ///
    /// # Errors
    /// As [`Self::execute`].
    pub fn node_times(
        &self,
        model: &ExecutableModel,
        input: &IntTensor,
    ) -> Result<Option<Vec<(usize, Duration)>>, ExecutionError> {
        let (times, _) = self.on_gpu(model, Keep::Output, |engine| engine.node_times(input))?;
        Ok(times)
    }

    /// What a GPU does with a model, unless it is done on the CPU, and where.
    fn on_gpu<T>(
        &self,
        model: &ExecutableModel,
        keep: Keep,
        run: impl FnOnce(&mut DeviceEngine) -> Result<T, RunError>,
    ) -> Result<(Option<T>, ExecutedOn), ExecutionError> {
        let Some(gpu) = &self.gpu else {
            return Ok((None, ExecutedOn::Cpu));
        };
        let device = Box::new(gpu.device.info().clone());
        match gpu.run(model, keep, run) {
            Ok(done) => Ok((Some(done), ExecutedOn::Gpu(device))),
            Err(GpuError::Instead(reason)) => {
                let reason = Box::new(reason);
                Ok((None, ExecutedOn::CpuInstead { device, reason }))
            }
            Err(GpuError::Input(error)) => Err(error.into()),
            Err(GpuError::Lost(failure)) => Err(ExecutionError::Lost { device, failure }),
        }
    }
}

impl CpuAnswers {
    fn outputs(
        &self,
        model: &ExecutableModel,
        input: &IntTensor,
    ) -> Result<Vec<IntTensor>, ExecuteError> {
        // A panic of another thread leaves an engine that begins anew: every run writes all that it reads.
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let engine = kept.get_or_insert_with(|| {
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            Engine::new(model, Cpu::new(threads))
        });
        engine.run(input.into())?;
        Ok(engine.outputs().map(Values::to_tensor).collect())
    }
}

/// A GPU and what it holds.
struct SharedGpu {
    device: Box<dyn KernelDevice>,
    state: Mutex<State>,
}

/// What a GPU holds.
enum State {
    /// Models, the one used last at the end.
    Holds(Vec<Held>),
    /// Nothing any more: after an error the driver gives no more results in this process.
    Lost(DriverFailure),
}

/// A model in a GPU's memory.
struct Held {
    program: ProgramId,
    keep: Keep,
    engine: DeviceEngine,
}

/// Why a GPU gave nothing.
enum GpuError {
    Instead(InsteadReason),
    Input(ExecuteError),
    Lost(DriverFailure),
}

impl From<OpenError> for GpuError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Unfit(unfit) => Self::Instead(unfit.into()),
            OpenError::Driver(failure) => Self::Lost(failure),
        }
    }
}

impl From<RunError> for GpuError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Input(error) => Self::Input(error),
            RunError::Driver(failure) => Self::Lost(failure),
        }
    }
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
    fn run<T>(
        &self,
        model: &ExecutableModel,
        keep: Keep,
        run: impl FnOnce(&mut DeviceEngine) -> Result<T, RunError>,
    ) -> Result<T, GpuError> {
        // A panic of another thread leaves models that are loaded whole: every run writes all that it reads.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let held = match &mut *state {
            State::Holds(held) => held,
            State::Lost(failure) => {
                return Err(GpuError::Instead(InsteadReason::Lost(failure.clone())));
            }
        };
        let engine = self.loaded(held, model, keep);
        let result = engine.and_then(|engine| Ok(run(engine)?));
        if let Err(GpuError::Lost(failure)) = &result {
            *state = State::Lost(failure.clone());
        }
        result
    }

    /// The model in the GPU's memory; it is uploaded if it is not there, and others give way to it, the ones that were used
    /// longest ago first.
    fn loaded<'a>(
        &self,
        held: &'a mut Vec<Held>,
        model: &ExecutableModel,
        keep: Keep,
    ) -> Result<&'a mut DeviceEngine, GpuError> {
        // Weights are part of a program's identity by their root.
        let program = model.program.id();
        let known = held
            .iter()
            .position(|other| other.program == program && other.keep == keep);
        let next = if let Some(index) = known {
            held.remove(index)
        } else {
            if held.len() >= MODELS_MAX {
                held.remove(0);
            }
            let engine = loop {
                match DeviceEngine::new(&*self.device, model, keep) {
                    // What never fits drives nobody out.
                    Err(OpenError::Unfit(Unfit::Memory { need, .. }))
                        if !held.is_empty() && need <= self.device.info().memory_bytes =>
                    {
                        held.remove(0);
                    }
                    opened => break opened?,
                }
            };
            Held {
                program,
                keep,
                engine,
            }
        };
        held.push(next);
        Ok(&mut held.last_mut().expect("an entry was pushed").engine)
    }
}

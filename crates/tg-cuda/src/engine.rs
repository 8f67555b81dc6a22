//! A model on a GPU: uploaded once, run as often as wanted.

use super::device::{Loaded, code_for};
use super::nvrtc::NvrtcError;
use super::plan::{Address, Keep, Plan};
use super::probe::{self, DeviceInfo, DriverFailure, Missing, Way};
use tg_exec::engine::Engine;
use tg_exec::engine::values::Values;
use tg_exec::execute::{ExecuteError, IntTensor, Trace, check_input};
use tg_exec::kernels::Cpu;
use tg_ir::{CompiledModel, Program, TensorId};

/// Why a model is not run on a GPU.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// The driver or the compiler is not there, or does not start.
    #[error("no GPU can be used")]
    Missing(#[from] Missing),
    /// There is no such device.
    #[error("there is no GPU {ordinal}: the driver sees {count}")]
    NoSuchDevice {
        /// The index that was asked for.
        ordinal: usize,
        /// Devices.
        count: usize,
    },
    /// The device is too old.
    #[error("GPU {ordinal} ({name}) has compute capability {}.{}, below 6.1", .capability[0], .capability[1])]
    TooOld {
        /// Its index.
        ordinal: usize,
        /// Its name.
        name: String,
        /// Major and minor version.
        capability: [u32; 2],
    },
    /// The kernels could not be compiled.
    #[error("the kernels are not compiled for the GPU")]
    Compile(#[from] NvrtcError),
    /// The driver refused something, such as memory.
    #[error(transparent)]
    Driver(#[from] DriverFailure),
    /// The input is not one that the model takes.
    #[error(transparent)]
    Input(#[from] ExecuteError),
    /// A trace was asked of an engine that keeps the output only.
    #[error("the engine keeps the output only; make it with Keep::Trace")]
    NotKept,
}

/// A model on a device, ready to run.
pub struct CudaEngine {
    program: Program,
    device: DeviceInfo,
    keep: Keep,
    tensors: Vec<Option<Address>>,
    loaded: Loaded,
}

impl std::fmt::Debug for CudaEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CudaEngine")
            .field("program", &self.program.name)
            .field("device", &self.device)
            .field("keep", &self.keep)
            .field("launches", &self.loaded.launches())
            .finish_non_exhaustive()
    }
}

impl CudaEngine {
    /// Compiles the kernels for a device (once per process and architecture: some seconds), uploads a model and lays
    /// out its memory.
    ///
    /// # Errors
    /// If there is no such device, it is too old, or the driver or compiler is missing or refuses.
    ///
    /// # Panics
    /// If the model is not valid: check it with [`Program::validate`] and [`tg_ir::Weights::check`], as
    /// [`CompiledModel::read`] does.
    pub fn new(model: &CompiledModel, ordinal: usize, keep: Keep) -> Result<Self, CudaError> {
        let device = find(ordinal)?;
        let code = code_for(device.capability_number())?;
        let plan = Plan::of(model, keep, device.multiprocessors);
        let loaded = Loaded::new(&device, &code, &plan)?;
        Ok(Self {
            program: model.program.clone(),
            device,
            keep,
            tensors: plan.tensors,
            loaded,
        })
    }

    /// The device in use.
    #[must_use]
    pub const fn device(&self) -> &DeviceInfo {
        &self.device
    }

    /// Bytes of device memory: the model's constants and the tensors.
    #[must_use]
    pub fn device_bytes(&self) -> [usize; 2] {
        self.loaded.bytes()
    }

    /// The output for one input.
    ///
    /// # Errors
    /// If the input is not one that the model takes, or the driver fails.
    pub fn output(&mut self, input: &IntTensor) -> Result<IntTensor, CudaError> {
        self.execute(input)?;
        self.download(self.program.output())
    }

    /// Every tensor for one input.
    ///
    /// # Errors
    /// As [`Self::output`], or if the engine keeps the output only.
    pub fn trace(&mut self, input: &IntTensor) -> Result<Trace, CudaError> {
        if self.keep != Keep::Trace {
            return Err(CudaError::NotKept);
        }
        self.execute(input)?;
        let mut tensors = vec![input.clone()];
        for node in 0..self.program.nodes.len() {
            tensors.push(self.download(TensorId::of_node(node))?);
        }
        Ok(Trace::from_tensors(tensors))
    }

    /// Uploads the input and runs every kernel.
    fn execute(&mut self, input: &IntTensor) -> Result<(), CudaError> {
        check_input(&self.program, Values::from(input))?;
        if let Some(address) = self.tensors[0] {
            self.loaded.write(address, &input.to_bytes())?;
        }
        Ok(self.loaded.run(|_| true)?)
    }

    fn download(&self, id: TensorId) -> Result<IntTensor, CudaError> {
        let kind = self.program.element_type(id);
        let length = self.program.shape(id).elements() * kind.bytes();
        let address = self.tensors[id.index()].ok_or(CudaError::NotKept)?;
        let bytes = self.loaded.read(address, length)?;
        Ok(IntTensor::from_bytes(kind, &bytes).expect("whole elements"))
    }
}

/// The device, if it can be used.
pub(crate) fn find(ordinal: usize) -> Result<DeviceInfo, CudaError> {
    probe::start_driver()?;
    let count = probe::device_count()?;
    if ordinal >= count {
        return Err(CudaError::NoSuchDevice { ordinal, count });
    }
    let device = probe::device(ordinal)?;
    if device.way() == Way::None {
        return Err(CudaError::TooOld {
            ordinal,
            name: device.name,
            capability: device.capability,
        });
    }
    Ok(device)
}

/// What to do where no GPU can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// Say why.
    Refuse,
    /// Run on the CPU; the results are the same bits.
    Cpu,
}

/// A model on a GPU, or on the CPU if that was allowed.
#[derive(Debug)]
pub enum Executor {
    /// On a GPU.
    Cuda(Box<CudaEngine>),
    /// On the CPU.
    Cpu {
        /// The engine.
        engine: Box<Engine>,
        /// What it keeps.
        keep: Keep,
        /// Why it is not on a GPU.
        reason: CudaError,
    },
}

impl Executor {
    /// Makes a model ready on a device, or on the CPU if that fails and `fallback` allows it.
    ///
    /// # Errors
    /// As [`CudaEngine::new`], unless `fallback` allows the CPU.
    ///
    /// # Panics
    /// As [`CudaEngine::new`].
    pub fn open(
        model: &CompiledModel,
        ordinal: usize,
        keep: Keep,
        fallback: Fallback,
    ) -> Result<Self, CudaError> {
        match (CudaEngine::new(model, ordinal, keep), fallback) {
            (Ok(engine), _) => Ok(Self::Cuda(Box::new(engine))),
            (Err(reason), Fallback::Refuse) => Err(reason),
            (Err(reason), Fallback::Cpu) => {
                let cpu = Cpu::default();
                let engine = match keep {
                    Keep::Output => Engine::new(model, cpu),
                    Keep::Trace => Engine::for_trace(model, cpu),
                };
                let engine = Box::new(engine);
                Ok(Self::Cpu {
                    engine,
                    keep,
                    reason,
                })
            }
        }
    }

    /// The output for one input.
    ///
    /// # Errors
    /// As [`CudaEngine::output`].
    pub fn output(&mut self, input: &IntTensor) -> Result<IntTensor, CudaError> {
        match self {
            Self::Cuda(engine) => engine.output(input),
            Self::Cpu { engine, .. } => Ok(engine.run(Values::from(input))?.to_tensor()),
        }
    }

    /// Every tensor for one input.
    ///
    /// # Errors
    /// As [`CudaEngine::trace`].
    pub fn trace(&mut self, input: &IntTensor) -> Result<Trace, CudaError> {
        match self {
            Self::Cuda(engine) => engine.trace(input),
            Self::Cpu {
                keep: Keep::Output, ..
            } => Err(CudaError::NotKept),
            Self::Cpu { engine, .. } => Ok(engine.trace(Values::from(input))?),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::probe::probe;
    use crate::tests::say;
    use std::time::{Duration, Instant};
    use tg_exec::execute::execute_tensor;
    use tg_exec::sample::wide::random_program;
    use tg_ir::{InputSpec, LinearWeights, Node, Op, Shape, Weights, Window};

    /// The devices to test on; none, loudly.
    fn devices() -> Vec<usize> {
        let found = probe();
        for missing in &found.missing {
            say(&format!("SKIPPED: nothing runs on a GPU: {missing}"));
        }
        found.usable().map(|device| device.ordinal).collect()
    }

    #[test]
    fn random_programs_are_bit_equal_on_every_device() {
        for ordinal in devices() {
            for seed in 0..400 {
                let (model, input) = random_program(seed);
                let expected = execute_tensor(&model, input.clone()).unwrap();
                let mut engine = CudaEngine::new(&model, ordinal, Keep::Trace).unwrap();
                assert_eq!(engine.trace(&input).unwrap(), expected, "seed {seed}");
                let mut engine = CudaEngine::new(&model, ordinal, Keep::Output).unwrap();
                for _ in 0..2 {
                    assert_eq!(&engine.output(&input).unwrap(), expected.output());
                }
                assert_eq!(engine.trace(&input), Err(CudaError::NotKept));
            }
        }
    }

    /// A convolution that is a matrix product of `rows` x `depth` by `depth` x `columns`.
    fn product(rows: u32, depth: u32, columns: u32) -> (CompiledModel, IntTensor) {
        let mut numbers = tg_exec::sample::Numbers::new(7);
        let count = (columns * depth) as usize;
        let layer = LinearWeights {
            weights: (0..count).map(|_| numbers.activation().max(-127)).collect(),
            bias: vec![0; columns as usize],
        };
        let weights = Weights {
            layers: vec![layer],
        };
        let shape = Shape::new(rows, 1, depth);
        let input = (0..shape.elements())
            .map(|_| numbers.activation())
            .collect();
        let program = Program {
            name: "product".to_owned(),
            input: InputSpec::scaled(shape, 1.0),
            nodes: vec![Node {
                name: "product".to_owned(),
                op: Op::conv(TensorId::INPUT, Window::new([1, 1], [1, 1], [0; 4])),
                shape: Shape::new(rows, 1, columns),
                scale: 1.0,
            }],
            ties: Vec::new(),
            weights_root: weights.root(),
        };
        (CompiledModel { program, weights }, IntTensor::I8(input))
    }

    /// Prints the rate of a large product on every device: input and output travel, so kernels are timed alone.
    #[test]
    fn the_rate_of_a_large_product() {
        for ordinal in devices() {
            let (rows, depth, columns) = (4_096, 4_096, 4_096);
            let (model, input) = product(rows, depth, columns);
            let expected = execute_tensor(&model, input.clone()).unwrap();
            let mut engine = CudaEngine::new(&model, ordinal, Keep::Output).unwrap();
            assert_eq!(&engine.output(&input).unwrap(), expected.output());
            let mut least = Duration::MAX;
            for _ in 0..10 {
                let start = Instant::now();
                engine.loaded.run(|_| true).unwrap();
                least = least.min(start.elapsed());
            }
            let operations = 2.0 * f64::from(rows) * f64::from(depth) * f64::from(columns);
            let rate = operations / least.as_secs_f64() / 1e12;
            let name = &engine.device().name;
            say(&format!(
                "{name}: {rate:.1} Tera-operations of i8 per second"
            ));
        }
    }

    /// Wherever this runs: either on a GPU or, if allowed, on the CPU with a reason; the bits are the same.
    #[test]
    fn the_cpu_is_used_only_if_allowed() {
        let (model, input) = random_program(5);
        let expected = execute_tensor(&model, input.clone()).unwrap();
        let absent = 1_000_000;
        let refused = Executor::open(&model, absent, Keep::Trace, Fallback::Refuse).unwrap_err();
        let is_expected = matches!(
            refused,
            CudaError::Missing(_) | CudaError::NoSuchDevice { .. } | CudaError::Driver(_)
        );
        assert!(is_expected, "{refused:?}");
        let mut executor = Executor::open(&model, absent, Keep::Trace, Fallback::Cpu).unwrap();
        assert_eq!(executor.trace(&input).unwrap(), expected);
        assert_eq!(&executor.output(&input).unwrap(), expected.output());
        let Executor::Cpu { reason, .. } = &executor else {
            panic!("there is no such GPU");
        };
        assert_eq!(reason, &refused);
        let mut executor = Executor::open(&model, absent, Keep::Output, Fallback::Cpu).unwrap();
        assert_eq!(&executor.output(&input).unwrap(), expected.output());
        assert_eq!(executor.trace(&input), Err(CudaError::NotKept));
        assert!(executor.output(&IntTensor::I8(Vec::new())).is_err());
    }
}

//! A GPU: its kernels, and plans in its memory.
#![allow(unsafe_code, reason = "kernels are launched with raw arguments")]

use super::error::CudaError;
use super::kernel_device::{KernelDevice, LoadError, LoadedPlan};
use super::kernels;
use super::nvrtc::{Nvrtc, NvrtcError, Target};
use super::plan::{Address, Plan, Region};
use super::probe::{self, DeviceInfo, DriverFailure, Way};
use cudarc::driver::sys::{CUevent_flags, CUgraphInstantiate_flags, CUresult, CUstreamCaptureMode};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaGraph, CudaModule, CudaSlice, CudaStream, DevicePtr, DeviceRepr,
    DriverError, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use tg_ir::{ElementType, IntTensor};

/// The arguments of one kernel: longer than any.
#[derive(Clone, Copy)]
#[repr(C)]
struct Words([u64; WORDS]);

/// Words of the longest arguments (those of a matrix product take 30).
const WORDS: usize = 32;

// SAFETY: plain integers, copied bit by bit into a kernel's parameters.
unsafe impl DeviceRepr for Words {}

/// A kernel with all that it takes to run it.
struct Bound {
    node: usize,
    function: CudaFunction,
    arguments: Words,
    grid: (u32, u32, u32),
    threads: u32,
}

/// A GPU with its kernels.
pub(crate) struct Gpu {
    info: DeviceInfo,
    kernels: Compiled,
    driver: [u32; 2],
    context: Arc<CudaContext>,
    module: Arc<CudaModule>,
}

impl Gpu {
    /// Opens the device that the driver counts at this place and compiles the kernels for it (once per process and
    /// architecture: some seconds).
    ///
    /// # Errors
    /// If there is no such device, it is too old, or the driver or compiler is missing or refuses.
    pub(crate) fn open(ordinal: usize) -> Result<Self, CudaError> {
        let driver = probe::start_driver()?;
        let info = usable_device(ordinal)?;
        let kernels = compiled_for(info.capability_number())?;
        let context = CudaContext::new(ordinal).map_err(DriverFailure::of("open the device"))?;
        let module = context
            .load_module(Ptx::from_binary(kernels.code.to_vec()))
            .map_err(DriverFailure::of("load the kernels"))?;
        Ok(Self {
            info,
            kernels,
            driver,
            context,
            module,
        })
    }

    /// For what the kernels were compiled, the compiler's version and the newest CUDA version that the driver serves.
    pub(crate) const fn versions(&self) -> (Target, [u32; 2], [u32; 2]) {
        (self.kernels.target, self.kernels.compiler, self.driver)
    }
}

/// Held to read while kernels are recorded. Making the first stream of a device waits for all of its work, which the driver refuses while one of its streams
/// records, whichever thread asks.
static RECORDING: RwLock<()> = RwLock::new(());

impl KernelDevice for Gpu {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn free_bytes(&self) -> Option<u64> {
        let (free, _) = self.context.mem_get_info().ok()?;
        u64::try_from(free).ok()
    }

    fn load(&self, plan: &Plan) -> Result<Box<dyn LoadedPlan>, LoadError> {
        let stream = {
            let _nothing_is_recorded = RECORDING.write().unwrap_or_else(PoisonError::into_inner);
            self.context
                .new_stream()
                .map_err(DriverFailure::of("make a stream"))?
        };
        let constants = stream
            .clone_htod(&plan.constants)
            .map_err(DriverFailure::of("upload the model"))?;
        let arena = stream
            .alloc_zeros::<u8>(plan.arena_bytes)
            .map_err(DriverFailure::of("reserve memory for tensors"))?;
        let bases = [&constants, &arena].map(|slice| slice.device_ptr(&stream).0);
        let launches = bind(&self.module, plan, bases)?;
        stream
            .synchronize()
            .map_err(DriverFailure::of("upload the model"))?;
        Ok(Box::new(OnGpu {
            launches,
            replay: None,
            constants,
            arena,
            stream,
        }))
    }
}

/// A plan that a GPU holds.
struct OnGpu {
    launches: Vec<Bound>,
    /// All launches, recorded at the first run.
    replay: Option<Replay>,
    constants: CudaSlice<u8>,
    arena: CudaSlice<u8>,
    stream: Arc<CudaStream>,
}

/// An integer of a tensor.
trait TensorInteger: DeviceRepr {}
impl TensorInteger for u8 {}
impl TensorInteger for i8 {}
impl TensorInteger for i16 {}
impl TensorInteger for i32 {}

/// Recorded launches.
struct Replay(CudaGraph);

// SAFETY: a graph may be used by any thread, by one at a time: it is part of one [`OnGpu`], whose methods that use it take it
// by `&mut`, and the driver's calls in it bind its context to the thread first.
unsafe impl Send for Replay {}

impl LoadedPlan for OnGpu {
    fn write(&mut self, address: Address, bytes: &[u8]) -> Result<(), DriverFailure> {
        assert_eq!(address.region, Region::Arena, "constants are not written");
        let range = address.offset..address.offset + bytes.len();
        let mut place = self.arena.slice_mut(range);
        self.stream
            .memcpy_htod(bytes, &mut place)
            .and_then(|()| self.stream.synchronize())
            .map_err(DriverFailure::of("upload a tensor"))
    }

    fn read(&self, address: Address, length: usize) -> Result<Vec<u8>, DriverFailure> {
        self.download(address, vec![0u8; length])
    }

    /// Straight into the tensor: the elements lie on the device as they do here, little end first.
    fn read_tensor(
        &self,
        address: Address,
        kind: ElementType,
        count: usize,
    ) -> Result<IntTensor, DriverFailure> {
        Ok(match kind {
            ElementType::I8 => IntTensor::I8(self.download(address, vec![0; count])?),
            ElementType::I16 => IntTensor::I16(self.download(address, vec![0; count])?),
            ElementType::I32 => IntTensor::I32(self.download(address, vec![0; count])?),
        })
    }

    fn run(&mut self) -> Result<(), DriverFailure> {
        if self.replay.is_none() {
            self.replay = Some(self.record()?);
        }
        let Some(Replay(graph)) = &self.replay else {
            unreachable!("recorded above")
        };
        graph
            .launch()
            .map_err(DriverFailure::of("launch the kernels"))?;
        self.wait()
    }

    fn run_node(&mut self, node: usize) -> Result<(), DriverFailure> {
        self.launch(|bound| bound.node == node)?;
        self.wait()
    }

    fn time_node(&mut self, node: usize, times: u32) -> Result<Duration, DriverFailure> {
        let failed = || DriverFailure::of("time a kernel");
        let event = || {
            let flags = CUevent_flags::CU_EVENT_DEFAULT;
            self.stream.record_event(Some(flags)).map_err(failed())
        };
        let start = event()?;
        for _ in 0..times {
            self.launch(|bound| bound.node == node)?;
        }
        let end = event()?;
        let milliseconds = start.elapsed_ms(&end).map_err(failed())?;
        Ok(Duration::from_secs_f32(milliseconds.max(0.0) / 1e3))
    }
}

impl OnGpu {
    /// Fills a list of integers with what lies at a place.
    fn download<T: TensorInteger>(
        &self,
        address: Address,
        mut list: Vec<T>,
    ) -> Result<Vec<T>, DriverFailure> {
        let region = match address.region {
            Region::Constants => &self.constants,
            Region::Arena => &self.arena,
        };
        let length = list.len() * size_of::<T>();
        let bytes = region.slice(address.offset..address.offset + length);
        // SAFETY: as many elements as there are bytes for; any bits are an integer, and buffers start at multiples of 256 bytes.
        let place = unsafe { bytes.transmute::<T>(list.len()) }.expect("bytes for every element");
        self.stream
            .memcpy_dtoh(&place, &mut list)
            .and_then(|()| self.stream.synchronize())
            .map_err(DriverFailure::of("download a tensor"))?;
        Ok(list)
    }

    /// Puts kernels into the stream, in order.
    fn launch(&self, wanted: impl Fn(&Bound) -> bool) -> Result<(), DriverFailure> {
        for bound in self.launches.iter().filter(|bound| wanted(bound)) {
            let configuration = LaunchConfig {
                grid_dim: bound.grid,
                block_dim: (bound.threads, 1, 1),
                shared_mem_bytes: 0,
            };
            let mut builder = self.stream.launch_builder(&bound.function);
            builder.arg(&bound.arguments);
            // SAFETY: the arguments are those of the kernel's C structure, and at least as long. Their addresses point
            // into `constants` and `arena`, which live as long as `self`, and the plan keeps every access inside its
            // tensor for a valid model. Kernels of one stream run one after the other.
            unsafe { builder.launch(configuration) }
                .map_err(DriverFailure::of("launch a kernel"))?;
        }
        Ok(())
    }

    /// All kernels as one graph: a launch of hundreds costs as much as that of one.
    fn record(&self) -> Result<Replay, DriverFailure> {
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        let failed = || DriverFailure::of("record the kernels");
        let _recording = RECORDING.read().unwrap_or_else(PoisonError::into_inner);
        self.stream.begin_capture(mode).map_err(failed())?;
        let launched = self.launch(|_| true);
        // Ends the recording, whatever became of it.
        let graph = self.stream.end_capture(CUgraphInstantiate_flags(0));
        launched?;
        let graph = graph.map_err(failed())?;
        let none = || failed()(DriverError(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED));
        Ok(Replay(graph.ok_or_else(none)?))
    }

    fn wait(&self) -> Result<(), DriverFailure> {
        self.stream
            .synchronize()
            .map_err(DriverFailure::of("run the kernels"))
    }
}

/// A device that the kernels can run on, of a started driver.
fn usable_device(ordinal: usize) -> Result<DeviceInfo, CudaError> {
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

/// The kernels as device code.
#[derive(Clone)]
struct Compiled {
    code: Arc<Vec<u8>>,
    target: Target,
    compiler: [u32; 2],
}

/// The kernels for a compute capability; compiled once per process.
fn compiled_for(capability: u32) -> Result<Compiled, NvrtcError> {
    static COMPILED: Mutex<BTreeMap<u32, Compiled>> = Mutex::new(BTreeMap::new());
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = compiled.get(&capability) {
        return Ok(found.clone());
    }
    let compiler = Nvrtc::load()?;
    let target = Target::of(capability, &compiler.architectures()?)
        .ok_or(NvrtcError::NoTarget { capability })?;
    let made = Compiled {
        code: Arc::new(compiler.compile(kernels::SOURCE, target)?),
        target,
        compiler: compiler.version()?,
    };
    compiled.insert(capability, made.clone());
    Ok(made)
}

/// Launches with their functions and addresses.
fn bind(
    module: &Arc<CudaModule>,
    plan: &Plan,
    [constants, arena]: [u64; 2],
) -> Result<Vec<Bound>, LoadError> {
    let mut functions: BTreeMap<&str, CudaFunction> = BTreeMap::new();
    let mut result = Vec::with_capacity(plan.launches.len());
    for launch in &plan.launches {
        let function = match functions.get(launch.kernel) {
            Some(function) => function.clone(),
            None => {
                let found = module.load_function(launch.kernel);
                let function = found.map_err(|error| match error.0 {
                    CUresult::CUDA_ERROR_NOT_FOUND => LoadError::from(plan.no_kernel(launch.node)),
                    _ => DriverFailure::of("find a kernel")(error).into(),
                })?;
                functions.insert(launch.kernel, function.clone());
                function
            }
        };
        let [x, y, z] = launch.grid;
        result.push(Bound {
            node: launch.node,
            function,
            arguments: words(&launch.arguments.bound(constants, arena)),
            grid: (x, y, z),
            threads: launch.threads,
        });
    }
    Ok(result)
}

fn words(bytes: &[u8]) -> Words {
    let mut words = [0; WORDS];
    let chunks = bytes.as_chunks::<8>().0;
    assert!(chunks.len() <= WORDS, "arguments are shorter than that");
    for (word, chunk) in words.iter_mut().zip(chunks) {
        *word = u64::from_ne_bytes(*chunk);
    }
    Words(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_copied_whole() {
        let bytes: Vec<u8> = (0..16).collect();
        let Words(words) = words(&bytes);
        assert_eq!(words[0].to_ne_bytes(), bytes[..8]);
        assert_eq!(words[1].to_ne_bytes(), bytes[8..]);
        assert_eq!(words[2..], [0; WORDS - 2]);
    }
}

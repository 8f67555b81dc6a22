//! The memory and the kernels of a plan on a GPU.
#![allow(unsafe_code, reason = "kernels are launched with raw arguments")]

use super::kernels;
use super::nvrtc::{Nvrtc, NvrtcError, Target};
use super::plan::{Address, Launch, Plan, Region};
use super::probe::{DeviceInfo, DriverFailure};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaModule, CudaSlice, CudaStream, DevicePtr, DeviceRepr,
    LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The arguments of one kernel: longer than any.
#[derive(Clone, Copy)]
#[repr(C)]
struct Words([u64; WORDS]);

/// Words of the longest arguments (those of a matrix product take 27).
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

/// A plan that a device holds.
pub(crate) struct Loaded {
    launches: Vec<Bound>,
    constants: CudaSlice<u8>,
    arena: CudaSlice<u8>,
    stream: Arc<CudaStream>,
}

impl Loaded {
    /// Uploads a plan's constants and reserves its memory on a device whose kernels are compiled.
    pub(crate) fn new(
        device: &DeviceInfo,
        code: &[u8],
        plan: &Plan,
    ) -> Result<Self, DriverFailure> {
        let context =
            CudaContext::new(device.ordinal).map_err(DriverFailure::of("open the device"))?;
        let stream = context
            .new_stream()
            .map_err(DriverFailure::of("make a stream"))?;
        let module = context
            .load_module(Ptx::from_binary(code.to_vec()))
            .map_err(DriverFailure::of("load the kernels"))?;
        let constants = stream
            .clone_htod(&plan.constants)
            .map_err(DriverFailure::of("upload the model"))?;
        let arena = stream
            .alloc_zeros::<u8>(plan.arena_bytes)
            .map_err(DriverFailure::of("reserve memory for tensors"))?;
        let bases = [&constants, &arena].map(|slice| slice.device_ptr(&stream).0);
        let launches = bind(&module, &plan.launches, bases)?;
        stream
            .synchronize()
            .map_err(DriverFailure::of("upload the model"))?;
        Ok(Self {
            launches,
            constants,
            arena,
            stream,
        })
    }

    /// Bytes of constants and of tensors.
    pub(crate) fn bytes(&self) -> [usize; 2] {
        [self.constants.len(), self.arena.len()]
    }

    /// Kernels of one execution.
    pub(crate) const fn launches(&self) -> usize {
        self.launches.len()
    }

    /// Writes bytes to a place among the tensors.
    ///
    /// # Panics
    /// If they do not fit.
    pub(crate) fn write(&mut self, address: Address, bytes: &[u8]) -> Result<(), DriverFailure> {
        assert_eq!(address.region, Region::Arena, "constants are not written");
        let range = address.offset..address.offset + bytes.len();
        let mut place = self.arena.slice_mut(range);
        self.stream
            .memcpy_htod(bytes, &mut place)
            .and_then(|()| self.stream.synchronize())
            .map_err(DriverFailure::of("upload a tensor"))
    }

    /// Reads bytes from a place.
    ///
    /// # Panics
    /// If the place is not inside its region.
    pub(crate) fn read(&self, address: Address, length: usize) -> Result<Vec<u8>, DriverFailure> {
        let mut bytes = vec![0u8; length];
        let region = match address.region {
            Region::Constants => &self.constants,
            Region::Arena => &self.arena,
        };
        let place = region.slice(address.offset..address.offset + length);
        self.stream
            .memcpy_dtoh(&place, &mut bytes)
            .and_then(|()| self.stream.synchronize())
            .map_err(DriverFailure::of("download a tensor"))?;
        Ok(bytes)
    }

    /// Runs the kernels of the wanted nodes in order and waits for the last one.
    pub(crate) fn run(&mut self, wanted: impl Fn(usize) -> bool) -> Result<(), DriverFailure> {
        for bound in self.launches.iter().filter(|bound| wanted(bound.node)) {
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
        self.stream
            .synchronize()
            .map_err(DriverFailure::of("run the kernels"))
    }
}

/// The kernels for a compute capability; compiled once per process.
pub(crate) fn code_for(capability: u32) -> Result<Arc<Vec<u8>>, NvrtcError> {
    static COMPILED: Mutex<BTreeMap<u32, Arc<Vec<u8>>>> = Mutex::new(BTreeMap::new());
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(code) = compiled.get(&capability) {
        return Ok(Arc::clone(code));
    }
    let compiler = Nvrtc::load()?;
    let target = Target::of(capability, &compiler.architectures()?)
        .ok_or(NvrtcError::NoTarget { capability })?;
    let code = Arc::new(compiler.compile(kernels::SOURCE, target)?);
    compiled.insert(capability, Arc::clone(&code));
    Ok(code)
}

/// Launches with their functions and addresses.
fn bind(
    module: &Arc<CudaModule>,
    launches: &[Launch],
    [constants, arena]: [u64; 2],
) -> Result<Vec<Bound>, DriverFailure> {
    let mut functions: BTreeMap<&str, CudaFunction> = BTreeMap::new();
    let mut result = Vec::with_capacity(launches.len());
    for launch in launches {
        let function = match functions.get(launch.kernel) {
            Some(function) => function.clone(),
            None => {
                let function = module
                    .load_function(launch.kernel)
                    .map_err(DriverFailure::of("find a kernel"))?;
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

//! The kernels compiled as C++ and run on the CPU: see `kernels/emulator.h`.
#![allow(
    unsafe_code,
    reason = "calls into a library that the test has compiled"
)]

use super::kernel_device::{KernelDevice, LoadError, LoadedPlan};
use super::kernels;
use super::plan::{Address, Arguments, Plan, Region};
use super::probe::{DeviceInfo, DriverFailure};
use super::tests::say;
use libloading::Library;
use std::ffi::{OsString, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

type Kernel = unsafe extern "C" fn(*const c_void);
type LaunchFunction =
    unsafe extern "C" fn(Kernel, *const c_uint, c_uint, u64, *const c_void) -> c_int;

/// A compiled set of kernels.
pub(crate) struct Emulator {
    library: Mutex<Library>,
}

/// What fresh memory holds.
const NOISE: u8 = 0xa5;
const ALIGNMENT: usize = 256;

/// Memory of one region, aligned as on a device.
struct Memory {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Memory {
    fn new(length: usize) -> Self {
        let bytes = vec![NOISE; length + ALIGNMENT];
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        Self {
            bytes,
            start,
            length,
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}

/// The memory of a plan.
pub(crate) struct Device {
    constants: Memory,
    arena: Memory,
}

impl Device {
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut constants = Memory::new(plan.constants.len());
        constants.bytes_mut().copy_from_slice(&plan.constants);
        Self {
            constants,
            arena: Memory::new(plan.arena_bytes),
        }
    }

    fn region(&self, region: Region) -> &Memory {
        match region {
            Region::Constants => &self.constants,
            Region::Arena => &self.arena,
        }
    }

    pub(crate) fn write(&mut self, address: Address, bytes: &[u8]) {
        let memory = match address.region {
            Region::Constants => &mut self.constants,
            Region::Arena => &mut self.arena,
        };
        memory.bytes_mut()[address.offset..][..bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn read(&self, address: Address, length: usize) -> &[u8] {
        &self.region(address.region).bytes()[address.offset..][..length]
    }
}

impl Emulator {
    /// The kernels with tensor cores or without; nothing, loudly, where there is no C++ compiler.
    pub(crate) fn get(tensor_cores: bool) -> Option<&'static Self> {
        static BOTH: [OnceLock<Option<Emulator>>; 2] = [const { OnceLock::new() }; 2];
        let made = BOTH[usize::from(tensor_cores)]
            .get_or_init(|| Self::compile(kernels::SOURCE, tensor_cores));
        made.as_ref()
    }

    /// The kernels, with tensor cores, of a source that a test has changed.
    pub(crate) fn of_changed(source: &str) -> Option<&'static Self> {
        assert_ne!(source, kernels::SOURCE, "something is changed");
        Self::compile(source, true).map(|made| &*Box::leak(Box::new(made)))
    }

    fn compile(kernels: &str, tensor_cores: bool) -> Option<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let folder = folder();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("kernels-{}-{count}", std::process::id());
        let source = folder.join(format!("{name}.cpp"));
        let target = folder.join(format!("{name}.so"));
        let text = [include_str!("kernels/emulator.h"), kernels].concat();
        std::fs::write(&source, text).expect("a temporary file can be written");
        let compiler = std::env::var_os("CXX").unwrap_or_else(|| OsString::from("c++"));
        let flags = [
            "-std=c++17",
            "-O1",
            "-shared",
            "-fPIC",
            "-Wno-unknown-pragmas",
            // Undefined behaviour ends the test process.
            "-fsanitize=undefined",
            "-fsanitize-undefined-trap-on-error",
        ];
        let result = Command::new(&compiler)
            .args(flags)
            .arg(format!("-DTENSOR_CORES={}", u8::from(tensor_cores)))
            .arg(&source)
            .arg("-o")
            .arg(&target)
            .output();
        let made = match result {
            Err(error) => {
                say(&format!(
                    "SKIPPED: no C++ compiler runs the kernels: {error}"
                ));
                None
            }
            Ok(output) => {
                let log = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "the kernels are not C++:\n{log}");
                // SAFETY: the library has just been made from our source; it has no initialisers.
                let library = unsafe { Library::new(&target) }.expect("a library can be loaded");
                Some(Self {
                    library: Mutex::new(library),
                })
            }
        };
        // A loaded library stays when its file goes; what cannot be removed is left behind.
        for file in [source, target] {
            let _ = std::fs::remove_file(file);
        }
        made
    }

    /// Whether a kernel is in the source.
    fn has(&self, kernel: &str) -> bool {
        let library = self.library.lock().expect("no test fails inside a kernel");
        // SAFETY: every kernel is such a function.
        unsafe { library.get::<Kernel>(kernel.as_bytes()) }.is_ok()
    }

    /// Runs a plan's launches for the nodes that are asked for, threads in an order drawn from a seed.
    pub(crate) fn run(
        &self,
        plan: &Plan,
        device: &mut Device,
        seed: u64,
        wanted: impl Fn(usize) -> bool,
    ) {
        let library = self.library.lock().expect("no test fails inside a kernel");
        // SAFETY: emulator.h defines the function with these types.
        let launch = unsafe { library.get::<LaunchFunction>(b"tg_launch") }.expect("defined");
        for launched in plan.launches.iter().filter(|launch| wanted(launch.node)) {
            let blob = bound(&launched.arguments, device);
            let name = launched.kernel.as_bytes();
            // SAFETY: every kernel is such a function.
            let kernel = unsafe { library.get::<Kernel>(name) }.expect("a kernel of the source");
            let words: Vec<u64> = blob
                .chunks_exact(8)
                .map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")))
                .collect();
            // SAFETY: the arguments are those of the kernel and point into memory that `device` owns; the lock makes
            // this the only thread inside the library.
            let result = unsafe {
                launch(
                    *kernel,
                    launched.grid.as_ptr(),
                    launched.threads,
                    seed,
                    words.as_ptr().cast(),
                )
            };
            assert_eq!(result, 0, "threads of {} wait in vain", launched.kernel);
        }
    }
}

fn bound(arguments: &Arguments, device: &mut Device) -> Vec<u8> {
    let constants = device.constants.bytes_mut().as_mut_ptr() as u64;
    let arena = device.arena.bytes_mut().as_mut_ptr() as u64;
    arguments.bound(constants, arena)
}

fn folder() -> PathBuf {
    std::env::temp_dir()
}

/// The emulation as a device.
pub(crate) struct EmulatedDevice {
    emulator: &'static Emulator,
    pub(crate) info: DeviceInfo,
    shared: Arc<Counts>,
}

/// What an emulated device and its plans count.
#[derive(Default)]
struct Counts {
    loads: AtomicU64,
    /// Bytes of the plans that are loaded.
    bytes: AtomicU64,
    runs: AtomicU64,
    /// Runs after which it is lost; 0: never.
    runs_max: AtomicU64,
}

impl EmulatedDevice {
    /// A device with the memory of a small GPU.
    pub(crate) fn new(emulator: &'static Emulator) -> Self {
        let info = DeviceInfo {
            ordinal: 0,
            name: "emulated".to_owned(),
            uuid: String::new(),
            memory_bytes: 1 << 30,
            capability: [8, 0],
            multiprocessors: 4,
        };
        Self {
            emulator,
            info,
            shared: Arc::default(),
        }
    }

    /// The emulated devices, with tensor cores and without.
    pub(crate) fn both() -> impl Iterator<Item = Self> {
        let emulators = [true, false].into_iter().filter_map(Emulator::get);
        emulators.map(Self::new)
    }

    /// As a device that is lost after some runs.
    pub(crate) fn lost_after(self, runs: u64) -> Self {
        self.shared.runs_max.store(runs, Ordering::Relaxed);
        self
    }

    /// A counter of the plans that were loaded.
    pub(crate) fn loads(&self) -> impl Fn() -> u64 + use<> {
        let shared = Arc::clone(&self.shared);
        move || shared.loads.load(Ordering::Relaxed)
    }
}

impl KernelDevice for EmulatedDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn free_bytes(&self) -> Option<u64> {
        Some(self.info.memory_bytes)
    }

    fn load(&self, plan: &Plan) -> Result<Box<dyn LoadedPlan>, LoadError> {
        let bytes = &self.shared.bytes;
        if bytes.load(Ordering::Relaxed) + plan.bytes() > self.info.memory_bytes {
            return Err(LoadError::Driver(DriverFailure {
                operation: "upload the model",
                name: "CUDA_ERROR_OUT_OF_MEMORY".to_owned(),
            }));
        }
        for launch in &plan.launches {
            if !self.emulator.has(launch.kernel) {
                return Err(plan.no_kernel(launch.node).into());
            }
        }
        bytes.fetch_add(plan.bytes(), Ordering::Relaxed);
        let seed = self.shared.loads.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(EmulatedPlan {
            emulator: self.emulator,
            plan: plan.clone(),
            memory: Device::new(plan),
            seed,
            shared: Arc::clone(&self.shared),
        }))
    }
}

/// A plan in emulated memory.
struct EmulatedPlan {
    emulator: &'static Emulator,
    plan: Plan,
    memory: Device,
    /// Of the order of threads.
    seed: u64,
    shared: Arc<Counts>,
}

impl Drop for EmulatedPlan {
    fn drop(&mut self) {
        let bytes = self.plan.bytes();
        self.shared.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl LoadedPlan for EmulatedPlan {
    fn write(&mut self, address: Address, bytes: &[u8]) -> Result<(), DriverFailure> {
        self.memory.write(address, bytes);
        Ok(())
    }

    fn read(&self, address: Address, length: usize) -> Result<Vec<u8>, DriverFailure> {
        Ok(self.memory.read(address, length).to_vec())
    }

    fn run(&mut self) -> Result<(), DriverFailure> {
        self.run_where(&|_| true)
    }

    fn run_node(&mut self, node: usize) -> Result<(), DriverFailure> {
        self.run_where(&|other| other == node)
    }

    fn time_node(&mut self, node: usize, times: u32) -> Result<Duration, DriverFailure> {
        let start = Instant::now();
        for _ in 0..times {
            self.run_node(node)?;
        }
        Ok(start.elapsed())
    }
}

impl EmulatedPlan {
    fn run_where(&mut self, wanted: &dyn Fn(usize) -> bool) -> Result<(), DriverFailure> {
        let runs = self.shared.runs.fetch_add(1, Ordering::Relaxed);
        let runs_max = self.shared.runs_max.load(Ordering::Relaxed);
        if runs_max > 0 && runs >= runs_max {
            return Err(DriverFailure {
                operation: "run the kernels",
                name: "CUDA_ERROR_LAUNCH_FAILED".to_owned(),
            });
        }
        let Self {
            emulator,
            plan,
            memory,
            seed,
            ..
        } = self;
        emulator.run(plan, memory, *seed, wanted);
        Ok(())
    }
}

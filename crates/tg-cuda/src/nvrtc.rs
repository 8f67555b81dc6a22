//! NVRTC, the compiler from CUDA C to device code, loaded when it is first asked for.
#![allow(unsafe_code, reason = "NVRTC is a C library")]

use libloading::Library;
use std::ffi::{CString, OsString, c_char, c_int, c_void};
use std::fmt;
use std::ptr;

/// The environment variable that names the library where the loader does not find it by itself.
pub const NVRTC_VARIABLE: &str = "TENSORGRID_NVRTC";

/// The names the library has on its platforms, newest first.
#[cfg(not(windows))]
const NAMES: [&str; 4] = [
    "libnvrtc.so",
    "libnvrtc.so.13",
    "libnvrtc.so.12",
    "libnvrtc.so.11.2",
];
#[cfg(windows)]
const NAMES: [&str; 3] = [
    "nvrtc64_130_0.dll",
    "nvrtc64_120_0.dll",
    "nvrtc64_112_0.dll",
];

/// Why device code was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NvrtcError {
    /// The library is not there.
    #[error("NVRTC is not found: tried {}; name its file in {NVRTC_VARIABLE}", .tried.join(", "))]
    NotFound {
        /// The names and paths that were tried.
        tried: Vec<String>,
    },
    /// The library is there and lacks a function, being too old or another one.
    #[error("the library in place of NVRTC has no function {function}")]
    Function {
        /// Its name.
        function: &'static str,
    },
    /// A call failed.
    #[error("NVRTC's {function} gave the result {code}")]
    Call {
        /// Its name.
        function: &'static str,
        /// `nvrtcResult`.
        code: i32,
    },
    /// The kernels were refused.
    #[error("NVRTC does not compile the kernels for {target}:\n{log}")]
    Compile {
        /// For what.
        target: Target,
        /// What it says.
        log: String,
    },
    /// No code for a device of this compute capability can be made.
    #[error("NVRTC makes no code for compute capability {}.{}", .capability / 10, .capability % 10)]
    NoTarget {
        /// Ten times the major plus the minor version.
        capability: u32,
    },
}

/// What code is made for; the number is ten times the major plus the minor version of the compute capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// Machine code of one architecture.
    Cubin(u32),
    /// Virtual instructions that the driver translates for this architecture or a newer one.
    Ptx(u32),
}

impl Target {
    /// The best that a compiler for `supported` architectures makes for a device: its machine code, or instructions of
    /// the newest architecture before it.
    #[must_use]
    pub fn of(capability: u32, supported: &[u32]) -> Option<Self> {
        if supported.contains(&capability) {
            return Some(Self::Cubin(capability));
        }
        let older = supported
            .iter()
            .copied()
            .filter(|&other| other < capability);
        older.max().map(Self::Ptx)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cubin(capability) => write!(f, "sm_{capability}"),
            Self::Ptx(capability) => write!(f, "compute_{capability}"),
        }
    }
}

/// The loaded library.
#[derive(Debug)]
pub struct Nvrtc {
    library: Library,
}

type Program = *mut c_void;
type Sized = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Filled = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type Numbers = unsafe extern "C" fn(*mut c_int) -> c_int;

impl Nvrtc {
    /// Loads the library: the file that the environment variable [`NVRTC_VARIABLE`] names, or else the loader's.
    ///
    /// # Errors
    /// If there is none.
    pub fn load() -> Result<Self, NvrtcError> {
        let named = std::env::var_os(NVRTC_VARIABLE).filter(|path| !path.is_empty());
        let tried: Vec<OsString> = match named {
            Some(path) => vec![path],
            None => NAMES.iter().map(OsString::from).collect(),
        };
        for name in &tried {
            // SAFETY: the loader's or the user's NVRTC; its initialisers have no conditions.
            if let Ok(library) = unsafe { Library::new(name) } {
                return Ok(Self { library });
            }
        }
        let tried = tried.iter().map(|name| name.to_string_lossy().into_owned());
        Err(NvrtcError::NotFound {
            tried: tried.collect(),
        })
    }

    fn function<T: Copy>(&self, name: &'static str) -> Result<T, NvrtcError> {
        // SAFETY: every caller names a function of nvrtc.h with its type there; these have not changed since 11.2.
        let found = unsafe { self.library.get::<T>(name.as_bytes()) };
        found
            .map(|symbol| *symbol)
            .map_err(|_| NvrtcError::Function { function: name })
    }

    /// Major and minor version.
    ///
    /// # Errors
    /// If the library is not NVRTC.
    pub fn version(&self) -> Result<[u32; 2], NvrtcError> {
        const NAME: &str = "nvrtcVersion";
        type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
        let (mut major, mut minor) = (0, 0);
        let version: Version = self.function(NAME)?;
        // SAFETY: two valid places for integers.
        checked(NAME, unsafe { version(&raw mut major, &raw mut minor) })?;
        Ok([major, minor].map(i32::unsigned_abs))
    }

    /// The architectures it makes code for, as in [`Target`].
    ///
    /// # Errors
    /// If the library is older than 11.2.
    pub fn architectures(&self) -> Result<Vec<u32>, NvrtcError> {
        const COUNT: &str = "nvrtcGetNumSupportedArchs";
        const LIST: &str = "nvrtcGetSupportedArchs";
        let mut count = 0;
        let (count_of, list_of): (Numbers, Numbers) = (self.function(COUNT)?, self.function(LIST)?);
        // SAFETY: a valid place for an integer.
        checked(COUNT, unsafe { count_of(&raw mut count) })?;
        let mut list = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: as many places as the library says it fills.
        checked(LIST, unsafe { list_of(list.as_mut_ptr()) })?;
        Ok(list.into_iter().map(i32::unsigned_abs).collect())
    }

    /// Device code of a CUDA C text; virtual instructions end with a zero byte.
    ///
    /// # Errors
    /// If the text is refused, with the compiler's words, or a call fails.
    pub fn compile(&self, source: &str, target: Target) -> Result<Vec<u8>, NvrtcError> {
        const NAME: &str = "nvrtcCompileProgram";
        type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
        let compile: Compile = self.function(NAME)?;
        let program = OpenProgram::new(self, source)?;
        let options = [
            format!("--gpu-architecture={target}"),
            "--std=c++17".to_owned(),
        ];
        let options = options.map(|option| CString::new(option).unwrap_or_default());
        let pointers = options.each_ref().map(|option| option.as_ptr());
        // SAFETY: an open program, and as many options as said, all of which outlive the call.
        let result = unsafe { compile(program.handle, 2, pointers.as_ptr()) };
        if result != 0 {
            let log = program.text("nvrtcGetProgramLogSize", "nvrtcGetProgramLog")?;
            let log = String::from_utf8_lossy(&log);
            let log = log.trim_end_matches('\0').to_owned();
            return Err(NvrtcError::Compile { target, log });
        }
        match target {
            Target::Cubin(_) => program.text("nvrtcGetCUBINSize", "nvrtcGetCUBIN"),
            Target::Ptx(_) => program.text("nvrtcGetPTXSize", "nvrtcGetPTX"),
        }
    }
}

fn checked(function: &'static str, code: c_int) -> Result<(), NvrtcError> {
    if code == 0 {
        Ok(())
    } else {
        Err(NvrtcError::Call { function, code })
    }
}

/// A program that is closed when dropped. NVRTC may refer to its source.
struct OpenProgram<'a> {
    compiler: &'a Nvrtc,
    handle: Program,
    _source: CString,
}

impl<'a> OpenProgram<'a> {
    fn new(compiler: &'a Nvrtc, source: &str) -> Result<Self, NvrtcError> {
        const NAME: &str = "nvrtcCreateProgram";
        type Create = unsafe extern "C" fn(
            *mut Program,
            *const c_char,
            *const c_char,
            c_int,
            *const *const c_char,
            *const *const c_char,
        ) -> c_int;
        let create: Create = compiler.function(NAME)?;
        let source = CString::new(source).unwrap_or_default();
        let mut handle = ptr::null_mut();
        // SAFETY: a place for a handle, a text that lives as long as the program, no headers.
        let result = unsafe {
            create(
                &raw mut handle,
                source.as_ptr(),
                c"tensorgrid.cu".as_ptr(),
                0,
                ptr::null(),
                ptr::null(),
            )
        };
        checked(NAME, result)?;
        Ok(Self {
            compiler,
            handle,
            _source: source,
        })
    }

    /// What a pair of functions gives: the length, then the bytes.
    fn text(&self, size: &'static str, fill: &'static str) -> Result<Vec<u8>, NvrtcError> {
        let (size_of, fill_from): (Sized, Filled) =
            (self.compiler.function(size)?, self.compiler.function(fill)?);
        let mut length = 0;
        // SAFETY: an open program and a place for a size.
        checked(size, unsafe { size_of(self.handle, &raw mut length) })?;
        let mut bytes = vec![0u8; length];
        // SAFETY: an open program and as many bytes as it said.
        checked(fill, unsafe {
            fill_from(self.handle, bytes.as_mut_ptr().cast())
        })?;
        Ok(bytes)
    }
}

impl Drop for OpenProgram<'_> {
    fn drop(&mut self) {
        type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;
        if let Ok(destroy) = self.compiler.function::<Destroy>("nvrtcDestroyProgram") {
            // SAFETY: the program is open and is not used again. A failure leaks it.
            unsafe { destroy(&raw mut self.handle) };
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::kernels;
    use crate::tests::say;

    #[test]
    fn the_best_target_is_taken() {
        let supported = [75, 80, 90, 120];
        assert_eq!(Target::of(80, &supported), Some(Target::Cubin(80)));
        assert_eq!(Target::of(86, &supported), Some(Target::Ptx(80)));
        assert_eq!(Target::of(121, &supported), Some(Target::Ptx(120)));
        assert_eq!(Target::of(61, &supported), None);
        assert_eq!(Target::Ptx(80).to_string(), "compute_80");
    }

    /// The compiler, or nothing, loudly.
    fn installed() -> Option<Nvrtc> {
        match Nvrtc::load() {
            Ok(compiler) => Some(compiler),
            Err(error) => {
                say(&format!(
                    "SKIPPED: no kernel is compiled for a device: {error}"
                ));
                None
            }
        }
    }

    /// Every kernel, as virtual instructions of every generation and as machine code: integers only, tensor cores from
    /// 8.0 on, dot products of bytes before.
    #[test]
    fn kernels_compile_for_every_architecture() {
        let Some(compiler) = installed() else {
            return;
        };
        let supported = compiler.architectures().unwrap();
        for capability in [61, 75, 80, 86, 90, 100] {
            if !supported.contains(&capability) {
                say(&format!(
                    "SKIPPED: this NVRTC makes no code for {capability}"
                ));
                continue;
            }
            let code = compiler.compile(kernels::SOURCE, Target::Ptx(capability));
            let code = String::from_utf8(code.unwrap()).unwrap();
            for name in kernels::NAMES {
                assert!(code.contains(&format!(".visible .entry {name}(")), "{name}");
            }
            assert_eq!(
                code.matches(".visible .entry").count(),
                kernels::NAMES.len()
            );
            for word in [".f16", ".f32", ".f64", ".bf16", ".tf32"] {
                assert!(!code.contains(word), "a float instruction ({word})");
            }
            let tensor_cores = capability >= 80;
            for types in ["s8.s8", "u8.s8", "s8.u8", "u8.u8"] {
                let instruction = format!("mma.sync.aligned.m16n8k32.row.col.s32.{types}.s32");
                assert_eq!(code.contains(&instruction), tensor_cores, "{types}");
            }
            assert_eq!(
                code.contains("ldmatrix.sync.aligned.m8n8.x4.shared.b16"),
                tensor_cores
            );
            assert!(code.contains("dp4a.s32.s32"));
        }
        // Machine code: registers and shared memory are within an architecture's limits.
        for capability in [80, 90] {
            if supported.contains(&capability) {
                let code = compiler
                    .compile(kernels::SOURCE, Target::Cubin(capability))
                    .unwrap();
                assert_eq!(code[..4], *b"\x7fELF");
            }
        }
    }

    #[test]
    fn a_refusal_has_the_compilers_words() {
        let Some(compiler) = installed() else {
            return;
        };
        assert!(compiler.version().unwrap()[0] >= 11);
        let error = compiler.compile("__global__ void f() { x; }", Target::Ptx(80));
        let message = error.unwrap_err().to_string();
        assert!(
            message.contains("compute_80") && message.contains("\"x\""),
            "{message}"
        );
    }
}

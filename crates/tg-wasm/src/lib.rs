//! Programs as jobs: the deterministic profile of WebAssembly (`docs/PROGRAMS.md`).
//!
//! A [`ProgramFile`] is a module with the limits of one run. [`WasmProgram`] is one that was checked and made ready; it
//! turns an input ([`ProgramInput`]) into a [`ProgramAnswer`] with the trace of its states. The same file and input give the
//! same answer, fuel and trace on every machine, so whoever doubts an answer runs the program again.
//!
//! *Invariant:* any file is taken or refused with a reason, and any input gives an answer, within a time that the fuel
//! limit bounds; nothing panics. No clock, no randomness, no I/O.
//!
//! ```
//! use tg_wasm::{ProgramEnd, ProgramFile, ProgramInput, RunLimits, WasmProgram};
//!
//! let pi = include_bytes!("../../../examples/programs/pi.wasm");
//! let file = ProgramFile::new(pi.to_vec(), RunLimits::default());
//! let program = WasmProgram::read(&file.encode()).unwrap();
//! let chunk = [7u64.to_le_bytes(), 1_000u64.to_le_bytes()].concat();
//! let run = program.run(&ProgramInput::steps(vec![chunk]).encode());
//! assert_eq!(run.answer.end, ProgramEnd::Finished);
//! assert_eq!(run.answer.output[8..], 1_000u64.to_le_bytes());
//! ```

mod answer;
mod file;
mod input;
pub mod limits;
mod profile;
mod run;

pub use answer::{ProgramAnswer, ProgramEnd, ProgramTrap};
pub use file::{FileError, ProgramFile, RunLimits, is_program};
pub use input::ProgramInput;
pub use profile::{ModuleError, ModuleFacts};
pub use run::{NoMemory, ProgramRefused, ProgramRun, WasmProgram};

/// The fuzz target: any bytes are refused with a reason, or are a program that answers any input.
pub mod fuzz {
    use crate::{ProgramFile, ProgramInput, RunLimits, WasmProgram};

    /// Reads the bytes as a program file and as a module, and runs what is taken with little fuel.
    pub fn fuzz_program(bytes: &[u8]) {
        let limits = RunLimits {
            fuel: 100_000,
            ..RunLimits::default()
        };
        let module = ProgramFile::new(bytes.to_vec(), limits).encode();
        for file in [bytes, module.as_slice()] {
            let Ok(program) = WasmProgram::read(file) else {
                continue;
            };
            if program.limits().fuel <= 1_000_000 {
                let steps = ProgramInput::steps(vec![vec![1; 16], Vec::new()]);
                let first = program.run(&steps.encode());
                assert_eq!(first, program.run(&steps.encode()), "a run repeats itself");
                let _ = program.run(bytes);
            }
        }
    }
}

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
pub mod fuzz;
mod input;
pub mod limits;
mod profile;
mod program;
mod run;
mod running;
mod state;
pub mod trace;

pub use answer::{ProgramAnswer, ProgramEnd, ProgramTrap};
pub use file::{FileError, ProgramFile, RunLimits, is_program};
pub use input::ProgramInput;
pub use profile::{ModuleError, ModuleFacts};
pub use program::{ProgramRefused, WasmProgram};
pub use run::ProgramRun;
pub use running::NoMemory;
pub use state::ProgramState;

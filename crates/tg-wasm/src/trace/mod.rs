//! Parts of a run that are executed again: what Proof of Sync checks of a program.
//!
//! A **call** of a run is its start, or one chunk; the output belongs to the last one. A **record** ([`ProgramRecord`]) says of each call what
//! the state is after it and how much fuel the run had burned then. The provider commits to all of it with its answer
//! ([`WasmProgram::trace`]). Calls are cut into **sections** of about equal fuel; a seed that nobody knew then draws some of them
//! ([`tg_types::sections`]); the provider opens the state at which each begins ([`WasmProgram::open`]); whoever has the program runs their calls
//! again ([`WasmProgram::verify_trace`]).
//!
//! What it shows. Let `c` be the commitment. `c` fixes the answer and the record, and the record every state that can be opened, up to a
//! collision of BLAKE3. Call a call *wrong* if what the record says of it is not what the program gives on its chunk from the state recorded
//! before it, at the recorded fuel; the last one too if the answer is not its output, with the fuel burned then. A section is wrong if one of
//! its calls is. If no section is wrong, the record and the answer are those of the run, by induction over the calls: globals and memory are all of
//! the state between two calls (`state`). If one section of `S` is wrong and `k` are drawn without replacement after `c`, it is
//! found with `k / S`, which is at least one in [`SECTIONS_SHARE`](tg_types::sections::SECTIONS_SHARE).
//!
//! A run that did not finish, that has no more sections than would be drawn, or whose drawn states take more than [`OPENED_BYTES_MAX`], is shown
//! whole: nothing is opened, and whoever checks it runs it again. Which of the two it is follows from the record.
//!
//! - `record`: what is said of each call
//! - `file`: what the provider shows
//! - `check`: what everybody else finds
//! - `claim`: a dispute about a run of mode `optimistic`, which the same records bring down to one call
//!
//! [`WasmProgram::trace`]: crate::WasmProgram::trace
//! [`WasmProgram::open`]: crate::WasmProgram::open
//! [`WasmProgram::verify_trace`]: crate::WasmProgram::verify_trace

mod check;
mod claim;
mod file;
mod record;

pub use check::{ExpectedProgramTrace, ProgramTraceFault, program_vote_on};
pub use claim::{ExpectedProgramClaim, ProgramClaim, ProgramFault};
pub use file::{OpenedCalls, ProgramTraceFile};
pub use record::{CallRecord, OPENED_BYTES_MAX, ProgramRecord, ProgramTrace};

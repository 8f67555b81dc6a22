//! Runs of WebAssembly programs: bounded in fuel and memory, without clock or files.

use tg_cuda::ExecutedOn;
use tg_types::{Digest, Encode as _, Receipt, Tier};
use tg_wasm::trace::{ExpectedProgramClaim, ExpectedProgramTrace};
use tg_wasm::{NoMemory, WasmProgram};

use crate::worker::{Execution, Task, WorkError};

/// The file holds another program than the job names.
#[derive(Debug, thiserror::Error)]
#[error("the file holds the program {got}")]
struct OtherProgram {
    got: tg_types::ModelId,
}

/// The program of a task.
fn program(task: &Task) -> Result<WasmProgram, WorkError> {
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| WorkError::Model {
        model: task.model,
        source,
    };
    let program = WasmProgram::read(&task.model_file).map_err(|error| failed(error.into()))?;
    let got = program.model_id();
    if got != task.model {
        return Err(failed(OtherProgram { got }.into()));
    }
    Ok(program)
}

/// Runs a task's program. Every end of a run is an answer, so only a wrong file or a lack of memory fails.
pub(crate) fn execute(task: &Task) -> Result<Execution, WorkError> {
    let program = program(task)?;
    let names = (&task.job, &task.lease);
    let run = program.run_for(&task.input, task.form(), names);
    let (answer, trace) = run.map_err(|error| WorkError::Execute(error.into()))?;
    let output = answer.encode();
    Ok(Execution {
        receipt: Receipt {
            program: program.id(),
            model: task.model,
            input: Digest::of_blob(&task.input),
            output: Digest::of_blob(&output),
            trace,
            tier: Tier::Wasm1,
        },
        output,
        on: ExecutedOn::Cpu,
    })
}

/// Opens the sections of a run that a challenge draws. Runs it again twice: keeping its states until its seed comes would take memory for each
/// lease.
pub(crate) fn open(
    task: &Task,
    execution: &Execution,
    challenge: &Digest,
) -> Result<Vec<u8>, WorkError> {
    let program = program(task)?;
    let file = program.open(&task.input, challenge).map_err(no_memory)?;
    let expected = ExpectedProgramTrace {
        lease: &task.lease,
        input: &task.input,
        output: &execution.receipt.output,
        trace: &execution.receipt.trace,
        challenge,
    };
    let found = program.verify_trace(&file, expected).map_err(no_memory)?;
    found.map_err(|error| WorkError::Open(error.into()))?;
    Ok(file.to_bytes())
}

/// Finds where a claim about a run is wrong. Runs the program once, and the call that is wrong again.
pub(crate) fn refute(
    task: &Task,
    execution: &Execution,
    claim: &[u8],
) -> Result<Vec<u8>, WorkError> {
    let program = program(task)?;
    let expected = ExpectedProgramClaim {
        lease: &task.lease,
        input: &task.input,
        receipt: &execution.receipt,
    };
    let fault = program.fault_of(claim, expected).map_err(no_memory)?;
    let answer = fault.ok_or(WorkError::NoFault)?.to_bytes();
    let fails = program.claim_fails((claim, &answer), expected);
    match fails.map_err(no_memory)? {
        true => Ok(answer),
        false => Err(WorkError::NoFault),
    }
}

fn no_memory(error: NoMemory) -> WorkError {
    WorkError::Execute(error.into())
}

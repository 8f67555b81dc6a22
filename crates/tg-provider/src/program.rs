//! Programs of WebAssembly: a run is bounded by its fuel and its memory, and has neither clock nor files.

use tg_cuda::ExecutedOn;
use tg_types::{Digest, Receipt, Tier};
use tg_wasm::WasmProgram;

use crate::worker::{Execution, Task, WorkError};

/// The file holds another program than the job names.
#[derive(Debug, thiserror::Error)]
#[error("the file holds the program {got}")]
struct OtherProgram {
    got: tg_types::ModelId,
}

/// Runs a task's program. Every end of a run is an answer, so only a wrong file or a lack of memory fails.
pub(crate) fn execute(task: &Task) -> Result<Execution, WorkError> {
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| WorkError::Model {
        model: task.model,
        source,
    };
    let program = WasmProgram::read(&task.model_file).map_err(|error| failed(error.into()))?;
    let got = program.model_id();
    if got != task.model {
        return Err(failed(OtherProgram { got }.into()));
    }
    let run = program.try_run(&task.input);
    let run = run.map_err(|error| WorkError::Execute(error.into()))?;
    let output = run.answer.encode();
    Ok(Execution {
        receipt: Receipt {
            program: program.id(),
            model: task.model,
            input: Digest::of_blob(&task.input),
            output: Digest::of_blob(&output),
            trace: task.stated_trace(run.trace, run.answer.fuel),
            tier: Tier::Wasm1,
        },
        output,
        on: ExecutedOn::Cpu,
    })
}

//! Float models of tier TGF-1: a run is bounded by its work and its memory.

use tg_cuda::ExecutedOn;
use tg_float::job::FloatModel;
use tg_types::{Digest, Encode as _, Receipt, Tier};

use crate::worker::{Execution, Task, WorkError};

/// The file holds another model than the job names.
#[derive(Debug, thiserror::Error)]
#[error("the file holds the model {got}")]
struct OtherFloatModel {
    got: tg_types::ModelId,
}

/// Runs a task's float model. Every end of a run is an answer, so only a wrong file fails.
pub(crate) fn execute(task: &Task) -> Result<Execution, WorkError> {
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| WorkError::Model {
        model: task.model,
        source,
    };
    let model = FloatModel::read(&task.model_file).map_err(|error| failed(error.into()))?;
    let got = model.model_id();
    if got != task.model {
        return Err(failed(OtherFloatModel { got }.into()));
    }
    let run = model.run(&task.input);
    let output = run.answer.to_bytes();
    Ok(Execution {
        receipt: Receipt {
            program: model.id(),
            model: task.model,
            input: Digest::of_blob(&task.input),
            output: Digest::of_blob(&output),
            trace: task.stated_trace(run.trace, run.answer.work),
            tier: Tier::Tgf1,
        },
        output,
        on: ExecutedOn::Cpu,
    })
}

//! Runs of float models (tier TGF-1): bounded in work and memory.

use tg_cuda::ExecutedOn;
use tg_float::job::FloatModel;
use tg_float::job::trace::{ExpectedFloatClaim, ExpectedFloatTrace};
use tg_types::{Digest, Encode as _, Receipt, Tier};

use crate::worker::{Execution, Task, WorkError};

/// The file holds another model than the job names.
#[derive(Debug, thiserror::Error)]
#[error("the file holds the model {got}")]
struct OtherFloatModel {
    got: tg_types::ModelId,
}

/// The float model of a task.
fn model(task: &Task) -> Result<FloatModel, WorkError> {
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| WorkError::Model {
        model: task.model,
        source,
    };
    let model = FloatModel::read(&task.model_file).map_err(|error| failed(error.into()))?;
    let got = model.model_id();
    if got != task.model {
        return Err(failed(OtherFloatModel { got }.into()));
    }
    Ok(model)
}

/// Runs a task's float model. Every end of a run is an answer, so only a wrong file fails.
pub(crate) fn execute(task: &Task) -> Result<Execution, WorkError> {
    let model = model(task)?;
    let names = (&task.job, &task.lease);
    let (answer, trace) = model.run_for(&task.input, task.form(), names);
    let output = answer.to_bytes();
    Ok(Execution {
        receipt: Receipt {
            program: model.id(),
            model: task.model,
            input: Digest::of_blob(&task.input),
            output: Digest::of_blob(&output),
            trace,
            tier: Tier::Tgf1,
        },
        output,
        on: ExecutedOn::Cpu,
    })
}

/// Opens the sections of a run that a challenge draws. Runs it again twice: keeping what every node gave until its seed comes would take
/// memory for each lease.
pub(crate) fn open(
    task: &Task,
    execution: &Execution,
    challenge: &Digest,
) -> Result<Vec<u8>, WorkError> {
    let model = model(task)?;
    let file = model.open(&task.input, challenge);
    let expected = ExpectedFloatTrace {
        lease: &task.lease,
        input: &task.input,
        output: &execution.receipt.output,
        trace: &execution.receipt.trace,
        challenge,
    };
    let found = model.verify_trace(&file, expected);
    found.map_err(|error| WorkError::Open(error.into()))?;
    Ok(file.to_bytes())
}

/// Finds where a claim about a run is wrong. Runs the model twice.
pub(crate) fn refute(
    task: &Task,
    execution: &Execution,
    claim: &[u8],
) -> Result<Vec<u8>, WorkError> {
    let model = model(task)?;
    let expected = ExpectedFloatClaim {
        lease: &task.lease,
        input: &task.input,
        receipt: &execution.receipt,
        delivered: &execution.output,
    };
    let fault = model.fault_of(claim, expected).ok_or(WorkError::NoFault)?;
    let answer = fault.to_bytes();
    match model.claim_fails((claim, &answer), expected) {
        true => Ok(answer),
        false => Err(WorkError::NoFault),
    }
}

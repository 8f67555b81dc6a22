//! `tensorgrid prove`.

use crate::cli::ProveArguments;
use crate::offline::files;
use crate::outcome::{Exit, OrFail, Outcome, json, line, say};
use std::time::Instant;
use tg_model::quantise_input;
use tg_prover::{ProvingModel, Stage, prove};
use tg_types::codec::Encode;
use tg_types::{Address, JobId};

/// Runs and proves a model on one input.
pub(crate) fn run(arguments: &ProveArguments, as_json: bool) -> Outcome {
    let model = files::compiled_model(&arguments.model)?;
    let reals = files::one_input(&arguments.input, &model.program)?;
    let input = quantise_input(&model.program.input, &reals);
    say("committing the weights ...");
    let model = ProvingModel::new(model)
        .or_fail(Exit::Usage, "this model cannot be proved")
        .map_err(|failure| {
            failure.hint("`verify: zk` covers the operators listed in docs/PROTOCOL.md, TGP-1")
        })?;
    let start = Instant::now();
    let mut shown = Instant::now();
    let (file, trace) = prove(
        &model,
        &input,
        JobId::default(),
        Address::default(),
        &mut |stage| {
            if shown.elapsed().as_secs() >= 1 {
                shown = Instant::now();
                say(describe(stage));
            }
        },
    )
    .or_fail(Exit::Failed, "prove")?;
    let elapsed_ms = start.elapsed().as_secs_f64() * 1e3;
    let bytes = file.to_bytes();
    files::write(&arguments.output, &bytes)?;
    let values = files::output_values(&model.compiled().program, &file.output);
    if as_json {
        return Ok(json(&serde_json::json!({
            "model": model.id().to_string(), "prove_ms": elapsed_ms, "proof_bytes": file.proof.len(),
            "values": values, "greatest": trace.top_class(), "trace": trace.digest().to_string(),
            "file": arguments.output, "zk": false,
        }))?);
    }
    line(format_args!(
        "output {values:?}; greatest at index {}",
        trace.top_class()
    ))?;
    line(format_args!(
        "proved in {elapsed_ms:.0} ms; {} ({} bytes) holds the proof, the input and the output",
        arguments.output.display(),
        bytes.len()
    ))?;
    Ok(())
}

fn describe(stage: Stage) -> String {
    match stage {
        Stage::Execute => "executing ...".to_owned(),
        Stage::Witness => "computing the witness ...".to_owned(),
        Stage::Commit => "committing the witness ...".to_owned(),
        Stage::Nodes(done, all) => format!("proving node {done} of {all} ..."),
        Stage::Lookup => "proving the lookups ...".to_owned(),
        Stage::OpenWitness => "opening the witness ...".to_owned(),
        Stage::OpenWeights => "opening the weights ...".to_owned(),
        Stage::Done => "done".to_owned(),
    }
}

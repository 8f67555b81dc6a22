//! `tensorgrid prove`.

use crate::cli::ProveArguments;
use crate::offline::files;
use crate::outcome::{Exit, Failure, OrFail, Outcome, json, line, say};
use std::time::Instant;
use tg_model::Tensor;
use tg_model::input::quantise;
use tg_proof::ProofFile;
use tg_prover::{Limits, ProveError, ProvingModel, Stage, prove_batch, prove_zk};
use tg_types::codec::Encode;
use tg_types::{Address, JobId};

/// Runs and proves a model on one input.
pub(crate) fn run(arguments: &ProveArguments, as_json: bool) -> Outcome {
    let model = files::compiled_model(&arguments.model)?;
    let reals = files::one_input(&arguments.input, &model.program)?;
    let input = quantise(&model.program.input, &reals);
    say("committing the weights ...");
    let model = ProvingModel::new(model)
        .or_fail(Exit::Usage, "this model cannot be proved")
        .map_err(|failure| {
            failure.hint("`verify: zk` covers the operators listed in docs/PROOF.md")
        })?;
    let work = model
        .work(1)
        .or_fail(Exit::Usage, "this model cannot be proved")?;
    let limits = Limits {
        memory: arguments.memory.map(|mib| mib << 20),
        cancel: None,
    };
    let start = Instant::now();
    let mut shown = Instant::now();
    let mut observe = |stage| {
        if shown.elapsed().as_secs() >= 1 {
            shown = Instant::now();
            let left = left(start.elapsed().as_secs_f64(), work.done(stage));
            say(format!("{}{left}", describe(stage)));
        }
    };
    let names = (JobId::default(), Address::default());
    let proved = if arguments.zk {
        let with = (random_seed()?, &limits);
        prove_zk(&model, vec![Tensor::I8(input)], names, with, &mut observe)
    } else {
        prove_batch(&model, &[&input], names, &limits, &mut observe)
    };
    let (file, mut traces) = proved.map_err(|error| {
        let exit = match error {
            ProveError::Memory { .. } | ProveError::Plan(_) => Exit::Usage,
            _ => Exit::Failed,
        };
        Failure::new(exit, anyhow::Error::new(error).context("prove"))
    })?;
    let Some(trace) = traces.pop() else {
        return Err(Failure::new(
            Exit::Failed,
            anyhow::anyhow!("no execution was proved"),
        ));
    };
    let elapsed_ms = start.elapsed().as_secs_f64() * 1e3;
    let bytes = file.to_bytes();
    files::write(&arguments.output, &bytes)?;
    let values = files::output_values(&model.compiled().program, &file.output);
    if as_json {
        return Ok(json(&serde_json::json!({
            "model": model.id().to_string(), "prove_ms": elapsed_ms, "proof_bytes": file.proof.len(),
            "values": values, "greatest": trace.top_class(), "trace": trace.digest().to_string(),
            "file": arguments.output, "zk": file.statement.zk,
        }))?);
    }
    line(format_args!(
        "output {values:?}; greatest at index {}",
        trace.top_class()
    ))?;
    let held = held(&file);
    line(format_args!(
        "proved in {elapsed_ms:.0} ms; {} ({} bytes) holds {held}",
        arguments.output.display(),
        bytes.len()
    ))?;
    Ok(())
}

/// What a proof file holds.
const fn held(file: &ProofFile) -> &'static str {
    if file.statement.zk {
        "the proof and the output, not the input"
    } else {
        "the proof, the input and the output"
    }
}

/// Randomness of the operating system, for one proof in zero knowledge.
pub(crate) fn random_seed() -> Result<[u8; 32], anyhow::Error> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| anyhow::anyhow!("draw randomness: {error}"))?;
    Ok(seed)
}

/// How much is done, and about how long the rest takes at the speed so far.
fn left(elapsed_s: f64, done: f64) -> String {
    if done <= 0.01 {
        return String::new();
    }
    let rest = elapsed_s * (1.0 - done) / done;
    format!(" ({:.0} % done, about {rest:.0} s left)", done * 100.0)
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

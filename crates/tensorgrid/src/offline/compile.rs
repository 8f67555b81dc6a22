//! `tensorgrid model compile`.

use crate::cli::CompileArguments;
use crate::offline::files;
use crate::outcome::{Exit, OrFail, Outcome, json, line, say};
use tg_model::calibrate::ReachRule;
use tg_model::{CompileOptions, Compiled, compile};
use tg_prover::ProvingModel;
use tg_types::codec::Encode;

/// Compiles an ONNX file.
pub(crate) fn run(arguments: &CompileArguments, as_json: bool) -> Outcome {
    let file = files::read(&arguments.file, tg_model::onnx::FILE_BYTES_MAX as u64)?;
    let doing = format!("compile {}", arguments.file.display());
    let graph = tg_model::onnx::read(&file).or_fail(Exit::Usage, doing.clone())?;
    let calibration = files::many_inputs(
        &arguments.calibrate,
        &graph,
        &arguments.mean,
        &arguments.scale,
    )?;
    let options = CompileOptions {
        name: arguments.name.clone(),
        reach: if arguments.percentile >= 100.0 {
            ReachRule::Greatest
        } else {
            ReachRule::Percentile(arguments.percentile)
        },
        mean: arguments.mean.clone(),
        std: arguments.scale.clone(),
    };
    let compiled = compile(graph, &calibration, &options).or_fail(Exit::Usage, doing)?;
    say("committing the weights and proving their range ...");
    let tgm = compiled.model.to_bytes();
    let model = ProvingModel::new(compiled.model.clone())
        .or_fail(Exit::Usage, "the model runs, but cannot be proved")?;
    let tgv = model
        .register()
        .or_fail(Exit::Failed, "prove the weights' range")?
        .encode();
    files::write(&arguments.output, &tgm)?;
    files::write(&arguments.public_out, &tgv)?;
    if as_json {
        return Ok(json(&report_json(
            &compiled,
            &model,
            arguments,
            [tgm.len(), tgv.len()],
        ))?);
    }
    line(format_args!("model {}", model.id()))?;
    line(format_args!(
        "program {} ({} multiply-accumulates)",
        compiled.model.program.id(),
        compiled.model.program.macs()
    ))?;
    line(format_args!(
        "calibrated on {} inputs; signal to noise by layer, float against integer:",
        compiled.report.calibrated_on
    ))?;
    for layer in &compiled.report.layers {
        line(format_args!(
            "  {:<32} {:<24} {:>6.1} dB",
            layer.name, layer.operator, layer.snr_db
        ))?;
    }
    line(format_args!(
        "{} ({} bytes): program and weights, for providers",
        arguments.output.display(),
        tgm.len()
    ))?;
    line(format_args!(
        "{} ({} bytes): program, weight commitment and range proof, for anyone",
        arguments.public_out.display(),
        tgv.len()
    ))?;
    Ok(())
}

fn report_json(
    compiled: &Compiled,
    model: &ProvingModel,
    arguments: &CompileArguments,
    [tgm, tgv]: [usize; 2],
) -> serde_json::Value {
    let layers: Vec<_> = compiled
        .report
        .layers
        .iter()
        .map(|layer| serde_json::json!({ "name": layer.name, "operator": layer.operator, "snr_db": layer.snr_db }))
        .collect();
    serde_json::json!({
        "model": model.id().to_string(),
        "program": compiled.model.program.id().to_string(),
        "macs": compiled.model.program.macs(),
        "calibrated_on": compiled.report.calibrated_on,
        "layers": layers,
        "model_file": arguments.output, "model_bytes": tgm,
        "public_file": arguments.public_out, "public_bytes": tgv,
    })
}

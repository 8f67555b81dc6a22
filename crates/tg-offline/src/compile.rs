//! `tensorgrid model compile`.

use crate::arguments::{
    CompileArguments, ExplainArguments, ImportArguments, PrecisionArgument, ReachArgument,
};
use crate::models;
use crate::prove::random_seed;
use crate::text;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::str::FromStr;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tg_compile::calibrate::ReachRule;
use tg_compile::compile::Report;
use tg_compile::integer::Precision;
use tg_compile::passes::{KeptOutputs, PrepareOptions, Prepared};
use tg_compile::{
    CompileOptions, Compiled, LeftOut, OutputsError, PrecisionChoice, compile_outputs, explain,
};
use tg_console::files;
use tg_console::outcome::{Exit, Failure, OrFail, Outcome, json, line, say};
use tg_ir::Program;
use tg_ir::signature::{LABEL_BYTES_MAX, LABELS_BYTES_MAX};
use tg_prover::{ProvingModel, Secret, SecretFile};
use tg_text::TextTokenizer;
use tg_types::ModelId;
use tg_types::codec::Encode;

/// What came of an ONNX file.
struct Imported {
    /// The operators it had.
    before: BTreeMap<String, usize>,
    compiled: Compiled,
    /// Outputs of the file that the program does not give.
    left_out: Vec<LeftOut>,
    /// Names of classes that the model brought along.
    labels: Vec<String>,
    /// What makes tokens of texts, if it takes tokens.
    tokenizer: Option<TextTokenizer>,
}

/// Compiles an ONNX file, with those of its outputs that are kept.
fn compiled(
    path: &Path,
    calibrate: Option<&Path>,
    (name, keep): (&str, KeptOutputs),
    import: &ImportArguments,
) -> Result<Imported, Failure> {
    let doing = format!("compile {}", path.display());
    let brought = models::brought(path)?;
    let tokenizer = text::of_model(&brought, import.tokenizer.as_deref())?;
    let models::Brought {
        graph,
        labels,
        tokens,
        ..
    } = brought;
    let before = explain::operators(&graph);
    let options = options(name_of(name, &graph.name, path), keep, import)?;
    let texts = calibrate.filter(|path| text::is_texts(path));
    let mut unread: Option<BTreeSet<String>> = None;
    let pass = CurrentPass::begun("preparing the graph");
    let mut calibration = |prepared: &Prepared| -> Result<Vec<Vec<f32>>, Failure> {
        pass.begin("reading the calibration inputs");
        let rows = match texts {
            Some(path) => {
                text::calibration(path, prepared, (tokenizer.as_ref(), tokens.vocabulary))?
            }
            None => {
                let loaded = models::calibration(calibrate, prepared, &import.mean, &import.scale)?;
                // What no attempt reads.
                match &mut unread {
                    Some(unread) => unread.retain(|name| loaded.unread.contains(name)),
                    None => unread = Some(loaded.unread),
                }
                loaded.rows
            }
        };
        pass.begin("running the floats on the calibration inputs, and choosing units");
        Ok(rows)
    };
    // Of the precisions, one whose program has a proof; a model is compiled all the same if none has.
    let provable = |program: tg_ir::CheckedProgram<'_>| {
        pass.begin("looking whether the program has a proof");
        let provable = tg_prover::provable(program).map_err(|error| error.to_string());
        pass.begin("comparing integers with floats");
        provable
    };
    let found = saying_so(&pass, || {
        compile_outputs(&graph, &options, &mut calibration, &provable)
    });
    let (compiled, left_out) = found.map_err(|error| match error {
        OutputsError::Calibration(failure) => failure,
        OutputsError::Compile(error) => {
            Failure::new(Exit::Usage, anyhow::Error::from(error).context(doing))
        }
    })?;
    say_notes(&unread.unwrap_or_default(), &left_out, &compiled);
    Ok(Imported {
        before,
        compiled,
        left_out,
        labels,
        tokenizer,
    })
}

/// How often it is said that something takes long.
const SAY: Duration = Duration::from_secs(2);

/// What is done now, and since when.
struct CurrentPass(Mutex<(&'static str, Instant)>);

impl CurrentPass {
    fn begun(name: &'static str) -> Self {
        Self(Mutex::new((name, Instant::now())))
    }

    fn begin(&self, name: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (name, Instant::now());
    }

    /// What is said of it, if it takes long.
    fn told(&self, now: Instant) -> Option<String> {
        let (name, since) = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lasts = now.saturating_duration_since(since);
        (lasts >= SAY).then(|| format!("{name} for {} s ...", lasts.as_secs()))
    }
}

/// Does what may take long, and says of each pass that does for how long it has.
fn saying_so<T>(pass: &CurrentPass, work: impl FnOnce() -> T) -> T {
    std::thread::scope(|scope| {
        let (done, ended) = mpsc::channel::<()>();
        scope.spawn(move || {
            // Ends when the other end is dropped, by a panic too.
            while ended.recv_timeout(SAY) == Err(RecvTimeoutError::Timeout) {
                if let Some(text) = pass.told(Instant::now()) {
                    say(text);
                }
            }
        });
        let result = work();
        drop(done);
        result
    })
}

/// Names that exporters give to every graph.
const EXPORTERS_NAMES: [&str; 7] = [
    "main_graph",
    "torch_jit",
    "torch-jit-export",
    "tf2onnx",
    "onnx-graph",
    "paddle-onnx",
    "graph",
];

/// What a model is called: as whoever compiles it says, else as its graph is called in the file; where that is no name, as the file or the
/// folder. The name is a part of the program's id.
fn name_of(given: &str, graph: &str, path: &Path) -> String {
    if !given.is_empty() {
        return given.to_owned();
    }
    if !graph.is_empty() && !EXPORTERS_NAMES.contains(&graph) {
        return graph.to_owned();
    }
    // A folder's name may have dots in it.
    let name = match path.is_dir() {
        true => path.file_name(),
        false => path.file_stem(),
    };
    name.map_or_else(|| graph.to_owned(), |it| it.to_string_lossy().into_owned())
}

/// A signal to noise ratio for people.
fn decibels(snr: f64) -> String {
    if snr == f64::INFINITY {
        "no difference".to_owned()
    } else if snr == f64::NEG_INFINITY {
        "nothing left".to_owned()
    } else {
        format!("{snr:.1} dB")
    }
}

/// How many answers of the float model the integers keep, where it chooses.
fn kept_answers(report: &Report) -> String {
    let choosing = report.outputs.iter().filter(|output| output.rows > 0);
    let same = choosing.map(|output| (output.agreement * output.rows as f64).round() as usize);
    let (same, rows) = (same.sum::<usize>(), report.rows());
    // One row for each input: the row is the answer.
    match rows == report.compared_on {
        true => format!("{same} of {rows} inputs keep the same answer"),
        false => format!("{same} of {rows} rows of outputs keep the same greatest element"),
    }
}

/// What the integers of a program lose against its floats, in words.
fn loss(report: &Report) -> String {
    let snr = report.output_snr_db();
    let noise = if snr == f64::INFINITY {
        "no difference to floats where they were compared".to_owned()
    } else if snr == f64::NEG_INFINITY {
        "nothing is left of the floats' output".to_owned()
    } else {
        format!("output {snr:.1} dB above its difference to floats")
    };
    if report.rows() == 0 {
        return format!("loss: {noise}");
    }
    format!(
        "loss: {} as in floats, {:.2} points of right answers expected to be lost; {noise}",
        kept_answers(report),
        100.0 * report.loss(),
    )
}

/// Says what of the calibration one may doubt.
fn say_doubts(compiled: &Compiled) {
    let report = &compiled.report;
    if report.calibrated_on == 1 && !compiled.float.graph.inputs.is_empty() {
        say(
            "note: calibrated on one input alone: what other inputs reach beyond it is cut off; --calibrate takes a folder or rows of some \
             dozens of real ones",
        );
    }
    if !report.is_enough() {
        say(
            "note: on the calibration inputs the integers differ from the floats by more than most tasks forgive: give more or other ones, or \
             --precision 16",
        );
    }
    let layers = report.layers.iter();
    let silent = layers.filter(|layer| layer.snr_db == f64::NEG_INFINITY);
    for layer in silent {
        say(format_args!(
            "note: nothing is left of the values of `{}`: they are below half a unit, or were 0 in all calibration inputs",
            layer.name.escape_debug()
        ));
    }
}

/// Says what is not as one may expect: arrays that are not read, outputs and precisions that are left out, elements that vanish.
fn say_notes(unread: &BTreeSet<String>, left_out: &[LeftOut], compiled: &Compiled) {
    for name in unread {
        models::say_unread(name);
    }
    for LeftOut { name, reason } in left_out {
        say(format_args!(
            "output `{}` is not in the program: {reason}",
            name.escape_debug()
        ));
    }
    for output in compiled
        .report
        .outputs
        .iter()
        .filter(|output| output.vanishing > 0)
    {
        say(format_args!(
            "note: output `{}` has one unit, and {} elements of a row are 0 in it on every calibration input: the others reach \
             far more; make them an output of their own, or scale them",
            output.name.escape_debug(),
            output.vanishing
        ));
    }
    say_doubts(compiled);
    for (precision, reason) in &compiled.report.left_out {
        say(format_args!(
            "activations of {precision} have no proof: {reason}"
        ));
    }
    if compiled
        .report
        .left_out
        .iter()
        .any(|(precision, _)| *precision == compiled.report.precision)
    {
        say(format_args!(
            "no precision that was tried has a proof: the program runs, and jobs that ask for a proof are refused"
        ));
    }
}

/// The outputs that are named, or those that are kept otherwise.
fn kept(import: &ImportArguments, otherwise: KeptOutputs) -> KeptOutputs {
    if import.keep.is_empty() {
        otherwise
    } else {
        KeptOutputs::Named(import.keep.clone())
    }
}

fn options(
    name: String,
    keep: KeptOutputs,
    import: &ImportArguments,
) -> Result<CompileOptions, Failure> {
    let fixed = PrecisionChoice::Fixed;
    Ok(CompileOptions {
        name,
        reach: match import.reach {
            ReachArgument::Mse => ReachRule::LeastError,
            ReachArgument::Greatest if import.percentile >= 100.0 => ReachRule::Greatest,
            ReachArgument::Greatest => ReachRule::Percentile(import.percentile),
        },
        precision: match import.precision {
            PrecisionArgument::Auto => PrecisionChoice::Auto,
            PrecisionArgument::Bits8 => fixed(Precision::Bits8),
            PrecisionArgument::Mixed => fixed(Precision::Mixed),
            PrecisionArgument::Bits16 => fixed(Precision::Bits16),
        },
        smooth: import.smooth,
        prepare: PrepareOptions {
            axes: pairs(&import.axis, "--axis NAME=SIZE")?,
            bind: pairs(&import.bind, "--bind NAME=VALUE")?,
            keep,
        },
        mean: import.mean.clone(),
        std: import.scale.clone(),
    })
}

/// `NAME=VALUE` options.
fn pairs<T: FromStr>(given: &[String], form: &str) -> Result<BTreeMap<String, T>, Failure> {
    let one = |text: &String| {
        let (name, value) = text.rsplit_once('=')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    let bad = |text: &String| {
        Failure::new(
            Exit::Usage,
            anyhow::anyhow!("`{text}` is not of the form {form}"),
        )
    };
    given
        .iter()
        .map(|text| one(text).ok_or_else(|| bad(text)))
        .collect()
}

/// Shows an ONNX file as a graph and as a program.
///
/// # Errors
/// If the file cannot be read or is refused.
pub fn explain(arguments: &ExplainArguments, as_json: bool) -> Outcome {
    let ExplainArguments {
        file,
        calibrate,
        import,
    } = arguments;
    let keep = kept(import, KeptOutputs::All);
    let Imported {
        before, compiled, ..
    } = compiled(file, calibrate.as_deref(), ("", keep), import)?;
    if as_json {
        return Ok(json(&explain::json(&before, &compiled))?);
    }
    line(format_args!(
        "{}",
        explain::report(&before, &compiled).trim_end()
    ))?;
    Ok(())
}

/// The class names in a file, one per line.
fn labels_of(path: &Path) -> Result<Vec<String>, Failure> {
    let doing = format!("take the class names of {}", path.display());
    let bytes = files::read(path, LABELS_BYTES_MAX as u64)?;
    let text = String::from_utf8(bytes).or_fail(Exit::Usage, doing)?;
    Ok(text.lines().map(|name| name.trim().to_owned()).collect())
}

/// Gives the elements of a program's first output that they fit these names; `ranks` says whether it gives tokens.
fn name_classes(program: &mut Program, labels: &[String], path: &Path, ranks: bool) -> Outcome {
    let doing = || format!("take the class names of {}", path.display());
    let long = |name: &&String| name.len() > LABEL_BYTES_MAX;
    if let Some(name) = labels.iter().find(long) {
        let text = format!("`{name}` has more than {LABEL_BYTES_MAX} bytes");
        return Err(Failure::new(
            Exit::Usage,
            anyhow::anyhow!(text).context(doing()),
        ));
    }
    let outputs = program.outputs().into_iter();
    let elements: Vec<usize> = outputs.map(|id| program.shape(id).elements()).collect();
    let Some(signature) = program.signature.as_mut() else {
        let text = if ranks {
            "tokens of a vocabulary, which --top-k gives, have no class names; leave --top-k or --labels out"
        } else {
            "this program holds no names of its file (it has more than 16 inputs, or a value of more than 8 axes), so that \
             its output takes no class names; leave --labels out"
        };
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)));
    };
    // Of several outputs the first that they fit.
    let mut refused = Ok(());
    for index in 0..signature.outputs.len() {
        let before = std::mem::replace(&mut signature.outputs[index].labels, labels.to_vec());
        match signature.check(&elements) {
            Ok(()) => return Ok(()),
            Err(error) => refused = refused.and(Err(error)),
        }
        signature.outputs[index].labels = before;
    }
    refused.or_fail(Exit::Usage, doing())
}

/// Gives an output the class names that came with the model, if they fit one.
fn named_by_folder(program: &mut Program, labels: &[String], folder: &Path) -> bool {
    let bytes: usize = labels.iter().map(String::len).sum();
    bytes <= LABELS_BYTES_MAX && name_classes(program, labels, folder, false).is_ok()
}

/// Compiles an ONNX file or a Hugging Face folder.
///
/// # Errors
/// If the file cannot be read or compiled, or the result not be written.
pub fn run(arguments: &CompileArguments, as_json: bool) -> Outcome {
    let CompileArguments {
        file,
        calibrate,
        name,
        import,
        top_k,
        ..
    } = arguments;
    // What generates gives scores alone.
    let otherwise = if top_k.is_some() {
        KeptOutputs::Scores
    } else {
        KeptOutputs::All
    };
    let keep = kept(import, otherwise);
    let Imported {
        mut compiled,
        left_out,
        labels,
        tokenizer,
        ..
    } = compiled(file, calibrate.as_deref(), (name, keep), import)?;
    let mut changed = compiled.model.into_inner();
    if let Some(ranks) = *top_k {
        tg_ir::generation::rank(&mut changed.program, ranks)
            .or_fail(Exit::Usage, format!("--top-k {ranks}"))?;
    }
    if let Some(path) = &arguments.labels {
        let labels = labels_of(path)?;
        name_classes(&mut changed.program, &labels, path, top_k.is_some())?;
    } else if !labels.is_empty() && !named_by_folder(&mut changed.program, &labels, file) {
        say("the class names of the folder fit no output of the program, and are left out");
    }
    if let Some(tokenizer) = &tokenizer {
        text::name(&mut changed.program, tokenizer)?;
    }
    compiled.model = changed.checked().or_fail(Exit::Usage, "check the model")?;
    let tgm = compiled.model.to_bytes();
    files::write(&arguments.output, &tgm)?;
    let public = match &arguments.public_out {
        None => None,
        Some(path) => Some(public_part(&compiled, path, arguments)?),
    };
    if as_json {
        let mut report = report_json(&compiled, public.as_ref(), arguments, tgm.len());
        let left = left_out.iter();
        report["left_out"] = left
            .map(|left| serde_json::json!({ "name": left.name, "reason": left.reason }))
            .collect();
        return Ok(json(&report)?);
    }
    report_lines(&compiled, public.as_ref(), arguments, tgm.len())
}

/// What was compiled, for people.
fn report_lines(
    compiled: &Compiled,
    public: Option<&(ModelId, usize, usize)>,
    arguments: &CompileArguments,
    tgm: usize,
) -> Outcome {
    if let Some((id, ..)) = public {
        line(format_args!("model {id}"))?;
    }
    line(format_args!(
        "program {} ({} multiply-accumulates)",
        compiled.model.program.id(),
        compiled.model.program.macs()
    ))?;
    if let Some(digest) = compiled.model.program.tokenizer {
        line(format_args!("tokenizer {digest} (BLAKE3)"))?;
    }
    line(format_args!(
        "calibrated on {} inputs, activations of {}, scales of channels {}; signal to noise by layer, float against integer:",
        compiled.report.calibrated_on, compiled.report.precision, compiled.report.scales
    ))?;
    for layer in &compiled.report.layers {
        line(format_args!(
            "  {:<32} {:<24} {:>13}",
            layer.name,
            layer.operator,
            decibels(layer.snr_db)
        ))?;
    }
    let outputs = &compiled.report.outputs;
    for output in outputs.iter().filter(|_| outputs.len() > 1) {
        let name = output.name.escape_debug();
        line(format_args!("output {name}: {}", decibels(output.snr_db)))?;
    }
    line(loss(&compiled.report))?;
    line(format_args!(
        "{} ({} bytes): program and weights, for providers",
        arguments.output.display(),
        tgm
    ))?;
    if let (Some((_, bytes, _)), Some(path)) = (public, &arguments.public_out) {
        line(format_args!(
            "{} ({bytes} bytes): program, weight commitment and range proof, for anyone",
            path.display()
        ))?;
    }
    if let (Some((.., proofs)), Some(path)) = (public, &arguments.private_weights) {
        line(format_args!(
            "{}: the secret of the weights, for {proofs} proofs; keep it, and never use a copy beside it",
            path.display()
        ))?;
    }
    Ok(())
}

/// Writes the public part; its model id and size, and how many proofs private weights serve.
fn public_part(
    compiled: &Compiled,
    path: &Path,
    arguments: &CompileArguments,
) -> Result<(ModelId, usize, usize), Failure> {
    say("committing the weights and proving their range ...");
    let secret = secret(compiled, arguments)?;
    let model = compiled.model.clone();
    let pass = CurrentPass::begun("committing the weights");
    let model = saying_so(&pass, || match &secret {
        None => ProvingModel::of_checked(model),
        Some(file) => ProvingModel::private(model.into_inner(), file.secret()),
    });
    let model = model
        .or_fail(
            Exit::Usage,
            format!(
                "{} is written and runs, but cannot be proved yet",
                arguments.output.display()
            ),
        )
        .map_err(|failure| {
            failure.hint("leave out --public-out for a model that is only run: `tensorgrid run`")
        })?;
    // Drawn in either case, and used for private weights alone.
    let seed = random_seed()?;
    pass.begin("proving the range of the weights");
    let registered = saying_so(&pass, || match &secret {
        None => model.register(),
        Some(file) => model.register_private(file, seed),
    });
    let tgv = registered
        .or_fail(Exit::Failed, "prove the weights' range")?
        .encode();
    files::write(path, &tgv)?;
    // The first opening of private weights was the registration's.
    Ok((model.id(), tgv.len(), model.openings().saturating_sub(1)))
}

/// The secret of private weights, made now.
fn secret(
    compiled: &Compiled,
    arguments: &CompileArguments,
) -> Result<Option<SecretFile>, Failure> {
    let Some(path) = &arguments.private_weights else {
        return Ok(None);
    };
    let secret = Secret {
        program: compiled.model.program.id(),
        seed: random_seed()?,
        proofs: arguments.openings,
    };
    let file = SecretFile::create(path, secret).or_fail(Exit::Usage, "make the secret")?;
    Ok(Some(file))
}

fn report_json(
    compiled: &Compiled,
    public: Option<&(ModelId, usize, usize)>,
    arguments: &CompileArguments,
    tgm: usize,
) -> serde_json::Value {
    let layers: Vec<_> = compiled
        .report
        .layers
        .iter()
        .map(|layer| serde_json::json!({ "name": layer.name, "operator": layer.operator, "snr_db": layer.snr_db }))
        .collect();
    let outputs = compiled.report.outputs.iter();
    let outputs: Vec<_> = outputs
        .map(|output| serde_json::json!({ "name": output.name, "snr_db": output.snr_db }))
        .collect();
    serde_json::json!({
        "model": public.map(|(id, ..)| id.to_string()),
        "program": compiled.model.program.id().to_string(),
        "macs": compiled.model.program.macs(),
        "tokenizer": compiled.model.program.tokenizer.map(|digest| digest.to_string()),
        "calibrated_on": compiled.report.calibrated_on,
        "precision": format!("{:?}", compiled.report.precision),
        "channel_scales": format!("{:?}", compiled.report.scales),
        "rows_compared": compiled.report.rows(),
        "same_greatest": compiled.report.agreement(),
        "points_expected_lost": 100.0 * compiled.report.loss(),
        "divergence_nats": compiled.report.divergence(),
        "outputs": outputs,
        "layers": layers,
        "model_file": arguments.output, "model_bytes": tgm,
        "public_file": arguments.public_out, "public_bytes": public.map(|&(_, bytes, _)| bytes),
        "private_weights": arguments.private_weights.is_some(),
        "proofs": arguments.private_weights.as_ref().and(public).map(|&(.., proofs)| proofs),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_its_exporter_named_is_called_as_its_file() {
        let file = Path::new("/models/credit.v2.onnx");
        for (given, graph, expected) in [
            ("mine", "main_graph", "mine"),
            ("", "mlp-digits", "mlp-digits"),
            ("", "main_graph", "credit.v2"),
            ("", "torch_jit", "credit.v2"),
            ("", "", "credit.v2"),
        ] {
            assert_eq!(name_of(given, graph, file), expected, "{given} {graph}");
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(name_of("", "", folder), "tg-offline");
        assert_eq!(name_of("", "main_graph", Path::new("..")), "main_graph");
    }

    #[test]
    fn a_pass_that_takes_long_is_told_by_its_name() {
        let pass = CurrentPass::begun("reading");
        pass.begin("choosing units");
        let now = Instant::now();
        assert_eq!(pass.told(now), None);
        let told = pass.told(now + Duration::from_secs(3));
        assert_eq!(told.as_deref(), Some("choosing units for 3 s ..."));
    }

    #[test]
    fn what_is_lost_is_said_in_words() {
        assert_eq!(decibels(f64::NEG_INFINITY), "nothing left");
        assert_eq!(decibels(f64::INFINITY), "no difference");
        assert_eq!(decibels(41.26), "41.3 dB");
    }
}

//! `tensorgrid prove`.

use crate::answer::ShownAnswer;
use crate::arguments::ProveArguments;
use crate::models;
use crate::modes::{self, ModesShown};
use crate::partial::Partial;
use crate::repeats::revealed;
use crate::text;
use std::path::Path;
use std::time::Instant;
use tg_console::files;
use tg_console::outcome::{Exit, Failure, OrFail, Outcome, json, line, say};
use tg_exec::Trace;
use tg_ir::Answer;
use tg_ir::coding::encode;
use tg_ir::{ExecutableModel, Program};
use tg_proof::ProofFile;
use tg_prover::{Limits, Masking, ProveError, ProveRequest, ProvingModel, SecretFile, Stage, Work};
use tg_types::codec::Encode;

/// Runs and proves a model on one input.
///
/// # Errors
/// If the input does not fit, the model cannot be proved, or a file cannot be written.
pub fn run(arguments: &ProveArguments, as_json: bool) -> Outcome {
    let model = models::compiled_model(&arguments.model)?;
    let reals = text::inputs(&model.program, (&arguments.text, &arguments.inputs))?;
    let input = encode(&model.program.input, &reals).or_fail(Exit::Usage, "take the input")?;
    let masking = masking(arguments, &model.program)?;
    files::check_writable(&arguments.output)?;
    say("committing the weights ...");
    let (model, secret) = committed(model, arguments.secret.as_deref())?;
    let partial = (!arguments.zk)
        .then(|| Partial::of(&arguments.partial, &arguments.output, (model.id(), &input)))
        .transpose()?;
    let limits = Limits {
        memory: arguments.memory.map(|mib| mib << 20),
        cancel: None,
        record: partial.as_ref().map(|partial| &partial.record),
    };
    let start = Instant::now();
    let mut progress = Progress::of(&model)?;
    let mut observe = |stage| progress.show(stage);
    let mut request = ProveRequest::of(vec![input]).within(limits);
    if let Some(masking) = &masking {
        request = request.masked(masking);
    }
    if let Some(secret) = &secret {
        request = request.counted_by(secret);
    }
    let proved = tg_prover::prove(&model, request, &mut observe);
    let (file, mut traces) = proved.map_err(failed)?;
    let Some(trace) = traces.pop() else {
        return Err(Failure::new(
            Exit::Failed,
            anyhow::anyhow!("no execution was proved"),
        ));
    };
    let elapsed_ms = start.elapsed().as_secs_f64() * 1e3;
    let bytes = file.to_bytes();
    files::write(&arguments.output, &bytes)?;
    if let Some(partial) = partial {
        partial.done();
    }
    let left = proofs_left(&model, secret.as_ref());
    let made = Made {
        elapsed_ms,
        bytes: bytes.len(),
        left,
    };
    let program = &model.compiled().program;
    if let Some(text) = revealed(program, file.statement.modes()) {
        say(text);
    }
    report(arguments, as_json, (program, &file, &trace), &made)
}

/// The model with its weights committed, and the secret of private ones.
fn committed(
    model: ExecutableModel,
    secret: Option<&Path>,
) -> Result<(ProvingModel, Option<SecretFile>), Failure> {
    let secret = secret.map(SecretFile::open).transpose();
    let secret = secret.or_fail(Exit::Usage, "read the secret")?;
    let model = match &secret {
        None => ProvingModel::of_checked(model),
        Some(file) => ProvingModel::private(model.into_inner(), file.secret()),
    };
    let model = model
        .or_fail(Exit::Usage, "this model cannot be proved")
        .map_err(|failure| {
            failure.hint("`verify: proof` covers the operators listed in docs/PROOF.md")
        })?;
    Ok((model, secret))
}

/// What is said of a proof beside what is in it.
struct Made {
    elapsed_ms: f64,
    bytes: usize,
    /// Proofs that private weights serve yet.
    left: Option<usize>,
}

fn report(
    arguments: &ProveArguments,
    as_json: bool,
    (program, file, trace): (&Program, &ProofFile, &Trace),
    made: &Made,
) -> Outcome {
    let &Made {
        elapsed_ms,
        bytes,
        left,
    } = made;
    let values = trace.output_values();
    let answers = Answer::all(program, &values);
    let shown = ModesShown::of(program, file);
    if as_json {
        return Ok(json(&serde_json::json!({
            "model": file.statement.model.to_string(), "prove_ms": elapsed_ms, "proof_bytes": file.proof.len(),
            "values": values, "answer": answers.json(), "greatest": trace.top_class(), "trace": trace.digest().to_string(),
            "file": arguments.output, "zk": file.statement.zk.is_some(),
            "private_weights": arguments.secret.is_some(), "proofs_left": left,
            "input_mode": shown.words()[0], "output_mode": shown.words()[1],
            "inputs": shown.inputs_json(), "outputs": shown.outputs_json(),
            "input": file.statement.input.to_string(), "output": file.statement.output.to_string(),
        }))?);
    }
    for text in answers.lines(arguments.raw) {
        line(text)?;
    }
    let [input, output] = shown.sentences();
    line(format_args!(
        "proved in {elapsed_ms:.0} ms; {} ({bytes} bytes) holds the proof; input {input}, output {output}",
        arguments.output.display(),
    ))?;
    if let Some(left) = left {
        line(format_args!(
            "the weights are hidden; {left} more proofs may be made with this secret"
        ))?;
    }
    Ok(())
}

/// How many proofs private weights serve yet.
fn proofs_left(model: &ProvingModel, secret: Option<&SecretFile>) -> Option<usize> {
    let begun = secret?.begun().ok()? as usize;
    Some(model.openings().saturating_sub(begun))
}

/// Why nothing was proved.
pub fn failed(error: ProveError) -> Failure {
    let exit = match error {
        ProveError::Memory { .. } | ProveError::Plan(_) | ProveError::Opening(_) => Exit::Usage,
        _ => Exit::Failed,
    };
    let stale = error == ProveError::Record;
    let failure = Failure::new(exit, anyhow::Error::new(error).context("prove"));
    if stale {
        return failure.hint("--restart begins anew");
    }
    failure
}

/// What is printed while a proof is made: a line a second.
#[derive(Debug)]
pub struct Progress {
    work: Work,
    start: Instant,
    shown: Instant,
}

impl Progress {
    /// Of a proof that begins now.
    ///
    /// # Errors
    /// If the model cannot be proved.
    pub fn of(model: &ProvingModel) -> Result<Self, Failure> {
        let work = model
            .work(1)
            .or_fail(Exit::Usage, "this model cannot be proved")?;
        let start = Instant::now();
        let shown = start;
        Ok(Self { work, start, shown })
    }

    /// Says where it is, unless it did so just now.
    pub fn show(&mut self, stage: Stage) {
        if self.shown.elapsed().as_secs() >= 1 {
            self.shown = Instant::now();
            let elapsed = self.start.elapsed().as_secs_f64();
            let left = left(elapsed, self.work.done(stage));
            say(format!("{}{left}", describe(stage)));
        }
    }
}

/// How a proof is to hide, if it is.
fn masking(arguments: &ProveArguments, program: &Program) -> Result<Option<Masking>, Failure> {
    if !arguments.zk {
        return Ok(None);
    }
    if arguments.partial.partial.is_some() || arguments.partial.restart {
        let text = "--partial and --restart: a proof in zero knowledge leaves nothing behind to go on from";
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)));
    }
    let modes = modes::of_command(arguments, program)?;
    let salts = [&arguments.input_salt, &arguments.output_salt];
    let committed = [modes.input, modes.output].map(modes::commits);
    let mut sides = committed.iter().zip(&salts).zip(["input", "output"]);
    if let Some((_, which)) = sides.find(|((commits, salt), _)| **commits && salt.is_none()) {
        let text = format!("an {which} is committed: give the file of a salt by --{which}-salt");
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)));
    }
    let mut masking = Masking::new(random_seed()?, modes);
    for (salt, path) in masking.salts.iter_mut().zip(salts) {
        if let Some(path) = path {
            *salt = salt_of(path)?;
        }
    }
    Ok(Some(masking))
}

/// The salt in a file, which is made if it is missing.
fn salt_of(path: &Path) -> Result<[u8; 32], Failure> {
    if !path.exists() {
        let salt = random_seed()?;
        files::write_secret(path, &tg_types::Digest::new(salt).to_string())?;
        return Ok(salt);
    }
    let text = String::from_utf8(files::read(path, 1 << 10)?).unwrap_or_default();
    let salt = tg_types::Digest::from_hex(text.trim()).ok_or_else(|| {
        let path = path.display();
        let text = format!("{path} is not a salt of 32 bytes in hexadecimal");
        Failure::new(Exit::Usage, anyhow::anyhow!(text))
    })?;
    Ok(*salt.as_bytes())
}

/// Randomness of the operating system, for one proof in zero knowledge.
///
/// # Errors
/// If the operating system gives none.
pub fn random_seed() -> Result<[u8; 32], anyhow::Error> {
    use anyhow::Context;
    files::entropy().context("draw randomness")
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

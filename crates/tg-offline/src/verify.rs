//! `tensorgrid verify`.

use crate::answer::ShownAnswer;
use crate::arguments::{Same, VerifyArguments};
use crate::models;
use crate::models::AnyProof;
use crate::modes::{self, ModesShown};
use crate::repeats::{output_repeats_input, revealed};
use std::fmt::Write;
use std::path::Path;
use std::time::Instant;
use tg_console::outcome::{Exit, Failure, Outcome, json, line};
use tg_console::tokens;
use tg_ir::sampling::NUCLEUS_ALL;
use tg_ir::{Generation, Generator};
use tg_proof::linking::{self, Shared, Verified};
use tg_proof::{
    ExpectedStatement, ProofFile, PublicModel, SecurityReport, SequenceError, SequenceFile,
    Visibility, commitment, security,
};
use tg_types::Digest;
use tg_types::digest::hex;

/// Checks a proof file against a public model.
///
/// # Errors
/// If a file cannot be read, or the proof does not hold.
pub fn run(arguments: &VerifyArguments, as_json: bool) -> Outcome {
    let model = models::public_model(&arguments.model)?;
    let file = models::proof_file(&arguments.proof, arguments.flip_byte)?;
    let elapsed_ms = check(&model, &file, as_json)?;
    let (file, sequence) = match file {
        AnyProof::Plain(file) => (file, None),
        AnyProof::Sequence(file) => (file.proof.clone(), Some(file)),
    };
    let same = match (&arguments.and, arguments.same) {
        (Some(path), Some(same)) => Some((
            same,
            compare(arguments, (&model, &file), path, same, as_json)?,
        )),
        _ => None,
    };
    let batch = file.statement.batch as usize;
    let report = match file.statement.zk {
        Some(modes) => security::report_zk(&model, batch, modes),
        None => security::report_batch(&model, batch),
    };
    let shown = ModesShown::of(model.program(), &file);
    let values = shown.output_values(&file);
    if as_json {
        let with = (&shown, report.as_ref(), values.as_slice());
        let mut verdict = verdict_json(&model, &file, with, elapsed_ms);
        verdict["sequence"] = sequence.as_ref().map(|it| sequence_json(&model, it)).into();
        verdict["same"] = same.map(|(_, shared)| shared.to_string()).into();
        return Ok(json(&verdict)?);
    }
    let with = (&shown, values.as_slice(), arguments.raw);
    say_verified(&model, (&file, sequence.as_ref()), with, elapsed_ms)?;
    if let Some((same, shared)) = same {
        let what = match same {
            Same::Model => "both proofs used the same model",
            Same::Input => "both proofs have the same input",
            Same::Output => "both proofs have the same output",
            Same::Chain => "the output of this proof is the input of the second",
        };
        line(format_args!("SAME: {what} ({shared})"))?;
    }
    if arguments.explain {
        line(explain(&model, &file, report.as_ref()))?;
    }
    Ok(())
}

/// What was proved, in a sentence or two.
fn say_verified(
    model: &PublicModel,
    (file, sequence): (&ProofFile, Option<&SequenceFile>),
    (shown, values, raw): (&ModesShown<'_>, &[i32], bool),
    elapsed_ms: f64,
) -> Outcome {
    let what = match sequence {
        Some(sequence) => written(model, sequence),
        None => sentence(model, file),
    };
    line(format_args!("VERIFIED in {elapsed_ms:.1} ms: {what}"))?;
    if sequence.is_none() {
        let lines = shown.lines().into_iter();
        for text in lines.chain(shown.answers(values).lines(raw)) {
            line(text)?;
        }
    }
    Ok(())
}

/// Verifies a proof; gives the milliseconds it took.
fn check(model: &PublicModel, file: &AnyProof, as_json: bool) -> Result<f64, Failure> {
    let start = Instant::now();
    let expected = ExpectedStatement::default();
    let verdict = match file {
        AnyProof::Plain(file) => {
            tg_proof::verify(model, file, &expected).map_err(SequenceError::Proof)
        }
        AnyProof::Sequence(file) => tg_proof::verify_sequence(model, file, &expected),
    };
    match verdict {
        Ok(()) => Ok(start.elapsed().as_secs_f64() * 1e3),
        Err(error) => Err(rejected(error, as_json)),
    }
}

/// Says what failed.
fn rejected(error: SequenceError, as_json: bool) -> Failure {
    if as_json {
        let (check, code) = match &error {
            SequenceError::Proof(error) => (error.check(), Some(error.code())),
            _ => ("sequence", None),
        };
        let value = serde_json::json!({ "verified": false, "check": check, "code": code, "reason": error.to_string() });
        // The failure says the same.
        let _written = json(&value);
    }
    let reason = match error {
        SequenceError::Proof(error) => anyhow::Error::from(error),
        error => anyhow::Error::from(error),
    };
    Failure::new(Exit::Rejected, reason.context("REJECTED"))
}

/// Verifies a second proof; gives the digest by which both statements name what they share.
fn compare(
    arguments: &VerifyArguments,
    (model, first): (&PublicModel, &ProofFile),
    path: &Path,
    same: Same,
    as_json: bool,
) -> Result<Digest, Failure> {
    let second = models::proof_file(path, None)?;
    let other = arguments.and_model.as_deref().map(models::public_model);
    let other = other.transpose()?;
    let other = other.as_ref().unwrap_or(model);
    check(other, &second, as_json)?;
    let second = match &second {
        AnyProof::Plain(file) => file,
        AnyProof::Sequence(file) => &file.proof,
    };
    let what = match same {
        Same::Model => Shared::Model,
        Same::Input => Shared::Input,
        Same::Output => Shared::Output,
        Same::Chain => Shared::Chain,
    };
    let of = Verified::new(model.program(), &first.statement);
    let and = Verified::new(other.program(), &second.statement);
    linking::shared(&of, &and, what).map_err(|reason| {
        if as_json {
            let value =
                serde_json::json!({ "verified": true, "same": null, "reason": reason.to_string() });
            // The failure says the same.
            let _written = json(&value);
        }
        let reason = anyhow::Error::from(reason).context("NOT THE SAME");
        Failure::new(Exit::Rejected, reason)
    })
}

/// What was written, and by what rule.
fn written(model: &PublicModel, file: &SequenceFile) -> String {
    // It was verified, so it has the tokens that it states.
    let (given, written) = file.tokens().unwrap_or_default();
    let Generation {
        limit,
        stop,
        sampling,
        ..
    } = file.generation;
    let mut rule = tokens::rule(&sampling, score_unit(model));
    if sampling.keep > 1 {
        rule.push_str(", which whoever proved it chose unless you gave it");
    }
    let stop = match stop {
        None => String::new(),
        Some(token) => format!(", or up to token {token}"),
    };
    format!(
        "model `{}` ({}) wrote {} tokens after these {}, of at most {limit}{stop}, {rule}\n{given:?}\n{written:?}",
        model.program().name,
        model.id(),
        written.len(),
        given.len(),
    )
}

/// Real value of one unit of a score: of a model whose sequence was verified it is known.
fn score_unit(model: &PublicModel) -> f32 {
    Generator::score_unit(model.program()).unwrap_or(1.0)
}

fn sequence_json(model: &PublicModel, file: &SequenceFile) -> serde_json::Value {
    let (prompt, tokens) = file.tokens().unwrap_or_default();
    let Generation {
        limit,
        stop,
        sampling,
        ..
    } = file.generation;
    serde_json::json!({
        "prompt": prompt, "tokens": tokens, "limit": limit, "stop": stop, "keep": sampling.keep,
        "nucleus": f64::from(sampling.nucleus) / f64::from(NUCLEUS_ALL), "seed": hex(&sampling.seed),
        "rescale": [sampling.rescale.multiplier(), sampling.rescale.shift()],
        "sampling": tokens::rule_json(&sampling, score_unit(model)),
    })
}

fn sentence(model: &PublicModel, file: &ProofFile) -> String {
    let modes = file.statement.modes();
    let tensor = |mode, name, bytes: &[u8]| match mode {
        Visibility::Public => format!("this {name} ({} bytes)", bytes.len()),
        Visibility::Committed => format!("the {name} of this commitment"),
        Visibility::Hidden => format!("an {name} that is hidden"),
        Visibility::Each(_) => format!("{name}s of these modes"),
    };
    let weights = match model.private_weights() {
        Some(_) => ", its weights hidden,",
        None => "",
    };
    let revealed = revealed(model.program(), modes);
    let revealed = revealed.map_or_else(String::new, |text| format!("\n{text}"));
    format!(
        "model `{}` ({}){weights} gives {} on {}{revealed}",
        model.program().name,
        model.id(),
        tensor(modes.output, "output", &file.output),
        tensor(modes.input, "input", &file.input),
    )
}

fn verdict_json(
    model: &PublicModel,
    file: &ProofFile,
    (shown, report, values): (&ModesShown<'_>, Option<&SecurityReport>, &[i32]),
    elapsed_ms: f64,
) -> serde_json::Value {
    let (statement, modes) = (&file.statement, shown.words());
    serde_json::json!({
        "verified": true,
        "verify_ms": elapsed_ms,
        "model": model.id().to_string(),
        "program": model.program_id().to_string(),
        "name": model.program().name,
        "job": statement.job.to_string(),
        "provider": statement.provider.to_string(),
        "input": statement.input.to_string(),
        "output": statement.output.to_string(),
        "values": shown.shown_values(values),
        "answer": shown.answers(values).json(),
        "inputs": shown.inputs_json(), "outputs": shown.outputs_json(),
        "proof_bytes": file.proof.len(),
        "zk": statement.zk.is_some(),
        "private_weights": model.private_weights().is_some(),
        "input_mode": modes[0],
        "output_mode": modes[1],
        "output_repeats_input": output_repeats_input(model.program()),
        "security_bits": report.map(|report| report.bits),
        "security_bits_2055": report.map(|report| report.bits_before),
        "terms": report.map(|report| {
            report.terms.iter().map(|term| serde_json::json!({
                "label": term.label, "source": term.source, "bits": term.bits,
                "bits_2055": term.bits_before,
            })).collect::<Vec<_>>()
        }),
    })
}

/// What was proved, by what, how surely, and what was not.
fn explain(model: &PublicModel, file: &ProofFile, report: Option<&SecurityReport>) -> String {
    let modes = ModesShown::of(model.program(), file).sentences();
    let statement = &file.statement;
    let shown = |mode: &String, digest: Digest| match mode.as_str() {
        "hidden" => mode.clone(),
        _ => format!("{mode}, {digest}"),
    };
    let mut text = String::from("\nStatement\n");
    let rows = [
        ("model", model.id().to_string()),
        ("program", model.program_id().to_string()),
        ("weights root", model.program().weights_root.to_string()),
        ("job", statement.job.to_string()),
        ("provider", statement.provider.to_string()),
        ("inputs", statement.batch.to_string()),
        ("input", shown(&modes[0], statement.input)),
        ("output", shown(&modes[1], statement.output)),
    ];
    for (name, value) in rows {
        push(&mut text, format_args!("  {name:<13} {value}"));
    }
    push(
        &mut text,
        format_args!("\nCommitments (BLAKE3 Merkle roots, opened once each by WHIR)"),
    );
    let weights = model.weights_commitment().map_or_else(
        || "none: the program has no weights, its id alone makes the model id".to_owned(),
        |own| {
            let root = commitment::root(&own.root);
            format!("{root}, with an anchor in the model id")
        },
    );
    push(&mut text, format_args!("  weights       {weights}"));
    let witness = model.witness_root(file).map_or_else(
        || "none: nothing of the execution has to be committed".to_owned(),
        |root| root.to_string(),
    );
    push(
        &mut text,
        format_args!(
            "  witness       {witness}, in a proof of {} bytes",
            file.proof.len()
        ),
    );
    explain_security(&mut text, "this proof", report);
    explain_security(
        &mut text,
        "the model's registration",
        security::registration_report(model).as_ref(),
    );
    text.push_str(ASSUMPTIONS);
    let modes = statement.modes();
    if [modes.input, modes.output].into_iter().any(modes::commits) {
        text.push_str(ASSUMED_OF_COMMITMENTS);
    }
    text.push_str(match (statement.zk, model.private_weights()) {
        (Some(_), Some(_)) => HIDDEN_WITH_WEIGHTS,
        (Some(_), None) => HIDDEN,
        (None, _) => SHOWN,
    });
    text.push_str(NOT_COVERED);
    text
}

/// What a term reaches under the theorem before, if that is another level.
fn beside(term: &security::ErrorTerm) -> String {
    if term.bits_before == term.bits {
        return String::new();
    }
    format!(" ({:.1} under {})", term.bits_before, security::BEFORE)
}

/// Every error term and their sum.
fn explain_security(text: &mut String, of: &str, report: Option<&SecurityReport>) {
    push(
        text,
        format_args!("\nSecurity of {of}: minus log2 of the sum of all error terms"),
    );
    let Some(report) = report else {
        return push(
            text,
            format_args!("  no bound is known for these parameters"),
        );
    };
    for term in &report.terms {
        push(
            text,
            format_args!(
                "  {:>6.1}  {:<52} {}{}",
                term.bits,
                term.label,
                term.source,
                beside(term)
            ),
        );
    }
    push(text, format_args!("  {:>6.1}  TOTAL BITS", report.bits));
    push(
        text,
        format_args!(
            "  {:>6.1}  total bits with folds charged by {}",
            report.bits_before,
            security::BEFORE
        ),
    );
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _infallible = writeln!(text, "{arguments}");
}

const ASSUMPTIONS: &str = "
Assumed
  BLAKE3 is a random oracle (Fiat-Shamir); Johnson-bound list decoding, no conjecture; grinding of at most 16 bits a
  phase is counted within the openings' terms.
";

const ASSUMED_OF_COMMITMENTS: &str = "  Ring-SIS of degree 512 (a commitment binds), Module-LWE of rank 3 (it hides), at the parameters of docs/PROOF.md,
  statements. Who knows the salt of a commitment can test guesses of its tensor.
";

const HIDDEN: &str = "
Hidden
  zk: true: an input or output that is not public, and everything that the model computes between them. A proof shows
  nothing of these but what the public ones say themselves; every message is padded (docs/PROOF.md, zero knowledge).
  Not hidden: the program, all sizes, and evaluations of the weights. Nothing is hidden from the prover.
";

const HIDDEN_WITH_WEIGHTS: &str = "
Hidden
  zk: true: an input or output that is not public, everything that the model computes between them, and the weights. A proof
  shows nothing of these but what the public ones say themselves; every message is padded (docs/PROOF.md, zero knowledge
  and private weights). The prover counts its proofs: more than its commitment is for may give the weights away.
  Not hidden: the program, with the BLAKE3 root of the weights, and all sizes. Nothing is hidden from the prover.
";

const SHOWN: &str = "
Hidden
  zk: false: weights are not sent, but the proof is not masked.
";

const NOT_COVERED: &str = "
Not covered
  That the committed weights are those of the weights root above: whoever holds the .tgm file can recompute both.
  That the model is any good, or who saw the input.";

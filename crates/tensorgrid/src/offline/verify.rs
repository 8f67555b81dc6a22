//! `tensorgrid verify`.

use crate::cli::VerifyArguments;
use crate::offline::files::{self, AnyProof};
use crate::offline::generate::hex;
use crate::outcome::{Exit, Failure, Outcome, json, line};
use std::fmt::Write;
use std::time::Instant;
use tg_ir::sampling::NUCLEUS_ALL;
use tg_ir::{Generation, Sampling};
use tg_proof::{
    ExpectedStatement, ProofFile, PublicModel, SecurityReport, SequenceError, SequenceFile,
    commitment, security,
};

/// Checks a proof file against a public model.
pub(crate) fn run(arguments: &VerifyArguments, as_json: bool) -> Outcome {
    let model = files::public_model(&arguments.model)?;
    let file = files::proof_file(&arguments.proof, arguments.flip_byte)?;
    let start = Instant::now();
    let expected = ExpectedStatement::default();
    let verdict = match &file {
        AnyProof::Plain(file) => {
            tg_proof::verify(&model, file, &expected).map_err(SequenceError::Proof)
        }
        AnyProof::Sequence(file) => tg_proof::verify_sequence(&model, file, &expected),
    };
    let elapsed_ms = start.elapsed().as_secs_f64() * 1e3;
    if let Err(error) = verdict {
        return rejected(error, as_json);
    }
    let (file, sequence) = match file {
        AnyProof::Plain(file) => (file, None),
        AnyProof::Sequence(file) => (file.proof.clone(), Some(file)),
    };
    let batch = file.statement.batch as usize;
    let report = if file.statement.zk {
        security::report_zk(&model, batch)
    } else {
        security::report_batch(&model, batch)
    };
    let values = files::output_values(model.program(), &file.output);
    if as_json {
        let mut verdict = verdict_json(&model, &file, report.as_ref(), &values, elapsed_ms);
        verdict["sequence"] = sequence.as_ref().map(sequence_json).into();
        return Ok(json(&verdict)?);
    }
    if let Some(sequence) = &sequence {
        line(format_args!(
            "VERIFIED in {elapsed_ms:.1} ms: {}",
            written(&model, sequence)
        ))?;
    } else {
        line(format_args!(
            "VERIFIED in {elapsed_ms:.1} ms: {}",
            sentence(&model, &file)
        ))?;
        line(format_args!(
            "output {values:?}; greatest at index {}",
            tg_model::execute::top_class(&values).unwrap_or(0)
        ))?;
    }
    if arguments.explain {
        line(explain(&model, &file, report.as_ref()))?;
    }
    Ok(())
}

/// Says what failed.
fn rejected(error: SequenceError, as_json: bool) -> Outcome {
    if as_json {
        let (check, code) = match &error {
            SequenceError::Proof(error) => (error.check(), Some(error.code())),
            _ => ("sequence", None),
        };
        json(
            &serde_json::json!({ "verified": false, "check": check, "code": code, "reason": error.to_string() }),
        )?;
    }
    let reason = match error {
        SequenceError::Proof(error) => anyhow::Error::from(error),
        error => anyhow::Error::from(error),
    };
    Err(Failure::new(Exit::Rejected, reason.context("REJECTED")))
}

/// What was written, and by what rule.
fn written(model: &PublicModel, file: &SequenceFile) -> String {
    let (given, written) = file.tokens();
    let Sampling {
        keep,
        nucleus,
        seed,
        ..
    } = file.generation.sampling;
    let rule = if keep == 1 {
        "always the greatest score".to_owned()
    } else {
        let share = 100.0 * f64::from(nucleus) / f64::from(NUCLEUS_ALL);
        format!(
            "drawn among the {keep} greatest scores ({share:.0} % of their weight) by seed {}",
            hex(&seed)
        )
    };
    format!(
        "model `{}` ({}) wrote {} tokens after these {}, {rule}\n{given:?}\n{written:?}",
        model.program().name,
        model.id(),
        written.len(),
        given.len(),
    )
}

fn sequence_json(file: &SequenceFile) -> serde_json::Value {
    let (prompt, tokens) = file.tokens();
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
    })
}

fn sentence(model: &PublicModel, file: &ProofFile) -> String {
    let input = if file.statement.zk {
        "an input that is hidden".to_owned()
    } else {
        format!("this input ({} bytes)", file.input.len())
    };
    format!(
        "model `{}` ({}) gives this output ({} bytes) on {input}",
        model.program().name,
        model.id(),
        file.output.len(),
    )
}

fn verdict_json(
    model: &PublicModel,
    file: &ProofFile,
    report: Option<&SecurityReport>,
    values: &[i32],
    elapsed_ms: f64,
) -> serde_json::Value {
    let statement = &file.statement;
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
        "values": values,
        "proof_bytes": file.proof.len(),
        "zk": statement.zk,
        "security_bits": report.map(|report| report.bits),
        "terms": report.map(|report| {
            report.terms.iter().map(|term| serde_json::json!({
                "label": term.label, "source": term.source, "bits": term.bits,
            })).collect::<Vec<_>>()
        }),
    })
}

/// What was proved, by what, how surely, and what was not.
fn explain(model: &PublicModel, file: &ProofFile, report: Option<&SecurityReport>) -> String {
    let statement = &file.statement;
    let mut text = String::from("\nStatement\n");
    let rows = [
        ("model", model.id().to_string()),
        ("program", model.program_id().to_string()),
        ("weights root", model.program().weights_root.to_string()),
        ("job", statement.job.to_string()),
        ("provider", statement.provider.to_string()),
        ("inputs", statement.batch.to_string()),
        (
            "input",
            if statement.zk {
                "hidden".to_owned()
            } else {
                statement.input.to_string()
            },
        ),
        ("output", statement.output.to_string()),
    ];
    for (name, value) in rows {
        push(&mut text, format_args!("  {name:<13} {value}"));
    }
    push(
        &mut text,
        format_args!("\nCommitments (BLAKE3 Merkle roots, opened once each by WHIR)"),
    );
    let weights = commitment::root(&model.weights_commitment().root);
    push(
        &mut text,
        format_args!("  weights       {weights}, with an anchor in the model id"),
    );
    let witness = file.witness_root().unwrap_or_default();
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
    text.push_str(if statement.zk { HIDDEN } else { SHOWN });
    text.push_str(NOT_COVERED);
    text
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
            format_args!("  {:>6.1}  {:<52} {}", term.bits, term.label, term.source),
        );
    }
    push(text, format_args!("  {:>6.1}  TOTAL BITS", report.bits));
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

const HIDDEN: &str = "
Hidden
  zk: true: the input, and everything that the model computes between it and the output. A proof shows nothing of them
  but what the output says itself; every message is padded (docs/PROOF.md, zero knowledge).
  Not hidden: the program, all sizes, the output, and evaluations of the weights. Nothing is hidden from the prover.
";

const SHOWN: &str = "
Hidden
  zk: false: weights are not sent, but the proof is not masked.
";

const NOT_COVERED: &str = "
Not covered
  That the committed weights are those of the weights root above: whoever holds the .tgm file can recompute both.
  That the model is any good, or who saw the input.";

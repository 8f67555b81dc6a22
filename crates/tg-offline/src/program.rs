//! `tensorgrid program check` and `run`: programs of WebAssembly without a grid.

use std::path::Path;
use std::time::Instant;
use tg_console::files;

use tg_types::limits::INPUT_BYTES_MAX;
use tg_wasm::limits::FILE_BYTES_MAX;
use tg_wasm::{ProgramAnswer, ProgramEnd, ProgramFile, ProgramInput, RunLimits, WasmProgram};

use crate::arguments::{ProgramCheckArguments, ProgramRunArguments};
use crate::arguments::{ProgramFileArguments, ProgramInputArguments};
use tg_console::outcome::{Exit, Failure, OrFail, Outcome, json, line, say};

/// Bytes of an output that are shown if it is no text.
const SHOWN: usize = 64;

/// Says what a module is, or why it is refused.
///
/// # Errors
/// If the module is refused, or a file cannot be read or written.
pub fn check(arguments: &ProgramCheckArguments, as_json: bool) -> Outcome {
    let (file, program) = read(&arguments.file)?;
    if let Some(path) = &arguments.write {
        files::write(path, &file)?;
        say(format_args!("wrote {}", path.display()));
    }
    let (facts, limits) = (program.facts(), program.limits());
    if as_json {
        return Ok(json(&serde_json::json!({
            "program": program.id().to_string(), "model": program.model_id().to_string(), "bytes": file.len(),
            "functions": facts.functions, "pages": facts.pages, "globals": facts.globals,
            "start": facts.has_start, "merge": facts.has_merge, "fuel": limits.fuel, "pages_max": limits.pages,
        }))?);
    }
    let yes = |holds: bool| if holds { "yes" } else { "no" };
    line(format_args!("program  {}", program.id()))?;
    line(format_args!("id       {}", program.model_id()))?;
    line(format_args!(
        "module   {} functions, {} mutable globals, {} pages of memory at first",
        facts.functions, facts.globals, facts.pages
    ))?;
    line(format_args!(
        "exports  memory, alloc, step, output; merge: {}; start function: {}",
        yes(facts.has_merge),
        yes(facts.has_start)
    ))?;
    line(format_args!(
        "a run    {} fuel, {} pages of memory, {} bytes of input and {} of output at most",
        limits.fuel, limits.pages, limits.input, limits.output
    ))?;
    Ok(())
}

/// Runs a module.
///
/// # Errors
/// If the module is refused, or its run does not finish.
pub fn run(arguments: &ProgramRunArguments, as_json: bool) -> Outcome {
    let (_, program) = read(&arguments.file)?;
    let input = input(&arguments.given)?;
    let start = Instant::now();
    let run = program.try_run(&input);
    let run = run.or_fail(Exit::Failed, "run the program")?;
    let elapsed_ms = start.elapsed().as_secs_f64() * 1e3;
    if let Some(path) = &arguments.given.output {
        files::write(path, &run.answer.output)?;
    }
    if as_json {
        json(&answer_json(&run.answer, &run.trace.to_string()))?;
    } else {
        show(&run.answer, arguments.given.output.as_deref())?;
        line(format_args!(
            "ran (WASM-1) in {elapsed_ms:.1} ms; trace {}",
            run.trace
        ))?;
    }
    ended(&run.answer)
}

/// The program file of the arguments, and the program in it.
///
/// # Errors
/// If the file cannot be read, or is refused.
pub fn read(arguments: &ProgramFileArguments) -> Result<(Vec<u8>, WasmProgram), Failure> {
    let bytes = files::read(&arguments.module, FILE_BYTES_MAX)?;
    let file = if tg_wasm::is_program(&bytes) {
        bytes
    } else {
        let limits = RunLimits {
            fuel: arguments.fuel,
            pages: arguments
                .pages
                .unwrap_or(RunLimits::pages_max(arguments.fuel)),
            ..RunLimits::default()
        };
        ProgramFile::new(bytes, limits).encode()
    };
    let program = WasmProgram::read(&file);
    let program = program.or_fail(Exit::Rejected, "take the program")?;
    Ok((file, program))
}

/// The input that arguments name.
///
/// # Errors
/// If a file cannot be read, or the input is longer than one may be.
pub fn input(arguments: &ProgramInputArguments) -> Result<Vec<u8>, Failure> {
    let chunks = chunks(arguments)?;
    encoded(&match arguments.merge {
        true => ProgramInput::Merge(chunks),
        false => ProgramInput::Steps(chunks),
    })
}

/// The inputs of so many runs, each with some of the chunks that arguments name, in their order.
///
/// # Errors
/// If a file cannot be read, there are fewer chunks than runs, or one of the inputs is longer than it may be.
pub fn inputs_of_parts(
    arguments: &ProgramInputArguments,
    parts: usize,
) -> Result<Vec<Vec<u8>>, Failure> {
    let chunks = chunks(arguments)?;
    if chunks.len() < parts {
        let text = format!("{} chunks are no {parts} parts", chunks.len());
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text))
            .hint(format!("--chunks {parts} cuts each file into {parts}")));
    }
    let at = |part: usize| chunks.len() * part / parts;
    (0..parts)
        .map(|part| {
            encoded(&ProgramInput::Steps(
                chunks[at(part)..at(part + 1)].to_vec(),
            ))
        })
        .collect()
}

/// The input of a run that merges outputs of others.
///
/// # Errors
/// If they are longer than an input may be.
pub fn merging(outputs: Vec<Vec<u8>>) -> Result<Vec<u8>, Failure> {
    encoded(&ProgramInput::Merge(outputs))
}

/// The chunks that arguments name.
fn chunks(arguments: &ProgramInputArguments) -> Result<Vec<Vec<u8>>, Failure> {
    let mut chunks = Vec::new();
    for path in &arguments.inputs {
        let bytes = files::read(path, u64::from(INPUT_BYTES_MAX))?;
        chunks.extend(cut(&bytes, arguments.chunks as usize));
    }
    Ok(chunks)
}

fn encoded(input: &ProgramInput) -> Result<Vec<u8>, Failure> {
    let bytes = input.encode();
    if bytes.len() > INPUT_BYTES_MAX as usize {
        let text = format!(
            "the input has {} bytes with its chunks, at most {INPUT_BYTES_MAX} are allowed",
            bytes.len()
        );
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text))
            .hint("run the parts as several jobs that are merged: program submit --parts N"));
    }
    Ok(bytes)
}

/// Bytes cut into so many pieces, the first ones a byte longer where it does not divide.
fn cut(bytes: &[u8], pieces: usize) -> Vec<Vec<u8>> {
    let at = |piece: usize| bytes.len() * piece / pieces.max(1);
    (0..pieces)
        .map(|piece| bytes[at(piece)..at(piece + 1)].to_vec())
        .collect()
}

/// Prints an answer: its output unless that was written to a file, how it ended, and its bill.
///
/// # Errors
/// If the output cannot be written.
pub fn show(answer: &ProgramAnswer, written: Option<&Path>) -> Outcome {
    match written {
        Some(path) => say(format_args!(
            "wrote {} bytes to {}",
            answer.output.len(),
            path.display()
        )),
        None => line(output_text(&answer.output))?,
    }
    line(format_args!(
        "{} after {} chunks; {} fuel burned",
        answer.end, answer.calls, answer.fuel
    ))?;
    Ok(())
}

/// An output as text, or its first bytes.
fn output_text(output: &[u8]) -> String {
    let is_shown = |it: char| !it.is_control() || it.is_ascii_whitespace();
    if let Ok(text) = std::str::from_utf8(output)
        && text.chars().all(is_shown)
    {
        return text.trim_end().to_owned();
    }
    let hex: Vec<String> = output
        .iter()
        .take(SHOWN)
        .map(|it| format!("{it:02x}"))
        .collect();
    format!("{} bytes: {}", output.len(), hex.join(" "))
}

/// An answer as data.
pub fn answer_json(answer: &ProgramAnswer, trace: &str) -> serde_json::Value {
    let hex: String = answer.output.iter().map(|it| format!("{it:02x}")).collect();
    serde_json::json!({
        "tier": "WASM-1", "end": answer.end.to_string(), "finished": answer.end == ProgramEnd::Finished,
        "fuel": answer.fuel, "chunks": answer.calls, "output": hex, "trace": trace,
    })
}

/// Fails if a run did not finish.
///
/// # Errors
/// How it ended instead.
pub fn ended(answer: &ProgramAnswer) -> Outcome {
    if answer.end == ProgramEnd::Finished {
        return Ok(());
    }
    let text = format!("the run did not finish: {}", answer.end);
    Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text)))
}

#[cfg(test)]
mod tests {
    use super::{cut, output_text};

    #[test]
    fn pieces_are_all_of_a_file_in_order() {
        for pieces in 1..9 {
            let cut = cut(b"abcdefg", pieces);
            assert_eq!((cut.len(), cut.concat()), (pieces, b"abcdefg".to_vec()));
        }
    }

    #[test]
    fn an_output_that_is_no_text_is_shown_in_digits() {
        assert_eq!(output_text(b"a 1\nb 2\n"), "a 1\nb 2");
        assert_eq!(output_text(&[1, 255]), "2 bytes: 01 ff");
    }
}

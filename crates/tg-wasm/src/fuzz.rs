//! The fuzz targets: any bytes are refused with a reason, are a program that answers any input, or a file that is judged.

use tg_types::{Decode as _, Digest, Encode as _};

use crate::trace::{ExpectedProgramTrace, ProgramTraceFile, program_vote_on};
use crate::{ProgramAnswer, ProgramFile, ProgramInput, RunLimits, WasmProgram};

/// A program, for files about runs of it.
const PI: &[u8] = include_bytes!("../../../examples/programs/pi.wasm");

/// Reads the bytes as a program file and as a module, and runs what is taken with little fuel.
pub fn fuzz_program(bytes: &[u8]) {
    let limits = RunLimits {
        fuel: 100_000,
        ..RunLimits::default()
    };
    let module = ProgramFile::new(bytes.to_vec(), limits).encode();
    for file in [bytes, module.as_slice()] {
        let Ok(program) = WasmProgram::read(file) else {
            continue;
        };
        if program.limits().fuel <= 1_000_000 {
            let steps = ProgramInput::steps(vec![vec![1; 16], Vec::new()]);
            let first = program.run(&steps.encode());
            assert_eq!(first, program.run(&steps.encode()), "a run repeats itself");
            let _ = program.run(bytes);
        }
    }
}

/// A program, and an input of ten chunks.
fn judged_program() -> Option<(WasmProgram, Vec<u8>)> {
    let file = ProgramFile::new(PI.to_vec(), RunLimits::default()).encode();
    let chunks = (1..=10_u64).map(|seed| [seed, 10].map(u64::to_le_bytes).concat());
    let input = ProgramInput::steps(chunks.collect()).encode();
    Some((WasmProgram::read(&file).ok()?, input))
}

/// Reads the bytes as the evidence of mode `sync` of a run, and judges it as one that its provider committed to.
pub fn fuzz_trace(bytes: &[u8]) {
    let Ok(file) = ProgramTraceFile::from_bytes(bytes) else {
        return;
    };
    assert_eq!(file.to_bytes(), bytes, "evidence has one encoding");
    let Some((program, input)) = judged_program() else {
        return;
    };
    let trace = match (&file.opened, ProgramAnswer::decode(&file.answer)) {
        (Some(opened), Ok(answer)) => opened.record.commitment(&input, &answer),
        _ => Digest::default(),
    };
    let expected = ExpectedProgramTrace {
        input: &input,
        output: &Digest::of_blob(&file.answer),
        trace: &trace,
        challenge: &Digest::default(),
    };
    let Ok(found) = program.verify_trace(&file, expected) else {
        return;
    };
    let vote = program_vote_on(found.as_ref().copied());
    let held = program.program_accusation_holds(&file, expected, vote);
    assert_eq!(
        held,
        Ok(found.err()),
        "every validator finds what a member does"
    );
}

/// A file that [`fuzz_trace`] reads, for mutations of it.
#[must_use]
pub fn judged_file() -> Vec<u8> {
    let opened = judged_program().and_then(|(program, input)| {
        let file = program.open(&input, &Digest::default()).ok()?;
        Some(file.to_bytes())
    });
    opened.unwrap_or_default()
}

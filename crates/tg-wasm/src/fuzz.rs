//! The fuzz targets: any bytes are refused with a reason, are a program that answers any input, or a file that is judged.

use tg_types::{
    Decode as _, Digest, Encode as _, JobId, LeaseId, ModelId, Receipt, RunCommitment, Tier,
    TraceForm, stated_trace,
};

use crate::trace::{
    ExpectedProgramClaim, ExpectedProgramTrace, ProgramClaim, ProgramFault, ProgramTraceFile,
    program_vote_on,
};
use crate::{ProgramAnswer, ProgramFile, ProgramInput, ProgramRun, RunLimits, WasmProgram};

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
    let lease = LeaseId::new([0; 32]);
    let trace = RunCommitment::read(&trace).for_lease(&lease).digest();
    let expected = ExpectedProgramTrace {
        lease: &lease,
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

/// Reads the bytes as a claim about a run and as the answer to one. A right run withstands every claim, and its claim every answer.
pub fn fuzz_claim(bytes: &[u8]) {
    if let Ok(claim) = ProgramClaim::from_bytes(bytes) {
        assert_eq!(claim.to_bytes(), bytes, "a claim has one encoding");
    }
    if let Ok(fault) = ProgramFault::from_bytes(bytes) {
        assert_eq!(fault.to_bytes(), bytes, "an answer has one encoding");
    }
    let Some((program, input)) = judged_program() else {
        return;
    };
    let lease = LeaseId::new([7; 32]);
    let (Ok(claim), Ok(right)) = (program.claim(&input), program.try_run(&input)) else {
        return;
    };
    let receipt = |run: &ProgramRun| {
        let names = (&JobId::default(), &lease);
        Receipt {
            program: program.id(),
            model: ModelId::default(),
            input: Digest::of_blob(&input),
            output: Digest::of_blob(&run.answer.encode()),
            trace: stated_trace(TraceForm::Run, names, run.trace, run.answer.fuel),
            tier: Tier::Wasm1,
        }
    };
    let expected = |receipt| ExpectedProgramClaim {
        lease: &lease,
        input: &input,
        receipt,
    };
    let honest = receipt(&right);
    let shown = program.fault_of(bytes, expected(&honest));
    let shown = shown.ok().flatten();
    let shown = shown.map(|it| it.to_bytes()).unwrap_or_default();
    let fails = program.claim_fails((bytes, &shown), expected(&honest));
    assert_ne!(fails, Ok(false), "a right run withstands every claim");
    let mut wrong = right;
    wrong.answer.fuel += 1;
    let liar = receipt(&wrong);
    let fails = program.claim_fails((&claim.to_bytes(), bytes), expected(&liar));
    assert_ne!(fails, Ok(true), "a right claim withstands every answer");
}

/// Files that [`fuzz_trace`] and [`fuzz_claim`] read, for mutations of them: an opening, a claim, and what shows that one is wrong.
#[must_use]
pub fn judged_files() -> Vec<Vec<u8>> {
    let made = judged_program().and_then(|(program, input)| {
        let file = program.open(&input, &Digest::default()).ok()?;
        let claim = program.claim(&input).ok()?;
        let call = 2;
        let state = program.state_before(&input, call).ok()?;
        let fault = ProgramFault::Call { call, state };
        Some(vec![file.to_bytes(), claim.to_bytes(), fault.to_bytes()])
    });
    made.unwrap_or_default()
}

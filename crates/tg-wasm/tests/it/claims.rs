//! Claims about a run: whoever ran the program wins, as accuser and as accused, whatever the other hands in.

use tg_types::{
    Decode as _, Digest, Encode as _, JobId, LeaseId, ModelId, Receipt, Tier, TraceForm,
    stated_trace,
};
use tg_wasm::limits::{FUEL_MAX, LONG_PAGES_MAX, REPEATED_FUEL_MAX};
use tg_wasm::trace::{
    CallRecord, ExpectedProgramClaim, OPENED_BYTES_MAX, ProgramClaim, ProgramFault, ProgramRecord,
};
use tg_wasm::{ProgramAnswer, ProgramEnd, ProgramInput, ProgramTrap, RunLimits, WasmProgram};

use crate::assembler::{Assembler, Function, i32_const, i64_const};
use crate::random::{Draws, drawn_module};
use crate::trace::{counter, merging, parts, rounds};

const LEASE: LeaseId = LeaseId::new([7; 32]);

/// A result that somebody accuses.
struct Result {
    input: Vec<u8>,
    receipt: Receipt,
}

impl Result {
    /// One whose receipt says that a run with these states answered this.
    fn of(program: &WasmProgram, input: &[u8], (answer, trace): (&ProgramAnswer, Digest)) -> Self {
        let names = (&JobId::default(), &LEASE);
        Self {
            input: input.to_vec(),
            receipt: Receipt {
                program: program.id(),
                model: ModelId::default(),
                input: Digest::of_blob(input),
                output: Digest::of_blob(&answer.encode()),
                trace: stated_trace(TraceForm::Run, names, trace, answer.fuel),
                tier: Tier::Wasm1,
            },
        }
    }

    fn honest(program: &WasmProgram, input: &[u8]) -> Self {
        let run = program.run(input);
        Self::of(program, input, (&run.answer, run.trace))
    }

    /// What a liar commits to that goes on as if it had answered right.
    fn lied(program: &WasmProgram, input: &[u8], lie: &ProgramAnswer) -> Self {
        Self::of(program, input, (lie, program.run(input).trace))
    }

    fn expected(&self) -> ExpectedProgramClaim<'_> {
        ExpectedProgramClaim {
            lease: &LEASE,
            input: &self.input,
            receipt: &self.receipt,
        }
    }

    fn fails(&self, program: &WasmProgram, claim: &ProgramClaim, fault: &ProgramFault) -> bool {
        let files = (claim.to_bytes(), fault.to_bytes());
        let fails = program.claim_fails((&files.0, &files.1), self.expected());
        fails.unwrap()
    }

    fn fault(&self, program: &WasmProgram, claim: &ProgramClaim) -> Option<ProgramFault> {
        let found = program.fault_of(&claim.to_bytes(), self.expected());
        found.unwrap()
    }
}

/// A program on an input, and how its run ends.
type Case = (WasmProgram, Vec<u8>, ProgramEnd);

/// A program whose step refuses what its chunk says, or traps where that is 9.
fn picky() -> Assembler {
    let load = [0x20, 0, 0x28, 2, 0];
    let body = [
        load.to_vec(),
        i32_const(9),
        vec![0x46, 0x04, 0x40, 0x00, 0x0b],
        load.to_vec(),
    ];
    Assembler::step(body.concat())
}

/// Runs that end in every way.
fn cases() -> Vec<Case> {
    use ProgramEnd::{BadInput, BadOutput, Finished, NoRoom, OutOfFuel, Refused, Trapped};
    let chunks = || rounds((0..6).map(|it| 50 + it));
    let usual = || counter().read().unwrap();
    let traced = usual().trace(&chunks()).unwrap();
    let with = |module: &Assembler, fuel| {
        let limits = RunLimits {
            fuel,
            ..RunLimits::default()
        };
        module.read_with(limits).unwrap()
    };
    let mut cases = vec![
        (usual(), chunks(), Finished),
        (usual(), rounds([]), Finished),
        (usual(), b"\x07".to_vec(), BadInput),
        (usual(), ProgramInput::Merge(vec![]).encode(), BadInput),
        (
            merging().read().unwrap(),
            parts((0..6).map(|it| 50 + it)),
            Finished,
        ),
        (with(&counter(), 10), chunks(), OutOfFuel),
        (picky().read().unwrap(), rounds([0, 0, 3]), Refused(3)),
        (
            picky().read().unwrap(),
            rounds([0, 9, 0]),
            Trapped(ProgramTrap::Unreachable),
        ),
    ];
    // The fuel is gone before the hash of a state, with it, or in what comes after, at every call.
    for call in &traced.record.0 {
        for fuel in [call.fuel - 1, call.fuel, call.fuel + 1] {
            cases.push((with(&counter(), fuel), chunks(), OutOfFuel));
        }
    }
    let mut lengths = Assembler::default();
    lengths.functions[0].body = vec![0x20, 0];
    let full = ProgramInput::steps(vec![vec![1; 16], vec![2; 24], vec![]]);
    cases.push((lengths.read().unwrap(), full.encode(), NoRoom));
    let mut outside = counter();
    outside.functions[2].body = i64_const((1 << 48) + 8);
    cases.push((outside.read().unwrap(), chunks(), BadOutput));
    let little = RunLimits {
        output: 4,
        ..RunLimits::default()
    };
    cases.push((counter().read_with(little).unwrap(), chunks(), BadOutput));
    let mut never = counter();
    never.data = vec![(65_530, vec![1; 100])];
    cases.push((
        never.read().unwrap(),
        chunks(),
        Trapped(ProgramTrap::Memory),
    ));
    let mut looping = Assembler::default();
    looping.functions.push(Function {
        body: vec![0x03, 0x40, 0x0c, 0x00, 0x0b],
        ..Function::default()
    });
    looping.start = Some(3);
    cases.push((with(&looping, 100_000), chunks(), OutOfFuel));
    cases
}

/// Answers that differ from a right one, each in something.
fn other_answers(right: &ProgramAnswer) -> Vec<ProgramAnswer> {
    let ends = [
        ProgramEnd::Finished,
        ProgramEnd::OutOfFuel,
        ProgramEnd::Trapped(ProgramTrap::Memory),
        ProgramEnd::Refused(1),
        ProgramEnd::BadInput,
        ProgramEnd::NoRoom,
        ProgramEnd::BadOutput,
    ];
    let mut others: Vec<ProgramAnswer> = ends
        .into_iter()
        .map(|end| ProgramAnswer {
            end,
            output: Vec::new(),
            ..right.clone()
        })
        .collect();
    let mut changed = |change: &dyn Fn(&mut ProgramAnswer)| {
        let mut other = right.clone();
        change(&mut other);
        others.push(other);
    };
    changed(&|it| it.fuel += 1);
    changed(&|it| it.fuel = it.fuel.saturating_sub(1));
    changed(&|it| it.fuel = u64::MAX);
    changed(&|it| it.calls += 1);
    changed(&|it| it.calls = it.calls.saturating_sub(1));
    changed(&|it| it.output.push(0));
    changed(&|it| {
        if let Some(last) = it.output.last_mut() {
            *last ^= 1;
        }
    });
    others.retain(|it| it != right);
    others
}

const OTHER: CallRecord = CallRecord {
    fuel: 5,
    shown: u32::MAX,
    state: Digest::new([3; 32]),
};

type Calls = (ProgramRecord, Option<CallRecord>);

/// Records that differ from a right one, each in something.
fn other_calls(claim: &ProgramClaim) -> Vec<Calls> {
    let right: Calls = (claim.record.clone(), claim.last.clone());
    let mut others: Vec<Calls> = vec![(ProgramRecord::default(), None)];
    let mut changed = |change: &dyn Fn(&mut Calls)| {
        let mut other = right.clone();
        change(&mut other);
        others.push(other);
    };
    for call in 0..right.0.0.len() {
        changed(&|it| it.0.0.truncate(call));
        changed(&|it| it.0.0[call].state = Digest::of_blob(b"another state"));
        changed(&|it| it.0.0[call].shown += 1);
        changed(&|it| it.0.0[call].shown = u32::MAX);
        changed(&|it| it.0.0[call].fuel += 1);
        changed(&|it| it.0.0[call..].iter_mut().for_each(|it| it.fuel += 1));
        changed(&|it| it.0.0[call].fuel = u64::MAX);
    }
    changed(&|it| it.0.0.extend(it.0.0.last().cloned()));
    changed(&|it| it.0.0.push(OTHER));
    changed(&|it| it.0.0.extend(it.1.take()));
    changed(&|it| it.1 = it.0.0.pop());
    changed(&|it| it.1 = it.0.0.last().cloned());
    changed(&|it| it.1 = Some(OTHER));
    changed(&|it| it.1 = None);
    others.retain(|it| *it != right);
    others
}

/// All that a claim may say, one thing or both changed.
fn other_claims(right: &ProgramClaim) -> Vec<ProgramClaim> {
    let mut answers = other_answers(&right.answer);
    answers.push(right.answer.clone());
    let mut calls = other_calls(right);
    calls.push((right.record.clone(), right.last.clone()));
    let all = answers.iter().flat_map(|answer| {
        calls.iter().map(move |(record, last)| ProgramClaim {
            answer: answer.clone(),
            record: record.clone(),
            last: last.clone(),
        })
    });
    all.filter(|it| it != right).collect()
}

#[test]
fn an_honest_provider_wins_against_every_other_claim() {
    let mut ends = [0; 2];
    for (program, input, end) in cases() {
        let right = program.claim(&input).unwrap();
        assert_eq!(right.answer.end, end);
        ends[usize::from(right.last.is_some())] += 1;
        let result = Result::honest(&program, &input);
        let mut shown = 0;
        for claim in other_claims(&right) {
            let fault = result.fault(&program, &claim).unwrap();
            shown += u64::from(matches!(fault, ProgramFault::Call { .. }));
            assert!(result.fails(&program, &claim, &fault), "{end:?} {fault:?}");
            let bytes = fault.to_bytes();
            assert_eq!(ProgramFault::from_bytes(&bytes), Ok(fault));
            assert_eq!(ProgramClaim::from_bytes(&claim.to_bytes()), Ok(claim));
        }
        assert!(shown > 0);
        // What is no claim at all, and what says the same.
        assert!(result.fails(&program, &right, &ProgramFault::Claim));
        let fails = program.claim_fails((b"", b""), result.expected());
        assert_eq!(fails, Ok(true));
    }
    // Those that finished or ended in their start, and those that ended in a state.
    assert!(ends[0] > 5 && ends[1] > 20, "{ends:?}");
}

/// All that a liar may show of a right claim: calls with their right states, with others, and without one.
fn faults(program: &WasmProgram, right: &ProgramClaim, input: &[u8]) -> Vec<ProgramFault> {
    let honest = Result::honest(program, input);
    let mut all = vec![ProgramFault::Claim];
    // What is shown against a claim that ends at a call in some other way is the state before it.
    let ends = (0..=right.record.0.len()).map(|call| {
        let mut claim = right.clone();
        claim.record.0.truncate(call);
        claim.answer.fuel ^= 1;
        honest.fault(program, &claim).unwrap()
    });
    let shown: Vec<_> = ends
        .map(|it| match it {
            ProgramFault::Call { call, state } => (call, state),
            other => panic!("{other:?}"),
        })
        .collect();
    for call in 0..right.record.0.len() + 3 {
        all.push(ProgramFault::LargeCall { call });
        all.push(ProgramFault::Call { call, state: None });
        let states = shown.iter().map(|(_, state)| state.clone());
        all.extend(states.map(|state| ProgramFault::Call { call, state }));
    }
    all
}

#[track_caller]
fn stands(program: &WasmProgram, input: &[u8]) {
    let right = program.claim(input).unwrap();
    let faults = faults(program, &right, input);
    let lies = other_answers(&right.answer);
    for (place, lie) in lies.iter().enumerate() {
        let result = Result::lied(program, input, lie);
        assert_eq!(result.fault(program, &right), None);
        for fault in faults.iter().skip(place % 3).step_by(3) {
            assert!(!result.fails(program, &right, fault), "{lie:?} {fault:?}");
        }
    }
    // The right answer under another commitment, as one that hides its states or the bill.
    let other = (&right.answer, Digest::new([9; 32]));
    let result = Result::of(program, input, other);
    for fault in &faults {
        assert!(!result.fails(program, &right, fault), "{fault:?}");
    }
}

#[test]
fn a_right_claim_stands_against_whatever_a_liar_shows() {
    for (program, input, _) in cases() {
        stands(&program, &input);
    }
}

/// What each step gives from its state alone is what it gives in the run, of whatever module.
#[test]
fn a_right_claim_about_any_module_stands() {
    let seed = 31;
    println!("seed {seed}");
    let mut draws = Draws::new(seed);
    for _ in 0..30 {
        let limits = RunLimits {
            fuel: 1_000_000,
            ..RunLimits::default()
        };
        let program = drawn_module(&mut draws).read_with(limits).unwrap();
        let input = ProgramInput::steps((0..5).map(|it| vec![it; 8]).collect());
        stands(&program, &input.encode());
    }
}

/// A program that fills as many bytes with each chunk.
fn filling(bytes: i32, pages: u32) -> Assembler {
    let fill = [
        i32_const(16),
        i32_const(7),
        i32_const(bytes - 16),
        vec![0xfc, 0x0b, 0x00],
        i32_const(0),
    ];
    let mut module = Assembler::step(fill.concat());
    module.pages = (pages, None);
    module
}

/// A state of 13 MiB is not shown: the call is named alone, and everybody runs the program.
#[test]
fn a_call_from_a_state_that_is_too_large_has_all_of_it_repeated() {
    let program = filling(13 << 20, 224).read().unwrap();
    let input = ProgramInput::steps(vec![vec![1]; 3]).encode();
    let right = program.claim(&input).unwrap();
    assert!(u64::from(right.record.0[1].shown) > OPENED_BYTES_MAX);
    let result = Result::honest(&program, &input);
    // Wrong at the first chunk, before which nothing was written, and at the second one.
    for (wrong, is_large) in [(1, false), (2, true)] {
        let mut claim = right.clone();
        claim.record.0[wrong].state = Digest::of_blob(b"another state");
        let fault = result.fault(&program, &claim).unwrap();
        let large = ProgramFault::LargeCall { call: wrong };
        assert_eq!(fault == large, is_large, "{wrong}");
        assert!(result.fails(&program, &claim, &fault));
        assert!(is_large || !result.fails(&program, &claim, &large));
        // A state that is said to be larger than it is.
        claim.record.0[wrong - 1].shown = u32::MAX;
        let fault = result.fault(&program, &claim).unwrap();
        assert!(matches!(fault, ProgramFault::Call { call, .. } if call == wrong - 1));
        assert!(result.fails(&program, &claim, &fault));
    }
    // Of a right claim against a liar it shows nothing.
    for lie in other_answers(&right.answer) {
        let result = Result::lied(&program, &input, &lie);
        for call in 0..6 {
            let fault = ProgramFault::LargeCall { call };
            assert!(!result.fails(&program, &right, &fault));
        }
    }
}

/// Nobody repeats all of a program of more fuel than validators do: any state of it can be shown.
#[test]
fn a_long_run_has_no_state_that_is_too_large() {
    let limits = RunLimits {
        fuel: FUEL_MAX,
        pages: LONG_PAGES_MAX,
        ..RunLimits::default()
    };
    let bytes = i32::try_from(LONG_PAGES_MAX << 16).unwrap();
    let program = filling(bytes, LONG_PAGES_MAX).read_with(limits).unwrap();
    let input = ProgramInput::steps(vec![vec![1]; 90]).encode();
    let right = program.claim(&input).unwrap();
    assert_eq!(right.answer.end, ProgramEnd::Finished);
    assert!(
        right.answer.fuel > REPEATED_FUEL_MAX,
        "{}",
        right.answer.fuel
    );
    let result = Result::honest(&program, &input);
    let mut claim = right.clone();
    claim.record.0[60].fuel += 1;
    claim.answer.output[0] ^= 1;
    let fault = result.fault(&program, &claim).unwrap();
    let shown = fault.to_bytes().len();
    assert!(shown as u64 > 11 << 20 && shown as u64 <= program.state_bytes() + 64);
    assert!(program.state_bytes() <= OPENED_BYTES_MAX);
    assert!(matches!(fault, ProgramFault::Call { call: 60, .. }));
    assert!(result.fails(&program, &claim, &fault));
    let lied = Result::lied(&program, &input, &claim.answer);
    let ProgramFault::Call { state, .. } = fault else {
        panic!("{fault:?}");
    };
    let shown = ProgramFault::Call { call: 60, state };
    assert!(!lied.fails(&program, &right, &shown));
    // A state that is said to be larger than any of the program has nobody run all of it.
    claim.record.0[59].shown = u32::MAX;
    let large = ProgramFault::LargeCall { call: 60 };
    assert!(!result.fails(&program, &claim, &large));
}

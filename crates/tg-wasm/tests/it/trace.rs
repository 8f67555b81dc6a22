//! Runs that are checked in sections: an honest one is right, every lie is found, and a run goes on from any state as from the beginning.

use std::collections::BTreeSet;
use std::ops::Range;

use tg_types::{
    Decode as _, Digest, Domain, Encode as _, JobId, LeaseId, RunCommitment, TileName, TraceForm,
    Vote, sections,
};
use tg_wasm::fuzz::{fuzz_claim, fuzz_trace, judged_files};
use tg_wasm::trace::{
    CallRecord, ExpectedProgramTrace, OPENED_BYTES_MAX, ProgramRecord, ProgramTrace,
    ProgramTraceFault, ProgramTraceFile, program_vote_on,
};
use tg_wasm::{ProgramAnswer, ProgramEnd, ProgramInput, ProgramTrap, RunLimits, WasmProgram};

use crate::assembler::{Assembler, F32, F64, Function, I32, I64, i32_const, i64_const};
use crate::random::{Draws, drawn_module};

fn challenge(number: u64) -> Digest {
    Digest::of(Domain::Challenge, &number.to_le_bytes())
}

const LEASE: LeaseId = LeaseId::new([8; 32]);

/// What a receipt for the lease says of a run.
fn leased(run: &Digest) -> Digest {
    RunCommitment::read(run).for_lease(&LEASE).digest()
}

/// What a provider committed to.
struct Committed {
    input: Vec<u8>,
    output: Digest,
    trace: Digest,
}

impl Committed {
    fn to(input: &[u8], answer: &ProgramAnswer, record: &ProgramRecord) -> Self {
        Self {
            input: input.to_vec(),
            output: Digest::of_blob(&answer.encode()),
            trace: leased(&record.commitment(input, answer)),
        }
    }

    fn of(program: &WasmProgram, input: &[u8]) -> Self {
        let traced = program.trace(input).unwrap();
        let committed = Self::to(input, &traced.answer, &traced.record);
        assert_eq!(committed.trace, leased(&traced.commitment));
        committed
    }

    fn by<'a>(&'a self, challenge: &'a Digest) -> ExpectedProgramTrace<'a> {
        ExpectedProgramTrace {
            lease: &LEASE,
            input: &self.input,
            output: &self.output,
            trace: &self.trace,
            challenge,
        }
    }
}

/// What a member finds. A validator that is told of it finds the same, and finds nothing else.
#[track_caller]
fn judged(
    program: &WasmProgram,
    file: &ProgramTraceFile,
    expected: ExpectedProgramTrace<'_>,
) -> Result<u64, ProgramTraceFault> {
    let found = program.verify_trace(file, expected).unwrap();
    assert_eq!(program.verify_trace(file, expected).unwrap(), found);
    let holds = |vote| {
        let held = program.program_accusation_holds(file, expected, vote);
        held.unwrap()
    };
    let vote = program_vote_on(found.as_ref().copied());
    assert_eq!(holds(vote), found.err());
    assert_eq!(holds(Vote::WrongRun), None);
    for node in 0..8 {
        let other = Vote::WrongTile(TileName { node, leaf: 1 });
        assert_eq!(holds(other), None);
    }
    if found.is_ok() {
        assert_eq!(holds(Vote::WrongForm), None);
        for node in 0..150 {
            let tile = Vote::WrongTile(TileName { node, leaf: 0 });
            assert_eq!(holds(tile), None, "call {node}");
        }
    }
    found
}

/// A program that counts in a global, in memory and in a page that it grows by, as long as its chunk says; its output is all of that.
pub(crate) fn counter() -> Assembler {
    // memory[1024 * (chunk number % 32)] += chunk; global += 1; a loop of chunk[0] rounds.
    let number = [vec![0x23, 0]].concat();
    let place = [number, i32_const(31), vec![0x71], i32_const(10), vec![0x74]].concat();
    let step = [
        // store at place + 4,096: load there + 1
        place.clone(),
        place,
        vec![0x28, 2, 0x80, 0x20],
        vec![0x20, 0, 0x28, 2, 0, 0x6a],
        vec![0x36, 2, 0x80, 0x20],
        // global 0 and global 1 count.
        vec![0x23, 0],
        i32_const(1),
        vec![0x6a, 0x24, 0],
        vec![0x23, 1, 0x44],
        1.5f64.to_le_bytes().to_vec(),
        vec![0xa0, 0x24, 1],
        // local 2 = chunk; loop { local 2 -= 1; branch if it is not 0 }
        vec![0x20, 0, 0x28, 2, 0, 0x21, 2],
        vec![0x03, 0x40, 0x20, 2],
        i32_const(1),
        vec![0x6b, 0x22, 2, 0x0d, 0, 0x0b],
        // output's first bytes: the counter.
        i32_const(0),
        vec![0x23, 0, 0x36, 2, 0],
        i32_const(0),
    ];
    let mut module = Assembler::step_with(vec![(1, I32)], step.concat());
    module.globals = vec![
        (I32, true, i32_const(0)),
        (F64, true, [vec![0x44], vec![0; 8]].concat()),
        (I64, false, i64_const(5)),
    ];
    module.functions[2].body = i64_const(8);
    module
}

/// [`counter`], which merges parts as it takes chunks.
pub(crate) fn merging() -> Assembler {
    let mut module = counter();
    let merge = module.functions[1].clone();
    module.functions.push(merge);
    module.names.push("merge");
    module
}

/// Parts of rounds to merge.
pub(crate) fn parts(each: impl IntoIterator<Item = u32>) -> Vec<u8> {
    let parts = each.into_iter().map(|it| it.to_le_bytes().to_vec());
    ProgramInput::Merge(parts.collect()).encode()
}

/// Chunks of rounds.
pub(crate) fn rounds(each: impl IntoIterator<Item = u32>) -> Vec<u8> {
    let chunks = each.into_iter().map(|it| it.to_le_bytes().to_vec());
    ProgramInput::steps(chunks.collect()).encode()
}

/// A program and an input that is checked in about eighty sections.
fn usual() -> (WasmProgram, Vec<u8>) {
    let program = counter().read().unwrap();
    (program, rounds((0..100).map(|it| 500 + it % 7)))
}

fn sections_of(trace: &ProgramTrace) -> Vec<Range<usize>> {
    let mut works: Vec<u64> = trace.record.0.iter().map(|it| it.fuel).collect();
    *works.last_mut().unwrap() = trace.answer.fuel;
    sections::cut(&works)
}

fn drawn(trace: &ProgramTrace, challenge: &Digest) -> Vec<Range<usize>> {
    sections::draw(&sections_of(trace), Domain::WasmSections, challenge)
}

#[test]
fn an_honest_run_is_right_and_its_checksum_is_of_the_challenge() {
    let (program, input) = usual();
    let committed = Committed::of(&program, &input);
    let trace = program.trace(&input).unwrap();
    assert_eq!(trace.answer, program.run(&input).answer);
    let stated = RunCommitment::read(&trace.commitment);
    assert_eq!(stated.work, trace.answer.fuel);
    assert!(sections_of(&trace).len() > 40);
    let mut checksums = BTreeSet::new();
    for number in 0..20 {
        let challenge = challenge(number);
        let file = program.open(&input, &challenge).unwrap();
        let opened = file.opened.as_ref().unwrap();
        let begins = drawn(&trace, &challenge);
        assert_eq!(
            opened.states.len(),
            begins.iter().filter(|it| it.start > 0).count()
        );
        assert!(file.to_bytes().len() < 200_000, "sparse memory is cheap");
        checksums.insert(judged(&program, &file, committed.by(&challenge)).unwrap());
        assert_eq!(ProgramTraceFile::from_bytes(&file.to_bytes()), Ok(file));
    }
    assert_eq!(checksums.len(), 20);
}

/// Stops: the receipt and the file of another lease on the same input, which would be paid for no work where the file is the answer alone.
#[test]
fn a_run_that_was_committed_to_for_another_lease_is_none_of_this_one() {
    let (program, many) = usual();
    let (few, other) = (rounds([500, 501]), LeaseId::new([9; 32]));
    let names = (&JobId::new([7; 32]), &LEASE);
    // All sections of two chunks are drawn, so it is shown whole.
    for (input, is_opened) in [(few, false), (many, true)] {
        let committed = Committed::of(&program, &input);
        let (answer, trace) = program.run_for(&input, TraceForm::Parts, names).unwrap();
        assert_eq!(trace, committed.trace);
        assert_eq!(RunCommitment::read(&trace).work, answer.fuel);
        let challenge = challenge(3);
        let file = program.open(&input, &challenge).unwrap();
        assert_eq!(file.opened.is_some(), is_opened);
        let expected = committed.by(&challenge);
        judged(&program, &file, expected).unwrap();
        let copied = ExpectedProgramTrace {
            lease: &other,
            ..expected
        };
        let found = judged(&program, &file, copied);
        assert_eq!(found, Err(ProgramTraceFault::Trace));
    }
}

/// Three records that differ from the right one in one call: its fuel, its state, and the bytes that showing it takes.
fn lies(record: &ProgramRecord, call: usize) -> [ProgramRecord; 3] {
    let with = |change: fn(&mut CallRecord)| {
        let mut record = record.clone();
        change(&mut record.0[call]);
        record
    };
    [
        with(|it| it.fuel += 1),
        with(|it| it.state = Digest::of_blob(b"another state")),
        with(|it| it.shown += 1),
    ]
}

#[test]
fn a_lie_about_one_call_is_found_where_its_section_is_drawn() {
    let (program, input) = usual();
    lies_about_a_call_are_found(&program, &input);
}

/// Each call of `merge` is a step that is checked as those of `step` are.
#[test]
fn a_lie_about_one_merge_is_found_where_its_section_is_drawn() {
    let program = merging().read().unwrap();
    let input = parts((0..100).map(|it| 500 + it % 7));
    assert_eq!(program.run(&input).answer.end, ProgramEnd::Finished);
    lies_about_a_call_are_found(&program, &input);
}

#[track_caller]
fn lies_about_a_call_are_found(program: &WasmProgram, input: &[u8]) {
    let trace = program.trace(input).unwrap();
    let (mut found, mut tries) = (0_u32, 0_u32);
    for call in (0..trace.record.0.len()).step_by(7) {
        for (kind, record) in lies(&trace.record, call).into_iter().enumerate() {
            let committed = Committed::to(input, &trace.answer, &record);
            let lied = ProgramTrace {
                record: record.clone(),
                ..trace.clone()
            };
            for number in 0..6 {
                tries += 1;
                let challenge = challenge(number);
                let drawn = drawn(&lied, &challenge);
                let mut file = program.open(input, &challenge).unwrap();
                let honest = drawn == self::drawn(&trace, &challenge);
                file.opened.as_mut().unwrap().record = record.clone();
                let verdict = judged(program, &file, committed.by(&challenge));
                let is_in = drawn.iter().any(|it| it.contains(&call));
                let is_before = drawn.iter().any(|it| it.start == call + 1);
                match verdict {
                    Ok(_) => assert!(!is_in && !is_before, "call {call} {kind}"),
                    // Fuel of the call before a section shifts all after it.
                    Err(ProgramTraceFault::Call { call: wrong }) => {
                        assert!(is_in || is_before && kind == 0, "{call} {kind}");
                        assert!(wrong == call || wrong == call + 1, "{wrong} {call} {kind}");
                        found += 1;
                    }
                    Err(ProgramTraceFault::State { call: shown }) => {
                        assert!(is_before && shown == call + 1 || !honest);
                        found += 1;
                    }
                    Err(other) => assert!(!honest, "{other}"),
                }
            }
        }
    }
    println!("{found} of {tries}");
    assert!(found > tries / 40);
}

/// Whoever answers something else, or bills more, is found where the last section is drawn.
#[test]
fn a_lie_about_the_output_or_the_bill_is_found_in_the_last_section() {
    let (program, input) = usual();
    let trace = program.trace(&input).unwrap();
    let output = trace.record.0.len();
    let lies: [fn(&mut ProgramAnswer); 3] = [
        |it| it.output[3] ^= 1,
        |it| it.output.push(0),
        |it| it.fuel += 1,
    ];
    for lie in lies {
        let mut lied = trace.clone();
        lie(&mut lied.answer);
        let committed = Committed::to(&input, &lied.answer, &lied.record);
        let (mut found, mut missed) = (0, 0);
        for number in 0..60 {
            let challenge = challenge(number);
            let mut file = program.open(&input, &challenge).unwrap();
            file.answer = lied.answer.encode();
            let is_in = drawn(&lied, &challenge).iter().any(|it| it.end == output);
            match judged(&program, &file, committed.by(&challenge)) {
                Ok(_) => {
                    assert!(!is_in);
                    missed += 1;
                }
                Err(fault) => {
                    assert_eq!(fault, ProgramTraceFault::Call { call: output });
                    assert!(is_in);
                    found += 1;
                }
            }
        }
        assert!(found > 0 && missed > 0, "{found} {missed}");
    }
    // Ends, counts and bills that no run has are seen without a run.
    let ends: [fn(&mut ProgramAnswer); 4] = [
        |it| it.calls += 1,
        |it| it.fuel = u64::MAX,
        |it| it.fuel = 1,
        |it| it.end = ProgramEnd::Trapped(ProgramTrap::Memory),
    ];
    for (kind, lie) in ends.into_iter().enumerate() {
        let mut answer = trace.answer.clone();
        lie(&mut answer);
        let committed = Committed::to(&input, &answer, &trace.record);
        let challenge = challenge(1);
        let mut file = program.open(&input, &challenge).unwrap();
        file.answer = answer.encode();
        let expected = match kind {
            3 => ProgramTraceFault::Form,
            _ => ProgramTraceFault::Trace,
        };
        let found = judged(&program, &file, committed.by(&challenge));
        assert_eq!(found, Err(expected), "{kind}");
    }
}

#[test]
fn what_is_shown_beside_the_drawn_states_is_another_form() {
    let (program, input) = usual();
    let committed = Committed::of(&program, &input);
    let challenge = challenge(3);
    let file = program.open(&input, &challenge).unwrap();
    let check = |change: &dyn Fn(&mut ProgramTraceFile)| {
        let mut file = file.clone();
        change(&mut file);
        judged(&program, &file, committed.by(&challenge))
    };
    let opened = |file: &mut ProgramTraceFile| file.opened.take().unwrap();
    assert!(check(&|_| ()).is_ok());
    assert_eq!(
        check(&|it| it.answer.push(0)),
        Err(ProgramTraceFault::Answer)
    );
    assert_eq!(check(&|it| it.opened = None), Err(ProgramTraceFault::Form));
    let fewer = check(&|it| {
        let mut shown = opened(it);
        shown.states.pop();
        it.opened = Some(shown);
    });
    assert_eq!(fewer, Err(ProgramTraceFault::Opened));
    let swapped = check(&|it| {
        let mut shown = opened(it);
        shown.states.swap(0, 1);
        it.opened = Some(shown);
    });
    assert!(matches!(swapped, Err(ProgramTraceFault::State { .. })));
    let shorter = check(&|it| {
        let mut shown = opened(it);
        shown.record.0.pop();
        it.opened = Some(shown);
    });
    assert_eq!(shorter, Err(ProgramTraceFault::Trace));
    let other = judged(&program, &file, committed.by(&self::challenge(4)));
    assert!(other.is_err(), "another challenge draws others");
}

/// A state of other globals, or of fewer pages than the module begins with, is none, whatever its digest.
#[test]
fn a_state_that_no_run_can_have_is_no_beginning() {
    let (program, input) = usual();
    let mut larger = counter();
    larger.pages = (3, None);
    let mut other = counter();
    other.globals[1] = (F32, true, vec![0x43, 0, 0, 0, 0]);
    other.functions[1].body = i32_const(0);
    for module in [larger, other] {
        let foreign = module.read().unwrap();
        let challenge = challenge(5);
        let lent = program.open(&input, &challenge).unwrap();
        let trace = program.trace(&input).unwrap();
        let found = foreign.verify_trace(
            &lent,
            Committed::to(&input, &trace.answer, &trace.record).by(&challenge),
        );
        assert!(
            matches!(found.unwrap(), Err(ProgramTraceFault::State { .. })),
            "{module:?}"
        );
    }
}

#[test]
fn a_run_that_cannot_be_shown_in_parts_is_shown_whole() {
    let program = counter().read().unwrap();
    let little = RunLimits {
        fuel: 100_000,
        ..RunLimits::default()
    };
    let poor = counter().read_with(little).unwrap();
    let many = rounds((0..100).map(|_| 500));
    for (program, input, end) in [
        (&program, rounds([]), ProgramEnd::Finished),
        (&program, rounds([500]), ProgramEnd::Finished),
        (&program, rounds([500; 3]), ProgramEnd::Finished),
        (&poor, many, ProgramEnd::OutOfFuel),
        (&program, b"\x07".to_vec(), ProgramEnd::BadInput),
    ] {
        let committed = Committed::of(program, &input);
        let challenge = challenge(6);
        let file = program.open(&input, &challenge).unwrap();
        assert_eq!(file.opened, None);
        let trace = program.trace(&input).unwrap();
        assert_eq!(trace.answer.end, end);
        judged(program, &file, committed.by(&challenge)).unwrap();
        // An answer, a bill or a record that the run does not give.
        let mut answer = trace.answer.clone();
        answer.fuel -= 1;
        let dearer = Committed::to(&input, &answer, &trace.record);
        let mut lied = file.clone();
        lied.answer = answer.encode();
        let found = judged(program, &lied, dearer.by(&challenge));
        assert_eq!(found, Err(ProgramTraceFault::Output));
        let mut record = trace.record.clone();
        record.0.push(CallRecord {
            fuel: 1,
            shown: u32::MAX,
            state: Digest::default(),
        });
        let other = Committed::to(&input, &trace.answer, &record);
        let found = judged(program, &file, other.by(&challenge));
        assert_eq!(found, Err(ProgramTraceFault::Trace));
    }
}

/// Memory that is never zero: 4 states of 4 MiB are more than are opened.
#[test]
fn states_that_are_too_large_are_shown_whole() {
    for (pages, is_opened) in [(32, true), (64, false)] {
        // memory.fill(16, 7, pages * 64 KiB - 16) at each step.
        let body = [
            i32_const(16),
            i32_const(7),
            i32_const(pages * 65_536 - 16),
            vec![0xfc, 0x0b, 0x00],
            i32_const(0),
        ];
        let mut module = Assembler::step(body.concat());
        module.pages = (u32::try_from(pages).unwrap(), None);
        let limits = RunLimits {
            fuel: 100_000_000,
            ..RunLimits::default()
        };
        let program = module.read_with(limits).unwrap();
        let input = rounds(vec![1; 30]);
        let committed = Committed::of(&program, &input);
        let trace = program.trace(&input).unwrap();
        assert_eq!(trace.answer.end, ProgramEnd::Finished);
        let shown = u64::from(trace.record.0[9].shown);
        assert_eq!(4 * shown <= OPENED_BYTES_MAX, is_opened);
        let challenge = challenge(7);
        let file = program.open(&input, &challenge).unwrap();
        assert_eq!(file.opened.is_some(), is_opened);
        judged(&program, &file, committed.by(&challenge)).unwrap();
    }
}

#[test]
fn any_bytes_are_no_file_or_one_that_is_judged() {
    let (program, input) = usual();
    let committed = Committed::of(&program, &input);
    let challenge = challenge(8);
    let bytes = program.open(&input, &challenge).unwrap().to_bytes();
    for length in 0..bytes.len().min(4_000) {
        assert!(ProgramTraceFile::from_bytes(&bytes[..length]).is_err());
    }
    let mut draws = Draws::new(9);
    for _ in 0..2_000 {
        let mut changed = bytes.clone();
        let place = draws.below(bytes.len());
        changed[place] ^= 1 << draws.below(8);
        if let Ok(file) = ProgramTraceFile::from_bytes(&changed) {
            assert_eq!(file.to_bytes(), changed);
            let found = program.verify_trace(&file, committed.by(&challenge));
            assert!(found.unwrap().is_err());
        }
    }
}

/// Goes on from the state before every call, by records that have it as the beginning of a drawn section.
fn restored_everywhere(program: &WasmProgram, input: &[u8]) -> usize {
    let trace = program.trace(input).unwrap();
    let committed = Committed::to(input, &trace.answer, &trace.record);
    let mut left: BTreeSet<usize> = (0..trace.record.0.len()).collect();
    for number in 0..400 {
        let challenge = challenge(number);
        let file = program.open(input, &challenge).unwrap();
        if file.opened.is_none() {
            return 0;
        }
        let found = program.verify_trace(&file, committed.by(&challenge));
        assert!(matches!(found, Ok(Ok(_))), "{found:?}");
        for section in drawn(&trace, &challenge) {
            left.retain(|call| !section.contains(call));
        }
        if left.is_empty() {
            return trace.record.0.len();
        }
    }
    panic!("never drawn: {left:?}");
}

#[test]
fn a_run_goes_on_from_any_state_as_from_its_beginning() {
    let seed = 11;
    println!("seed {seed}");
    let mut draws = Draws::new(seed);
    let mut restored = 0;
    for round in 0..60 {
        let mut module = drawn_module(&mut draws);
        // A table, a growing memory, and a start function, in some.
        if round % 3 == 0 {
            let start = u32::try_from(module.functions.len()).unwrap();
            module.functions.push(Function {
                body: [i32_const(70_000), i32_const(9), vec![0x36, 2, 0]].concat(),
                ..Function::default()
            });
            module.pages = (2, Some(9));
            module.start = Some(start);
            let grow = [i32_const(1), vec![0x40, 0, 0x1a]].concat();
            module.functions[1].body = [grow, module.functions[1].body.clone()].concat();
        }
        if round % 4 == 0 {
            // step calls itself through the table: function 3 or the last is `nop` of type 2.
            let called = u32::try_from(module.functions.len()).unwrap();
            module.functions.push(Function {
                gives: vec![I32],
                body: vec![0x23, 0],
                ..Function::default()
            });
            module.table = Some((4, vec![called; 2]));
            let call = [i32_const(1), vec![0x11], crate::assembler::number(called)].concat();
            let call = [call, vec![0, 0x24, 0]].concat();
            module.functions[1].body = [call, module.functions[1].body.clone()].concat();
        }
        let limits = RunLimits {
            fuel: 20_000_000,
            ..RunLimits::default()
        };
        let program = module.read_with(limits).unwrap();
        let input = ProgramInput::steps((0..12).map(|it| vec![it; 8]).collect()).encode();
        restored += usize::from(restored_everywhere(&program, &input) > 0);
    }
    println!("{restored} of 60 in sections");
    assert!(restored > 20);
}

#[test]
fn the_examples_go_on_from_any_state() {
    let chunk = |it: u64| [it, 1_000].map(u64::to_le_bytes).concat();
    for (name, chunks) in [
        ("pi", (0..40).map(chunk).collect::<Vec<_>>()),
        (
            "words",
            (0..40).map(|it| format!("a b{it} c").into()).collect(),
        ),
    ] {
        let path = format!("../../examples/programs/{name}.wasm");
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        let module = std::fs::read(path).unwrap();
        let file = tg_wasm::ProgramFile::new(module, RunLimits::default()).encode();
        let program = WasmProgram::read(&file).unwrap();
        let input = ProgramInput::steps(chunks).encode();
        assert_eq!(restored_everywhere(&program, &input), 41);
    }
}

/// A module that says itself how far its memory grows, and one whose segments never fit.
#[test]
fn states_of_modules_that_cannot_have_them_are_a_wrong_call() {
    let (program, input) = usual();
    let trace = program.trace(&input).unwrap();
    let mut never = counter();
    never.data = vec![(65_530, vec![1; 100])];
    let never = never.read().unwrap();
    assert_eq!(
        never.run(&input).answer.end,
        ProgramEnd::Trapped(ProgramTrap::Memory)
    );
    let committed = Committed::to(&input, &trace.answer, &trace.record);
    for number in 0..10 {
        let challenge = challenge(number);
        let lent = program.open(&input, &challenge).unwrap();
        let first = drawn(&trace, &challenge)[0].start;
        let found = judged(&never, &lent, committed.by(&challenge));
        assert_eq!(found, Err(ProgramTraceFault::Call { call: first }));
    }
}

/// Files changed a little: the targets of `fuzz/` on stable.
#[test]
fn changed_files_are_judged() {
    let mut draws = Draws::new(21);
    for (file, rounds) in judged_files().into_iter().zip([400, 100, 100]) {
        fuzz_trace(&file);
        fuzz_claim(&file);
        for _ in 0..rounds {
            let mut bytes = file.clone();
            for _ in 0..=draws.below(2) {
                let place = draws.below(bytes.len());
                match draws.below(4) {
                    0 => bytes.truncate(place.max(1)),
                    1 => bytes.insert(place, 7),
                    2 => bytes[place] = 0,
                    _ => bytes[place] ^= 1 << draws.below(8),
                }
            }
            fuzz_trace(&bytes);
            fuzz_claim(&bytes);
        }
    }
}

//! What a unit of fuel takes: the example programs, and shapes that are as dear as the profile lets them be.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::field_reassign_with_default,
    clippy::type_complexity,
    dead_code,
    reason = "a measurement"
)]

#[path = "../tests/it/assembler.rs"]
mod assembler;

use std::time::Instant;

use assembler::{Assembler, F64, Function, I32, i32_const, i64_const, one_chunk};
use tg_types::{
    Digest, Encode as _, JobId, LeaseId, ModelId, Receipt, RunCommitment, Tier, TraceForm,
    stated_trace,
};
use tg_wasm::trace::{ExpectedProgramClaim, ExpectedProgramTrace};
use tg_wasm::{ProgramFile, ProgramInput, RunLimits, WasmProgram, limits};

fn measure(name: &str, program: &WasmProgram, input: &[u8]) {
    let mut best = f64::MAX;
    let mut answer = None;
    for _ in 0..3 {
        let start = Instant::now();
        let run = program.run(input);
        best = best.min(start.elapsed().as_secs_f64());
        answer = Some(run.answer);
    }
    let answer = answer.unwrap();
    #[expect(clippy::cast_precision_loss, reason = "a measurement")]
    let nanoseconds = best * 1e9 / answer.fuel as f64;
    println!(
        "{name:28} {:>12} fuel {:8.1} ms {nanoseconds:7.2} ns/fuel  {}",
        answer.fuel,
        best * 1e3,
        answer.end
    );
}

/// An endless loop around a body.
fn forever(body: &[u8]) -> Vec<u8> {
    [
        &[0x03, 0x40],
        body,
        &[0x0c, 0x00, 0x0b],
        i32_const(0).as_slice(),
    ]
    .concat()
}

fn main() {
    let bytes: [(&str, &[u8], Vec<Vec<u8>>); 3] = [
        (
            "mandelbrot",
            include_bytes!("../../../examples/programs/mandelbrot.wasm"),
            vec![{
                let reals = [-0.5_f64, 0.0, 0.01].map(f64::to_le_bytes).concat();
                [reals, [256_u64, 256, 200].map(u64::to_le_bytes).concat()].concat()
            }],
        ),
        (
            "pi",
            include_bytes!("../../../examples/programs/pi.wasm"),
            vec![[7_u64, 1_000_000].map(u64::to_le_bytes).concat()],
        ),
        (
            "words",
            include_bytes!("../../../examples/programs/words.wasm"),
            vec![include_bytes!("../../../docs/PROTOCOL.md").to_vec(); 8],
        ),
    ];
    for (name, module, chunks) in bytes {
        let file = ProgramFile::new(
            module.to_vec(),
            RunLimits {
                fuel: limits::REPEATED_FUEL_MAX,
                ..RunLimits::default()
            },
        );
        let start = Instant::now();
        let program = WasmProgram::read(&file.encode()).unwrap();
        println!("{name}: made ready in {:?}", start.elapsed());
        measure(name, &program, &ProgramInput::steps(chunks).encode());
    }
    instructions();
    memories();
    sizes();
    sections();
}

fn with(name: &str, module: &Assembler) {
    let limits = RunLimits {
        fuel: 20_000_000,
        ..RunLimits::default()
    };
    measure(name, &module.read_with(limits).unwrap(), &one_chunk());
}

fn instructions() {
    with("loop", &Assembler::step(forever(&[])));
    let division = [
        i64_const(i64::MAX),
        i64_const(3),
        vec![0x20, 2],
        vec![0x7c, 0x7f, 0x21, 2],
    ]
    .concat();
    with(
        "i64.div",
        &Assembler::step_with(vec![(1, 0x7e)], forever(&division)),
    );
    let root = [vec![0x20, 2, 0x9f, 0x21, 2]].concat();
    with(
        "f64.sqrt",
        &Assembler::step_with(vec![(1, F64)], forever(&root)),
    );
    let mut call = Assembler::step(forever(&[0x10, 3]));
    call.functions.push(Function {
        locals: vec![(256, F64)],
        ..Function::default()
    });
    with("call, 256 locals", &call);
    let mut indirect = Assembler::step(forever(&[i32_const(0), vec![0x11, 3, 0]].concat()));
    indirect.functions.push(Function {
        locals: vec![(256, F64)],
        ..Function::default()
    });
    indirect.table = Some((1, vec![3]));
    with("call_indirect, 256 locals", &indirect);
}

fn memories() {
    for bytes in [16, 256, 4_096, 65_536] {
        let fill = [
            i32_const(0),
            i32_const(7),
            i32_const(bytes),
            vec![0xfc, 0x0b, 0x00],
        ]
        .concat();
        with(
            &format!("memory.fill {bytes}"),
            &Assembler::step(forever(&fill)),
        );
        let copy = [
            i32_const(0),
            i32_const(65_536),
            i32_const(bytes),
            vec![0xfc, 0x0a, 0, 0],
        ]
        .concat();
        let mut copy = Assembler::step(forever(&copy));
        copy.pages = (256, None);
        with(&format!("memory.copy {bytes}"), &copy);
    }
    // x = x * 1664525 + 1013904223; load at x & mask.
    for (name, pages, mask) in [
        ("load, 1 page", 1, 0xfff8),
        ("load, 32 MiB", limits::PAGES_MAX, 0x01ff_fff8),
    ] {
        let body = [
            vec![0x20, 2],
            i32_const(1_664_525),
            vec![0x6c],
            i32_const(1_013_904_223),
            vec![0x6a, 0x22, 2],
            i32_const(mask),
            vec![0x71, 0x28, 2, 0, 0x20, 2, 0x6a, 0x21, 2],
        ];
        let mut module = Assembler::step_with(vec![(1, I32)], forever(&body.concat()));
        module.pages = (pages, None);
        with(name, &module);
    }
    // Grows by a page until it may not, and asks on.
    with(
        "memory.grow",
        &Assembler::step(forever(&[i32_const(1), vec![0x40, 0, 0x1a]].concat())),
    );
}

fn sizes() {
    // Nothing but hashing 32 MiB after each of many chunks.
    let mut hashing = Assembler::default();
    hashing.pages = (limits::PAGES_MAX, None);
    let program = hashing
        .read_with(RunLimits {
            fuel: limits::REPEATED_FUEL_MAX,
            ..RunLimits::default()
        })
        .unwrap();
    measure(
        "hashing",
        &program,
        &ProgramInput::steps(vec![vec![1]; 40]).encode(),
    );
    let body: Vec<u8> = (0..120_000)
        .flat_map(|_| [0x41, 1, 0x1a])
        .chain(i32_const(0))
        .collect();
    let file = ProgramFile::new(Assembler::step(body).module(), RunLimits::default()).encode();
    let start = Instant::now();
    WasmProgram::read(&file).unwrap();
    println!(
        "a module of {} bytes made ready in {:?}",
        file.len(),
        start.elapsed()
    );
    let mut many = Assembler::default();
    many.functions.extend(vec![
        Function {
            body: vec![0x01; 42],
            ..Function::default()
        };
        9_000
    ]);
    let file = ProgramFile::new(many.module(), RunLimits::default()).encode();
    let start = Instant::now();
    WasmProgram::read(&file).unwrap();
    println!(
        "a module of 9,000 functions, {} bytes, made ready in {:?}",
        file.len(),
        start.elapsed()
    );
}

/// The middle one of ten measurements, in milliseconds.
fn median(mut measured: impl FnMut(u64)) -> f64 {
    let mut times: Vec<f64> = (0..10)
        .map(|number| {
            let start = Instant::now();
            measured(number);
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[5]
}

/// What mode `sync` takes: a run, one that is recorded, what is shown of it, and its check by a member; and what a dispute of mode `optimistic` does.
fn sections() {
    let pi = include_bytes!("../../../examples/programs/pi.wasm").to_vec();
    let points = |it: u64| [it, 20_000].map(u64::to_le_bytes).concat();
    in_sections("pi", pi.clone(), (0..100).map(points).collect());
    disputed("pi", pi, (0..100).map(points).collect());
    let mandelbrot = include_bytes!("../../../examples/programs/mandelbrot.wasm").to_vec();
    // Sixteen strips of a picture.
    let strip = |it: u32| {
        let reals = [-0.5_f64, f64::from(it) * 0.1, 0.01];
        let reals = reals.map(f64::to_le_bytes).concat();
        [reals, [256_u64, 16, 200].map(u64::to_le_bytes).concat()].concat()
    };
    disputed("mandelbrot", mandelbrot, (0..16).map(strip).collect());
    let words = include_bytes!("../../../examples/programs/words.wasm").to_vec();
    let text = include_bytes!("../../../docs/PROTOCOL.md");
    let chunks = text.chunks(text.len() / 200).map(<[u8]>::to_vec);
    let chunks: Vec<Vec<u8>> = chunks.collect();
    in_sections("words", words.clone(), chunks.clone());
    disputed("words", words, chunks);
    // 2 MiB that are never zero.
    let fill = [
        i32_const(16),
        i32_const(7),
        i32_const((2 << 20) - 16),
        vec![0xfc, 0x0b, 0x00],
        i32_const(0),
    ];
    let mut full = Assembler::step(fill.concat());
    full.pages = (32, None);
    in_sections("memory.fill 2 MiB", full.module(), vec![vec![1]; 200]);
    disputed("memory.fill 2 MiB", full.module(), vec![vec![1]; 200]);
}

/// What false claims about calls all over a run take: of the accuser, of the provider, and of each validator.
fn disputed(name: &str, module: Vec<u8>, chunks: Vec<Vec<u8>>) {
    let limits = RunLimits {
        fuel: limits::REPEATED_FUEL_MAX,
        ..RunLimits::default()
    };
    let program = WasmProgram::read(&ProgramFile::new(module, limits).encode()).unwrap();
    let (count, input) = (chunks.len(), ProgramInput::steps(chunks).encode());
    let run = program.run(&input);
    let (lease, names) = (LeaseId::new([7; 32]), JobId::default());
    let names = (&names, &lease);
    let receipt = Receipt {
        program: program.id(),
        model: ModelId::default(),
        input: Digest::of_blob(&input),
        output: Digest::of_blob(&run.answer.encode()),
        trace: stated_trace(TraceForm::Run, names, run.trace, run.answer.fuel),
        tier: Tier::Wasm1,
    };
    let expected = ExpectedProgramClaim {
        lease: &lease,
        input: &input,
        receipt: &receipt,
    };
    let right = program.claim(&input).unwrap();
    let (mut claim_bytes, mut bytes, mut found, mut checks) =
        (0, Vec::new(), Vec::new(), Vec::new());
    // The start, ten calls, and the output.
    let last = right.record.0.len();
    for call in (0..=10).map(|it| last * it / 10) {
        let mut claim = right.clone();
        claim.answer.fuel += 1;
        if let Some(call) = claim.record.0.get_mut(call) {
            call.state = Digest::default();
        }
        let claim = claim.to_bytes();
        claim_bytes = claim.len();
        let start = Instant::now();
        let fault = program.fault_of(&claim, expected).unwrap().unwrap();
        found.push(start.elapsed().as_secs_f64() * 1e3);
        let fault = fault.to_bytes();
        let start = Instant::now();
        assert!(program.claim_fails((&claim, &fault), expected).unwrap());
        checks.push(start.elapsed().as_secs_f64() * 1e3);
        bytes.push(fault.len() / 1_000);
    }
    let middle = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        (times[times.len() / 2], times[times.len() - 1])
    };
    bytes.sort_unstable();
    let ((found, _), (check, dearest)) = (middle(found), middle(checks));
    println!(
        "{name}, disputed: {count} chunks, {} fuel; claim {claim_bytes} bytes, answer {} kB ({} at most), found in {found:.0} ms; a validator {check:.2} ms ({dearest:.2} at most)",
        run.answer.fuel,
        bytes[bytes.len() / 2],
        bytes[bytes.len() - 1],
    );
}

fn in_sections(name: &str, module: Vec<u8>, chunks: Vec<Vec<u8>>) {
    let limits = RunLimits {
        fuel: limits::REPEATED_FUEL_MAX,
        ..RunLimits::default()
    };
    let program = WasmProgram::read(&ProgramFile::new(module, limits).encode()).unwrap();
    let (count, input) = (chunks.len(), ProgramInput::steps(chunks).encode());
    let run = median(|_| drop(program.run(&input)));
    let recorded = median(|_| drop(program.trace(&input).unwrap()));
    let trace = program.trace(&input).unwrap();
    let output = Digest::of_blob(&trace.answer.encode());
    let lease = LeaseId::new([0; 32]);
    let committed = RunCommitment::read(&trace.commitment).for_lease(&lease);
    let committed = committed.digest();
    let challenge = |number: u64| Digest::of_blob(&number.to_le_bytes());
    let files: Vec<_> = (0..10)
        .map(|number| program.open(&input, &challenge(number)).unwrap())
        .collect();
    let check = median(|number| {
        let challenge = challenge(number);
        let expected = ExpectedProgramTrace {
            lease: &lease,
            input: &input,
            output: &output,
            trace: &committed,
            challenge: &challenge,
        };
        let file = &files[usize::try_from(number).unwrap()];
        program.verify_trace(file, expected).unwrap().unwrap();
    });
    let shown: Vec<usize> = files.iter().map(|it| it.to_bytes().len() / 1_000).collect();
    println!(
        "{name}: {} after {count} chunks and {} fuel; a run {run:.1} ms, recorded {recorded:.1} ms, opening {} to {} kB, check {check:.2} ms",
        trace.answer.end,
        trace.answer.fuel,
        shown.iter().min().unwrap(),
        shown.iter().max().unwrap(),
    );
}

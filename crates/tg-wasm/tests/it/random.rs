//! Modules drawn from a seed: well typed, so that they run, and changed ones, which mostly do not.
//!
//! `TENSORGRID_FUZZ_ROUNDS` makes it longer, `TENSORGRID_FUZZ_SEED` repeats a failure. Without them one hash over what all modules gave is
//! compared with `tests/data/drawn.txt`, which `TENSORGRID_REGENERATE` writes: `cargo xtask processors` holds each processor to it.

use std::path::Path;

use tg_types::{Digest, Domain};
use tg_wasm::limits::{FUEL_PER_MODULE_BYTE, FUEL_PER_PAGE};
use tg_wasm::{ProgramEnd, ProgramInput, RunLimits, fuzz::fuzz_program};

use crate::assembler::{Assembler, F32, F64, I32, I64, i32_const, i64_const};

/// `SplitMix64`.
pub(crate) struct Draws(u64);

impl Draws {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % count as u64).unwrap()
    }
}

fn environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|it| it.parse().ok())
        .unwrap_or(otherwise)
}

/// Operators from two values of a type to one of another: first opcode, last opcode, operand, result.
const BINARY: [(u8, u8, u8, u8); 10] = [
    (0x46, 0x4f, I32, I32),
    (0x51, 0x5a, I64, I32),
    (0x5b, 0x60, F32, I32),
    (0x61, 0x66, F64, I32),
    (0x6a, 0x6c, I32, I32),
    (0x71, 0x78, I32, I32),
    (0x7c, 0x7e, I64, I64),
    (0x83, 0x8a, I64, I64),
    (0x92, 0x98, F32, F32),
    (0xa0, 0xa6, F64, F64),
];

/// Operators from one value to another.
const UNARY: [(u8, u8, u8, u8); 16] = [
    (0x67, 0x69, I32, I32),
    (0x79, 0x7b, I64, I64),
    (0x8b, 0x91, F32, F32),
    (0x99, 0x9f, F64, F64),
    (0xa7, 0xa7, I64, I32),
    (0xac, 0xad, I32, I64),
    (0xb2, 0xb3, I32, F32),
    (0xb4, 0xb5, I64, F32),
    (0xb6, 0xb6, F64, F32),
    (0xb7, 0xb8, I32, F64),
    (0xb9, 0xba, I64, F64),
    (0xbb, 0xbb, F32, F64),
    (0xbc, 0xbc, F32, I32),
    (0xbd, 0xbd, F64, I64),
    (0xbe, 0xbe, I32, F32),
    (0xbf, 0xbf, I64, F64),
];

const TYPES: [u8; 4] = [I32, I64, F32, F64];

/// A value of a type, as instructions: nested operators over constants, locals, globals and memory.
fn value(draws: &mut Draws, kind: u8, depth: u32) -> Vec<u8> {
    let place = TYPES.iter().position(|it| *it == kind).unwrap();
    let index = u8::try_from(place).unwrap();
    match draws.below(if depth == 0 { 3 } else { 8 }) {
        0 => constant(draws, kind),
        // Locals 2 to 5 and globals 0 to 3 are of the four types.
        1 => vec![0x20, 2 + index],
        2 => vec![0x23, index],
        3 => {
            let address = value(draws, I32, depth - 1);
            let load = [0x28, 0x29, 0x2a, 0x2b][place];
            [address, i32_const(0xfff8), vec![0x71, load, 0, 0]].concat()
        }
        4 => {
            // if (result) .. else .. end
            let condition = value(draws, I32, depth - 1);
            let [yes, no] = [(); 2].map(|()| value(draws, kind, depth - 1));
            [condition, vec![0x04, kind], yes, vec![0x05], no, vec![0x0b]].concat()
        }
        5 => {
            let [one, two] = [(); 2].map(|()| value(draws, kind, depth - 1));
            let condition = value(draws, I32, depth - 1);
            [one, two, condition, vec![0x1b]].concat()
        }
        6 => operator(draws, kind, depth, &UNARY, 1),
        _ => operator(draws, kind, depth, &BINARY, 2),
    }
}

fn operator(
    draws: &mut Draws,
    kind: u8,
    depth: u32,
    table: &[(u8, u8, u8, u8)],
    operands: usize,
) -> Vec<u8> {
    let fitting: Vec<_> = table.iter().filter(|it| it.3 == kind).collect();
    let (first, last, operand, _) = *fitting[draws.below(fitting.len())];
    let opcode = first + u8::try_from(draws.below(usize::from(last - first) + 1)).unwrap();
    let values: Vec<Vec<u8>> = (0..operands)
        .map(|_| value(draws, operand, depth - 1))
        .collect();
    [values.concat(), vec![opcode]].concat()
}

fn constant(draws: &mut Draws, kind: u8) -> Vec<u8> {
    // Often numbers at the edges: zeros, infinities, NaN with any bits.
    let bits = match draws.below(4) {
        0 => 0,
        1 => 0xffff_ffff_ffff_ffff >> draws.below(64),
        2 => {
            (0xff << 23 | draws.next() & 0x807f_ffff) | (0x7ff0 << 48 | draws.next() & 0x800f << 48)
        }
        _ => draws.next(),
    };
    let low = u32::try_from(bits & 0xffff_ffff).unwrap();
    match kind {
        I32 => i32_const(low.cast_signed()),
        I64 => i64_const(bits.cast_signed()),
        F32 => [vec![0x43], low.to_le_bytes().to_vec()].concat(),
        _ => [vec![0x44], bits.to_le_bytes().to_vec()].concat(),
    }
}

/// Statements: assignments, stores, and loops that end by their counter (local 6) or by fuel.
fn statements(draws: &mut Draws, count: usize, depth: u32) -> Vec<u8> {
    let mut code = Vec::new();
    for _ in 0..count {
        let place = draws.below(4);
        let index = u8::try_from(place).unwrap();
        let kind = TYPES[place];
        match draws.below(if depth == 0 { 3 } else { 4 }) {
            0 => code.extend([value(draws, kind, 3), vec![0x21, 2 + index]].concat()),
            1 => code.extend([value(draws, kind, 3), vec![0x24, index]].concat()),
            2 => {
                let address = [value(draws, I32, 2), i32_const(0xfff8), vec![0x71]].concat();
                let store = [0x36, 0x37, 0x38, 0x39][place];
                code.extend([address, value(draws, kind, 3), vec![store, 0, 0]].concat());
            }
            _ => {
                let inner = statements(draws, 2, depth - 1);
                let step = [
                    vec![0x20, 6],
                    i32_const(1),
                    vec![0x6a, 0x22, 6],
                    i32_const(200),
                    vec![0x48],
                ];
                code.extend([vec![0x03, 0x40], inner, step.concat(), vec![0x0d, 0, 0x0b]].concat());
            }
        }
    }
    code
}

/// A module whose state depends on all it computes.
pub(crate) fn drawn_module(draws: &mut Draws) -> Assembler {
    let body = [statements(draws, 6, 2), i32_const(0)].concat();
    let locals = vec![(1, I32), (1, I64), (1, F32), (1, F64), (1, I32)];
    let mut module = Assembler::step_with(locals, body);
    module.functions[2].body = i64_const(4_096);
    module.globals = TYPES
        .map(|kind| (kind, true, constant(draws, kind)))
        .to_vec();
    module
}

#[test]
fn drawn_modules_run_and_repeat_themselves() {
    let seed = environment("TENSORGRID_FUZZ_SEED", 1);
    let rounds = environment("TENSORGRID_FUZZ_ROUNDS", 1).saturating_mul(300);
    println!("seed {seed}, {rounds} rounds");
    let mut draws = Draws(seed);
    let (mut long, mut finished) = (0, 0);
    let mut gave = Vec::new();
    for round in 0..rounds {
        let module = drawn_module(&mut draws);
        let limits = RunLimits {
            fuel: 2_000_000,
            ..RunLimits::default()
        };
        let read = || {
            module
                .read_with(limits)
                .unwrap_or_else(|error| panic!("round {round}: {error}"))
        };
        let input = ProgramInput::steps(vec![vec![1; 8], vec![2; 8], vec![3; 8]]).encode();
        let (program, again) = (read(), read());
        let run = program.run(&input);
        assert_eq!(run, again.run(&input), "round {round}");
        assert!(run.answer.fuel <= limits.fuel);
        // The record has the digest of every state: all of memory and globals after each call.
        let traced = program.trace(&input).unwrap();
        gave.extend(run.answer.encode());
        gave.extend(run.trace.as_bytes());
        gave.extend(traced.commitment.as_bytes());
        // Making the module ready, and hashing one page at the beginning and after each of three chunks, are no steps.
        let beside = FUEL_PER_MODULE_BYTE * module.module().len() as u64 + 4 * FUEL_PER_PAGE;
        long += u64::from(run.answer.fuel.saturating_sub(beside) > 1_000);
        finished += u64::from(run.answer.end == ProgramEnd::Finished);
    }
    println!("{finished} finished, {long} took more than 1,000 steps beside hashing");
    assert!(
        finished > rounds / 2 && 2 * long >= rounds,
        "{finished} {long} of {rounds}"
    );
    if (seed, rounds) == (1, 300) {
        assert_pinned(&gave);
    }
}

/// Holds what the modules gave to what they gave on the machine where it was pinned.
fn assert_pinned(gave: &[u8]) {
    let text = format!("{}\n", Digest::of(Domain::WasmTrace, gave));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/drawn.txt");
    if std::env::var_os("TENSORGRID_REGENERATE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let pinned = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(pinned, text, "TENSORGRID_REGENERATE writes it");
}

#[test]
fn changed_modules_are_refused_or_run_within_their_fuel() {
    let seed = environment("TENSORGRID_FUZZ_SEED", 1);
    let rounds = environment("TENSORGRID_FUZZ_ROUNDS", 1).saturating_mul(1_000);
    println!("seed {seed}, {rounds} rounds");
    let mut draws = Draws(seed);
    let words = include_bytes!("../../../../examples/programs/words.wasm").to_vec();
    for round in 0..rounds {
        let mut bytes = match round % 3 {
            0 => words.clone(),
            _ => drawn_module(&mut draws).module(),
        };
        for _ in 0..=draws.below(3) {
            let place = draws.below(bytes.len());
            match draws.below(4) {
                0 => bytes[place] ^= 1 << draws.below(8),
                1 => bytes[place] = draws.next().to_le_bytes()[0],
                2 => bytes.truncate(place.max(1)),
                _ => bytes.insert(place, draws.next().to_le_bytes()[0]),
            }
        }
        fuzz_program(&bytes);
    }
}

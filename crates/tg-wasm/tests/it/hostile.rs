//! Modules that mean harm: each is refused with a reason, or ends with a reason and a bill.

use tg_wasm::limits::{
    CALL_FUEL_MAX, FUEL_PER_LOAD, FUEL_PER_MODULE_BYTE, FUEL_PER_PAGE, PAGES_MAX, REPEATED_FUEL_MAX,
};
use tg_wasm::{ModuleError, ProgramEnd, ProgramRefused, ProgramTrap, RunLimits};

use crate::assembler::{
    Assembler, F32, F64, Function, I32, i32_const, i64_const, number, one_chunk,
};

/// What one run of the module ended with, and its bill.
#[track_caller]
fn ends(module: &Assembler, expected: ProgramEnd) -> u64 {
    let run = module.run();
    assert_eq!(run.answer.end, expected);
    assert!(run.answer.output.is_empty() || expected == ProgramEnd::Finished);
    assert_eq!(run, module.run(), "the same again");
    run.answer.fuel
}

#[track_caller]
fn refused(module: &Assembler, expected: &str) -> ModuleError {
    match module.read() {
        Err(ProgramRefused::Module(error)) => {
            assert!(error.to_string().contains(expected), "{error}");
            error
        }
        other => panic!("{other:?}"),
    }
}

/// `loop br 0 end`, and a result that is never given.
fn forever() -> Vec<u8> {
    [vec![0x03, 0x40, 0x0c, 0x00, 0x0b], i32_const(0)].concat()
}

#[test]
fn an_empty_program_finishes_and_pays_for_its_start_and_its_hashes() {
    let run = Assembler::default().run();
    assert_eq!(run.answer.end, ProgramEnd::Finished);
    assert_eq!((run.answer.calls, run.answer.output), (1, vec![0; 8]));
    let bill = run.answer.fuel;
    assert!(
        bill > 2 * FUEL_PER_PAGE && bill < 3 * FUEL_PER_PAGE,
        "{bill}"
    );
}

#[test]
fn an_endless_loop_burns_the_fuel_of_its_call_and_no_more() {
    let bill = ends(&Assembler::step(forever()), ProgramEnd::OutOfFuel);
    assert!(
        bill <= CALL_FUEL_MAX && bill > CALL_FUEL_MAX * 9 / 10,
        "{bill}"
    );
    let limits = RunLimits {
        fuel: 1_000_000,
        ..RunLimits::default()
    };
    let program = Assembler::step(forever()).read_with(limits).unwrap();
    let answer = program.run(&one_chunk()).answer;
    assert_eq!(answer.end, ProgramEnd::OutOfFuel);
    assert!(
        answer.fuel > 999_000 && answer.fuel <= 1_000_000,
        "{}",
        answer.fuel
    );
}

/// A call has its own limit, so that a longer run does not make a dispute over one step dearer.
#[test]
fn one_call_burns_at_most_the_fuel_of_a_call() {
    let limits = RunLimits {
        fuel: REPEATED_FUEL_MAX,
        ..RunLimits::default()
    };
    let program = Assembler::step(forever()).read_with(limits).unwrap();
    let bill = program.run(&one_chunk()).answer.fuel;
    assert!(bill < CALL_FUEL_MAX + 1_000_000, "{bill}");
}

#[test]
fn a_start_function_that_loops_is_counted() {
    let mut module = Assembler::default();
    module.functions.push(Function {
        body: vec![0x03, 0x40, 0x0c, 0x00, 0x0b],
        ..Function::default()
    });
    module.start = Some(3);
    ends(&module, ProgramEnd::OutOfFuel);
}

#[test]
fn deep_recursion_ends_at_the_depth_whatever_the_frames() {
    for locals in [0, 1, 200] {
        let mut module = Assembler::step([vec![0x10, 3], i32_const(0)].concat());
        module.functions.push(Function {
            locals: vec![(locals, F64)],
            body: vec![0x10, 3],
            ..Function::default()
        });
        let bill = ends(&module, ProgramEnd::Trapped(ProgramTrap::CallDepth));
        assert!(bill < 200_000, "{bill}");
    }
}

#[test]
fn memory_beyond_the_limit_is_refused_or_not_given() {
    for pages in [PAGES_MAX + 1, 65_536] {
        let mut module = Assembler::default();
        module.pages = (pages, None);
        refused(&module, "pages of memory");
    }
    // Asks for 4 GiB at once: the answer is -1, which is refused as a code, and the growth is not billed by its bytes.
    let grow = |pages: i32| Assembler::step([i32_const(pages), vec![0x40, 0x00]].concat());
    let code = u32::MAX;
    assert!(ends(&grow(65_535), ProgramEnd::Refused(code)) < 100_000);
    // What the limit allows is billed by what it clears and hashes; the old size is 1 page.
    let bill = ends(&grow(255), ProgramEnd::Refused(1));
    assert!(bill > 255 * 65_536 / 16, "{bill}");
}

/// Grows by a page for ever: never more than the limit, and the bill ends it.
#[test]
fn memory_that_grows_for_ever_ends() {
    // loop: memory.grow(1), drop, br 0
    let body = [
        vec![0x03, 0x40],
        i32_const(1),
        vec![0x40, 0x00, 0x1a, 0x0c, 0x00, 0x0b],
        i32_const(0),
    ];
    ends(&Assembler::step(body.concat()), ProgramEnd::OutOfFuel);
}

#[test]
fn filling_memory_is_billed_by_its_bytes() {
    // loop: memory.fill(0, 7, 65,536), br 0
    let body = [
        vec![0x03, 0x40],
        i32_const(0),
        i32_const(7),
        i32_const(65_536),
        vec![0xfc, 0x0b, 0x00, 0x0c, 0x00, 0x0b],
        i32_const(0),
    ];
    let limits = RunLimits {
        fuel: 10_000_000,
        ..RunLimits::default()
    };
    let program = Assembler::step(body.concat()).read_with(limits).unwrap();
    let answer = program.run(&one_chunk()).answer;
    assert_eq!(answer.end, ProgramEnd::OutOfFuel);
    assert!(answer.fuel > 9_900_000);
}

#[test]
fn each_trap_has_its_reason() {
    let traps = [
        (vec![0x00], ProgramTrap::Unreachable),
        // i32.load at 2^31.
        (
            [i32_const(i32::MIN), vec![0x28, 2, 0]].concat(),
            ProgramTrap::Memory,
        ),
        (
            [i32_const(1), i32_const(0), vec![0x6d]].concat(),
            ProgramTrap::DivisionByZero,
        ),
        (
            [i32_const(i32::MIN), i32_const(-1), vec![0x6d]].concat(),
            ProgramTrap::Overflow,
        ),
        // i32.trunc_f32_s of NaN: 0/0.
        (
            [vec![0x43, 0, 0, 0, 0, 0x43, 0, 0, 0, 0, 0x95], vec![0xa8]].concat(),
            ProgramTrap::Overflow,
        ),
    ];
    for (body, trap) in traps {
        ends(&Assembler::step(body), ProgramEnd::Trapped(trap));
    }
    let mut module = Assembler::step(
        // call_indirect of type 1 at element 5, which is not there.
        [i32_const(0), i32_const(0), i32_const(5), vec![0x11, 1, 0]].concat(),
    );
    module.table = Some((4, vec![1, 1]));
    ends(&module, ProgramEnd::Trapped(ProgramTrap::IndirectCall));
    module.data = vec![(65_530, vec![1; 100])];
    let bill = ends(&module, ProgramEnd::Trapped(ProgramTrap::Memory));
    assert!(bill < 10_000, "nothing ran: {bill}");
}

/// The bits of a NaN differ between machines unless they are fixed: sign and payload of 0/0, of inf - inf, and of what is
/// computed from a NaN with other bits.
#[test]
fn every_nan_that_is_computed_has_the_same_bits() {
    let load = |bits: u32| {
        // f32.reinterpret_i32 of a constant.
        [i32_const(bits.cast_signed()), vec![0xbe]].concat()
    };
    let (zero, infinity) = (load(0), load(0x7f80_0000));
    let strange = load(0xffa1_2345);
    let one = load(0x3f80_0000);
    let cases = [
        [zero.clone(), zero, vec![0x95]].concat(),
        [infinity.clone(), infinity, vec![0x93]].concat(),
        [strange.clone(), one.clone(), vec![0x92]].concat(),
        [one.clone(), strange.clone(), vec![0x94]].concat(),
        [strange.clone(), one.clone(), vec![0x96]].concat(),
        [one, strange.clone(), vec![0x97]].concat(),
        [load(0xbf80_0000), vec![0x91]].concat(),
        [strange.clone(), vec![0x8d]].concat(),
        // There and back through f64.
        [strange, vec![0xbb, 0xb6]].concat(),
    ];
    for case in cases {
        // i32.store at 0 of the value, reinterpreted; the answer shows it.
        let body = [
            i32_const(0),
            case.clone(),
            vec![0xbc, 0x36, 2, 0],
            i32_const(0),
        ]
        .concat();
        let answer = Assembler::step(body).run().answer;
        assert_eq!(
            answer.output[..4],
            0x7fc0_0000_u32.to_le_bytes(),
            "{case:02x?}"
        );
    }
}

#[test]
fn a_module_that_the_profile_does_not_allow_is_refused_by_name() {
    let mut module = Assembler::default();
    module.imports = vec![("env".into(), "clock".into())];
    assert_eq!(refused(&module, "imports"), ModuleError::Imports);
    for (index, export) in [(0, "alloc"), (1, "step"), (2, "output")] {
        let mut module = Assembler::default();
        module.names[index] = "";
        refused(&module, export);
    }
    let mut module = Assembler::default();
    module.functions[1].gives = Vec::new();
    module.functions[1].body = Vec::new();
    refused(&module, "step");
    let mut module = Assembler::default();
    module.table = Some((1 << 30, Vec::new()));
    refused(&module, "table elements");
    let module = Assembler::step_with(vec![(u32::MAX, I32)], i32_const(0));
    refused(&module, "locals");
    let mut module = Assembler::default();
    module.globals = vec![(I32, true, i32_const(0)); 257];
    refused(&module, "globals");
    let mut module = Assembler::default();
    module.functions.extend(vec![Function::default(); 10_000]);
    refused(&module, "types");
    let targets = [i32_const(0), vec![0x0e], number(5_000), vec![0; 5_001]].concat();
    refused(&Assembler::step(targets), "jump table");
}

#[test]
fn instructions_outside_the_profile_are_refused() {
    let bodies: [(&str, Vec<u8>); 9] = [
        (
            "memory.init",
            [
                i32_const(0),
                i32_const(0),
                i32_const(0),
                vec![0xfc, 8, 0, 0],
            ]
            .concat(),
        ),
        (
            "table.copy",
            [
                i32_const(0),
                i32_const(0),
                i32_const(0),
                vec![0xfc, 14, 0, 0],
            ]
            .concat(),
        ),
        // v128.const
        ("", [vec![0xfd, 0x0c], vec![0; 16], vec![0x1a]].concat()),
        // f32x4.relaxed_madd
        ("", vec![0xfd, 0x85, 0x02]),
        // i32.atomic.load
        ("", [i32_const(0), vec![0xfe, 0x10, 2, 0, 0x1a]].concat()),
        // return_call 1
        ("", vec![0x12, 1]),
        // ref.null func
        ("", vec![0xd0, 0x70, 0x1a]),
        // struct.new 0
        ("", vec![0xfb, 0, 0, 0x1a]),
        // try_table
        ("", vec![0x1f, 0x40, 0, 0x0b]),
    ];
    for (name, body) in bodies {
        refused(&Assembler::step([body, i32_const(0)].concat()), name);
    }
    // A memory of 64-bit addresses, and a shared one.
    for flags in [4, 3] {
        let mut module = Assembler::default();
        module.pages = (1, Some(1));
        let bytes = module.module();
        let place = bytes
            .windows(5)
            .position(|it| it == [5, 4, 1, 1, 1])
            .unwrap();
        let mut changed = bytes.clone();
        changed[place + 3] = flags;
        let file = tg_wasm::ProgramFile::new(changed, RunLimits::default());
        assert!(
            tg_wasm::WasmProgram::read(&file.encode()).is_err(),
            "{flags}"
        );
    }
}

#[test]
fn an_output_or_room_outside_memory_is_no_crash() {
    let mut module = Assembler::default();
    // Address 0, more than a page; then an address at the end.
    for (named, end) in [
        (65_537, ProgramEnd::BadOutput),
        (
            0xffff_ffff_0000_0008_u64.cast_signed(),
            ProgramEnd::BadOutput,
        ),
        (i64::from(u32::MAX), ProgramEnd::BadOutput),
        (65_536, ProgramEnd::Finished),
    ] {
        module.functions[2].body = i64_const(named);
        ends(&module, end);
    }
    for at in [0, 65_533, -1] {
        let mut module = Assembler::default();
        module.functions[0].body = i32_const(at);
        ends(&module, ProgramEnd::NoRoom);
    }
}

#[test]
fn an_input_that_is_none_is_an_answer() {
    let program = Assembler::default().read().unwrap();
    for input in [
        &b""[..],
        b"\x07\0\0\0\0",
        b"\0\xff\xff\xff\xff",
        b"\0\x01\0\0\0\x05\0\0\0a",
    ] {
        assert_eq!(program.run(input).answer.end, ProgramEnd::BadInput);
    }
    let merge = tg_wasm::ProgramInput::Merge(vec![Vec::new()]).encode();
    assert_eq!(program.run(&merge).answer.end, ProgramEnd::BadInput);
    let short = RunLimits {
        input: 12,
        ..RunLimits::default()
    };
    let program = Assembler::default().read_with(short).unwrap();
    assert_eq!(program.run(&one_chunk()).answer.end, ProgramEnd::BadInput);
}

/// The values of mutable globals are part of the state, though the module does not export them.
#[test]
fn the_trace_covers_globals_and_memory() {
    let trace = |body: Vec<u8>| {
        let mut module = Assembler::step([body, i32_const(0)].concat());
        module.globals = vec![
            (I32, false, i32_const(5)),
            (I32, true, i32_const(0)),
            (F32, true, vec![0x43, 0, 0, 0, 0]),
        ];
        module.run().trace
    };
    let still = trace(Vec::new());
    let global = trace([i32_const(1), vec![0x24, 1]].concat());
    let float = trace(vec![0x43, 0, 0, 0, 0x80, 0x24, 2]);
    let memory = trace([i32_const(60_000), i32_const(1), vec![0x36, 2, 0]].concat());
    let all = [still, global, float, memory];
    for (index, digest) in all.iter().enumerate() {
        assert!(!all[..index].contains(digest), "{index}");
    }
}

/// Blocks with parameters and types of several results: of some of the first the engine gave what nobody had written.
#[test]
fn several_values_at_once_are_refused() {
    // Type 0 of the module takes an i32 and gives one.
    let block = [i32_const(1), vec![0x02, 0x00, 0x0b]].concat();
    refused(&Assembler::step(block), "multi-value");
    let mut module = Assembler::default();
    module.functions.push(Function {
        gives: vec![I32, I32],
        body: [i32_const(1), i32_const(2)].concat(),
        ..Function::default()
    });
    refused(&module, "multi-value");
}

/// A chain of reads, each at the address that the one before gave, over all of memory: the dearest that a unit is known to be.
#[test]
fn a_read_of_memory_costs_as_much_as_it_may_take() {
    let reads = |count: usize| {
        let read = [0x28, 0x02, 0x00];
        let body = [i32_const(0), read.repeat(count)].concat();
        ends(&Assembler::step(body), ProgramEnd::Finished)
    };
    assert_eq!(
        reads(2_000) - reads(1_000),
        1_000 * (u64::from(FUEL_PER_LOAD) + 3 * FUEL_PER_MODULE_BYTE)
    );
}

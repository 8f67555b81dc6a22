//! The example programs: what they compute, and that answer, fuel and trace are those of every machine.

use std::path::Path;

use tg_types::Digest;
use tg_wasm::{
    FileError, ProgramAnswer, ProgramEnd, ProgramFile, ProgramInput, ProgramRefused, RunLimits,
    WasmProgram, limits,
};

fn program(name: &str) -> WasmProgram {
    let path = format!("../../examples/programs/{name}.wasm");
    let module = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    assert!(module.len() < 30_000, "{name} has {} bytes", module.len());
    WasmProgram::read(&ProgramFile::new(module, RunLimits::default()).encode()).unwrap()
}

fn finished(program: &WasmProgram, input: &ProgramInput) -> ProgramAnswer {
    let run = program.run(&input.encode());
    assert_eq!(run.answer.end, ProgramEnd::Finished);
    let bytes = run.answer.encode();
    assert_eq!(ProgramAnswer::decode(&bytes).as_ref(), Ok(&run.answer));
    run.answer
}

fn tile(width: u64, height: u64) -> Vec<u8> {
    let reals = [-0.5_f64, 0.0, 0.05].map(f64::to_le_bytes).concat();
    [reals, [width, height, 100].map(u64::to_le_bytes).concat()].concat()
}

fn points(seed: u64) -> Vec<u8> {
    [seed, 2_000].map(u64::to_le_bytes).concat()
}

fn shards() -> Vec<Vec<u8>> {
    ["the cat, the dog", "A cat. The end", "dog-dog end"]
        .map(Into::into)
        .to_vec()
}

#[test]
fn mandelbrot_draws_what_its_formula_says() {
    let output = finished(
        &program("mandelbrot"),
        &ProgramInput::steps(vec![tile(48, 32)]),
    )
    .output;
    assert_eq!(output.len(), 48 * 32);
    for (index, count) in output.iter().enumerate() {
        let at = |place: usize, size: usize| {
            (f64::from(u32::try_from(place).unwrap())
                - f64::from(u32::try_from(size).unwrap()) / 2.0)
                * 0.05
        };
        let (x, y) = (-0.5 + at(index % 48, 48), at(index / 48, 32));
        let (mut re, mut im, mut expected) = (0.0_f64, 0.0_f64, 0_u8);
        while expected < 100 && re * re + im * im <= 4.0 {
            (re, im) = (re * re - im * im + x, 2.0 * re * im + y);
            expected += 1;
        }
        assert_eq!(*count, expected, "pixel {index}");
    }
}

#[test]
fn pi_comes_near_and_chunks_that_are_merged_give_the_same() {
    let program = program("pi");
    let chunks: Vec<Vec<u8>> = (0..8).map(points).collect();
    let whole = finished(&program, &ProgramInput::steps(chunks.clone())).output;
    let inside = u64::from_le_bytes(whole[..8].try_into().unwrap());
    assert_eq!(whole[8..], 16_000_u64.to_le_bytes());
    assert!((12_400..12_700).contains(&inside), "{inside} of 16,000");
    let parts = chunks
        .chunks(3)
        .map(|part| finished(&program, &ProgramInput::steps(part.to_vec())).output);
    let merged = finished(&program, &ProgramInput::Merge(parts.collect())).output;
    assert_eq!(merged, whole);
}

#[test]
fn words_are_counted_and_shards_that_are_merged_give_the_same() {
    let program = program("words");
    let whole = finished(&program, &ProgramInput::steps(shards())).output;
    assert_eq!(
        String::from_utf8(whole.clone()).unwrap(),
        "a 1\ncat 2\ndog 3\nend 2\nthe 3\n"
    );
    let parts = shards()
        .into_iter()
        .map(|shard| finished(&program, &ProgramInput::steps(vec![shard])).output);
    let merged = finished(&program, &ProgramInput::Merge(parts.collect())).output;
    assert_eq!(merged, whole);
    // More different words than it has room for: a code of its own.
    let many: Vec<String> = (0..9_000).map(|it| it.to_string()).collect();
    let run = program.run(&ProgramInput::steps(vec![many.join(" ").into_bytes()]).encode());
    assert_eq!(run.answer.end, ProgramEnd::Refused(2));
}

/// Pinned on one machine and build: another processor, another way of building the engine or another version of it that gives
/// other bits or another bill fails here.
#[test]
fn answers_fuel_and_traces_are_pinned() {
    let cases = [
        (
            "mandelbrot",
            ProgramInput::steps(vec![tile(48, 32), tile(7, 5)]),
        ),
        ("pi", ProgramInput::steps((0..4).map(points).collect())),
        ("words", ProgramInput::steps(shards())),
        ("pi", ProgramInput::Merge(vec![vec![1; 16], vec![2; 16]])),
    ];
    let mut text = String::new();
    for (name, input) in cases {
        let program = program(name);
        let run = program.run(&input.encode());
        text += &format!(
            "{name} program {} model {} fuel {} answer {} trace {}\n",
            program.id(),
            program.model_id(),
            run.answer.fuel,
            Digest::of_blob(&run.answer.encode()),
            run.trace,
        );
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/runs.txt");
    if std::env::var_os("TENSORGRID_REGENERATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_file_is_read_back_and_every_limit_is_checked() {
    let file = ProgramFile::new(vec![1, 2, 3], RunLimits::default());
    let bytes = file.encode();
    assert_eq!(ProgramFile::decode(&bytes), Ok(file.clone()));
    assert_eq!(ProgramFile::decode(b"TGM\0"), Err(FileError::Magic));
    let mut other = bytes.clone();
    other[4] = 1;
    assert_eq!(
        ProgramFile::decode(&other),
        Err(FileError::Version { got: 1 })
    );
    for length in 4..bytes.len() {
        assert!(ProgramFile::decode(&bytes[..length]).is_err(), "{length}");
    }
    assert!(ProgramFile::decode(&[bytes, vec![0]].concat()).is_err());
    let limits = RunLimits::default();
    for limits in [
        RunLimits { fuel: 0, ..limits },
        RunLimits {
            fuel: limits::FUEL_MAX + 1,
            ..limits
        },
        RunLimits { pages: 0, ..limits },
        RunLimits {
            fuel: limits::REPEATED_FUEL_MAX + 1,
            pages: limits::LONG_PAGES_MAX + 1,
            ..limits
        },
        RunLimits {
            pages: limits::PAGES_MAX + 1,
            ..limits
        },
        RunLimits { input: 0, ..limits },
        RunLimits {
            input: (1 << 20) + 1,
            ..limits
        },
        RunLimits {
            output: limits::OUTPUT_BYTES_MAX + 1,
            ..limits
        },
    ] {
        let read = WasmProgram::read(
            &ProgramFile {
                limits,
                ..file.clone()
            }
            .encode(),
        );
        let is_limit = matches!(read, Err(ProgramRefused::File(FileError::Limit { .. })));
        assert!(is_limit, "{limits:?}");
    }
    let long = ProgramFile::new(vec![0; limits::MODULE_BYTES_MAX + 1], RunLimits::default());
    assert!(ProgramFile::decode(&long.encode()).is_err());
}

/// The longest answer is still evidence.
#[test]
fn the_longest_answer_fits_into_evidence() {
    let answer = ProgramAnswer {
        end: ProgramEnd::Refused(u32::MAX),
        fuel: u64::MAX,
        calls: u32::MAX,
        output: vec![0; limits::OUTPUT_BYTES_MAX as usize],
    };
    let length = u32::try_from(answer.encode().len()).unwrap();
    assert!(length <= tg_types::limits::EVIDENCE_BYTES_MAX, "{length}");
}

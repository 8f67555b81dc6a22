//! Decoders over mutated files: they return, whatever the bytes.
//!
//! `TENSORGRID_FUZZ_SECONDS=60 cargo test --release -p tg-compile smoke` goes on for that long per kind of file, from
//! seeds that it prints; `fuzz/` has the same entries for coverage-guided runs.

use std::time::{Duration, Instant};
use tg_compile::fuzz::fuzz_graph;
use tg_exec::sample::Numbers;
use tg_input::fuzz::{fuzz_json, fuzz_npy, fuzz_npz, fuzz_png};
use tg_onnx::fuzz::fuzz_net;
use tg_onnx::{ReadLimits, read};

/// Calls `entry` with mutations of a good file: bytes flipped, cut, repeated, and random ones. The file is one of
/// `files` of its kind, which share the seconds of a long run.
#[expect(clippy::print_stdout, reason = "a long run says its seed")]
fn smoke(seed: u64, good: &[u8], rounds: usize, files: usize, entry: fn(&[u8])) {
    mutations(seed, good, rounds, entry);
    let seconds = std::env::var("TENSORGRID_FUZZ_SECONDS").ok();
    let Some(seconds) = seconds.and_then(|text| text.parse::<f64>().ok()) else {
        return;
    };
    let length = Duration::from_secs_f64((seconds / files as f64).clamp(0.0, 1e6));
    let start = Instant::now();
    let mut seed = start.elapsed().as_nanos() as u64 ^ seed << 32 ^ u64::from(std::process::id());
    while start.elapsed() < length {
        seed += 1;
        println!("seed {seed}");
        mutations(seed, good, 1_000, entry);
    }
}

fn mutations(seed: u64, good: &[u8], rounds: usize, entry: fn(&[u8])) {
    let mut numbers = Numbers::new(seed);
    let mut pick = |below: usize| usize::try_from(numbers.next() % below.max(1) as u64).unwrap();
    entry(good);
    entry(&[]);
    for _ in 0..rounds {
        let mut bytes = good.to_vec();
        for _ in 0..=pick(4) {
            let at = pick(bytes.len());
            match pick(5) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, [0, 1, 0x7f, 0x80, 0xff][pick(5)]),
                2 if !bytes.is_empty() => drop(bytes.remove(at)),
                3 => {
                    let copied = bytes[at..bytes.len().min(at + 16)].to_vec();
                    let to = pick(bytes.len());
                    bytes.splice(to..to, copied);
                }
                _ if !bytes.is_empty() => bytes[at] ^= 1 << pick(8),
                _ => {}
            }
        }
        entry(&bytes);
    }
    for length in 0..64 {
        let bytes: Vec<u8> = (0..length).map(|_| [pick(256)][0] as u8).collect();
        entry(&bytes);
    }
}

/// Reads an ONNX file, and compiles it if it is small.
fn fuzz_onnx(bytes: &[u8]) {
    if let Ok(graph) = read(bytes, None, &ReadLimits::default()) {
        fuzz_graph(graph);
    }
}

#[test]
fn mutated_onnx_files_never_panic() {
    let cases: serde_json::Value =
        serde_json::from_slice(include_bytes!("../data/onnx_cases.json")).unwrap();
    let cases = cases.as_array().unwrap();
    let files = 1 + cases.len();
    // The head of the file, where structure is dense, and a whole small model.
    smoke(
        1,
        include_bytes!("../../../../models/mlp-digits.onnx"),
        1_000,
        files,
        |bytes| {
            fuzz_onnx(bytes);
            fuzz_net(bytes);
        },
    );
    for (seed, case) in (2u64..).zip(cases) {
        let hex = case["model"].as_str().unwrap();
        let digits = hex.as_bytes().chunks_exact(2);
        let bytes: Vec<u8> = digits
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect();
        smoke(seed, &bytes, 200, files, |bytes| {
            fuzz_onnx(bytes);
            fuzz_net(bytes);
        });
    }
}

#[test]
fn mutated_npy_files_never_panic() {
    let mut good = b"\x93NUMPY\x01\x00".to_vec();
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 4), }\n";
    good.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
    good.extend(header.as_bytes());
    good.extend([0, 0, 128, 63].repeat(4));
    smoke(3, &good, 20_000, 1, fuzz_npy);
}

/// An archive of one stored array without a name.
#[test]
fn mutated_npz_files_never_panic() {
    let mut array = b"\x93NUMPY\x01\x00".to_vec();
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 4), }\n";
    array.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
    array.extend(header.as_bytes());
    array.extend([0, 0, 128, 63].repeat(4));
    let size = u32::try_from(array.len()).unwrap().to_le_bytes();
    let mut sum = flate2::Crc::new();
    sum.update(&array);
    let mut shared = vec![20, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    shared.extend([sum.sum().to_le_bytes(), size, size].concat());
    shared.extend([5, 0, 0, 0]);
    let mut good = [b"PK\x03\x04", shared.as_slice(), b"a.npy", &array].concat();
    let at = u32::try_from(good.len()).unwrap().to_le_bytes();
    good.extend([b"PK\x01\x02\x14\0", shared.as_slice(), &[0; 14], b"a.npy"].concat());
    good.extend(
        [
            b"PK\x05\x06\0\0\0\0\x01\0\x01\0\x33\0\0\0".as_slice(),
            &at,
            &[0; 2],
        ]
        .concat(),
    );
    smoke(6, &good, 20_000, 1, fuzz_npz);
}

#[test]
fn mutated_json_files_never_panic() {
    smoke(
        4,
        br#"{"input_data": [[1, -2.5, 3e2, 0], [4, 5, 6, 7]]}"#,
        20_000,
        1,
        fuzz_json,
    );
}

#[test]
fn mutated_png_files_never_panic() {
    let mut good = Vec::new();
    let mut encoder = png::Encoder::new(&mut good, 8, 8);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().unwrap();
    writer
        .write_image_data(&(0..64).collect::<Vec<u8>>())
        .unwrap();
    writer.finish().unwrap();
    smoke(5, &good, 20_000, 1, fuzz_png);
}

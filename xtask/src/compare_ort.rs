//! `cargo xtask compare-ort`: our speed beside that of onnxruntime, on the same cases, one after the other; into
//! `docs/SPEED.md`.
//!
//! Both sides print `name<TAB>threads<TAB>median wall ms<TAB>mean cpu ms`: the benchmarks `kernels` and `models` of
//! `tg-compile` with `--rows`, and `xtask/python/compare_ort.py`. TGF-1 runs the very files that onnxruntime runs, and its
//! output is compared with onnxruntime's. What counts is processor time on one thread: wall time
//! on a shared machine says little.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::python::{self, Missing, Python};

/// Our case, theirs, and how many times as fast we want to be at either level. Whole models face onnxruntime's float32
/// and its int8.
const CASES: &[(&str, &str, [f64; 2])] = &[
    ("gemm_i8 384x384x384", "gemm_i8 384x384x384", [0.9; 2]),
    ("gemm_i8 1152x1152x1152", "gemm_i8 1152x1152x1152", [0.9; 2]),
    ("gemm_i8 128x384x384", "gemm_i8 128x384x384", [0.9; 2]),
    ("gemm_i8 128x1536x384", "gemm_i8 128x1536x384", [0.9; 2]),
    ("gemm_i8 128x384x1536", "gemm_i8 128x384x1536", [0.9; 2]),
    ("gemm_i8 1x4096x1024", "gemm_i8 1x4096x1024", [0.9; 2]),
    ("gemm_u7 384x384x384", "gemm_i8 384x384x384", [0.9; 2]),
    ("gemm_u7 1152x1152x1152", "gemm_i8 1152x1152x1152", [0.9; 2]),
    ("gemm_u7 128x384x384", "gemm_i8 128x384x384", [0.9; 2]),
    ("gemm_u7 128x1536x384", "gemm_i8 128x1536x384", [0.9; 2]),
    ("gemm_u7 128x384x1536", "gemm_i8 128x384x1536", [0.9; 2]),
    ("gemm_u7 1x4096x1024", "gemm_i8 1x4096x1024", [0.9; 2]),
    ("gemm_f32 384x384x384", "gemm_f32 384x384x384", [0.6, 0.75]),
    (
        "gemm_f32 1152x1152x1152",
        "gemm_f32 1152x1152x1152",
        [0.6, 0.75],
    ),
    ("gemm_f32 128x384x384", "gemm_f32 128x384x384", [0.6, 0.75]),
    (
        "gemm_f32 128x1536x384",
        "gemm_f32 128x1536x384",
        [0.6, 0.75],
    ),
    (
        "gemm_f32 128x384x1536",
        "gemm_f32 128x384x1536",
        [0.6, 0.75],
    ),
    ("gemm_f32 1x4096x1024", "gemm_f32 1x4096x1024", [0.6, 0.75]),
    ("tgx1 resnet18", "resnet18 float32", [2.0, 1.5]),
    ("tgx1 resnet18", "resnet18 int8", [0.9; 2]),
    ("tgx1 transformer", "transformer float32", [2.0, 1.5]),
    ("tgx1 transformer", "transformer int8", [0.9; 2]),
    ("tgf1 resnet18", "resnet18 float32", [0.6; 2]),
    ("tgf1 transformer", "transformer float32", [0.6; 2]),
];

/// Multiply-adds of the rows `gemm_i8 peak` and `gemm_u7 peak`.
const PEAK_MULTIPLY_ADDS: f64 = 134_217_728.0;

/// The instructions that both sides use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ComparedLevel {
    /// The fastest of this machine.
    Best,
    /// AVX2, on a machine that has more.
    Avx2,
}

const INTRODUCTION: &str = "\
# Execution beside onnxruntime

Written by `cargo xtask compare-ort`: the same cases on both sides, one after the other, processor time of one thread
(wall time on a shared machine says little), and what a second thread gains in wall time. `gemm` are products of
matrices of rows x inner x columns, in 8 bits (onnxruntime: `MatMulInteger`) and in float32. `tgx1` are whole models in
exact integers, beside onnxruntime's float32 and beside its own 8 bits; `tgf1` are the same files in reproducible
float32, whose outputs are compared with onnxruntime's. ResNet-18 has one image of 224x224; the transformer is a
BERT-shaped encoder of six layers, 128 tokens. The weights are random. `gemm_u7` are products whose rows have no
negative number, what a rectifier leaves.

";

const AVX2: &str = "
## Without AVX-512

The same machine with AVX2 alone: ours built for x86-64-v3 (a build for AVX-512 would let the compiler merge instructions) with
`TENSORGRID_CPU=avx2`; onnxruntime has no switch, so a copy is run whose look for AVX-512 fails. Its products of bytes then
saturate (`vpmaddubsw` of 255 * 127 twice leaves 16 bits) and are not those of its own AVX-512 kernels; ours are the same
integers at each level. `of peak` is the part of what the product's instructions reach with all operands in registers.

";

/// Milliseconds of one case on one number of threads.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Time {
    wall: f64,
    cpu: f64,
}

/// By name and threads.
type Times = BTreeMap<(String, usize), Time>;

/// Runs both sides and prints the comparison.
///
/// # Errors
/// If our benchmarks fail, or Python or its packages are missing and that is a failure.
pub fn run(root: &Path, missing: Missing) -> Result<()> {
    let prepared = Python::prepare(root, "compare-ort");
    let Some(python) = python::or_skip(prepared, "the comparison with onnxruntime", missing)?
    else {
        return Ok(());
    };
    let graphs = root.join("target/compare-ort");
    std::fs::create_dir_all(&graphs)
        .with_context(|| format!("`{}` cannot be made", graphs.display()))?;
    python.script(
        "compare_ort.py",
        &[OsStr::new("--graphs"), graphs.as_os_str()],
    )?;
    let mut text = String::from(INTRODUCTION);
    text.push_str(&measure(root, &python, &graphs, ComparedLevel::Best)?);
    if has_avx512() {
        text.push_str(AVX2);
        text.push_str(&measure(root, &python, &graphs, ComparedLevel::Avx2)?);
    }
    let path = root.join("docs/SPEED.md");
    std::fs::write(&path, &text)
        .with_context(|| format!("`{}` cannot be written", path.display()))?;
    say(&text);
    Ok(())
}

#[expect(clippy::print_stdout, reason = "this is a command line tool")]
fn say(text: &str) {
    print!("{text}");
}

/// Both sides at a level, as a table.
fn measure(root: &Path, python: &Python, graphs: &Path, level: ComparedLevel) -> Result<String> {
    let script = |word: &str| {
        let words: &[&str] = match level {
            ComparedLevel::Best => &[word],
            ComparedLevel::Avx2 => &["--avx2", word],
        };
        parse(&python.output("compare_ort.py", words)?)
    };
    let mut ours = benchmark(root, level, "kernels", &["gemm"])?;
    let mut theirs = script("gemm")?;
    ours.extend(benchmark(root, level, "models", &["tgx1"])?);
    let graphs = format!("--graphs={}", graphs.display());
    ours.extend(benchmark(root, level, "models", &["tgf1", &graphs])?);
    for model in ["resnet18", "transformer"] {
        theirs.extend(script(model)?);
    }
    table(level, &ours, &theirs)
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
}

#[cfg(not(target_arch = "x86_64"))]
const fn has_avx512() -> bool {
    false
}

fn benchmark(root: &Path, level: ComparedLevel, name: &str, words: &[&str]) -> Result<Times> {
    let mut cargo = Command::new("cargo");
    if level == ComparedLevel::Avx2 {
        cargo
            .env("RUSTFLAGS", "-Ctarget-cpu=x86-64-v3")
            .env("CARGO_TARGET_DIR", root.join("target/processors/x86-64-v3"))
            .env("TENSORGRID_CPU", "avx2");
    }
    let output = cargo
        .args([
            "bench",
            "--quiet",
            "--package",
            "tg-compile",
            "--bench",
            name,
        ])
        .args(["--", "--rows"])
        .args(words)
        .current_dir(root)
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("`cargo` cannot be started")?;
    ensure!(output.status.success(), "the benchmark {name} failed");
    parse(&String::from_utf8_lossy(&output.stdout))
}

/// Reads rows; other lines (of loggers) are passed over.
fn parse(text: &str) -> Result<Times> {
    let mut times = Times::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, threads, wall, cpu] = fields[..] else {
            continue;
        };
        let number = |text: &str| {
            text.parse::<f64>()
                .with_context(|| format!("`{text}` in `{line}` is not a number"))
        };
        let time = Time {
            wall: number(wall)?,
            cpu: number(cpu)?,
        };
        let threads = threads
            .parse()
            .with_context(|| format!("`{threads}` in `{line}` is not a number of threads"))?;
        times.insert((name.to_owned(), threads), time);
    }
    ensure!(!times.is_empty(), "nothing was measured");
    Ok(times)
}

/// The comparison as the document has it.
fn table(level: ComparedLevel, ours: &Times, theirs: &Times) -> Result<String> {
    let (name, which) = match level {
        ComparedLevel::Best => ("the fastest level", 0),
        ComparedLevel::Avx2 => ("avx2", 1),
    };
    let mut text = format!("Machine: {}; {name}.\n\n", machine());
    text.push_str("| TensorGrid | onnxruntime | ours, CPU ms | theirs, CPU ms | times as fast | wanted | ours, two threads |");
    let has_peak = level == ComparedLevel::Avx2;
    text.push_str(if has_peak {
        " of peak |\n|---|---|---|---|---|---|---|---|\n"
    } else {
        "\n|---|---|---|---|---|---|---|\n"
    });
    for &(our, their, wanted) in CASES {
        let (one, two) = (find(ours, our, 1)?, find(ours, our, 2)?);
        let other = find(theirs, their, 1)?;
        let (ratio, wanted) = (other.cpu / one.cpu, wanted[which]);
        let missed = if ratio >= wanted { "" } else { " (missed)" };
        let (mine, theirs, threads) = (one.cpu, other.cpu, one.wall / two.wall);
        text.push_str(&format!(
            "| {our} | {their} | {mine:.3} | {theirs:.3} | {ratio:.2}{missed} | {wanted} | {threads:.2}x |"
        ));
        if has_peak {
            let part = of_peak(ours, our, one);
            text.push_str(&part.map_or("  |".to_owned(), |part| format!(" {part:.2} |")));
        }
        text.push('\n');
    }
    Ok(text)
}

/// The part of its instructions' peak that a product of integers reaches.
fn of_peak(ours: &Times, name: &str, time: Time) -> Option<f64> {
    let (kind, size) = name.split_once(' ')?;
    let peak = find(ours, &format!("{kind} peak"), 1).ok()?;
    let multiply_adds: f64 = size
        .split('x')
        .filter_map(|n| n.parse::<f64>().ok())
        .product();
    Some(multiply_adds / time.cpu / (PEAK_MULTIPLY_ADDS / peak.cpu))
}

/// The processor, and how busy it was.
fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let processor = read("/proc/cpuinfo");
    let processor = processor
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown processor", |(_, name)| name);
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or("unknown");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{cores} cores of {processor}, load {load} at the end")
}

fn find(times: &Times, name: &str, threads: usize) -> Result<Time> {
    times
        .get(&(name.to_owned(), threads))
        .copied()
        .with_context(|| format!("`{name}` on {threads} threads was not measured"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_and_other_lines_passed_over() {
        let text = "a warning\ngemm_i8 1x2x3\t1\t0.5\t0.25\ngemm_i8 1x2x3\t2\t0.3\t0.3\n";
        let times = parse(text).expect("rows");
        assert_eq!(times.len(), 2);
        let time = find(&times, "gemm_i8 1x2x3", 1).expect("measured");
        assert_eq!(
            time,
            Time {
                wall: 0.5,
                cpu: 0.25
            }
        );
        assert!(find(&times, "gemm_i8 1x2x3", 3).is_err());
        let peak = parse("gemm_i8 peak\t1\t2\t2\n").expect("a row");
        let part = of_peak(
            &peak,
            "gemm_i8 1024x1024x64",
            Time {
                wall: 2.0,
                cpu: 2.0,
            },
        );
        assert_eq!(part, Some(0.5));
        assert_eq!(of_peak(&peak, "tgx1 resnet18", time), None);
        for bad in ["", "no rows", "a\tb\t1\t1", "a\t1\tx\t1"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn every_case_is_named_by_both_sides() {
        let root = crate::root();
        let read =
            |path: &str| std::fs::read_to_string(root.join(path)).expect("the file is there");
        let script = read("xtask/python/compare_ort.py");
        let benches = read("crates/tg-compile/benches/kernels.rs")
            + &read("crates/tg-compile/benches/models.rs");
        for (our, their, _) in CASES {
            let kind = our.split(' ').next().unwrap_or_default();
            assert!(benches.contains(kind), "{our}");
            let first = their.split(' ').next().unwrap_or_default();
            assert!(script.contains(first), "{their}");
        }
    }
}

//! What quantising costs: the shipped models on digits they never saw, and a LeNet on MNIST.
//!
//! ```text
//! cargo run -p tg-compile --example accuracy                                # the shipped models
//! cargo run -p tg-compile --example accuracy -- --mnist DIR --model F.onnx  # trained on the first 8,000, tested on the last 2,000
//! ```
#![allow(clippy::print_stdout, reason = "this is a command line tool")]

use anyhow::{Context, Result, bail, ensure};
use flate2::read::GzDecoder;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use tg_compile::accuracy::{self, Accuracy};
use tg_compile::digits::{self, Digit};
use tg_compile::{CompileOptions, Compiled, compile};
use tg_onnx::{ReadLimits, read};

/// Inputs that a model is calibrated on.
const CALIBRATION: usize = 256;
/// MNIST images that are trained on; the rest are tested.
const MNIST_TRAINED: usize = 8_000;

type Sample = (Vec<f32>, usize);
type Image = fn(&Digit) -> Vec<f32>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let header = "model              samples   float  integer   agree   drop   allowed   least SNR";
    match words.as_slice() {
        [] => {
            println!("{header}");
            shipped()
        }
        ["--mnist", folder, "--model", model] => mnist(Path::new(folder), Path::new(model)),
        _ => bail!("usage: accuracy [--mnist DIR --model FILE.onnx]"),
    }
}

fn shipped() -> Result<()> {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models");
    let path = models.join("digits/digits.bin");
    let all = digits::read(&read_file(&path)?).context("models/digits/digits.bin is refused")?;
    let images: [(&str, Image); 2] = [
        ("lenet-digits", Digit::reals_28x28),
        ("mlp-digits", Digit::reals_8x8),
    ];
    for (name, image) in images {
        let samples = |unseen: bool| -> Vec<Sample> {
            let chosen = all.iter().filter(|digit| digit.unseen == unseen);
            chosen
                .map(|digit| (image(digit), usize::from(digit.label)))
                .collect()
        };
        let model = models.join(name).with_extension("onnx");
        check(&model, &samples(false), &samples(true), 1)?;
    }
    Ok(())
}

fn mnist(folder: &Path, model: &Path) -> Result<()> {
    let images = idx(&folder.join("t10k-images-idx3-ubyte.gz"), 16)?;
    let labels = idx(&folder.join("t10k-labels-idx1-ubyte.gz"), 8)?;
    ensure!(
        images.len() == labels.len() * 28 * 28 && labels.len() > MNIST_TRAINED,
        "`{}` does not hold the 10,000 test images of MNIST",
        folder.display()
    );
    let real = |image: &[u8]| image.iter().map(|&byte| f32::from(byte) / 255.0).collect();
    let each = images.chunks_exact(28 * 28).zip(&labels);
    let samples: Vec<Sample> = each
        .map(|(image, &label)| (real(image), usize::from(label)))
        .collect();
    let (trained, unseen) = samples.split_at(MNIST_TRAINED);
    check(model, trained, unseen, 6)
}

/// Compiles a model, calibrated on the samples it was trained on, and compares it on those it never saw.
fn check(path: &Path, trained: &[Sample], unseen: &[Sample], allowed: usize) -> Result<()> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let graph = read(&read_file(path)?, None, &ReadLimits::default())
        .with_context(|| format!("{name} is refused"))?;
    let calibration: Vec<Vec<f32>> = trained
        .iter()
        .take(CALIBRATION)
        .map(|(row, _)| row.clone())
        .collect();
    let compiled = compile(graph, &calibration, &CompileOptions::default())?;
    let accuracy = accuracy::compare(&compiled, unseen)?;
    print_row(&name, accuracy, allowed, &compiled);
    ensure!(
        accuracy.drop() <= allowed,
        "{name} loses {} of {} samples by quantising, at most {allowed} are allowed",
        accuracy.drop(),
        accuracy.samples
    );
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "thousands of samples")]
fn print_row(name: &str, accuracy: Accuracy, allowed: usize, compiled: &Compiled) {
    let Accuracy {
        samples,
        float_right,
        integer_right,
        agree,
    } = accuracy;
    let percent = |count: usize| count as f64 * 100.0 / samples as f64;
    let layers = compiled.report.layers.iter();
    let least = layers
        .map(|layer| layer.snr_db)
        .fold(f64::INFINITY, f64::min);
    println!(
        "{name:<18} {samples:>7} {:>6.2}% {:>7.2}% {:>6.2}% {:>6} {allowed:>9} {least:>8.1} dB",
        percent(float_right),
        percent(integer_right),
        percent(agree),
        accuracy.drop(),
    );
}

fn read_file(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("`{}` cannot be read", path.display()))
}

/// The values of a gzipped idx file, without its header.
fn idx(path: &Path, header: usize) -> Result<Vec<u8>> {
    let packed = read_file(path)?;
    let mut values = Vec::new();
    GzDecoder::new(packed.as_slice())
        .take(64 << 20)
        .read_to_end(&mut values)
        .with_context(|| format!("`{}` is not a gzip file", path.display()))?;
    ensure!(values.len() >= header, "`{}` is too short", path.display());
    Ok(values.split_off(header))
}

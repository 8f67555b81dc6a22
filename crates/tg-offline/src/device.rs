//! `tensorgrid device`: what this machine computes with, and how fast.

use std::hint::black_box;
use std::time::{Duration, Instant};
use tg_console::outcome::{Outcome, json, line};
use tg_cuda::{DeviceInfo, Probe, Way, probe};
use tg_exec::kernels::cpu::features;
use tg_exec::kernels::{
    Cpu, Elements, Matrix, PackedMatrix, Scratch, SimdLevel, Sink, Width, gemm_int,
};
use tg_float::kernels::{Bias, PackedF32, ProductF32, Right, gemm_f32_packed};

/// Rows, columns and depth of the measured products: the operands fit the second-level cache of usual processors.
const SIZE: usize = 512;
/// How long each product is repeated.
const LASTS: Duration = Duration::from_millis(150);
/// Rates on some threads, in 10^9 operations per second of wall time; an operation is a multiplication or addition.
struct Rate {
    threads: usize,
    int8: f64,
    float32: f64,
}

/// Prints processor, features, the chosen instructions, measured rates and GPUs.
///
/// # Errors
/// If the output cannot be written.
pub fn run(as_json: bool) -> Outcome {
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    let mut counts = vec![1, 2, available];
    counts.retain(|&count| count <= available);
    counts.sort_unstable();
    counts.dedup();
    let rates: Vec<Rate> = counts.into_iter().map(measure).collect();
    let gpus = probe();
    if as_json {
        return Ok(json(&as_document(available, &rates, &gpus))?);
    }
    print(available, &rates)?;
    print_gpus(&gpus)
}

fn measure(threads: usize) -> Rate {
    let cpu = Cpu::new(threads);
    // Speed does not depend on the values.
    let bytes: Vec<i8> = (0..SIZE * SIZE).map(|i| (i * 37 % 255) as i8).collect();
    let floats: Vec<f32> = bytes.iter().map(|&value| f32::from(value)).collect();
    let mut scratch = Scratch::new();
    let size = [SIZE, SIZE];
    let weights = PackedMatrix::from_weights(cpu.level(), Width::I8, size, &bytes, None);
    let rows = Matrix {
        values: Elements::I8(&bytes),
        rows: SIZE,
        stride: SIZE,
    };
    let mut sums = vec![0i32; SIZE * SIZE];
    let int8 = rate(|| {
        let out = &mut sums;
        let sink = Sink::Sums { out, stride: SIZE };
        gemm_int(&cpu, &mut scratch, black_box(&rows), &weights, sink);
    });
    let right = Right::Rows {
        values: &floats,
        stride: SIZE,
    };
    let packed = PackedF32::new(SIZE, SIZE, &right);
    let product = ProductF32 {
        m: SIZE,
        n: SIZE,
        k: SIZE,
        a: &floats,
        a_stride: SIZE,
        bias: Bias::None,
    };
    let mut out = vec![0f32; SIZE * SIZE];
    let float32 = rate(|| gemm_f32_packed(&cpu, black_box(&product), &packed, &mut out, SIZE));
    Rate {
        threads,
        int8,
        float32,
    }
}

/// The rate of the fastest of many runs: what the machine gives when nothing else wants it.
fn rate(mut run: impl FnMut()) -> f64 {
    run();
    let start = Instant::now();
    let mut least = f64::INFINITY;
    while start.elapsed() < LASTS {
        let one = Instant::now();
        run();
        least = least.min(one.elapsed().as_secs_f64());
    }
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let operations = 2.0 * (SIZE * SIZE * SIZE) as f64;
    operations / least / 1e9
}

/// The processor's own name, or the architecture.
pub(super) fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(
        || std::env::consts::ARCH.to_owned(),
        |(_, name)| name.trim().to_owned(),
    )
}

/// How a GPU multiplies bytes, in words.
pub(super) const fn way(device: &DeviceInfo) -> &'static str {
    match device.way() {
        Way::TensorCores => "tensor cores",
        Way::DotProducts => "dot products of four bytes",
        Way::None => "too old: compute capability below 6.1",
    }
}

/// What is missing for GPUs to be used, one reason each.
fn missing(gpus: &Probe) -> Vec<String> {
    gpus.missing.iter().map(ToString::to_string).collect()
}

fn as_document(available: usize, rates: &[Rate], gpus: &Probe) -> serde_json::Value {
    let features: serde_json::Map<_, _> = features()
        .into_iter()
        .map(|(name, found)| (name.to_owned(), found.into()))
        .collect();
    let levels: Vec<&str> = SimdLevel::available().map(SimdLevel::name).collect();
    let rates: Vec<_> = rates
        .iter()
        .map(|rate| {
            serde_json::json!({
                "threads": rate.threads, "int8_gop_per_s": rate.int8, "float32_gflop_per_s": rate.float32,
            })
        })
        .collect();
    let devices: Vec<_> = gpus
        .devices
        .iter()
        .map(|device| {
            let [major, minor] = device.capability;
            serde_json::json!({
                "ordinal": device.ordinal, "name": device.name, "uuid": device.uuid, "memory_bytes": device.memory_bytes,
                "compute_capability": format!("{major}.{minor}"), "multiprocessors": device.multiprocessors,
                "way": way(device), "usable": gpus.usable().any(|usable| usable == device),
            })
        })
        .collect();
    serde_json::json!({
        "processor": processor(), "architecture": std::env::consts::ARCH, "threads": available,
        "features": features, "level": SimdLevel::best().name(), "levels": levels, "rates": rates,
        "gpus": devices, "gpus_missing": missing(gpus), "cuda_driver": gpus.driver, "nvrtc": gpus.compiler,
    })
}

fn print(available: usize, rates: &[Rate]) -> Outcome {
    let threads = |count: usize| {
        let end = if count == 1 { "" } else { "s" };
        format!("{count} thread{end}")
    };
    line(format_args!(
        "processor  {} ({}, {})",
        processor(),
        std::env::consts::ARCH,
        threads(available)
    ))?;
    let named = |wanted: bool| {
        let names = features().into_iter().filter(|&(_, found)| found == wanted);
        names.map(|(name, _)| name).collect::<Vec<_>>().join(" ")
    };
    let missing = match named(false) {
        names if names.is_empty() => String::new(),
        names => format!("; not: {names}"),
    };
    line(format_args!("features   {}{missing}", named(true)))?;
    let levels: Vec<&str> = SimdLevel::available().map(SimdLevel::name).collect();
    line(format_args!(
        "kernels    {} (this machine can run {})",
        SimdLevel::best(),
        levels.join(", ")
    ))?;
    for rate in rates {
        line(format_args!(
            "products   {:.0} int8 GOP/s, {:.0} float32 GFLOP/s on {}",
            rate.int8,
            rate.float32,
            threads(rate.threads)
        ))?;
    }
    Ok(())
}

/// Every GPU that is seen, and what keeps those from being used that are not.
fn print_gpus(gpus: &Probe) -> Outcome {
    for device in &gpus.devices {
        let [major, minor] = device.capability;
        line(format_args!(
            "GPU {}      {} ({} MiB, {} multiprocessors, compute capability {major}.{minor}; {})",
            device.ordinal,
            device.name,
            device.memory_bytes >> 20,
            device.multiprocessors,
            way(device)
        ))?;
    }
    if gpus.usable().next().is_none() {
        let reasons = missing(gpus).join("; ");
        line(format_args!("GPUs       none can be used: {reasons}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tg_cuda::Missing;

    fn device(ordinal: usize, capability: [u32; 2]) -> DeviceInfo {
        DeviceInfo {
            ordinal,
            name: format!("card {ordinal}"),
            uuid: String::new(),
            memory_bytes: 8 << 30,
            capability,
            multiprocessors: 20,
        }
    }

    #[test]
    fn the_document_says_which_gpus_can_be_used_and_why_not() {
        let mut gpus = Probe {
            driver: Some([12, 4]),
            compiler: Some([12, 9]),
            devices: vec![device(0, [9, 0]), device(1, [5, 2])],
            missing: Vec::new(),
        };
        let rates = [Rate {
            threads: 1,
            int8: 2.0,
            float32: 1.0,
        }];
        let found = as_document(4, &rates, &gpus);
        assert_eq!(found["gpus"][0]["usable"], true);
        assert_eq!(found["gpus"][0]["way"], "tensor cores");
        assert_eq!(found["gpus"][0]["compute_capability"], "9.0");
        assert_eq!(found["gpus"][1]["usable"], false);
        assert_eq!(found["rates"][0]["int8_gop_per_s"], 2.0);
        assert_eq!(found["gpus_missing"], serde_json::json!([]));
        gpus.missing.push(Missing::Driver);
        let found = as_document(4, &rates, &gpus);
        assert_eq!(found["gpus"][0]["usable"], false);
        assert_eq!(
            found["gpus_missing"],
            serde_json::json!(["no CUDA driver: libcuda.so.1 is not found"])
        );
    }
}

//! Speed of the kernels: `cargo bench -p tg-compile --bench kernels [-- FILTER]`.
//!
//! One line for each case: its name, threads, median milliseconds of wall time, milliseconds of processor time (all
//! threads), 10^9 operations for each second of processor time, and how many times faster it is than the plainest
//! loop in the same run, by processor time. An operation is a multiplication or an addition. With `--rows` the lines
//! are `name<TAB>threads<TAB>wall ms<TAB>cpu ms`, for programs.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and stops where something is missing"
)]

use std::hint::black_box;
use tg_exec::kernels::{
    Conv2d, ConvInt, Elements, Matrix, PackedMatrix, Scratch, Sink, Sliding, Width, gemm_int,
    max_pool,
};
use tg_exec::sample::Numbers;
use tg_float::kernels::{Bias, PackedF32, ProductF32, Right, conv_f32, gemm_f32_packed};

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "instructions in their own order")]
mod peak;
#[path = "report/mod.rs"]
mod report;

use report::Report;

fn main() {
    let report = Report::from_arguments();
    report.title();
    for size in [384, 1_152] {
        integer_products(&report, Width::I8, [size, size, size]);
        integer_products(&report, Width::U7, [size, size, size]);
        float_products(&report, [size, size, size]);
    }
    for size in [
        [128, 384, 384],
        [128, 1_536, 384],
        [128, 384, 1_536],
        [1, 4_096, 1_024],
    ] {
        integer_products(&report, Width::I8, size);
        integer_products(&report, Width::U7, size);
        float_products(&report, size);
    }
    convolutions(&report);
    #[cfg(target_arch = "x86_64")]
    peak::rows(&report);
}

fn bytes(numbers: &mut Numbers, count: usize) -> Vec<i8> {
    (0..count).map(|_| numbers.activation()).collect()
}

/// What a rectifier leaves: 0 to 127.
fn rectify(values: &mut [i8]) {
    values.iter_mut().for_each(|value| *value &= 127);
}

fn integer_products(report: &Report, width: Width, [m, n, k]: [usize; 3]) {
    let mut numbers = Numbers::new(1);
    let (mut a, b) = (bytes(&mut numbers, m * k), bytes(&mut numbers, n * k));
    if width == Width::U7 {
        rectify(&mut a);
    }
    let operations = 2.0 * (m * n * k) as f64;
    let mut out = vec![0i32; m * n];
    let kind = match width {
        Width::U7 => "gemm_u7",
        _ => "gemm_i8",
    };
    let name = format!("{kind} {m}x{n}x{k}");
    let naive = report.naive(&format!("{name} naive"), || {
        for (row, out) in a.chunks_exact(k).zip(out.chunks_exact_mut(n)) {
            for (column, out) in b.chunks_exact(k).zip(out) {
                *out = row
                    .iter()
                    .zip(column)
                    .map(|(&x, &y)| i32::from(x) * i32::from(y))
                    .sum();
            }
        }
        black_box(&out);
    });
    if let Some(time) = naive {
        report.line(&format!("{name} naive"), 1, operations, time, naive);
    }
    for cpu in report.cpus() {
        let name = report.name(&name, cpu.level());
        let weights = PackedMatrix::from_weights(cpu.level(), width, [n, k], &b, None);
        let mut scratch = Scratch::new();
        let rows = Matrix {
            values: Elements::I8(&a),
            rows: m,
            stride: k,
        };
        let time = report.time(&name, || {
            let sink = Sink::Sums {
                out: &mut out,
                stride: n,
            };
            gemm_int(&cpu, &mut scratch, black_box(&rows), &weights, sink);
        });
        if let Some(time) = time {
            report.line(&name, cpu.threads(), operations, time, naive);
        }
    }
}

fn floats(numbers: &mut Numbers, count: usize) -> Vec<f32> {
    (0..count)
        .map(|_| f32::from(numbers.activation()) / 64.0)
        .collect()
}

fn float_products(report: &Report, [m, n, k]: [usize; 3]) {
    let mut numbers = Numbers::new(2);
    let (a, b) = (floats(&mut numbers, m * k), floats(&mut numbers, n * k));
    let operations = 2.0 * (m * n * k) as f64;
    let mut out = vec![0f32; m * n];
    let name = format!("gemm_f32 {m}x{n}x{k}");
    let naive = report.naive(&format!("{name} naive"), || {
        for (row, out) in a.chunks_exact(k).zip(out.chunks_exact_mut(n)) {
            out.fill(0.0);
            for (&x, column) in row.iter().zip(b.chunks_exact(n)) {
                for (out, &y) in out.iter_mut().zip(column) {
                    *out = x.mul_add(y, *out);
                }
            }
        }
        black_box(&out);
    });
    if let Some(time) = naive {
        report.line(&format!("{name} naive"), 1, operations, time, naive);
    }
    let right = Right::Rows {
        values: &b,
        stride: n,
    };
    let packed = PackedF32::new(n, k, &right);
    let product = ProductF32 {
        m,
        n,
        k,
        a: &a,
        a_stride: k,
        bias: Bias::None,
    };
    for cpu in report.cpus() {
        let name = report.name(&name, cpu.level());
        let time = report.time(&name, || {
            gemm_f32_packed(&cpu, black_box(&product), &packed, &mut out, n);
        });
        if let Some(time) = time {
            report.line(&name, cpu.threads(), operations, time, naive);
        }
    }
}

/// Layers of ResNet-18 and one of MobileNet: image side, inputs, outputs, kernel, stride, padding, groups.
const LAYERS: [[usize; 7]; 8] = [
    [224, 3, 64, 7, 2, 3, 1],
    [56, 64, 64, 3, 1, 1, 1],
    [56, 64, 128, 3, 2, 1, 1],
    [28, 128, 128, 3, 1, 1, 1],
    [14, 256, 256, 3, 1, 1, 1],
    [7, 512, 512, 3, 1, 1, 1],
    [56, 64, 128, 1, 2, 0, 1],
    [56, 144, 144, 3, 1, 1, 144],
];

fn convolutions(report: &Report) {
    for [side, inputs, outputs, kernel, stride, pad, groups] in LAYERS {
        let sliding = Sliding {
            image: [side, side],
            kernel: [kernel, kernel],
            stride: [stride, stride],
            pads: [pad; 4],
            dilation: [1, 1],
            spread: [1, 1],
        };
        let conv = Conv2d {
            sliding,
            inputs,
            outputs,
            groups,
        };
        convolution(report, &conv);
    }
    let sliding = Sliding {
        image: [112, 112],
        kernel: [3, 3],
        stride: [2, 2],
        pads: [1, 1, 1, 1],
        dilation: [1, 1],
        spread: [1, 1],
    };
    let mut numbers = Numbers::new(3);
    let image = bytes(&mut numbers, 112 * 112 * 64);
    let mut out = vec![0; 56 * 56 * 64];
    for cpu in report.cpus() {
        let name = report.name("max_pool_i8 112 64ch", cpu.level());
        let time = report.time(&name, || {
            max_pool(&cpu, &sliding, 64, black_box(&image), &mut out);
        });
        if let Some(time) = time {
            report.line(&name, cpu.threads(), 9.0 * out.len() as f64, time, None);
        }
    }
}

fn convolution(report: &Report, conv: &Conv2d) {
    let mut numbers = Numbers::new(4);
    let [height, width] = conv.sliding.image;
    let pixels: usize = conv.output().unwrap().iter().product();
    let mut image = bytes(&mut numbers, height * width * conv.inputs);
    // Colours have signs, what layers hand on has none.
    let element = if conv.inputs == 3 {
        Width::I8
    } else {
        rectify(&mut image);
        Width::U7
    };
    let weights = bytes(&mut numbers, conv.weights());
    let operations = 2.0 * (pixels * conv.weights()) as f64;
    let kernel = conv.sliding.kernel[0];
    let name = format!(
        "{height}x{width}x{} to {} k{kernel} g{}",
        conv.inputs, conv.outputs, conv.groups
    );
    let mut out = vec![0i32; pixels * conv.outputs];
    for cpu in report.cpus() {
        let name = report.name(&format!("conv_i8 {name}"), cpu.level());
        let packed = ConvInt::new(cpu.level(), element, 0, conv, &weights, None).unwrap();
        let mut scratch = Scratch::new();
        let time = report.time(&name, || {
            let sink = Sink::Sums {
                out: &mut out,
                stride: conv.outputs,
            };
            packed.run(&cpu, &mut scratch, Elements::I8(black_box(&image)), sink);
        });
        if let Some(time) = time {
            report.line(&name, cpu.threads(), operations, time, None);
        }
    }
    let image: Vec<f32> = image.iter().map(|&value| f32::from(value)).collect();
    let weights: Vec<f32> = weights.iter().map(|&value| f32::from(value)).collect();
    let mut out = vec![0f32; pixels * conv.outputs];
    for cpu in report.cpus() {
        let name = report.name(&format!("conv_f32 {name}"), cpu.level());
        let mut scratch = Scratch::new();
        let time = report.time(&name, || {
            conv_f32(
                &cpu,
                &mut scratch,
                conv,
                [black_box(&image), &weights],
                None,
                &mut out,
            );
        });
        if let Some(time) = time {
            report.line(&name, cpu.threads(), operations, time, None);
        }
    }
}

#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use tg_exec::kernels::SimdLevel;
use tg_exec::sample::Numbers;

fn cpus() -> Vec<Cpu> {
    SimdLevel::available()
        .flat_map(|level| [1, 3].map(|threads| Cpu::with_level(level, threads).unwrap()))
        .collect()
}

/// Numbers of many magnitudes, so that the order of additions shows.
fn floats(numbers: &mut Numbers, count: usize) -> Vec<f32> {
    (0..count)
        .map(|_| {
            let mantissa = numbers.between(-(1 << 23), 1 << 23) as f32;
            mantissa * 2f32.powi(i32::try_from(numbers.between(-40, -10)).unwrap())
        })
        .collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// The definition: k ascending from +0, one fused multiply-add each, bias last.
fn expected(product: &ProductF32<'_>, b: &dyn Fn(usize, usize) -> f32) -> Vec<f32> {
    let mut out = Vec::new();
    for i in 0..product.m {
        for j in 0..product.n {
            let mut sum = 0f32;
            for k in 0..product.k {
                sum = product.a[i * product.a_stride + k].mul_add(b(k, j), sum);
            }
            let sum = match product.bias {
                Bias::None => sum,
                Bias::PerColumn(bias) => sum + bias[j],
                Bias::PerRow(bias) => sum + bias[i],
            };
            out.push(if sum.is_nan() { CANONICAL_NAN } else { sum });
        }
    }
    out
}

fn check(product: &ProductF32<'_>, b: &[f32]) {
    let ProductF32 { m, n, k, .. } = *product;
    let transposed: Vec<f32> = (0..n * k).map(|i| b[i % k * n + i / k]).collect();
    let expected = bits(&expected(product, &|k, j| b[k * n + j]));
    let rows = Right::Rows {
        values: b,
        stride: n,
    };
    let columns = Right::Transposed {
        values: &transposed,
        stride: k,
    };
    for cpu in cpus() {
        let mut scratch = Scratch::new();
        for right in [rows, columns] {
            let mut out = vec![f32::INFINITY; m * n];
            gemm_f32(&cpu, &mut scratch, product, &right, &mut out, n);
            assert_eq!(bits(&out), expected, "{m} {n} {k} {cpu:?}");
            let mut out = vec![0.0; m * n];
            gemm_f32_packed(&cpu, product, &PackedF32::new(n, k, &right), &mut out, n);
            assert_eq!(bits(&out), expected, "{m} {n} {k} {cpu:?}");
        }
    }
}

#[test]
fn every_level_sums_in_the_defined_order() {
    let mut numbers = Numbers::new(1);
    for m in [1, 2, 3, 5, 11, 13, 27] {
        for n in [1, 3, 15, 16, 17, 31, 32, 33, 50] {
            for k in [1, 2, 7, 64, 300] {
                let (a, b) = (floats(&mut numbers, m * k), floats(&mut numbers, n * k));
                let (columns, rows) = (floats(&mut numbers, n), floats(&mut numbers, m));
                let bias =
                    [Bias::None, Bias::PerColumn(&columns), Bias::PerRow(&rows)][(m + n + k) % 3];
                let product = ProductF32 {
                    m,
                    n,
                    k,
                    a: &a,
                    a_stride: k,
                    bias,
                };
                check(&product, &b);
            }
        }
    }
}

#[test]
fn products_over_many_blocks_keep_the_order() {
    let mut numbers = Numbers::new(2);
    for [m, n, k] in [[60, 40, 3_000], [3, 300, 40], [200, 33, 10]] {
        let (a, b) = (floats(&mut numbers, m * k), floats(&mut numbers, n * k));
        let product = ProductF32 {
            m,
            n,
            k,
            a: &a,
            a_stride: k,
            bias: Bias::None,
        };
        check(&product, &b);
    }
}

#[test]
fn subnormals_stay_zeros_keep_their_sign_and_nan_is_canonical() {
    let tiny = f32::from_bits(1);
    let a = [
        tiny,
        -tiny,
        0.0,
        f32::INFINITY,
        f32::from_bits(0xffc0_1234),
        -1.0,
    ];
    // One column each: a product that underflows, one that stays subnormal, and so on.
    let b = [0.5, 1.0, 0.0, 3.0, -0.5, -0.0, f32::NEG_INFINITY, 1e-40];
    let product = ProductF32 {
        m: 6,
        n: 8,
        k: 1,
        a: &a,
        a_stride: 1,
        bias: Bias::None,
    };
    check(&product, &b);
    let out = expected(&product, &|_, j| b[j]);
    assert_eq!(out[1].to_bits(), 1);
    assert_eq!(out[8].to_bits(), 0x8000_0000, "-tiny / 2 rounds to -0");
    assert_eq!(out[3 * 8 + 2].to_bits(), 0x7fc0_0000, "infinity times zero");
    assert_eq!(
        out[4 * 8].to_bits(),
        0x7fc0_0000,
        "a payload is not passed on"
    );
}

#[test]
fn strides_leave_the_rest_alone() {
    let mut numbers = Numbers::new(3);
    let (m, n, k) = (7, 18, 5);
    let (a, b) = (floats(&mut numbers, m * 9), floats(&mut numbers, k * 30));
    let product = ProductF32 {
        m,
        n,
        k,
        a: &a,
        a_stride: 9,
        bias: Bias::None,
    };
    let expected = bits(&expected(&product, &|k, j| b[k * 30 + j]));
    for cpu in cpus() {
        let mut out = vec![4.5; m * 20];
        let right = Right::Rows {
            values: &b,
            stride: 30,
        };
        gemm_f32(&cpu, &mut Scratch::new(), &product, &right, &mut out, 20);
        for (row, expected) in out.chunks_exact(20).zip(expected.chunks_exact(n)) {
            assert_eq!(bits(&row[..n]), expected);
            assert_eq!(row[n..], [4.5, 4.5]);
        }
    }
}

#[test]
fn a_depth_of_zero_gives_the_bias() {
    let product = ProductF32 {
        m: 2,
        n: 3,
        k: 0,
        a: &[],
        a_stride: 0,
        bias: Bias::PerColumn(&[1.0, 2.0, 3.0]),
    };
    check(&product, &[]);
}

#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::sample::Numbers;
use tg_ir::{ElementType, Requantise, Rescale};

/// Every level of the machine, with one and three threads.
fn cpus() -> Vec<Cpu> {
    SimdLevel::available()
        .flat_map(|level| [1, 3].map(|threads| Cpu::with_level(level, threads).unwrap()))
        .collect()
}

fn bytes(numbers: &mut Numbers, count: usize) -> Vec<i8> {
    (0..count).map(|_| numbers.activation()).collect()
}

/// `[n][k]` to `[k][n]`.
fn transpose(values: &[i8], n: usize, k: usize) -> Vec<i8> {
    (0..k * n).map(|i| values[i % n * k + i / n]).collect()
}

/// The definition, in 64 bits.
fn expected<A: Copy + Into<i64>>(
    a: &[A],
    b: &[i8],
    bias: &[i32],
    [m, n, k]: [usize; 3],
) -> Vec<i64> {
    let mut sums = Vec::with_capacity(m * n);
    for i in 0..m {
        for j in 0..n {
            let products = (0..k).map(|p| a[i * k + p].into() * i64::from(b[j * k + p]));
            sums.push(i64::from(bias[j]) + products.sum::<i64>());
        }
    }
    sums
}

fn narrow(sums: &[i64]) -> Vec<i32> {
    sums.iter()
        .map(|&sum| i32::try_from(sum).unwrap())
        .collect()
}

/// The product as it is, and that of the same rows without their signs.
fn check_i8(size: [usize; 3], a: &[i8], b: &[i8], bias: &[i32]) {
    check_width(Width::I8, size, a, b, bias);
    let naturals: Vec<i8> = a.iter().map(|&value| value & 127).collect();
    check_width(Width::U7, size, &naturals, b, bias);
}

fn check_width(width: Width, size: [usize; 3], a: &[i8], b: &[i8], bias: &[i32]) {
    let [m, n, k] = size;
    let expected = narrow(&expected(a, b, bias, size));
    for cpu in cpus() {
        let rows = Matrix {
            values: Elements::I8(a),
            rows: m,
            stride: k,
        };
        let mut scratch = Scratch::new();
        let weights = PackedMatrix::from_weights(cpu.level(), width, [n, k], b, Some(bias));
        let mut sums = vec![0; m * n];
        let sink = Sink::Sums {
            out: &mut sums,
            stride: n,
        };
        gemm_int(&cpu, &mut scratch, &rows, &weights, sink);
        assert_eq!(sums, expected, "{size:?} {cpu:?}");
        // The same matrix from the other storage order, without biases.
        let mut other = PackedMatrix::new(cpu.level(), width, n, k);
        other.pack(Elements::I8(&transpose(b, n, k)), Order::Rows, n);
        let sink = Sink::Sums {
            out: &mut sums,
            stride: n,
        };
        gemm_int(&cpu, &mut scratch, &rows, &other, sink);
        let biased: Vec<i32> = sums
            .iter()
            .enumerate()
            .map(|(i, s)| s + bias[i % n])
            .collect();
        assert_eq!(biased, expected, "{size:?} {cpu:?}");
    }
}

#[test]
fn small_products_of_every_shape_are_exact_at_every_level() {
    let mut numbers = Numbers::new(1);
    for m in [1, 2, 3, 5, 7, 13] {
        for n in [1, 15, 16, 17, 33, 48, 50, 64, 80, 100] {
            for k in [1, 2, 3, 4, 5, 8, 31] {
                let (a, b) = (bytes(&mut numbers, m * k), bytes(&mut numbers, n * k));
                let bias: Vec<i32> = (0..n)
                    .map(|_| i32::try_from(numbers.between(-1_000_000, 1_000_000)).unwrap())
                    .collect();
                check_i8([m, n, k], &a, &b, &bias);
            }
        }
    }
}

#[test]
fn products_of_the_greatest_and_least_numbers_are_exact() {
    let mut numbers = Numbers::new(6);
    for k in [1, 2, 4, 6, 7, 64, 1_000] {
        for extremes in [[-128i8, 127], [127, 127], [-128, -128], [0, -128]] {
            let mut draw = |count: usize, values: [i8; 2]| -> Vec<i8> {
                (0..count)
                    .map(|_| values[usize::from(numbers.activation() > 0)])
                    .collect()
            };
            let (a, b) = (draw(7 * k, [-128, 127]), draw(18 * k, extremes));
            check_i8([7, 18, k], &a, &b, &[0; 18]);
            let a = draw(7 * k, [127, 127]);
            check_i8([7, 18, k], &a, &b, &[0; 18]);
        }
    }
}

#[test]
fn products_over_many_blocks_are_exact() {
    let mut numbers = Numbers::new(2);
    for [m, n, k] in [[150, 40, 3_000], [700, 20, 70], [3, 700, 129]] {
        let (a, b) = (bytes(&mut numbers, m * k), bytes(&mut numbers, n * k));
        check_i8([m, n, k], &a, &b, &vec![0; n]);
    }
}

#[test]
fn the_greatest_sums_are_exact() {
    // 65,022 products of 128 * 127: the widest a valid program has. The offset form passes 2^31 on the way.
    let k = 65_022;
    let a = vec![-128i8; 2 * k];
    let b = [vec![127i8; k], vec![-127i8; k]].concat();
    check_i8([2, 2, k], &a, &b, &[-8_000_000, 8_000_000]);
}

#[test]
fn negative_rows_are_refused_where_none_may_be() {
    if let Some(cpu) = Cpu::with_level(SimdLevel::Avx2, 1) {
        let weights = PackedMatrix::from_weights(cpu.level(), Width::U7, [1, 1], &[1], None);
        let run = |value: i8| {
            let rows = Matrix {
                values: Elements::I8(&[value]),
                rows: 1,
                stride: 1,
            };
            let mut out = [0];
            let sink = Sink::Sums {
                out: &mut out,
                stride: 1,
            };
            gemm_int(&cpu, &mut Scratch::new(), &rows, &weights, sink);
            out[0]
        };
        assert_eq!(run(127), 127);
        let refused = std::panic::AssertUnwindSafe(|| run(-1));
        assert!(std::panic::catch_unwind(refused).is_err());
    }
}

#[test]
fn strided_rows_and_outputs_leave_the_rest_alone() {
    let mut numbers = Numbers::new(3);
    let (m, n, k) = (9, 20, 10);
    let (a, b) = (bytes(&mut numbers, m * 30), bytes(&mut numbers, n * k));
    let packed_a: Vec<i8> = (0..m)
        .flat_map(|i| a[i * 30..i * 30 + k].to_vec())
        .collect();
    let expected = narrow(&expected(&packed_a, &b, &vec![0; n], [m, n, k]));
    for cpu in cpus() {
        let weights = PackedMatrix::from_weights(cpu.level(), Width::I8, [n, k], &b, None);
        let mut out = vec![77; m * 25];
        let rows = Matrix {
            values: Elements::I8(&a),
            rows: m,
            stride: 30,
        };
        let sink = Sink::Sums {
            out: &mut out,
            stride: 25,
        };
        gemm_int(&cpu, &mut Scratch::new(), &rows, &weights, sink);
        for (row, expected) in out.chunks_exact(25).zip(expected.chunks_exact(n)) {
            assert_eq!(&row[..n], expected);
            assert!(row[n..].iter().all(|&v| v == 77));
        }
    }
}

#[test]
fn fused_activations_are_those_of_the_sums() {
    let mut numbers = Numbers::new(4);
    for [m, n, k] in [[1, 1, 1], [7, 33, 40], [50, 64, 128], [30, 100, 9]] {
        let (a, b) = (bytes(&mut numbers, m * k), bytes(&mut numbers, n * k));
        let bias: Vec<i32> = (0..n)
            .map(|_| i32::from(numbers.activation()) * 50)
            .collect();
        let sums = expected(&a, &b, &bias, [m, n, k]);
        for table in [false, true] {
            let how = Requantise {
                pairs: vec![
                    Rescale::new(20_000, 24).unwrap(),
                    Rescale::new(31_000, 25).unwrap(),
                ],
                channel_pairs: (0..n).map(|_| u8::from(numbers.activation() > 0)).collect(),
                zero: -3,
                range: [i32::MIN, i32::MAX],
                clamp: [0, 127],
                table: table.then(|| (0..128).map(|_| i16::from(numbers.activation())).collect()),
                output: ElementType::I8,
            };
            let prepared = Requantiser::new(&how, n);
            let expected: Vec<i8> = (0..m * n)
                .map(|i| {
                    let y = how.output(how.pairs[usize::from(how.pair_of(i % n))], sums[i]);
                    i8::try_from(y).unwrap()
                })
                .collect();
            for cpu in cpus() {
                let weights =
                    PackedMatrix::from_weights(cpu.level(), Width::I8, [n, k], &b, Some(&bias));
                let mut out = vec![0; m * n];
                let sink = Sink::I8 {
                    out: &mut out,
                    stride: n,
                    how: &prepared,
                };
                let rows = Matrix {
                    values: Elements::I8(&a),
                    rows: m,
                    stride: k,
                };
                gemm_int(&cpu, &mut Scratch::new(), &rows, &weights, sink);
                assert_eq!(out, expected, "{m} {n} {k} {cpu:?}");
            }
        }
    }
}

#[test]
fn sixteen_bit_rows_are_exact_in_64_bits_and_in_32_where_they_fit() {
    let mut numbers = Numbers::new(5);
    for [m, n, k] in [
        [1, 1, 1],
        [5, 17, 3],
        [13, 40, 70],
        [7, 70, 600],
        [30, 16, 1_030],
    ] {
        for reach in [300i64, 32_767] {
            let a: Vec<i16> = (0..m * k)
                .map(|_| i16::try_from(numbers.between(-reach - 1, reach)).unwrap())
                .collect();
            let b = bytes(&mut numbers, n * k);
            let bias: Vec<i32> = (0..n).map(|_| i32::from(numbers.activation())).collect();
            let expected = expected(&a, &b, &bias, [m, n, k]);
            for cpu in cpus() {
                let weights =
                    PackedMatrix::from_weights(cpu.level(), Width::I16, [n, k], &b, Some(&bias));
                let rows = Matrix {
                    values: Elements::I16(&a),
                    rows: m,
                    stride: k,
                };
                let mut scratch = Scratch::new();
                let mut wide = vec![0; m * n];
                gemm_int_wide(&cpu, &mut scratch, &rows, &weights, &mut wide);
                assert_eq!(wide, expected, "{m} {n} {k} {cpu:?}");
                if reach == 300 {
                    let mut out = vec![0; m * n];
                    let sink = Sink::Sums {
                        out: &mut out,
                        stride: n,
                    };
                    gemm_int(&cpu, &mut scratch, &rows, &weights, sink);
                    assert_eq!(out, narrow(&expected), "{m} {n} {k} {cpu:?}");
                }
            }
        }
    }
}

#[test]
fn the_greatest_16_bit_sums_are_exact() {
    let (k, n) = (5_000, 18);
    let a = vec![-32_768i16; k];
    let b = vec![-128i8; n * k];
    let expected = vec![5_000i64 << 22; n];
    for cpu in cpus() {
        let weights = PackedMatrix::from_weights(cpu.level(), Width::I16, [n, k], &b, None);
        let rows = Matrix {
            values: Elements::I16(&a),
            rows: 1,
            stride: k,
        };
        let mut out = vec![0; n];
        gemm_int_wide(&cpu, &mut Scratch::new(), &rows, &weights, &mut out);
        assert_eq!(out, expected);
    }
}

#[test]
fn packing_again_replaces_the_matrix() {
    let mut numbers = Numbers::new(6);
    let (m, n, k) = (4, 19, 7);
    let a = bytes(&mut numbers, m * k);
    for cpu in cpus() {
        let mut packed = PackedMatrix::new(cpu.level(), Width::I8, n, k);
        let mut scratch = Scratch::new();
        for _ in 0..3 {
            let b = bytes(&mut numbers, n * k);
            packed.pack(Elements::I8(&b), Order::Columns, k);
            let mut out = vec![0; m * n];
            let rows = Matrix {
                values: Elements::I8(&a),
                rows: m,
                stride: k,
            };
            let sink = Sink::Sums {
                out: &mut out,
                stride: n,
            };
            gemm_int(&cpu, &mut scratch, &rows, &packed, sink);
            assert_eq!(out, narrow(&expected(&a, &b, &vec![0; n], [m, n, k])));
        }
    }
}

#[test]
fn sixteen_bits_on_both_sides_are_exact() {
    let mut numbers = Numbers::new(7);
    for [m, n, k] in [[1, 1, 1], [9, 33, 50], [20, 70, 200]] {
        let mut words = |count: usize, reach: i64| -> Vec<i16> {
            (0..count)
                .map(|_| i16::try_from(numbers.between(-reach, reach)).unwrap())
                .collect()
        };
        // Probabilities on the left: the sums fit 32 bits.
        let (a, b) = (words(m * k, 200), words(n * k, 32_767));
        let mut expected = Vec::new();
        for i in 0..m {
            for j in 0..n {
                let products = (0..k).map(|p| i32::from(a[i * k + p]) * i32::from(b[j * k + p]));
                expected.push(products.sum::<i32>());
            }
        }
        let transposed: Vec<i16> = (0..k * n).map(|i| b[i % n * k + i / n]).collect();
        for cpu in cpus() {
            let rows = Matrix {
                values: Elements::I16(&a),
                rows: m,
                stride: k,
            };
            for (values, order, stride) in [(&b, Order::Columns, k), (&transposed, Order::Rows, n)]
            {
                let mut packed = PackedMatrix::new(cpu.level(), Width::I16, n, k);
                packed.pack(Elements::I16(values), order, stride);
                let mut out = vec![0; m * n];
                let sink = Sink::Sums {
                    out: &mut out,
                    stride: n,
                };
                gemm_int(&cpu, &mut Scratch::new(), &rows, &packed, sink);
                assert_eq!(out, expected, "{m} {n} {k} {cpu:?} {order:?}");
            }
        }
    }
}

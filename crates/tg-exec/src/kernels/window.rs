//! Maxima and sums over windows of images stored row, column, channel.

use super::cpu::Cpu;
use super::geometry::Sliding;
use super::memory::{Plain, Shared};

/// The greatest value of each window, channel by channel; padding is skipped. A window wholly in padding gives the
/// least value of the type.
///
/// # Panics
/// If the sizes do not fit together or those of image and output, or the window has a spread.
pub fn max_pool<S: Plain + Ord + Least + Sync>(
    cpu: &Cpu,
    sliding: &Sliding,
    channels: usize,
    image: &[S],
    out: &mut [S],
) {
    fold(
        cpu,
        sliding,
        channels,
        image,
        out,
        S::LEAST,
        |best: &mut S, value| {
            *best = (*best).max(value);
        },
    );
}

/// The sum of each window, channel by channel, modulo 2^32; padding counts as zeros.
///
/// # Panics
/// As [`max_pool`].
pub fn window_sum<S: Plain + Into<i32> + Sync>(
    cpu: &Cpu,
    sliding: &Sliding,
    channels: usize,
    image: &[S],
    out: &mut [i32],
) {
    fold(
        cpu,
        sliding,
        channels,
        image,
        out,
        0,
        |sum: &mut i32, value: S| {
            *sum = sum.wrapping_add(value.into());
        },
    );
}

/// Numbers with a least value.
pub trait Least {
    /// The least value.
    const LEAST: Self;
}

impl Least for i8 {
    const LEAST: Self = Self::MIN;
}

impl Least for i16 {
    const LEAST: Self = Self::MIN;
}

fn fold<S: Plain + Sync, T: Plain + Sync>(
    cpu: &Cpu,
    sliding: &Sliding,
    channels: usize,
    image: &[S],
    out: &mut [T],
    start: T,
    step: impl Fn(&mut T, S) + Copy + Sync,
) {
    assert_eq!(sliding.spread, [1, 1], "a window without spread");
    let [height, width] = sliding.output().expect("the kernel fits");
    assert_eq!(
        image.len(),
        sliding.image[0] * sliding.image[1] * channels,
        "the image's size"
    );
    assert_eq!(out.len(), height * width * channels, "the output's size");
    let out = Shared::new(out);
    cpu.pool().run(height, &|_, row| {
        // SAFETY: each row is written by the one task that holds it.
        let out = unsafe { out.part(row * width * channels, width * channels) };
        out.fill(start);
        cpu.vectorised(|| fold_row(sliding, channels, image, row, out, step));
    });
}

/// Folds one row of output pixels.
#[inline(always)]
fn fold_row<S: Copy, T>(
    sliding: &Sliding,
    channels: usize,
    image: &[S],
    row: usize,
    out: &mut [T],
    step: impl Fn(&mut T, S),
) {
    let (rows, first_row) = sliding.span(0, row);
    for (column, out) in out.chunks_exact_mut(channels.max(1)).enumerate() {
        let (columns, first_column) = sliding.span(1, column);
        for y in 0..rows.len() {
            let line = (first_row + y * sliding.dilation[0]) * sliding.image[1] + first_column;
            for x in 0..columns.len() {
                let pixel = &image[(line + x * sliding.dilation[1]) * channels..][..channels];
                for (slot, &value) in out.iter_mut().zip(pixel) {
                    step(slot, value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::kernels::SimdLevel;
    use crate::sample::{Numbers, random_conv};

    #[test]
    fn pools_agree_with_their_definition_at_every_level() {
        let mut numbers = Numbers::new(1);
        for case in 0..300 {
            let sliding = random_conv(&mut numbers).sliding;
            let channels = usize::try_from(numbers.between(1, 70)).unwrap();
            let Some([height, width]) = sliding.output() else {
                continue;
            };
            let pixels = sliding.image[0] * sliding.image[1];
            let image: Vec<i8> = (0..pixels * channels)
                .map(|_| numbers.activation())
                .collect();
            let mut greatest = Vec::new();
            let mut sums = Vec::new();
            for out in 0..height * width * channels {
                let (row, column) = (out / channels / width, out / channels % width);
                let mut values = Vec::new();
                for y in 0..sliding.kernel[0] {
                    for x in 0..sliding.kernel[1] {
                        let y = (row * sliding.stride[0] + y * sliding.dilation[0])
                            .checked_sub(sliding.pads[0]);
                        let x = (column * sliding.stride[1] + x * sliding.dilation[1])
                            .checked_sub(sliding.pads[1]);
                        if let Some((y, x)) = y.zip(x)
                            && y < sliding.image[0]
                            && x < sliding.image[1]
                        {
                            values.push(
                                image[(y * sliding.image[1] + x) * channels + out % channels],
                            );
                        }
                    }
                }
                greatest.push(values.iter().copied().max().unwrap_or(-128));
                sums.push(values.iter().map(|&v| i32::from(v)).sum::<i32>());
            }
            for level in SimdLevel::available() {
                let cpu = Cpu::with_level(level, 1 + case % 2).unwrap();
                let mut out = vec![0; greatest.len()];
                max_pool(&cpu, &sliding, channels, &image, &mut out);
                assert_eq!(out, greatest, "{sliding:?} {level}");
                let mut out = vec![0; sums.len()];
                window_sum(&cpu, &sliding, channels, &image, &mut out);
                assert_eq!(out, sums, "{sliding:?} {level}");
                // The same in 16 bits: every value times 100.
                let wide: Vec<i16> = image.iter().map(|&value| i16::from(value) * 100).collect();
                window_sum(&cpu, &sliding, channels, &wide, &mut out);
                assert!(out.iter().zip(&sums).all(|(wide, sum)| *wide == sum * 100));
                let mut out = vec![0i16; greatest.len()];
                max_pool(&cpu, &sliding, channels, &wide, &mut out);
                let expected = greatest.iter().map(|&value| i16::from(value) * 100);
                let covered = sliding.pads == [0; 4];
                assert!(!covered || out.iter().copied().eq(expected));
            }
        }
    }
}

//! Integer convolutions of images stored row, column, channel; weights `[output][kernel row][kernel column][input]`.
//!
//! The image is copied once, with its padding, into the form the instructions read. A window is then a few runs of
//! consecutive bytes at the same distances for every output pixel, so the product reads the image in place and no
//! matrix of windows is ever made. A run whose length is not a multiple of a group reads a little further, against
//! weights of zero. A convolution of each channel by itself has a loop of its own.

use super::SimdLevel;
use super::cpu::Cpu;
use super::gemm_int::{
    COPIED, Elements, PackedMatrix, Product, Sink, Starts, Target, check_naturals,
};
use super::geometry::Conv2d;
use super::memory::{Buffer, LINE_BYTES, Plain, Scratch, Shared};
use super::requantise::Block;
use super::tile_int::{Lanes, Width};

/// Channels of one step of a depthwise convolution.
const CHANNELS: usize = 32;
/// Pixels of one step of a depthwise convolution.
const PIXELS: usize = 4;

/// A convolution with its weights, made ready for many images.
#[derive(Debug, Clone)]
pub struct ConvInt {
    conv: Conv2d,
    output: [usize; 2],
    level: SimdLevel,
    width: Width,
    /// What padding holds.
    zero: i16,
    plan: Plan,
}

#[derive(Debug, Clone)]
enum Plan {
    Product {
        lanes: Lanes,
        /// One matrix for each group.
        groups: Vec<PackedMatrix>,
        /// Where the window of each output pixel starts, in bytes.
        starts: Vec<u32>,
        /// Where the runs of a window start, in bytes.
        segments: Vec<usize>,
        /// Groups of a run.
        run: usize,
    },
    Depthwise {
        /// `[step of channels][kernel position][channel]`.
        weights: Vec<[i16; CHANNELS]>,
        bias: Vec<i32>,
        /// Where the kernel positions lie, in elements from a window's first.
        positions: Vec<usize>,
    },
}

impl ConvInt {
    /// Packs weights and biases (none: zeros) for images of a width whose padding holds `zero`, or nothing if the
    /// sizes do not fit together or the image is beyond 4 GiB.
    ///
    /// # Panics
    /// If there are not as many weights or biases as the sizes say, or the padding has not the width.
    #[must_use]
    pub fn new(
        level: SimdLevel,
        width: Width,
        zero: i16,
        conv: &Conv2d,
        weights: &[i8],
        bias: Option<&[i32]>,
    ) -> Option<Self> {
        let output = conv.output()?;
        assert_eq!(weights.len(), conv.weights(), "weights of the convolution");
        assert!(
            width != Width::U7 || (0..=127).contains(&zero),
            "padding of 7 bits"
        );
        assert!(
            bias.is_none_or(|bias| bias.len() == conv.outputs),
            "one bias for each output"
        );
        let plan = if conv.is_depthwise() {
            Plan::depthwise(conv, weights, bias)
        } else {
            let lanes = Lanes::of(level, width);
            Plan::product((level, width, lanes), conv, output, weights, bias)?
        };
        Some(Self {
            conv: *conv,
            output,
            level,
            width,
            zero,
            plan,
        })
    }

    /// Height and width of the output.
    #[must_use]
    pub const fn output(&self) -> [usize; 2] {
        self.output
    }

    /// The sizes.
    #[must_use]
    pub const fn sizes(&self) -> &Conv2d {
        &self.conv
    }

    /// Convolves an image. The sink's rows are output pixels.
    ///
    /// # Panics
    /// If the weights were packed for another level or width, or the image or the output has another size.
    pub fn run(&self, cpu: &Cpu, scratch: &mut Scratch, image: Elements<'_>, sink: Sink<'_>) {
        assert_eq!(self.level, cpu.level(), "packed for this level");
        let is_wide = self.width == Width::I16;
        assert_eq!(
            is_wide,
            image.width() == Width::I16,
            "packed for this width"
        );
        let [height, width] = self.conv.sliding.image;
        assert_eq!(
            image.len(),
            height * width * self.conv.inputs,
            "the image's size"
        );
        let target = Target::from(sink);
        match &self.plan {
            Plan::Product {
                lanes,
                groups,
                starts,
                segments,
                run,
            } => {
                let bytes = self.copy(cpu, &mut scratch.shared, image, *lanes);
                let image = scratch.shared.numbers::<u8>(bytes);
                let step = self.conv.group_inputs() * lanes.activation_bytes();
                let [down, right] = self.conv.sliding.stride;
                let mut column = 0;
                for (group, weights) in groups.iter().enumerate() {
                    let product = Product {
                        lanes: *lanes,
                        a: &image[group * step..],
                        starts: Starts::Table(starts),
                        rows: starts.len(),
                        row_bytes: self.conv.inputs * lanes.activation_bytes() * down * right,
                        segments,
                        groups: *run,
                        panels: weights.panels(),
                        n: weights.n(),
                        base: weights.base(),
                    };
                    product.run(cpu, &Target { column, ..target });
                    column += weights.n();
                }
            }
            Plan::Depthwise {
                weights,
                bias,
                positions,
            } => {
                let bytes = self.copy(cpu, &mut scratch.shared, image, Lanes::Singles);
                let walk = Depthwise {
                    conv: &self.conv,
                    output: self.output,
                    image: scratch.shared.numbers::<i16>(bytes / 2),
                    weights,
                    bias,
                    positions,
                };
                walk.run(cpu, &target);
            }
        }
    }

    /// Copies the image with its padding in the form of some lanes; returns the bytes.
    fn copy(&self, cpu: &Cpu, buffer: &mut Buffer, image: Elements<'_>, lanes: Lanes) -> usize {
        let zero = self.zero;
        match (lanes, image) {
            (Lanes::Bytes, Elements::I8(image)) => {
                let zero = (zero as i8).cast_unsigned() ^ 0x80;
                self.spread(cpu, buffer, image, zero, |value| {
                    value.cast_unsigned() ^ 0x80
                })
            }
            (Lanes::Naturals, Elements::I8(image)) => {
                check_naturals(cpu, image);
                let zero = u8::try_from(zero).expect("padding of 7 bits");
                self.spread(cpu, buffer, image, zero, i8::cast_unsigned)
            }
            (Lanes::Bytes | Lanes::Naturals, Elements::I16(_)) => panic!("packed for 8 bits"),
            (_, Elements::I8(image)) => self.spread(cpu, buffer, image, zero, i16::from),
            (_, Elements::I16(image)) => self.spread(cpu, buffer, image, zero, |value| value),
        }
    }

    /// Copies the image with its padding, and room to read a vector beyond; returns the bytes.
    fn spread<S: Plain + Sync, T: Plain + Sync>(
        &self,
        cpu: &Cpu,
        buffer: &mut Buffer,
        image: &[S],
        zero: T,
        convert: impl Fn(S) -> T + Sync,
    ) -> usize {
        let sliding = &self.conv.sliding;
        let [rows, columns] = sliding.padded();
        let [height, width] = sliding.image;
        let [down, right] = sliding.spread;
        let [top, left, ..] = sliding.pads;
        let channels = self.conv.inputs;
        let row_length = columns * channels;
        let count = rows * row_length + LINE_BYTES / size_of::<T>();
        let target = buffer.numbers_mut::<T>(count);
        target[rows * row_length..].fill(zero);
        let target = Shared::new(target);
        let step = (COPIED / row_length.max(1)) + 1;
        cpu.pool().run(rows.div_ceil(step), &|_, task| {
            for row in task * step..rows.min((task + 1) * step) {
                // SAFETY: each row is written by the one task that holds it.
                let target = unsafe { target.part(row * row_length, row_length) };
                let source = row
                    .checked_sub(top)
                    .filter(|row| row.is_multiple_of(down) && row / down < height);
                let Some(source) = source else {
                    target.fill(zero);
                    continue;
                };
                let source = &image[source / down * width * channels..][..width * channels];
                if right > 1 {
                    target.fill(zero);
                    let pixels = target[left * channels..].chunks_mut(channels * right);
                    for (to, from) in pixels.zip(source.chunks_exact(channels.max(1))) {
                        for (slot, &value) in to.iter_mut().zip(from) {
                            *slot = convert(value);
                        }
                    }
                    continue;
                }
                let (before, rest) = target.split_at_mut(left * channels);
                let (inside, after) = rest.split_at_mut(source.len());
                before.fill(zero);
                after.fill(zero);
                for (slot, &value) in inside.iter_mut().zip(source) {
                    *slot = convert(value);
                }
            }
        });
        count * size_of::<T>()
    }
}

impl Plan {
    fn depthwise(conv: &Conv2d, weights: &[i8], bias: Option<&[i32]>) -> Self {
        let (channels, count) = (conv.inputs, conv.sliding.positions());
        let mut packed = vec![[0i16; CHANNELS]; channels.div_ceil(CHANNELS) * count];
        for channel in 0..channels {
            for position in 0..count {
                let step = &mut packed[channel / CHANNELS * count + position];
                step[channel % CHANNELS] = i16::from(weights[channel * count + position]);
            }
        }
        let sliding = &conv.sliding;
        let width = sliding.padded()[1];
        let positions = (0..count)
            .map(|position| {
                let (row, column) = (position / sliding.kernel[1], position % sliding.kernel[1]);
                (row * sliding.dilation[0] * width + column * sliding.dilation[1]) * channels
            })
            .collect();
        Self::Depthwise {
            weights: packed,
            bias: bias.map_or_else(|| vec![0; channels], <[i32]>::to_vec),
            positions,
        }
    }

    fn product(
        (level, element, lanes): (SimdLevel, Width, Lanes),
        conv: &Conv2d,
        output: [usize; 2],
        weights: &[i8],
        bias: Option<&[i32]>,
    ) -> Option<Self> {
        let sliding = &conv.sliding;
        let inputs = conv.group_inputs();
        let width = sliding.padded()[1];
        let pixel = conv.inputs * lanes.activation_bytes();
        // A whole row of the kernel is one run if nothing lies between its pixels.
        let whole_rows = conv.groups == 1 && sliding.dilation[1] == 1;
        let [kernel_rows, kernel_columns] = sliding.kernel;
        let (per_row, length) = if whole_rows {
            (1, kernel_columns * inputs)
        } else {
            (kernel_columns, inputs)
        };
        let segments = (0..kernel_rows)
            .flat_map(|row| (0..per_row).map(move |column| (row, column)))
            .map(|(row, column)| {
                (row * sliding.dilation[0] * width + column * sliding.dilation[1]) * pixel
            })
            .collect();
        let starts = (0..output[0])
            .flat_map(|row| (0..output[1]).map(move |column| (row, column)))
            .map(|(row, column)| {
                let start = (row * sliding.stride[0] * width + column * sliding.stride[1]) * pixel;
                u32::try_from(start).ok()
            })
            .collect::<Option<Vec<u32>>>()?;
        let run = length.div_ceil(lanes.group());
        let padded = run * lanes.group();
        let count = conv.group_outputs();
        let depth = sliding.positions() * inputs;
        let groups = (0..conv.groups)
            .map(|group| {
                let weights = &weights[group * count * depth..][..count * depth];
                let mut runs = vec![0i8; weights.len() / length.max(1) * padded];
                for (to, from) in runs
                    .chunks_exact_mut(padded)
                    .zip(weights.chunks_exact(length))
                {
                    to[..length].copy_from_slice(from);
                }
                PackedMatrix::from_weights(
                    level,
                    element,
                    [count, kernel_rows * per_row * padded],
                    &runs,
                    bias.map(|bias| &bias[group * count..][..count]),
                )
            })
            .collect();
        Some(Self::Product {
            lanes,
            groups,
            starts,
            segments,
            run,
        })
    }
}

/// A depthwise convolution of one image.
struct Depthwise<'a> {
    conv: &'a Conv2d,
    output: [usize; 2],
    /// With its padding, and room for a step of channels behind it.
    image: &'a [i16],
    weights: &'a [[i16; CHANNELS]],
    bias: &'a [i32],
    positions: &'a [usize],
}

type Sums = [[i32; CHANNELS]; PIXELS];

impl Depthwise<'_> {
    fn run(&self, cpu: &Cpu, target: &Target<'_>) {
        let [height, width] = self.output;
        let channels = self.conv.inputs;
        let sliding = &self.conv.sliding;
        let columns = sliding.padded()[1];
        target.check(height * width, channels);
        let last = self.positions.last().copied().unwrap_or(0);
        let most = (height - 1) * sliding.stride[0] * columns + (width - 1) * sliding.stride[1];
        let end = most * channels + last + channels.next_multiple_of(CHANNELS);
        assert!(
            end <= self.image.len(),
            "every step of channels can be read"
        );
        cpu.pool().run(height, &|_, row| {
            for first in (0..width).step_by(PIXELS) {
                let pixels = PIXELS.min(width - first);
                // Pixels beyond the last are the last once more.
                let starts = std::array::from_fn(|pixel| {
                    let column = first + pixel.min(pixels - 1);
                    (row * sliding.stride[0] * columns + column * sliding.stride[1]) * channels
                });
                for (index, channel) in (0..channels).step_by(CHANNELS).enumerate() {
                    let count = self.positions.len();
                    let weights = &self.weights[index * count..][..count];
                    let mut sums = [[0i32; CHANNELS]; PIXELS];
                    self.sum(cpu, starts, channel, weights, &mut sums);
                    let block = Block {
                        sums: sums.as_flattened(),
                        stride: CHANNELS,
                        rows: pixels,
                        width: CHANNELS.min(channels - channel),
                        base: &self.bias[channel..],
                    };
                    // SAFETY: rows of the output belong to one task each; the room was checked above.
                    unsafe { target.write(cpu, &block, [row * width + first, channel]) };
                }
            }
        });
    }

    /// Sums one step of channels of a few pixels. The last step may read the next pixel's channels, or the room
    /// behind the image, against weights of zero.
    fn sum(
        &self,
        cpu: &Cpu,
        starts: [usize; PIXELS],
        channel: usize,
        weights: &[[i16; CHANNELS]],
        sums: &mut Sums,
    ) {
        #[cfg(target_arch = "x86_64")]
        if cpu.level() == SimdLevel::Avx512Vnni {
            // SAFETY: the level is available; `run` checked the last vector that is read.
            unsafe { self.sum_avx512(starts, channel, weights, sums) };
            return;
        }
        cpu.vectorised(|| {
            for (start, sums) in starts.into_iter().zip(sums) {
                let mut total = [0i32; CHANNELS];
                for (position, weights) in self.positions.iter().zip(weights) {
                    let values = &self.image[start + position + channel..];
                    let Some(values) = values.first_chunk::<CHANNELS>() else {
                        return;
                    };
                    for ((sum, &value), &weight) in total.iter_mut().zip(values).zip(weights) {
                        *sum = sum.wrapping_add(i32::from(value) * i32::from(weight));
                    }
                }
                *sums = total;
            }
        });
    }

    /// Two kernel positions at a time: their numbers interleaved make the pairs of `vpdpwssd`.
    ///
    /// # Safety
    /// The processor has the features; from each start, every position can be read for a step of channels.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn sum_avx512(
        &self,
        starts: [usize; PIXELS],
        channel: usize,
        weights: &[[i16; CHANNELS]],
        sums: &mut Sums,
    ) {
        use std::arch::x86_64::*;
        let mut totals = [[_mm512_setzero_si512(); 2]; PIXELS];
        // SAFETY: by the caller; weights and sums are whole vectors.
        unsafe {
            let image = self.image.as_ptr().add(channel);
            for (positions, weights) in self.positions.chunks(2).zip(weights.chunks(2)) {
                let first = _mm512_loadu_si512(weights[0].as_ptr().cast());
                let (second, position) = match (weights.get(1), positions.get(1)) {
                    (Some(weights), Some(&position)) => {
                        (_mm512_loadu_si512(weights.as_ptr().cast()), position)
                    }
                    _ => (_mm512_setzero_si512(), positions[0]),
                };
                let low = _mm512_unpacklo_epi16(first, second);
                let high = _mm512_unpackhi_epi16(first, second);
                for (start, total) in starts.iter().zip(&mut totals) {
                    let a = _mm512_loadu_si512(image.add(start + positions[0]).cast());
                    let b = _mm512_loadu_si512(image.add(start + position).cast());
                    total[0] = _mm512_dpwssd_epi32(total[0], _mm512_unpacklo_epi16(a, b), low);
                    total[1] = _mm512_dpwssd_epi32(total[1], _mm512_unpackhi_epi16(a, b), high);
                }
            }
            // Lane L of the totals holds channels 8 L to 8 L + 3, and 8 L + 4 to 8 L + 7.
            let order = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
            let rest = _mm512_add_epi32(order, _mm512_set1_epi32(8));
            for (sums, [low, high]) in sums.iter_mut().zip(totals) {
                let target = sums.as_mut_ptr();
                let front = _mm512_permutex2var_epi32(low, order, high);
                let back = _mm512_permutex2var_epi32(low, rest, high);
                _mm512_storeu_si512(target.cast(), front);
                _mm512_storeu_si512(target.add(16).cast(), back);
            }
        }
    }
}

const _: () = assert!(
    2 * CHANNELS <= LINE_BYTES,
    "the room behind an image holds a step of channels"
);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::kernels::Requantiser;
    use crate::kernels::geometry::Sliding;
    use crate::sample::{Numbers, random_conv};
    use tg_ir::{Requantise, Rescale};

    fn bytes(numbers: &mut Numbers, count: usize) -> Vec<i8> {
        (0..count).map(|_| numbers.activation()).collect()
    }

    /// The definition.
    fn expected<S: Copy + Into<i32>>(
        conv: &Conv2d,
        zero: i16,
        image: &[S],
        weights: &[i8],
        bias: &[i32],
    ) -> Vec<i32> {
        let Sliding {
            image: [height, width],
            kernel,
            stride,
            pads,
            dilation,
            spread,
        } = conv.sliding;
        let [rows, columns] = conv.output().unwrap();
        let (inputs, outputs) = (conv.group_inputs(), conv.group_outputs());
        let mut sums = Vec::new();
        for row in 0..rows {
            for column in 0..columns {
                for output in 0..conv.outputs {
                    let mut sum = bias[output];
                    for y in 0..kernel[0] {
                        for x in 0..kernel[1] {
                            let source = (row * stride[0] + y * dilation[0])
                                .checked_sub(pads[0])
                                .zip((column * stride[1] + x * dilation[1]).checked_sub(pads[1]))
                                .filter(|(y, x)| {
                                    y.is_multiple_of(spread[0]) && x.is_multiple_of(spread[1])
                                })
                                .map(|(y, x)| (y / spread[0], x / spread[1]))
                                .filter(|&(y, x)| y < height && x < width);
                            let window = (output * kernel[0] + y) * kernel[1] + x;
                            for input in 0..inputs {
                                let value = source.map_or(i32::from(zero), |(y, x)| {
                                    let pixel = (y * width + x) * conv.inputs;
                                    image[pixel + output / outputs * inputs + input].into()
                                });
                                sum += value * i32::from(weights[window * inputs + input]);
                            }
                        }
                    }
                    sums.push(sum);
                }
            }
        }
        sums
    }

    fn check(numbers: &mut Numbers, conv: &Conv2d) {
        let [height, width] = conv.sliding.image;
        let image = bytes(numbers, height * width * conv.inputs);
        let wide: Vec<i16> = image.iter().map(|&value| i16::from(value) * 211).collect();
        let weights = bytes(numbers, conv.weights());
        let bias: Vec<i32> = (0..conv.outputs)
            .map(|_| i32::from(numbers.activation()) * 99)
            .collect();
        let zero = i16::from(numbers.activation());
        check_elements(conv, zero, Elements::I8(&image), &image, &weights, &bias);
        let naturals: Vec<i8> = image.iter().map(|&value| value & 127).collect();
        let element = (Width::U7, Elements::I8(&naturals));
        check_width(conv, zero & 127, element, &naturals, &weights, &bias);
        check_elements(
            conv,
            77 * zero,
            Elements::I16(&wide),
            &wide,
            &weights,
            &bias,
        );
    }

    fn check_elements<S: Copy + Into<i32>>(
        conv: &Conv2d,
        zero: i16,
        image: Elements<'_>,
        values: &[S],
        weights: &[i8],
        bias: &[i32],
    ) {
        check_width(conv, zero, (image.width(), image), values, weights, bias);
    }

    fn check_width<S: Copy + Into<i32>>(
        conv: &Conv2d,
        zero: i16,
        (width, image): (Width, Elements<'_>),
        values: &[S],
        weights: &[i8],
        bias: &[i32],
    ) {
        let expected = expected(conv, zero, values, weights, bias);
        let pairs = vec![
            Rescale::new(20_000, 26).unwrap(),
            Rescale::new(30_000, 28).unwrap(),
        ];
        let channel_pairs = (0..conv.outputs).map(|c| u8::from(c % 3 == 1)).collect();
        let how = Requantise::to_i8(pairs, channel_pairs, [i32::MIN, i32::MAX], [-128, 127]);
        let activations: Vec<i16> = expected
            .iter()
            .enumerate()
            .map(|(i, &sum)| {
                let pair = how.pair_of(i % conv.outputs);
                how.output(how.pairs[usize::from(pair)], i64::from(sum))
            })
            .collect();
        let how = Requantiser::new(&how, conv.outputs);
        for level in SimdLevel::available() {
            for threads in [1, 3] {
                let cpu = Cpu::with_level(level, threads).unwrap();
                let packed = ConvInt::new(level, width, zero, conv, weights, Some(bias)).unwrap();
                let mut scratch = Scratch::new();
                let mut sums = vec![0; expected.len()];
                let sink = Sink::Sums {
                    out: &mut sums,
                    stride: conv.outputs,
                };
                packed.run(&cpu, &mut scratch, image, sink);
                assert_eq!(sums, expected, "{conv:?} {cpu:?}");
                let mut out = vec![0i8; expected.len()];
                let sink = Sink::I8 {
                    out: &mut out,
                    stride: conv.outputs,
                    how: &how,
                };
                packed.run(&cpu, &mut scratch, image, sink);
                assert!(
                    out.iter()
                        .map(|&y| i16::from(y))
                        .eq(activations.iter().copied())
                );
                let mut out = vec![0i16; expected.len()];
                let sink = Sink::I16 {
                    out: &mut out,
                    stride: conv.outputs,
                    how: &how,
                };
                packed.run(&cpu, &mut scratch, image, sink);
                assert_eq!(out, activations, "{conv:?} {cpu:?}");
            }
        }
    }

    #[test]
    fn random_convolutions_are_exact_at_every_level() {
        let mut numbers = Numbers::new(1);
        let mut seen = 0;
        for case in 0..400 {
            let mut conv = random_conv(&mut numbers);
            conv.sliding.spread = [1 + case % 2, 1 + case / 2 % 2];
            if conv.output().is_none() {
                let weights = vec![0; conv.weights()];
                assert!(
                    ConvInt::new(SimdLevel::Scalar, Width::I8, 0, &conv, &weights, None).is_none()
                );
                continue;
            }
            check(&mut numbers, &conv);
            seen += 1;
        }
        assert!(seen > 200, "{seen}");
    }

    #[test]
    fn depthwise_convolutions_are_exact_at_every_level() {
        let mut numbers = Numbers::new(2);
        for channels in [2, 5, 31, 32, 33, 70] {
            for width in [1, 11, 12, 13, 26] {
                let mut conv = random_conv(&mut numbers);
                conv.sliding.image[1] = width;
                (conv.inputs, conv.outputs, conv.groups) = (channels, channels, channels);
                if conv.output().is_some() {
                    assert!(conv.is_depthwise());
                    check(&mut numbers, &conv);
                }
            }
        }
    }

    #[test]
    fn layers_of_usual_networks_are_exact() {
        let mut numbers = Numbers::new(3);
        // Image side, input channels, output channels, kernel, stride, padding, groups.
        for [side, inputs, outputs, kernel, stride, pad, groups] in [
            [32, 3, 64, 7, 2, 3, 1],
            [14, 64, 64, 3, 1, 1, 1],
            [9, 130, 48, 1, 1, 0, 1],
            [14, 64, 128, 1, 2, 0, 1],
            [7, 32, 64, 3, 1, 1, 4],
            [20, 1, 6, 5, 1, 2, 1],
        ] {
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
            check(&mut numbers, &conv);
        }
    }
}

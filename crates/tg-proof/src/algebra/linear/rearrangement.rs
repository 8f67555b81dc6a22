//! Maps that give each output element one input element: what a plan finds out about them, in time of pixels plus
//! channels. A program is its author's; looking at every element of a large view would cost a validator seconds.

use crate::algebra::field::{E, eq_prefix};
use crate::algebra::layout::TensorLayout;
use p3_field::PrimeCharacteristicRing;
use tg_ir::View;

/// A map whose source is a sum of a part of the output's pixel and a part of its channel.
///
/// Output element (p, c) shows input element `pixels[p] + channels[c]`, in storage order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeparableMap {
    /// Per output pixel the source of its channel of least source.
    pub(crate) pixels: Vec<usize>,
    /// Per output channel how far its source lies above that.
    pub(crate) channels: Vec<usize>,
}

impl SeparableMap {
    /// The parts of a map that is known to be separable.
    pub(crate) fn new(to: TensorLayout, source: &dyn Fn(usize) -> usize) -> Self {
        let first: Vec<usize> = (0..to.channels).map(source).collect();
        let least = first.iter().copied().min().unwrap_or(0);
        let own = first.first().copied().unwrap_or(0);
        let pixels = (0..to.pixels).map(|pixel| source(pixel * to.channels) + least - own);
        Self {
            pixels: pixels.collect(),
            channels: first.into_iter().map(|source| source - least).collect(),
        }
    }

    /// The pixel and channel of the input that each output pixel and each output channel contribute, if these never carry.
    fn places(&self, from: TensorLayout) -> Option<[Vec<[usize; 2]>; 2]> {
        let split = |parts: &[usize]| -> Vec<[usize; 2]> {
            let split = |&part: &usize| [part / from.channels, part % from.channels];
            parts.iter().map(split).collect()
        };
        let most = |places: &[[usize; 2]]| places.iter().map(|place| place[1]).max().unwrap_or(0);
        let places = [split(&self.pixels), split(&self.channels)];
        (most(&places[0]) + most(&places[1]) < from.channels).then_some(places)
    }
}

/// Whether a view's source is a sum of a part of the pixel and a part of the channel, for `channels` channels.
///
/// It is where the channels are a product of its innermost axes, one of them cut if need be. (Axes that continue each
/// other are one axis; of what is left, an axis that a pixel ends within has another step at another channel.)
pub(crate) fn is_separable(view: &View, channels: usize) -> bool {
    let mut axes: Vec<(u64, i64)> = Vec::new();
    for axis in view.axes.iter().rev().filter(|axis| axis.size > 1) {
        let (size, stride) = (u64::from(axis.size), i64::from(axis.stride));
        match axes.last_mut() {
            Some((inner, step)) if (*inner as i64).checked_mul(*step) == Some(stride) => {
                *inner *= size;
            }
            _ => axes.push((size, stride)),
        }
    }
    let channels = channels as u64;
    let mut inner = 1;
    for (size, _) in axes {
        if inner == channels {
            return true;
        }
        if inner * size > channels {
            return channels.is_multiple_of(inner) && size.is_multiple_of(channels / inner);
        }
        inner *= size;
    }
    inner == channels
}

/// A map that permutes the bits of an element's index: the claim is handed on at a rearranged point.
///
/// `out(x) = in(pi(x))` where bits of pi(x) are bits of x or constants, and the bits of x that pi does not use, as a
/// number, lie below `repeats` (elsewhere out is zero). Hence `out~(r) = eq_prefix(unused r, repeats) in~(pi(r))`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rearrangement {
    /// Per coordinate of (pixel, channel) of the input: a coordinate of the output's (pixel, channel) point, or a bit.
    coordinates: Vec<Coordinate>,
    /// Coordinates of the output that the input does not use.
    unused: Vec<usize>,
    /// How often the input is repeated.
    repeats: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coordinate {
    Output(usize),
    Constant(bool),
}

/// One field of an output's index, its pixel or its channel: what each of its bits moves in the input's index.
struct Field {
    /// Indices of the field that are in use.
    count: usize,
    /// Per bit, least first, the bit of the input's index, or 0.
    bits: Vec<usize>,
}

impl Field {
    /// The bits of the input's index that an index of the field sets.
    fn moved(&self, index: usize) -> usize {
        let bits = self.bits.iter().enumerate();
        bits.filter(|(bit, _)| index >> bit & 1 == 1)
            .fold(0, |image, (_, moved)| image | moved)
    }

    /// The bits of the field that move nothing, most significant first.
    fn unused(&self) -> impl Iterator<Item = usize> {
        let bits = (0..self.bits.len()).rev();
        bits.filter(|&bit| self.bits[bit] == 0)
    }

    /// These bits of an index, as a number.
    fn repeat(&self, index: usize) -> usize {
        self.unused()
            .fold(0, |number, bit| number << 1 | (index >> bit & 1))
    }

    /// How many of these numbers, from 0 on, are indices in use.
    fn repeats(&self) -> usize {
        let unused: Vec<usize> = self.unused().collect();
        let index = |number: usize| {
            let places = unused.iter().rev().enumerate();
            places.fold(0, |index, (place, bit)| {
                index | (number >> place & 1) << bit
            })
        };
        let numbers = 0..1usize << unused.len();
        numbers.take_while(|&n| index(n) < self.count).count()
    }
}

impl Rearrangement {
    /// The rearrangement that a separable map is, if it is one. Layouts are for one input.
    #[must_use]
    pub(crate) fn of(from: TensorLayout, to: TensorLayout, map: &SeparableMap) -> Option<Self> {
        let [pixels, channels] = map.places(from)?;
        let image = |pixel: usize, channel: usize| {
            let ([p, c], [q, d]) = (pixels[pixel], channels[channel]);
            from.index(p + q, 0, c + d)
        };
        let constant = image(0, 0);
        let mut seen = constant;
        let mut field = |count: usize, vars: usize, image: &dyn Fn(usize) -> usize| {
            let mut bits = Vec::with_capacity(vars);
            for bit in 0..vars {
                let moved = image(1 << bit) ^ constant;
                if !moved.is_power_of_two() && moved != 0 || moved & seen != 0 {
                    return None;
                }
                seen |= moved;
                bits.push(moved);
            }
            let field = Field { count, bits };
            // Parts that do not carry and whose bits are apart add up to the union of their bits.
            (0..count)
                .all(|index| image(index) == constant | field.moved(index))
                .then_some(field)
        };
        let column = field(to.channels, to.channel_vars, &|channel| image(0, channel))?;
        let row = field(to.pixels, to.pixel_vars, &|pixel| image(pixel, 0))?;
        let inner = column.unused().count();
        let repeats = match column.repeats() {
            all if all == 1 << inner => row.repeats() << inner,
            some => some,
        };
        let repeat = |pixel, channel| row.repeat(pixel) << inner | column.repeat(channel);
        let greatest = |field: &Field| (0..field.count).map(|index| field.repeat(index)).max();
        let used = greatest(&row).unwrap_or(0) << inner | greatest(&column).unwrap_or(0);
        // What an index of padding names must be padding. All that makes it so grows with pixel and channel, so that the
        // first of each tells.
        let is_padding = |pixel: usize, channel: usize| {
            let named = constant | row.moved(pixel) | column.moved(channel);
            from.element_at(named).is_none() || repeat(pixel, channel) >= repeats
        };
        let padded = (to.pixels..1 << to.pixel_vars).all(|pixel| is_padding(pixel, 0))
            && (to.channels..1 << to.channel_vars).all(|channel| is_padding(0, channel));
        if used >= repeats || !padded {
            return None;
        }
        let bits = [column.bits.as_slice(), &row.bits].concat();
        Some(Self::of_bits(from, constant, &bits, repeats))
    }

    /// From what each bit of the output's index moves, least first.
    fn of_bits(from: TensorLayout, constant: usize, bits: &[usize], repeats: usize) -> Self {
        let last = bits.len();
        let coordinates = (0..from.vars()).rev().map(|bit| {
            let output = bits.iter().position(|&image| image == 1 << bit);
            match output {
                Some(output) => Coordinate::Output(last - 1 - output),
                None => Coordinate::Constant(constant >> bit & 1 == 1),
            }
        });
        let unused = (0..last).rev().filter(|&bit| bits[bit] == 0);
        Self {
            coordinates: coordinates.collect(),
            unused: unused.map(|bit| last - 1 - bit).collect(),
            repeats,
        }
    }

    /// Whether the factor is 1 at every point: nothing is repeated, or a power of two of times.
    #[must_use]
    pub const fn is_unscaled(&self) -> bool {
        self.repeats == 1 << self.unused.len()
    }

    /// The point of (pixel, channel) of the input, and the factor.
    pub(super) fn apply(&self, at: &[E]) -> (Vec<E>, E) {
        let point = self.coordinates.iter().map(|coordinate| match coordinate {
            Coordinate::Output(index) => at[*index],
            Coordinate::Constant(bit) => E::from_bool(*bit),
        });
        let unused: Vec<E> = self.unused.iter().map(|&index| at[index]).collect();
        (point.collect(), eq_prefix(&unused, self.repeats))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tg_ir::Shape;

    /// The rearrangement by looking at every element of the padded output.
    fn by_elements(from: TensorLayout, to: TensorLayout, view: &View) -> Option<Rearrangement> {
        let image = |index: usize| {
            let element = to.element_at(index)?;
            Some(from.index_of_element(view.source(element)))
        };
        let constant = image(0)?;
        let mut seen = constant;
        let mut bits = Vec::new();
        for bit in 0..to.vars() {
            let moved = image(1 << bit)? ^ constant;
            if !moved.is_power_of_two() && moved != 0 || moved & seen != 0 {
                return None;
            }
            seen |= moved;
            bits.push(moved);
        }
        let field = Field {
            count: 0,
            bits: bits.clone(),
        };
        let unused: Vec<usize> = field.unused().collect();
        let repeats = (0..1usize << unused.len()).take_while(|&number| {
            let places = unused.iter().rev().enumerate();
            let index = places.fold(0, |index, (place, bit)| {
                index | (number >> place & 1) << bit
            });
            to.element_at(index).is_some()
        });
        let repeats = repeats.count();
        let holds = (0..to.padded()).all(|index| {
            let predicted = constant | field.moved(index);
            match image(index) {
                Some(image) => image == predicted && field.repeat(index) < repeats,
                None => from.element_at(predicted).is_none() || field.repeat(index) >= repeats,
            }
        });
        holds.then(|| Rearrangement::of_bits(from, constant, &bits, repeats))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]
        /// Looking at pixels and channels alone finds what looking at every element finds, and no more.
        #[test]
        fn separable_views_are_found_and_only_these(
            sizes in prop::collection::vec(1u32..5, 1..5), power in any::<bool>(),
            kinds in prop::collection::vec((0u8..5, 1u32..4), 5), cut in any::<prop::sample::Index>(),
            channels_from in prop::sample::select(vec![1usize, 2, 3, 4, 5, 6, 8, 12]),
        ) {
            let size = |size: u32| if power { 1 << (size - 1) } else { size };
            let mut axes = Vec::new();
            let (mut stride, mut offset) = (1i64, 0i64);
            for (&own, &(kind, first)) in sizes.iter().zip(&kinds) {
                let own = size(own);
                let whole = if kind == 1 { own + first } else { own };
                match kind {
                    0 => axes.push((own, 0)),
                    1 => {
                        offset += stride * i64::from(first);
                        axes.push((own, stride as i32));
                    }
                    2 => {
                        offset += stride * i64::from(own - 1);
                        axes.push((own, -stride as i32));
                    }
                    _ => axes.push((own, stride as i32)),
                }
                stride *= i64::from(whole);
            }
            // Sometimes in another order: a transpose.
            if kinds[4].0 < 3 {
                axes.reverse();
            } else {
                let count = axes.len();
                axes.rotate_left(kinds[4].1 as usize % count);
            }
            let view = View::new(offset as u32, &axes);
            let elements = view.elements().unwrap_or(1) as usize;
            let divisors: Vec<usize> = (1..=elements).filter(|d| elements.is_multiple_of(*d)).collect();
            let channels = divisors[cut.index(divisors.len())];
            let layout = |pixels: usize, channels: usize| {
                TensorLayout::of(Shape::new(1, pixels as u32, channels as u32))
            };
            let to = layout(elements / channels, channels);
            let from = layout((stride as usize).div_ceil(channels_from), channels_from);
            let source = |element: usize| view.source(element);
            let first = |pixel: usize| source(pixel * channels);
            let separable = (0..elements).all(|element| {
                let (pixel, channel) = (element / channels, element % channels);
                source(element) + source(0) == first(pixel) + source(channel)
            });
            prop_assert_eq!(is_separable(&view, channels), separable);
            let expected = by_elements(from, to, &view);
            let found = separable.then(|| Rearrangement::of(from, to, &SeparableMap::new(to, &source)));
            prop_assert_eq!(found.flatten(), expected);
        }
    }
}

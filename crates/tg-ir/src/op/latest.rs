//! Which input pixels an element may depend on, operator by operator; [`crate::causality`] asks for a program.

use crate::requantise::Requantise;
use crate::shape::{Axis, Shape, TensorId, Tensors};
use crate::window::Window;

/// The element is 0 whatever the input is.
pub const ZERO: u32 = u32::MAX;
/// Later than every input pixel: what depends on it is never known.
pub const NEVER: u32 = u32::MAX - 1;

/// What an element depends on: [`ZERO`], 0 for a constant, or the latest input pixel plus one.
pub(crate) type Latest = Vec<u32>;

/// The latest of several; none: a constant.
pub(crate) fn greatest(all: &[u32]) -> u32 {
    all.iter().copied().fold(0, later)
}

/// The later of two.
pub(crate) const fn later(a: u32, b: u32) -> u32 {
    let [a, b] = [if a == ZERO { 0 } else { a }, if b == ZERO { 0 } else { b }];
    if a > b { a } else { b }
}

/// What a sum of two depends on: it is 0 whatever the input is if both are.
const fn sum_of(a: u32, b: u32) -> u32 {
    if a == ZERO && b == ZERO {
        ZERO
    } else {
        later(a, b)
    }
}

/// What the elements of the tensors before a node depend on.
pub(crate) struct Reads<'a> {
    pub(crate) tensors: &'a dyn Tensors,
    pub(crate) latest: &'a [Latest],
}

impl Reads<'_> {
    fn of(&self, tensor: TensorId) -> (&[u32], Shape) {
        (&self.latest[tensor.index()], self.tensors.shape(tensor))
    }

    /// What each element of a tensor depends on.
    pub(crate) fn tensor(&self, tensor: TensorId) -> &[u32] {
        &self.latest[tensor.index()]
    }

    /// Every element depends on all of an input.
    pub(crate) fn all_of(&self, input: TensorId, shape: Shape) -> Latest {
        vec![greatest(self.of(input).0); shape.elements()]
    }

    /// Products of elements: what is zero whatever the input is makes the product so.
    pub(crate) fn product(&self, inputs: [TensorId; 2]) -> Latest {
        let [a, b] = inputs.map(|input| self.of(input).0);
        let product = |(&a, &b): (&u32, &u32)| match (a, b) {
            (ZERO, _) | (_, ZERO) => ZERO,
            (a, b) => later(a, b),
        };
        a.iter().zip(b).map(product).collect()
    }

    /// Slices picked along an axis.
    pub(crate) fn picked(
        &self,
        input: TensorId,
        axis: Axis,
        indices: &[u32],
        shape: Shape,
    ) -> Latest {
        let (latest, of) = self.of(input);
        let source = |mut at: [u32; 3]| {
            at[axis as usize] = indices[at[axis as usize] as usize];
            latest[index(of, at)]
        };
        places(shape).map(source).collect()
    }

    /// A border of a constant around an input.
    pub(crate) fn padded(
        &self,
        input: TensorId,
        before: [u32; 3],
        value: i16,
        shape: Shape,
    ) -> Latest {
        let border = if value == 0 { ZERO } else { 0 };
        let (latest, of) = self.of(input);
        let sizes = [of.height, of.width, of.channels];
        let inside = |at: [u32; 3]| {
            let mut source = [0; 3];
            for axis in 0..3 {
                source[axis] = at[axis].checked_sub(before[axis])?;
                if source[axis] >= sizes[axis] {
                    return None;
                }
            }
            Some(source)
        };
        places(shape)
            .map(|at| inside(at).map_or(border, |at| latest[index(of, at)]))
            .collect()
    }

    /// Parts one after the other along an axis, each in runs: a step for each element, however many parts there are.
    pub(crate) fn concatenated(&self, inputs: &[TensorId], axis: Axis, shape: Shape) -> Latest {
        let all = [Axis::Rows, Axis::Columns, Axis::Channels].map(|axis| shape.axis(axis) as usize);
        let (before, after) = all.split_at(axis as usize + 1);
        let outer: usize = before[..axis as usize].iter().product();
        let inner: usize = after.iter().product();
        let mut latest = Latest::with_capacity(shape.elements());
        for place in 0..outer {
            for input in inputs {
                let (of_input, its) = self.of(*input);
                let run = its.axis(axis) as usize * inner;
                latest.extend_from_slice(&of_input[place * run..][..run]);
            }
        }
        latest
    }

    /// Each pixel's channels all depend on what any of the input's do.
    pub(crate) fn by_row(&self, input: TensorId, shape: Shape) -> Latest {
        let (latest, of) = self.of(input);
        let rows = latest.chunks_exact(of.channels as usize).map(greatest);
        rows.flat_map(|row| std::iter::repeat_n(row, shape.channels as usize))
            .collect()
    }

    pub(crate) fn joined(&self, inputs: &[TensorId]) -> Latest {
        let all: Vec<&[u32]> = inputs.iter().map(|input| self.of(*input).0).collect();
        let at = |element| all.iter().fold(0, |a, tensor| later(a, tensor[element]));
        (0..all[0].len()).map(at).collect()
    }

    pub(crate) fn added(&self, inputs: &[TensorId], bias: i32) -> Latest {
        let mut sums = self.joined(inputs);
        if bias == 0 {
            let all: Vec<&[u32]> = inputs.iter().map(|input| self.of(*input).0).collect();
            for (element, sum) in sums.iter_mut().enumerate() {
                if all.iter().all(|tensor| tensor[element] == ZERO) {
                    *sum = ZERO;
                }
            }
        }
        sums
    }

    pub(crate) fn requantised(&self, input: TensorId, how: &Requantise) -> Latest {
        let (latest, shape) = self.of(input);
        let channels = shape.channels as usize;
        let keeps: Vec<bool> = (0..channels)
            .map(|channel| {
                let rescale = how.pairs[usize::from(how.pair_of(channel))];
                how.output(rescale, 0) == 0
            })
            .collect();
        let at = |(element, &latest): (usize, &u32)| match latest {
            ZERO if !keeps[element % channels] => 0,
            latest => latest,
        };
        latest.iter().enumerate().map(at).collect()
    }

    /// Windows over the pixels, each output channel reading the input channels of its group.
    pub(crate) fn convolved(
        &self,
        input: TensorId,
        window: &Window,
        groups: u32,
        shape: Shape,
    ) -> Latest {
        let (latest, of) = self.of(input);
        let (groups, channels) = (groups as usize, of.channels as usize);
        let each = channels / groups;
        // Per pixel and group.
        let joined: Latest = latest.chunks_exact(each).map(greatest).collect();
        let share = shape.channels as usize / groups;
        let mut found = Latest::with_capacity(shape.elements());
        let mut groups_latest = vec![0; groups];
        for row in 0..shape.height {
            for column in 0..shape.width {
                groups_latest.fill(0);
                for position in 0..window.positions() {
                    let Some(source) = window.source(of, row, column, position) else {
                        continue;
                    };
                    let read = &joined[source * groups..][..groups];
                    let pairs = groups_latest.iter_mut().zip(read);
                    pairs.for_each(|(latest, &read)| *latest = later(*latest, read));
                }
                found.extend(
                    groups_latest
                        .iter()
                        .flat_map(|&latest| std::iter::repeat_n(latest, share)),
                );
            }
        }
        found
    }

    /// Two bounds, of which the lesser holds: an output reads its own line of the right matrix alone; and a term whose left
    /// factor is zero depends on nothing.
    pub(crate) fn multiplied(
        &self,
        [left, right]: [TensorId; 2],
        transposed: bool,
        shape: Shape,
    ) -> Latest {
        let ((left, of_left), (right, of_right)) = (self.of(left), self.of(right));
        let repeated = of_left.height as usize / of_right.height as usize;
        let inner = of_left.channels as usize;
        let [rows, columns] = [of_right.width, of_right.channels].map(|side| side as usize);
        let rights: Vec<[Latest; 2]> = right
            .chunks_exact(rows * columns)
            .map(|matrix| {
                let by_row: Latest = matrix.chunks_exact(columns).map(greatest).collect();
                // Row by row, as the matrix lies in memory: column by column each read of a large one would wait.
                let mut by_column = vec![0; columns];
                for row in matrix.chunks_exact(columns) {
                    let pairs = by_column.iter_mut().zip(row);
                    pairs.for_each(|(latest, &read)| *latest = later(*latest, read));
                }
                [by_row, by_column]
            })
            .collect();
        let mut found = Latest::with_capacity(shape.elements());
        for (pixel, factors) in left.chunks_exact(inner).enumerate() {
            let [by_row, by_column] = &rights[pixel / of_left.width as usize / repeated];
            let [outer, terms] = if transposed {
                [by_row, by_column]
            } else {
                [by_column, by_row]
            };
            let own = greatest(factors);
            let terms = factors.iter().zip(terms);
            let terms = terms.filter(|(factor, _)| **factor != ZERO);
            let latest = terms.fold(own, |latest, (_, &read)| later(latest, read));
            found.extend(outer.iter().map(|&read| latest.min(later(own, read))));
        }
        found
    }

    pub(crate) fn reduced(&self, input: TensorId, axis: Axis, shape: Shape) -> Latest {
        let (latest, of) = self.of(input);
        let along = |mut at: [u32; 3]| {
            (0..of.axis(axis)).fold(0, |found, index_along| {
                at[axis as usize] = index_along;
                later(found, latest[index(of, at)])
            })
        };
        places(shape).map(along).collect()
    }

    /// Each element depends on what those so far along an axis do.
    pub(crate) fn running(&self, input: TensorId, axis: Axis, shape: Shape) -> Latest {
        let mut found = self.of(input).0.to_vec();
        for at in places(shape) {
            let along = at[axis as usize];
            if along > 0 {
                let mut before = at;
                before[axis as usize] = along - 1;
                let (own, before) = (index(shape, at), index(shape, before));
                found[own] = sum_of(found[before], found[own]);
            }
        }
        found
    }

    pub(crate) fn masked(&self, input: TensorId, causal: Option<u32>) -> Latest {
        let (latest, of) = self.of(input);
        let channels = of.channels as usize;
        let mut found = Latest::with_capacity(latest.len());
        for (pixel, row) in latest.chunks_exact(channels).enumerate() {
            let column = pixel % of.width as usize;
            let seen = causal.map_or(channels, |offset| {
                channels.min(column + offset as usize + 1)
            });
            found.extend(std::iter::repeat_n(greatest(&row[..seen]), seen));
            found.extend(std::iter::repeat_n(ZERO, channels - seen));
        }
        found
    }
}

/// All places of a shape (row, column, channel) in storage order.
fn places(shape: Shape) -> impl Iterator<Item = [u32; 3]> {
    let channels = shape.channels;
    (0..shape.height).flat_map(move |row| {
        (0..shape.width)
            .flat_map(move |column| (0..channels).map(move |channel| [row, column, channel]))
    })
}

/// The element at a place.
const fn index(shape: Shape, [row, column, channel]: [u32; 3]) -> usize {
    let pixel = row as usize * shape.width as usize + column as usize;
    pixel * shape.channels as usize + channel as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_is_the_number_of_its_place() {
        let axes = [Axis::Rows, Axis::Columns, Axis::Channels];
        assert_eq!(axes.map(|axis| axis as usize), [0, 1, 2]);
        let shape = Shape::new(2, 3, 4);
        let found: Vec<usize> = places(shape).map(|at| index(shape, at)).collect();
        assert_eq!(found, (0..24).collect::<Vec<_>>());
    }
}

//! Causal programs: output pixel t depends on the input's pixels up to t alone.
//!
//! For such a program one execution over a whole sequence says what the executions over each of its prefixes say: what a
//! language model gave while it wrote is what it gives on what it wrote. The analysis follows each element's latest input
//! pixel through the graph. It is conservative: a program it accepts is causal whatever its weights, one that hides the
//! future by large negative numbers instead of a mask is refused.
//!
//! Cost: one step per element of every tensor, per window position, and per product of rows of a [`Op::MatMul`]; four bytes
//! per element of the tensors that are still to be read. Programs of more than [`STEPS_MAX`] steps are refused first.

use crate::op::{Axis, Op};
use crate::program::{Program, TensorId};
use crate::requantise::Requantise;
use crate::shape::Shape;
use crate::window::Window;

/// Most steps of the analysis: seconds of one core. GPT-2 with a window of 512 takes about as many. Only who asks for a
/// generated sequence runs it; no validator does.
pub const STEPS_MAX: u64 = 1 << 28;

/// Why a program is not known to be causal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CausalityError {
    /// Looking takes too long.
    #[error("to find out takes {steps} steps, at most {STEPS_MAX} are taken")]
    TooLarge {
        /// Steps of the analysis.
        steps: u64,
    },
    /// Input and output are not sequences of one length.
    #[error("its input has {input} positions and its output {output}")]
    Positions {
        /// Pixels of the input.
        input: usize,
        /// Pixels of the output.
        output: usize,
    },
    /// An output depends on a later input.
    #[error("its output at position {output} may depend on its input at position {input}")]
    Future {
        /// Position of the output.
        output: usize,
        /// The latest position it may depend on.
        input: usize,
    },
}

/// The element is 0 whatever the input is.
const ZERO: u32 = u32::MAX;

/// What an element depends on: [`ZERO`], 0 for a constant, or the latest input pixel plus one.
type Latest = Vec<u32>;

/// Checks that every output pixel depends on the input's pixels up to its own alone.
///
/// # Errors
/// If that is not known.
///
/// # Panics
/// If the program is not valid.
pub fn check(program: &Program) -> Result<(), CausalityError> {
    let (input, output) = (program.input.shape, program.shape(program.output()));
    if input.pixels() != output.pixels() {
        return Err(CausalityError::Positions {
            input: input.pixels(),
            output: output.pixels(),
        });
    }
    let steps = steps(program);
    if steps > STEPS_MAX {
        return Err(CausalityError::TooLarge { steps });
    }
    let latest = latest_of_output(program);
    let channels = output.channels as usize;
    let mut rows = latest.chunks_exact(channels).enumerate();
    let late = rows.find_map(|(pixel, row)| {
        let latest = greatest(row) as usize;
        (latest > pixel + 1).then_some((pixel, latest - 1))
    });
    late.map_or(Ok(()), |(output, input)| {
        Err(CausalityError::Future { output, input })
    })
}

/// Steps that the analysis of a valid program takes, from its shapes alone.
#[must_use]
pub fn steps(program: &Program) -> u64 {
    let elements = |shape: Shape| shape.elements() as u64;
    let of = |node: &crate::Node| {
        let inputs = node.op.inputs();
        let read: u64 = inputs.iter().map(|&id| elements(program.shape(id))).sum();
        let looked_at = match &node.op {
            Op::Conv { window, groups, .. } => {
                let pixels = node.shape.pixels() as u64;
                pixels * window.positions() as u64 * u64::from(*groups)
            }
            Op::WindowSum { window, .. } | Op::MaxPool { window, .. } => {
                elements(node.shape) * window.positions() as u64
            }
            _ => 0,
        };
        elements(node.shape) + read + looked_at
    };
    let nodes = program.nodes.iter().map(of);
    nodes.fold(elements(program.input.shape), u64::saturating_add)
}

/// Per element of the output, in storage order: 0 if it is a constant, or the latest input pixel that it may depend on, plus
/// one.
///
/// # Panics
/// If the program is not valid.
#[must_use]
pub fn latest_of_output(program: &Program) -> Vec<u32> {
    let mut latest = of_output(program);
    latest
        .iter_mut()
        .for_each(|latest| *latest = later(*latest, 0));
    latest
}

/// What each element of the output depends on.
fn of_output(program: &Program) -> Latest {
    let mut readers = vec![0_usize; program.nodes.len() + 1];
    for node in &program.nodes {
        let inputs = node.op.inputs();
        inputs.iter().for_each(|input| readers[input.index()] += 1);
    }
    let input = program.input.shape;
    let channels = input.channels as usize;
    let place = |element: usize| u32::try_from(element / channels + 1).expect("a small shape");
    let mut tensors = vec![(0..input.elements()).map(place).collect::<Latest>()];
    for (index, node) in program.nodes.iter().enumerate() {
        let found = Reads {
            program,
            tensors: &tensors,
        }
        .node(&node.op, node.shape);
        debug_assert_eq!(found.len(), node.shape.elements(), "node {index}");
        tensors.push(found);
        for input in node.op.inputs() {
            readers[input.index()] -= 1;
            if readers[input.index()] == 0 {
                tensors[input.index()] = Latest::new();
            }
        }
    }
    tensors.pop().expect("the input is there")
}

/// The latest of several; none: a constant.
fn greatest(all: &[u32]) -> u32 {
    all.iter().copied().fold(0, later)
}

/// The later of two.
const fn later(a: u32, b: u32) -> u32 {
    let [a, b] = [if a == ZERO { 0 } else { a }, if b == ZERO { 0 } else { b }];
    if a > b { a } else { b }
}

struct Reads<'a> {
    program: &'a Program,
    tensors: &'a [Latest],
}

impl Reads<'_> {
    fn of(&self, tensor: TensorId) -> (&[u32], Shape) {
        (&self.tensors[tensor.index()], self.program.shape(tensor))
    }

    /// What the elements of a node's output depend on.
    fn node(&self, op: &Op, shape: Shape) -> Latest {
        match op {
            Op::Conv {
                input,
                window,
                groups,
                ..
            } => self.convolved(*input, window, *groups, shape),
            Op::Dense { input } | Op::Trees { input, .. } => {
                vec![greatest(self.of(*input).0); shape.elements()]
            }
            Op::MatMul { inputs, transposed } => self.multiplied(*inputs, *transposed, shape),
            Op::Parameter => vec![0; shape.elements()],
            Op::Embed { input, .. }
            | Op::Norm { input, .. }
            | Op::ArgMax { input }
            | Op::TopK { input, .. } => self.by_row(*input, shape),
            Op::WindowSum { input, window } | Op::MaxPool { input, window } => {
                self.convolved(*input, window, shape.channels, shape)
            }
            Op::Add { inputs, bias, .. } => self.added(inputs, *bias),
            Op::Mul { inputs } => {
                let [a, b] = inputs.map(|input| self.of(input).0);
                let product = |(&a, &b): (&u32, &u32)| {
                    if a == ZERO || b == ZERO {
                        ZERO
                    } else {
                        later(a, b)
                    }
                };
                a.iter().zip(b).map(product).collect()
            }
            Op::Requantise { input, how } => self.requantised(*input, how),
            Op::Extremum { inputs, .. } | Op::Compare { inputs, .. } => self.joined(inputs),
            Op::Select { condition, inputs } => self.joined(&[*condition, inputs[0], inputs[1]]),
            Op::Reduce { input, axis, .. } => self.reduced(*input, *axis, shape),
            Op::Softmax { input, how } => self.masked(*input, how.causal),
            Op::View { input, view } => {
                let latest = self.of(*input).0;
                let source = |element| latest[view.source(element)];
                (0..shape.elements()).map(source).collect()
            }
            Op::Concat { inputs, axis } => self.concatenated(inputs, *axis, shape),
            Op::Pad {
                input,
                before,
                value,
                ..
            } => self.padded(*input, *before, if *value == 0 { ZERO } else { 0 }, shape),
            Op::Gather {
                input,
                axis,
                indices,
            } => self.picked(*input, shape, |mut at| {
                at[*axis as usize] = indices[at[*axis as usize] as usize];
                Some(at)
            }),
        }
    }

    /// Elements at other places of an input; none: a constant that is not zero.
    fn picked(
        &self,
        input: TensorId,
        shape: Shape,
        source: impl Fn([u32; 3]) -> Option<[u32; 3]>,
    ) -> Latest {
        let (latest, of) = self.of(input);
        places(shape)
            .map(|at| source(at).map_or(0, |at| latest[index(of, at)]))
            .collect()
    }

    fn padded(&self, input: TensorId, before: [u32; 3], border: u32, shape: Shape) -> Latest {
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

    fn concatenated(&self, inputs: &[TensorId], axis: Axis, shape: Shape) -> Latest {
        let find = |mut at: [u32; 3]| {
            for input in inputs {
                let (latest, of) = self.of(*input);
                let length = of.axis(axis);
                if at[axis as usize] < length {
                    return latest[index(of, at)];
                }
                at[axis as usize] -= length;
            }
            0
        };
        places(shape).map(find).collect()
    }

    /// Each pixel's channels all depend on what any of the input's do.
    fn by_row(&self, input: TensorId, shape: Shape) -> Latest {
        let (latest, of) = self.of(input);
        let rows = latest.chunks_exact(of.channels as usize).map(greatest);
        rows.flat_map(|row| std::iter::repeat_n(row, shape.channels as usize))
            .collect()
    }

    fn joined(&self, inputs: &[TensorId]) -> Latest {
        let all: Vec<&[u32]> = inputs.iter().map(|input| self.of(*input).0).collect();
        let at = |element| all.iter().fold(0, |a, tensor| later(a, tensor[element]));
        (0..all[0].len()).map(at).collect()
    }

    fn added(&self, inputs: &[TensorId], bias: i32) -> Latest {
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

    fn requantised(&self, input: TensorId, how: &Requantise) -> Latest {
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
    fn convolved(&self, input: TensorId, window: &Window, groups: u32, shape: Shape) -> Latest {
        let (latest, of) = self.of(input);
        let (groups, channels) = (groups as usize, of.channels as usize);
        let each = channels / groups;
        // Per pixel and group.
        let joined: Latest = latest.chunks_exact(each).map(greatest).collect();
        let share = shape.channels as usize / groups;
        let mut found = Latest::with_capacity(shape.elements());
        for row in 0..shape.height {
            for column in 0..shape.width {
                let mut groups_latest = vec![0; groups];
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
    fn multiplied(&self, [left, right]: [TensorId; 2], transposed: bool, shape: Shape) -> Latest {
        let ((left, of_left), (right, of_right)) = (self.of(left), self.of(right));
        let repeated = of_left.height as usize / of_right.height as usize;
        let inner = of_left.channels as usize;
        let [rows, columns] = [of_right.width, of_right.channels].map(|side| side as usize);
        let rights: Vec<[Latest; 2]> = right
            .chunks_exact(rows * columns)
            .map(|matrix| {
                let by_row: Latest = matrix.chunks_exact(columns).map(greatest).collect();
                let column = |column| {
                    let column = matrix.iter().skip(column).step_by(columns);
                    column.fold(0, |latest, &read| later(latest, read))
                };
                [by_row, (0..columns).map(column).collect()]
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

    fn reduced(&self, input: TensorId, axis: Axis, shape: Shape) -> Latest {
        let (latest, of) = self.of(input);
        let along = |mut at: [u32; 3]| {
            (0..of.axis(axis)).fold(0, |found, index_along| {
                at[axis as usize] = index_along;
                later(found, latest[index(of, at)])
            })
        };
        places(shape).map(along).collect()
    }

    fn masked(&self, input: TensorId, causal: Option<u32>) -> Latest {
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

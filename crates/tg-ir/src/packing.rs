//! Where the inputs of a file lie in the one input tensor of a program.
//!
//! A program has one input tensor. The compiler lays the inputs of a file out in it by one of four rules, which follow from
//! their shapes and that of the tensor, so that nothing of it has to be written into a program ([ADR 23]):
//!
//! * one input by its own axes: a vector, rows of columns, or an image, of which channels come last;
//! * inputs of whole numbers of one shape beside each other, a channel each;
//! * any others one after the other, each in the order of the file;
//! * nothing of a tensor that holds no input.
//!
//! [ADR 23]: ../../../docs/adr/0023-modes-of-parts.md

use crate::shape::Shape;
use crate::signature::{Signature, elements_of, sources};

impl Signature {
    /// Per input, and per element of it in the order of the file, the element's place in the program's input, whose shape is
    /// given: no place is named twice. Nothing if inputs of these shapes do not fill a tensor of that shape.
    ///
    /// ```
    /// use tg_ir::{InputPort, Shape, Signature};
    /// let port = |name: &str| InputPort { name: name.to_owned(), shape: vec![1, 3] };
    /// let inputs = vec![port("input_ids"), port("attention_mask")];
    /// let signature = Signature { inputs, outputs: Vec::new() };
    /// let places = signature.input_places(Shape::new(3, 1, 2));
    /// assert_eq!(places, Some(vec![vec![0, 2, 4], vec![1, 3, 5]]));
    /// ```
    #[must_use]
    pub fn input_places(&self, shape: Shape) -> Option<Vec<Vec<usize>>> {
        let counts: Vec<u64> = self
            .inputs
            .iter()
            .map(|port| elements_of(&port.shape))
            .collect();
        let total = counts
            .iter()
            .try_fold(0u64, |sum, &own| sum.checked_add(own))?;
        if total > shape.elements() as u64 {
            return None;
        }
        let places = match self.inputs.as_slice() {
            [only] => by_axes(&only.shape, shape).map(|places| vec![places]),
            [first, rest @ ..] if rest.iter().all(|other| other.shape == first.shape) => {
                beside(counts[0], counts.len(), shape)
            }
            _ => None,
        };
        places.or_else(|| in_a_row(&counts, total, shape))
    }
}

/// The places of a tensor of this shape that are none of these, in order: elements that belong to no input of the file.
///
/// ```
/// use tg_ir::{Shape, unnamed_places};
/// assert_eq!(unnamed_places(&[vec![0, 2], vec![1]], Shape::vector(5)), [3, 4]);
/// ```
#[must_use]
pub fn unnamed_places(places: &[Vec<usize>], shape: Shape) -> Vec<usize> {
    let mut named = vec![false; shape.elements()];
    for &place in places.iter().flatten() {
        named[place] = true;
    }
    let all = named.into_iter().enumerate();
    all.filter_map(|(place, named)| (!named).then_some(place))
        .collect()
}

/// One input by its own axes.
fn by_axes(input: &[u32], shape: Shape) -> Option<Vec<usize>> {
    let (tensor, order): ([u32; 3], Vec<u8>) = match *input {
        [] => ([1, 1, 1], Vec::new()),
        [length] => ([1, 1, length], vec![0]),
        [rows, columns] => ([rows, 1, columns], vec![0, 1]),
        [1, rows, columns] => ([rows, columns, 1], vec![0, 1, 2]),
        [1, channels, rows, columns] => ([rows, columns, channels], vec![0, 2, 3, 1]),
        _ => return None,
    };
    let same = tensor == [shape.height, shape.width, shape.channels];
    same.then(|| sources(input, &order))
}

/// Inputs of so many elements each, an element of each beside the others.
fn beside(elements: u64, inputs: usize, shape: Shape) -> Option<Vec<Vec<usize>>> {
    let tensor = [u64::from(shape.height), u64::from(shape.channels)];
    let same = tensor == [elements, inputs as u64] && shape.width == 1;
    let of_input = |input: usize| (0..shape.height as usize).map(move |at| at * inputs + input);
    same.then(|| (0..inputs).map(|input| of_input(input).collect()).collect())
}

/// Inputs one after the other, in a vector or in rows, of which the last may have a rest.
fn in_a_row(counts: &[u64], total: u64, shape: Shape) -> Option<Vec<Vec<usize>>> {
    let rest = shape.elements() as u64 - total;
    let filled = rest == 0 || (!counts.is_empty() && rest < u64::from(shape.channels));
    // A program of a file without inputs has a tensor of one element that nothing reads.
    let none = counts.is_empty() && shape == Shape::vector(1);
    if !filled && !none {
        return None;
    }
    let mut start = 0;
    let places = counts.iter().map(|&own| {
        let first = start;
        start += own as usize;
        (first..start).collect()
    });
    Some(places.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::InputPort;

    fn places(inputs: &[&[u32]], shape: Shape) -> Option<Vec<Vec<usize>>> {
        let port = |shape: &&[u32]| InputPort {
            name: "x".to_owned(),
            shape: shape.to_vec(),
        };
        let signature = Signature {
            inputs: inputs.iter().map(port).collect(),
            outputs: Vec::new(),
        };
        signature.input_places(shape)
    }

    fn row(range: std::ops::Range<usize>) -> Vec<usize> {
        range.collect()
    }

    #[test]
    fn one_input_lies_by_its_axes_or_in_its_order() {
        let check = |input: &[u32], shape, expected| {
            assert_eq!(places(&[input], shape), Some(vec![expected]), "{input:?}");
        };
        check(&[], Shape::vector(1), row(0..1));
        check(&[6], Shape::vector(6), row(0..6));
        check(&[1, 6], Shape::vector(6), row(0..6));
        check(&[2, 3], Shape::new(2, 1, 3), row(0..6));
        check(&[1, 2, 3], Shape::new(2, 3, 1), row(0..6));
        check(&[1, 2, 1, 3], Shape::new(1, 3, 2), vec![0, 2, 4, 1, 3, 5]);
        // Whole numbers, and more axes than a tensor has.
        check(&[1, 2, 1, 3], Shape::new(6, 1, 1), row(0..6));
        check(&[2, 1, 3, 1, 1], Shape::vector(6), row(0..6));
        // Too long for one axis: the last row has a rest.
        check(&[5000], Shape::new(2, 1, 4096), row(0..5000));
    }

    #[test]
    fn several_inputs_lie_beside_each_other_or_in_a_row() {
        let two: [&[u32]; 2] = [&[1, 2], &[1, 2]];
        let beside = Some(vec![vec![0, 2], vec![1, 3]]);
        assert_eq!(places(&two, Shape::new(2, 1, 2)), beside);
        let in_a_row = Some(vec![vec![0, 1], vec![2, 3]]);
        assert_eq!(places(&two, Shape::vector(4)), in_a_row);
        let other = places(&[&[2], &[1, 3], &[]], Shape::vector(6));
        assert_eq!(other, Some(vec![row(0..2), row(2..5), row(5..6)]));
        assert_eq!(places(&[], Shape::vector(1)), Some(Vec::new()));
    }

    #[test]
    fn shapes_that_do_not_fill_the_tensor_have_no_places() {
        for (input, shape) in [
            (&[7][..], Shape::vector(6)),
            (&[5], Shape::new(3, 2, 1)),
            (&[1, 4, 4], Shape::new(40, 1, 1)),
            (&[u32::MAX, u32::MAX, u32::MAX], Shape::vector(6)),
        ] {
            assert_eq!(places(&[input], shape), None, "{input:?}");
        }
        assert_eq!(places(&[&[u32::MAX; 8], &[1]], Shape::vector(6)), None);
    }
}

//! How a program's one input tensor holds the inputs of a graph.
//!
//! One input keeps its axes where a program has such: a vector, rows of columns, an image by row, column and channel.
//! Tokens of one shape lie beside each other, a channel each. Any other inputs lie one after the other, each in the order of
//! the file, as reals of one unit; a condition or an integer is a whole number of units.

use super::builder::short;
use super::strided::Strided;
use crate::passes::{Fact, Prepared};
use tg_float::{FloatTensor, convert};
use tg_ir::Shape;
use tg_ir::shape::AXIS_MAX;

/// Channels of inputs that are too long for one axis.
const ROW: usize = 1 << 12;

/// An input of the graph, and where it lies in the program's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputPlaces {
    /// Its name.
    pub name: String,
    /// Lengths of its axes.
    pub shape: Vec<usize>,
    /// Per element in the order of the file, its place in a row in storage order.
    pub places: Vec<usize>,
}

/// How the tensor of a program's input holds the inputs of the graph.
#[derive(Debug, Clone, PartialEq)]
pub struct InputOrder {
    elements: usize,
    inputs: Vec<(Fact, Vec<usize>)>,
}

impl InputOrder {
    /// The graph's inputs from one row of reals in the program's storage order.
    ///
    /// # Panics
    /// If the row is shorter than the program's input.
    #[must_use]
    pub fn tensors(&self, row: &[f32]) -> Vec<FloatTensor> {
        let one = |(fact, order): &(Fact, Vec<usize>)| {
            let values: Vec<f64> = order.iter().map(|&at| f64::from(row[at])).collect();
            let mode = convert::CastMode::default();
            let data = convert::from_f64(&values, fact.dtype, mode).expect("an input of numbers");
            FloatTensor::new(fact.shape.clone(), data).expect("the order fills the shape")
        };
        self.inputs.iter().map(one).collect()
    }

    /// One row of reals in the program's storage order from the graph's inputs.
    ///
    /// # Panics
    /// If a tensor is not of numbers or of another shape.
    #[must_use]
    pub fn row(&self, tensors: &[FloatTensor]) -> Vec<f32> {
        let mut row = vec![0.0; self.elements];
        for ((_, order), tensor) in self.inputs.iter().zip(tensors) {
            let values = convert::to_f32(tensor.data()).expect("an input of numbers");
            for (&at, value) in order.iter().zip(values) {
                row[at] = value;
            }
        }
        row
    }
}

impl InputOrder {
    /// The inputs by their names, for readers of files.
    #[must_use]
    pub fn places(&self, prepared: &Prepared) -> Vec<InputPlaces> {
        let inputs = prepared.graph.inputs.iter().zip(&self.inputs);
        let one = |(input, (fact, places)): (&tg_float::Input, &(Fact, Vec<usize>))| InputPlaces {
            name: short(&input.name),
            shape: fact.shape.clone(),
            places: places.clone(),
        };
        inputs.map(one).collect()
    }
}

/// An input that a program cannot hold: its index, and why.
pub(super) type Untaken = (usize, &'static str);

/// The shape of a program's input, and where each input of the graph lies in it.
pub(super) fn layouts(prepared: &Prepared) -> Result<(Shape, Vec<Strided>), Untaken> {
    let facts: Vec<&Fact> = prepared
        .graph
        .inputs
        .iter()
        .map(|input| &prepared.facts[&input.value])
        .collect();
    for (index, fact) in facts.iter().enumerate() {
        let number = fact.dtype.is_float() || fact.dtype.is_integer();
        if !number && fact.dtype != tg_float::DType::Bool {
            return Err((index, "its elements are not numbers"));
        }
        if fact.shape.contains(&0) {
            return Err((index, "an axis is empty"));
        }
    }
    let (shape, layouts) = match facts.as_slice() {
        [] => (Shape::vector(1), Vec::new()),
        [only] if !only.dtype.is_integer() => single(only).ok_or((0, "an axis is too long"))?,
        all if beside(all) => channels(all).ok_or((0, "an axis is too long"))?,
        all => in_a_row(all).ok_or((0, "its elements are too many"))?,
    };
    if shape.is_valid() {
        return Ok((shape, layouts));
    }
    Err((0, "an axis is empty or too long"))
}

/// Whether inputs are one input of integers, or several of one shape.
fn beside(facts: &[&Fact]) -> bool {
    facts
        .iter()
        .all(|fact| fact.dtype.is_integer() && fact.shape == facts[0].shape)
}

/// As [`layouts`], with the place of each element.
pub(super) fn order(prepared: &Prepared) -> Result<(Shape, InputOrder), Untaken> {
    let (shape, layouts) = layouts(prepared)?;
    let each = prepared.graph.inputs.iter().zip(&layouts);
    let inputs =
        each.map(|(input, layout)| (prepared.facts[&input.value].clone(), layout.sources()));
    let order = InputOrder {
        elements: shape.elements(),
        inputs: inputs.collect(),
    };
    Ok((shape, order))
}

fn axis(size: usize) -> Option<u32> {
    u32::try_from(size).ok().filter(|&size| size <= AXIS_MAX)
}

/// One input by its own axes.
fn single(fact: &Fact) -> Option<(Shape, Vec<Strided>)> {
    let (shape, order): (Shape, Vec<usize>) = match *fact.shape.as_slice() {
        [] => (Shape::vector(1), Vec::new()),
        [length] if axis(length).is_none() => return in_a_row(&[fact]),
        [length] => (Shape::vector(axis(length)?), vec![0]),
        [1, length] if axis(length).is_some() => (Shape::vector(axis(length)?), vec![0, 1]),
        [rows, length] => (Shape::new(axis(rows)?, 1, axis(length)?), vec![0, 1]),
        [1, rows, columns] => (Shape::new(axis(rows)?, axis(columns)?, 1), vec![0, 1, 2]),
        [1, channels, rows, columns] => (
            Shape::new(axis(rows)?, axis(columns)?, axis(channels)?),
            vec![0, 2, 3, 1],
        ),
        _ => return in_a_row(&[fact]),
    };
    Some((shape, vec![Strided::ordered(&fact.shape, &order)]))
}

/// Positions of tokens, one channel per input.
fn channels(facts: &[&Fact]) -> Option<(Shape, Vec<Strided>)> {
    let fact = facts[0];
    let shape = Shape::new(axis(fact.shape.iter().product())?, 1, axis(facts.len())?);
    let count = facts.len() as i64;
    let mut layout = Strided::contiguous(&fact.shape);
    for factor in layout.axes.iter_mut().flatten() {
        factor.stride *= count;
    }
    let layouts = (0..count).map(|offset| Strided {
        offset,
        ..layout.clone()
    });
    Some((shape, layouts.collect()))
}

/// All inputs one after the other.
fn in_a_row(facts: &[&Fact]) -> Option<(Shape, Vec<Strided>)> {
    let mut elements = 0usize;
    let mut layouts = Vec::new();
    for fact in facts {
        let offset = i64::try_from(elements).ok()?;
        layouts.push(Strided {
            offset,
            ..Strided::contiguous(&fact.shape)
        });
        elements = elements.checked_add(tg_float::tensor::elements(&fact.shape)?)?;
    }
    let shape = match axis(elements) {
        Some(elements) => Shape::vector(elements),
        None => Shape::new(axis(elements.div_ceil(ROW))?, 1, axis(ROW)?),
    };
    Some((shape, layouts))
}

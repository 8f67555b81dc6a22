//! Elements picked and replaced at constant places, as one gather of elements in a row.

use super::Fact;
use super::edit::{Writer, counted_axis, input, int, output, rewrite_each};
use std::collections::BTreeMap;
use tg_float::{Attribute, FloatTensor, Graph, Node, ValueId, convert};

/// Rewrites `GatherElements`, `GatherND`, `ScatterElements` and `ScatterND` with constant indices; whether any was.
pub(super) fn rewrite(graph: &mut Graph, facts: &BTreeMap<ValueId, Fact>) -> bool {
    rewrite_each(graph, |graph, node| one(graph, node, facts))
}

fn one(graph: &mut Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> Option<Vec<Node>> {
    let scatters = node.is("ScatterElements") || node.is("ScatterND");
    let gathers = node.is("GatherElements") || node.is("GatherND");
    if !scatters && !gathers {
        return None;
    }
    let (data, indices) = (input(node, 0)?, input(node, 1)?);
    let shape = facts.get(&data)?.shape.clone();
    let value = output(node)?;
    let indices = Indices::new(graph.constants.get(&indices)?, &shape)?;
    let places = if node.op.ends_with("ND") {
        indices.tuples(int(node, "batch_dims", 0))?
    } else {
        indices.elements(int(node, "axis", 0))?
    };
    let elements: usize = shape.iter().product();
    if gathers {
        let mut writer = Writer::new(graph, &node.name);
        let row = in_a_row(&mut writer, data);
        let picked = picked(&mut writer, row, places, &facts.get(&value)?.shape);
        return Some(writer.finish(picked, value));
    }
    let plain = match node.attributes.get("reduction") {
        Some(Attribute::Text(text)) => text == b"none",
        _ => true,
    };
    if !plain {
        return None;
    }
    let updates = input(node, 2)?;
    let mut sources: Vec<usize> = (0..elements).collect();
    for (update, place) in places.into_iter().enumerate() {
        *sources.get_mut(place)? = elements + update;
    }
    let mut writer = Writer::new(graph, &node.name);
    let parts = [data, updates].map(|part| in_a_row(&mut writer, part));
    let joined = writer.node("Concat", &parts, &[("axis", Attribute::Int(0))]);
    let result = picked(&mut writer, joined, sources, &shape);
    Some(writer.finish(result, value))
}

fn in_a_row(writer: &mut Writer<'_>, value: ValueId) -> ValueId {
    let all = writer.ints(&[-1]);
    writer.node("Reshape", &[value, all], &[])
}

fn picked(writer: &mut Writer<'_>, row: ValueId, places: Vec<usize>, shape: &[usize]) -> ValueId {
    let places: Vec<i64> = places.into_iter().map(|at| at as i64).collect();
    let places = writer.ints(&places);
    let picked = writer.node("Gather", &[row, places], &[("axis", Attribute::Int(0))]);
    let shape: Vec<i64> = shape.iter().map(|&size| size as i64).collect();
    let shape = writer.ints(&shape);
    writer.node("Reshape", &[picked, shape], &[])
}

/// Constant indices into a tensor.
struct Indices<'a> {
    shape: Vec<usize>,
    values: Vec<i64>,
    data: &'a [usize],
}

impl<'a> Indices<'a> {
    fn new(indices: &FloatTensor, data: &'a [usize]) -> Option<Self> {
        Some(Self {
            shape: indices.shape().to_vec(),
            values: convert::to_i64(indices.data())?,
            data,
        })
    }

    /// An index along an axis, counted from the start.
    fn along(&self, axis: usize, index: i64) -> Option<usize> {
        let size = *self.data.get(axis)?;
        let counted = if index < 0 {
            index + size as i64
        } else {
            index
        };
        usize::try_from(counted).ok().filter(|&at| at < size)
    }

    /// Elements from one place of the data to the next along each axis.
    fn strides(&self) -> Vec<usize> {
        let mut strides = vec![1; self.data.len()];
        for axis in (1..self.data.len()).rev() {
            strides[axis - 1] = strides[axis] * self.data[axis];
        }
        strides
    }

    /// Of `GatherElements`: per index, the element with that index along an axis and the index's own place elsewhere.
    fn elements(&self, axis: i64) -> Option<Vec<usize>> {
        let rank = self.data.len();
        let axis = counted_axis(axis, rank)?;
        if self.shape.len() != rank {
            return None;
        }
        let strides = self.strides();
        let mut places = Vec::with_capacity(self.values.len());
        for (at, &index) in self.values.iter().enumerate() {
            let mut rest = at;
            let mut place = 0;
            for other in (0..rank).rev() {
                let own = rest % self.shape[other];
                rest /= self.shape[other];
                let own = if other == axis {
                    self.along(axis, index)?
                } else {
                    own
                };
                place += own * strides[other];
            }
            places.push(place);
        }
        Some(places)
    }

    /// Of `GatherND`: per tuple, the elements of the slice it names.
    fn tuples(&self, batches: i64) -> Option<Vec<usize>> {
        if batches != 0 {
            return None;
        }
        let depth = *self.shape.last()?;
        if depth == 0 || depth > self.data.len() {
            return None;
        }
        let strides = self.strides();
        let length: usize = self.data[depth..].iter().product();
        let mut places = Vec::new();
        for tuple in self.values.chunks_exact(depth) {
            let mut first = 0;
            for (axis, &index) in tuple.iter().enumerate() {
                first += self.along(axis, index)? * strides[axis];
            }
            places.extend(first..first + length);
        }
        Some(places)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn indices<'a>(shape: &[usize], values: &[i64], data: &'a [usize]) -> Indices<'a> {
        let tensor = FloatTensor::of(shape.to_vec(), values.to_vec()).unwrap();
        Indices::new(&tensor, data).unwrap()
    }

    #[test]
    fn elements_keep_their_place_along_other_axes() {
        let found = indices(&[2, 2], &[0, -1, 1, 0], &[2, 3]);
        assert_eq!(found.elements(1), Some(vec![0, 2, 4, 3]));
        assert_eq!(found.elements(-2), Some(vec![0, 4, 3, 1]));
        assert_eq!(found.elements(2), None);
        assert_eq!(indices(&[1, 1], &[3], &[2, 3]).elements(1), None);
    }

    #[test]
    fn tuples_name_slices() {
        let found = indices(&[2, 1], &[-1, 0], &[2, 3]);
        assert_eq!(found.tuples(0), Some(vec![3, 4, 5, 0, 1, 2]));
        let found = indices(&[2, 2], &[0, 2, 1, -3], &[2, 3]);
        assert_eq!(found.tuples(0), Some(vec![2, 3]));
        assert_eq!(found.tuples(1), None);
        assert_eq!(indices(&[1, 3], &[0, 0, 0], &[2, 3]).tuples(0), None);
        assert_eq!(indices(&[1, 1], &[2], &[2, 3]).tuples(0), None);
    }
}

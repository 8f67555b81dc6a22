//! Whether a program is well formed: earlier inputs of the right types, attributes in range, shapes that follow.

use crate::op::{Axis, CONCAT_MAX, Norm, Op, Softmax, TERMS_MAX};
use crate::program::{Node, Program, ProgramError, TensorId, Tie};
use crate::requantise::TABLE_MAX;
use crate::rescale::MULTIPLIER_MAX;
use crate::shape::{ElementType, Shape};
use crate::{bounds, op};

/// Greatest precision of a normalisation's root, in bits.
pub const NORM_PRECISION_MAX: u8 = 12;
/// Most fraction bits of a normalisation's result.
pub const NORM_FRACTION_MAX: u8 = 14;

/// What is known of the tensors before a node. A program has thousands of nodes, each of which reads hundreds of others: what
/// is asked of a tensor once per reader is found out once, forwards.
pub(crate) struct Known<'a> {
    /// The greatest absolute value of an element.
    pub(crate) magnitudes: &'a [i64],
    /// The type of its elements.
    pub(crate) types: &'a [ElementType],
}

/// Checks one node, given that all before it are well formed and what is known of their outputs.
pub(crate) fn node(program: &Program, index: usize, known: &Known<'_>) -> Result<(), ProgramError> {
    let Node {
        name, op, shape, ..
    } = &program.nodes[index];
    inputs(program, index, known.types)?;
    let bad_shape = || ProgramError::BadShape {
        node: index,
        name: name.clone(),
        op: op.name(),
        stated: *shape,
    };
    if !shape.is_valid() {
        return Err(bad_shape());
    }
    if let Some(attribute) = invalid_attribute(program, index, known) {
        return Err(ProgramError::BadAttribute {
            node: index,
            name: name.clone(),
            op: op.name(),
            attribute,
        });
    }
    if expected_shape(program, index) == Some(*shape) {
        Ok(())
    } else {
        Err(bad_shape())
    }
}

/// Checks the ties, given that all nodes are well formed.
pub(crate) fn ties(program: &Program) -> Result<(), ProgramError> {
    let Program { nodes, ties, .. } = program;
    let has_weights = |node: u32| {
        let node = nodes.get(node as usize);
        node.is_some_and(|node| node.op.has_weights())
    };
    let mut last = None;
    for (index, &Tie { node, to }) in ties.iter().enumerate() {
        let in_order = to < node && last < Some(node) && has_weights(node) && has_weights(to);
        let owned = in_order && program.weights_owner(to as usize) == to as usize;
        if !owned || program.weight_axes(node as usize) != program.weight_axes(to as usize) {
            return Err(ProgramError::BadTie { index, node, to });
        }
        last = Some(node);
    }
    Ok(())
}

fn inputs(program: &Program, index: usize, types: &[ElementType]) -> Result<(), ProgramError> {
    let Node { name, op, .. } = &program.nodes[index];
    let bad = |tensor: TensorId| ProgramError::BadInput {
        node: index,
        name: name.clone(),
        tensor: tensor.0,
    };
    let read = op.inputs();
    if let Some(&later) = read.iter().find(|input| input.index() > index) {
        return Err(bad(later));
    }
    if !op.takes_accumulators()
        && let Some(&wide) = read
            .iter()
            .find(|input| types[input.index()] == ElementType::I32)
    {
        return Err(bad(wide));
    }
    let alike: &[TensorId] = match op {
        Op::Extremum { inputs, .. } | Op::Compare { inputs, .. } | Op::Select { inputs, .. } => {
            inputs
        }
        Op::Concat { inputs, .. } => inputs,
        _ => &[],
    };
    let of = |id: &TensorId| types[id.index()];
    if let Some(&other) = alike.iter().find(|id| of(id) != of(&alike[0])) {
        return Err(bad(other));
    }
    if let Op::Select { condition, .. } = op
        && of(condition) != ElementType::I8
    {
        return Err(bad(*condition));
    }
    Ok(())
}

fn invalid_attribute(program: &Program, index: usize, known: &Known<'_>) -> Option<&'static str> {
    let Node { op, shape, .. } = &program.nodes[index];
    let Known { magnitudes, types } = known;
    let input_shape = || program.shape(op.inputs()[0]);
    match op {
        Op::Conv { .. } => convolution(program, index, types),
        Op::WindowSum { window, .. } => {
            (!window.is_valid() || window.spread != [1; 2]).then_some("window")
        }
        Op::MaxPool { window, .. } => {
            let valid = window.is_valid()
                && window.spread == [1; 2]
                && window.output(input_shape()).is_none_or(|[height, width]| {
                    window.covers(input_shape(), Shape::new(height, width, 1))
                });
            (!valid).then_some("window")
        }
        Op::Add {
            inputs,
            multipliers,
            ..
        } => {
            let in_range = |m: &i32| *m != 0 && m.unsigned_abs() <= MULTIPLIER_MAX;
            let counted = (1..=TERMS_MAX).contains(&inputs.len());
            (!counted || multipliers.len() != inputs.len() || !multipliers.iter().all(in_range))
                .then_some("multiplier")
        }
        Op::Requantise { how, .. } => how.invalid(shape.channels as usize),
        Op::Embed { rows, .. } => (*rows == 0 || *rows > 1 << 20).then_some("number of rows"),
        Op::Concat { inputs, .. } => {
            (!(1..=CONCAT_MAX).contains(&inputs.len())).then_some("number of concatenated tensors")
        }
        Op::TopK { .. } => {
            (shape.channels > input_shape().channels).then_some("number of greatest elements")
        }
        Op::Softmax { input, how } => softmax(how, input_shape(), magnitudes[input.index()]),
        Op::Norm { input, how } => norm(how, input_shape(), magnitudes[input.index()]),
        Op::View { view, .. } => {
            let inside = view.is_valid(input_shape().elements());
            (!inside || view.elements() != Some(shape.elements() as u64)).then_some("view")
        }
        Op::Pad { input, value, .. } => {
            (!fits(types[input.index()], *value)).then_some("padding value")
        }
        Op::Gather { axis, indices, .. } => {
            let length = input_shape().axis(*axis);
            (indices.iter().any(|&index| index >= length)).then_some("gathered slices")
        }
        Op::Trees { forest, .. } => {
            (!forest.is_valid(input_shape().channels as usize)).then_some("forest")
        }
        Op::Dense { .. }
        | Op::MatMul { .. }
        | Op::Parameter
        | Op::Mul { .. }
        | Op::Extremum { .. }
        | Op::Compare { .. }
        | Op::Select { .. }
        | Op::Reduce { .. }
        | Op::ArgMax { .. } => None,
    }
}

fn convolution(program: &Program, index: usize, types: &[ElementType]) -> Option<&'static str> {
    let Node { op, shape, .. } = &program.nodes[index];
    let Op::Conv {
        input,
        window,
        groups,
        zero,
    } = op
    else {
        return None;
    };
    if !window.is_valid() {
        return Some("window");
    }
    let divides = |channels: u32| *groups != 0 && channels.is_multiple_of(*groups);
    if !divides(program.shape(*input).channels) || !divides(shape.channels) {
        return Some("number of groups");
    }
    (!fits(types[input.index()], *zero)).then_some("zero point")
}

fn fits(kind: ElementType, value: i16) -> bool {
    match kind {
        ElementType::I8 => i8::try_from(value).is_ok(),
        ElementType::I16 | ElementType::I32 => value != i16::MIN,
    }
}

fn softmax(how: &Softmax, input: Shape, magnitude: i64) -> Option<&'static str> {
    let Softmax { table, .. } = how;
    let entries = (1..=TABLE_MAX).contains(&table.len())
        && table[0] >= 1
        && table.iter().all(|&entry| entry <= op::PROBABILITY_ONE);
    let sum = i64::from(input.channels) * i64::from(op::PROBABILITY_ONE);
    (!entries)
        .then_some("table of exponentials")
        .or_else(|| (sum > bounds::FIELD_BOUND).then_some("number of channels"))
        // Halved, not doubled: magnitudes of nodes before this one are bounded after all nodes were looked at.
        .or_else(|| (magnitude > bounds::FIELD_BOUND / 2).then_some("range of scores"))
}

fn norm(how: &Norm, input: Shape, magnitude: i64) -> Option<&'static str> {
    let Norm {
        epsilon,
        precision,
        fraction,
        ..
    } = *how;
    if precision > NORM_PRECISION_MAX || fraction > NORM_FRACTION_MAX {
        return Some("precision");
    }
    let n = i128::from(input.channels);
    let magnitude = i128::from(magnitude);
    let radicand = (n * n * magnitude * magnitude + i128::from(epsilon)) << (2 * precision);
    let numerator = (2 * n * magnitude) << (precision + fraction);
    let limit = 1i128 << 62;
    let saturates = n << (2 * fraction) > (1 << 30) - (1 << 16);
    (radicand >= limit || numerator >= limit || saturates).then_some("precision")
}

/// The shape an operator gives for its inputs; what is a node's own to state (channels of a node with weights, k of
/// the greatest elements) is taken from it.
fn expected_shape(program: &Program, index: usize) -> Option<Shape> {
    let Node {
        op, shape: stated, ..
    } = &program.nodes[index];
    let of = |id: &TensorId| program.shape(*id);
    let alike = |ids: &[TensorId]| {
        let first = of(ids.first()?);
        ids.iter().all(|id| of(id) == first).then_some(first)
    };
    match op {
        Op::Conv { input, window, .. } => window
            .output(of(input))
            .map(|[height, width]| Shape::new(height, width, stated.channels)),
        Op::WindowSum { input, window } | Op::MaxPool { input, window } => window
            .output(of(input))
            .map(|[height, width]| Shape::new(height, width, of(input).channels)),
        Op::Dense { .. } => Some(Shape::vector(stated.channels)),
        Op::Parameter => Some(*stated),
        Op::Embed { input, .. } => {
            (of(input).channels == 1).then(|| of(input).with_axis(Axis::Channels, stated.channels))
        }
        Op::MatMul { inputs, transposed } => matmul(of(&inputs[0]), of(&inputs[1]), *transposed),
        Op::Add { inputs, .. } => alike(inputs),
        Op::Mul { inputs } | Op::Extremum { inputs, .. } | Op::Compare { inputs, .. } => {
            alike(inputs)
        }
        Op::Select { condition, inputs } => alike(&[*condition, inputs[0], inputs[1]]),
        Op::Requantise { input, .. } | Op::Softmax { input, .. } | Op::Norm { input, .. } => {
            Some(of(input))
        }
        Op::Reduce { input, axis, .. } => Some(of(input).with_axis(*axis, 1)),
        Op::ArgMax { input } => Some(of(input).with_axis(Axis::Channels, 1)),
        Op::TopK { input, .. } => Some(of(input).with_axis(Axis::Channels, stated.channels)),
        Op::View { .. } => Some(*stated),
        Op::Concat { inputs, axis } => concat(&inputs.iter().map(of).collect::<Vec<_>>(), *axis),
        Op::Pad {
            input,
            before,
            after,
            ..
        } => pad(of(input), *before, *after),
        Op::Gather {
            input,
            axis,
            indices,
        } => Some(of(input).with_axis(*axis, u32::try_from(indices.len()).ok()?)),
        Op::Trees { input, forest } => {
            let outputs = u32::try_from(forest.outputs()).ok()?;
            (of(input).pixels() == 1).then(|| Shape::vector(outputs))
        }
    }
}

fn matmul(left: Shape, right: Shape, transposed: bool) -> Option<Shape> {
    let (inner, columns) = if transposed {
        (right.channels, right.width)
    } else {
        (right.width, right.channels)
    };
    (left.height.is_multiple_of(right.height) && left.channels == inner)
        .then(|| Shape::new(left.height, left.width, columns))
}

fn concat(shapes: &[Shape], axis: Axis) -> Option<Shape> {
    let first = *shapes.first()?;
    let mut length = 0u32;
    for shape in shapes {
        if shape.with_axis(axis, 1) != first.with_axis(axis, 1) {
            return None;
        }
        length = length.checked_add(shape.axis(axis))?;
    }
    Some(first.with_axis(axis, length))
}

fn pad(input: Shape, before: [u32; 3], after: [u32; 3]) -> Option<Shape> {
    let side =
        |index: usize, length: u32| length.checked_add(before[index])?.checked_add(after[index]);
    Some(Shape::new(
        side(0, input.height)?,
        side(1, input.width)?,
        side(2, input.channels)?,
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use crate::program::{PROGRAM_VERSION, TIED_PROGRAM_VERSION};
    use crate::weights::WeightsError;
    use crate::{
        Axis, Coding, InputSpec, LinearWeights, Node, Op, Program, ProgramError, Shape, TensorId,
        Tie, Weights, Window,
    };
    use tg_types::codec::{Decode, DecodeError, Encode};

    const EMBED: u32 = 0;
    const FIRST: u32 = 1;
    const OTHER: u32 = 2;
    const JOIN: u32 = 3;
    const LAST: u32 = 4;

    /// Rows of four tokens, two products with tables of four rows, one with six rows, and nodes without weights.
    fn program(ties: &[[u32; 2]]) -> Program {
        let mut input = InputSpec::scaled(Shape::new(1, 3, 1), 1.0);
        input.coding = Coding::Tokens(4);
        let of = |op: Op, channels: u32| Node {
            name: op.name().to_owned(),
            op,
            shape: Shape::new(1, 3, channels),
            scale: 1.0,
        };
        let conv = || Op::conv(TensorId::of_node(0), Window::new([1; 2], [1; 2], [0; 4]));
        let embed = Op::Embed {
            input: TensorId::INPUT,
            rows: 4,
        };
        let join = Op::Concat {
            inputs: vec![TensorId::of_node(1), TensorId::of_node(2)],
            axis: Axis::Channels,
        };
        let tie = |&[node, to]: &[u32; 2]| Tie { node, to };
        Program {
            name: "tied".to_owned(),
            input,
            nodes: vec![
                of(embed, 2),
                of(conv(), 4),
                of(conv(), 6),
                of(join, 10),
                of(conv(), 4),
            ],
            ties: ties.iter().map(tie).collect(),
            weights_root: Weights::default().root(),
        }
    }

    fn layer(weights: usize, biases: usize) -> LinearWeights {
        LinearWeights {
            weights: (1..).take(weights).collect(),
            bias: (10..).take(biases).collect(),
        }
    }

    #[test]
    fn ties_are_of_nodes_whose_weights_have_the_same_axes() {
        for ties in [&[][..], &[[FIRST, EMBED]], &[[FIRST, EMBED], [LAST, EMBED]]] {
            assert_eq!(program(ties).validate(), Ok(()), "{ties:?}");
        }
        assert_eq!(program(&[[LAST, FIRST]]).validate(), Ok(()));
        for (index, ties) in [
            // Other axes; nodes without weights; nodes that do not exist; to itself; to a later node.
            (0, &[[OTHER, EMBED]][..]),
            (0, &[[JOIN, EMBED]]),
            (0, &[[LAST, JOIN]]),
            (0, &[[5, EMBED]]),
            (0, &[[FIRST, FIRST]]),
            (0, &[[EMBED, FIRST]]),
            // To one that is tied; out of order; twice.
            (1, &[[FIRST, EMBED], [LAST, FIRST]]),
            (1, &[[LAST, EMBED], [FIRST, EMBED]]),
            (1, &[[LAST, EMBED], [LAST, FIRST]]),
        ] {
            let [node, to] = ties[index];
            let refused = ProgramError::BadTie { index, node, to };
            assert_eq!(program(ties).validate(), Err(refused), "{ties:?}");
        }
    }

    #[test]
    fn a_program_has_the_version_of_what_is_in_it() {
        for (ties, version) in [
            (&[][..], PROGRAM_VERSION),
            (&[[FIRST, EMBED], [LAST, EMBED]], TIED_PROGRAM_VERSION),
        ] {
            let bytes = program(ties).to_bytes();
            assert_eq!(bytes[4..6], version.to_le_bytes());
            assert_eq!(Program::from_bytes(&bytes).unwrap(), program(ties));
        }
        // The bytes are a contract: of a program with ties, and of one without as they were before there were any.
        let id = |ties: &[[u32; 2]]| program(ties).id().to_string();
        assert_eq!(
            [id(&[]), id(&[[FIRST, EMBED], [LAST, EMBED]])],
            [
                "0x2e246e8475b4a89a284aae867679dddd11d9a54f1b6ba5c2e438cfee391b0da7",
                "0x4f2d359225fe9d920a89dd669128daa29ff90d3d9e32a7593dd622822909d567",
            ]
        );
        // The list with a count of nothing, which would be a second encoding.
        let mut bytes = program(&[]).to_bytes();
        bytes[4] = TIED_PROGRAM_VERSION.to_le_bytes()[0];
        let root = bytes.split_off(bytes.len() - 32);
        let mut counted = tg_types::codec::Writer::new();
        counted.count(0);
        let bytes = [bytes, counted.into_bytes(), root].concat();
        let empty = DecodeError::Invalid {
            field: "ties",
            value: 0,
        };
        assert_eq!(Program::from_bytes(&bytes), Err(empty));
        let mut later = program(&[]).to_bytes();
        later[4] = 4;
        assert!(matches!(
            Program::from_bytes(&later),
            Err(DecodeError::Invalid { value: 4, .. })
        ));
    }

    #[test]
    fn a_tied_node_reads_the_weights_of_another_and_a_bias_of_its_own() {
        let mut program = program(&[[FIRST, EMBED], [LAST, EMBED]]);
        let mut weights = Weights {
            layers: vec![layer(8, 0), layer(0, 4), layer(12, 6), layer(0, 4)],
        };
        weights.layers[3].bias = vec![7; 4];
        program.weights_root = weights.root();
        assert_eq!(weights.check(&program), Ok(()));
        let last = weights.of_node(&program, LAST as usize).unwrap();
        assert_eq!(last.weights, weights.layers[0].weights);
        assert_eq!(last.bias, [7; 4]);
        let other = weights.of_node(&program, OTHER as usize).unwrap();
        assert_eq!(other, weights.layers[2].as_read());
        assert_eq!(weights.of_node(&program, JOIN as usize), None);
        // Weights of its own, or an owner without.
        for (place, own, expected, got) in [(1, layer(8, 4), 0, 8), (0, layer(0, 0), 8, 0)] {
            let mut weights = weights.clone();
            weights.layers[place] = own;
            let refused = WeightsError::Length {
                name: program.nodes[place].name.clone(),
                what: "weights",
                expected,
                got,
            };
            assert_eq!(weights.check(&program), Err(refused));
        }
    }
}

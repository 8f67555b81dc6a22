//! `GroupQueryAttention` of `com.microsoft` as the products, rotations and softmax it stands for.
//!
//! The whole sequence is one pass: the cache of earlier positions is empty, which gives the rows that decoding token by
//! token gives. So the cache and the lengths that go with it are not read.

use super::PrepareError;
use super::edit::{Writer, float, input, int, output, uses};
use tg_float::graph::Dim;
use tg_float::{Attribute, FloatTensor, Graph, Node, ValueId};

/// What is masked gets this score.
const MASK: f32 = -1e9;

type Refusal = &'static str;

/// Rewrites every node of the operator.
pub(super) fn rewrite(graph: &mut Graph) -> Result<(), PrepareError> {
    let mut index = 0;
    while index < graph.nodes.len() {
        let node = graph.nodes[index].clone();
        if node.domain != "com.microsoft" || node.op != "GroupQueryAttention" {
            index += 1;
            continue;
        }
        let written = attention(graph, &node).map_err(|reason| PrepareError::Node {
            node: node.name.clone(),
            op: node.op.clone(),
            reason,
        })?;
        let count = written.len();
        graph.nodes.splice(index..=index, written);
        index += count;
    }
    Ok(())
}

fn heads_of(node: &Node, name: &str) -> Result<usize, Refusal> {
    usize::try_from(int(node, name, 0))
        .ok()
        .filter(|&heads| heads > 0)
        .ok_or("it has no number of heads")
}

fn attention(graph: &mut Graph, node: &Node) -> Result<Vec<Node>, Refusal> {
    let [query, key, value] = [0, 1, 2].map(|slot| input(node, slot));
    let (Some(query), Some(key), Some(value)) = (query, key, value) else {
        return Err("its queries, keys and values are one tensor");
    };
    let result = output(node).ok_or("it has no output")?;
    let cached = node.outputs.iter().skip(1).flatten();
    if cached.into_iter().any(|v| uses(graph)[v.index()] > 0) {
        return Err("its cache is read");
    }
    if int(node, "local_window_size", -1) != -1 || int(node, "smooth_softmax", 0) != 0 {
        return Err("a window of positions and a smooth softmax are not taken");
    }
    if (9..node.inputs.len()).any(|slot| input(node, slot).is_some()) {
        return Err("positions, biases and sinks of its own are not taken");
    }
    let (heads, shared) = (
        heads_of(node, "num_heads")?,
        heads_of(node, "kv_num_heads")?,
    );
    let width = width(graph, query).ok_or("the size of its heads is not known")?;
    let size = width / heads;
    if heads % shared != 0 || size * heads != width {
        return Err("its heads do not divide");
    }
    let rotation = rotation(graph, node, size)?;
    let mut writer = Writer::new(graph, &node.name);
    let mut q = apart(&mut writer, query, heads);
    let mut k = apart(&mut writer, key, shared);
    let v = apart(&mut writer, value, shared);
    if let Some(rotation) = rotation {
        let length = length(&mut writer, query);
        q = rotated(&mut writer, q, &rotation, length, size);
        k = rotated(&mut writer, k, &rotation, length, size);
    }
    let [k, v] = [k, v].map(|x| repeated(&mut writer, x, heads / shared, heads, size));
    let mut scale = float(node, "scale", 0.0);
    if scale == 0.0 {
        scale = 1.0 / (size as f32).sqrt();
    }
    let scores = scores(&mut writer, q, k, scale, float(node, "softcap", 0.0));
    let masked = causal(&mut writer, scores, query);
    let weights = writer.node("Softmax", &[masked], &[("axis", Attribute::Int(-1))]);
    let mixed = writer.node("MatMul", &[weights, v], &[]);
    let order = [("perm", Attribute::Ints(vec![0, 2, 1, 3]))];
    let back = writer.node("Transpose", &[mixed], &order);
    let shape = writer.ints(&[0, 0, -1]);
    let joined = writer.node("Reshape", &[back, shape], &[]);
    Ok(writer.finish(joined, result))
}

/// The size of the last axis, from the weights that gave a value or its declaration.
fn width(graph: &Graph, value: ValueId) -> Option<usize> {
    if let Some(input) = graph.inputs.iter().find(|input| input.value == value) {
        return match input.shape.as_ref()?.last()? {
            Dim::Known(size) => Some(*size),
            Dim::Named(_) | Dim::Unknown => None,
        };
    }
    let node = &graph.nodes[graph.producers()[value.index()]?];
    let constant = |slot: usize| Some(graph.constants.get(&input(node, slot)?)?.shape().to_vec());
    match node.op.as_str() {
        "MatMul" => constant(1)?.last().copied(),
        "Gemm" if int(node, "transB", 0) != 0 => constant(1)?.first().copied(),
        "Gemm" => constant(1)?.last().copied(),
        "Add" | "Mul" => [0, 1].into_iter().find_map(|slot| {
            let other = input(node, 1 - slot)?;
            graph.constants.get(&input(node, slot)?)?;
            width(graph, other)
        }),
        _ => None,
    }
}

/// Cosines and sines by position, and how many elements of a head are turned.
struct Rotation {
    cosines: ValueId,
    sines: ValueId,
    half: usize,
}

fn rotation(graph: &Graph, node: &Node, size: usize) -> Result<Option<Rotation>, Refusal> {
    if int(node, "do_rotary", 0) == 0 {
        return Ok(None);
    }
    if int(node, "rotary_interleaved", 0) != 0 {
        return Err("interleaved rotations are not taken");
    }
    let (Some(cosines), Some(sines)) = (input(node, 7), input(node, 8)) else {
        return Err("it turns by angles that are not given");
    };
    let half = match graph.constants.get(&cosines).map(FloatTensor::shape) {
        Some(&[_, half]) if 2 * half <= size => half,
        _ => return Err("the cosines of its angles are not a constant by position"),
    };
    Ok(Some(Rotation {
        cosines,
        sines,
        half,
    }))
}

/// `[batch, positions, heads * size]` as `[batch, heads, positions, size]`.
fn apart(writer: &mut Writer<'_>, x: ValueId, heads: usize) -> ValueId {
    let shape = writer.ints(&[0, 0, heads as i64, -1]);
    let apart = writer.node("Reshape", &[x, shape], &[]);
    let order = [("perm", Attribute::Ints(vec![0, 2, 1, 3]))];
    writer.node("Transpose", &[apart], &order)
}

/// The number of positions, as a list of one.
fn length(writer: &mut Writer<'_>, query: ValueId) -> ValueId {
    let shape = writer.node("Shape", &[query], &[]);
    let one = writer.ints(&[1]);
    writer.node("Gather", &[shape, one], &[])
}

fn sliced(writer: &mut Writer<'_>, x: ValueId, from: usize, to: usize) -> ValueId {
    let [from, to] = [from, to].map(|end| writer.ints(&[end as i64]));
    let axes = writer.ints(&[-1]);
    writer.node("Slice", &[x, from, to, axes], &[])
}

/// Pairs of elements, half of the turned part apart, turned by the angle of their position.
fn rotated(
    writer: &mut Writer<'_>,
    x: ValueId,
    rotation: &Rotation,
    length: ValueId,
    size: usize,
) -> ValueId {
    let [start, axes] = [0, 0].map(|zero| writer.ints(&[zero]));
    let by_position = [rotation.cosines, rotation.sines]
        .map(|table| writer.node("Slice", &[table, start, length, axes], &[]));
    let [cosines, sines] = by_position;
    let half = rotation.half;
    let first = sliced(writer, x, 0, half);
    let second = sliced(writer, x, half, 2 * half);
    let product = |writer: &mut Writer<'_>, a, b| writer.node("Mul", &[a, b], &[]);
    let [a, b, c, d] = [
        product(writer, first, cosines),
        product(writer, second, sines),
        product(writer, first, sines),
        product(writer, second, cosines),
    ];
    let mut parts = vec![
        writer.node("Sub", &[a, b], &[]),
        writer.node("Add", &[c, d], &[]),
    ];
    if 2 * half < size {
        parts.push(sliced(writer, x, 2 * half, size));
    }
    writer.node("Concat", &parts, &[("axis", Attribute::Int(-1))])
}

/// Each head several times in a row.
fn repeated(
    writer: &mut Writer<'_>,
    x: ValueId,
    times: usize,
    heads: usize,
    size: usize,
) -> ValueId {
    if times == 1 {
        return x;
    }
    let axes = writer.ints(&[2]);
    let apart = writer.node("Unsqueeze", &[x, axes], &[]);
    let shape = writer.ints(&[1, 1, times as i64, 1, 1]);
    let repeated = writer.node("Expand", &[apart, shape], &[]);
    let shape = writer.ints(&[0, heads as i64, -1, size as i64]);
    writer.node("Reshape", &[repeated, shape], &[])
}

fn scores(writer: &mut Writer<'_>, q: ValueId, k: ValueId, scale: f32, softcap: f32) -> ValueId {
    let order = [("perm", Attribute::Ints(vec![0, 1, 3, 2]))];
    let turned = writer.node("Transpose", &[k], &order);
    let products = writer.node("MatMul", &[q, turned], &[]);
    let factor = writer.scalar(scale);
    let scaled = writer.node("Mul", &[products, factor], &[]);
    if softcap <= 0.0 {
        return scaled;
    }
    let [inverse, cap] = [1.0 / softcap, softcap].map(|c| writer.scalar(c));
    let small = writer.node("Mul", &[scaled, inverse], &[]);
    let bounded = writer.node("Tanh", &[small], &[]);
    writer.node("Mul", &[bounded, cap], &[])
}

/// Position i sees positions up to i.
fn causal(writer: &mut Writer<'_>, scores: ValueId, query: ValueId) -> ValueId {
    let shape = writer.node("Shape", &[query], &[]);
    let [zero, one] = [0i64, 1].map(|n| {
        let tensor = FloatTensor::scalar(n);
        writer.graph.constant("position", tensor)
    });
    let count = writer.node("Gather", &[shape, one], &[]);
    let positions = writer.node("Range", &[zero, count, one], &[]);
    let [rows, columns] = [1, 0].map(|axis| {
        let axes = writer.ints(&[axis]);
        writer.node("Unsqueeze", &[positions, axes], &[])
    });
    let seen = writer.node("LessOrEqual", &[columns, rows], &[]);
    let mask = writer.scalar(MASK);
    writer.node("Where", &[seen, scores, mask], &[])
}

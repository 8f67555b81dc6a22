//! `Attention` and `RotaryEmbedding` of ONNX as the products, rotations and softmax they stand for.
//!
//! What a query may not look at, by its position, a window, the number of keys that are there or a constant mask, is one
//! constant that is added to the scores, far below all of them; a row that may look at nothing is multiplied by 0.

use super::Fact;
use super::edit::{Writer, float, input, int, output, rewrite_each, uses};
use std::collections::BTreeMap;
use tg_float::{Attribute, DType, Data, FloatTensor, Graph, Node, ValueId, convert};

/// What is masked gets this beside its score: its weight is 0 in single precision.
const MASK: f32 = -1e4;
/// What is below this is masked, whatever else was added.
const HIDDEN: f32 = MASK / 2.0;

/// Rewrites every node of the operators; whether there was one.
pub(super) fn rewrite(graph: &mut Graph, facts: &BTreeMap<ValueId, Fact>) -> bool {
    rewrite_each(graph, |graph, node| match node.op.as_str() {
        "Attention" if node.domain.is_empty() => attention(graph, node, facts),
        "RotaryEmbedding" if node.domain.is_empty() => rotary(graph, node, facts),
        _ => None,
    })
}

/// Heads of queries, keys or values: `[batch, heads, positions, size]`.
#[derive(Debug, Clone, Copy)]
struct AttentionHeads {
    value: ValueId,
    shape: [usize; 4],
}

impl AttentionHeads {
    /// An input with four axes, or with three and the heads side by side in the last.
    fn read(writer: &mut Writer<'_>, value: ValueId, shape: &[usize], heads: i64) -> Option<Self> {
        match *shape {
            [batch, heads, length, size] => Some(Self {
                value,
                shape: [batch, heads, length, size],
            }),
            [batch, length, width] => {
                let heads = usize::try_from(heads).ok().filter(|&heads| heads > 0)?;
                let size = width / heads;
                let apart = writer.shaped(value, &[batch, length, heads, size]);
                Some(Self {
                    value: writer.transposed(apart, &[0, 2, 1, 3]),
                    shape: [batch, heads, length, size],
                })
            }
            _ => None,
        }
    }

    /// What was kept before, and this after it.
    fn after(self, writer: &mut Writer<'_>, past: Option<(ValueId, usize)>) -> Self {
        let Some((past, length)) = past else {
            return self;
        };
        let along = [("axis", Attribute::Int(2))];
        let [batch, heads, own, size] = self.shape;
        Self {
            value: writer.node("Concat", &[past, self.value], &along),
            shape: [batch, heads, length + own, size],
        }
    }

    /// Each head several times in a row.
    fn repeated(self, writer: &mut Writer<'_>, heads: usize) -> ValueId {
        let [batch, own, length, size] = self.shape;
        if own == heads {
            return self.value;
        }
        let apart = writer.shaped(self.value, &[batch, own, 1, length, size]);
        let times = heads / own.max(1);
        let whole = [batch, own, times, length, size].map(|size| size as i64);
        let whole = writer.ints(&whole);
        let apart = writer.node("Expand", &[apart, whole], &[]);
        writer.shaped(apart, &[batch, heads, length, size])
    }
}

fn attention(graph: &mut Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> Option<Vec<Node>> {
    let shape = |slot: usize| Some(facts.get(&input(node, slot)?)?.shape.clone());
    let shapes = [shape(0)?, shape(1)?, shape(2)?];
    let past = |slot: usize| Some((input(node, slot)?, *shape(slot)?.get(2)?));
    let before = past(4).map_or(0, |(_, length)| length);
    let used = |slot: usize| {
        let value = node.outputs.get(slot).copied().flatten()?;
        (uses(graph)[value.index()] > 0).then_some(value)
    };
    let gives = [used(0), used(1), used(2), used(3)];
    let pasts = [past(4), past(5)];
    let heads = [int(node, "q_num_heads", 0), int(node, "kv_num_heads", 0)];
    let mut writer = Writer::new(graph, &node.name);
    let q = AttentionHeads::read(&mut writer, input(node, 0)?, &shapes[0], heads[0])?;
    let k = AttentionHeads::read(&mut writer, input(node, 1)?, &shapes[1], heads[1])?;
    let v = AttentionHeads::read(&mut writer, input(node, 2)?, &shapes[2], heads[1])?;
    let (k, v) = (
        k.after(&mut writer, pasts[0]),
        v.after(&mut writer, pasts[1]),
    );
    let [batch, heads, queries, size] = q.shape;
    let keys = k.shape[2];
    let look = AttentionBias::new(&mut writer, node, facts, [batch, queries, keys, before])?;
    let (own_keys, own_values) = (
        k.repeated(&mut writer, heads),
        v.repeated(&mut writer, heads),
    );
    let turned = writer.transposed(own_keys, &[0, 1, 3, 2]);
    let products = writer.node("MatMul", &[q.value, turned], &[]);
    let scale = match node.attributes.get("scale") {
        Some(Attribute::Float(scale)) => *scale,
        _ => 1.0 / (size as f32).sqrt(),
    };
    let mut stages = vec![writer.times(products, scale)];
    let cap = float(node, "softcap", 0.0);
    let capped = if cap > 0.0 {
        let small = writer.times(stages[0], 1.0 / cap);
        let bent = writer.node("Tanh", &[small], &[]);
        writer.times(bent, cap)
    } else {
        stages[0]
    };
    stages.push(capped);
    stages.push(look.add(&mut writer, capped));
    let weights = writer.node("Softmax", &[stages[2]], &[("axis", Attribute::Int(-1))]);
    stages.push(look.without_blind(&mut writer, weights));
    let mixed = writer.node("MatMul", &[stages[3], own_values], &[]);
    let y = if shapes[0].len() == 3 {
        let back = writer.transposed(mixed, &[0, 2, 1, 3]);
        writer.shaped(back, &[batch, queries, heads * v.shape[3]])
    } else {
        mixed
    };
    let mode = usize::try_from(int(node, "qk_matmul_output_mode", 0)).ok()?;
    if gives[3].is_some() && mode == 2 && look.hides {
        return None;
    }
    let results = [y, k.value, v.value, *stages.get(mode)?];
    let all = results.into_iter().zip(gives);
    Some(writer.finish_all(all.filter_map(|(y, value)| Some((y, value?))).collect()))
}

/// What is added to the scores.
struct AttentionBias {
    /// A constant of zeros and far less.
    constant: Option<ValueId>,
    /// A mask that is computed.
    computed: Option<ValueId>,
    /// 0 for rows that may look at nothing, else 1.
    blind: Option<ValueId>,
    /// Whether something is far less.
    hides: bool,
}

impl AttentionBias {
    fn new(
        writer: &mut Writer<'_>,
        node: &Node,
        facts: &BTreeMap<ValueId, Fact>,
        [batch, queries, keys, before]: [usize; 4],
    ) -> Option<Self> {
        let mask = input(node, 3);
        let mut covered = keys;
        if let Some(mask) = mask {
            covered = *facts.get(&mask)?.shape.last()?;
        }
        let present = match input(node, 6) {
            None => None,
            Some(value) => Some(convert::to_i64(writer.graph.constants.get(&value)?.data())?),
        };
        let offset = |item: usize| match &present {
            Some(present) if before == 0 => present[item] - queries as i64,
            _ => before as i64,
        };
        let causal = int(node, "is_causal", 0) != 0;
        let [left, right] =
            ["left_window_size", "right_window_size"].map(|name| int(node, name, -1));
        let hidden = |item: usize, query: usize, key: usize| {
            let ahead = key as i64 - (query as i64 + offset(item));
            (causal && ahead > 0)
                || (left >= 0 && -ahead > left)
                || (right >= 0 && ahead > right)
                || present.as_ref().is_some_and(|n| key as i64 >= n[item])
                || key >= covered
        };
        if present
            .as_ref()
            .is_some_and(|present| present.len() != batch)
        {
            return None;
        }
        let items = if present.is_some() { batch } else { 1 };
        let mut values = Vec::with_capacity(items * queries * keys);
        for item in 0..items {
            for query in 0..queries {
                values
                    .extend((0..keys).map(|key| if hidden(item, query, key) { MASK } else { 0.0 }));
            }
        }
        let own = FloatTensor::of(vec![items, 1, queries, keys], values).ok()?;
        Self::joined(writer, mask, &own, (covered, facts))
    }

    /// With a mask of the file: one constant with it, or beside it.
    fn joined(
        writer: &mut Writer<'_>,
        mask: Option<ValueId>,
        own: &FloatTensor,
        (covered, facts): (usize, &BTreeMap<ValueId, Fact>),
    ) -> Option<Self> {
        let keys = *own.shape().last()?;
        let hides = |tensor: &FloatTensor| {
            let values = convert::to_f32(tensor.data());
            values.is_some_and(|values| values.iter().any(|&value| value < HIDDEN))
        };
        let Some(mask) = mask else {
            let hidden = hides(own);
            return Some(Self::of_constant(writer, own, None, hidden));
        };
        if let Some(tensor) = writer.graph.constants.get(&mask) {
            let both = combined(tensor, own, covered)?;
            let hidden = hides(&both);
            return Some(Self::of_constant(writer, &both, None, hidden));
        }
        if covered < keys {
            return None;
        }
        let fact = facts.get(&mask)?;
        let mut blind = None;
        let computed = if fact.dtype == DType::Bool {
            let [zero, far] = [0.0, MASK].map(|value| writer.scalar(value));
            let to = [("to", Attribute::Int(i64::from(DType::F32.to_onnx())))];
            let along = [
                ("axes", Attribute::Ints(vec![-1])),
                ("keepdims", Attribute::Int(1)),
            ];
            let looks = writer.node("Cast", &[mask], &to);
            blind = Some(writer.node("ReduceMax", &[looks], &along));
            writer.node("Where", &[mask, zero, far], &[])
        } else {
            mask
        };
        let hidden = hides(own) || blind.is_some();
        let mut found = Self::of_constant(writer, own, Some(computed), hidden);
        found.blind = blind.or(found.blind);
        Some(found)
    }

    fn of_constant(
        writer: &mut Writer<'_>,
        own: &FloatTensor,
        computed: Option<ValueId>,
        hides: bool,
    ) -> Self {
        let values = convert::to_f32(own.data()).unwrap_or_default();
        let keys = own.shape().last().copied().unwrap_or(1).max(1);
        let rows = values.chunks_exact(keys);
        let looks: Vec<f32> = rows
            .map(|row| f32::from(u8::from(row.iter().any(|&value| value > HIDDEN))))
            .collect();
        let blind = looks.contains(&0.0).then(|| {
            let mut shape = own.shape().to_vec();
            if let Some(last) = shape.last_mut() {
                *last = 1;
            }
            writer.floats(&shape, looks)
        });
        let none = values.iter().all(|&value| value == 0.0);
        let shape = own.shape().to_vec();
        Self {
            constant: (!none).then(|| writer.floats(&shape, values)),
            computed,
            blind,
            hides,
        }
    }

    fn add(&self, writer: &mut Writer<'_>, mut scores: ValueId) -> ValueId {
        for bias in [self.constant, self.computed].into_iter().flatten() {
            scores = writer.node("Add", &[scores, bias], &[]);
        }
        scores
    }

    fn without_blind(&self, writer: &mut Writer<'_>, weights: ValueId) -> ValueId {
        match self.blind {
            None => weights,
            Some(blind) => writer.node("Mul", &[weights, blind], &[]),
        }
    }
}

/// A constant mask on top of what positions hide; keys beyond it are hidden there already.
fn combined(mask: &FloatTensor, own: &FloatTensor, covered: usize) -> Option<FloatTensor> {
    let values = match mask.data() {
        Data::Bool(looks) => looks
            .iter()
            .map(|&look| if look { 0.0 } else { MASK })
            .collect(),
        data => convert::to_f32(data)?,
    };
    let [items, _, queries, keys] = *own.shape() else {
        return None;
    };
    let mut shape = vec![1; 4usize.checked_sub(mask.rank())?];
    shape.extend(mask.shape());
    let size = |axis: usize, other: usize| shape[axis].max(other);
    let whole = [size(0, items), shape[1], queries, keys];
    let hidden = convert::to_f32(own.data())?;
    let mut sums = Vec::with_capacity(whole.iter().product());
    for item in 0..whole[0] {
        for head in 0..whole[1] {
            for query in 0..queries {
                for key in 0..keys {
                    let at = ((item % items) * queries + query) * keys + key;
                    let index = [item, head, query, key.min(covered.saturating_sub(1))];
                    let flat = (0..4).fold(0, |flat, axis| {
                        flat * shape[axis] + index[axis] % shape[axis]
                    });
                    sums.push((hidden[at] + values.get(flat)?).max(MASK));
                }
            }
        }
    }
    FloatTensor::of(whole.to_vec(), sums).ok()
}

// ---------------------------------------------------------------- rotations

/// Pairs of features turned by the angle of their position.
fn rotary(graph: &mut Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> Option<Vec<Node>> {
    let x = input(node, 0)?;
    let shape = facts.get(&x)?.shape.clone();
    let half = *facts.get(&input(node, 1)?)?.shape.last()?;
    let mut writer = Writer::new(graph, &node.name);
    let heads = AttentionHeads::read(&mut writer, x, &shape, int(node, "num_heads", 0))?;
    let [batch, count, length, size] = heads.shape;
    let turned = match int(node, "rotary_embedding_dim", 0) {
        0 => size,
        some => usize::try_from(some).ok()?,
    };
    if turned != 2 * half || turned > size {
        return None;
    }
    let mut angles = Vec::new();
    for slot in [1, 2] {
        let mut table = input(node, slot)?;
        if let Some(positions) = input(node, 3) {
            table = writer.node(
                "Gather",
                &[table, positions],
                &[("axis", Attribute::Int(0))],
            );
        }
        angles.push(writer.shaped(table, &[batch, 1, length, half]));
    }
    let interleaved = int(node, "interleaved", 0) != 0;
    let step = if interleaved { 2 } else { 1 };
    let part = |writer: &mut Writer<'_>, from: usize, to: usize, step: i64| {
        let [from, to] = [from, to].map(|end| writer.ints(&[end as i64]));
        let (axes, step) = (writer.ints(&[-1]), writer.ints(&[step]));
        writer.node("Slice", &[heads.value, from, to, axes, step], &[])
    };
    let [a, b] = if interleaved {
        [
            part(&mut writer, 0, turned, 2),
            part(&mut writer, 1, turned, 2),
        ]
    } else {
        [
            part(&mut writer, 0, half, step),
            part(&mut writer, half, turned, step),
        ]
    };
    let mut pair = rotated(&mut writer, [a, b], [angles[0], angles[1]]);
    let last = [("axis", Attribute::Int(-1))];
    if interleaved {
        pair = pair.map(|value| writer.shaped(value, &[batch, count, length, half, 1]));
    }
    let mut y = writer.node("Concat", &pair, &last);
    if interleaved {
        y = writer.shaped(y, &[batch, count, length, turned]);
    }
    if turned < size {
        let rest = part(&mut writer, turned, size, 1);
        y = writer.node("Concat", &[y, rest], &last);
    }
    if shape.len() == 3 {
        let back = writer.transposed(y, &[0, 2, 1, 3]);
        y = writer.shaped(back, &shape);
    }
    Some(writer.finish(y, output(node)?))
}

/// `(a cos - b sin, a sin + b cos)`.
fn rotated(
    writer: &mut Writer<'_>,
    [a, b]: [ValueId; 2],
    [cosines, sines]: [ValueId; 2],
) -> [ValueId; 2] {
    let mut product = |a: ValueId, b: ValueId| writer.node("Mul", &[a, b], &[]);
    let [ac, bs, as_, bc] = [
        product(a, cosines),
        product(b, sines),
        product(a, sines),
        product(b, cosines),
    ];
    [
        writer.node("Sub", &[ac, bs], &[]),
        writer.node("Add", &[as_, bc], &[]),
    ]
}

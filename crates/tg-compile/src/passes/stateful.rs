//! Operators that keep a state from position to position, `CausalConvWithState` and `LinearAttention`, as what they are at
//! each position of one sequence.

use super::Fact;
use super::edit::{Writer, float, input, int, read_output, rewrite_each, text};
use std::collections::BTreeMap;
use tg_float::{Attribute, Graph, Node, ValueId};

/// Most positions that are written out.
const STEPS_MAX: usize = 256;

/// Rewrites every node of the operators; whether there was one.
pub(super) fn rewrite(graph: &mut Graph, facts: &BTreeMap<ValueId, Fact>) -> bool {
    rewrite_each(graph, |graph, node| match node.op.as_str() {
        "CausalConvWithState" if node.domain.is_empty() => causal(graph, node, facts),
        "LinearAttention" if node.domain.is_empty() => linear(graph, node, facts),
        _ => None,
    })
}

/// A convolution of each channel alone over what came before and the input; the last of both is the next state.
fn causal(graph: &mut Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> Option<Vec<Node>> {
    let (x, w) = (input(node, 0)?, input(node, 1)?);
    let &[batch, channels, length] = facts.get(&x)?.shape.as_slice() else {
        return None;
    };
    let taps = *facts.get(&w)?.shape.get(2)?;
    let state = taps.checked_sub(1)?;
    let gives = [read_output(graph, node, 0), read_output(graph, node, 1)];
    let mut writer = Writer::new(graph, &node.name);
    let mut all = Vec::new();
    let row = if state == 0 {
        x
    } else {
        let past = input(node, 3).unwrap_or_else(|| {
            let zeros = vec![0.0; batch * channels * state];
            writer.floats(&[batch, channels, state], zeros)
        });
        writer.node("Concat", &[past, x], &[("axis", Attribute::Int(2))])
    };
    if let Some(value) = gives[0] {
        let mut inputs = vec![row, w];
        inputs.extend(input(node, 2));
        let groups = [("group", Attribute::Int(channels as i64))];
        let mut y = writer.node("Conv", &inputs, &groups);
        match text(node, "activation", b"none") {
            b"none" => {}
            b"silu" | b"swish" => {
                let gate = writer.node("Sigmoid", &[y], &[]);
                y = writer.node("Mul", &[y, gate], &[]);
            }
            _ => return None,
        }
        all.push((y, value));
    }
    if let Some(value) = gives[1] {
        if state == 0 {
            return None;
        }
        all.push((writer.slice(row, 2, length, state), value));
    }
    Some(writer.finish_all(all))
}

/// Heads of queries, keys or values, `[batch, heads, positions, size]`.
fn heads(
    writer: &mut Writer<'_>,
    facts: &BTreeMap<ValueId, Fact>,
    value: ValueId,
    count: i64,
) -> Option<(ValueId, [usize; 4])> {
    match *facts.get(&value)?.shape.as_slice() {
        [batch, heads, length, size] => Some((value, [batch, heads, length, size])),
        [batch, length, width] => {
            let heads = usize::try_from(count).ok().filter(|&heads| heads > 0)?;
            let shape = [batch, length, heads, width / heads];
            let apart = writer.shaped(value, &shape);
            let apart = writer.transposed(apart, &[0, 2, 1, 3]);
            Some((apart, [batch, heads, length, width / heads]))
        }
        _ => None,
    }
}

/// A state of keys by values that decays, is corrected, written and read at each position.
fn linear(graph: &mut Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> Option<Vec<Node>> {
    let gives = [read_output(graph, node, 0), read_output(graph, node, 1)];
    let counts = ["q_num_heads", "kv_num_heads"].map(|name| int(node, name, 0));
    let mut writer = Writer::new(graph, &node.name);
    let (q, [batch, own, length, keys]) = heads(&mut writer, facts, input(node, 0)?, counts[0])?;
    let (k, [_, shared, ..]) = heads(&mut writer, facts, input(node, 1)?, counts[1])?;
    let (v, [.., values]) = heads(&mut writer, facts, input(node, 2)?, counts[1])?;
    if length == 0 || length > STEPS_MAX || shared == 0 {
        return None;
    }
    let group = own / shared;
    // Queries of one state side by side.
    let q = writer.shaped(q, &[batch, shared, group, length, keys]);
    let last = |slot: usize| {
        Some((
            input(node, slot)?,
            *facts.get(&input(node, slot)?)?.shape.last()?,
        ))
    };
    let (decay, beta) = (last(4), last(5));
    let scale = match float(node, "scale", 0.0) {
        0.0 => 1.0 / (keys as f32).sqrt(),
        scale => scale,
    };
    let mut state = input(node, 3).unwrap_or_else(|| {
        let zeros = vec![0.0; batch * shared * keys * values];
        writer.floats(&[batch, shared, keys, values], zeros)
    });
    let mut rows = Vec::new();
    for step in 0..length {
        if let Some((decay, count)) = decay {
            let own = writer.slice(decay, 1, step, 1);
            let each = if count == shared { 1 } else { keys };
            let own = writer.shaped(own, &[batch, shared, each, 1]);
            let share = writer.node("Exp", &[own], &[]);
            state = writer.node("Mul", &[state, share], &[]);
        }
        let key = writer.slice(k, 2, step, 1);
        let mut value = writer.slice(v, 2, step, 1);
        if let Some((beta, count)) = beta {
            let read = writer.node("MatMul", &[key, state], &[]);
            let wrong = writer.node("Sub", &[value, read], &[]);
            let own = writer.slice(beta, 1, step, 1);
            let own = writer.shaped(own, &[batch, if count == 1 { 1 } else { shared }, 1, 1]);
            value = writer.node("Mul", &[wrong, own], &[]);
        }
        let column = writer.transposed(key, &[0, 1, 3, 2]);
        let added = writer.node("MatMul", &[column, value], &[]);
        state = writer.node("Add", &[state, added], &[]);
        let query = writer.slice(q, 3, step, 1);
        let query = writer.shaped(query, &[batch, shared, group, keys]);
        let read = writer.node("MatMul", &[query, state], &[]);
        rows.push(writer.shaped(read, &[batch, 1, own * values]));
    }
    let y = writer.node("Concat", &rows, &[("axis", Attribute::Int(1))]);
    let y = writer.times(y, scale);
    let all = [y, state].into_iter().zip(gives);
    Some(writer.finish_all(all.filter_map(|(y, value)| Some((y, value?))).collect()))
}

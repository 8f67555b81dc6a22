//! `RNN`, and `LSTM` and `GRU` of several sequences, with weights that are computed, peepholes or the batch first, step by
//! step. One sequence with constant weights is [`super::recurrent`]'s, which knows which products are the same.

use super::Fact;
use super::edit::{Writer, floats_of, input, int, rewrite_each, uses};
use std::collections::BTreeMap;
use tg_float::{Attribute, Graph, Node, ValueId};

/// Most steps that are unrolled: a program has a few thousand nodes.
const STEPS_MAX: usize = 256;

/// Rewrites every such node; whether there was one.
pub(super) fn rewrite(graph: &mut Graph, facts: &BTreeMap<ValueId, Fact>) -> bool {
    rewrite_each(graph, |graph, node| {
        RecurrentNode::new(graph, node, facts).and_then(|own| own.written(graph))
    })
}

struct RecurrentNode<'a> {
    node: &'a Node,
    gates: usize,
    steps: usize,
    batch: usize,
    inputs: usize,
    hidden: usize,
    directions: usize,
    /// Whether the batch is the first axis.
    batch_first: bool,
}

/// The weights of one direction.
struct DirectionWeights {
    /// `[inputs][gates * hidden]` and `[hidden][gates * hidden]`.
    matrices: [ValueId; 2],
    /// `[gates * hidden]` each.
    biases: Option<[ValueId; 2]>,
    /// Of the input, output and forget gate, `[hidden]` each.
    peepholes: Option<[ValueId; 3]>,
}

impl<'a> RecurrentNode<'a> {
    fn new(graph: &Graph, node: &'a Node, facts: &BTreeMap<ValueId, Fact>) -> Option<Self> {
        let gates = match node.op.as_str() {
            _ if !node.domain.is_empty() => return None,
            "RNN" => 1,
            "GRU" => 3,
            "LSTM" => 4,
            _ => return None,
        };
        let shape = |slot: usize| Some(&facts.get(&input(node, slot)?)?.shape);
        let batch_first = int(node, "layout", 0) != 0;
        let &[first, second, inputs] = shape(0)?.as_slice() else {
            return None;
        };
        let (steps, batch) = if batch_first {
            (second, first)
        } else {
            (first, second)
        };
        let &[directions, _, hidden] = shape(2)?.as_slice() else {
            return None;
        };
        let constant =
            |slot: usize| input(node, slot).is_none_or(|v| graph.constants.contains_key(&v));
        let peepholes = input(node, 7).is_some();
        let plain = gates > 1 && batch == 1 && !batch_first && !peepholes;
        if plain && (1..4).all(constant) || steps == 0 || steps > STEPS_MAX {
            return None;
        }
        let lengths = match input(node, 4) {
            None => None,
            some => Some(floats_of(graph, some)?.1),
        };
        let whole = lengths.is_none_or(|all| all.iter().all(|&length| length == steps as f32));
        let usual = ["activations", "activation_alpha", "activation_beta", "clip"];
        if !whole
            || usual.iter().any(|name| node.attributes.contains_key(*name))
                && !usual_functions(node)
            || int(node, "input_forget", 0) != 0
        {
            return None;
        }
        Some(Self {
            node,
            gates,
            steps,
            batch,
            inputs,
            hidden,
            directions,
            batch_first,
        })
    }

    fn direction(&self, writer: &mut Writer<'_>, index: usize) -> Option<DirectionWeights> {
        let width = self.gates * self.hidden;
        let one = |writer: &mut Writer<'_>, slot: usize| {
            let value = input(self.node, slot)?;
            let [from, to] = [index, index + 1].map(|end| writer.ints(&[end as i64]));
            let axes = writer.ints(&[0]);
            Some(writer.node("Slice", &[value, from, to, axes], &[]))
        };
        let mut matrices = Vec::new();
        for (slot, inner) in [(1, self.inputs), (2, self.hidden)] {
            let own = one(writer, slot)?;
            let own = writer.shaped(own, &[width, inner]);
            matrices.push(writer.transposed(own, &[1, 0]));
        }
        let biases = one(writer, 3).map(|both| {
            let both = writer.shaped(both, &[2 * width]);
            [0, width].map(|from| writer.slice(both, 0, from, width))
        });
        let peepholes = one(writer, 7).map(|all| {
            let all = writer.shaped(all, &[3 * self.hidden]);
            [0, 1, 2].map(|gate| writer.slice(all, 0, gate * self.hidden, self.hidden))
        });
        Some(DirectionWeights {
            matrices: [matrices[0], matrices[1]],
            biases,
            peepholes,
        })
    }

    /// The state before the first step of a direction: given, or zeros.
    fn initial(&self, writer: &mut Writer<'_>, slot: usize, index: usize) -> ValueId {
        let shape = [self.batch, self.hidden];
        let Some(value) = input(self.node, slot) else {
            return writer.floats(&shape, vec![0.0; self.batch * self.hidden]);
        };
        let axis = usize::from(self.batch_first);
        let own = writer.slice(value, axis, index, 1);
        writer.shaped(own, &shape)
    }

    fn written(&self, graph: &mut Graph) -> Option<Vec<Node>> {
        let used = |slot: usize| {
            let value = self.node.outputs.get(slot).copied().flatten()?;
            (uses(graph)[value.index()] > 0).then_some(value)
        };
        let gives = [used(0), used(1), used(2)];
        let mut writer = Writer::new(graph, &self.node.name);
        let mut x = input(self.node, 0)?;
        if self.batch_first {
            x = writer.transposed(x, &[1, 0, 2]);
        }
        let rows = writer.shaped(x, &[self.steps * self.batch, self.inputs]);
        let mut all = vec![Vec::new(); self.steps];
        let (mut last, mut cells) = (Vec::new(), Vec::new());
        for index in 0..self.directions {
            let direction = self.direction(&mut writer, index)?;
            let mut products = writer.node("MatMul", &[rows, direction.matrices[0]], &[]);
            if let Some([bias, _]) = direction.biases {
                products = writer.node("Add", &[products, bias], &[]);
            }
            let mut state = self.initial(&mut writer, 5, index);
            let mut cell = (self.gates == 4).then(|| self.initial(&mut writer, 6, index));
            let reverse = match self.node.attributes.get("direction") {
                Some(Attribute::Text(text)) => text == b"reverse" || index == 1,
                _ => false,
            };
            for step in 0..self.steps {
                let step = if reverse { self.steps - 1 - step } else { step };
                let own = writer.slice(products, 0, step * self.batch, self.batch);
                (state, cell) = self.step(&mut writer, &direction, own, (state, cell));
                all[step].push(state);
            }
            last.push(state);
            cells.extend(cell);
        }
        let results = [
            self.sequence(&mut writer, &all),
            self.ends(&mut writer, &last),
            self.ends(&mut writer, &cells),
        ];
        let all = results.into_iter().zip(gives);
        Some(writer.finish_all(all.filter_map(|(y, value)| Some((y?, value?))).collect()))
    }

    /// One step: the next state and cell.
    fn step(
        &self,
        writer: &mut Writer<'_>,
        direction: &DirectionWeights,
        products: ValueId,
        (state, cell): (ValueId, Option<ValueId>),
    ) -> (ValueId, Option<ValueId>) {
        let n = self.hidden;
        let mut own = writer.node("MatMul", &[state, direction.matrices[1]], &[]);
        if let Some([_, bias]) = direction.biases {
            own = writer.node("Add", &[own, bias], &[]);
        }
        if self.gates == 3 {
            return (self.gated(writer, direction, products, own, state), None);
        }
        let sums = writer.node("Add", &[products, own], &[]);
        let Some(cell) = cell else {
            return (writer.node("Tanh", &[sums], &[]), None);
        };
        let gate = |writer: &mut Writer<'_>, index: usize, cell: Option<(usize, ValueId)>| {
            let mut sum = writer.slice(sums, 1, index * n, n);
            if let (Some((which, cell)), Some(peepholes)) = (cell, direction.peepholes) {
                let seen = writer.node("Mul", &[cell, peepholes[which]], &[]);
                sum = writer.node("Add", &[sum, seen], &[]);
            }
            sum
        };
        let i = gate(writer, 0, Some((0, cell)));
        let f = gate(writer, 2, Some((2, cell)));
        let c = gate(writer, 3, None);
        let [i, f] = [i, f].map(|sum| writer.node("Sigmoid", &[sum], &[]));
        let c = writer.node("Tanh", &[c], &[]);
        let kept = writer.node("Mul", &[f, cell], &[]);
        let added = writer.node("Mul", &[i, c], &[]);
        let next = writer.node("Add", &[kept, added], &[]);
        let o = gate(writer, 1, Some((1, next)));
        let o = writer.node("Sigmoid", &[o], &[]);
        let shown = writer.node("Tanh", &[next], &[]);
        (writer.node("Mul", &[o, shown], &[]), Some(next))
    }

    /// The step of a GRU, `(1 - z) n + z h`.
    fn gated(
        &self,
        writer: &mut Writer<'_>,
        direction: &DirectionWeights,
        products: ValueId,
        own: ValueId,
        state: ValueId,
    ) -> ValueId {
        let n = self.hidden;
        let gate = |writer: &mut Writer<'_>, index: usize| {
            let a = writer.slice(products, 1, index * n, n);
            let b = writer.slice(own, 1, index * n, n);
            let sum = writer.node("Add", &[a, b], &[]);
            writer.node("Sigmoid", &[sum], &[])
        };
        let (z, r) = (gate(writer, 0), gate(writer, 1));
        let hidden = if int(self.node, "linear_before_reset", 0) != 0 {
            let own = writer.slice(own, 1, 2 * n, n);
            writer.node("Mul", &[r, own], &[])
        } else {
            let reset = writer.node("Mul", &[r, state], &[]);
            let matrix = writer.slice(direction.matrices[1], 1, 2 * n, n);
            let own = writer.node("MatMul", &[reset, matrix], &[]);
            match direction.biases {
                None => own,
                Some([_, bias]) => {
                    let bias = writer.slice(bias, 0, 2 * n, n);
                    writer.node("Add", &[own, bias], &[])
                }
            }
        };
        let x = writer.slice(products, 1, 2 * n, n);
        let sum = writer.node("Add", &[x, hidden], &[]);
        let new = writer.node("Tanh", &[sum], &[]);
        let apart = writer.node("Sub", &[state, new], &[]);
        let kept = writer.node("Mul", &[z, apart], &[]);
        writer.node("Add", &[new, kept], &[])
    }

    /// All states: `[steps, directions, batch, hidden]`, or with the batch first.
    fn sequence(&self, writer: &mut Writer<'_>, all: &[Vec<ValueId>]) -> Option<ValueId> {
        let along = [("axis", Attribute::Int(0))];
        let states: Vec<ValueId> = all.iter().flatten().copied().collect();
        let rows = writer.node("Concat", &states, &along);
        let shape = [self.steps, self.directions, self.batch, self.hidden];
        let whole = writer.shaped(rows, &shape);
        Some(if self.batch_first {
            writer.transposed(whole, &[2, 0, 1, 3])
        } else {
            whole
        })
    }

    /// The last states: `[directions, batch, hidden]`, or with the batch first.
    fn ends(&self, writer: &mut Writer<'_>, states: &[ValueId]) -> Option<ValueId> {
        if states.is_empty() {
            return None;
        }
        let rows = writer.node("Concat", states, &[("axis", Attribute::Int(0))]);
        let whole = writer.shaped(rows, &[self.directions, self.batch, self.hidden]);
        Some(if self.batch_first {
            writer.transposed(whole, &[1, 0, 2])
        } else {
            whole
        })
    }
}

/// Whether the functions that a node names are those that it would have without.
fn usual_functions(node: &Node) -> bool {
    let expected: &[&[u8]] = match node.op.as_str() {
        "RNN" => &[b"Tanh"],
        "GRU" => &[b"Sigmoid", b"Tanh"],
        _ => &[b"Sigmoid", b"Tanh", b"Tanh"],
    };
    let others = ["activation_alpha", "activation_beta", "clip"];
    if others
        .iter()
        .any(|name| node.attributes.contains_key(*name))
    {
        return false;
    }
    match node.attributes.get("activations") {
        None => true,
        Some(Attribute::Texts(texts)) => texts
            .chunks(expected.len())
            .all(|texts| texts.iter().map(Vec::as_slice).eq(expected.iter().copied())),
        Some(_) => false,
    }
}

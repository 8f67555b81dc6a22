//! LSTM and GRU as the operators of each step: products with constant matrices, sums, gates.

use super::edit::{VERSION, constant, input, int, int_constant};
use super::{Fact, PrepareError};
use std::collections::BTreeMap;
use tg_float::{Attribute, Graph, Node, ValueId, convert};

/// Most steps that are unrolled: a program has a few thousand nodes.
const STEPS_MAX: usize = 512;

/// Unrolls every recurrent node; whether there was one.
pub(super) fn unroll(
    graph: &mut Graph,
    facts: &BTreeMap<ValueId, Fact>,
) -> Result<bool, PrepareError> {
    let mut changed = false;
    let nodes = std::mem::take(&mut graph.nodes);
    for node in nodes {
        if !(node.is("LSTM") || node.is("GRU")) {
            graph.nodes.push(node);
            continue;
        }
        changed = true;
        let written = Unrolling::new(graph, &node, facts)
            .and_then(Unrolling::write)
            .map_err(|reason| PrepareError::Node {
                node: node.name.clone(),
                op: node.op.clone(),
                reason,
            })?;
        graph.nodes.extend(written);
    }
    Ok(changed)
}

type Refusal = &'static str;

struct Unrolling<'a> {
    graph: &'a mut Graph,
    node: &'a Node,
    written: Vec<Node>,
    steps: usize,
    inputs: usize,
    hidden: usize,
    directions: usize,
    names: usize,
}

/// One direction's constants.
struct Direction {
    /// `[inputs][gates * hidden]`.
    weights: ValueId,
    /// `[hidden][gates * hidden]`.
    recurrence: ValueId,
    /// Of the input's products, and of the state's, `[gates * hidden]`.
    bias: [Vec<f32>; 2],
    state: Option<ValueId>,
    cell: Option<ValueId>,
    reverse: bool,
}

impl<'a> Unrolling<'a> {
    fn new(
        graph: &'a mut Graph,
        node: &'a Node,
        facts: &BTreeMap<ValueId, Fact>,
    ) -> Result<Self, Refusal> {
        let shape = input(node, 0)
            .and_then(|value| facts.get(&value))
            .map(|f| f.shape.as_slice());
        let Some(&[steps, 1, inputs]) = shape else {
            return Err("only a batch of one sequence is unrolled");
        };
        let recurrence = input(node, 2).and_then(|value| facts.get(&value));
        let Some(&[directions, _, hidden]) = recurrence.map(|f| f.shape.as_slice()) else {
            return Err("its recurrence weights are not a constant with three axes");
        };
        if steps > STEPS_MAX {
            return Err("it has more steps than are unrolled");
        }
        let plain = ["activations", "activation_alpha", "clip", "input_forget"];
        if plain.iter().any(|name| node.attributes.contains_key(*name))
            && !default_activations(node)
        {
            return Err("only the default activations are taken");
        }
        if int(node, "layout", 0) != 0 || input(node, 7).is_some() {
            return Err("neither the batch-first layout nor peepholes are taken");
        }
        Ok(Self {
            graph,
            node,
            written: Vec::new(),
            steps,
            inputs,
            hidden,
            directions,
            names: 0,
        })
    }

    fn write(mut self) -> Result<Vec<Node>, Refusal> {
        let lstm = self.node.op == "LSTM";
        let x = input(self.node, 0).ok_or("it lacks an input")?;
        let shape = [self.steps as i64, self.inputs as i64];
        let x = self.reshape(x, &shape);
        let mut all = Vec::new();
        let mut last = Vec::new();
        let mut cells = Vec::new();
        for index in 0..self.directions {
            let direction = self.direction(index)?;
            let (outputs, cell) = if lstm {
                self.lstm(x, &direction)
            } else {
                self.gru(x, &direction)
            };
            let end = if direction.reverse {
                outputs.first()
            } else {
                outputs.last()
            };
            last.push(*end.ok_or("it has no steps")?);
            cells.extend(cell);
            all.push(outputs);
        }
        self.finish(&all, &last, &cells);
        Ok(self.written)
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("{}.{}", self.node.name, self.names)
    }

    fn node(&mut self, op: &str, inputs: &[ValueId]) -> ValueId {
        let name = self.name();
        let value = self.graph.fresh(name.clone());
        self.written
            .push(Node::new(&name, op, VERSION, inputs.to_vec(), vec![value]));
        value
    }

    fn reshape(&mut self, value: ValueId, shape: &[i64]) -> ValueId {
        let name = self.name();
        let shape = int_constant(self.graph, &name, shape.to_vec());
        self.node("Reshape", &[value, shape])
    }

    /// Elements `from` to `to` along an axis.
    fn slice(&mut self, value: ValueId, axis: i64, from: usize, to: usize) -> ValueId {
        let name = self.name();
        let ends = [from as i64, to as i64, axis];
        let [from, to, axis] = ends.map(|end| int_constant(self.graph, &name, vec![end]));
        self.node("Slice", &[value, from, to, axis])
    }

    fn concat(&mut self, values: &[ValueId], axis: i64) -> ValueId {
        let value = self.node("Concat", values);
        if let Some(node) = self.written.last_mut() {
            node.attributes
                .insert("axis".to_owned(), Attribute::Int(axis));
        }
        value
    }

    fn constant_of(&self, index: usize) -> Result<Option<Vec<f32>>, Refusal> {
        let Some(value) = input(self.node, index) else {
            return Ok(None);
        };
        let tensor = self
            .graph
            .constants
            .get(&value)
            .ok_or("its weights are not constant")?;
        Ok(convert::to_f32(tensor.data()))
    }

    fn direction(&mut self, index: usize) -> Result<Direction, Refusal> {
        let gates = if self.node.op == "LSTM" { 4 } else { 3 };
        let width = gates * self.hidden;
        let weights = self.constant_of(1)?.ok_or("it lacks weights")?;
        let recurrence = self.constant_of(2)?.ok_or("it lacks weights")?;
        let bias = self
            .constant_of(3)?
            .unwrap_or_else(|| vec![0.0; self.directions * 2 * width]);
        let part = |values: &[f32], columns: usize| {
            let own = &values[index * width * columns..][..width * columns];
            let mut turned = vec![0.0; own.len()];
            for (at, &value) in own.iter().enumerate() {
                turned[at % columns * width + at / columns] = value;
            }
            turned
        };
        let w = part(&weights, self.inputs);
        let r = part(&recurrence, self.hidden);
        let name = format!("{}.weights{index}", self.node.name);
        let weights = constant(self.graph, &name, vec![self.inputs, width], w);
        let name = format!("{}.recurrence{index}", self.node.name);
        let recurrence = constant(self.graph, &name, vec![self.hidden, width], r);
        let own = &bias[index * 2 * width..][..2 * width];
        let reverse = match self.node.attributes.get("direction") {
            Some(Attribute::Text(text)) => text == b"reverse" || index == 1,
            _ => false,
        };
        Ok(Direction {
            weights,
            recurrence,
            bias: [own[..width].to_vec(), own[width..].to_vec()],
            state: self.initial(5, index),
            cell: if gates == 4 {
                self.initial(6, index)
            } else {
                None
            },
            reverse,
        })
    }

    /// The initial state of a direction; nothing if it is zero.
    fn initial(&mut self, slot: usize, index: usize) -> Option<ValueId> {
        let value = input(self.node, slot)?;
        let zero = self
            .graph
            .constants
            .get(&value)
            .and_then(|t| convert::to_f32(t.data()));
        if zero.is_some_and(|values| values.iter().all(|&v| v == 0.0)) {
            return None;
        }
        let own = self.slice(value, 0, index, index + 1);
        Some(self.reshape(own, &[1, self.hidden as i64]))
    }

    fn bias_constant(&mut self, values: Vec<f32>) -> ValueId {
        let name = self.name();
        constant(self.graph, &name, vec![values.len()], values)
    }

    fn order(&self, direction: &Direction) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.steps).collect();
        if direction.reverse {
            order.reverse();
        }
        order
    }

    /// Outputs by step, and the last cell. Gates lie in the order input, output, forget, cell.
    fn lstm(&mut self, x: ValueId, direction: &Direction) -> (Vec<ValueId>, Option<ValueId>) {
        let h = self.hidden;
        let product = self.node("MatMul", &[x, direction.weights]);
        let sums = direction.bias[0]
            .iter()
            .zip(&direction.bias[1])
            .map(|(a, b)| a + b);
        let bias = self.bias_constant(sums.collect());
        let projected = self.node("Add", &[product, bias]);
        let (mut state, mut cell) = (direction.state, direction.cell);
        let mut outputs = vec![x; self.steps];
        for step in self.order(direction) {
            let mut gates = self.slice(projected, 0, step, step + 1);
            if let Some(state) = state {
                let fed_back = self.node("MatMul", &[state, direction.recurrence]);
                gates = self.node("Add", &[gates, fed_back]);
            }
            let [i, o, f, g] =
                [0, 1, 2, 3].map(|gate| self.slice(gates, 1, gate * h, (gate + 1) * h));
            let [i, o] = [i, o].map(|gate| self.node("Sigmoid", &[gate]));
            let g = self.node("Tanh", &[g]);
            let mut next = self.node("Mul", &[i, g]);
            if let Some(cell) = cell {
                let f = self.node("Sigmoid", &[f]);
                let kept = self.node("Mul", &[f, cell]);
                next = self.node("Add", &[kept, next]);
            }
            let shown = self.node("Tanh", &[next]);
            let output = self.node("Mul", &[o, shown]);
            outputs[step] = output;
            (state, cell) = (Some(output), Some(next));
        }
        (outputs, cell)
    }

    /// Outputs by step. Gates lie in the order update, reset, hidden.
    fn gru(&mut self, x: ValueId, direction: &Direction) -> (Vec<ValueId>, Option<ValueId>) {
        let h = self.hidden;
        let after = int(self.node, "linear_before_reset", 0) != 0;
        let product = self.node("MatMul", &[x, direction.weights]);
        let [own, fed] = &direction.bias;
        // The state's bias of the hidden gate stays inside the reset if that is applied after the product.
        let joined = |at: usize| own[at] + if after && at >= 2 * h { 0.0 } else { fed[at] };
        let bias = self.bias_constant((0..3 * h).map(joined).collect());
        let inner = self.bias_constant(fed[2 * h..].to_vec());
        let projected = self.node("Add", &[product, bias]);
        let apart = (!after).then(|| {
            let gates = self.slice(direction.recurrence, 1, 0, 2 * h);
            let hidden = self.slice(direction.recurrence, 1, 2 * h, 3 * h);
            [gates, hidden]
        });
        let mut state = direction.state;
        let mut outputs = vec![x; self.steps];
        for step in self.order(direction) {
            let row = self.slice(projected, 0, step, step + 1);
            let gates = [0, 1, 2].map(|gate| self.slice(row, 1, gate * h, (gate + 1) * h));
            let parts = (apart, inner, &direction.bias[1][2 * h..]);
            let [update, hidden] = self.gru_gates(gates, state, direction.recurrence, parts);
            let z = self.node("Sigmoid", &[update]);
            let candidate = self.node("Tanh", &[hidden]);
            // (1 - z) n + z h as n + z (h - n).
            let output = match state {
                Some(state) => {
                    let distance = self.node("Sub", &[state, candidate]);
                    let part = self.node("Mul", &[z, distance]);
                    self.node("Add", &[candidate, part])
                }
                None => {
                    let part = self.node("Mul", &[z, candidate]);
                    self.node("Sub", &[candidate, part])
                }
            };
            outputs[step] = output;
            state = Some(output);
        }
        (outputs, None)
    }

    /// The update gate and the hidden one, before their functions, with what the state feeds back.
    fn gru_gates(
        &mut self,
        [mut update, mut reset, mut hidden]: [ValueId; 3],
        state: Option<ValueId>,
        recurrence: ValueId,
        (apart, inner, bias): (Option<[ValueId; 2]>, ValueId, &[f32]),
    ) -> [ValueId; 2] {
        let h = self.hidden;
        let Some(state) = state else {
            if apart.is_none() {
                let r = self.node("Sigmoid", &[reset]);
                let name = self.name();
                let row = constant(self.graph, &name, vec![1, h], bias.to_vec());
                let fed = self.node("Mul", &[r, row]);
                hidden = self.node("Add", &[hidden, fed]);
            }
            return [update, hidden];
        };
        let weights = apart.map_or(recurrence, |[gates, _]| gates);
        let both = self.node("MatMul", &[state, weights]);
        let [z, r] = [0, 1].map(|gate| self.slice(both, 1, gate * h, (gate + 1) * h));
        update = self.node("Add", &[update, z]);
        reset = self.node("Add", &[reset, r]);
        let r = self.node("Sigmoid", &[reset]);
        let fed = match apart {
            None => {
                let own = self.slice(both, 1, 2 * h, 3 * h);
                let own = self.node("Add", &[own, inner]);
                self.node("Mul", &[r, own])
            }
            Some([_, weights]) => {
                let kept = self.node("Mul", &[r, state]);
                self.node("MatMul", &[kept, weights])
            }
        };
        [update, self.node("Add", &[hidden, fed])]
    }

    /// The node's own outputs from those of all steps.
    fn finish(&mut self, all: &[Vec<ValueId>], last: &[ValueId], cells: &[ValueId]) {
        let [steps, directions, hidden] =
            [self.steps, self.directions, self.hidden].map(|n| n as i64);
        let wanted = |index: usize| self.node.outputs.get(index).copied().flatten();
        let [whole, end, cell] = [0, 1, 2].map(wanted);
        if let Some(value) = whole {
            // [steps][directions * hidden], which is [steps][directions][1][hidden].
            let rows: Vec<ValueId> = (0..self.steps)
                .map(|step| {
                    let parts: Vec<ValueId> = all.iter().map(|outputs| outputs[step]).collect();
                    if parts.len() == 1 {
                        parts[0]
                    } else {
                        self.concat(&parts, 1)
                    }
                })
                .collect();
            let joined = self.concat(&rows, 0);
            self.give(joined, &[steps, directions, 1, hidden], value);
        }
        for (values, value) in [(last, end), (cells, cell)] {
            if let Some(value) = value
                && !values.is_empty()
            {
                let joined = if values.len() == 1 {
                    values[0]
                } else {
                    self.concat(values, 0)
                };
                self.give(joined, &[directions, 1, hidden], value);
            }
        }
    }

    fn give(&mut self, value: ValueId, shape: &[i64], result: ValueId) {
        let _ = self.reshape(value, shape);
        if let Some(node) = self.written.last_mut() {
            node.outputs = vec![Some(result)];
        }
    }
}

/// Whether the node names the activations it would have anyway.
fn default_activations(node: &Node) -> bool {
    let names: &[&[u8]] = if node.op == "LSTM" {
        &[b"sigmoid", b"tanh", b"tanh"]
    } else {
        &[b"sigmoid", b"tanh"]
    };
    let listed = match node.attributes.get("activations") {
        None => true,
        Some(Attribute::Texts(texts)) => texts
            .iter()
            .zip(names.iter().cycle())
            .all(|(text, name)| text.eq_ignore_ascii_case(name)),
        Some(_) => false,
    };
    listed && !node.attributes.contains_key("clip") && int(node, "input_forget", 0) == 0
}

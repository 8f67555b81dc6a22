//! Execution of a whole graph.

use super::broadcast::broadcast_shape;
use super::call::tensor;
use super::call::{Entry, Means};
use super::dispatch::{call_entry, lookup};
use super::error::{Budget, OpError, RunError};
use super::fuse::{Group, Layout};
use super::machine::{give, take};
use super::meter::Meter;
use super::plan::{Plan, Purpose, Step};
use super::product::Prepared;
use super::work::{self, CostedTensor};
use crate::graph::{Dim, Graph, Input, Node, ValueId};
use crate::tensor::{Data, FloatTensor, elements};
use std::collections::BTreeMap;

/// Whether an operator is known at all (with some inputs and attributes).
#[must_use]
pub fn is_known(node: &Node) -> bool {
    lookup(node).is_some()
}

/// Evaluates one node.
///
/// The results are those of the node's outputs in order; trailing ones that the node leaves out may be missing.
///
/// # Errors
/// If the operator is not supported with these inputs, or they are not valid, or the budget is not enough.
pub fn evaluate(
    node: &Node,
    inputs: &[Option<&FloatTensor>],
    budget: &Budget,
) -> Result<Vec<FloatTensor>, OpError> {
    let entry = lookup(node).ok_or(OpError::Unknown)?;
    let meter = Meter::new(budget.work);
    call_entry(entry, node, None, inputs, means(budget, &meter))
}

/// Executes a graph: the values of its outputs, in order. Values are freed after their last use.
///
/// # Errors
/// If the inputs are not those declared, or a node gives no result within the budget.
pub fn run(
    graph: &Graph,
    inputs: &[&FloatTensor],
    budget: &Budget,
) -> Result<Vec<FloatTensor>, RunError> {
    run_body(graph, inputs, budget, &Meter::new(budget.work))
}

/// This budget and meter, and bodies executed as [`run()`] executes a graph.
pub(super) const fn means<'a>(budget: &Budget, meter: &'a Meter) -> Means<'a> {
    Means {
        budget: *budget,
        meter,
        run: run_body,
    }
}

fn run_body(
    graph: &Graph,
    inputs: &[&FloatTensor],
    budget: &Budget,
    meter: &Meter,
) -> Result<Vec<FloatTensor>, RunError> {
    let plan = Plan::new(graph, Purpose::Once);
    outputs(graph, &plan, inputs, means(budget, meter))
}

/// What an execution gave and took.
#[derive(Debug, Clone, PartialEq)]
pub struct CountedRun {
    /// The values of the graph's outputs, or why there are none.
    pub result: Result<Vec<FloatTensor>, RunError>,
    /// Units of work; all of the budget's where they did not suffice.
    pub work: u64,
}

/// Executes a graph one node after the other, as the graph orders them, and counts the work: result, failure and work
/// follow from the graph, the inputs and the budget alone, whatever the machine. The outputs are those of [`run()`].
#[must_use]
pub fn run_in_order(graph: &Graph, inputs: &[&FloatTensor], budget: &Budget) -> CountedRun {
    let meter = Meter::new(budget.work);
    let result = body_in_order(graph, inputs, budget, &meter);
    CountedRun {
        result,
        work: meter.used(),
    }
}

pub(super) fn body_in_order(
    graph: &Graph,
    inputs: &[&FloatTensor],
    budget: &Budget,
    meter: &Meter,
) -> Result<Vec<FloatTensor>, RunError> {
    let plan = Plan::new(graph, Purpose::InOrder);
    let means = Means {
        budget: *budget,
        meter,
        run: body_in_order,
    };
    outputs(graph, &plan, inputs, means)
}

/// Executes a graph: every value that a node gives, by its id. Nothing is freed; the budget counts all of them.
///
/// # Errors
/// As [`run`].
pub fn run_all(
    graph: &Graph,
    inputs: &[&FloatTensor],
    budget: &Budget,
) -> Result<BTreeMap<ValueId, FloatTensor>, RunError> {
    let plan = Plan::new(graph, Purpose::EveryValue);
    let meter = Meter::new(budget.work);
    Ok(execute(graph, &plan, inputs, means(budget, &meter))?.computed)
}

/// Units of work of an execution for a purpose.
#[cfg(test)]
pub(super) fn work_of(graph: &Graph, inputs: &[&FloatTensor], purpose: Purpose) -> u64 {
    let meter = Meter::new(u64::MAX);
    let plan = Plan::new(graph, purpose);
    let result = execute(graph, &plan, inputs, means(&Budget::default(), &meter));
    assert!(result.is_ok(), "the graph runs");
    meter.used()
}

/// Executes a plan of the graph: the values of its outputs, in order.
pub(super) fn outputs(
    graph: &Graph,
    plan: &Plan,
    inputs: &[&FloatTensor],
    means: Means<'_>,
) -> Result<Vec<FloatTensor>, RunError> {
    execute(graph, plan, inputs, means)?.outputs()
}

/// What is known while a graph runs.
pub(super) struct Values<'a> {
    graph: &'a Graph,
    inputs: BTreeMap<ValueId, &'a FloatTensor>,
    pub(super) computed: BTreeMap<ValueId, FloatTensor>,
    /// Bytes of what is computed.
    pub(super) live: usize,
    means: Means<'a>,
}

impl<'a> Values<'a> {
    /// What is known before the first node.
    ///
    /// # Errors
    /// If the inputs are not those declared.
    pub(super) fn new(
        graph: &'a Graph,
        inputs: &[&'a FloatTensor],
        means: Means<'a>,
    ) -> Result<Self, RunError> {
        if inputs.len() != graph.inputs.len() {
            return Err(RunError::Inputs {
                expected: graph.inputs.len(),
                got: inputs.len(),
            });
        }
        let mut given = BTreeMap::new();
        for (declared, &tensor) in graph.inputs.iter().zip(inputs) {
            if !fits(declared, tensor) {
                return Err(RunError::Input {
                    name: declared.name.clone(),
                    got: tensor.dtype(),
                    shape: tensor.shape().to_vec(),
                });
            }
            given.insert(declared.value, tensor);
        }
        Ok(Self {
            graph,
            inputs: given,
            computed: BTreeMap::new(),
            live: 0,
            means,
        })
    }

    /// Does a step of a plan of the graph; what ends after it is still there.
    pub(super) fn step(&mut self, plan: &Plan, step: usize) -> Result<(), RunError> {
        match &plan.steps[step] {
            Step::Node {
                node,
                entry,
                added,
                gives,
                prepared,
            } => {
                let graph = self.graph;
                let added = added.map(|index| &graph.nodes[index]);
                let prepared = prepared.as_deref();
                self.node(&graph.nodes[*node], *entry, prepared, gives, added)
            }
            Step::Group(group) => self.group(group, &plan.ends[step]),
        }
    }

    /// Frees what ends after a step.
    pub(super) fn end(&mut self, plan: &Plan, step: usize) {
        for &value in &plan.ends[step] {
            self.drop(value);
        }
    }

    /// The values of the graph's outputs, in order.
    pub(super) fn outputs(&self) -> Result<Vec<FloatTensor>, RunError> {
        let outputs = self.graph.outputs.iter();
        outputs.map(|&output| self.get(output).cloned()).collect()
    }

    fn get(&self, value: ValueId) -> Result<&FloatTensor, RunError> {
        let given = || self.inputs.get(&value).copied();
        let found = self.computed.get(&value).or_else(given);
        let found = found.or_else(|| self.graph.constants.get(&value));
        found.ok_or_else(|| RunError::Value(self.graph.name_of(value).to_owned()))
    }

    /// What is left of the budget.
    fn left(&self) -> Budget {
        Budget {
            bytes: self.means.budget.bytes.saturating_sub(self.live),
            ..self.means.budget
        }
    }

    fn keep(&mut self, value: ValueId, tensor: FloatTensor) {
        // What lives before a section is as a provider says it.
        self.live = self.live.saturating_add(tensor.bytes());
        self.computed.insert(value, tensor);
    }

    fn drop(&mut self, value: ValueId) {
        if let Some(dead) = self.computed.remove(&value) {
            self.live = self.live.saturating_sub(dead.bytes());
            if let Ok(Data::F32(values)) = dead.into_unshared() {
                give(values);
            }
        }
    }

    /// Evaluates a node and keeps what it gives.
    fn node(
        &mut self,
        node: &Node,
        entry: Option<Entry>,
        prepared: Option<&Prepared>,
        gives: &[Option<ValueId>],
        added: Option<&Node>,
    ) -> Result<(), RunError> {
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for input in &node.inputs {
            inputs.push(match input {
                None => None,
                Some(value) => Some(self.get(*value)?),
            });
        }
        let means = Means {
            budget: self.left(),
            ..self.means
        };
        let results = match entry {
            Some(entry) => call_entry(entry, node, prepared, &inputs, means),
            None => Err(OpError::Unknown),
        };
        let results = results.map_err(|source| failed(node, &inputs, source))?;
        if let (Some(added), Some(product)) = (added, results.first()) {
            let charged = self.charge_bias(added, product);
            charged.map_err(|source| failed(added, &[], source))?;
        }
        for (output, result) in gives.iter().zip(results) {
            if let Some(output) = output {
                self.keep(*output, result);
            }
        }
        match gives
            .iter()
            .flatten()
            .find(|value| !self.computed.contains_key(value))
        {
            Some(&missing) => Err(RunError::Value(self.graph.name_of(missing).to_owned())),
            None => Ok(()),
        }
    }

    /// Charges a bias that its product has added.
    fn charge_bias(&self, node: &Node, product: &FloatTensor) -> Result<(), OpError> {
        let own = CostedTensor::f32(product.shape());
        let operands: Vec<Option<CostedTensor<'_>>> = node
            .reads()
            .map(|value| {
                Some(
                    self.graph
                        .constants
                        .get(&value)
                        .map_or(own, CostedTensor::of),
                )
            })
            .collect();
        let meter = self.means.meter;
        meter.charge(work::of_node(node, &operands))?;
        meter.admit(product.len())?;
        meter.charge(own.units())
    }

    /// Charges the nodes of a group one after the other, as if each were evaluated.
    fn charge_group(&self, group: &Group, reads: &[&FloatTensor]) -> Result<(), RunError> {
        let known = group.reads.iter().zip(reads);
        let mut shapes: BTreeMap<ValueId, Vec<usize>> = known
            .map(|(&value, tensor)| (value, tensor.shape().to_vec()))
            .collect();
        let meter = self.means.meter;
        for &index in &group.nodes {
            let node = &self.graph.nodes[index];
            let mut operands = Vec::with_capacity(node.inputs.len());
            for value in node.reads() {
                operands.push(match shapes.get(&value) {
                    Some(shape) => Some(CostedTensor::f32(shape)),
                    // The exponent of a square, which a group does not read.
                    None => Some(CostedTensor::of(self.get(value)?)),
                });
            }
            let own: Vec<&[usize]> = operands.iter().flatten().map(|own| own.shape).collect();
            let charged = broadcast_shape(&own).and_then(|shape| {
                meter.charge(work::of_node(node, &operands))?;
                meter.admit(elements(&shape).unwrap_or(usize::MAX))?;
                meter.charge(CostedTensor::f32(&shape).units())?;
                Ok(shape)
            });
            let shape = charged.map_err(|source| failed(node, &[], source))?;
            shapes.extend(node.gives().map(|value| (value, shape.clone())));
        }
        Ok(())
    }

    /// Runs a group: joined if types and shapes allow it, else node by node. `ends`: what nobody needs afterwards.
    fn group(&mut self, group: &Group, ends: &[ValueId]) -> Result<(), RunError> {
        let reads: Result<Vec<&FloatTensor>, RunError> =
            group.reads.iter().map(|&value| self.get(value)).collect();
        let reads = reads?;
        let Some(layout) = group.layout(&reads) else {
            for &index in &group.nodes {
                let node = &self.graph.nodes[index];
                self.node(node, lookup(node), None, &node.outputs, None)?;
            }
            return Ok(());
        };
        self.charge_group(group, &reads)?;
        let last = group.nodes.last().map(|&index| &self.graph.nodes[index]);
        let last = last.expect("a group has a node");
        let (in_place, mut out) = match self.place(group, &layout, ends) {
            Some((read, values)) => (Some(read), values),
            None => {
                let (bytes, left) = (layout.count.saturating_mul(4), self.left().bytes);
                if bytes > left {
                    return Err(failed(last, &[], OpError::Memory { bytes, left }));
                }
                (None, take(layout.count))
            }
        };
        let mut reads: Vec<&[f32]> = Vec::with_capacity(group.reads.len());
        for (read, &value) in group.reads.iter().enumerate() {
            let values = match in_place {
                Some(place) if place == read => None,
                _ => self.get(value)?.values(),
            };
            reads.push(values.unwrap_or(&[]));
        }
        group.run(&layout, &reads, in_place, &mut out);
        let result = tensor(layout.shape, Data::F32(out));
        let result = result.map_err(|source| failed(last, &[], source))?;
        for value in last.gives() {
            self.keep(value, result.clone());
        }
        Ok(())
    }

    /// A value that ends here, is read by the group and has the result's size: its number, and its elements, taken.
    fn place(
        &mut self,
        group: &Group,
        layout: &Layout,
        ends: &[ValueId],
    ) -> Option<(usize, Vec<f32>)> {
        for (read, value) in group.reads.iter().enumerate() {
            if !layout.is_full(read) || !ends.contains(value) {
                continue;
            }
            let Some(tensor) = self.computed.remove(value) else {
                continue;
            };
            let bytes = tensor.bytes();
            match tensor.into_unshared() {
                Ok(Data::F32(values)) => {
                    self.live = self.live.saturating_sub(bytes);
                    return Some((read, values));
                }
                Ok(_) => {}
                Err(shared) => {
                    self.computed.insert(*value, shared);
                }
            }
        }
        None
    }
}

fn execute<'a>(
    graph: &'a Graph,
    plan: &Plan,
    inputs: &[&'a FloatTensor],
    means: Means<'a>,
) -> Result<Values<'a>, RunError> {
    let mut values = Values::new(graph, inputs, means)?;
    for step in 0..plan.steps.len() {
        values.step(plan, step)?;
        values.end(plan, step);
    }
    Ok(values)
}

/// Whether a tensor has the declared type, number of axes and fixed sizes.
fn fits(declared: &Input, tensor: &FloatTensor) -> bool {
    let size = |(axis, &size): (&Dim, &usize)| match axis {
        Dim::Known(known) => *known == size,
        Dim::Named(_) | Dim::Unknown => true,
    };
    declared.dtype.is_none_or(|dtype| dtype == tensor.dtype())
        && declared.shape.as_ref().is_none_or(|shape| {
            shape.len() == tensor.rank() && shape.iter().zip(tensor.shape()).all(size)
        })
}

fn failed(node: &Node, inputs: &[Option<&FloatTensor>], source: OpError) -> RunError {
    RunError::Node {
        node: node.name.clone(),
        op: node.op.clone(),
        inputs: describe(inputs),
        source,
    }
}

fn describe(inputs: &[Option<&FloatTensor>]) -> String {
    let one = |input: &Option<&FloatTensor>| match input {
        None => "-".to_owned(),
        Some(tensor) => format!("{:?}{:?}", tensor.dtype(), tensor.shape()),
    };
    inputs.iter().map(one).collect::<Vec<_>>().join(" ")
}

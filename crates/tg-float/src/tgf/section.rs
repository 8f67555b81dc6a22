//! An execution in the order of the graph, seen node by node, and parts of one from values that are given.

use super::call::Means;
use super::error::{Budget, RunError};
use super::meter::Meter;
use super::plan::{Plan, Purpose};
use super::run::{CountedRun, Values, body_in_order};
use crate::graph::{Graph, ValueId};
use crate::tensor::FloatTensor;
use std::collections::BTreeMap;
use std::ops::Range;

/// What a node gave, before anything is freed.
#[derive(Debug)]
pub(crate) struct NodeSeen<'a> {
    /// Its index.
    pub(crate) node: usize,
    /// The values that it gives, in its order.
    pub(crate) gave: Vec<(ValueId, &'a FloatTensor)>,
    /// Units of work of the execution, this node's among them.
    pub(crate) work: u64,
}

/// Where a part of an execution begins; by default at the beginning.
#[derive(Debug, Clone, Default)]
pub(crate) struct SectionStart {
    /// What its nodes read of what nodes before it gave.
    pub(crate) values: BTreeMap<ValueId, FloatTensor>,
    /// Bytes of all that nodes before it gave and that is needed from there on.
    pub(crate) live: usize,
    /// Units of work of the nodes before it.
    pub(crate) work: u64,
}

/// Executes a graph as [`super::run_in_order`], and shows what each node gave.
pub(crate) fn run_watched(
    graph: &Graph,
    inputs: &[&FloatTensor],
    budget: &Budget,
    see: &mut dyn FnMut(&NodeSeen<'_>),
) -> CountedRun {
    let meter = Meter::new(budget.work);
    let result = watched(graph, inputs, means(budget, &meter), see);
    CountedRun {
        result,
        work: meter.used(),
    }
}

fn watched(
    graph: &Graph,
    inputs: &[&FloatTensor],
    means: Means<'_>,
    see: &mut dyn FnMut(&NodeSeen<'_>),
) -> Result<Vec<FloatTensor>, RunError> {
    let plan = Plan::new(graph, Purpose::InOrder);
    let mut values = Values::new(graph, inputs, means)?;
    for node in 0..graph.nodes.len() {
        step(graph, &plan, &mut values, node, means.meter, see)?;
    }
    values.outputs()
}

/// What came of a part of an execution.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SectionRun {
    /// That all of its nodes gave something, or why one did not; a value that the beginning lacks is a reason.
    pub(crate) result: Result<(), RunError>,
    /// Units of work of the execution then, what was taken before it among them.
    pub(crate) work: u64,
}

/// Executes the nodes of a section as an execution of the whole graph does that has these values where the section begins, until
/// `goes_on` says no.
pub(crate) fn run_section(
    graph: &Graph,
    inputs: &[&FloatTensor],
    budget: &Budget,
    (nodes, start): (Range<usize>, SectionStart),
    goes_on: &mut dyn FnMut(&NodeSeen<'_>) -> bool,
) -> SectionRun {
    let meter = Meter::resumed(budget.work, start.work);
    let known = Values::new(graph, inputs, means(budget, &meter));
    let result = known.and_then(|mut values| {
        values.computed = start.values;
        values.live = start.live;
        steps(graph, &mut values, nodes, &meter, goes_on)
    });
    SectionRun {
        result,
        work: meter.used(),
    }
}

fn steps(
    graph: &Graph,
    values: &mut Values<'_>,
    nodes: Range<usize>,
    meter: &Meter,
    goes_on: &mut dyn FnMut(&NodeSeen<'_>) -> bool,
) -> Result<(), RunError> {
    if nodes.is_empty() {
        return Ok(());
    }
    let plan = Plan::new(graph, Purpose::InOrder);
    let mut is_going_on = true;
    for node in nodes {
        step(graph, &plan, values, node, meter, &mut |seen| {
            is_going_on = goes_on(seen);
        })?;
        if !is_going_on {
            break;
        }
    }
    Ok(())
}

/// Evaluates a node, shows what it gave and frees what ends after it. In order a step of the plan is a node.
fn step(
    graph: &Graph,
    plan: &Plan,
    values: &mut Values<'_>,
    node: usize,
    meter: &Meter,
    see: &mut dyn FnMut(&NodeSeen<'_>),
) -> Result<(), RunError> {
    values.step(plan, node)?;
    let gives = graph.nodes[node].gives();
    let gave = gives.filter_map(|value| Some((value, values.computed.get(&value)?)));
    see(&NodeSeen {
        node,
        gave: gave.collect(),
        work: meter.used(),
    });
    values.end(plan, node);
    Ok(())
}

/// This budget and meter, and bodies executed in order.
const fn means<'a>(budget: &Budget, meter: &'a Meter) -> Means<'a> {
    Means {
        budget: *budget,
        meter,
        run: body_in_order,
    }
}

/// Per value of a graph, the node after which nobody needs it in an execution in order; the number of nodes for what is needed until the end.
pub(crate) fn last_needed(graph: &Graph) -> Vec<usize> {
    let mut last = vec![0; graph.names.len()];
    for (node, it) in graph.nodes.iter().enumerate() {
        for value in it.reads().chain(it.gives()) {
            last[value.index()] = node;
        }
    }
    for output in &graph.outputs {
        last[output.index()] = graph.nodes.len();
    }
    last
}

//! Execution of a whole graph.

use super::{Budget, OpError, evaluate};
use crate::net::graph::{Dim, Graph, Input, Node, ValueId};
use crate::net::tensor::{DType, Tensor};
use std::collections::BTreeMap;

/// Why a graph gives no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// Another number of inputs than the graph has.
    #[error("the graph takes {expected} inputs, {got} are given")]
    Inputs {
        /// Inputs of the graph.
        expected: usize,
        /// Given.
        got: usize,
    },
    /// An input of another type or shape than declared.
    #[error("the input `{name}` is declared otherwise than {got:?} {shape:?}")]
    Input {
        /// Its name.
        name: String,
        /// The given type.
        got: DType,
        /// The given shape.
        shape: Vec<usize>,
    },
    /// A node that gives no result.
    #[error("node `{node}` ({op}, inputs {inputs})")]
    Node {
        /// Its name.
        node: String,
        /// Its operator.
        op: String,
        /// Types and shapes of its inputs.
        inputs: String,
        /// Why.
        #[source]
        source: OpError,
    },
    /// A value that is read before it is given: the graph was not checked.
    #[error("the value `{0}` is not given")]
    Value(String),
}

/// Executes a graph: the values of its outputs, in order. Values are freed after their last use.
///
/// # Errors
/// If the inputs are not those declared, or a node gives no result within the budget.
pub fn run(graph: &Graph, inputs: &[&Tensor], budget: &Budget) -> Result<Vec<Tensor>, RunError> {
    let last = last_uses(graph);
    let mut values = execute(graph, inputs, budget, Some(&last))?;
    let mut left: BTreeMap<ValueId, usize> = BTreeMap::new();
    for output in &graph.outputs {
        *left.entry(*output).or_default() += 1;
    }
    let mut results = Vec::with_capacity(graph.outputs.len());
    for output in &graph.outputs {
        let uses = left.entry(*output).or_default();
        *uses -= 1;
        let owned = if *uses == 0 {
            values.computed.remove(output)
        } else {
            values.computed.get(output).cloned()
        };
        let value = owned.or_else(|| values.given(*output).cloned());
        results.push(value.ok_or_else(|| RunError::Value(graph.name_of(*output).to_owned()))?);
    }
    Ok(results)
}

/// Executes a graph: every value that a node gives, by its id. Nothing is freed; the budget counts all of them.
///
/// # Errors
/// As [`run`].
pub fn run_all(
    graph: &Graph,
    inputs: &[&Tensor],
    budget: &Budget,
) -> Result<BTreeMap<ValueId, Tensor>, RunError> {
    Ok(execute(graph, inputs, budget, None)?.computed)
}

/// What is known while a graph runs.
struct Values<'a> {
    graph: &'a Graph,
    inputs: BTreeMap<ValueId, &'a Tensor>,
    computed: BTreeMap<ValueId, Tensor>,
}

impl Values<'_> {
    fn given(&self, value: ValueId) -> Option<&Tensor> {
        let input = self.inputs.get(&value).copied();
        input.or_else(|| self.graph.constants.get(&value))
    }

    fn get(&self, value: ValueId) -> Option<&Tensor> {
        self.computed.get(&value).or_else(|| self.given(value))
    }
}

/// Per value, the last node that reads it; outputs are never freed.
fn last_uses(graph: &Graph) -> BTreeMap<ValueId, usize> {
    let mut last = BTreeMap::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        for value in node.reads().chain(node.gives()) {
            last.insert(value, index);
        }
    }
    for output in &graph.outputs {
        last.remove(output);
    }
    last
}

fn execute<'a>(
    graph: &'a Graph,
    inputs: &[&'a Tensor],
    budget: &Budget,
    last: Option<&BTreeMap<ValueId, usize>>,
) -> Result<Values<'a>, RunError> {
    if inputs.len() != graph.inputs.len() {
        return Err(RunError::Inputs {
            expected: graph.inputs.len(),
            got: inputs.len(),
        });
    }
    let mut values = Values {
        graph,
        inputs: BTreeMap::new(),
        computed: BTreeMap::new(),
    };
    for (declared, &tensor) in graph.inputs.iter().zip(inputs) {
        if !fits(declared, tensor) {
            return Err(RunError::Input {
                name: declared.name.clone(),
                got: tensor.dtype(),
                shape: tensor.shape().to_vec(),
            });
        }
        values.inputs.insert(declared.value, tensor);
    }
    let mut live = 0usize;
    for (index, node) in graph.nodes.iter().enumerate() {
        let left = Budget {
            bytes: budget.bytes.saturating_sub(live),
            ..*budget
        };
        let results = step(&values, node, &left)?;
        for (output, result) in node.outputs.iter().zip(results) {
            if let Some(output) = output {
                live += result.bytes();
                values.computed.insert(*output, result);
            }
        }
        if let Some(missing) = node.gives().find(|v| !values.computed.contains_key(v)) {
            return Err(RunError::Value(graph.name_of(missing).to_owned()));
        }
        let Some(last) = last else { continue };
        for value in node.reads().chain(node.gives()) {
            if last.get(&value) == Some(&index)
                && let Some(dead) = values.computed.remove(&value)
            {
                live = live.saturating_sub(dead.bytes());
            }
        }
    }
    Ok(values)
}

/// Whether a tensor has the declared type, number of axes and fixed sizes.
fn fits(declared: &Input, tensor: &Tensor) -> bool {
    let size = |(axis, &size): (&Dim, &usize)| match axis {
        Dim::Known(known) => *known == size,
        Dim::Named(_) | Dim::Unknown => true,
    };
    declared.dtype.is_none_or(|dtype| dtype == tensor.dtype())
        && declared.shape.as_ref().is_none_or(|shape| {
            shape.len() == tensor.rank() && shape.iter().zip(tensor.shape()).all(size)
        })
}

fn step(values: &Values<'_>, node: &Node, budget: &Budget) -> Result<Vec<Tensor>, RunError> {
    let mut inputs = Vec::with_capacity(node.inputs.len());
    for input in &node.inputs {
        inputs.push(match input {
            None => None,
            Some(value) => {
                let name = || RunError::Value(values.graph.name_of(*value).to_owned());
                Some(values.get(*value).ok_or_else(name)?)
            }
        });
    }
    evaluate(node, &inputs, budget).map_err(|source| RunError::Node {
        node: node.name.clone(),
        op: node.op.clone(),
        inputs: describe(&inputs),
        source,
    })
}

fn describe(inputs: &[Option<&Tensor>]) -> String {
    let one = |input: &Option<&Tensor>| match input {
        None => "-".to_owned(),
        Some(tensor) => format!("{:?}{:?}", tensor.dtype(), tensor.shape()),
    };
    inputs.iter().map(one).collect::<Vec<_>>().join(" ")
}

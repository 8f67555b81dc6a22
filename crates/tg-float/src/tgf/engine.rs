//! Runs of one graph many times, prepared once.

use super::error::Budget;
use super::error::RunError;
use super::machine::Machine;
use super::meter::Meter;
use super::plan::{Plan, Purpose, Step};
use super::run::{CountedRun, means, outputs};
use crate::graph::Graph;
use crate::tensor::FloatTensor;
use tg_exec::kernels::Cpu;

/// A graph made ready to run: constant right factors are packed (which takes about their memory again), operators that
/// go element by element are joined, and memory of values is kept for the values and runs to come.
///
/// The outputs are those of [`super::run()`], bit for bit, at every level of the processor and for every number of
/// threads.
#[derive(Debug)]
pub struct Engine {
    graph: Graph,
    plan: Plan,
    machine: Machine,
}

impl Engine {
    /// Prepares a graph.
    #[must_use]
    pub fn new(graph: Graph, cpu: Cpu) -> Self {
        Self {
            plan: Plan::new(&graph, Purpose::Often),
            graph,
            machine: Machine::new(cpu, 0),
        }
    }

    /// The graph as it was given.
    #[must_use]
    pub const fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The processor in use.
    #[must_use]
    pub fn cpu(&self) -> &Cpu {
        self.machine.cpu()
    }

    /// Steps of one run; fewer than the graph's nodes where nodes are joined.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.plan.steps.len()
    }

    /// Products whose right factor is packed.
    #[must_use]
    pub fn packed(&self) -> usize {
        let packed = |step: &&Step| {
            matches!(
                step,
                Step::Node {
                    prepared: Some(_),
                    ..
                }
            )
        };
        self.plan.steps.iter().filter(packed).count()
    }

    /// The outputs, in order. Values take at most the budget; as much again at most is kept for values to come.
    ///
    /// # Errors
    /// If the inputs are not those declared, or a node gives no result within the budget.
    pub fn run(
        &mut self,
        inputs: &[&FloatTensor],
        budget: &Budget,
    ) -> Result<Vec<FloatTensor>, RunError> {
        self.execute(inputs, budget).result
    }

    /// The same with the work it took, which is that of [`super::run_in_order`]. Where a run fails, which node fails first, and
    /// so the work, may be another: joined nodes run together.
    pub fn execute(&mut self, inputs: &[&FloatTensor], budget: &Budget) -> CountedRun {
        let Self {
            graph,
            plan,
            machine,
        } = self;
        machine.limit_spare(budget.bytes);
        let meter = Meter::new(budget.work);
        let result = machine.install(|| outputs(graph, plan, inputs, means(budget, &meter)));
        CountedRun {
            result,
            work: meter.used(),
        }
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;

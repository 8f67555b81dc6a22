//! Where something is noted: at a node, or beside the nodes.

use tg_ir::Program;

/// The places of a program.
#[derive(Debug, Clone, Copy)]
pub(super) struct WalkPlaces {
    nodes: usize,
}

impl WalkPlaces {
    /// Of a program: its nodes come first.
    pub(super) const fn of(program: &Program) -> Self {
        Self {
            nodes: program.nodes.len(),
        }
    }

    /// Of the statement's output.
    pub(super) const fn output(self) -> usize {
        self.nodes
    }

    /// Of the statement's input.
    pub(super) const fn input(self) -> usize {
        self.nodes + 1
    }

    /// Of the salts of commitments that the statement names.
    pub(super) const fn salts(self) -> usize {
        self.nodes + 2
    }

    /// Of the lookup argument, and of what shows the commitments of the statement.
    pub(super) const fn lookup(self) -> usize {
        self.nodes + 3
    }

    /// What stands at a place that is no node's.
    pub(super) const fn name(self, place: usize) -> &'static str {
        match place - self.nodes {
            0 => "output",
            1 => "input",
            2 => "salts",
            _ => "lookup argument",
        }
    }

    /// How many there are.
    pub(super) const fn count(self) -> usize {
        self.nodes + 4
    }
}

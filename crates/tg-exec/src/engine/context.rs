//! What a step is made ready and runs with.

use super::values::Reads;
use crate::kernels::{Cpu, Scratch};
use tg_ir::Requantise;

/// What a step runs with.
pub(super) struct Context<'a> {
    pub cpu: &'a Cpu,
    pub scratch: &'a mut Scratch,
    pub reads: Reads<'a>,
}

/// The requantisation and channels of a fused node.
pub(super) type Finish<'a> = Option<&'a Requantise>;

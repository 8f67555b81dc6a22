//! Machines and what is free on them.
//!
//! [`spec`] says what a machine has and what a request needs, [`filter`] finds the machines whose fixed attributes
//! satisfy a request, [`state`] keeps what is free and never lets it go below zero.

pub mod filter;
pub mod spec;
pub mod state;

pub(crate) use filter::Kind;
pub use filter::{KindIndex, KindSet};
pub use spec::{
    DeviceDemand, GPUS_PER_NODE_MAX, Gpu, Interconnect, Isolation, ModelSet, Needs, NodeSpec,
    Request, RequestError, Sharing, WHOLE_GPU,
};
pub use state::{
    AllocateError, Allocation, Cluster, Grant, NodeFree, NodeIndex, TIME_SLICE_PERIOD_US,
};

//! Validators as a whole: on tokio with TCP and disks, and in simulations with a faulty one among them.
#![allow(clippy::unwrap_used, reason = "tests")]

mod evidence;
mod network;
mod restart;
mod simulation;
mod support;
mod work;

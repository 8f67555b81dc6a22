//! Validators as a whole: on tokio with TCP and disks, and in simulations with a faulty one among them.
#![allow(clippy::unwrap_used, reason = "tests")]

mod alone;
mod blobs;
mod clock;
mod committee;
mod counted_dispute;
mod delivery;
mod dispute;
mod evidence;
mod float_dispute;
mod floats;
mod follow;
mod joining;
mod light;
mod network;
mod optimistic;
mod program_dispute;
mod programs;
mod recovery;
mod replicas;
mod restart;
mod retention;
mod sealed;
mod simulation;
mod support;
mod torsion;
mod upgrade;
mod whole;
mod work;

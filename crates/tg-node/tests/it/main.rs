//! Validators over loopback TCP, on disk, with real consensus.
#![allow(clippy::unwrap_used, reason = "tests")]

mod network;

//! The shipped models through the whole pipeline.
#![allow(clippy::unwrap_used, reason = "tests")]

mod shipped;

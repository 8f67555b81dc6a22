//! The client against a server that answers whatever the test says, over real sockets.
#![allow(clippy::unwrap_used, reason = "tests")]

mod client;
mod downloads;
mod forged;
mod gateway;
mod uploads;
mod wire;

//! A handful of seeds, the ones that ever failed, and mistakes that must be found.
#![allow(clippy::unwrap_used, reason = "tests")]

mod canaries;
mod cheats;
mod seeds;

//! The seed of Proof of Sync: a threshold signature over a height by a key that no single validator has.
//!
//! - `view`: what the machine is told and wants done
//! - `outcome`: the key that logs of dealings make
//! - `signature`: seeds and their check
//! - `machine`: the machine of one validator, without I/O

mod active;
mod dealer;
mod kept;
mod machine;
mod outcome;
mod partials;
mod player;
mod round;
mod signature;
mod view;

pub use machine::SeedMachine;
pub use outcome::{DealingError, DealingsError, check_dealing, dealing_bytes_max, key_of_dealings};
pub use signature::verify_seed;
pub use view::{NoShare, SeedEffect, SeedPhase, SeedRefusal, SeedStanding, SeedView};

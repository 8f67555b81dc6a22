//! Models and proofs without a grid: [`compile`], [`run`], [`prove`], [`verify`], [`bench`], placing a trace
//! ([`market`]), and the files they share
//! ([`files`]).

pub(crate) mod bench;
pub(crate) mod compile;
pub(crate) mod files;
pub(crate) mod market;
pub(crate) mod prove;
pub(crate) mod run;
pub(crate) mod verify;

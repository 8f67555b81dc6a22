//! Models and proofs without a grid: [`compile`], [`run`], [`prove`], [`verify`], [`bench`], what there is to compute with ([`device`]), and the files they share
//! ([`files`]).

pub(crate) mod bench;
pub(crate) mod compile;
pub(crate) mod device;
pub(crate) mod files;
pub(crate) mod prove;
pub(crate) mod run;
pub(crate) mod verify;

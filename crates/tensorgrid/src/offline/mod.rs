//! Models and proofs without a grid: [`compile`], [`run`], [`prove`], [`verify`], [`bench`] with its [`suite`], and the files they share
//! ([`files`]).

pub(crate) mod bench;
pub(crate) mod compile;
pub(crate) mod files;
pub(crate) mod prove;
pub(crate) mod run;
pub(crate) mod suite;
mod suite_page;
pub(crate) mod verify;

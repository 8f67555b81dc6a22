//! Models and proofs without a grid: [`compile`], [`run`], [`generate`], [`prove`], [`verify`], `bench` with its [`suite`] and [`bench_run`], programs ([`program`]), what
//! there is to compute with ([`device`], [`device_check`], [`execution`]), placing a trace ([`market`]), whole grids from seeds ([`sim`]), the steps of a long proof ([`partial`]), what proofs show ([`modes`]), the files they share ([`files`]), texts as inputs ([`text`]), and scripts and pages for shells ([`shell`]).

pub(crate) mod answer;
pub(crate) mod bench;
pub(crate) mod bench_modes;
pub(crate) mod bench_run;
pub(crate) mod compile;
pub(crate) mod device;
pub(crate) mod device_check;
pub(crate) mod execution;
pub(crate) mod files;
pub(crate) mod generate;
pub(crate) mod market;
pub(crate) mod measure;
pub(crate) mod modes;
mod partial;
pub(crate) mod program;
pub(crate) mod prove;
mod repeats;
pub(crate) mod run;
pub(crate) mod shell;
pub(crate) mod sim;
pub(crate) mod suite;
mod suite_page;
mod suite_rows;
pub(crate) mod text;
pub(crate) mod verify;

//! Models and proofs without a grid: [`mod@compile`], [`run`], [`generate`], [`prove`], [`verify`], `bench` with its [`suite`],
//! [`bench_run`] and [`bench_modes`], programs ([`program`]), what there is to compute with ([`device`], [`device_check`],
//! [`execution`]), placing a trace ([`market`]), the steps of a long proof ([`partial`]), what proofs show ([`modes`]), the files they
//! share ([`models`]), texts as inputs ([`text`]), what is built in ([`bundled`]), and where large blocks of memory come from
//! ([`memory`]).

pub mod answer;
pub mod arguments;
pub mod bench;
pub mod bench_modes;
pub mod bench_run;
pub mod bundled;
pub mod compile;
pub mod device;
pub mod device_check;
pub mod execution;
pub mod generate;
pub mod market;
pub mod measure;
#[cfg(target_os = "linux")]
pub mod memory;
pub mod models;
pub mod modes;
pub mod partial;
pub mod program;
pub mod prove;
mod repeats;
pub mod run;
pub mod scratch;
pub mod suite;
mod suite_page;
mod suite_rows;
pub mod text;
pub mod verify;

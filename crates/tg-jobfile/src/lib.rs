//! Job files: YAML with SkyPilot's names and blocks of our own.
//!
//! Read in this order: [`order`] (a file becomes a command line), [`tables`] (every field and what becomes of it), [`resources`] and
//! [`accelerators`] (the machines that will do), [`envs`] (values of names), [`fields`] and [`shape`] (how blocks and values are read),
//! [`nearest`] (misspelt names), [`yaml`] and [`scalar`] (bytes become nodes with places), [`problem`] (what is wrong), [`schema`] (the JSON
//! Schema). Nothing here speaks to a grid.

mod accelerators;
mod envs;
mod fields;
mod nearest;
pub mod order;
pub mod problem;
pub mod resources;
mod scalar;
pub mod schema;
mod shape;
mod tables;
#[cfg(test)]
mod tests;
mod yaml;

pub use shape::seconds;
pub use yaml::JOB_FILE_BYTES_MAX;

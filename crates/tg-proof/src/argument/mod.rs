//! What can be shown about committed polynomials, whatever they are: openings, sums, hidden functionals, and the error of each.
//!
//! The second layer: it stands on [`crate::algebra`] alone.

pub mod ajtai;
pub mod commitment;
pub mod fractional;
pub mod hiding;
pub(crate) mod soundness;
pub mod sumcheck;

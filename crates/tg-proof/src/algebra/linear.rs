//! The public linear maps: what a claim on a node's output says about its inputs, with weights both sides compute.
//!
//! A [`Reading`] is `sum over terms t of scale_t * sum over pixels s, channels c of V_t(s, c) in_t~(s, r_e, c)` with
//! public V_t. Where a field of V_t is `eq` of a point (a channel that passes through, a rearranged claim) nothing is
//! summed over it. Convolutions, window sums, matrix products, maxima, views, gathers, concatenations, borders, sums and
//! additions all end in one.

mod maps;
mod reading;
mod rearrangement;
mod windows;

pub(crate) use maps::gathered;
pub use maps::{MapPlan, map_reading, map_shape, map_tables};
pub use reading::{Along, ReadShape, Reading, Term, Weights};
pub use rearrangement::Rearrangement;
pub(crate) use rearrangement::{SeparableMap, is_separable};
pub use windows::{ConvPoint, SourceMap, conv_reading, conv_shape, is_pointwise, window_tables};

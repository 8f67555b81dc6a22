//! The walk over the nodes, from the output to the input, and all checks of the messages of a proof.
//!
//! `walk` holds the open claims and hands each node to its gadget: `merge` (several claims become one), `products`
//! (convolutions and dense nodes), `read` (public linear maps, on which most gadgets end), `matmul` and `mul` (products
//! of two tensors), `weights` (parameters and embeddings), `requantise`, `maximum`, `staged` (all others: gadgets as data). `tensors` evaluates input and output,
//! `openings` binds what the gadgets used to the commitments; `replay` is the walk alone, for a prover that goes on after a crash.
//!
//! The fourth layer, on the plan: beside the walk the messages, the lookup argument, the registration of weights, proofs in
//! zero knowledge, and how large, how costly and how sound all of it is.

pub(crate) mod composed;
pub mod facts;
pub mod lookup;
pub mod messages;
pub mod private;
pub mod pushforward;
pub mod registration;
pub mod size;
pub(crate) mod wire;
pub mod zk;

mod argue;
mod clear;
mod error;
mod hidden;
mod matmul;
mod maximum;
mod merge;
mod mul;
mod openings;
mod places;
mod products;
mod read;
mod replay;
mod requantise;
mod staged;
mod tensors;
mod trees;
mod walk;
mod weights;

pub use crate::algebra::field::padded_point;
pub(crate) use clear::check_proof;
pub use error::{LookupCheck, NodeCheck, VerifyError};
pub use hidden::{Batch, Obligations, Walked, walk as walk_hidden};
pub use matmul::{MatMulPoint, MatMulShape};
pub(crate) use openings::{Registered, check_weights};
pub use replay::{Replayed, replay};
pub use requantise::{padded_pair, padding_pair};
pub(crate) use tensors::integers;
pub use tensors::{ShownPart, ShownTensor, evaluate_tensor, interleaved};
pub(crate) use walk::ClaimIn;
pub use walk::{BiasClaims, Claim, ColumnClaim, ShownElements, Walk, WeightClaims};
pub use weights::{token_row, token_weights};

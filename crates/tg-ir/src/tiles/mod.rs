//! Parts of an execution that are computed again: what Proof of Sync checks of a job.
//!
//! A **tile** is a leaf of 1 KiB of a node's output, one of the [`count`] tiles of a program. The provider commits to all of
//! them ([`root`]); a seed that nobody knew then draws some (`draw`); the provider opens them and all that they are computed
//! from ([`TraceOpening::of`]); whoever has the model computes every element of them again (`check`).
//!
//! What it shows. Let `c` be the commitment. `c` fixes the bytes of every tensor that can be opened, up to a collision of BLAKE3.
//! Call a tile *wrong* if one of its elements is not what its operator gives on the committed bytes of the tensors that it
//! reads (the input's are the job's). If no tile is wrong, the last tensors are the outputs of the program on the job's input, by
//! induction over the nodes; and they are the answer, as their digests are compared with it. If `w` of `N` tiles are wrong and `k`
//! are drawn without replacement after `c`, all are missed with probability `C(N-w, k) / C(N, k) <= (1 - k/N)^w`: one wrong tile
//! is found with `k/N` exactly. Tiles that were not drawn are not looked at: the answer is not proved.
//!
//! - `draw`: which tiles
//! - `opening`: what the provider shows
//! - `check`: what everybody else finds
//! - `claim`: what somebody says of a whole execution, and one tile that shows that it is wrong

mod check;
mod claim;
mod draw;
mod opening;

pub use check::{Checksum, ExecutionClaim, TileFault, check, check_one};
pub use claim::{CLAIMED_LEAVES_MAX, ReadOpening, TraceLeaves, is_refuted, widest_reads};
pub use draw::{TraceTile, count, draw, looks, macs, trace_bytes};
pub use opening::{TraceOpening, root};

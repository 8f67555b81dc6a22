//! Parts of a run that are executed again: what Proof of Sync checks of a float model.
//!
//! A **record** ([`RunRecord`]) says of each node of a run, in the graph's order, what it gave (the digest of each value, its bytes)
//! and how much work the run had taken then. The provider commits to all of it with its answer ([`FloatModel::trace`]). Nodes are cut
//! into **sections** of about equal work; a seed that nobody knew then draws some of them ([`sections`]); the provider opens what
//! these read of values that earlier nodes gave ([`FloatModel::open`]); whoever has the model executes them again ([`FloatModel::verify_trace`]).
//!
//! What it shows. Let `c` be the commitment. `c` fixes the answer and the record, and the record the bytes of every value that can be opened, up
//! to a collision of BLAKE3. Call a node *wrong* if what the record says of it is not what the tier gives for it on the recorded values that it reads, at the recorded
//! work and memory; a section is wrong if one of its nodes is. If no section is wrong, the last node's record is that of a whole run on the job's
//! input, by induction over the nodes, and the outputs of the answer are values of it, as their digests are compared. If one section of `S`
//! is wrong and `k` are drawn without replacement after `c`, it is found with `k / S`, which is at least one in [`SECTIONS_SHARE`](tg_types::sections::SECTIONS_SHARE).
//!
//! Every operator is covered alike, bodies of loops too, as a section is executed by what executes the whole. A run that does not finish,
//! of which all sections would be drawn, or whose sections read more than [`OPENED_BYTES_MAX`], is shown whole: nothing is opened, and whoever checks it runs
//! it again. Which of the two it is follows from the record.
//!
//! - `record`: what is said of each node
//! - `sections`: which nodes are executed again, and what they read
//! - `file`: what the provider shows
//! - `check`: what everybody else finds
//! - `claim`: a dispute about a run of mode `optimistic`, which the same records bring down to one node
//!
//! [`FloatModel::trace`]: super::FloatModel::trace
//! [`FloatModel::open`]: super::FloatModel::open
//! [`FloatModel::verify_trace`]: super::FloatModel::verify_trace

mod check;
mod claim;
mod file;
mod record;
pub mod sections;

#[cfg(test)]
mod tests;

pub use check::{ExpectedFloatTrace, FloatTraceFault, float_vote_on};
pub use claim::{ExpectedFloatClaim, FloatClaim, FloatFault};
pub use file::{FloatTraceFile, OpenedSections};
pub use record::{FloatTrace, NodeRecord, RunRecord, ValueRecord};
pub use sections::OPENED_BYTES_MAX;

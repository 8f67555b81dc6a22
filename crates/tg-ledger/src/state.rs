//! The state of the ledger after a block.
//!
//! A `State` is immutable: [`apply`](crate::apply()) makes the next one, and both share everything that is equal. Beside the
//! tables it has two queues and the state tree, which are derived from the tables and not encoded.

mod book;
mod book_changes;
mod codec;
mod consent_index;
mod consent_updates;
mod core;
mod cursors;
mod held_back;
mod market;
mod owed;
mod reservations;
mod retained;
mod schedule;
mod seal;
mod served;
mod stock;
mod storage;
mod sync;
mod why;

pub(crate) use consent_index::can_be_pushed_out;
pub use core::{Head, Outage, State, Totals};
pub(crate) use cursors::{Cursors, waiting_of};
pub use reservations::{HeldPlace, Reservation};
pub use retained::QuestionTask;
pub use schedule::{Schedule, SignedSeed};
pub use seal::MoneyReport;
pub(crate) use stock::put as put_in_stock;
pub(crate) use storage::Statement;
pub use storage::{AnswerLength, InputTaker, StorageTask, StoredFile};
pub use sync::{VoteDuty, VoteTask};
pub use why::{Eta, GangWhy, Relaxation, WhyWaiting};

//! The API over real sockets, in front of the real ledger.
#![allow(clippy::unwrap_used, reason = "tests")]

mod abuse;
mod blobs;
mod calls;
mod chunk_uploads;
mod dashboard;
mod document;
mod events;
mod gangs;
mod grid;
mod limits;
mod lists;
mod secure;
mod uploads;

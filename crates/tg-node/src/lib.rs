//! The validator: mempool, blocks, consensus by commonware simplex, evidence checks, storage.
//!
//! # Protocol
//!
//! A network has `n` validators; the set changes only at the end of an epoch (`term`). Fewer than a third may lie, crash
//! or be slow (`n >= 3f + 1`). Each has one ed25519 key that authenticates its connections and signs its votes; votes cover the
//! genesis id, so they mean nothing in another network. Time is divided into **views**; each view has one leader, in
//! an order that is drawn for each set of validators, and in which each leads once in `n` views (`leaders`). Consensus
//! votes on block ids only; bodies, transactions and evidence travel beside it.
//!
//! ```text
//!   client            leader of view v                 other validators
//!     | submit           |                                    |
//!     |----------------->| gossip transaction ---------------->| check, pool
//!     |                  |                                    |
//!     |                  | build block on certified parent    |
//!     |                  | write body to disk                 |
//!     |                  | push body ------------------------->| keep, or fetch by id
//!     |                  | notarize(id, v) ------------------->| execute, compare verdicts,
//!     |                  |                                    | write body to disk
//!     |                  |<------------------- notarize(id, v) |
//!     |                  | 2f+1: notarization; next view      |
//!     |                  |<------------------- finalize(id, v) |
//!     |                  | 2f+1: finalization                 |
//!     |<-- final block --| write blocks, state, certificate   | the same
//! ```
//!
//! ## Steps by event
//!
//! - **Transaction submitted**: signature and ledger rules are checked on the last final state; if it holds (or its
//!   nonce is ahead and the rest can be checked later) it enters the pool and goes once to every other validator.
//!   The validator it was submitted to repeats it every [`limits::REGOSSIP_INTERVAL`] while it waits.
//! - **Leader asked for a block**: it waits until [`limits::BLOCK_INTERVAL_BUSY`] after the parent's time if there is
//!   a transaction or a finished verdict to include, else until [`limits::BLOCK_INTERVAL_IDLE`]; then it takes
//!   transactions in order of arrival, finished verdicts up to [`limits::BLOCK_VERDICTS_MAX`], executes them, writes
//!   the body, and gives consensus the id. Block time is its clock, or one millisecond after the parent's.
//! - **Voter asked about a block**: it says *yes* when all of this holds: the body is here and is the one that the
//!   header commits to; the block executes on its parent to the state root in its header; its parent and proposer are
//!   those of the view; its time is within [`limits::CLOCK_SKEW_MAX`] of this validator's clock; each verdict is about
//!   evidence pending on the parent's state and equals the outcome of this validator's own check; the body is on
//!   disk. While its wall clock has jumped ([`clock`]) it does not vote. It says *no* only if the block can never become
//!   valid. Otherwise it **waits**: for a missing body or ancestor (asked from one peer after the other every
//!   [`limits::FETCH_RETRY`]), for its own check of the evidence, for its clock. A view that waits too long is nullified
//!   by consensus and another leader tries.
//! - **Evidence pending on an executed block**: checked off the loop by the [`EvidenceChecker`], two at a time; a
//!   missing blob is asked of the other validators (`fetch`) and the check retried. Outcomes are kept while any state asks for them.
//! - **Finalization of a block**: the way down to the last final block is completed by fetching, executed, and written
//!   in one durable transaction; then the state, the pool and subscribers move on.
//! - **Conflicting votes of one validator**: their signatures are checked and the signer is listed in
//!   [`Status::equivocators`]; its validator's account shows them to the ledger, which takes the stake ([`duties`]).
//! - **Malformed message**: the peer is blocked for an hour.
//!
//! ## Timers
//!
//! `engine::Timers`: a view without a proposal for `leader`, or without a certificate for `certification`, is
//! nullified; a leader that was silent for `skip` is skipped at once. A validator announces its final height every
//! [`limits::TIP_INTERVAL`], by which the others know that it is online. At start, consensus waits up to three seconds
//! for a quorum to be connected, since the votes of a first view without listeners would be lost.
//!
//! ## What is on disk, and when
//!
//! | what | where | before |
//! |---|---|---|
//! | own votes and certificates | commonware journal | the vote is sent |
//! | body of a block | [`store`], `bodies` | a vote for it is cast, or it is proposed |
//! | final blocks, heights, certificate, snapshot | [`store`], one transaction | anyone learns of them |
//! | blobs | [`blob`], one synced file each, in a store of each validator's own | `put` returns |
//!
//! A snapshot of the state is written every [`limits::SNAPSHOT_INTERVAL`] blocks, or less often if it is larger than they are; a restart loads it, executes the
//! final blocks after it, and compares state roots; consensus starts at the newest certificate. A validator whose journal is
//! gone abstains for a while, see [`voting`]. A process that is killed at any point finds everything that it told others.
//!
//! ## What `Finalization` means
//!
//! Two thirds of the validators signed `finalize(id, v)`, which an honest one does only after a notarization, and no
//! honest one signs both that and a nullification of `v`. So no two different blocks of one height can become final
//! while fewer than a third lie; a block and all its ancestors are final together. A **notarization** is not final:
//! a later view may leave its block behind. The ledger moves, and handles and subscribers hear, on finalization only.
//! A finalised block that does not descend from the last final one, or does not execute, proves that the bound is
//! broken: the validator stops with [`Fatal::FaultBound`].
//!
//! ## Deviations from simplex as commonware ships it
//!
//! None in voting. Certification is left at its default (always yes): a notarised body was written by at least `f + 1`
//! honest voters before they voted, so it can be fetched. Block dissemination is our own: a push by the proposer,
//! forwarding to silent voters, and a fetch of a block with its ancestors.
//!
//! # Where to look
//!
//! Suggested reading order:
//! 1. [`limits`], `peers`, [`key`] - limits; the names of validators and blocks; a validator's key
//! 2. [`wire`] - messages between validators
//! 3. [`mempool`], `submit`, `nonces` - waiting transactions, and the next nonce of an account
//! 4. [`blob`], [`store`] - files by content hash; blocks, certificates and snapshots on disk
//! 5. [`evidence`], [`checker`] - the queue of checks, and the checks themselves; `cpu` - their processor time
//! 6. `chain`, `core` - the ledger as used here, and the application as a machine without I/O; `protocol` - versions
//! 7. [`clock`], `steady` - wall time, and the clock that only counts
//! 8. `application`, [`engine`] - the loop around the machine, and all of it on any runtime
//! 9. `term`, `leaders`, `signer`, [`voting`], `faults` - who votes and leads, with which key, when, and who contradicts itself
//! 10. `fetch`, `question_reports` - blobs from other validators, and statements about what these keep
//! 11. [`duties`], [`storage`], [`liveness`], `committee`, [`seed`] - what a validator states, votes and signs beside blocks
//! 12. [`open`], [`validator`], [`handle`] - opening the data, running on tokio, and the interface for the rest of the process
//! 13. [`follow`] - a node without a vote
//! 14. `forge`, [`canary`] - hooks for the simulator
//!
//! ```no_run
//! use std::sync::Arc;
//! use tg_node::{EmbeddedConfig, ProofChecker, ValidatorKey, spawn_validators};
//!
//! # async fn start(genesis: tg_ledger::Genesis, transaction: tg_types::SignedTransaction)
//! #     -> Result<(), Box<dyn std::error::Error>> {
//! let keys = (0..4).map(ValidatorKey::from_seed).collect();
//! let config = EmbeddedConfig::new(genesis, keys, "data".into(), Arc::new(ProofChecker::default()));
//! let validators = spawn_validators(config)?;
//! let node = validators.handle(0).clone();
//! let mut blocks = node.subscribe();
//! let id = node.submit(transaction).await?;
//! let block = blocks.recv().await?;
//! println!("height {} after {id}", block.block.header.height);
//! validators.shutdown();
//! # Ok(())
//! # }
//! ```

pub mod limits;
pub mod wire;

pub mod blob;
pub mod mempool;
pub mod store;

pub mod checker;
pub mod evidence;

mod application;
pub mod canary;
mod chain;
pub mod clock;
mod committee;
mod core;
mod cpu;
pub mod duties;
pub mod engine;
mod faults;
mod fetch;
pub mod follow;
mod forge;
pub mod handle;
pub mod key;
mod leaders;
pub mod liveness;
mod nonces;
pub mod open;
mod peers;
mod protocol;
mod question_reports;
pub mod seed;
mod signer;
mod steady;
pub mod storage;
mod submit;
mod term;
pub mod validator;
pub mod voting;

pub use blob::{
    Allowance, BlobError, BlobReader, BlobStore, BlobWriter, PENDING_TIME, PartialBlob,
    PendingBlob, Stored, UploadProgress,
};
pub use checker::ProofChecker;
pub use checker::dispute::{claim_file, runs};
pub use clock::WallClock;
pub use core::Fatal;
pub use duties::perform_duties;
pub use evidence::{CheckError, EvidenceChecker};
pub use follow::{
    Beginning, ChainSource, FollowedChain, Follower, FollowerConfig, SourceError, SourceFuture,
};
pub use forge::BlockForger;
pub use handle::{Finalized, NodeHandle, Status};
pub use key::ValidatorKey;
pub use leaders::Leaders;
pub use liveness::{HeartbeatError, Watch, steady_now};
pub use mempool::{DropReason, MempoolError, TransactionStatus};
pub use peers::{Peer, Scheme};
pub use protocol::UnknownProtocol;
pub use store::{History, OpenError, StoreError};
pub use submit::SubmitError;
pub use validator::{
    EmbeddedConfig, ParseSeatAddressError, RunningValidator, Seat, SeatAddress, ValidatorConfig,
    Validators, back_up_folder, back_up_validator, create_validator, spawn_validator,
    spawn_validators,
};

//! The deterministic state machine: accounts, offers, jobs, leases, evidence, settlement and the state root.
//!
//! The ledger knows no clock, no network and no file. Time is a field of the block, and everything that has to wait for
//! something is done by other crates.
//!
//! Suggested reading order:
//! 1. [`parameters`], [`limits`] - the parameters of a network, and the limits of every network
//! 2. [`record`], [`state`] - what the ledger stores
//! 3. [`block`], [`header`], [`verdict`] - its input
//! 4. [`mod@apply`] - what a block does
//! 5. [`gas`], [`rent`] - what transactions and records cost
//! 6. [`error`] - why a transaction, a verdict or a block is refused
//! 7. [`event`], [`decision`] - its output: what happened, and what the scheduler decided
//! 8. [`journal`] - a chain that is executed again
//! 9. [`tree`], [`table`] - the state root, and how records are stored
//! 10. [`genesis`] - the first state
//! 11. [`canary`] - deliberate mistakes for tests of the simulator
//!
//! ```
//! use tg_ledger::{ConsensusKey, Genesis, Parameters, Proposal, State, Validator, apply, propose};
//! use tg_types::{Amount, TimestampMs, Wallet};
//!
//! let validator = Wallet::from_seed(b"validator");
//! let genesis = Genesis {
//!     domain: tg_ledger::development_domain(),
//!     parameters: Parameters::development(),
//!     timestamp: TimestampMs::new(1_000),
//!     accounts: vec![(Wallet::from_seed(b"alice").address(), Amount::from_tgrid(100))],
//!     validators: vec![Validator {
//!         address: validator.address(),
//!         key: ConsensusKey::new([1; 32]),
//!         stake: Amount::from_tgrid(1_000),
//!     }],
//! };
//! let state = State::genesis(&genesis)?;
//! let proposal = Proposal::empty(validator.address(), TimestampMs::new(2_000));
//! let proposed = propose(&state, proposal)?;
//! let (next, _events) = apply(&state, &proposed.block)?;
//! assert_eq!(next.root(), proposed.block.header.state_root);
//! assert!(next.money().is_conserved());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(clippy::float_arithmetic)]

pub mod apply;
pub mod block;
pub mod canary;
pub mod decision;
pub mod error;
pub mod event;
pub mod gas;
pub mod genesis;
pub mod header;
pub mod journal;
pub mod limits;
pub mod parameters;
pub mod record;
pub mod rent;
pub mod state;
pub mod table;
pub mod tree;
pub mod verdict;

#[cfg(test)]
mod tests;

pub use apply::{
    DryRun, Proposal, Proposed, TransactionSource, apply, apply_once, check_transaction, propose,
    propose_from,
};
pub use block::{Block, BlockHeader, PROTOCOL_VERSION, Reserved, seat_set_digest};
pub use decision::{Decision, schedule_root};
pub use error::{
    BlockError, EndpointProblem, InvariantError, MachineProblem, NeedsProblem, TransactionError,
    VerdictError, VoucherProblem,
};
pub use event::{BurnedBecause, Event, KeyStep, QuestionEnd};
pub use gas::{FeeMarket, Prepaid, PrepaidSubject};
pub use genesis::{Genesis, GenesisError};
pub use journal::{Entry, JournalWriter, ReplayError, Replayed, replay};
pub use limits::{REPEATED_MACS_USUAL, WHOLE_RUN_MACS_USUAL};
pub use parameters::{Parameters, StorageRule, UnverifiedJobs, development_domain};
pub use record::{
    AbandonedBecause, Account, Applicant, BadLeaseStep, Bid, ConsensusKey, Dealing, DisputeStep,
    DisputeTurn, EndReason, EndpointMeter, Evidence, GangRole, Grant, Job, JobPhase, JobState,
    KeptStage, LatePhase, Lease, LeaseEnd, LeasePhase, LeaseProgress, LivenessReport, MemberVote,
    Model, ModelFacts, ModelState, Offer, OpenStage, Owed, PastDraw, Preemption, Provider, Recheck,
    RefusedBecause, ReplicaDraw, ReplicaStage, RetainedFile, Retention, SEED_KEY_BYTES,
    SEED_SIGNATURE_BYTES, Sealing, SealingStage, SeatBook, SeatRecord, SeatSet, SeedBook,
    SeedKeyPhase, Session, SessionRisk, Settlement, Stars, Step, Storage, StoredQuestion,
    SyncCheck, SyncStage, TileDispute, Unbonding, Unpaid, Upgrade, Validator, VoteRound, VoteState,
};
pub use rent::{Charge, Meters, Rent, RentCategory, RentStanding, name_of_address};
pub use state::{
    AnswerLength, Eta, GangWhy, Head, HeldPlace, InputTaker, MoneyReport, Outage, QuestionTask,
    Relaxation, Reservation, Schedule, SignedSeed, State, StorageTask, StoredFile, Totals,
    VoteDuty, VoteTask, WhyWaiting,
};
pub use table::Table;
pub use tree::{LeafHead, LeafKey, ProofError, StateProof, Tree};
pub use verdict::{
    DisputeFiles, EvidenceTask, GrantTask, Outcome, ReplicasTask, RevealedKey, SampleTask, Subject,
    Verdict, seed_of,
};

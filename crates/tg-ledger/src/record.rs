//! The records of the ledger: accounts, validators, models, offers, providers, jobs, leases, bids and liveness reports.
//!
//! A [`Record`] is one entry of a table and one leaf of the state tree; open jobs and live leases have a second leaf for
//! their money.

mod account;
mod bid;
mod dispute;
mod entry;
mod evidence;
mod grant;
mod job;
mod lease;
mod meter;
mod model;
mod retained;
mod sealing;
mod seats;
mod seed;
mod session;
mod storage;
mod sync;

pub use account::{Account, ConsensusKey, Offer, Provider, Validator};
pub use bid::{Bid, LivenessReport};
pub use dispute::{DisputeStep, DisputeTurn, TileDispute};
pub use entry::Record;
pub use evidence::Evidence;
pub use grant::Grant;
pub(crate) use job::DRAWS_MAX;
pub use job::{
    EndReason, Job, JobPhase, JobState, OpenStage, Owed, PastDraw, ReplicaDraw, Settlement, Stars,
    Step, Unpaid,
};
pub(crate) use lease::lease_id;
pub use lease::{
    AbandonedBecause, BadLeaseStep, GangRole, LatePhase, Lease, LeaseEnd, LeasePhase,
    LeaseProgress, Preemption, ReplicaStage,
};
pub use meter::EndpointMeter;
pub use model::{Model, ModelFacts, ModelState, RefusedBecause};
pub(crate) use retained::question_id;
pub use retained::{KeptStage, RetainedFile, Retention, StoredQuestion};
pub use sealing::{Sealing, SealingStage};
pub use seats::{Applicant, SeatBook, SeatRecord, Unbonding, Upgrade};
pub use seed::{Dealing, SEED_KEY_BYTES, SEED_SIGNATURE_BYTES, SeedBook, SeedKeyPhase};
pub use session::{Session, SessionRisk};
pub use storage::{Recheck, SeatSet, Storage};
pub use sync::{MemberVote, SyncCheck, SyncStage, VoteRound, VoteState};
pub(crate) use sync::{VoteStep, VoteWindows};

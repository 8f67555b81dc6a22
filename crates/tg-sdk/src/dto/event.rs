//! What finalised blocks do.

use serde::{Deserialize, Serialize};
use tg_types::{Address, Amount, Digest, JobId, LeaseId, ModelId};

use crate::text;

/// Something a finalised block did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EventDto {
    /// Height of the block.
    pub height: u64,
    /// Time of the block.
    pub timestamp_ms: u64,
    /// What happened, such as `job_queued` or `lease_rejected`.
    pub kind: String,
    /// The job it concerns.
    #[serde(with = "text::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub job: Option<JobId>,
    /// The lease it concerns.
    #[serde(with = "text::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub lease: Option<LeaseId>,
    /// The model it concerns.
    #[serde(with = "text::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub model: Option<ModelId>,
    /// The account it concerns.
    #[serde(with = "text::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub account: Option<Address>,
    /// The money that moved.
    #[serde(with = "text::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub amount: Option<Amount>,
    /// The file that was handed in.
    #[serde(with = "text::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub file: Option<Digest>,
    /// One line for people.
    pub text: String,
}

/// What blocks did with a job, as far as the node that is asked remembers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobEventsDto {
    /// The events of the job and its leases, oldest first.
    pub items: Vec<EventDto>,
    /// The height from which on none is missing; absent if the node has seen no block since it began to listen.
    pub since: Option<u64>,
}

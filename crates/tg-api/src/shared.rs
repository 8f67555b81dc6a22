//! What every handler sees.

use std::sync::Arc;

use tg_sdk::dto::CloudPricesDto;
use tokio::sync::watch;

use crate::calls::Calls;
use crate::config::ApiConfig;
use crate::happened::JobEvents;
use crate::lane::Lanes;
use crate::latest_status::LatestStatus;
use crate::openai::port::{Completion, Embeddings, ServedReply};
use crate::openai::{ApiKeyShares, BatchPlaces, KeptResponses, OpenStores, RateLimits, Replays};
use crate::port::GridPort;
use crate::relay::Relay;
use crate::snapshots::Snapshots;

/// What every handler sees.
pub(crate) struct Shared {
    pub(crate) port: Arc<dyn GridPort>,
    pub(crate) config: ApiConfig,
    /// What clouds ask for hardware.
    pub(crate) clouds: CloudPricesDto,
    pub(crate) lanes: Lanes,
    /// Requests of the OpenAI routes that may come again.
    pub(crate) replays: Replays<Completion>,
    /// The same of requests for embeddings.
    pub(crate) embedded: Replays<Embeddings>,
    /// The same of requests of served models.
    pub(crate) served: Replays<ServedReply>,
    /// The same of requests to begin a batch, with the batch objects.
    pub(crate) begun: Replays<serde_json::Value>,
    /// Responses that can be asked for again.
    pub(crate) responses: KeptResponses,
    /// Files and batches.
    pub(crate) stores: OpenStores,
    /// Places for requests of batches.
    pub(crate) batch_places: BatchPlaces,
    /// Calls of each key in its minute.
    pub(crate) rates: RateLimits,
    /// Calls of each key that order and are at work.
    pub(crate) key_shares: ApiKeyShares,
    pub(crate) calls: Calls,
    /// The state that newcomers begin at.
    pub(crate) snapshots: Snapshots,
    /// What the grid is, as it was answered last.
    pub(crate) latest_status: LatestStatus,
    /// What blocks did with jobs.
    pub(crate) job_events: Arc<JobEvents>,
    /// Requests to endpoints, and their answers.
    pub(crate) relay: Relay,
    pub(crate) stopping: watch::Receiver<bool>,
}

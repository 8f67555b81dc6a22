//! What every handler sees.

use std::sync::Arc;

use tokio::sync::watch;

use crate::calls::Calls;
use crate::config::ApiConfig;
use crate::lane::Lanes;
use crate::openai::Replays;
use crate::port::GridPort;
use crate::relay::Relay;

/// What every handler sees.
pub(crate) struct Shared {
    pub(crate) port: Arc<dyn GridPort>,
    pub(crate) config: ApiConfig,
    pub(crate) lanes: Lanes,
    /// Requests of the OpenAI routes that may come again.
    pub(crate) replays: Replays,
    pub(crate) calls: Calls,
    /// Requests to endpoints, and their answers.
    pub(crate) relay: Relay,
    pub(crate) stopping: watch::Receiver<bool>,
}

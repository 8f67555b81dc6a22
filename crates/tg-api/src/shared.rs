//! What every handler sees.

use std::sync::Arc;

use tokio::sync::watch;

use crate::config::ApiConfig;
use crate::lane::Lanes;
use crate::port::GridPort;

/// What every handler sees.
pub(crate) struct Shared {
    pub(crate) port: Arc<dyn GridPort>,
    pub(crate) config: ApiConfig,
    pub(crate) lanes: Lanes,
    pub(crate) stopping: watch::Receiver<bool>,
}

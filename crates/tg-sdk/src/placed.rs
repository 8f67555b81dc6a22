//! What was signed and sent, until it is in a final block.

use std::time::{Duration, Instant};

use tg_types::{JobId, SignedTransaction, TransactionId};

use crate::client::Client;
use crate::dto::TransactionStateDto;
use crate::job_error::JobError;

/// Between two looks.
const POLL: Duration = Duration::from_millis(150);

/// How long an order may be in no block.
const PLACED_MAX: Duration = Duration::from_secs(60);

/// Waits until an order that was sent is in a final block. An API that does not know it, as it was restarted and lost what it held, is
/// sent the same bytes again: they are the same order, and no second one.
///
/// # Errors
/// [`JobError::Dropped`] if the grid says that it gave it up; [`JobError::NotInBlock`] if no block has it after a minute; answers that cannot
/// be read. None of them says that it was refused: another node may have it.
pub(crate) async fn placed(
    client: &Client,
    signed: &SignedTransaction,
    (id, job): (TransactionId, JobId),
) -> Result<(), JobError> {
    let sent = Instant::now();
    loop {
        match client.transaction(id).await {
            Ok(told) if told.state == TransactionStateDto::Final => return Ok(()),
            Ok(told) if told.state == TransactionStateDto::Dropped => {
                // Dropped by this API, and perhaps in a block by another one.
                if client.job(job).await.is_ok() {
                    return Ok(());
                }
                let reason = told.reason.unwrap_or_default();
                return Err(JobError::Dropped { job, reason });
            }
            Ok(_) => {}
            Err(error) if error.is_not_found() => {
                // Final so long ago that the API forgot how it came to be.
                if client.job(job).await.is_ok() {
                    return Ok(());
                }
                // What it says is not believed before the job is there, or the time is over.
                let _answer = client.submit(signed).await;
            }
            // Stops: a look that is refused taken for a refused order, which a caller would order and pay again.
            Err(error) if error.is_transient() || error.status().is_some() => {}
            Err(source) => {
                let doing = "wait for the order to be final";
                return Err(JobError::Call { doing, source });
            }
        }
        if sent.elapsed() > PLACED_MAX {
            return Err(JobError::NotInBlock { job });
        }
        tokio::time::sleep(POLL).await;
    }
}

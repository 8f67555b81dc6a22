//! What a final state has of a result that the API shows.

use tg_sdk::dto::{JobDto, JobStateDto};

use super::challenge::{self, KnownResult};
use crate::grid::trust::Trusting;
use tg_console::outcome::{Exit, Failure, Outcome, say};
use tg_types::Digest;

/// The result for which a job that has ended was paid, as a final state has it; nothing if no genesis was named, or nothing was paid.
pub(super) async fn result(
    trusting: Option<Trusting>,
    job: &JobDto,
) -> Result<Option<KnownResult>, Failure> {
    let Some(mut trusting) = trusting else {
        return Ok(None);
    };
    let output = trusting.paid_output(job.id).await?;
    trusting.keep();
    if output.is_none() && job.state == JobStateDto::Paid {
        let text = format!(
            "no final state has job {} as paid, and the API tells that it is",
            job.id
        );
        return Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text)).hint(
            "the API lies or is ahead of its proofs: try again, or ask another one with --api",
        ));
    }
    Ok(output.map(|output| KnownResult {
        output,
        by: "a final state has",
    }))
}

/// Compares the output that the API showed of a job that has ended with the one that a final state has; nothing where no genesis
/// was named.
pub(super) async fn compare(
    trusting: Option<Trusting>,
    (job, shown): (&JobDto, Digest),
) -> Outcome {
    if let Some(known) = result(trusting, job).await? {
        challenge::compare(known, (job.id, shown))?;
        say("a final block has this result, and that it was paid");
    }
    Ok(())
}

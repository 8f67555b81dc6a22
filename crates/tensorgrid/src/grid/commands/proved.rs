//! What a final state has of a result that the API shows.

use tg_api::view;
use tg_sdk::dto::{JobDto, JobReceiptDto, JobStateDto};

use super::challenge::{self, KnownResult};
use crate::grid::describe::describe_money;
use crate::grid::trust::{ProvedPayment, Trusting};
use tg_console::outcome::{Exit, Failure, Outcome, say};

/// The payment of a job that has ended, as a final state has it; nothing if no genesis was named, or nothing was paid.
async fn payment(
    trusting: Option<Trusting>,
    job: &JobDto,
) -> Result<Option<ProvedPayment>, Failure> {
    let Some(mut trusting) = trusting else {
        return Ok(None);
    };
    let payment = trusting.payment(job.id).await?;
    trusting.keep();
    if payment.is_none() && job.state == JobStateDto::Paid {
        let text = format!(
            "no final state has job {} as paid, and the API tells that it is",
            job.id
        );
        return Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text)).hint(
            "the API lies or is ahead of its proofs: try again, or ask another one with --api",
        ));
    }
    Ok(payment)
}

/// Compares the output and the payment that the API showed of a job that has ended with those that a final state has; nothing where no
/// genesis was named.
pub(super) async fn compare(
    trusting: Option<Trusting>,
    (job, shown): (&JobDto, &JobReceiptDto),
) -> Outcome {
    let Some(payment) = payment(trusting, job).await? else {
        return Ok(());
    };
    let ProvedPayment {
        output,
        provider,
        settlement,
    } = payment;
    let known = KnownResult {
        output,
        by: "a final state has",
    };
    challenge::compare(known, (job.id, shown.receipt.output))?;
    // Stops: a receipt with another price, fee or provider than were paid.
    let settlement = view::settlement(&settlement);
    if shown.settlement != settlement || shown.lease.provider != provider {
        let text = format!(
            "of job {} a final state has that its provider is {provider} and that its money went so: {}; the API tells of {}: {}",
            job.id,
            describe_money(&settlement),
            shown.lease.provider,
            describe_money(&shown.settlement)
        );
        return Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text))
            .hint("the API lies: ask another one with --api"));
    }
    say("a final block has this result, and what was paid for it to whom");
    Ok(())
}

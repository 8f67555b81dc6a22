//! A job's state, and what an offer lacks for it.

use tg_ledger::JobState;
use tg_sdk::dto::JobStateDto;

/// What stands in the way, as texts.
pub(super) fn lacks(explanations: impl Iterator<Item = &'static str>) -> Vec<String> {
    explanations.map(str::to_owned).collect()
}

/// A state's wire form.
#[must_use]
pub const fn job_state(state: JobState) -> JobStateDto {
    match state {
        JobState::Submitted => JobStateDto::Submitted,
        JobState::Queued => JobStateDto::Queued,
        JobState::Leased => JobStateDto::Leased,
        JobState::Running => JobStateDto::Running,
        JobState::Committed => JobStateDto::Committed,
        JobState::Verifying => JobStateDto::Verifying,
        JobState::Accepted => JobStateDto::Accepted,
        JobState::Paid => JobStateDto::Paid,
        JobState::Refunded => JobStateDto::Refunded,
        JobState::Disputed => JobStateDto::Disputed,
        JobState::Delivering => JobStateDto::Delivering,
        JobState::Expired => JobStateDto::Expired,
        JobState::Cancelled => JobStateDto::Cancelled,
    }
}

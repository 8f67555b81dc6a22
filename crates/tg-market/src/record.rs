//! How a provider did so far, and what that says about its next job.

use tg_types::fields;

/// Ended leases of one provider, by how they ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TrackRecord {
    /// Results that were accepted.
    pub accepted: u32,
    /// Results whose evidence was rejected.
    pub rejected: u32,
    /// Leases that ran past their time.
    pub late: u32,
    /// Leases that were never started, or whose evidence could not be had.
    pub abandoned: u32,
}

/// How many lapses one rejected result weighs: a late provider may have had an outage, a wrong proof is a lie.
const REJECTED_WEIGHT: u64 = 4;

/// Failures everyone starts with; with [`PRIOR_LEASES`] a newcomer is taken to fail one lease of four.
const PRIOR_FAILURES: u64 = 1;

/// Leases everyone starts with.
const PRIOR_LEASES: u64 = 4;

impl TrackRecord {
    /// Estimated probability that the next lease fails, in parts per million, rounded up.
    ///
    /// The mean of a Beta posterior whose prior is pessimistic, so that a new name is never better than an old one
    /// with only accepted results, and throwing a bad name away gains at most the prior.
    #[must_use]
    pub fn failure_ppm(&self) -> u32 {
        let Self {
            accepted,
            rejected,
            late,
            abandoned,
        } = *self;
        let failures =
            REJECTED_WEIGHT * u64::from(rejected) + u64::from(late) + u64::from(abandoned);
        let leases = failures + u64::from(accepted) + PRIOR_LEASES;
        let ppm = ((failures + PRIOR_FAILURES) * 1_000_000).div_ceil(leases);
        u32::try_from(ppm).unwrap_or(1_000_000)
    }

    /// Leases that ended in any way.
    #[must_use]
    pub fn ended(&self) -> u64 {
        u64::from(self.accepted)
            + u64::from(self.rejected)
            + u64::from(self.late)
            + u64::from(self.abandoned)
    }
}

fields! { TrackRecord { accepted, rejected, late, abandoned } }

//! The request for a proof.

use crate::limits::Limits;
use crate::masking::Masking;
use crate::openings::Openings;
use tg_exec::IntTensor;
use tg_types::{Address, JobId};

/// What is to be proved, for whom, and how.
///
/// ```
/// use tg_exec::IntTensor;
/// use tg_prover::{Limits, ProveRequest};
///
/// let limits = Limits { memory: Some(1 << 30), ..Limits::default() };
/// let request = ProveRequest::of(vec![IntTensor::I8(vec![1, 2, 3])]).within(limits);
/// # drop(request);
/// ```
pub struct ProveRequest<'a> {
    pub(crate) inputs: Vec<IntTensor>,
    pub(crate) job: JobId,
    pub(crate) provider: Address,
    pub(crate) limits: Limits<'a>,
    pub(crate) masking: Option<&'a Masking>,
    pub(crate) openings: Option<&'a dyn Openings>,
}

impl<'a> ProveRequest<'a> {
    /// One proof in the clear of the results for these inputs (storage order), for no job and without limits.
    #[must_use]
    pub fn of(inputs: Vec<IntTensor>) -> Self {
        Self {
            inputs,
            job: JobId::default(),
            provider: Address::default(),
            limits: Limits::default(),
            masking: None,
            openings: None,
        }
    }

    /// The job and the provider that the statement names.
    #[must_use]
    pub fn named(self, job: JobId, provider: Address) -> Self {
        Self {
            job,
            provider,
            ..self
        }
    }

    /// Within limits of memory, stopped when the caller says so, recorded.
    #[must_use]
    pub fn within(self, limits: Limits<'a>) -> Self {
        Self { limits, ..self }
    }

    /// In zero knowledge: it hides what the masking's modes say and everything between inputs and outputs. Public weights
    /// are not hidden: evaluations of them are sent. The same masking and inputs give the same bytes on any number of
    /// threads. It is not recorded.
    #[must_use]
    pub fn masked(self, masking: &'a Masking) -> Self {
        let masking = Some(masking);
        Self { masking, ..self }
    }

    /// Where openings of a commitment to private weights are counted: a masked proof of such a model takes one, once it
    /// is clear that the proof can be made.
    #[must_use]
    pub fn counted_by(self, openings: &'a dyn Openings) -> Self {
        let openings = Some(openings);
        Self { openings, ..self }
    }
}

impl std::fmt::Debug for ProveRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProveRequest")
            .field("inputs", &self.inputs.len())
            .field("job", &self.job)
            .field("provider", &self.provider)
            .field("masked", &self.masking.is_some())
            .finish_non_exhaustive()
    }
}

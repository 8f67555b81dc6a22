//! Who may store a blob: an account that signed for it, as far as its money and its leases go.
//!
//! A blob costs its owner nothing while some record names it, or will within minutes. What it takes is money that lies
//! in the account meanwhile: [`BYTES_PER_TGRID`] for each TGRID. Filling the quarter of a store that is open to such
//! blobs takes hundreds of TGRID for as long as it is to be full, and hinders nobody whose blobs are named, and no
//! provider at work: a live lease allows its evidence, whatever the balance is. Nor does it hinder whoever has a record that names
//! the blob ([`BlobNames`]): an account that ordered first, or while its input was on the way, sends it whatever it has left.

use std::collections::{HashMap, HashSet};

use axum::http::HeaderMap;
use tg_ledger::{
    AnswerLength, DisputeStep, Job, JobPhase, Lease, Model, ModelState, State, SyncStage,
};
use tg_types::limits::{EVIDENCE_BYTES_MAX, TRACE_EVIDENCE_BYTES_MAX};
use tg_types::{Address, Digest, DurationMs, SignedUpload, VerificationMode};

use crate::error::ApiError;
use crate::port::{Upload, UploadAllowance};

/// The header that carries a permit, as 0x and hexadecimal digits.
pub(crate) const PERMIT: &str = "tg-upload";

/// Bytes that a TGRID in an account lets it have stored without a record that names them.
const BYTES_PER_TGRID: u128 = 16 << 20;

/// How far ahead a permit may expire: a permit that was copied is worth nothing later.
const PERMIT_TIME_MAX: DurationMs = DurationMs::new(10 * 60 * 1_000);

/// What an account may have stored.
#[must_use]
pub fn allowance(state: &State, owner: &Address) -> UploadAllowance {
    let one = tg_types::Amount::from_tgrid(1).get();
    let balance = state.balance(owner).get();
    // Whole TGRID and the rest apart: the product of the whole might not fit.
    let whole = (balance / one).saturating_mul(BYTES_PER_TGRID);
    let rest = (balance % one).saturating_mul(BYTES_PER_TGRID) / one;
    let leases = state.live_members().filter(|(_, it)| it.provider == *owner);
    let owed = leases.map(|(job, _)| {
        let output = state.model(&job.order.model).map_or(0, output_bytes);
        let evidence = match job.order.mode {
            // Of `optimistic` what a provider answers in a dispute.
            VerificationMode::Sync | VerificationMode::Optimistic => TRACE_EVIDENCE_BYTES_MAX,
            VerificationMode::None
            | VerificationMode::Proof
            | VerificationMode::Recompute
            | VerificationMode::Replicate
            | VerificationMode::Sealed
            | VerificationMode::Endpoint => EVIDENCE_BYTES_MAX,
        };
        u64::from(evidence).saturating_add(output)
    });
    let claims = state
        .live_leases()
        .filter(|(_, lease)| may_claim(lease, owner))
        .map(|_| u64::from(TRACE_EVIDENCE_BYTES_MAX));
    UploadAllowance {
        balance: u64::try_from(whole.saturating_add(rest)).unwrap_or(u64::MAX),
        leases: owed.chain(claims).fold(0, u64::saturating_add),
    }
}

/// Whether an account challenged the result of a lease and may have to store what a right run gives.
/// Stops: uploads that lie still, by which no challenger can make its claim in time.
fn may_claim(lease: &Lease, owner: &Address) -> bool {
    let stage = lease.check.as_ref().map(|it| &it.stage);
    let Some(SyncStage::Disputed {
        accuser,
        by_tile: Some(dispute),
        ..
    }) = stage
    else {
        return false;
    };
    let claims = matches!(
        dispute.step,
        DisputeStep::Claiming | DisputeStep::Claimed { .. }
    );
    accuser == owner && claims || dispute.waiting.contains(owner)
}

/// Bytes of a model's output, in the unit in which small blobs are counted.
fn output_bytes(model: &Model) -> u64 {
    match &model.state {
        ModelState::Active(facts) => u64::from(facts.output_len).next_multiple_of(4_096),
        ModelState::Pending | ModelState::Refused(_) => 0,
    }
}

/// The digests that records of the ledger name, with the most bytes that their blobs may have: these blobs stay.
///
/// Stops: blobs of 64 MiB that stay for the rent of an input of one byte.
#[must_use]
pub fn named_blobs(state: &State) -> HashMap<Digest, u64> {
    let mut named = HashMap::new();
    records(state).for_each(|it| it.note_length(&mut named));
    named
}

/// What records of the ledger name, and whose records these are: whoever has one may send its blob without money that lies still.
#[derive(Debug, Default)]
pub struct BlobNames {
    longest: HashMap<Digest, u64>,
    accounts: HashSet<(Digest, Address)>,
}

impl BlobNames {
    /// Those of a state. It walks over all records.
    #[must_use]
    pub fn of(state: &State) -> Self {
        let mut names = Self::default();
        for it in records(state) {
            names.accounts.insert((it.digest, it.owner));
            it.note_length(&mut names.longest);
        }
        names
    }

    /// Whether a record names a blob.
    #[must_use]
    pub fn contains(&self, digest: &Digest) -> bool {
        self.longest.contains_key(digest)
    }

    /// Whether a blob that an account sends is named by a record of that account: its model, its order, the lease that it serves or
    /// challenges, or an answer that is kept for it or that it is asked for. One that is longer than records say is not.
    #[must_use]
    pub fn is_of_sender(&self, upload: &Upload) -> bool {
        let longest = self.longest.get(&upload.digest);
        longest.is_some_and(|longest| upload.size <= *longest)
            && self.accounts.contains(&(upload.digest, upload.owner))
    }
}

/// A blob that a record names.
struct NamedBlob {
    digest: Digest,
    /// The most bytes that it may have.
    longest: u64,
    /// Whose record it is.
    owner: Address,
}

impl NamedBlob {
    /// Raises what is known of how long its blob may be.
    fn note_length(&self, longest: &mut HashMap<Digest, u64>) {
        let known = longest.entry(self.digest).or_default();
        *known = self.longest.max(*known);
    }
}

/// What records of the ledger name; a blob that several name comes several times.
fn records(state: &State) -> impl Iterator<Item = NamedBlob> {
    // Stops: files that cost what a refused registration or an order that is taken back costs, and stay as long as their records.
    let models = state.models().iter();
    let models = models.filter(|it| !matches!(it.state, ModelState::Refused(_)));
    // A registration costs the same whatever its files weigh; the store has its own bounds for them.
    let models = models.flat_map(|model| {
        [model.public_blob, model.weights_blob].map(|digest| NamedBlob {
            digest,
            longest: u64::MAX,
            owner: model.owner,
        })
    });
    let is_kept = |job: &&Job| matches!(job.phase, JobPhase::Open { .. } | JobPhase::Paid { .. });
    let inputs = state.jobs().iter().filter(is_kept);
    let inputs = inputs.map(|job| NamedBlob {
        digest: job.order.input,
        longest: u64::from(job.order.input_len),
        owner: job.requestor,
    });
    let leases = state.leases().iter();
    let leases = leases.flat_map(move |lease| blobs_of_lease(state, lease));
    // Whoever is asked for an answer is given time for it, also beyond the end of its own.
    let kept = state.retained().iter().map(|it| NamedBlob {
        digest: it.digest,
        longest: u64::from(it.longest()),
        owner: it.requestor,
    });
    let asked = state.questions().iter().map(|it| NamedBlob {
        digest: it.digest,
        longest: u64::from(it.longest),
        owner: it.seat,
    });
    models.chain(inputs).chain(leases).chain(kept).chain(asked)
}

/// What a lease names: its answer, its evidence, and what was said in a dispute about it.
fn blobs_of_lease(state: &State, lease: &Lease) -> impl Iterator<Item = NamedBlob> {
    let provider = lease.provider;
    let output = lease.receipt().map(|it| NamedBlob {
        digest: it.output,
        longest: answer_bytes(state, lease),
        owner: provider,
    });
    let stage = lease.check.as_ref().map(|it| &it.stage);
    let accuser = match stage {
        Some(SyncStage::Disputed { accuser, .. }) => *accuser,
        _ => provider,
    };
    let step = stage.and_then(|it| it.tile_dispute()).map(|it| &it.step);
    let claim = step.and_then(|it| it.claim());
    let answer = step.and_then(|it| it.answer());
    let shown = [
        (lease.evidence(), provider),
        (claim, accuser),
        (answer, provider),
    ];
    let shown = shown.into_iter().filter_map(|(file, owner)| {
        file.map(|it| NamedBlob {
            digest: it.digest,
            longest: u64::from(it.size),
            owner,
        })
    });
    output.into_iter().chain(shown)
}

/// The most bytes that the answer of a lease may have.
fn answer_bytes(state: &State, lease: &Lease) -> u64 {
    let job = state.job(&lease.job);
    let length = job.and_then(|job| state.answer_length(&job.order));
    // Nobody knows it of a model that has left the ledger: what an order of usual files pays for.
    let longest = length.as_ref().map(AnswerLength::longest);
    longest.unwrap_or(EVIDENCE_BYTES_MAX).into()
}

/// Checks the permit of a blob that is to be stored under `digest`, of `size` bytes if that is known already.
pub(crate) fn check(
    state: &State,
    headers: &HeaderMap,
    digest: Digest,
    size: Option<u64>,
) -> Result<Upload, ApiError> {
    let refuse = |detail: String| ApiError::NoPermit { digest, detail };
    let header = headers
        .get(PERMIT)
        .ok_or_else(|| refuse(format!("there is no header {PERMIT}")))?;
    let signed = header.to_str().ok().and_then(SignedUpload::from_hex);
    let signed = signed.ok_or_else(|| refuse("it is not one".to_owned()))?;
    let permit = &signed.permit;
    if permit.digest != digest {
        return Err(refuse(format!("it is for the blob {}", permit.digest)));
    }
    if let Some(size) = size
        && permit.length != size
    {
        return Err(refuse(format!(
            "it is for {} bytes, not {size}",
            permit.length
        )));
    }
    let now = state.head().timestamp;
    if permit.expires < now || permit.expires > now.saturating_add(PERMIT_TIME_MAX) {
        let within = PERMIT_TIME_MAX.get() / 1_000;
        return Err(refuse(format!(
            "it expires at {}, which is not within {within} s of the last block's time, {now}",
            permit.expires
        )));
    }
    let owner = signed
        .owner(state.domain())
        .map_err(|error| refuse(error.to_string()))?;
    let allowance = allowance(state, &owner);
    if allowance == UploadAllowance::default() {
        return Err(refuse(format!(
            "the account that signed for this network, {owner}, has no money"
        )));
    }
    Ok(Upload {
        digest,
        size: permit.length,
        owner,
        allowance,
        now,
        permit: signed,
    })
}

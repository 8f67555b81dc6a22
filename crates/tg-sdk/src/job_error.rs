//! Why a step of a job failed.

use tg_types::{Address, Amount, JobId, LeaseId};

use crate::dto::{JobStateDto, ModelStateDto};
use crate::error::ClientError;
use crate::verify::CheckError;

/// Why a job did not come to a checked result.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// A call failed.
    #[error("{doing}")]
    Call {
        /// What was being done.
        doing: &'static str,
        /// Why it failed.
        #[source]
        source: ClientError,
    },
    /// The grid has no such model.
    #[error("there is no model {name:?}")]
    NoModel {
        /// The id, the beginning of one, or the name that was asked for.
        name: String,
        /// Names of the models that there are.
        known: Vec<String>,
    },
    /// Several models have ids that begin so.
    #[error("several models begin with {name}: {}", ids.join(", "))]
    SeveralModels {
        /// What was asked for.
        name: String,
        /// Their ids.
        ids: Vec<String>,
    },
    /// What the grid tells of a job is not what was signed here.
    #[error(
        "the grid tells of job {job} that its {what} is {told}; what was signed here says {signed}"
    )]
    OtherJob {
        /// The job.
        job: JobId,
        /// What differs.
        what: &'static str,
        /// What was signed.
        signed: String,
        /// What the grid tells.
        told: String,
    },
    /// The nonce of what was signed is taken, as the grid says. It is not signed again: the grid may lie and keep it.
    #[error(
        "{doing}: the grid refuses nonce {nonce} of {account}, which another transaction took as it says"
    )]
    NonceTaken {
        /// What was being done.
        doing: &'static str,
        /// The account.
        account: Address,
        /// The nonce.
        nonce: u64,
        /// What the grid said.
        #[source]
        source: Box<ClientError>,
    },
    /// The model cannot be ordered from now.
    #[error("the model {name} is {state}: {why}")]
    NotActive {
        /// Its name.
        name: String,
        /// Where it stands.
        state: ModelStateDto,
        /// Why.
        why: String,
    },
    /// The grid's model or result is not what it should be.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// The answer of a sealed job was to be read without its key.
    #[error("the answer of job {job} is sealed")]
    Sealed {
        /// The job.
        job: JobId,
    },
    /// A key was to be granted that nobody waits for.
    #[error("lease {lease} waits for no key")]
    NoKeyAwaited {
        /// The lease.
        lease: LeaseId,
    },
    /// A lease was told as one of a job whose lease it is not.
    #[error("lease {lease} is none of job {job}")]
    OtherLease {
        /// The job.
        job: JobId,
        /// The lease.
        lease: LeaseId,
    },
    /// What was sealed does not open, or cannot be sealed.
    #[error("{doing}")]
    Seal {
        /// What was being done.
        doing: &'static str,
        /// Why it failed.
        #[source]
        source: tg_privacy::SealError,
    },
    /// The job ended without a result.
    #[error("the job is {state}: {reason}")]
    NotPaid {
        /// The job.
        job: JobId,
        /// How it ended.
        state: JobStateDto,
        /// Why.
        reason: String,
    },
    /// The grid says that a sealed bid needs a deposit that is far above the usual one.
    #[error(
        "the grid says that a sealed bid needs a deposit of {least} TGRID, far more than usual"
    )]
    DepositTold {
        /// The least deposit as it says.
        least: Amount,
    },
    /// The grid accepted a job of mode proof without a proof.
    #[error("the grid accepted a job of mode proof without a proof")]
    NoProof,
    /// What was signed could not be kept, and was not sent.
    #[error("keep what was signed")]
    NotKept(#[source] std::io::Error),
    /// The job is none of a provider that serves a model.
    #[error("job {job} is no endpoint")]
    NotEndpoint {
        /// The job.
        job: JobId,
    },
    /// A transaction about a job was taken, and no block has it after a minute.
    #[error("the transaction about job {job} was taken and is in no block yet")]
    NotInBlock {
        /// The job.
        job: JobId,
    },
    /// An order was taken, and given up before a block had it.
    #[error("the order was taken and given up again: {reason}")]
    Dropped {
        /// The job that it would be.
        job: JobId,
        /// Why.
        reason: String,
    },
    /// A bid was not opened in its slot, and its deposit is burned.
    #[error("bid {bid} was not opened in slot {slot}: no block took it in time")]
    Forfeited {
        /// The bid.
        bid: tg_types::BidId,
        /// The slot in which it had to be opened.
        slot: u64,
        /// What is burned.
        deposit: Amount,
        /// Why it could not be opened, if the grid said so.
        #[source]
        source: Option<Box<Self>>,
    },
}

impl JobError {
    /// The call that failed, if it is one.
    #[must_use]
    pub const fn call(&self) -> Option<&ClientError> {
        match self {
            Self::Call { source, .. } => Some(source),
            Self::NonceTaken { source, .. } => Some(source),
            _ => None,
        }
    }

    /// What the user can do about it; empty if nothing is known.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Call { source, .. } => source.hint().to_owned(),
            Self::NoModel { known, .. } if known.is_empty() => {
                "the grid has no models; add one with `tensorgrid model add`".to_owned()
            }
            Self::NoModel { known, .. } => format!("the grid has: {}", known.join(", ")),
            Self::NotPaid { job, .. } => format!("tensorgrid job why {job}"),
            Self::Sealed { job } => {
                format!("tensorgrid job fetch {job} --key FILE, the key file that ordered it, opens it")
            }
            Self::NoKeyAwaited { .. } => {
                "its provider has the key, or the lease is over: `tensorgrid job show` says which".to_owned()
            }
            Self::Seal { .. } => {
                "the key file that ordered it is the only one that opens it: name it with --key".to_owned()
            }
            Self::Check(CheckError::Proof(_) | CheckError::Sequence(_)) | Self::NoProof => {
                "the grid's validators do not do their work: trust none of them".to_owned()
            }
            Self::Forfeited { deposit, .. } => {
                format!("the deposit of {deposit} TGRID is burned, and nothing else was spent")
            }
            Self::DepositTold { .. } => "nothing was locked; --deposit names what is".to_owned(),
            Self::SeveralModels { .. } => "give more digits of the id".to_owned(),
            Self::OtherJob { .. } | Self::OtherLease { .. } => {
                "nothing that it shows of this job is believed: the API is damaged or lies; ask another one with --api".to_owned()
            }
            Self::NonceTaken { .. } => {
                "signed again under another nonce it might be done twice: if another command of this account was faster, look what became of this one (`tensorgrid balance`, `tensorgrid job list`) and run it again".to_owned()
            }
            Self::NotEndpoint { .. } => {
                "`tensorgrid endpoint list` shows the endpoints of your account".to_owned()
            }
            Self::Dropped { job, .. } => {
                format!("another node may have it still: tensorgrid job show {job}, before it is ordered again")
            }
            Self::NotInBlock { job } => {
                format!("it may come yet: tensorgrid job show {job}, before it is sent again")
            }
            Self::NotActive { name, .. } => format!("tensorgrid model show {name}"),
            Self::NotKept(_) => "free the disk, or name another place; nothing was sent".to_owned(),
            Self::Check(_) => String::new(),
        }
    }
}

/// Adds what was being done to a failed call.
pub(crate) trait Doing<T> {
    fn doing(self, doing: &'static str) -> Result<T, JobError>;
}

impl<T> Doing<T> for Result<T, ClientError> {
    fn doing(self, doing: &'static str) -> Result<T, JobError> {
        self.map_err(|source| JobError::Call { doing, source })
    }
}

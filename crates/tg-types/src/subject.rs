//! The files of a job or a model that validators state to hold.

use std::sync::LazyLock;

use crate::id::{JobId, LeaseId, ModelId, QuestionId};
use crate::keccak::keccak256;
use crate::signed_struct::StructHash;
use crate::variants;

/// What a validator states that it holds: the files that a record of the ledger names.
///
/// The kind is a part of it. Stops: a model registered under the id of a lease, since whoever registers one writes its id: statements
/// about the one would count for the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StorageSubject {
    /// The input of a job.
    Job(JobId),
    /// The public part of a model, and its weights.
    Model(ModelId),
    /// What a lease waits for: an opening, what was handed in in a dispute, or an answer that nobody checks.
    Lease(LeaseId),
    /// The answer of a paid job, which is kept.
    Answer(JobId),
    /// Not what the validator that states it holds, but whether it got a file from the one that is asked.
    Question(QuestionId),
}

variants! { StorageSubject: "kind of what is stored" { 0 = Job(job), 1 = Model(model), 2 = Lease(lease), 3 = Answer(job), 4 = Question(question) } }

impl StorageSubject {
    /// Its own part of the encoded type that a validator signs.
    pub(crate) const TYPE: &'static str = "StorageSubject(uint8 kind,bytes32 id)";

    /// Its kind, and the id.
    const fn parts(&self) -> (u8, &[u8; 32]) {
        match self {
            Self::Job(job) => (0, job.as_bytes()),
            Self::Model(model) => (1, model.as_bytes()),
            Self::Lease(lease) => (2, lease.as_bytes()),
            Self::Answer(job) => (3, job.as_bytes()),
            Self::Question(question) => (4, question.as_bytes()),
        }
    }

    /// The EIP-712 struct hash.
    #[must_use]
    pub fn struct_hash(&self) -> [u8; 32] {
        static TYPE_HASH: LazyLock<[u8; 32]> =
            LazyLock::new(|| keccak256(StorageSubject::TYPE.as_bytes()));
        let (kind, id) = self.parts();
        StructHash::of(&TYPE_HASH)
            .number(u128::from(kind))
            .word(*id)
            .finish()
    }
}

impl std::fmt::Display for StorageSubject {
    /// `job 0x..`, `model 0x..`, `lease 0x..`, `answer of job 0x..` or `question 0x..`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Job(job) => write!(f, "job {job}"),
            Self::Model(model) => write!(f, "model {model}"),
            Self::Lease(lease) => write!(f, "lease {lease}"),
            Self::Answer(job) => write!(f, "answer of job {job}"),
            Self::Question(question) => write!(f, "question {question}"),
        }
    }
}

impl From<JobId> for StorageSubject {
    fn from(job: JobId) -> Self {
        Self::Job(job)
    }
}

impl From<ModelId> for StorageSubject {
    fn from(model: ModelId) -> Self {
        Self::Model(model)
    }
}

impl From<QuestionId> for StorageSubject {
    fn from(question: QuestionId) -> Self {
        Self::Question(question)
    }
}

impl From<LeaseId> for StorageSubject {
    fn from(lease: LeaseId) -> Self {
        Self::Lease(lease)
    }
}

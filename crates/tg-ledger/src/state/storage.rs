//! The files about which validators have to make statements, and who stated that it holds them.

use std::collections::BTreeMap;

use imbl::OrdSet;
use tg_types::sealing::SEALED_ANSWER_OVERHEAD;
use tg_types::{
    Address, DeclineReason, Digest, JobOrder, LeaseId, StorageSubject, Tier, VerificationMode,
};

use crate::canary::{LedgerCanary, is_armed};
use crate::parameters::StorageRule;
use crate::record::{
    Evidence, Job, JobPhase, Lease, LeaseEnd, Model, ModelState, OpenStage, Storage,
};
use crate::state::State;

/// A file that a validator must hold before it states so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredFile {
    /// The input of a job.
    Input {
        /// Its content hash.
        digest: Digest,
        /// How many bytes the order says it has.
        length: u32,
        /// The model that has to take it, if not every input has an answer.
        taken_by: Option<InputTaker>,
    },
    /// The opening of the drawn tiles of a result, or what was handed in in a dispute about one.
    Opening {
        /// Its content hash.
        digest: Digest,
        /// How many bytes the provider says it has.
        length: u32,
    },
    /// The answer of a job whose result nobody checks.
    Answer {
        /// Its content hash.
        digest: Digest,
        /// How many bytes it may have.
        length: AnswerLength,
    },
    /// The public part of a model.
    PublicModel {
        /// Its content hash.
        digest: Digest,
    },
    /// A model's program with its weights; the root of the weights must be the one that the program names.
    Weights {
        /// Its content hash.
        digest: Digest,
    },
}

impl StoredFile {
    /// Its content hash.
    #[must_use]
    pub const fn digest(&self) -> &Digest {
        match self {
            Self::Input { digest, .. }
            | Self::Opening { digest, .. }
            | Self::Answer { digest, .. }
            | Self::PublicModel { digest }
            | Self::Weights { digest } => digest,
        }
    }

    /// The model that has to take it, if not every input has an answer.
    #[must_use]
    pub const fn taker(&self) -> Option<&InputTaker> {
        match self {
            Self::Input { taken_by, .. } => taken_by.as_ref(),
            Self::Opening { .. }
            | Self::Answer { .. }
            | Self::PublicModel { .. }
            | Self::Weights { .. } => None,
        }
    }
}

/// How many bytes an answer has. No receipt says it: the digest fixes the bytes, and the model what their number may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerLength {
    /// At least one and at most so many: of float models and programs what they were registered with.
    AtMost(u32),
    /// So many, of a model of integers; of one that was asked to write the tokens that it wrote.
    OfModel {
        /// Bytes of the model's output.
        output: u32,
        /// Its public part, which says whether the input asks it to write.
        public: Digest,
        /// The input.
        input: Digest,
        /// Bytes of the input, which are at least those of all tokens that it may write.
        input_len: u32,
    },
}

impl AnswerLength {
    /// The most bytes that an answer of any input may have.
    #[must_use]
    pub const fn longest(&self) -> u32 {
        match self {
            Self::AtMost(most) => *most,
            Self::OfModel {
                output, input_len, ..
            } => {
                if *output > *input_len {
                    *output
                } else {
                    *input_len
                }
            }
        }
    }
}

/// The model of integers that a job's input is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputTaker {
    /// Its public part.
    pub public: Digest,
    /// Whether evidence of what it gives is looked at.
    pub is_shown: bool,
}

/// What a validator states of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Statement {
    Held,
    Missing,
}

/// A statement that a validator has to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageTask {
    /// What the statement names.
    pub subject: StorageSubject,
    /// What must be held.
    pub files: Vec<StoredFile>,
    /// Whether it is asked again, so that "missing" is an answer.
    pub is_recheck: bool,
}

impl State {
    /// The place of a validator in the order of addresses.
    #[must_use]
    pub fn seat_of(&self, validator: &Address) -> Option<u8> {
        let found = self
            .validators
            .binary_search_by_key(validator, |it| it.address);
        found.ok().and_then(|seat| u8::try_from(seat).ok())
    }

    /// What `validator` has not stated yet: first what it is asked again, then openings by the age of their jobs, then models by id, then answers and inputs of jobs: the
    /// oldest answer of each provider and the oldest input of each requestor, then the next ones, and so on, so that whoever commits or orders much holds up itself; then
    /// answers that are kept after they were paid.
    #[must_use]
    pub fn storage_tasks(&self, validator: &Address) -> Vec<StorageTask> {
        let Some(seat) = self.seat_of(validator) else {
            return Vec::new();
        };
        let models = self.models.iter().filter(|it| it.needs_storage());
        let jobs = self.open_jobs().filter(|it| it.needs_storage());
        let mut ordered: BTreeMap<Address, usize> = BTreeMap::new();
        let jobs = jobs.filter(|job| job.storage.waits_for(seat)).map(|job| {
            let before = ordered.entry(job.requestor).or_default();
            *before += 1;
            (*before, self.input_task(job))
        });
        let models = models.filter(|it| it.storage.waits_for(seat));
        let models = models.map(|model| (0, model.storage_task()));
        let mut committed: BTreeMap<Address, usize> = BTreeMap::new();
        let wanted = self.checked_leases().filter_map(|(job, lease)| {
            let file = self.wanted_of(job, lease)?;
            let turn = match lease.delivery() {
                Some(_) => {
                    let before = committed.entry(lease.provider).or_default();
                    *before += 1;
                    *before
                }
                None => 0,
            };
            // Answers that it has stated count for the turn of the next ones too.
            if !lease.wanted()?.waits_for(seat) {
                return None;
            }
            let task = StorageTask {
                subject: lease.id.into(),
                files: vec![file],
                is_recheck: false,
            };
            Some((turn, task))
        });
        // Nobody waits for these.
        let kept = self.retention_tasks(seat).map(|task| (usize::MAX, task));
        let tasks = wanted.chain(models).chain(jobs).chain(kept);
        let mut tasks: Vec<(usize, StorageTask)> = tasks.collect();
        tasks.sort_by_key(|(turn, task)| (!task.is_recheck, *turn));
        tasks.into_iter().map(|(_, task)| task).collect()
    }

    /// The file of a lease that validators have to hold before its job goes on.
    fn wanted_of(&self, job: &Job, lease: &Lease) -> Option<StoredFile> {
        let is_sealed = job.order.mode == VerificationMode::Sealed;
        if is_sealed {
            lease.wanted_file()?;
        } else if lease.delivery().is_none() {
            let (Evidence { digest, size }, _) = lease.wanted_file()?;
            return Some(StoredFile::Opening {
                digest,
                length: size,
            });
        }
        Some(StoredFile::Answer {
            digest: lease.receipt()?.output,
            length: self.answer_length(&job.order)?,
        })
    }

    /// How many bytes the answer of an order has; nothing unless its model is active.
    #[must_use]
    pub fn answer_length(&self, order: &JobOrder) -> Option<AnswerLength> {
        let facts = self.active_model(order)?;
        if order.mode == VerificationMode::Sealed {
            // What its input asks to write nobody sees.
            let longest = facts.output_len.max(facts.input_len);
            let sealed = longest.saturating_add(SEALED_ANSWER_OVERHEAD);
            return Some(AnswerLength::AtMost(sealed));
        }
        Some(match facts.tier {
            Tier::Tgx1 => AnswerLength::OfModel {
                output: facts.output_len,
                public: self.model(&order.model)?.public_blob,
                input: order.input,
                input_len: order.input_len,
            },
            Tier::Tgf1 | Tier::Wasm1 | Tier::Served => AnswerLength::AtMost(facts.output_len),
        })
    }

    /// What a validator states of a job: that it holds an input which the job's model takes. Stops: orders on which no provider can run the
    /// model, which would cost it what it put up.
    fn input_task(&self, job: &Job) -> StorageTask {
        let model = self.model(&job.order.model);
        let facts = self.active_model(&job.order);
        let is_taker = facts.is_some_and(|it| it.tier == Tier::Tgx1);
        let mode = job.order.mode;
        let is_taker =
            is_taker && !matches!(mode, VerificationMode::Endpoint | VerificationMode::Sealed);
        StorageTask {
            subject: job.id.into(),
            files: vec![StoredFile::Input {
                digest: job.order.input,
                length: job.order.input_len,
                taken_by: model.filter(|_| is_taker).map(|model| InputTaker {
                    public: model.public_blob,
                    is_shown: mode != VerificationMode::None,
                }),
            }],
            is_recheck: job.storage.recheck.is_some(),
        }
    }

    /// Whether enough validators state that they hold something.
    #[must_use]
    pub fn is_held(&self, storage: &Storage) -> bool {
        match self.parameters.storage {
            StorageRule::Assumed => true,
            StorageRule::Stated if is_armed(LedgerCanary::ReceiptQuorumOfFaults) => {
                storage.held.len() >= self.faults_max()
            }
            StorageRule::Stated => storage.held.len() >= self.quorum(),
        }
    }

    /// Declined leases whose penalty waits for the answer about a job's input or a model's files.
    pub(crate) fn declined_over(&self, subject: &StorageSubject) -> Vec<LeaseId> {
        let first = (*subject, LeaseId::new([0; 32]));
        let all = self.declined.range(first..);
        let all = all.take_while(|(of, _)| of == subject);
        all.map(|(_, lease)| *lease).collect()
    }

    /// What must be answered before the penalty of a lease is burned or goes back, if it waits for that.
    fn waits_over(&self, lease: &Lease) -> Option<StorageSubject> {
        match lease.end() {
            _ if lease.locked().is_zero() => None,
            Some(LeaseEnd::Declined(DeclineReason::InputMissing)) => Some(lease.job.into()),
            Some(LeaseEnd::Declined(DeclineReason::ModelMissing)) => {
                Some(self.job(&lease.job)?.order.model.into())
            }
            _ => None,
        }
    }

    /// Notes whether the penalty of a lease waits, before the lease is put.
    pub(super) fn note_declined(&mut self, lease: &Lease) {
        let was = self.lease(&lease.id).and_then(|it| self.waits_over(it));
        let is = self.waits_over(lease);
        if was != is {
            if let Some(subject) = was {
                self.declined.remove(&(subject, lease.id));
            }
            if let Some(subject) = is {
                self.declined.insert((subject, lease.id));
            }
        }
    }

    /// [`Self::declined`](State), derived from the leases.
    pub(crate) fn rebuilt_declined(&self) -> OrdSet<(StorageSubject, LeaseId)> {
        let waits = |it: &Lease| Some((self.waits_over(it)?, it.id));
        self.leases.iter().filter_map(waits).collect()
    }

    /// The statements about a job's input, a model's files, or a lease's opening or answer; `None` if nobody has to state anything
    /// about it.
    pub(crate) fn storage_of(&self, subject: &StorageSubject) -> Option<&Storage> {
        match subject {
            StorageSubject::Job(job) => {
                let job = self.job(job).filter(|it| it.needs_storage());
                job.map(|it| &it.storage)
            }
            StorageSubject::Model(model) => {
                let model = self.model(model).filter(|it| it.needs_storage());
                model.map(|it| &it.storage)
            }
            StorageSubject::Lease(lease) => {
                let lease = self.stated_lease(lease)?;
                lease.wanted().or_else(|| lease.delivered())
            }
            // What is kept has a record of its own.
            StorageSubject::Answer(_) | StorageSubject::Question(_) => None,
        }
    }

    /// Whether a validator is asked for a statement that it has not made.
    pub(crate) fn is_asked(
        &self,
        seat: u8,
        (subject, statement): (&StorageSubject, Statement),
    ) -> bool {
        match subject {
            StorageSubject::Answer(job) => {
                let kept = self.retained_of(job);
                return statement == Statement::Held
                    && kept.is_some_and(|it| !it.held.contains(seat));
            }
            StorageSubject::Question(question) => {
                return self.is_questioned(seat, (question, statement));
            }
            StorageSubject::Job(_) | StorageSubject::Model(_) | StorageSubject::Lease(_) => {}
        }
        self.storage_of(subject).is_some_and(|storage| {
            let again = storage.recheck.as_ref();
            storage.waits_for(seat)
                && match statement {
                    Statement::Held => true,
                    Statement::Missing => again.is_some_and(|it| !it.missing.contains(seat)),
                }
        })
    }

    /// Jobs that did not end, in three queues: those whose input is not held, those that wait for a provider, those with
    /// a lease; each the oldest first.
    pub(crate) fn open_jobs(&self) -> impl Iterator<Item = &Job> {
        let queues = [&self.submitted, &self.queued, &self.live];
        queues
            .into_iter()
            .flat_map(|queue| queue.values())
            .filter_map(|id| self.job(id))
    }
}

impl Job {
    /// Whether validators have to hold its input. An endpoint has none: requests go to its provider.
    fn needs_storage(&self) -> bool {
        if self.is_endpoint() {
            return false;
        }
        let stage = match &self.phase {
            JobPhase::Open { stage, .. } => Some(stage),
            JobPhase::Paid { .. } | JobPhase::Unpaid { .. } => None,
        };
        match stage {
            Some(OpenStage::Submitted | OpenStage::Queued | OpenStage::Leased(_)) => true,
            // Whoever started has it.
            Some(
                OpenStage::Running(_)
                | OpenStage::Committed(_)
                | OpenStage::Verifying(_)
                | OpenStage::Disputed(_)
                | OpenStage::Delivering(_),
            )
            | None => self.storage.recheck.is_some(),
        }
    }
}

impl Model {
    /// Whether validators have to hold its files.
    const fn needs_storage(&self) -> bool {
        match self.state {
            ModelState::Pending | ModelState::Active(_) => true,
            ModelState::Refused(_) => self.storage.recheck.is_some(),
        }
    }

    fn storage_task(&self) -> StorageTask {
        StorageTask {
            subject: self.id.into(),
            files: vec![
                StoredFile::PublicModel {
                    digest: self.public_blob,
                },
                StoredFile::Weights {
                    digest: self.weights_blob,
                },
            ],
            is_recheck: self.storage.recheck.is_some(),
        }
    }
}

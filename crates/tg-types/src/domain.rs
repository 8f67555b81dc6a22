//! The closed list of hashing and transcript purposes. Changing one is a breaking change of the protocol.

/// A purpose of hashing, globally unique as `TG/<crate>/<purpose>/v<n>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Domain {
    /// Program id: the public part of a model.
    Program,
    /// Root of a model's integer weights.
    Weights,
    /// Model id: program id and weight commitment.
    Model,
    /// Root of an execution trace.
    Trace,
    /// Draws the tiles of a trace that are computed again.
    Tiles,
    /// What draws them: the seed and the lease.
    Challenge,
    /// What a provider of mode `optimistic` commits to instead of its trace.
    RunCommitment,
    /// What a provider of mode `sync` commits to, of which drawn sections are shown.
    PartsCommitment,
    /// A sealed vote on drawn tiles.
    TileVote,
    /// What hides a vote, from the member's secret.
    VoteSalt,
    /// A request of an endpoint.
    Asked,
    /// What a provider signs with an answer of an endpoint.
    Answered,
    /// That a provider serves an endpoint.
    Serving,
    /// The turn of a seat when a committee is drawn.
    Committee,
    /// What a seed is, from the signature that is unique for its height.
    Seed,
    /// Fiat-Shamir transcript of an inference proof.
    ProofTranscript,
    /// Fiat-Shamir transcript of a model registration proof.
    RegistrationTranscript,
    /// Public matrix of tensor commitments.
    TensorMatrix,
    /// What hides a tensor in its commitment.
    TensorBlinding,
    /// Random rows of private weights.
    PrivateWeights,
    /// Transaction id: sender and signing digest.
    Transaction,
    /// Job id: the transaction that ordered it.
    Job,
    /// Offer id: the transaction that posted it.
    Offer,
    /// Lease id: job, offer and attempt.
    Lease,
    /// Block id: the block's header.
    Block,
    /// A block's transactions and verdicts.
    BlockBody,
    /// The validators that vote in an epoch.
    SeatSet,
    /// Votes of validators; the genesis id follows.
    Vote,
    /// Connections between validators; the genesis id follows.
    Connection,
    /// Secret of a development account.
    DevelopmentWallet,
    /// Leaf of the state tree.
    StateLeaf,
    /// What a leaf of the state tree is found by.
    StateKey,
    /// The record behind a leaf of the state tree.
    StateContent,
    /// A place of the state tree that was used and is free.
    StateFree,
    /// Order of offers that cost the same.
    MatchTie,
    /// Bid id: the transaction that committed to it.
    Bid,
    /// What a sealed bid commits to.
    BidCommitment,
    /// The decisions of one block.
    Schedule,
    /// Seed of ties in an epoch.
    EpochSeed,
    /// Key of the stream that draws the tokens of a generation.
    Sampling,
    /// Permit to store a blob.
    Upload,
    /// A provider's sign of life.
    Heartbeat,
    /// That whoever asks for a seat has its key; the genesis id follows.
    SeatKey,
    /// Id of a program of WebAssembly: its file.
    WasmProgram,
    /// State of such a program between two chunks.
    WasmState,
    /// The states of a run of such a program.
    WasmTrace,
    /// The state after each call of such a run, and the fuel that was burned by then.
    WasmCalls,
    /// Draws the sections of such a run that are executed again.
    WasmSections,
    /// What shows that a member ran the drawn sections of such a run.
    WasmChecksum,
    /// Id of a float model: its public part.
    FloatProgram,
    /// A run of a float model: its input and its answer.
    FloatTrace,
    /// What each node of a float graph gave, and took.
    FloatNodes,
    /// What accuser and provider handed in, in a dispute.
    DisputeFiles,
    /// Draws the sections of a run of a float graph that are executed again.
    FloatSections,
    /// What shows that a member executed the drawn sections.
    FloatChecksum,
    /// Generation of the validators' key for seeds; the genesis id follows.
    SeedKey,
    /// The seed of a height: a signature by that key; the genesis id follows.
    SeedHeight,
    /// What a validator's part of that key is drawn from.
    SeedSecret,
    /// A sealed result of a job of mode `replicate`.
    ResultSeal,
    /// What hides a sealed result, of its provider's key.
    ResultSalt,
    /// The drawing of the members of a job of mode `replicate`.
    ReplicaDraw,
    /// What the members of such a job found, where they differ.
    ReplicaClaims,
    /// The question whether a validator still has a file that it stated to keep.
    StoredQuestion,
    /// Id of a served model: its card.
    ServedModel,
    /// A transaction that a session key signs.
    SessionTransaction,
    /// The key of a sealed job, of its requestor's secret.
    JobKey,
    /// What a sealed input says of the key that opens it.
    JobKeyCommitment,
    /// What an input is sealed with, of the key of its job.
    SealedInput,
    /// What an answer is sealed with, of the key of its job.
    SealedAnswer,
    /// A provider's sealing key, of its account's secret.
    SealingSecret,
    /// A session key that a machine makes for itself, of its account's secret.
    SessionSecret,
    /// What the encapsulation of a granted key is drawn from.
    GrantRandomness,
    /// The key of a sealed job that its requestor showed.
    RevealedKey,
}

impl Domain {
    /// The context string given to BLAKE3, keccak-256 or a transcript.
    #[must_use]
    #[expect(clippy::too_many_lines, reason = "one arm for each purpose")]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Program => "TG/ir/program/v1",
            Self::Weights => "TG/ir/weights/v1",
            Self::Model => "TG/proof/model/v1",
            Self::Trace => "TG/model/trace/v1",
            Self::Tiles => "TG/ir/tiles/v1",
            Self::Challenge => "TG/proof/challenge/v1",
            Self::RunCommitment => "TG/types/run-commitment/v1",
            Self::PartsCommitment => "TG/types/parts-commitment/v1",
            Self::TileVote => "TG/types/tile-vote/v1",
            Self::VoteSalt => "TG/types/vote-salt/v1",
            Self::Asked => "TG/types/asked/v1",
            Self::Answered => "TG/types/answered/v1",
            Self::Serving => "TG/types/serving/v1",
            Self::Committee => "TG/ledger/committee/v1",
            Self::Seed => "TG/ledger/seed/v1",
            Self::ProofTranscript => "TG/proof/inference-transcript/v1",
            Self::RegistrationTranscript => "TG/proof/registration-transcript/v1",
            Self::TensorMatrix => "TG/proof/tensor-commitment-matrix/v1",
            Self::TensorBlinding => "TG/proof/tensor-commitment-blinding/v1",
            Self::PrivateWeights => "TG/proof/private-weights/v1",
            Self::Transaction => "TG/types/transaction/v1",
            Self::Job => "TG/types/job/v1",
            Self::Offer => "TG/types/offer/v1",
            Self::Lease => "TG/ledger/lease/v1",
            Self::Block => "TG/ledger/block/v1",
            Self::BlockBody => "TG/ledger/block-body/v1",
            Self::SeatSet => "TG/ledger/seat-set/v1",
            Self::Vote => "TG/node/vote/v1",
            Self::Connection => "TG/node/connection/v1",
            Self::DevelopmentWallet => "TG/types/development-wallet/v1",
            Self::StateLeaf => "TG/ledger/state-leaf/v2",
            Self::StateKey => "TG/ledger/state-key/v1",
            Self::StateContent => "TG/ledger/state-content/v1",
            Self::StateFree => "TG/ledger/state-free/v1",
            Self::MatchTie => "TG/market/tie/v1",
            Self::Bid => "TG/types/bid/v1",
            Self::BidCommitment => "TG/types/bid-commitment/v1",
            Self::Schedule => "TG/ledger/schedule/v1",
            Self::EpochSeed => "TG/ledger/epoch-seed/v1",
            Self::Sampling => "TG/ir/sampling/v1",
            Self::Upload => "TG/types/upload/v1",
            Self::Heartbeat => "TG/types/heartbeat/v1",
            Self::SeatKey => "TG/types/seat-key/v1",
            Self::WasmProgram => "TG/wasm/program/v1",
            Self::WasmState => "TG/wasm/state/v1",
            Self::WasmTrace => "TG/wasm/trace/v1",
            Self::WasmCalls => "TG/wasm/calls/v1",
            Self::WasmSections => "TG/wasm/sections/v1",
            Self::WasmChecksum => "TG/wasm/checksum/v1",
            Self::FloatProgram => "TG/float/program/v1",
            Self::FloatTrace => "TG/float/trace/v1",
            Self::FloatNodes => "TG/float/nodes/v1",
            Self::DisputeFiles => "TG/ledger/dispute-files/v1",
            Self::FloatSections => "TG/float/sections/v1",
            Self::FloatChecksum => "TG/float/checksum/v1",
            Self::SeedKey => "TG/node/seed/v1",
            Self::SeedHeight => "TG/node/seed-height/v1",
            Self::SeedSecret => "TG/node/seed-secret/v1",
            Self::ResultSeal => "TG/types/result-seal/v1",
            Self::ResultSalt => "TG/types/result-salt/v1",
            Self::ReplicaDraw => "TG/market/replica-draw/v1",
            Self::ReplicaClaims => "TG/ledger/replica-claims/v1",
            Self::StoredQuestion => "TG/ledger/stored-question/v1",
            Self::ServedModel => "TG/types/served-model/v1",
            Self::SessionTransaction => "TG/types/session-transaction/v1",
            Self::JobKey => "TG/types/job-key/v1",
            Self::JobKeyCommitment => "TG/privacy/job-key-commitment/v1",
            Self::SealedInput => "TG/privacy/sealed-input/v1",
            Self::SealedAnswer => "TG/privacy/sealed-answer/v1",
            Self::SealingSecret => "TG/types/sealing-secret/v1",
            Self::SessionSecret => "TG/types/session-secret/v1",
            Self::GrantRandomness => "TG/privacy/grant-randomness/v1",
            Self::RevealedKey => "TG/ledger/revealed-key/v1",
        }
    }
}

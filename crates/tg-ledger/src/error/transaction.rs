//! The reasons for which a transaction is refused.

use tg_types::chain::EquivocationError;
use tg_types::limits::{RETENTION_MAX, RETENTION_MIN};
use tg_types::{
    Address, Amount, BidId, Digest, DurationMs, Fault, JobId, LeaseId, ModelId, OfferId, ProgramId,
    SessionScope, SignatureError, StorageSubject, Tier, TimestampMs, TransactionKind,
    VerificationMode,
};

use crate::record::JobState;

/// What of a job's needs no machine could meet, or contradicts itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NeedsProblem {
    /// More GPUs than a machine may have.
    #[error("more than 8 GPUs of one machine")]
    Gpus,
    /// No share, a fraction of several GPUs, or a share without a GPU.
    #[error("the share of a GPU does not fit the number of GPUs")]
    Share,
    /// Nothing would do.
    #[error("no region or no GPU model is allowed")]
    Nothing,
    /// Too many members, or none.
    #[error("a gang has 1 to 32 members")]
    Gang,
    /// One result has nothing to be compared with.
    #[error("mode replicate needs a gang of 2 to 32 members, whose results are compared")]
    Replicas,
    /// Out of range.
    #[error("priority is 1 to 8")]
    Priority,
    /// GPU time without a GPU, or beyond the horizon.
    #[error("GPU time without a GPU, or more than the horizon of the network")]
    Reference,
    /// Several keys, or a key at another time than now.
    #[error("a sealed job is of one machine, on demand: without gang, guarantee, bid or tier spot")]
    Sealed,
    /// Tier, guarantee and preemption contradict each other.
    #[error(
        "a job may be preempted if and only if it is of tier spot, and has a guaranteed deadline if and only if it is of tier reserved"
    )]
    Tier,
    /// The auction trades GPU time for money and nothing else.
    #[error("a bid states GPU time on GPUs, without gang, guarantee, tier or priority")]
    Bid,
}

/// What of a machine cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MachineProblem {
    /// More GPUs than a machine may have.
    #[error("more than 8 GPUs")]
    Gpus,
    /// No such region.
    #[error("a region above 63")]
    Region,
    /// Nothing for sale.
    #[error("no tier of capacity")]
    Tiers,
}

/// What an endpoint cannot have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EndpointProblem {
    /// An input: requests go to its provider.
    #[error("an input: its length and digest are zero")]
    Input,
    /// A time for which its answer is kept: it has none.
    #[error("a time for which its answer is kept: its retention is zero")]
    Retention,
    /// Another lane than posted prices, or capacity that makes room.
    #[error(
        "a gang, a guaranteed deadline, the batch auction or spot capacity: it is one machine at a posted price"
    )]
    Lane,
}

/// Why a voucher does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VoucherProblem {
    /// It is of another lease.
    #[error("it is for another lease")]
    Lease,
    /// As late a one was claimed.
    #[error("one as late as this was claimed already")]
    Old,
    /// The requestor did not sign it.
    #[error("the requestor did not sign it")]
    Signature,
}

/// Why a transaction is refused. Nothing of a refused transaction happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[allow(
    missing_docs,
    reason = "each field is named in its variant's message; documenting both says everything twice"
)]
pub enum TransactionError {
    /// The sender did not sign this.
    #[error("the transaction is not signed by its sender")]
    Signature(#[source] SignatureError),
    /// The nonce was used: a replay.
    #[error("nonce {got} was used before; the account's next is {expected}")]
    NonceUsed { expected: u64, got: u64 },
    /// Transactions before this one are missing.
    #[error("nonce {got} leaves a gap; the account's next is {expected}")]
    NonceGap { expected: u64, got: u64 },
    /// Too many transactions before this one are missing.
    #[error("nonce {got} is more than {limit} ahead of the account's next, {expected}")]
    NonceTooFarAhead { expected: u64, got: u64, limit: u64 },
    /// The account cannot pay.
    #[error("the transaction needs {needed} TGRID, the account has {balance}")]
    InsufficientFunds { needed: Amount, balance: Amount },
    /// No further account fits.
    #[error("the ledger has {limit} accounts and takes no more")]
    TooManyAccounts { limit: usize },
    /// A new account would begin with too little.
    #[error(
        "{to} has no account yet, and {got} TGRID are less than the {floor} TGRID that open one"
    )]
    TooLittleForNewAccount {
        to: Address,
        got: Amount,
        floor: Amount,
    },
    /// The offer for gas is below the base fee.
    #[error(
        "the transaction offers at most {max_fee} TGRID for each unit of gas, the base fee is {base_fee}"
    )]
    FeeTooLow { max_fee: Amount, base_fee: Amount },
    /// A transaction may wait for those before it only if its sender has an account.
    #[error("{sender} has no account, so its transactions cannot wait")]
    NoAccount { sender: Address },
    /// The model is registered.
    #[error("model {model} is already registered")]
    ModelExists { model: ModelId },
    /// No further model fits.
    #[error("the ledger has {limit} models and takes no more")]
    TooManyModels { limit: usize },
    /// The account has as many models as it may.
    #[error("the account has {limit} models and may have no more")]
    TooManyModelsOfAccount { limit: u32 },
    /// The model is not registered.
    #[error("model {model} is not registered")]
    UnknownModel { model: ModelId },
    /// Jobs may not name the model.
    #[error("model {model} is {state}, not active")]
    ModelNotActive { model: ModelId, state: &'static str },
    /// Runs of the model cannot be proved.
    #[error("model {model} cannot be proved, so mode proof is not possible")]
    ModelNotProvable { model: ModelId },
    /// Running the model again would take validators too long, or too much memory.
    #[error(
        "model {model} is too large for validators to run again, so mode recompute is not possible"
    )]
    ModelNotRecomputable { model: ModelId },
    /// Neither can every validator run the model again, nor does a dispute about it end at one tile, or one call of a program.
    #[error(
        "model {model} is too large for mode optimistic: it takes more than 2^38 multiply-accumulates, or its trace more than 440 MiB, or \
         one tile of it reads more than 14 MiB, or it is a program of more than 200,000,000 units of fuel whose memory may grow beyond 191 pages"
    )]
    ModelNotWatched { model: ModelId },
    /// The network refuses jobs that nobody checks.
    #[error("this network refuses jobs of mode none")]
    UnverifiedJobsRefused,
    /// The input has not the model's length.
    #[error("the input has {got} bytes, the model takes {expected}")]
    WrongInputLength { expected: u32, got: u32 },
    /// The maximum price is below what the network allows.
    #[error("the maximum price {max_price} TGRID is below the network's minimum of {floor}")]
    PriceTooLow { max_price: Amount, floor: Amount },
    /// The deadline passed.
    #[error("the deadline {deadline} ms is not after the ledger's time {now} ms")]
    DeadlineInThePast {
        deadline: TimestampMs,
        now: TimestampMs,
    },
    /// The deadline lies too far ahead.
    #[error("the deadline {deadline} ms is later than {latest} ms, the last allowed now")]
    DeadlineTooFar {
        deadline: TimestampMs,
        latest: TimestampMs,
    },
    /// The order allows no attempt, or too many.
    #[error("the order allows {got} attempts; 1 to {limit} are possible")]
    BadAttempts { got: u8, limit: u8 },
    /// No further open job fits.
    #[error("the ledger has {limit} open jobs and takes no more now")]
    TooManyOpenJobs { limit: usize },
    /// The account has as many open jobs as it may.
    #[error("the account has {limit} open jobs and may have no more now")]
    TooManyOpenJobsOfAccount { limit: u32 },
    /// The job does not exist.
    #[error("job {job} does not exist")]
    UnknownJob { job: JobId },
    /// Somebody else ordered the job.
    #[error("job {job} was ordered by {requestor}")]
    NotRequestor { job: JobId, requestor: Address },
    /// A job that has a result, or has ended, cannot be taken back.
    #[error(
        "job {job} is {state}; it can be cancelled only until its provider commits to a result"
    )]
    JobNotCancellable { job: JobId, state: JobState },
    /// The job ended.
    #[error("job {job} is {state}; nothing more can be paid for it")]
    JobEnded { job: JobId, state: JobState },
    /// A bid of the auction stays as it was sealed.
    #[error("job {job} is a bid of the batch auction, which stays as it was sealed")]
    BidNotRaised { job: JobId },
    /// Nothing becomes more, or something becomes less.
    #[error(
        "job {job} allows {max_price} TGRID and {max_attempts} attempts already; neither may become less, and one must \
         become more"
    )]
    NotRaised {
        job: JobId,
        max_price: Amount,
        max_attempts: u8,
    },
    /// The offer has no slot, or too many.
    #[error("the offer has {got} slots; 1 to {limit} are possible")]
    BadSlots { got: u16, limit: u16 },
    /// The offer serves no verification mode.
    #[error("the offer serves no verification mode")]
    NoModes,
    /// The offer declares no speed.
    #[error("the offer declares a speed of zero")]
    NoSpeed,
    /// The collateral is below what the network demands.
    #[error("the collateral {got} TGRID is below the network's minimum of {floor}")]
    CollateralTooLow { got: Amount, floor: Amount },
    /// No further offer fits.
    #[error("the ledger has {limit} offers and takes no more")]
    TooManyOffers { limit: usize },
    /// The account has as many offers as it may.
    #[error("the account has {limit} offers and may have no more")]
    TooManyOffersOfAccount { limit: u32 },
    /// The offer does not exist.
    #[error("offer {offer} does not exist")]
    UnknownOffer { offer: OfferId },
    /// The offer is somebody else's.
    #[error("offer {offer} belongs to {provider}")]
    NotOfferOwner { offer: OfferId, provider: Address },
    /// The lease does not exist.
    #[error("lease {lease} does not exist")]
    UnknownLease { lease: LeaseId },
    /// The lease is somebody else's.
    #[error("lease {lease} is held by {provider}")]
    NotLeaseHolder { lease: LeaseId, provider: Address },
    /// The lease ended.
    #[error("lease {lease} ended: {end}")]
    LeaseEnded { lease: LeaseId, end: &'static str },
    /// The job stands elsewhere.
    #[error("the job of lease {lease} is {state}; {needed} is needed")]
    WrongJobState {
        lease: LeaseId,
        state: JobState,
        needed: JobState,
    },
    /// The receipt names another program.
    #[error("the receipt names program {got}, the model's is {expected}")]
    WrongProgram { expected: ProgramId, got: ProgramId },
    /// The receipt names another model.
    #[error("the receipt names model {got}, the job's is {expected}")]
    WrongModel { expected: ModelId, got: ModelId },
    /// The receipt names another input.
    #[error("the receipt names input {got}, the job's is {expected}")]
    WrongInput { expected: Digest, got: Digest },
    /// The receipt names other semantics than the model's.
    #[error("the receipt is of tier {got}, the model of {expected}")]
    WrongTier { expected: Tier, got: Tier },
    /// The evidence has no bytes.
    #[error("the evidence has no bytes")]
    EvidenceEmpty,
    /// The evidence has too many bytes.
    #[error("the evidence has {size} bytes, at most {limit} are allowed")]
    EvidenceTooLarge { size: u32, limit: u32 },
    /// the job's needs cannot be met by any machine
    #[error("the order's needs are not possible: {problem}")]
    BadNeeds { problem: NeedsProblem },
    /// Batch work bids in the auction.
    #[error("a job of class batch is ordered by a sealed bid (CommitBid, then RevealBid)")]
    BidNeeded,
    /// The bid does not exist.
    #[error("bid {bid} does not exist")]
    UnknownBid { bid: BidId },
    /// The bid is somebody else's.
    #[error("bid {bid} was made by {bidder}")]
    NotBidder { bid: BidId, bidder: Address },
    /// The bid is not revealed in its slot.
    #[error("bid {bid} can be revealed in slot {expected}, now it is {got}")]
    WrongSlot { bid: BidId, expected: u64, got: u64 },
    /// What is revealed is not what was committed to.
    #[error("the order and salt are not what bid {bid} committed to")]
    WrongCommitment { bid: BidId },
    /// The machine cannot be.
    #[error("the offer's machine is not possible: {problem}")]
    MachineInvalid { problem: MachineProblem },
    /// Nothing changes.
    #[error("offer {offer} has these terms already")]
    OfferUnchanged { offer: OfferId },
    /// The terms changed a moment ago.
    #[error("the terms of offer {offer} may change again at {earliest} ms")]
    UpdateTooSoon {
        offer: OfferId,
        earliest: TimestampMs,
    },
    /// Live leases need more than the new machine has.
    #[error("leases that run on offer {offer} hold more than the new machine has")]
    OfferInUse { offer: OfferId },
    /// The deposit is below what the network demands.
    #[error("the deposit {got} TGRID is below the network's minimum of {floor}")]
    DepositTooLow { got: Amount, floor: Amount },
    /// No further bid fits.
    #[error("the ledger has {limit} sealed bids and takes no more now")]
    TooManyBids { limit: usize },
    /// The account has as many bids as it may.
    #[error("the account has {limit} sealed bids and may have no more now")]
    TooManyBidsOfAccount { limit: u32 },
    /// The rating is no rating.
    #[error("a rating has 1 to 5 stars, not {got}")]
    BadStars { got: u8 },
    /// Only a paid job is rated.
    #[error("job {job} is {state}; only a paid job can be rated")]
    JobNotPaid { job: JobId, state: JobState },
    /// What nobody checked is not rated.
    #[error(
        "job {job} is of mode {mode}, whose results nobody checks; ratings are of results that were"
    )]
    NotRated { job: JobId, mode: VerificationMode },
    /// The job was rated.
    #[error("job {job} was rated before")]
    AlreadyRated { job: JobId },
    /// The lease was started.
    #[error("lease {lease} was started before")]
    LeaseStarted { lease: LeaseId },
    /// The lease is booked for later.
    #[error("lease {lease} begins at {from} ms")]
    LeaseNotBegun { lease: LeaseId, from: TimestampMs },
    /// Another lease leads the gang.
    #[error("lease {lease} does not lead its gang: {lead} submits the result")]
    NotGangLead { lease: LeaseId, lead: LeaseId },
    /// The sender is no validator.
    #[error("{sender} is no validator")]
    NotValidator { sender: Address },
    /// The report is for another epoch.
    #[error("the report is for epoch {got}, now it is {expected}")]
    WrongEpoch { expected: u64, got: u64 },
    /// The validator reported in this epoch.
    #[error("the validator reported in epoch {epoch} before")]
    ReportedBefore { epoch: u64 },
    /// The report names a provider twice, out of order, or one that is no provider or did not change.
    #[error(
        "the report names {provider} twice, out of order, without a change, or it is no provider"
    )]
    BadReport { provider: Address },
    /// The report states nothing.
    #[error("the report states nothing")]
    EmptyReport,
    /// The report names something twice or out of order, or nothing that the validator is asked and has not stated.
    #[error("the report names {subject} twice or out of order, or states nothing that is asked")]
    BadStatement { subject: StorageSubject },
    /// Too few validators hold the files of the model.
    #[error("too few validators hold the files of model {model}: {held} of {needed}")]
    ModelNotHeld {
        model: ModelId,
        held: usize,
        needed: usize,
    },
    /// The lease is not one of a gang, or leads it.
    #[error("lease {lease} has no part to commit to: it leads its job")]
    NotGangMember { lease: LeaseId },
    /// The part was committed.
    #[error("the part of lease {lease} was committed before")]
    PartCommitted { lease: LeaseId },
    /// The member that leads could not hand in the result any more.
    #[error("the part of lease {lease} comes too late: it would leave no time for the result")]
    PartTooLate { lease: LeaseId },
    /// A member of the gang did not commit to its part.
    #[error("the result of a gang is committed after all parts; {member} has none yet")]
    PartMissing { member: LeaseId },
    /// No further provider fits.
    #[error("the ledger has records of {limit} providers and takes no more now")]
    TooManyProviders { limit: usize },
    /// Nothing that pays rent has the name.
    #[error("{record} is no offer, model, job or provider that pays rent")]
    NoTenant { record: Digest },
    /// Rent of nothing.
    #[error("a payment of rent must be more than zero")]
    NoRent,
    /// The key is no validator's.
    #[error("{} is no key of a validator", Digest::new(*key))]
    NoSeat { key: [u8; 32] },
    /// The validator's stake was taken before.
    #[error("validator {validator} has no stake left")]
    NoStake { validator: Address },
    /// The network has so few validators that one that is silent stops it, so nobody gets a seat who was not seen.
    #[error(
        "a network of {validators} validators takes no new ones: with fewer than 3 a silent one would stop it"
    )]
    SeatsClosed { validators: usize },
    /// The account has a seat, waits for one, or its bond is not returned yet.
    #[error("{account} has a seat, waits for one, or its last bond is not returned yet")]
    HasSeat { account: Address },
    /// The key has a seat, waits for one, or its bond is not returned yet.
    #[error("the key {} has a seat, waits for one, or its last bond is not returned yet", Digest::new(*key))]
    KeyHasSeat { key: [u8; 32] },
    /// No further account may wait for a seat.
    #[error("{limit} accounts wait for a seat; no more may")]
    TooManyApplicants { limit: usize },
    /// The endpoint is not an address.
    #[error(
        "the endpoint of a seat is HOST:PORT, with a name or an IP address as host and a port from 1 to 65535"
    )]
    BadEndpoint,
    /// The key did not sign that it is the sender's.
    #[error("the key {} did not sign that it belongs to the sender in this network", Digest::new(*key))]
    NoPossession { key: [u8; 32] },
    /// The seat is given back already.
    #[error("{account} gave its seat up before; it ends with an epoch in which a seat may end")]
    LeavesAlready { account: Address },
    /// A validator is ready for another version of the protocol than the next one.
    #[error(
        "blocks have version {now} of the protocol: a validator can be ready for the next one, not for {got}"
    )]
    NotNextProtocol { got: u16, now: u16 },
    /// The validator stated it before.
    #[error("the validator is ready for version {version} of the protocol already")]
    ReadyAlready { version: u16 },
    /// The order of an endpoint has what an endpoint cannot have.
    #[error("an endpoint cannot have {problem}")]
    BadEndpointOrder { problem: EndpointProblem },
    /// The lease is not one of an endpoint.
    #[error("lease {lease} serves no endpoint")]
    NoEndpoint { lease: LeaseId },
    /// The voucher does not count.
    #[error("the voucher does not count for lease {lease}: {problem}")]
    BadVoucher {
        lease: LeaseId,
        problem: VoucherProblem,
    },
    /// An endpoint has no result of its own.
    #[error("lease {lease} serves an endpoint, which is paid by vouchers and has no receipt")]
    EndpointHasNoReceipt { lease: LeaseId },
    /// It was taken back before.
    #[error("endpoint {job} was cancelled; its provider has some seconds for its last claim")]
    EndpointEnds { job: JobId },
    /// A served model has no other jobs than endpoints.
    #[error(
        "model {model} is served by a server of its provider: only endpoints of it can be ordered"
    )]
    ServedAsEndpoint { model: ModelId },
    /// Runs of it can fail after all their work, and what they cost does not follow from an answer.
    #[error(
        "model {model} is a program or a float graph: endpoints are of models of integers and of served models"
    )]
    NotServable { model: ModelId },
    /// The votes convict nobody.
    #[error("the votes convict nobody")]
    NoEquivocation(#[source] EquivocationError),
    /// The round of the seed's key is another, or nobody deals in it any more.
    #[error("nobody deals in round {got} of the seed's key; the round is {round}")]
    NoSuchRound { got: u64, round: u64 },
    /// The validator dealt in this round.
    #[error("the validator dealt in round {round} before")]
    DealtBefore { round: u64 },
    /// What was dealt is no dealing of the sender in this round: what validators look at beside the ledger.
    #[error("the log is not a dealing of the sender in round {round}")]
    BadDealing { round: u64 },
    /// The tiles of the result are not drawn yet.
    #[error(
        "the tiles of lease {lease} are not drawn yet: its seed comes when its receipt is final"
    )]
    NotChallenged { lease: LeaseId },
    /// The validator has no vote on the result of a lease, or not at this time.
    #[error("the validator has no vote on lease {lease} now")]
    NoVote { lease: LeaseId },
    /// The vote is not the one that was sealed.
    #[error("the vote on lease {lease} is not the one that was sealed")]
    WrongVote { lease: LeaseId },
    /// A member that accuses must have a bond at stake.
    #[error(
        "an accusation on lease {lease} needs {bond} TGRID at stake, and the validator has less"
    )]
    NoAccusationBond { lease: LeaseId, bond: Amount },
    /// Votes are not in the order of their leases, each once.
    #[error("votes must stand in the order of their leases, each lease once")]
    VotesUnsorted,
    /// A committee cannot compute parts of the model's runs again.
    #[error(
        "model {model} takes no jobs of mode sync: they are for models of integers whose runs have at most 2^34 multiply-adds and whose \
         nodes give at most 14 MiB, or more where a run is short, for float models that take at most 2^33 units of work, and for programs of at most 2^27 units of fuel"
    )]
    ModelNotSampled { model: ModelId },
    /// Results of mode `replicate` are sealed first.
    #[error("the result of lease {lease} is sealed and then opened: its job is of mode replicate")]
    ResultIsSealed { lease: LeaseId },
    /// Results of other modes are committed to in the open.
    #[error("lease {lease} seals no result: its job is not of mode replicate")]
    NoSealedResult { lease: LeaseId },
    /// The result was sealed or opened before, or the time for it is not now.
    #[error("lease {lease} has nothing to seal or to open now")]
    NotSealable { lease: LeaseId },
    /// What is opened is not what was sealed.
    #[error("the result of lease {lease} is not the one that was sealed")]
    WrongSeal { lease: LeaseId },
    /// The evidence of mode `replicate` is the answer that all members found, and that of a watched result the one of its receipt.
    #[error(
        "the evidence of lease {lease} must be the answer {expected}, which its receipt names or all members found"
    )]
    NotTheAnswer { lease: LeaseId, expected: Digest },
    /// The account has no session key of these bytes.
    #[error("the account has no session key {}", Digest::new(*.key))]
    NoSession { key: [u8; 32] },
    /// The session key signs no longer.
    #[error("the session key expired at {expires}, it is {now}")]
    SessionExpired {
        expires: TimestampMs,
        now: TimestampMs,
    },
    /// A session key of this scope may not sign such a transaction.
    #[error("a session key with the scope {scope} may not sign {kind}")]
    NotOfSession {
        kind: TransactionKind,
        scope: SessionScope,
    },
    /// The session key may cost no more.
    #[error("the transaction needs {needed} of the session key's cap, and {left} are left")]
    OverSessionCap { needed: Amount, left: Amount },
    /// The bytes are no key of ed25519, or one for which anybody signs.
    #[error("{} is no session key", Digest::new(*.key))]
    BadSessionKey { key: [u8; 32] },
    /// The account has the key already.
    #[error("the account has the session key {} already", Digest::new(*.key))]
    SessionExists { key: [u8; 32] },
    /// The account has as many session keys as it may.
    #[error("the account has {limit} session keys and may have no more now")]
    TooManySessions { limit: usize },
    /// The key would sign for no time, or for too long.
    #[error("a session key signs until a time from {now} to {latest}, not {expires}")]
    BadSessionTime {
        expires: TimestampMs,
        now: TimestampMs,
        latest: TimestampMs,
    },
    /// There is no dispute in which it is the sender's turn.
    #[error("this account has nothing to submit in a dispute about lease {lease} now")]
    NotAsked { lease: LeaseId },
    /// There is no result to challenge.
    #[error(
        "the result of lease {lease} cannot be challenged now: only one of mode optimistic can be, from the time that its watcher is \
         drawn until it is accepted, and by one at a time"
    )]
    NotContestable { lease: LeaseId },
    /// The order asks for too short or too long a time for which its answer is kept.
    #[error(
        "the order has its answer kept for {got} ms; {} to {} ms are possible, or 0, if nobody has to keep it",
        RETENTION_MIN,
        RETENTION_MAX
    )]
    BadRetention { got: DurationMs },
    /// No further answer fits where validators keep them.
    #[error(
        "validators have no room to keep a further answer now: order with a retention of 0, or later"
    )]
    NoRoomForAnswer,
    /// Nobody keeps the answer.
    #[error(
        "no validator has to keep the answer of job {job}: it was not paid, or its time is over"
    )]
    AnswerNotKept { job: JobId },
    /// The validator did not state that it holds the answer.
    #[error(
        "{seat} does not keep the answer of job {job}: it has no seat or gives it back, or did not state that it holds it"
    )]
    NotKeeper { job: JobId, seat: Address },
    /// The validator is asked for it already.
    #[error(
        "{seat} is asked for the answer of job {job} already, and the others have not said yet whether it gives it"
    )]
    AskedAlready { job: JobId, seat: Address },
    /// No further question fits.
    #[error("{limit} questions for kept answers are open; no more may be asked now")]
    TooManyQuestions { limit: usize },
    /// Nothing of the job is sealed.
    #[error("the job of lease {lease} is not sealed: it has no key")]
    NotSealed { lease: LeaseId },
    /// No key may be granted now.
    #[error(
        "lease {lease} waits for no key: it was granted one, or less time is left than its provider declared for the work"
    )]
    KeyNotAwaited { lease: LeaseId },
    /// The provider has no key yet.
    #[error(
        "the key of the sealed job of lease {lease} was not granted yet: wait for its requestor"
    )]
    KeyNotGranted { lease: LeaseId },
    /// Nothing that would be granted to the provider could be opened.
    #[error(
        "provider {provider} has no sealing key: register one (RegisterSealingKey) before it offers mode sealed"
    )]
    NoSealingKey { provider: Address },
    /// Nobody could look at what its requestor doubts.
    #[error(
        "model {model} cannot be run sealed: it is a program, or too large for every validator to run again"
    )]
    ModelNotSealed { model: ModelId },
    /// There is nothing that the key would show.
    #[error(
        "the key of lease {lease} need not be shown: its provider did not say that it opens nothing, and its result may not be challenged now"
    )]
    RevealNotAwaited { lease: LeaseId },
    /// The provider says that the key does not open the input.
    #[error(
        "whether the key of lease {lease} opens the input is in question: nothing else can happen before its requestor shows it, or its time to do so is over"
    )]
    KeyInQuestion { lease: LeaseId },
    /// The validator lost too many providers.
    #[error("a validator reports at most {limit} providers as lost")]
    ReportTooLong { limit: usize },
}

impl TransactionError {
    /// The stable code.
    #[must_use]
    #[expect(clippy::too_many_lines, reason = "one arm for each error")]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Signature(_) => "TG-LED-001",
            Self::NonceUsed { .. } => "TG-LED-002",
            Self::NonceGap { .. } => "TG-LED-003",
            Self::NonceTooFarAhead { .. } => "TG-LED-004",
            Self::InsufficientFunds { .. } => "TG-LED-005",
            Self::TooManyAccounts { .. } => "TG-LED-006",
            Self::TooLittleForNewAccount { .. } => "TG-LED-007",
            Self::FeeTooLow { .. } => "TG-LED-008",
            Self::NoAccount { .. } => "TG-LED-009",
            Self::ModelExists { .. } => "TG-LED-010",
            Self::TooManyModels { .. } => "TG-LED-011",
            Self::TooManyModelsOfAccount { .. } => "TG-LED-012",
            Self::JobEnded { .. } => "TG-LED-017",
            Self::BidNotRaised { .. } => "TG-LED-018",
            Self::NotRaised { .. } => "TG-LED-019",
            Self::UnknownModel { .. } => "TG-LED-020",
            Self::ModelNotActive { .. } => "TG-LED-021",
            Self::ModelNotProvable { .. } => "TG-LED-022",
            Self::ModelNotRecomputable { .. } => "TG-LED-123",
            Self::UnverifiedJobsRefused => "TG-LED-023",
            Self::WrongInputLength { .. } => "TG-LED-024",
            Self::PriceTooLow { .. } => "TG-LED-025",
            Self::DeadlineInThePast { .. } => "TG-LED-026",
            Self::DeadlineTooFar { .. } => "TG-LED-027",
            Self::BadAttempts { .. } => "TG-LED-028",
            Self::TooManyOpenJobs { .. } => "TG-LED-029",
            Self::TooManyOpenJobsOfAccount { .. } => "TG-LED-030",
            Self::UnknownJob { .. } => "TG-LED-031",
            Self::NotRequestor { .. } => "TG-LED-032",
            Self::JobNotCancellable { .. } => "TG-LED-033",
            Self::BadSlots { .. } => "TG-LED-040",
            Self::NoModes => "TG-LED-041",
            Self::NoSpeed => "TG-LED-042",
            Self::CollateralTooLow { .. } => "TG-LED-043",
            Self::TooManyOffers { .. } => "TG-LED-044",
            Self::TooManyOffersOfAccount { .. } => "TG-LED-045",
            Self::UnknownOffer { .. } => "TG-LED-046",
            Self::NotOfferOwner { .. } => "TG-LED-047",
            Self::UnknownLease { .. } => "TG-LED-050",
            Self::NotLeaseHolder { .. } => "TG-LED-051",
            Self::LeaseEnded { .. } => "TG-LED-052",
            Self::WrongJobState { .. } => "TG-LED-053",
            Self::WrongProgram { .. } => "TG-LED-054",
            Self::WrongModel { .. } => "TG-LED-055",
            Self::WrongInput { .. } => "TG-LED-056",
            Self::WrongTier { .. } => "TG-LED-124",
            Self::EvidenceEmpty => "TG-LED-057",
            Self::EvidenceTooLarge { .. } => "TG-LED-058",
            Self::BadNeeds { .. } => "TG-LED-034",
            Self::BidNeeded => "TG-LED-035",
            Self::UnknownBid { .. } => "TG-LED-036",
            Self::NotBidder { .. } => "TG-LED-037",
            Self::WrongSlot { .. } => "TG-LED-038",
            Self::WrongCommitment { .. } => "TG-LED-039",
            Self::MachineInvalid { .. } => "TG-LED-048",
            Self::OfferUnchanged { .. } => "TG-LED-049",
            Self::UpdateTooSoon { .. } => "TG-LED-059",
            Self::OfferInUse { .. } => "TG-LED-060",
            Self::DepositTooLow { .. } => "TG-LED-061",
            Self::TooManyBids { .. } => "TG-LED-062",
            Self::TooManyBidsOfAccount { .. } => "TG-LED-063",
            Self::BadStars { .. } => "TG-LED-064",
            Self::JobNotPaid { .. } => "TG-LED-065",
            Self::AlreadyRated { .. } => "TG-LED-066",
            Self::NotRated { .. } => "TG-LED-150",
            Self::LeaseStarted { .. } => "TG-LED-067",
            Self::LeaseNotBegun { .. } => "TG-LED-068",
            Self::NotGangLead { .. } => "TG-LED-069",
            Self::NotValidator { .. } => "TG-LED-075",
            Self::WrongEpoch { .. } => "TG-LED-076",
            Self::ReportedBefore { .. } => "TG-LED-077",
            Self::BadReport { .. } => "TG-LED-078",
            Self::ReportTooLong { .. } => "TG-LED-079",
            Self::BadRetention { .. } => "TG-LED-159",
            Self::NoRoomForAnswer => "TG-LED-160",
            Self::AnswerNotKept { .. } => "TG-LED-161",
            Self::NotKeeper { .. } => "TG-LED-162",
            Self::AskedAlready { .. } => "TG-LED-163",
            Self::TooManyQuestions { .. } => "TG-LED-164",
            Self::NotSealed { .. } => "TG-LED-165",
            Self::KeyNotAwaited { .. } => "TG-LED-166",
            Self::KeyNotGranted { .. } => "TG-LED-167",
            Self::NoSealingKey { .. } => "TG-LED-168",
            Self::ModelNotSealed { .. } => "TG-LED-169",
            Self::RevealNotAwaited { .. } => "TG-LED-171",
            Self::KeyInQuestion { .. } => "TG-LED-172",
            Self::EmptyReport => "TG-LED-093",
            Self::BadStatement { .. } => "TG-LED-094",
            Self::ModelNotHeld { .. } => "TG-LED-095",
            Self::NotGangMember { .. } => "TG-LED-096",
            Self::PartCommitted { .. } => "TG-LED-097",
            Self::PartMissing { .. } => "TG-LED-098",
            Self::PartTooLate { .. } => "TG-LED-173",
            Self::TooManyProviders { .. } => "TG-LED-110",
            Self::NoTenant { .. } => "TG-LED-111",
            Self::NoRent => "TG-LED-112",
            Self::NoSeat { .. } => "TG-LED-113",
            Self::NoStake { .. } => "TG-LED-114",
            Self::NoEquivocation(_) => "TG-LED-115",
            Self::SeatsClosed { .. } => "TG-LED-116",
            Self::HasSeat { .. } => "TG-LED-117",
            Self::KeyHasSeat { .. } => "TG-LED-118",
            Self::TooManyApplicants { .. } => "TG-LED-119",
            Self::BadEndpoint => "TG-LED-120",
            Self::NoPossession { .. } => "TG-LED-121",
            Self::LeavesAlready { .. } => "TG-LED-122",
            Self::NoSuchRound { .. } => "TG-LED-125",
            Self::DealtBefore { .. } => "TG-LED-126",
            Self::NoVote { .. } => "TG-LED-127",
            Self::WrongVote { .. } => "TG-LED-128",
            Self::VotesUnsorted => "TG-LED-129",
            Self::ModelNotSampled { .. } => "TG-LED-130",
            Self::NotChallenged { .. } => "TG-LED-131",
            Self::NotAsked { .. } => "TG-LED-148",
            Self::ModelNotWatched { .. } => "TG-LED-149",
            Self::BadDealing { .. } => "TG-LED-132",
            Self::NoAccusationBond { .. } => "TG-LED-133",
            Self::NotContestable { .. } => "TG-LED-134",
            Self::NotNextProtocol { .. } => "TG-LED-135",
            Self::ReadyAlready { .. } => "TG-LED-136",
            Self::BadEndpointOrder { .. } => "TG-LED-137",
            Self::NoEndpoint { .. } => "TG-LED-138",
            Self::BadVoucher { .. } => "TG-LED-139",
            Self::EndpointHasNoReceipt { .. } => "TG-LED-140",
            Self::EndpointEnds { .. } => "TG-LED-141",
            Self::ServedAsEndpoint { .. } => "TG-LED-142",
            Self::NotServable { .. } => "TG-LED-170",
            Self::ResultIsSealed { .. } => "TG-LED-143",
            Self::NoSealedResult { .. } => "TG-LED-144",
            Self::NotSealable { .. } => "TG-LED-145",
            Self::WrongSeal { .. } => "TG-LED-146",
            Self::NotTheAnswer { .. } => "TG-LED-147",
            Self::NoSession { .. } => "TG-LED-151",
            Self::SessionExpired { .. } => "TG-LED-152",
            Self::NotOfSession { .. } => "TG-LED-153",
            Self::OverSessionCap { .. } => "TG-LED-154",
            Self::BadSessionKey { .. } => "TG-LED-155",
            Self::SessionExists { .. } => "TG-LED-156",
            Self::TooManySessions { .. } => "TG-LED-157",
            Self::BadSessionTime { .. } => "TG-LED-158",
        }
    }

    /// Whose fault it is: whoever signed it, unless nobody did.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        match self {
            Self::Signature(_) => Fault::Peer,
            _ => Fault::Client,
        }
    }

    /// Whether the same bytes may hold later, so that a mempool may keep them.
    #[must_use]
    pub const fn may_hold_later(&self) -> bool {
        matches!(self, Self::NonceGap { .. } | Self::FeeTooLow { .. })
    }
}

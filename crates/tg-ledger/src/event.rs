//! Events: what happened in a block, in the order in which it happened.

use tg_types::{
    Address, Amount, BidId, Digest, Height, JobId, LeaseId, ModelId, OfferId, TimestampMs,
    TransactionId, TransactionKind, Vote,
};

use crate::decision::Decision;
use crate::record::{EndReason, JobState, LeaseEnd, ModelState, Settlement};

/// Why a part of a job's escrow was burned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BurnedBecause {
    /// Machines were held back for it since the last block, and this is what was idle there.
    Idle,
    /// A lease ran out of the GPU time that the order states, as many times of it as it may have.
    StatedTime,
    /// The provider of a lease got a key that does not open the input, or its requestor did not show that it does.
    NoKey,
}

/// What happened to the key of a sealed job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyStep {
    /// Its requestor granted it to the provider of the lease.
    Granted,
    /// The provider says that it does not open the input.
    Questioned,
    /// Its requestor showed it to everybody.
    Revealed,
}

/// How a question ended whether a validator has what it keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuestionEnd {
    /// More than f others got it.
    Served,
    /// Neither so many got it, nor did n - f find that it is not there; or the validator has no seat any more.
    Undecided,
    /// n - f others state that it does not give it: a part of its stake is gone.
    Missing {
        /// What was burned of it.
        burned: Amount,
        /// What went to who asked: at most its fee.
        returned: Amount,
    },
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A transaction was executed.
    TransactionExecuted {
        /// The transaction.
        id: TransactionId,
        /// Who signed it.
        sender: Address,
        /// What it asked for.
        kind: TransactionKind,
        /// What was burned for its gas; nothing if it was prepaid.
        burned: Amount,
        /// What its sender tips the proposer.
        tip: Amount,
    },
    /// A provider prepaid the gas of a new lease.
    GasPrepaid {
        /// The lease.
        lease: LeaseId,
        /// Who paid.
        provider: Address,
        /// How much.
        amount: Amount,
    },
    /// What a lease prepaid for gas was settled at its end.
    GasSettled {
        /// The lease.
        lease: LeaseId,
        /// Who had paid.
        provider: Address,
        /// What was burned: all of it if the provider failed, else what was used.
        burned: Amount,
        /// What went back.
        returned: Amount,
    },
    /// Money went from one account to another.
    Transferred {
        /// Who paid.
        from: Address,
        /// Who was paid.
        to: Address,
        /// How much.
        amount: Amount,
    },
    /// A model entered a state.
    ModelChanged {
        /// The model.
        model: ModelId,
        /// The state.
        state: ModelState,
    },
    /// Enough validators state that they hold the files of a model: jobs may name it.
    ModelHeld {
        /// The model.
        model: ModelId,
    },
    /// An offer was posted.
    OfferPosted {
        /// The offer.
        offer: OfferId,
        /// Whose it is.
        provider: Address,
    },
    /// An offer was withdrawn.
    OfferWithdrawn {
        /// The offer.
        offer: OfferId,
        /// Whose it was.
        provider: Address,
    },
    /// A job entered a state.
    JobChanged {
        /// The job.
        job: JobId,
        /// Who ordered it.
        requestor: Address,
        /// The state.
        state: JobState,
    },
    /// A job was matched with an offer, and the provider's collateral locked.
    LeaseMade {
        /// The lease.
        lease: LeaseId,
        /// The job.
        job: JobId,
        /// The offer.
        offer: OfferId,
        /// Whose offer.
        provider: Address,
        /// What the provider is paid if its result is accepted.
        price: Amount,
        /// What was locked.
        collateral: Amount,
    },
    /// The provider of an endpoint was paid for what it served since it was paid last.
    EndpointPaid {
        /// The lease.
        lease: LeaseId,
        /// The job.
        job: JobId,
        /// Whose lease.
        provider: Address,
        /// How much.
        amount: Amount,
    },
    /// A lease ended.
    LeaseEnded {
        /// The lease.
        lease: LeaseId,
        /// The job.
        job: JobId,
        /// Whose lease it was.
        provider: Address,
        /// How.
        end: LeaseEnd,
    },
    /// An account bonded for a seat among the validators.
    SeatBonded {
        /// The account.
        validator: Address,
        /// The bond.
        amount: Amount,
    },
    /// A validator gives its seat back; it has it until an epoch ends in which it may go.
    SeatLeaving {
        /// The validator.
        validator: Address,
    },
    /// Enough validators execute the next version of the protocol.
    ProtocolAnnounced {
        /// The version.
        version: u16,
        /// The first block that has it.
        from: Height,
    },
    /// Fewer validators execute the announced version than it takes: it does not begin.
    ProtocolPutOff {
        /// The version.
        version: u16,
    },
    /// Blocks have another version of the protocol from this one on.
    ProtocolBegan {
        /// The version.
        version: u16,
    },
    /// The set of validators changed: the new one votes on the next block.
    SeatsChanged {
        /// How many sets there were before it.
        term: u64,
        /// Who got a seat.
        joined: Vec<Address>,
        /// Who has none any more.
        left: Vec<Address>,
    },
    /// The bond of a seat went back.
    StakeReturned {
        /// Who had it, or waited for it.
        validator: Address,
        /// How much.
        amount: Amount,
    },
    /// A validator signed votes that contradict each other, and its stake was taken.
    ValidatorSlashed {
        /// The validator.
        validator: Address,
        /// What was burned.
        burned: Amount,
        /// Who showed it.
        reporter: Address,
        /// What the reporter got of the stake.
        reward: Amount,
    },
    /// Validators begin to deal the key that seeds are signed with.
    SeedRound {
        /// The round.
        round: u64,
    },
    /// The key of a round is known.
    SeedKeyMade {
        /// The round.
        round: u64,
    },
    /// The validators signed the seed of a block.
    SeedSigned {
        /// The block's height.
        height: Height,
        /// The seed.
        seed: Digest,
    },
    /// A committee was drawn that votes on a result.
    CommitteeDrawn {
        /// The lease.
        lease: LeaseId,
        /// How many were drawn before.
        number: u8,
        /// Its members.
        members: Vec<Address>,
    },
    /// A member of a committee says that a result is wrong.
    ResultDisputed {
        /// The lease.
        lease: LeaseId,
        /// The job.
        job: JobId,
        /// The member.
        accuser: Address,
        /// What it says.
        vote: Vote,
    },
    /// A side of a dispute that ends at one tile submitted its file.
    ResultArgued {
        /// The lease.
        lease: LeaseId,
        /// The job.
        job: JobId,
        /// Who: whoever accused, or the provider.
        account: Address,
        /// Content hash of the file.
        file: Digest,
    },
    /// Every validator found that what a member said is not so, and a part of its stake was burned.
    AccusationRefuted {
        /// The member.
        validator: Address,
        /// What was burned.
        burned: Amount,
    },
    /// A member found a result right that every validator found wrong, and a part of its stake was burned.
    VoteRefuted {
        /// The lease.
        lease: LeaseId,
        /// The member.
        validator: Address,
        /// What was burned.
        burned: Amount,
    },
    /// A part of the fee of a challenge is held until the dispute is decided.
    ChallengeHeld {
        /// How much.
        amount: Amount,
    },
    /// A challenge failed: what was held of its fee is the provider's, which had to show that its result is right.
    ChallengeShared {
        /// The lease.
        lease: LeaseId,
        /// Whose result it is.
        provider: Address,
        /// How much.
        amount: Amount,
    },
    /// A challenged result was wrong: the challenger has its fee back out of the provider's collateral.
    ChallengeReturned {
        /// The lease.
        lease: LeaseId,
        /// Whose collateral.
        provider: Address,
        /// Who challenged.
        challenger: Address,
        /// How much.
        amount: Amount,
        /// How much of that was held of its own fee; the rest comes out of the collateral.
        held: Amount,
    },
    /// The members of a job of mode `replicate` found different things: every validator runs its program.
    ReplicasDiffer {
        /// The lease that led.
        lease: LeaseId,
        /// The job.
        job: JobId,
    },
    /// A member found something else than every validator: it paid for their run out of its collateral.
    RunCharged {
        /// The lease.
        lease: LeaseId,
        /// Whose collateral.
        provider: Address,
        /// How much; validators share it.
        amount: Amount,
    },
    /// Collateral was taken from a provider and burned.
    Slashed {
        /// The lease.
        lease: LeaseId,
        /// Whose collateral.
        provider: Address,
        /// How much.
        amount: Amount,
    },
    /// Collateral was taken from a provider; what members of its gang are not paid out of it is burned.
    Forfeited {
        /// The lease.
        lease: LeaseId,
        /// The job.
        job: JobId,
        /// Whose collateral.
        provider: Address,
        /// How much.
        amount: Amount,
    },
    /// A part of the collateral of a declined lease stays locked until validators said whether what it needs is there.
    PenaltyHeld {
        /// The lease.
        lease: LeaseId,
        /// Whose collateral.
        provider: Address,
        /// How much.
        amount: Amount,
    },
    /// The penalty of a declined lease was burned or went back.
    PenaltySettled {
        /// The lease.
        lease: LeaseId,
        /// Whose collateral.
        provider: Address,
        /// How much.
        amount: Amount,
        /// Whether it was burned.
        is_burned: bool,
    },
    /// A requestor took a job back and paid its holder for the time so far, out of the escrow.
    HolderPaid {
        /// The lease.
        lease: LeaseId,
        /// The job.
        job: JobId,
        /// Who was paid.
        provider: Address,
        /// How much.
        amount: Amount,
    },
    /// Something happened to the key of a sealed job.
    KeyChanged {
        /// The lease.
        lease: LeaseId,
        /// The job.
        job: JobId,
        /// Who serves the lease.
        provider: Address,
        /// What.
        step: KeyStep,
    },
    /// A part of the escrow of a job was burned.
    EscrowBurned {
        /// The job.
        job: JobId,
        /// Who ordered it.
        requestor: Address,
        /// What for.
        because: BurnedBecause,
        /// How much.
        amount: Amount,
    },
    /// A job ended, and its money was settled.
    JobEnded {
        /// The job.
        job: JobId,
        /// Who ordered it.
        requestor: Address,
        /// Who was paid, if anyone.
        provider: Option<Address>,
        /// Why it ended.
        reason: EndReason,
        /// Where the money went.
        settlement: Settlement,
    },
    /// A validator got its share of the block's fees.
    Rewarded {
        /// The validator.
        validator: Address,
        /// How much.
        amount: Amount,
    },
    /// A member of a gang beside the one that leads it was paid.
    MemberPaid {
        /// Its lease.
        lease: LeaseId,
        /// The job.
        job: JobId,
        /// Who was paid.
        provider: Address,
        /// How much.
        amount: Amount,
    },
    /// A provider was paid for work that ended without its fault: it made room for another job, or another member of
    /// its gang failed.
    Compensated {
        /// The lease that had ended.
        lease: LeaseId,
        /// The job that paid, or whose forfeited collateral did.
        job: JobId,
        /// Who was paid.
        provider: Address,
        /// How much.
        amount: Amount,
    },
    /// The terms of an offer changed.
    OfferUpdated {
        /// The offer.
        offer: OfferId,
        /// Whose it is.
        provider: Address,
    },
    /// A sealed bid was made, and its deposit locked.
    BidCommitted {
        /// The bid.
        bid: BidId,
        /// Who made it.
        bidder: Address,
        /// What was locked.
        deposit: Amount,
    },
    /// A sealed bid was opened, and its deposit went back.
    BidRevealed {
        /// The bid.
        bid: BidId,
        /// Who made it.
        bidder: Address,
        /// What went back.
        deposit: Amount,
        /// The job it ordered.
        job: JobId,
    },
    /// A sealed bid was not opened in its slot, and its deposit was burned.
    BidForfeited {
        /// The bid.
        bid: BidId,
        /// Who made it.
        bidder: Address,
        /// What was burned.
        amount: Amount,
    },
    /// A requestor rated the provider of its job.
    Rated {
        /// The job.
        job: JobId,
        /// Who was rated.
        provider: Address,
        /// 1 to 5.
        stars: u8,
    },
    /// Validators lost a provider, or reach it again.
    LivenessChanged {
        /// The provider.
        provider: Address,
        /// Whether they cannot reach it.
        is_offline: bool,
    },
    /// The rent of a record was paid: a deposit, and a part that is burned at once.
    RentDeposited {
        /// The record: its id, or the address of a provider after twelve zero bytes.
        record: Digest,
        /// Who paid.
        payer: Address,
        /// What was locked.
        deposit: Amount,
        /// What was burned.
        burned: Amount,
    },
    /// What a record owed was burned, and the rest of its deposit, or a part of it, went back.
    RentSettled {
        /// The record.
        record: Digest,
        /// Who gets back what is left.
        payer: Address,
        /// What was burned.
        burned: Amount,
        /// What went back.
        returned: Amount,
    },
    /// A job is paid, and validators keep its answer from now on.
    AnswerKept {
        /// The job.
        job: JobId,
        /// The answer's content hash.
        digest: Digest,
        /// Until when it is kept.
        until: TimestampMs,
    },
    /// Nobody has to keep the answer of a job any more.
    AnswerReleased {
        /// The job.
        job: JobId,
    },
    /// A validator is asked for an answer that it keeps.
    AnswerAsked {
        /// The job.
        job: JobId,
        /// Who is asked.
        seat: Address,
        /// Who asks.
        asker: Address,
        /// What was burned for it.
        fee: Amount,
    },
    /// The question whether a validator has an answer that it keeps ended.
    AnswerQuestionEnded {
        /// The job.
        job: JobId,
        /// Who was asked.
        seat: Address,
        /// Who asked.
        asker: Address,
        /// How it ended.
        end: QuestionEnd,
    },
    /// An account paid rent from its balance: its own, that of an account that it opened, or of a record that leaves
    /// within seconds.
    AccountRent {
        /// Who paid.
        account: Address,
        /// The account that it opened.
        opened: Option<Address>,
        /// What was burned.
        burned: Amount,
    },
    /// A record left the state because its rent was spent, or for one that pays more.
    RecordExpired {
        /// The record.
        record: Digest,
        /// The kind of its leaf.
        kind: u8,
        /// Whose it was.
        owner: Address,
    },
    /// The scheduler decided something in this block.
    Scheduled {
        /// Root of the decisions.
        root: Digest,
        /// The decisions, in their order.
        decisions: Vec<Decision>,
    },
}

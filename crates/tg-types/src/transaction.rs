//! Transactions: every request that an account can make to the ledger.

use crate::amount::Amount;
use crate::ballot::{OpenedVote, SealedVote};
use crate::chain::Equivocation;
use crate::codec::{Encode, Writer};
use crate::dealing::DealingLog;
use crate::digest::Digest;
use crate::domain::Domain;
use crate::id::{Address, BidId, JobId, LeaseId, ModelId, OfferId};
use crate::label::Label;
use crate::limits::{LIVENESS_CHANGES_MAX, STORAGE_STATEMENTS_MAX, VOTES_MAX};
use crate::order::{JobOrder, OfferTerms, Receipt};
use crate::sealing::{KeyGrant, SealingPublicKey};
use crate::session::SessionScope;
use crate::subject::StorageSubject;
use crate::time::TimestampMs;
use crate::variants;
use crate::voucher::SignedVoucher;

crate::wire_enum! {
    /// Why a provider does not start a lease.
    DeclineReason, "decline reason", {
        /// It does not want to, or cannot.
        Unwilling = 0 => "unwilling",
        /// It could not get the job's input.
        InputMissing = 1 => "input missing",
        /// It could not get the model's files.
        ModelMissing = 2 => "model missing",
        /// The key that was granted to it does not open the job's sealed input.
        Key = 3 => "key",
    }
}

/// One request to the ledger, without its signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transaction {
    /// Pay another account.
    Transfer {
        /// Who is paid.
        to: Address,
        /// How much.
        amount: Amount,
    },
    /// Offer a model to the grid; validators verify its registration proof before jobs may name it.
    RegisterModel {
        /// The model's id.
        model: ModelId,
        /// Content hash of the public part (`.tgv`).
        public_blob: Digest,
        /// Content hash of the program with its weights (`.tgm`), for providers.
        weights_blob: Digest,
        /// Its display name; not checked, and not unique.
        name: Label,
    },
    /// Offer to run jobs.
    PostOffer {
        /// Price, speed and machine.
        terms: OfferTerms,
    },
    /// Withdraw an offer. Leases that run on it are not affected.
    WithdrawOffer {
        /// The offer.
        offer: OfferId,
    },
    /// Order a job and lock its escrow.
    SubmitJob {
        /// The order.
        order: JobOrder,
    },
    /// Cancel a job whose provider has not committed to a result.
    CancelJob {
        /// The job.
        job: JobId,
    },
    /// A provider begins to work on a lease.
    StartLease {
        /// The lease.
        lease: LeaseId,
    },
    /// A provider commits to its result.
    CommitReceipt {
        /// The lease.
        lease: LeaseId,
        /// What it commits to.
        receipt: Receipt,
    },
    /// A provider submits the evidence for its result, by its content hash.
    SubmitEvidence {
        /// The lease.
        lease: LeaseId,
        /// Content hash of the evidence.
        evidence: Digest,
        /// How many bytes the evidence has.
        size: u32,
    },
    /// Change the terms of an offer. Leases that run on it keep the old ones.
    UpdateOffer {
        /// The offer.
        offer: OfferId,
        /// The new terms.
        terms: OfferTerms,
    },
    /// Commit to a sealed bid of the batch auction and lock its deposit.
    CommitBid {
        /// [`bid_commitment`] of the order, the salt and the sender.
        commitment: Digest,
        /// The deposit, which is lost if the bid is not revealed in the next slot.
        deposit: Amount,
    },
    /// Open a sealed bid: its order is submitted and its deposit returned.
    RevealBid {
        /// The bid.
        bid: BidId,
        /// The salt of the commitment.
        salt: Digest,
        /// The order that was committed to.
        order: JobOrder,
    },
    /// Rate the provider of a paid job; once for each job, by its requestor.
    RateJob {
        /// The job.
        job: JobId,
        /// 1 to 5.
        stars: u8,
    },
    /// Challenge the result of a lease of mode `optimistic`: every validator runs the program again before the result is accepted. Costs the
    /// fee of mode `recompute`, which is returned out of the provider's collateral if the result is wrong.
    ChallengeResult {
        /// The lease.
        lease: LeaseId,
    },
    /// Submit a file in the dispute about the run of a lease, in turn: first the accuser, its claim about a right run; then the
    /// provider, the place at which the claim is wrong.
    ArgueResult {
        /// The lease.
        lease: LeaseId,
        /// Content hash of the file.
        file: Digest,
        /// How many bytes it has.
        size: u32,
    },
    /// Ask whether a validator still holds the answer of a job that it stated to keep: all others fetch it from that one alone. The fee is
    /// burned, or returned out of the validator's stake if n - f state that they cannot get the file.
    AskStored {
        /// The job.
        job: JobId,
        /// The validator.
        seat: Address,
    },
    /// Register the public key to which keys of sealed jobs are granted to this provider, or replace it.
    RegisterSealingKey {
        /// The key.
        key: SealingPublicKey,
    },
    /// Grant the key of a sealed job to the provider of its lease.
    GrantKey {
        /// The lease.
        lease: LeaseId,
        /// The key, encapsulated to the sealing key that the lease names.
        grant: KeyGrant,
    },
    /// Reveal the key of a sealed job to everybody, so that validators can check: the grant, if the provider says that it does not open
    /// the input; otherwise the provider's result, which they compute again for the fee of a challenge.
    RevealKey {
        /// The lease.
        lease: LeaseId,
        /// The key.
        key: [u8; 32],
    },
    /// A validator states that it can execute the next version of the protocol. Once more than two thirds do, blocks have that version
    /// from an announced height on.
    ReadyForProtocol {
        /// The version.
        version: u16,
    },
    /// The provider of an endpoint claims its pay so far out of the escrow: for its time, and what the requestor's vouchers say.
    SettleEndpoint {
        /// The lease.
        lease: LeaseId,
        /// The last voucher; `None` if there is none, or none since the last claim.
        voucher: Option<SignedVoucher>,
        /// Whether the provider ends its lease. The job gets another provider if it has time and money left.
        ends: bool,
    },
    /// Add to the deposit that secures the rent of a record, whoever owns it.
    PayRent {
        /// The id of an offer, a model or a job, or the address of a provider after twelve zero bytes.
        record: Digest,
        /// How much.
        amount: Amount,
    },
    /// A validator reports which providers it cannot reach, as changes to its last report.
    ReportLiveness {
        /// The epoch it reports for.
        epoch: u64,
        /// Providers that it no longer reaches.
        lost: Vec<Address>,
        /// Providers it reaches again.
        back: Vec<Address>,
    },
    /// A validator states which files it holds, after it checked their length and digest.
    ReportStorage {
        /// What it holds.
        held: Vec<StorageSubject>,
        /// Files that it was asked for again and does not hold.
        missing: Vec<StorageSubject>,
    },
    /// A provider declines a lease before it starts it.
    DeclineLease {
        /// The lease.
        lease: LeaseId,
        /// Why not.
        reason: DeclineReason,
    },
    /// A member of a gang that is not its lead commits to its own part.
    CommitPart {
        /// Its lease.
        lease: LeaseId,
        /// What it commits to.
        receipt: Receipt,
    },
    /// A member of a job of mode `replicate` commits to its result without revealing it, so that nobody can copy it.
    SealResult {
        /// Its lease.
        lease: LeaseId,
        /// [`result_seal`] of its receipt.
        seal: Digest,
    },
    /// A member of a job of mode `replicate` opens its sealed result, once all members have sealed theirs.
    OpenResult {
        /// Its lease.
        lease: LeaseId,
        /// Its result.
        receipt: Receipt,
        /// The salt of the seal.
        salt: Digest,
    },
    /// Raise the maximum price of a job that has not ended, or the number of its leases.
    RaiseJob {
        /// The job.
        job: JobId,
        /// The new maximum price; no less than before.
        max_price: Amount,
        /// The new number of leases it may have; no fewer than before.
        max_attempts: u8,
    },
    /// Register a session key, with which a machine signs for this account. It has a sequence of nonces of its own.
    RegisterSessionKey {
        /// The public key (ed25519).
        key: [u8; 32],
        /// What it may sign.
        scope: SessionScope,
        /// The most that it may cost: fees, what its orders lock, deposits, lost collateral, and the collateral of the leases that it serves
        /// while they last.
        cap: Amount,
        /// The last ledger time at which it signs.
        expires: TimestampMs,
    },
    /// Revoke a session key: what it signed is invalid after this transaction, in the same block too.
    RevokeSessionKey {
        /// The public key.
        key: [u8; 32],
    },
    /// Bond for a seat among the validators, which is given at the end of an epoch.
    JoinValidators {
        /// The consensus key (ed25519).
        key: [u8; 32],
        /// Where the others reach it: `HOST:PORT`.
        endpoint: Label,
        /// The key's signature that it belongs to the sender: [`crate::chain::seat_possession`].
        possession: [u8; 64],
    },
    /// Give up a seat, or a place in the queue for one. The bond is returned after the time of unbonding.
    LeaveValidators {
        /// The consensus key of the seat.
        key: [u8; 32],
    },
    /// Report a validator that signed votes which contradict each other.
    ReportEquivocation {
        /// The two votes.
        proof: Equivocation,
    },
    /// A validator posts its part of the distributed generation of the key that signs seeds.
    PostDealing {
        /// The round of the key generation.
        round: u64,
        /// The dealer's log, signed: its commitment, and the answers of all players or what they did not answer.
        log: DealingLog,
    },
    /// A validator commits to its votes on results.
    CommitVotes {
        /// By lease, ascending.
        votes: Vec<SealedVote>,
    },
    /// A validator opens its votes.
    RevealVotes {
        /// By lease, ascending.
        votes: Vec<OpenedVote>,
    },
}

/// The commitment of a sealed bid. Nobody can read the order from it without the salt, and no other account can reveal it.
#[must_use]
pub fn bid_commitment(order: &JobOrder, salt: &Digest, sender: &Address) -> Digest {
    let mut writer = Writer::new();
    sender.encode(&mut writer);
    salt.encode(&mut writer);
    order.encode(&mut writer);
    Digest::of(Domain::BidCommitment, &writer.into_bytes())
}

/// The commitment of a sealed result. Nobody can read the result from it without the salt, and it is valid for one lease only.
#[must_use]
pub fn result_seal(lease: &LeaseId, receipt: &Receipt, salt: &Digest) -> Digest {
    let mut writer = Writer::new();
    lease.encode(&mut writer);
    salt.encode(&mut writer);
    receipt.encode(&mut writer);
    Digest::of(Domain::ResultSeal, &writer.into_bytes())
}

/// The kind of a [`Transaction`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TransactionKind {
    /// [`Transaction::Transfer`].
    Transfer = 0,
    /// [`Transaction::RegisterModel`].
    RegisterModel = 1,
    /// [`Transaction::PostOffer`].
    PostOffer = 2,
    /// [`Transaction::WithdrawOffer`].
    WithdrawOffer = 3,
    /// [`Transaction::SubmitJob`].
    SubmitJob = 4,
    /// [`Transaction::CancelJob`].
    CancelJob = 5,
    /// [`Transaction::StartLease`].
    StartLease = 6,
    /// [`Transaction::CommitReceipt`].
    CommitReceipt = 7,
    /// [`Transaction::SubmitEvidence`].
    SubmitEvidence = 8,
    /// [`Transaction::UpdateOffer`].
    UpdateOffer = 9,
    /// [`Transaction::CommitBid`].
    CommitBid = 10,
    /// [`Transaction::RevealBid`].
    RevealBid = 11,
    /// [`Transaction::RateJob`].
    RateJob = 12,
    /// [`Transaction::ReportLiveness`].
    ReportLiveness = 13,
    /// [`Transaction::ReportStorage`].
    ReportStorage = 14,
    /// [`Transaction::DeclineLease`].
    DeclineLease = 15,
    /// [`Transaction::CommitPart`].
    CommitPart = 16,
    /// [`Transaction::RaiseJob`].
    RaiseJob = 17,
    /// [`Transaction::PayRent`].
    PayRent = 18,
    /// [`Transaction::RegisterSessionKey`].
    RegisterSessionKey = 19,
    /// [`Transaction::RevokeSessionKey`].
    RevokeSessionKey = 20,
    /// [`Transaction::JoinValidators`].
    JoinValidators = 21,
    /// [`Transaction::LeaveValidators`].
    LeaveValidators = 22,
    /// [`Transaction::ReportEquivocation`].
    ReportEquivocation = 23,
    /// [`Transaction::PostDealing`].
    PostDealing = 24,
    /// [`Transaction::CommitVotes`].
    CommitVotes = 25,
    /// [`Transaction::RevealVotes`].
    RevealVotes = 26,
    /// [`Transaction::ChallengeResult`].
    ChallengeResult = 27,
    /// [`Transaction::ReadyForProtocol`].
    ReadyForProtocol = 28,
    /// [`Transaction::SettleEndpoint`].
    SettleEndpoint = 29,
    /// [`Transaction::SealResult`].
    SealResult = 30,
    /// [`Transaction::OpenResult`].
    OpenResult = 31,
    /// [`Transaction::ArgueResult`].
    ArgueResult = 32,
    /// [`Transaction::AskStored`].
    AskStored = 33,
    /// [`Transaction::RegisterSealingKey`].
    RegisterSealingKey = 34,
    /// [`Transaction::GrantKey`].
    GrantKey = 35,
    /// [`Transaction::RevealKey`].
    RevealKey = 36,
}

impl TransactionKind {
    /// Every kind, in the order of their tags.
    pub const ALL: [Self; 37] = [
        Self::Transfer,
        Self::RegisterModel,
        Self::PostOffer,
        Self::WithdrawOffer,
        Self::SubmitJob,
        Self::CancelJob,
        Self::StartLease,
        Self::CommitReceipt,
        Self::SubmitEvidence,
        Self::UpdateOffer,
        Self::CommitBid,
        Self::RevealBid,
        Self::RateJob,
        Self::ReportLiveness,
        Self::ReportStorage,
        Self::DeclineLease,
        Self::CommitPart,
        Self::RaiseJob,
        Self::PayRent,
        Self::RegisterSessionKey,
        Self::RevokeSessionKey,
        Self::JoinValidators,
        Self::LeaveValidators,
        Self::ReportEquivocation,
        Self::PostDealing,
        Self::CommitVotes,
        Self::RevealVotes,
        Self::ChallengeResult,
        Self::ReadyForProtocol,
        Self::SettleEndpoint,
        Self::SealResult,
        Self::OpenResult,
        Self::ArgueResult,
        Self::AskStored,
        Self::RegisterSealingKey,
        Self::GrantKey,
        Self::RevealKey,
    ];

    /// The name, which is also the primary type of its typed data.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Transfer => "Transfer",
            Self::RegisterModel => "RegisterModel",
            Self::PostOffer => "PostOffer",
            Self::WithdrawOffer => "WithdrawOffer",
            Self::SubmitJob => "SubmitJob",
            Self::CancelJob => "CancelJob",
            Self::StartLease => "StartLease",
            Self::CommitReceipt => "CommitReceipt",
            Self::SubmitEvidence => "SubmitEvidence",
            Self::UpdateOffer => "UpdateOffer",
            Self::CommitBid => "CommitBid",
            Self::RevealBid => "RevealBid",
            Self::RateJob => "RateJob",
            Self::ReportLiveness => "ReportLiveness",
            Self::ReportStorage => "ReportStorage",
            Self::DeclineLease => "DeclineLease",
            Self::CommitPart => "CommitPart",
            Self::RaiseJob => "RaiseJob",
            Self::PayRent => "PayRent",
            Self::RegisterSessionKey => "RegisterSessionKey",
            Self::RevokeSessionKey => "RevokeSessionKey",
            Self::JoinValidators => "JoinValidators",
            Self::LeaveValidators => "LeaveValidators",
            Self::ReportEquivocation => "ReportEquivocation",
            Self::PostDealing => "PostDealing",
            Self::CommitVotes => "CommitVotes",
            Self::RevealVotes => "RevealVotes",
            Self::ChallengeResult => "ChallengeResult",
            Self::ReadyForProtocol => "ReadyForProtocol",
            Self::SettleEndpoint => "SettleEndpoint",
            Self::SealResult => "SealResult",
            Self::OpenResult => "OpenResult",
            Self::ArgueResult => "ArgueResult",
            Self::AskStored => "AskStored",
            Self::RegisterSealingKey => "RegisterSealingKey",
            Self::GrantKey => "GrantKey",
            Self::RevealKey => "RevealKey",
        }
    }

    /// Whether the gas is paid before it comes, because it is demanded under threat of a loss: at the match for a lease,
    /// with the bid for its reveal, with the stake for reports of validators. Half of every block is kept for these kinds.
    #[must_use]
    pub const fn is_prepaid(self) -> bool {
        match self {
            Self::StartLease
            | Self::CommitReceipt
            | Self::SubmitEvidence
            | Self::RevealBid
            | Self::ReportLiveness
            | Self::ReportStorage
            | Self::DeclineLease
            | Self::CommitPart
            | Self::SealResult
            | Self::OpenResult
            | Self::ArgueResult
            | Self::PostDealing
            | Self::CommitVotes
            | Self::RevealVotes
            | Self::ReadyForProtocol => true,
            Self::Transfer
            | Self::RegisterModel
            | Self::PostOffer
            | Self::WithdrawOffer
            | Self::SubmitJob
            | Self::CancelJob
            | Self::UpdateOffer
            | Self::CommitBid
            | Self::RateJob
            | Self::RaiseJob
            | Self::PayRent
            | Self::RegisterSessionKey
            | Self::RevokeSessionKey
            | Self::JoinValidators
            | Self::LeaveValidators
            | Self::ReportEquivocation
            | Self::ChallengeResult
            | Self::AskStored
            | Self::RegisterSealingKey
            | Self::GrantKey
            | Self::RevealKey
            | Self::SettleEndpoint => false,
        }
    }

    /// The tag in encodings.
    #[must_use]
    pub const fn tag(self) -> u8 {
        self as u8
    }
}

impl TransactionKind {
    /// The scope whose session keys may sign it; nothing if only the account's own key may.
    #[must_use]
    pub const fn session_scope(self) -> Option<SessionScope> {
        match self {
            Self::StartLease
            | Self::DeclineLease
            | Self::CommitReceipt
            | Self::CommitPart
            | Self::SealResult
            | Self::OpenResult
            | Self::SubmitEvidence
            | Self::ArgueResult
            | Self::SettleEndpoint => Some(SessionScope::Serve),
            Self::SubmitJob
            | Self::CancelJob
            | Self::RaiseJob
            | Self::RateJob
            | Self::CommitBid
            | Self::RevealBid
            | Self::GrantKey
            | Self::RevealKey => Some(SessionScope::Order),
            // Money of one's own for another, keys, seats, votes, and promises for longer than a lease.
            Self::Transfer
            | Self::PayRent
            | Self::RegisterSessionKey
            | Self::RevokeSessionKey
            | Self::JoinValidators
            | Self::LeaveValidators
            | Self::ReportLiveness
            | Self::ReportStorage
            | Self::ReportEquivocation
            | Self::PostDealing
            | Self::CommitVotes
            | Self::RevealVotes
            | Self::ReadyForProtocol
            | Self::RegisterModel
            | Self::PostOffer
            | Self::UpdateOffer
            | Self::WithdrawOffer
            | Self::ChallengeResult
            | Self::RegisterSealingKey
            | Self::AskStored => None,
        }
    }
}

impl std::fmt::Display for TransactionKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl Transaction {
    /// What kind of request it is.
    #[must_use]
    pub const fn kind(&self) -> TransactionKind {
        match self {
            Self::Transfer { .. } => TransactionKind::Transfer,
            Self::RegisterModel { .. } => TransactionKind::RegisterModel,
            Self::PostOffer { .. } => TransactionKind::PostOffer,
            Self::WithdrawOffer { .. } => TransactionKind::WithdrawOffer,
            Self::SubmitJob { .. } => TransactionKind::SubmitJob,
            Self::CancelJob { .. } => TransactionKind::CancelJob,
            Self::StartLease { .. } => TransactionKind::StartLease,
            Self::CommitReceipt { .. } => TransactionKind::CommitReceipt,
            Self::SubmitEvidence { .. } => TransactionKind::SubmitEvidence,
            Self::UpdateOffer { .. } => TransactionKind::UpdateOffer,
            Self::CommitBid { .. } => TransactionKind::CommitBid,
            Self::RevealBid { .. } => TransactionKind::RevealBid,
            Self::RateJob { .. } => TransactionKind::RateJob,
            Self::ReportLiveness { .. } => TransactionKind::ReportLiveness,
            Self::ReportStorage { .. } => TransactionKind::ReportStorage,
            Self::DeclineLease { .. } => TransactionKind::DeclineLease,
            Self::CommitPart { .. } => TransactionKind::CommitPart,
            Self::RaiseJob { .. } => TransactionKind::RaiseJob,
            Self::PayRent { .. } => TransactionKind::PayRent,
            Self::RegisterSessionKey { .. } => TransactionKind::RegisterSessionKey,
            Self::RevokeSessionKey { .. } => TransactionKind::RevokeSessionKey,
            Self::JoinValidators { .. } => TransactionKind::JoinValidators,
            Self::LeaveValidators { .. } => TransactionKind::LeaveValidators,
            Self::ReportEquivocation { .. } => TransactionKind::ReportEquivocation,
            Self::PostDealing { .. } => TransactionKind::PostDealing,
            Self::CommitVotes { .. } => TransactionKind::CommitVotes,
            Self::RevealVotes { .. } => TransactionKind::RevealVotes,
            Self::ChallengeResult { .. } => TransactionKind::ChallengeResult,
            Self::ReadyForProtocol { .. } => TransactionKind::ReadyForProtocol,
            Self::SettleEndpoint { .. } => TransactionKind::SettleEndpoint,
            Self::SealResult { .. } => TransactionKind::SealResult,
            Self::OpenResult { .. } => TransactionKind::OpenResult,
            Self::ArgueResult { .. } => TransactionKind::ArgueResult,
            Self::AskStored { .. } => TransactionKind::AskStored,
            Self::RegisterSealingKey { .. } => TransactionKind::RegisterSealingKey,
            Self::GrantKey { .. } => TransactionKind::GrantKey,
            Self::RevealKey { .. } => TransactionKind::RevealKey,
        }
    }
}

variants! {
    Transaction: "transaction kind" {
        0 = Transfer { to, amount },
        1 = RegisterModel { model, public_blob, weights_blob, name },
        2 = PostOffer { terms },
        3 = WithdrawOffer { offer },
        4 = SubmitJob { order },
        5 = CancelJob { job },
        6 = StartLease { lease },
        7 = CommitReceipt { lease, receipt },
        8 = SubmitEvidence { lease, evidence, size },
        9 = UpdateOffer { offer, terms },
        10 = CommitBid { commitment, deposit },
        11 = RevealBid { bid, salt, order },
        12 = RateJob { job, stars },
        13 = ReportLiveness {
            epoch,
            lost: seq("lost providers", LIVENESS_CHANGES_MAX, 20),
            back: seq("providers that are back", LIVENESS_CHANGES_MAX, 20),
        },
        14 = ReportStorage {
            held: seq("held", STORAGE_STATEMENTS_MAX, 33),
            missing: seq("missing", STORAGE_STATEMENTS_MAX, 33),
        },
        15 = DeclineLease { lease, reason },
        16 = CommitPart { lease, receipt },
        17 = RaiseJob { job, max_price, max_attempts },
        18 = PayRent { record, amount },
        19 = RegisterSessionKey { key, scope, cap, expires },
        20 = RevokeSessionKey { key },
        21 = JoinValidators { key, endpoint, possession },
        22 = LeaveValidators { key },
        23 = ReportEquivocation { proof },
        24 = PostDealing { round, log },
        25 = CommitVotes { votes: seq("sealed votes", VOTES_MAX, 64) },
        26 = RevealVotes { votes: seq("votes", VOTES_MAX, 72) },
        27 = ChallengeResult { lease },
        28 = ReadyForProtocol { version },
        29 = SettleEndpoint { lease, voucher, ends: flag("ends") },
        30 = SealResult { lease, seal },
        31 = OpenResult { lease, receipt, salt },
        32 = ArgueResult { lease, file, size },
        33 = AskStored { job, seat },
        34 = RegisterSealingKey { key },
        35 = GrantKey { lease, grant },
        36 = RevealKey { lease, key },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_of_any_scope_moves_money_or_makes_keys() {
        use TransactionKind as Kind;
        for kind in [
            Kind::Transfer,
            Kind::PayRent,
            Kind::RegisterSessionKey,
            Kind::RevokeSessionKey,
            Kind::JoinValidators,
            Kind::LeaveValidators,
            Kind::CommitVotes,
            Kind::PostOffer,
            Kind::RegisterSealingKey,
        ] {
            assert_eq!(kind.session_scope(), None, "{kind}");
        }
        let scopes = Kind::ALL.map(Kind::session_scope);
        let of = |scope| scopes.iter().filter(|it| **it == Some(scope)).count();
        assert_eq!((of(SessionScope::Serve), of(SessionScope::Order)), (9, 8));
    }
}

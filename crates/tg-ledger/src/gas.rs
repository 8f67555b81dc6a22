//! Gas: what a transaction costs the validators, how much fits into a block, and how the price of gas moves.
//!
//! One unit of gas stands for about 10 ns of one core of every validator. The gas of a kind is that of its longest encoding
//! and of all records that it leads to, so it is known before anything is executed, and the price of a prepaid transaction is
//! known when it is paid.
//!
//! **Two lanes.** Half of a block's gas is for kinds that must be sent under threat of a loss
//! ([`TransactionKind::is_prepaid`]), the other half for all others; neither lane uses the other's gas. So no amount of money
//! keeps a provider's result out of blocks. Nor can it be made expensive: the gas of a lease costs the lowest base fee,
//! whatever the others pay.
//!
//! **Base fee.** It follows how full the paid lane is. Within 10 s of ledger time it at most doubles or halves, however
//! many blocks there are in that time.

use tg_types::limits::STORAGE_STATEMENTS_MAX;
use tg_types::{
    Address, Amount, BidId, DurationMs, JobOrder, LeaseId, SignedTransaction, StorageSubject,
    Transaction, TransactionKind, fields,
};

use crate::limits::{ASK_DOUBLINGS_MAX, TRANSACTIONS_PER_BLOCK_MAX};
use crate::parameters::Parameters;

/// Gas of one block: about 0.2 s of one core.
pub const BLOCK_GAS_MAX: u64 = 20_000_000;

/// Gas of one block for kinds that are prepaid, and as much for the others.
pub const LANE_GAS_MAX: u64 = BLOCK_GAS_MAX / 2;

/// Gas of the paid lane at which the base fee stands still.
pub const TARGET_GAS: u64 = LANE_GAS_MAX / 2;

/// Checking a signature and executing what it asks for: about 100 us.
const SIGNATURE_GAS: u64 = 10_000;

/// A byte is gossiped to every validator, sent again in a block, hashed and written to disk twice.
const BYTE_GAS: u64 = 16;

/// A record is copied, encoded and hashed with the 32 nodes above it: about 40 us.
const RECORD_GAS: u64 = 4_000;

/// Matching looks at a job, at an offer in every block, or clears a bid: about 200 us.
const MATCHING_GAS: u64 = 20_000;

/// Making a grant again and opening an input of 1 MiB: about 2 ms.
const GRANT_GAS: u64 = 200_000;

/// What stands around the content: kind, lane, nonce, fees, sender, signature. A session key stands beside its signature, which is cheaper to
/// check by more than its bytes cost.
const FRAME_BYTES: u64 = 1 + 1 + 8 + 32 + 20 + 65;

/// Each further member of a gang: lease, offer, provider and account, twice each.
const MEMBER_GAS: u64 = 8 * RECORD_GAS;

/// Time in which the base fee would grow by its own size: with 10 s / ln 2, rounded up, compounding in however small
/// steps gives at most a factor of two in 10 s.
const BASE_FEE_TIME_MS: u128 = 14_427;

/// A block counts for at most so long, whatever its timestamp says.
const BASE_FEE_STEP_MAX: DurationMs = DurationMs::from_secs(1);

/// Longest content in bytes, records written in its whole life, and what matching does for it.
const fn cost_of(kind: TransactionKind) -> (u64, u64, u64) {
    match kind {
        // Sender and receiver.
        TransactionKind::Transfer => (36, 2, 0),
        // Account and model, and the model again with its verdict, which the registration fee pays.
        TransactionKind::RegisterModel => (164, 4, 0),
        // Account, offer, provider, and the offer in the book of every block to come.
        TransactionKind::PostOffer => (230, 4, MATCHING_GAS),
        TransactionKind::WithdrawOffer => (32, 3, MATCHING_GAS),
        // Account and job; job, lease, offer and account at the match; the same, the provider and the kept answer at the end.
        TransactionKind::SubmitJob => (208, 13, MATCHING_GAS),
        TransactionKind::CancelJob => (32, 3, 0),
        // Account, lease and job each.
        TransactionKind::StartLease | TransactionKind::SubmitEvidence => (68, 3, 0),
        TransactionKind::CommitReceipt | TransactionKind::CommitPart => (193, 3, 0),
        // Account and lease; with the last of them the lease that leads, and the job.
        TransactionKind::SealResult => (64, 4, 0),
        TransactionKind::OpenResult => (225, 4, 0),
        // Account, lease, job, provider, offer, and the job or model again with the answer.
        TransactionKind::DeclineLease => (33, 6, 0),
        TransactionKind::UpdateOffer => (262, 3, MATCHING_GAS),
        // Account and bid now and when it is cleared.
        TransactionKind::CommitBid => (48, 4, MATCHING_GAS),
        TransactionKind::RevealBid => (272, 13, MATCHING_GAS),
        TransactionKind::RateJob => (33, 3, 0),
        // The job and the requestor's account.
        TransactionKind::RaiseJob => (49, 3, MATCHING_GAS),
        // A point, and the account.
        TransactionKind::RegisterSessionKey => (57, 1, 0),
        TransactionKind::RevokeSessionKey => (32, 1, 0),
        // The record and the payer's account.
        TransactionKind::PayRent => (48, 3, 0),
        // A signature of ed25519, the sender's account, the applicant, and the seat when it is given.
        TransactionKind::JoinValidators => (164, 4, SIGNATURE_GAS),
        // The sender's account, the seat, and the account again when the bond is returned.
        TransactionKind::LeaveValidators => (32, 4, 0),
        // Two signatures of ed25519, the sender's account, and the validator.
        TransactionKind::ReportEquivocation => (306, 3, 2 * SIGNATURE_GAS),
        // Account and report, and each provider that is named.
        TransactionKind::ReportLiveness => (1_296, 66, 0),
        // Account, and each of the most subjects that may be named.
        TransactionKind::ReportStorage => report_cost(STORAGE_STATEMENTS_MAX as u64),
        // Account and the first leaf; and the check of the log, about 2 ms for each of 128 players.
        TransactionKind::PostDealing => (18_448, 2, MATCHING_GAS),
        // Account, and each lease that is voted on; at an acceptance or a dispute its job, provider and offer too.
        TransactionKind::CommitVotes => (1_540, 25, 0),
        TransactionKind::RevealVotes => (1_732, 97, 0),
        // Account and first leaf.
        TransactionKind::ReadyForProtocol => (2, 2, 0),
        // Account, lease and job, and both again with the answer; the run again is paid for apart.
        TransactionKind::ChallengeResult => (32, 5, 0),
        // Account and lease, and the lease again when its file is held. Paid by the fee of the challenge, or the stake of the watcher.
        TransactionKind::ArgueResult => (68, 3, 0),
        // Account and question, and the question, its file, the first leaf and the account again when it ends.
        TransactionKind::AskStored => (52, 6, 0),
        // Account and provider.
        TransactionKind::RegisterSealingKey => (1_216, 3, 0),
        // Account and lease.
        TransactionKind::GrantKey => (1_200, 3, 0),
        // Account and lease, and lease, job, provider, offer and requestor when validators have looked; and their look at a grant, 2 ms.
        TransactionKind::RevealKey => (64, 7, GRANT_GAS),
        // Account, lease and job; provider, offer and requestor at the end; and the voucher's signature.
        TransactionKind::SettleEndpoint => (187, 6, SIGNATURE_GAS),
    }
}

/// The gas of a kind, without further members of a gang; in thousands, rounded up.
#[must_use]
pub const fn gas_of(kind: TransactionKind) -> u64 {
    let (bytes, records, matching) = cost_of(kind);
    let exact = SIGNATURE_GAS + BYTE_GAS * (FRAME_BYTES + bytes) + RECORD_GAS * records + matching;
    exact.div_ceil(1_000) * 1_000
}

/// Gas of the transactions that serve one lease: start, receipt and evidence.
pub const LEASE_GAS: u64 = gas_of(TransactionKind::StartLease)
    + gas_of(TransactionKind::CommitReceipt)
    + gas_of(TransactionKind::SubmitEvidence);

/// Gas of the transactions that serve the lease of a member of mode `replicate`: start, seal, opening and evidence.
pub const REPLICA_GAS: u64 = gas_of(TransactionKind::StartLease)
    + gas_of(TransactionKind::SealResult)
    + gas_of(TransactionKind::OpenResult)
    + gas_of(TransactionKind::SubmitEvidence);

/// The gas of a transaction in a block.
#[must_use]
pub fn gas(transaction: &Transaction) -> u64 {
    match transaction {
        Transaction::SubmitJob { order } => order_gas(order),
        Transaction::ReportStorage { held, missing } => report_gas(held.len() + missing.len()),
        other => gas_of(other.kind()),
    }
}

/// Bytes and records of a report of so many subjects: two lists, kind and name of each, and two records that each changes.
const fn report_cost(subjects: u64) -> (u64, u64, u64) {
    (8 + 33 * subjects, 1 + 2 * subjects, 0)
}

/// The gas of a report about so many subjects. Stops: many reports of one each, that fill the room of what others have prepaid.
fn report_gas(subjects: usize) -> u64 {
    let (bytes, records, _) = report_cost(subjects as u64);
    let exact = SIGNATURE_GAS + BYTE_GAS * (FRAME_BYTES + bytes) + RECORD_GAS * records;
    exact.div_ceil(1_000) * 1_000
}

/// The gas of submitting an order: with each further member of its gang.
#[must_use]
pub fn order_gas(order: &JobOrder) -> u64 {
    let members = u64::from(order.needs.gang.saturating_sub(1));
    gas_of(TransactionKind::SubmitJob) + members * MEMBER_GAS
}

/// The gas that the sender of a transaction pays for when it is executed: none if it was prepaid; a bid pays for being
/// opened too.
#[must_use]
pub fn charged_gas(transaction: &Transaction) -> u64 {
    match transaction {
        prepaid if prepaid.kind().is_prepaid() => 0,
        Transaction::CommitBid { .. } => gas(transaction) + gas_of(TransactionKind::RevealBid),
        paid => gas(paid),
    }
}

/// The most that a transaction may take from its sender: its gas at the maximum fee, and what it pays or locks. What a
/// prepaid kind locks, the order of a bid, is not counted.
#[must_use]
pub fn most_taken(parameters: &Parameters, signed: &SignedTransaction) -> Amount {
    let taken = match &signed.transaction {
        Transaction::Transfer { amount, .. } => *amount,
        Transaction::RegisterModel { .. } => parameters.registration_fee,
        Transaction::SubmitJob { order } => order
            .max_price
            .saturating_add(parameters.verification_fee(order.mode)),
        Transaction::CommitBid { deposit, .. } => *deposit,
        // Its fee when many are asked is not known here: the most that it can be.
        Transaction::AskStored { .. } => parameters
            .verification_fee_zk
            .saturating_mul(1 << ASK_DOUBLINGS_MAX),
        Transaction::RevealKey { .. } => parameters.challenge_fee(),
        _ => Amount::ZERO,
    };
    let gas = charged_gas(&signed.transaction);
    taken.saturating_add(signed.fees.max_fee_per_gas.saturating_mul(gas))
}

/// What a prepaid transaction serves. A transaction with the same sender, subject and kind cannot hold twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prepaid {
    /// What is asked for.
    pub kind: TransactionKind,
    /// Of whom. Stops: whoever leaves a transaction waiting in the place of another's, such as an accuser in that of the provider's answer.
    pub sender: Address,
    /// The session key that signed it, if not the account's. Stops: a stolen key whose transactions wait behind a gap in the place of the account's.
    pub key: Option<[u8; 32]>,
    /// Of several statements the last one, of the kind that waits longest; of other lists the first.
    pub subject: PrepaidSubject,
}

/// About what a prepaid transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PrepaidSubject {
    /// The validator that sends it: there is one such report of each.
    Sender,
    /// A lease.
    Lease(LeaseId),
    /// A bid.
    Bid(BidId),
    /// What is stated to be held or missing.
    Stored(StorageSubject),
}

impl Prepaid {
    /// What a transaction serves, if it is of a prepaid kind.
    #[must_use]
    pub fn of(signed: &SignedTransaction) -> Option<Self> {
        let of_votes =
            |first: Option<LeaseId>| first.map_or(PrepaidSubject::Sender, PrepaidSubject::Lease);
        let subject = match &signed.transaction {
            Transaction::StartLease { lease }
            | Transaction::DeclineLease { lease, .. }
            | Transaction::CommitPart { lease, .. }
            | Transaction::SealResult { lease, .. }
            | Transaction::OpenResult { lease, .. }
            | Transaction::CommitReceipt { lease, .. }
            | Transaction::SubmitEvidence { lease, .. }
            | Transaction::ArgueResult { lease, .. } => PrepaidSubject::Lease(*lease),
            Transaction::RevealBid { bid, .. } => PrepaidSubject::Bid(*bid),
            Transaction::ReportLiveness { .. }
            | Transaction::PostDealing { .. }
            | Transaction::ReadyForProtocol { .. } => PrepaidSubject::Sender,
            Transaction::CommitVotes { votes } => of_votes(votes.first().map(|it| it.lease)),
            Transaction::RevealVotes { votes } => of_votes(votes.first().map(|it| it.lease)),
            Transaction::ReportStorage { held, missing } => {
                let last = held.last().or(missing.last()).copied();
                last.map_or(PrepaidSubject::Sender, PrepaidSubject::Stored)
            }
            _ => return None,
        };
        Some(Self {
            kind: signed.transaction.kind(),
            sender: signed.sender,
            key: signed.lane().session().copied(),
            subject,
        })
    }
}

/// The gas that a block used so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockGas {
    /// Gas used by prepaid kinds.
    pub prepaid: u64,
    /// Gas used by the other kinds.
    pub paid: u64,
}

impl BlockGas {
    /// The gas with one more transaction; `None` if its lane has no room for it.
    #[must_use]
    pub fn with(self, transaction: &Transaction) -> Option<Self> {
        let mut next = self;
        let lane = match transaction.kind().is_prepaid() {
            true => &mut next.prepaid,
            false => &mut next.paid,
        };
        *lane = lane.saturating_add(gas(transaction));
        (*lane <= LANE_GAS_MAX).then_some(next)
    }
}

/// The price of gas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FeeMarket {
    /// What is burned for each unit of gas in the next block.
    pub base_fee: Amount,
}

impl FeeMarket {
    /// The price after a block that used `paid` gas of the paid lane and came `elapsed` after its parent; at least `floor`.
    #[must_use]
    pub fn after(self, paid: u64, elapsed: DurationMs, floor: Amount) -> Self {
        let elapsed = u128::from(elapsed.get().min(BASE_FEE_STEP_MAX.get()));
        let away = u128::from(paid.abs_diff(TARGET_GAS).min(TARGET_GAS));
        let whole = BASE_FEE_TIME_MS * u128::from(TARGET_GAS);
        let (more, less) = match paid > TARGET_GAS {
            true => (whole + elapsed * away, whole),
            // Down by the inverse of the way up, so that both are bounded alike.
            false => (whole, whole + elapsed * away),
        };
        // Both are below 2^38, so the price is split to keep the product exact.
        let old = self.base_fee.get();
        let next = (old / less)
            .saturating_mul(more)
            .saturating_add((old % less) * more / less);
        Self {
            base_fee: Amount::new(next).max(floor),
        }
    }

    /// What some gas costs.
    #[must_use]
    pub const fn price(&self, gas: u64) -> Amount {
        self.base_fee.saturating_mul(gas)
    }
}

fields! { FeeMarket { base_fee } }

// The leases of one block lead to no more prepaid gas than one block has room for, so that it never piles up.
const _: () = assert!(crate::limits::LEASES_PER_BLOCK_MAX as u64 * LEASE_GAS <= LANE_GAS_MAX);
// Gas binds before the number of transactions does, or a lane could be filled by number.
const _: () = assert!(
    2 * (LANE_GAS_MAX / gas_of(TransactionKind::Transfer)) <= TRANSACTIONS_PER_BLOCK_MAX as u64
);
const _: () = assert!(gas_of(TransactionKind::ReportLiveness) <= LANE_GAS_MAX);
const _: () = assert!(
    gas_of(TransactionKind::SubmitJob) + tg_types::resources::GANG_MEMBERS_MAX as u64 * MEMBER_GAS
        <= LANE_GAS_MAX
);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const FLOOR: Amount = Amount::new(50_000_000);

    fn run(mut market: FeeMarket, paid: u64, steps: &[u64]) -> FeeMarket {
        for step in steps {
            market = market.after(paid, DurationMs::new(*step), FLOOR);
        }
        market
    }

    #[test]
    fn a_transfer_costs_about_a_millionth_at_the_floor() {
        assert_eq!(gas_of(TransactionKind::Transfer), 21_000);
        let fee = FeeMarket { base_fee: FLOOR }.price(21_000);
        assert_eq!(fee, Amount::new(1_050_000_000_000));
    }

    #[test]
    fn the_base_fee_at_most_doubles_or_halves_in_ten_seconds_however_blocks_fall() {
        let high = FeeMarket {
            base_fee: Amount::new(FLOOR.get() << 10),
        };
        for steps in [
            vec![1_000; 10],
            vec![100; 100],
            vec![1; 10_000],
            vec![400; 25],
        ] {
            let up = run(high, LANE_GAS_MAX, &steps).base_fee.get();
            let down = run(high, 0, &steps).base_fee.get();
            let start = high.base_fee.get();
            assert!(up <= 2 * start && up > start * 19 / 10, "{up}");
            assert!(
                down >= start / 2 - 10_000 && down < start * 53 / 100,
                "{down}"
            );
        }
        // A timestamp far ahead counts as a second.
        assert_eq!(
            high.after(LANE_GAS_MAX, DurationMs::from_secs(3_600), FLOOR),
            high.after(LANE_GAS_MAX, DurationMs::from_secs(1), FLOOR)
        );
        assert_eq!(run(high, TARGET_GAS, &[1_000; 10]), high);
        assert_eq!(run(high, 0, &[1_000; 1_000]).base_fee, FLOOR);
    }

    #[test]
    fn the_base_fee_never_overflows() {
        let dear = FeeMarket {
            base_fee: Amount::MAX,
        };
        let down = dear.after(0, DurationMs::from_secs(1), FLOOR);
        assert!(down.base_fee < dear.base_fee);
        assert_eq!(
            dear.after(LANE_GAS_MAX, DurationMs::from_secs(1), FLOOR),
            dear
        );
        assert_eq!(dear.price(u64::MAX), Amount::MAX);
        let free = FeeMarket::default();
        assert_eq!(
            free.after(LANE_GAS_MAX, DurationMs::from_secs(1), Amount::ZERO),
            free
        );
    }

    #[test]
    fn each_lane_is_bounded_by_itself() {
        let pay = Transaction::Transfer {
            to: Address::default(),
            amount: Amount::ZERO,
        };
        let start = Transaction::StartLease {
            lease: LeaseId::default(),
        };
        let mut block = BlockGas::default();
        while let Some(next) = block.with(&pay) {
            block = next;
        }
        assert!(block.paid + 21_000 > LANE_GAS_MAX && block.paid <= LANE_GAS_MAX);
        let more = block.with(&start).unwrap();
        assert_eq!(more.prepaid, gas(&start));
        assert_eq!(more.paid, block.paid);
    }
}

//! Limits of the ledger. Each one bounds memory or work that a stranger can cause; none can be disabled.

/// Transactions in one block: about 0.1 s of signature checking on one core.
pub const TRANSACTIONS_PER_BLOCK_MAX: usize = 1_024;

/// Verdicts in one block: each stands for a proof that every validator verified.
pub const VERDICTS_PER_BLOCK_MAX: usize = 256;

/// Leases made in one block: their transactions fill the prepaid lane of one block at most; see [`crate::gas`].
pub const LEASES_PER_BLOCK_MAX: usize = 120;

/// Bytes of one encoded block.
pub use tg_types::chain::BLOCK_BYTES_MAX;

/// Bytes of a block that a proposer fills at most: what validators take in one message of each other.
pub const PROPOSED_BYTES_MAX: usize = 512 * 1024;

const _: () = assert!(PROPOSED_BYTES_MAX <= BLOCK_BYTES_MAX);

/// Offers, or groups of equal offers, looked at in one block: about 0.1 s. It is divided among [`LOOKS_PER_BLOCK`]; one
/// search in a block may exceed what is left of its part.
pub const LOOKS_PER_BLOCK_MAX: u64 = 1 << 20;

/// What each lane has of them, for jobs that wait and for jobs that came in this block: posted, gang, deadline; then the
/// auction of a slot, moves, jobs for which machines are held back, and the machines for whoever won in an auction. Whoever fills one lane with jobs that fit nowhere takes nothing from the others, and
/// nothing from whoever orders next; the jobs not reached come first in the next block. Jobs that came in the block divide
/// theirs: most is for posted orders, the most usual ones, and for gangs, which look at every machine twice.
pub const LOOKS_PER_BLOCK: [u64; 10] = [
    1 << 15,
    1 << 18,
    1 << 14,
    1 << 18,
    1 << 13,
    1 << 14,
    1 << 14,
    1 << 14,
    1 << 16,
    1 << 15,
];

/// Looks at kinds of machine for orders that raise moving prices as they wait, in one block; what is not reached does not count in it.
pub const PRICE_LOOKS_PER_BLOCK: u64 = 1 << 14;

/// Jobs that did not end, of all accounts.
pub const OPEN_JOBS_MAX: usize = 10_000;

/// Jobs that did not end, of one account.
pub const OPEN_JOBS_PER_ACCOUNT_MAX: u32 = 1_024;

/// Usual bound of what every validator repeats ([`crate::Parameters::repeated_macs_max`]): half a second of one core with AVX2.
pub const REPEATED_MACS_USUAL: u64 = 1 << 34;

/// Usual bound of what a committee of mode `sync` runs whole ([`crate::Parameters::whole_run_macs_max`]): some 30 ms of one core with AVX2.
pub const WHOLE_RUN_MACS_USUAL: u64 = 1 << 31;

/// Who may wait for a dispute of its own about one result, while another one is looked at.
pub const CHALLENGERS_WAITING_MAX: usize = 8;

/// Ended jobs that stay in the state, with their leases; the oldest leave first.
pub const ENDED_JOBS_MAX: usize = 50_000;

/// Ended jobs that leave the state in one block, so that a lowered bound does not stall a block.
pub const PRUNED_PER_BLOCK_MAX: usize = 2_048;

/// Units of 64 KiB of answers that validators keep: 8 GiB, half of the store of a validator.
pub const RETAINED_UNITS_MAX: usize = 1 << 17;

/// Kept answers that one block lets go, or of which it notes who missed them.
pub const RETAINED_PER_BLOCK_MAX: usize = 1_024;

/// Questions whether validators have what they keep, of all together. Their fee makes it dear to get near it.
pub const QUESTIONS_MAX: usize = 4_096;

/// Sealed bids of all accounts.
pub const BIDS_MAX: usize = 4_096;

/// Session keys of one account.
pub const SESSIONS_PER_ACCOUNT_MAX: usize = 8;

/// For how long a session key may sign at most: its rent is paid for so long.
pub const SESSION_TIME_MAX: tg_types::DurationMs = tg_types::DurationMs::from_secs(30 * 24 * 3_600);

/// Sealed bids of one account.
pub const BIDS_PER_ACCOUNT_MAX: u32 = 64;

/// Bids that one slot looks at, to clear them: about 20 ms. Where there are more, the next slots begin at others.
pub const AUCTION_BIDS_MAX: usize = 1_024;

/// Starts tried on one machine for a reservation: the ends of what runs or is booked there, the earliest first.
pub const BOOKING_STARTS_MAX: usize = 8;

/// Jobs for which machines are held back: each is looked at in every block. At most one, and one for every
/// [`OFFERS_PER_RESERVATION`] offers.
pub const RESERVATIONS_MAX: usize = 64;

/// See [`RESERVATIONS_MAX`].
pub const OFFERS_PER_RESERVATION: usize = 16;

/// How often one job may be pushed out.
pub const PREEMPTIONS_MAX: u8 = 3;

/// Leases that a job may owe something to because they made room for it; further ones get nothing.
pub const OWED_MAX: usize = 64;

/// Time that leases must have run together for one of them to be moved: a hundred hours, so that a hundredth of what
/// runs moves in an hour.
pub const MOVE_LEASE_MS: u64 = 100 * 3_600_000;

/// Leases looked at for one move, the oldest jobs first.
pub const MOVE_CANDIDATES_MAX: usize = 16;

/// Providers that one validator may report as lost.
pub const LOST_PER_VALIDATOR_MAX: usize = 1_024;

/// Leases of one job that may end before they started without counting as attempts.
pub const DECLINES_MAX: usize = 32;

/// The same of a gang, each of whose leases is one for every member: its rent is that of the attempts.
pub const GANG_DECLINES_MAX: usize = DECLINES_MAX / 4;

/// How often the penalty for not starting a lease doubles at most.
pub const DECLINE_DOUBLINGS_MAX: u8 = 12;

/// Members of a committee that votes on a result; all validators if there are no more. Of 16 drawn from any number of which a third
/// is faulty, at least one is honest but with probability 2.4e-8, and one honest member is enough to accuse.
pub const COMMITTEE_SEATS: usize = 16;

/// Validators that run the program of a result of mode `optimistic` again.
pub const WATCHERS: usize = 1;

/// The least validators that bear a faulty one; fewer are left by nobody.
pub const SEATS_MIN: usize = 4;

/// A network of fewer validators takes no new ones: it would not bear one that is silent.
pub const NEWCOMERS_FROM: usize = 3;

/// Blocks without one of a validator's own after which its seat may be taken: at least eight turns of it in the largest set.
pub const SILENCE_BLOCKS: u64 = 1_024;

/// Blocks in a row in which votes in committees were missed, after which a validator has no share of fees until it votes again.
pub const MISSED_VOTES_UNPAID: u16 = 4;

/// Blocks in a row in which votes in committees were missed, after which a seat counts as silent if the first of them is [`SILENCE_BLOCKS`] ago.
pub const MISSED_VOTES_MAX: u16 = 256;

/// Turns without a block of its own after which a validator counts as one that may be gone when others ask for seats.
pub const QUIET_TURNS: u64 = 8;

/// Accounts that wait for a seat.
pub const APPLICANTS_MAX: usize = 128;

/// Bonds on their way back; no seat ends while there are so many.
pub const UNBONDING_MAX: usize = 256;

/// Blocks of an epoch: seeds of ties, decay of reputations and reports of liveness go by it.
pub const EPOCH_BLOCKS: u64 = 64;

/// Offers of all accounts.
pub const OFFERS_MAX: usize = 1 << 16;

/// Offers of one account.
pub const OFFERS_PER_ACCOUNT_MAX: u32 = 16;

/// Records of providers; twice as many as offers, since a provider may rest.
pub const PROVIDERS_MAX: usize = 1 << 17;

/// Records of one category that leave for want of rent in one block: about a millisecond; the others follow in the next ones.
pub const EXPIRIES_PER_CATEGORY_MAX: usize = 64;

/// Models of all accounts.
pub const MODELS_MAX: usize = 4_096;

/// Models of one account.
pub const MODELS_PER_ACCOUNT_MAX: u32 = 256;

/// Accounts.
pub const ACCOUNTS_MAX: usize = 1_000_000;

/// Validators: what one message of certificates and one process of a grid can hold.
pub const VALIDATORS_MAX: usize = 64;

/// How far ahead of the ledger a nonce may be when it is admitted to a mempool.
pub const NONCES_AHEAD_MAX: u64 = 1_024;

const _: () = assert!(ENDED_JOBS_MAX > OPEN_JOBS_MAX);
const _: () = assert!(PRUNED_PER_BLOCK_MAX > TRANSACTIONS_PER_BLOCK_MAX + VERDICTS_PER_BLOCK_MAX);
const _: () = {
    let (mut sum, mut index) = (0, 0);
    while index < LOOKS_PER_BLOCK.len() {
        sum += LOOKS_PER_BLOCK[index];
        index += 1;
    }
    assert!(sum <= LOOKS_PER_BLOCK_MAX);
};

/// How often the fee of asking a validator for a file doubles at most: whoever asks is told the fee of one block, and pays that of another.
pub const ASK_DOUBLINGS_MAX: usize = 8;

//! Bounds of the ledger. Each one caps memory or work that a stranger can cause; none can be switched off.

/// Transactions in one block: about 0.1 s of signature checking on one core.
pub const TRANSACTIONS_PER_BLOCK_MAX: usize = 1_024;

/// Verdicts in one block: each stands for a proof that every validator verified.
pub const VERDICTS_PER_BLOCK_MAX: usize = 256;

/// Leases made in one block.
pub const LEASES_PER_BLOCK_MAX: usize = 256;

/// Bytes of one encoded block.
pub const BLOCK_BYTES_MAX: usize = 1 << 20;

/// Offers looked at in one block: about 30 ms; the jobs not reached come first in the next block.
pub const ASSESSMENTS_PER_BLOCK_MAX: u64 = 1 << 18;

/// Jobs that did not end, of all accounts.
pub const OPEN_JOBS_MAX: usize = 10_000;

/// Jobs that did not end, of one account.
pub const OPEN_JOBS_PER_ACCOUNT_MAX: u32 = 1_024;

/// Ended jobs that stay in the state, with their leases; the oldest leave first.
pub const ENDED_JOBS_MAX: usize = 50_000;

/// Ended jobs that leave the state in one block, so that a lowered bound does not stall a block.
pub const PRUNED_PER_BLOCK_MAX: usize = 2_048;

/// Offers of all accounts.
pub const OFFERS_MAX: usize = 4_096;

/// Offers of one account.
pub const OFFERS_PER_ACCOUNT_MAX: u32 = 16;

/// Models of all accounts.
pub const MODELS_MAX: usize = 4_096;

/// Models of one account.
pub const MODELS_PER_ACCOUNT_MAX: u32 = 256;

/// Accounts.
pub const ACCOUNTS_MAX: usize = 1_000_000;

/// Validators.
pub const VALIDATORS_MAX: usize = 128;

/// How far ahead of the ledger a nonce may be when it is admitted to a mempool.
pub const NONCES_AHEAD_MAX: u64 = 1_024;

const _: () = assert!(ENDED_JOBS_MAX > OPEN_JOBS_MAX);
const _: () = assert!(PRUNED_PER_BLOCK_MAX > TRANSACTIONS_PER_BLOCK_MAX + VERDICTS_PER_BLOCK_MAX);

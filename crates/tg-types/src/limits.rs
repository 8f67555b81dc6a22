//! Sizes that every part of the grid agrees on. Each limit bounds memory or work that a stranger can cause.

use crate::time::DurationMs;

/// Bytes of a [`Label`](crate::Label): one line of a table.
pub const LABEL_BYTES_MAX: usize = 64;

/// Bytes of one piece of evidence: an encoded proof with its public input and output.
pub const EVIDENCE_BYTES_MAX: u32 = 1 << 20;

/// Bytes of the evidence of modes `sync` and `optimistic` (drawn tiles of a run and what they read), and of files in a dispute.
pub const TRACE_EVIDENCE_BYTES_MAX: u32 = 16 << 20;

/// Bytes of a job's public input: the verifier evaluates it itself, so it travels with the proof.
pub const INPUT_BYTES_MAX: u32 = 1 << 20;

/// Attempts a job may ask for: each failed one costs the grid a verification.
pub const ATTEMPTS_MAX: u8 = 16;

/// Attempts of an order that says nothing else.
pub const ATTEMPTS_USUAL: u8 = 3;

/// The least time for which validators keep an answer, if they keep it at all.
pub const RETENTION_MIN: DurationMs = DurationMs::from_secs(600);

/// The longest time for which validators keep an answer.
pub const RETENTION_MAX: DurationMs = DurationMs::from_secs(30 * 24 * 3_600);

/// For how long validators keep the answer of an order that says nothing else.
pub const RETENTION_USUAL: DurationMs = DurationMs::from_secs(24 * 3_600);

/// Slots of one offer: a provider with more work side by side posts a second offer.
pub const SLOTS_MAX: u16 = 1024;

/// Providers that one liveness report may name.
pub const LIVENESS_CHANGES_MAX: usize = 32;

/// Inputs, models, openings and answers that one storage report may name in each of its two lists.
pub const STORAGE_STATEMENTS_MAX: usize = 24;

/// Votes on results in one transaction.
pub const VOTES_MAX: usize = 24;

/// Bytes of what a validator deals in the making of a seed's key: of 128 validators, 85 coefficients and an answer of each.
pub const DEALING_BYTES_MAX: usize = 18 * 1024;

/// Bytes of one encoded signed transaction; the longest kind, the dealing of one of 128 validators, has 18,600, all others have
/// less than 2,048.
pub const TRANSACTION_BYTES_MAX: usize = 19 * 1024;

/// Bytes of one that a client sends: of every kind but a dealing, which validators hand to their own node.
pub const CLIENT_TRANSACTION_BYTES_MAX: usize = 2_048;

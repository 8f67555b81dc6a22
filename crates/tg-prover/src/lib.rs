//! Makes the proofs that tg-proof checks.

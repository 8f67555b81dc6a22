//! The seed of Proof of Sync: a threshold signature over a height by a key that no validator has.
//!
//! # Protocol
//!
//! A **round** makes one key. Its participants are the validators of a set, all of them dealers and players; n are they, f the
//! greatest number below n / 3, and n - f make a quorum everywhere. Key generation is that of Feldman and Desmedt as
//! `commonware-cryptography` has it, always for a new key; this module is what the library leaves open: transport, time,
//! memory, and what goes onto the chain.
//!
//! ```text
//!   dealer d                     player p                     chain
//!     | draw a secret, keep it      |                            |
//!     | Dealing(points, share_p) -->| share on the polynomial?   |
//!     |      each second            | keep it                    |
//!     |<--- Acknowledgement(sign.) -|                            |
//!     | all acknowledged, or n - f and 2 s                       |
//!     | log: points, for each player its acknowledgement or share|
//!     |-- PostDealing ------------------------------------------>| usable? (check_dealing)
//!     |                             |                            | list closed: key K
//!     |                             |<---------------------------|   (key_of_dealings)
//!     |                             | own share of K             |
//!     |            height h final and wanted (SeedView)          |
//!     |<--- Partial(h) ------------>|      each second           |
//!     | n - f partials: seed(h) ---------------------------------->| (verify_seed)
//! ```
//!
//! 1. **Dealing.** A participant draws a polynomial of degree n - f - 1 from a secret that is on its disk before anything is
//!    sent, so a restart deals the same one. It sends each player the 96-byte points to which its coefficients commit and that
//!    player's share, over the network's encrypted connections, and again each second until it is acknowledged.
//! 2. **Acknowledgement.** A player checks its share against the points, keeps it, and signs that it did. It answers one
//!    dealing of each dealer, and a repetition of it with the same bytes. A wrong dealing is not answered.
//! 3. **Log.** When all have acknowledged, or n - f have and two seconds are over, the dealer signs its log: the points, and
//!    for each player the acknowledgement or, in place of a complaint, the share itself. A log that reveals more than f shares
//!    is not usable. [`check_dealing`] is what a voter asks before a log enters the state.
//! 4. **Key.** The state closes the list; [`key_of_dealings`] of it is the key K, the same for every validator. A player's
//!    share of K is the sum of its shares of the n - f dealings that count. Each honest player that has its disk has it: of
//!    each usable log it acknowledged its share, or the log reveals it.
//! 5. **Seed.** Once a height is final and wanted, participants send each other their partial signatures of (round, height),
//!    each second while it stays wanted. Any n - f of them give the one signature that K verifies ([`verify_seed`]).
//!
//! Deviations from the library's account: a partial signature is checked only if the seed that it helps to make is wrong, and
//! a restarted player needs only those of its dealings that count.
//!
//! # Who can predict, stop, bias
//!
//! Stated with its proof in `docs/PROTOCOL.md`, section Seed; in short, with at most f faulty validators:
//! - **Predict**: nobody has seed(h) before an honest validator saw h final. The faulty have f shares; delays of the network
//!   can make logs reveal those of f honest players more, and 2f is less than n - f.
//! - **Stop**: n - f honest validators suffice for every step, as they do for finality; more than f silent ones stop both.
//! - **Bias**: a late dealer can choose between keys, but it cannot tell what seeds they give, because an honest dealer's
//!   part is in each; and a key has one signature per height, so the content of blocks has no influence.
//!
//! # Restart
//!
//! Kept are the round, the secret and for each acknowledged dealing its share, its acknowledgement and the hash of its
//! points, which stand in the log: 160 bytes each. A validator whose disk is empty while others have dealt does not deal in
//! that round, lest it deal twice; it acknowledges what it is sent, and if a dealing that counts is missing, it has no share
//! until the next round ([`SeedStanding`]). Should it deal twice all the same, since its disk was lost before anybody's log was
//! in the state, nothing breaks: its players acknowledge one of the polynomials, and the state takes one log.
//!
//! # Cost
//!
//! CPU milliseconds of one core of a shared cloud machine, as `tests/timing.rs` prints them (`TG_SEED_TIMES=4,16,64`). The
//! last row is all of a round for one validator: its dealing, those of the others, their logs as a voter, key and share.
//!
//! | step | n = 4 | n = 16 | n = 64 |
//! |---|---|---|---|
//! | partial signature: signing | 0.16 | 0.20 | 0.15 |
//! | partial signature: taking one | 0.10 | 0.11 | 0.08 |
//! | seed from n - f of them, checked | 1.1 | 2.0 | 2.5 |
//! | the same when one is wrong, with the search | 5.2 | 24 | 132 |
//! | `verify_seed` | 1.1 | 1.2 | 1.0 |
//! | dealing: making it | 0.7 | 2.0 | 8.5 |
//! | dealing: receiving one | 1.2 | 2.4 | 6.1 |
//! | `check_dealing` | 1.3 | 2.8 | 11 |
//! | `key_of_dealings` | 4.2 | 29 | 448 |
//! | own share, when the list is closed | 3.9 | 34 | 413 |
//! | key generation, one validator | 19 | 149 | 1,940 |
//!
//! # Where to look
//!
//! - `view`: what the machine is told and wants done
//! - `round`: what all of a round agree on; `signature`: seeds and their check; `kept`: what is on disk
//! - `outcome`: the key that logs of dealings make
//! - `dealer`, `player`, `partials`: the three parts of a validator
//! - `active`: its part in the round that goes on
//! - `machine`: rounds come and go

mod active;
mod dealer;
mod kept;
mod machine;
mod outcome;
mod partials;
mod player;
mod round;
mod signature;
#[cfg(test)]
mod tests;
mod view;

pub use machine::SeedMachine;
pub use outcome::{DealingError, DealingsError, check_dealing, dealing_bytes_max, key_of_dealings};
pub use signature::verify_seed;
pub use view::{NoShare, SeedEffect, SeedPhase, SeedRefusal, SeedStanding, SeedView};

//! Records of the steps of a proof, with which an interrupted proof is resumed.
//!
//! A prover is a function of execution and challenges, so it is enough to keep the messages that it has sent; everything else
//! is computed again. A recorded step is replayed to the transcript as the verifier will do it, with its checks, at the cost
//! of verifying it. The resulting proof has the bytes of one made in a single run.

use crate::channel::Channel;
use crate::error::ProveError;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use tg_proof::commitment::Challenger;
use tg_proof::messages;

/// Where a step goes: its number, counted from zero, and its bytes. Steps from that number on that were kept before are void.
pub type Keep = Box<dyn FnMut(usize, &[u8]) + Send>;

/// The steps of one proof: those that an earlier run kept, and where further ones go.
pub struct Record(Mutex<Steps>);

struct Steps {
    known: VecDeque<Vec<u8>>,
    keep: Keep,
    done: usize,
    restored: usize,
}

impl Record {
    /// Of the steps that are known, in their order, and what keeps the others. Steps must be of the same statement and
    /// the same version of the prover.
    #[must_use]
    pub fn new(known: Vec<Vec<u8>>, keep: Keep) -> Self {
        Self(Mutex::new(Steps {
            known: known.into(),
            keep,
            done: 0,
            restored: 0,
        }))
    }

    /// How many of the known steps were used so far.
    #[must_use]
    pub fn restored(&self) -> usize {
        self.with(|steps| steps.restored)
    }

    fn with<T>(&self, of: impl FnOnce(&mut Steps) -> T) -> T {
        // A panic of another thread leaves whole steps behind.
        of(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.with(|steps| {
            f.debug_struct("Record")
                .field("known", &steps.known.len())
                .field("done", &steps.done)
                .finish_non_exhaustive()
        })
    }
}

/// The next step of a proof: restored from what is kept of it if the transcript takes it, otherwise made and kept.
///
/// `restore` plays kept messages to the transcript; nothing if a verifier would refuse them, and then they and all after
/// them are forgotten.
pub(crate) fn step<T, U>(
    record: Option<&Record>,
    channel: &mut Channel,
    restore: impl FnOnce(&T, &mut Challenger) -> Option<U>,
    make: impl FnOnce(&mut Channel) -> Result<(T, U), ProveError>,
) -> Result<(T, U), ProveError>
where
    T: Serialize + for<'de> Deserialize<'de>,
{
    let Some(record) = record else {
        return make(channel);
    };
    if let Some(bytes) = record.with(|steps| steps.known.pop_front()) {
        let mut played = channel.challenger().clone();
        let kept = messages::decode::<T>(&bytes);
        let restored = kept.and_then(|kept| {
            let left = restore(&kept, &mut played)?;
            Some((kept, left))
        });
        if let Some(restored) = restored {
            *channel.challenger() = played;
            record.with(|steps| {
                steps.done += 1;
                steps.restored += 1;
            });
            return Ok(restored);
        }
        record.with(|steps| steps.known.clear());
    }
    let made = make(channel)?;
    let bytes = messages::encode(&made.0);
    record.with(|steps| {
        (steps.keep)(steps.done, &bytes);
        steps.done += 1;
    });
    Ok(made)
}

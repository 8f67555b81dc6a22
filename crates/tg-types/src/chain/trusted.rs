//! From where a client follows the chain: the newest block of which it knows that it is final, and who votes after it.
//!
//! **Why an old block is none to begin at.** A seat that is given back answers for its votes for the time of unbonding; then its bond
//! is returned. Whoever held two thirds of a set and has its bonds back signs another past for nothing, and a client that knows that set alone
//! cannot tell it from the true one. So a client begins at a block that is younger than the [`trusting_period`] by its own wall clock, which is
//! shorter than unbonding: the bonds of the set after that block are still held when the client asks, as ledger time never runs faster than the wall clock; those of
//! every later set are held longer. Two thirds of any of them that sign another chain lose their bonds, for votes that whoever was lied to can show, if
//! they sign in views that the true chain used; in others they contradict no vote of theirs (ADR 36, not covered).
//!
//! What is left of unbonding, a day where it is long, is for wrong clocks and for showing those votes to the ledger.
//!
//! A [`Checkpoint`] is a block that somebody vouches for. The client takes its id from a person or a place that it trusts, and nothing else: what
//! stands behind the id ([`CheckpointBlock`]) is checked against it.

use std::fmt;
use std::str::FromStr;

use super::seats::root_of;
use super::{AnswerError, BlockHeader, FinalAnswer, LeafKey, SeatChanges, StateAnswer, TrustRoot};
use crate::{
    BlockId, Decode, DecodeError, Digest, Domain, DurationMs, Encode, Height, Reader, TimestampMs,
    Writer, keccak256_of,
};

/// A day in milliseconds.
const DAY_MS: u64 = 24 * 3_600_000;

/// First bytes of a [`TrustedHead`] in a file.
const MAGIC: [u8; 8] = *b"TGHEAD\0\x02";

/// How old the newest block that a client trusts may be: unbonding less a day, or less a quarter of it if that is shorter.
#[must_use]
pub const fn trusting_period(unbonding: DurationMs) -> DurationMs {
    let (whole, quarter) = (unbonding.get(), unbonding.get() / 4);
    let left = if quarter < DAY_MS { quarter } else { DAY_MS };
    DurationMs::new(whole - left)
}

/// A block that somebody vouches for; as text `HEIGHT:ID`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its height.
    pub height: Height,
    /// Its id.
    pub block: BlockId,
}

/// A text is no [`Checkpoint`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a checkpoint is the height of a block, a colon, and its id: 0x and 64 hexadecimal digits")]
pub struct ParseCheckpointError;

impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.height, self.block)
    }
}

impl FromStr for Checkpoint {
    type Err = ParseCheckpointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (height, block) = text.trim().split_once(':').ok_or(ParseCheckpointError)?;
        let is_plain = !height.is_empty() && height.bytes().all(|it| it.is_ascii_digit());
        let height = height.parse().ok().filter(|_| is_plain);
        Ok(Self {
            height: Height::new(height.ok_or(ParseCheckpointError)?),
            block: BlockId::from_hex(block).ok_or(ParseCheckpointError)?,
        })
    }
}

/// What a node says stands behind a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointBlock {
    /// The block's header.
    pub header: BlockHeader,
    /// The validators that vote on the block after it, as [`super::SeatChange::seats`]; empty for those of genesis, if the node has them no more.
    pub seats: Vec<u8>,
}

impl CheckpointBlock {
    /// The checkpoint that this is, if nobody says which it should be.
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            height: self.header.height,
            block: self.header.id(),
        }
    }
}

impl Encode for CheckpointBlock {
    fn encode(&self, writer: &mut Writer) {
        let Self { header, seats } = self;
        header.encode(writer);
        writer.bytes(seats);
    }
}

impl Decode for CheckpointBlock {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            header: BlockHeader::decode(reader)?,
            seats: reader.bytes("seats", super::seats::SET_BYTES_MAX)?.to_vec(),
        })
    }
}

/// Why a client does not begin at a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// The chain has another block there.
    #[error("block {height} of this chain is {got}, the checkpoint says {expected}")]
    Block {
        /// Where.
        height: Height,
        /// The checkpoint's block.
        expected: BlockId,
        /// The chain's.
        got: BlockId,
    },
    /// The header is of another height.
    #[error("the block of the checkpoint has height {got}, the checkpoint says {expected}")]
    Height {
        /// The checkpoint's.
        expected: Height,
        /// The header's.
        got: Height,
    },
    /// The validators are not those that the header names.
    #[error("the validators after the checkpoint are not those that its block names")]
    Seats,
    /// It is too old.
    #[error(transparent)]
    Old(#[from] HeadTooOld),
}

/// The newest block that is trusted is too old to follow the chain from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the newest block that is trusted is {} of {} ago, and bonds answer for votes {} at most: whoever voted then may have its bond back and show another chain",
    name(*height), Span(*age), Span(*period)
)]
pub struct HeadTooOld {
    /// The block's height; 0 is genesis.
    pub height: Height,
    /// How old it is by the client's clock.
    pub age: DurationMs,
    /// How old it may be.
    pub period: DurationMs,
}

impl HeadTooOld {
    /// Whether a block of a height and time is young enough at `now` to follow the chain from.
    ///
    /// # Errors
    /// If not.
    pub const fn check(
        (height, timestamp): (Height, TimestampMs),
        now: TimestampMs,
        period: DurationMs,
    ) -> Result<(), Self> {
        let age = now.saturating_since(timestamp);
        // Stops: a history that was signed by seats whose bonds are returned.
        if age.get() > period.get() {
            return Err(Self {
                height,
                age,
                period,
            });
        }
        Ok(())
    }
}

/// A block by its height, as people say it.
fn name(height: Height) -> String {
    match height.get() {
        0 => "genesis".to_owned(),
        height => format!("block {height}"),
    }
}

/// A span in the largest unit of which it has two.
struct Span(DurationMs);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.get() / 1_000;
        let units = [(86_400, "days"), (3_600, "hours"), (60, "minutes")];
        let unit = units.into_iter().find(|(unit, _)| seconds >= 2 * unit);
        let (unit, word) = unit.unwrap_or((1, "seconds"));
        write!(f, "{} {word}", seconds / unit)
    }
}

/// What a genesis says of whom to trust in its network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkTrust {
    /// The network and who votes at first.
    pub root: TrustRoot,
    /// The same validators as headers name them, as [`super::SeatChange::seats`].
    pub seats: Vec<u8>,
    /// The time of genesis.
    pub timestamp: TimestampMs,
    /// How long a bond answers for votes.
    pub unbonding: DurationMs,
}

impl NetworkTrust {
    /// Genesis as the newest block that is trusted.
    #[must_use]
    pub fn genesis(&self) -> TrustedHead {
        TrustedHead {
            root: self.root.clone(),
            changed: Checkpoint {
                height: Height::ZERO,
                block: self.root.genesis(),
            },
            newest: Checkpoint {
                height: Height::ZERO,
                block: self.root.genesis(),
            },
            timestamp: self.timestamp,
        }
    }

    /// How old the newest block that is trusted may be.
    #[must_use]
    pub const fn period(&self) -> DurationMs {
        trusting_period(self.unbonding)
    }

    /// The block of a checkpoint as the newest that is trusted, by what a node says of it.
    ///
    /// # Errors
    /// [`CheckpointError`] if it is another block.
    pub fn begin_at(
        &self,
        checkpoint: &Checkpoint,
        told: &CheckpointBlock,
    ) -> Result<TrustedHead, CheckpointError> {
        let CheckpointBlock { header, seats } = told;
        let (expected, got) = (checkpoint.block, header.id());
        // Stops: a node that shows another chain.
        if got != expected {
            return Err(CheckpointError::Block {
                height: checkpoint.height,
                expected,
                got,
            });
        }
        if header.height != checkpoint.height {
            return Err(CheckpointError::Height {
                expected: checkpoint.height,
                got: header.height,
            });
        }
        let seats = match seats.as_slice() {
            [] => self.seats.as_slice(),
            seats => seats,
        };
        // Stops: validators of the node's choice.
        if Digest::new(keccak256_of(Domain::SeatSet, seats)) != header.seats {
            return Err(CheckpointError::Seats);
        }
        let root = root_of(self.root.genesis(), seats).map_err(|_| CheckpointError::Seats)?;
        Ok(TrustedHead {
            root,
            changed: *checkpoint,
            newest: *checkpoint,
            timestamp: header.timestamp,
        })
    }
}

/// The newest block of which somebody knows that it is final, and who votes after it. Kept in a file, a later run goes on from there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedHead {
    /// Who votes since the last change of the set that is known.
    root: TrustRoot,
    /// The block of that change; changes above it are not known.
    changed: Checkpoint,
    newest: Checkpoint,
    timestamp: TimestampMs,
}

impl TrustedHead {
    /// The id of genesis.
    #[must_use]
    pub const fn genesis(&self) -> BlockId {
        self.root.genesis()
    }

    /// The block.
    #[must_use]
    pub const fn checkpoint(&self) -> Checkpoint {
        self.newest
    }

    /// The block's time.
    #[must_use]
    pub const fn timestamp(&self) -> TimestampMs {
        self.timestamp
    }

    /// The height above which changes of the set of validators are not known yet.
    #[must_use]
    pub const fn changed(&self) -> Height {
        self.changed.height
    }

    /// Who votes now, as far as it is known.
    #[must_use]
    pub const fn root(&self) -> &TrustRoot {
        &self.root
    }

    /// Whether it is young enough at `now` of the client's own clock to follow the chain from.
    ///
    /// # Errors
    /// [`HeadTooOld`] if not.
    pub const fn check_age(&self, now: TimestampMs, period: DurationMs) -> Result<(), HeadTooOld> {
        HeadTooOld::check((self.newest.height, self.timestamp), now, period)
    }

    /// Takes changes of the set of validators above [`TrustedHead::changed`].
    ///
    /// # Errors
    /// [`AnswerError`] if one is not shown by the set before it; those before are taken.
    pub fn learn(&mut self, changes: &SeatChanges) -> Result<(), AnswerError> {
        for change in &changes.0 {
            let (next, header) = self.root.next(change)?;
            // Stops: a list without an end.
            if header.height <= self.changed.height {
                let height = header.height.get();
                return Err(AnswerError::Order { height });
            }
            self.advance(&header)?;
            self.root = next;
            self.changed = Checkpoint {
                height: header.height,
                block: header.id(),
            };
        }
        Ok(())
    }

    /// What an answer shows of a key; its block is the newest that is trusted from then on, if it is newer.
    ///
    /// # Errors
    /// [`AnswerError`] if it shows nothing.
    pub fn check(
        &mut self,
        answer: &StateAnswer,
        key: &LeafKey,
    ) -> Result<FinalAnswer, AnswerError> {
        let first = answer.headers.first();
        let shown = match first.filter(|it| it.height <= self.changed.height) {
            None => answer.check(&self.root, key)?,
            // The newest block may be the last one of the set before, whose signatures are worth nothing once the change is
            // known: the block is. Stops: a set that has its bonds back and signs another past, with a time of today.
            Some(first) if first.id() == self.changed.block => {
                answer.check_below(self.changed.block, key)?
            }
            Some(first) => {
                return Err(AnswerError::Superseded {
                    height: first.height.get(),
                    changed: self.changed.height.get(),
                });
            }
        };
        self.advance(&shown.header)?;
        Ok(shown)
    }

    /// Takes a header that is shown to be final.
    fn advance(&mut self, header: &BlockHeader) -> Result<(), AnswerError> {
        let got = header.id();
        // Two final blocks of one height: more than a third of the seats signed both.
        if header.height == self.newest.height && got != self.newest.block {
            return Err(AnswerError::Fork {
                height: self.newest.height.get(),
                known: self.newest.block,
                got,
            });
        }
        if header.height > self.newest.height {
            self.newest = Checkpoint {
                height: header.height,
                block: got,
            };
            self.timestamp = header.timestamp;
        }
        Ok(())
    }

    /// The bytes of its file.
    #[must_use]
    pub fn to_file(&self) -> Vec<u8> {
        [MAGIC.as_slice(), &self.to_bytes()].concat()
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// [`DecodeError`] if they are none.
    pub fn from_file(bytes: &[u8]) -> Result<Self, DecodeError> {
        let rest = bytes.strip_prefix(&MAGIC).ok_or(DecodeError::Invalid {
            field: "magic",
            value: 0,
        })?;
        Self::from_bytes(rest)
    }
}

impl Encode for TrustRoot {
    fn encode(&self, writer: &mut Writer) {
        self.genesis().encode(writer);
        writer.seq(self.seats());
    }
}

impl Decode for TrustRoot {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let genesis = BlockId::decode(reader)?;
        let seats: Vec<[u8; 32]> = reader.seq("seats", super::SEATS_MAX, 32)?;
        let count = seats.len() as u64;
        let is_sorted = seats.is_sorted();
        let root = Self::new(genesis, seats).ok().filter(|_| is_sorted);
        root.ok_or(DecodeError::Invalid {
            field: "seats",
            value: count,
        })
    }
}

impl Encode for Checkpoint {
    fn encode(&self, writer: &mut Writer) {
        let Self { height, block } = self;
        height.encode(writer);
        block.encode(writer);
    }
}

impl Decode for Checkpoint {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            height: Height::decode(reader)?,
            block: BlockId::decode(reader)?,
        })
    }
}

impl Encode for TrustedHead {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            root,
            changed,
            newest,
            timestamp,
        } = self;
        root.encode(writer);
        changed.encode(writer);
        newest.encode(writer);
        timestamp.encode(writer);
    }
}

impl Decode for TrustedHead {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            root: TrustRoot::decode(reader)?,
            changed: Checkpoint::decode(reader)?,
            newest: Checkpoint::decode(reader)?,
            timestamp: TimestampMs::decode(reader)?,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const HOUR_MS: u64 = 3_600_000;

    #[test]
    fn a_day_or_a_quarter_is_left_of_unbonding() {
        for (unbonding, period) in [
            (0, 0),
            (4, 3),
            (HOUR_MS, HOUR_MS / 4 * 3),
            (4 * DAY_MS, 3 * DAY_MS),
            (21 * DAY_MS, 20 * DAY_MS),
        ] {
            let got = trusting_period(DurationMs::new(unbonding));
            assert_eq!(got, DurationMs::new(period), "{unbonding}");
        }
    }

    #[test]
    fn checkpoints_are_read_as_they_are_written() {
        let checkpoint = Checkpoint {
            height: Height::new(1_234),
            block: BlockId::new([0xab; 32]),
        };
        assert_eq!(checkpoint.to_string().parse(), Ok(checkpoint));
        let id = checkpoint.block.to_string();
        for text in [
            "",
            ":",
            "5",
            &id,
            &format!("-1:{id}"),
            &format!("+1:{id}"),
            "7:0x12",
        ] {
            assert_eq!(
                text.parse::<Checkpoint>(),
                Err(ParseCheckpointError),
                "{text}"
            );
        }
    }

    #[test]
    fn a_head_is_kept_in_a_file() {
        let root = TrustRoot::new(BlockId::new([1; 32]), vec![[3; 32], [2; 32]]).unwrap();
        let trust = NetworkTrust {
            root,
            seats: Vec::new(),
            timestamp: TimestampMs::new(5),
            unbonding: DurationMs::from_secs(40),
        };
        let head = trust.genesis();
        let bytes = head.to_file();
        assert_eq!(TrustedHead::from_file(&bytes), Ok(head.clone()));
        for end in 0..bytes.len() {
            TrustedHead::from_file(&bytes[..end]).unwrap_err();
        }
        let (in_time, late) = (TimestampMs::new(30_005), TimestampMs::new(30_006));
        assert_eq!(head.check_age(in_time, trust.period()), Ok(()));
        let old = head.check_age(late, trust.period()).unwrap_err();
        assert_eq!(old.age, DurationMs::new(30_001));
        assert!(
            old.to_string()
                .starts_with("the newest block that is trusted is genesis of 30 seconds ago")
        );
    }
}

//! Journals: a chain of blocks with the decisions made in each, which can be executed again.
//!
//! A journal is self-contained: it begins with the genesis. A replay recomputes every block, compares every decision, the
//! schedule root and the state root, and names the first that differs.

use tg_types::{Decode, DecodeError, Digest, Encode, Height, Reader, Writer};

use crate::apply::apply;
use crate::block::Block;
use crate::decision::Decision;
use crate::error::BlockError;
use crate::event::Event;
use crate::genesis::{Genesis, GenesisError};
use crate::limits::{BLOCK_BYTES_MAX, LEASES_PER_BLOCK_MAX};
use crate::state::State;

/// What a journal begins with: its name and version.
const MAGIC: &[u8; 8] = b"TGJRNL\x00\x01";

/// Decisions of one block: leases made, refusals, preemptions and losses of all live leases.
const DECISIONS_MAX: usize = LEASES_PER_BLOCK_MAX + 4 * crate::limits::OPEN_JOBS_MAX;

/// One block of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The block.
    pub block: Block,
    /// What the scheduler decided in it.
    pub decisions: Vec<Decision>,
    /// The root of these decisions.
    pub schedule_root: Digest,
}

impl Entry {
    /// What became of `block`: the state after it and its events.
    #[must_use]
    pub fn of(block: &Block, after: &State, events: &[Event]) -> Self {
        let scheduled = events.iter().find_map(|event| match event {
            Event::Scheduled { decisions, .. } => Some(decisions.clone()),
            _ => None,
        });
        Self {
            block: block.clone(),
            decisions: scheduled.unwrap_or_default(),
            schedule_root: after.schedule().root,
        }
    }
}

/// Writes a journal, entry by entry.
#[derive(Debug, Clone)]
pub struct JournalWriter {
    bytes: Vec<u8>,
}

impl JournalWriter {
    /// A journal of a chain that begins with `genesis`.
    #[must_use]
    pub fn new(genesis: &Genesis) -> Self {
        let mut writer = Writer::new();
        writer.raw(MAGIC);
        writer.bytes(&genesis.to_bytes());
        Self {
            bytes: writer.into_bytes(),
        }
    }

    /// Appends what happened in the next block.
    pub fn append(&mut self, entry: &Entry) {
        let Entry {
            block,
            decisions,
            schedule_root,
        } = entry;
        let mut writer = Writer::new();
        writer.bytes(&block.to_bytes());
        writer.seq(decisions);
        schedule_root.encode(&mut writer);
        self.bytes.extend_from_slice(&writer.into_bytes());
    }

    /// The journal so far.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// What a replay found: everything as recorded.
#[derive(Debug, Clone)]
pub struct Replayed {
    /// The state after the last block.
    pub state: State,
    /// Blocks that were executed.
    pub blocks: u64,
    /// Decisions that were compared.
    pub decisions: u64,
}

/// Where a journal and its execution differ.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The bytes are no journal.
    #[error("read the beginning of the journal")]
    NoJournal(#[source] DecodeError),
    /// The genesis makes no state.
    #[error("begin with the journal's genesis")]
    Genesis(#[source] GenesisError),
    /// An entry cannot be read.
    #[error("read block {height} of the journal")]
    Unreadable {
        /// The block that was expected.
        height: Height,
        /// Why.
        #[source]
        source: DecodeError,
    },
    /// A block does not follow from the one before it.
    #[error("execute block {height}")]
    Block {
        /// The block.
        height: Height,
        /// Why.
        #[source]
        source: Box<BlockError>,
    },
    /// A decision is another one than was recorded.
    #[error(
        "block {height}, decision {index}: recorded {}, executed {}",
        recorded.as_ref().map_or_else(|| "nothing".to_owned(), |it| it.to_string()),
        executed.as_ref().map_or_else(|| "nothing".to_owned(), |it| it.to_string())
    )]
    Decision {
        /// The block.
        height: Height,
        /// Which of its decisions, from 0.
        index: usize,
        /// The recorded one, if there is one.
        recorded: Option<Box<Decision>>,
        /// The executed one, if there is one.
        executed: Option<Box<Decision>>,
    },
    /// The root of a block's decisions is another one than was recorded.
    #[error("block {height}: recorded schedule root {recorded}, executed {executed}")]
    ScheduleRoot {
        /// The block.
        height: Height,
        /// The recorded one.
        recorded: Digest,
        /// The executed one.
        executed: Digest,
    },
}

fn read_entry(reader: &mut Reader<'_>) -> Result<Entry, DecodeError> {
    let block = Block::from_bytes(reader.bytes("block", BLOCK_BYTES_MAX)?)?;
    Ok(Entry {
        block,
        decisions: reader.seq("decisions", DECISIONS_MAX, 33)?,
        schedule_root: Digest::decode(reader)?,
    })
}

/// Executes a journal again and compares everything in it.
///
/// # Errors
/// [`ReplayError`] names the first block and decision that differ, or what cannot be read.
pub fn replay(bytes: &[u8]) -> Result<Replayed, ReplayError> {
    let mut reader = Reader::new(bytes);
    let genesis = read_genesis(&mut reader).map_err(ReplayError::NoJournal)?;
    let mut replayed = Replayed {
        state: State::genesis(&genesis).map_err(ReplayError::Genesis)?,
        blocks: 0,
        decisions: 0,
    };
    while reader.remaining() > 0 {
        let height = replayed.state.head().height.next();
        let entry =
            read_entry(&mut reader).map_err(|source| ReplayError::Unreadable { height, source })?;
        let (next, events) =
            apply(&replayed.state, &entry.block).map_err(|source| ReplayError::Block {
                height,
                source: Box::new(source),
            })?;
        compare(&entry, &Entry::of(&entry.block, &next, &events), height)?;
        replayed.state = next;
        replayed.blocks += 1;
        replayed.decisions += entry.decisions.len() as u64;
    }
    Ok(replayed)
}

fn read_genesis(reader: &mut Reader<'_>) -> Result<Genesis, DecodeError> {
    let magic: [u8; 8] = reader.array()?;
    if magic != *MAGIC {
        return Err(DecodeError::Invalid {
            field: "journal",
            value: u64::from_le_bytes(magic),
        });
    }
    let limit = reader.remaining();
    Genesis::from_bytes(reader.bytes("genesis", limit)?)
}

fn compare(recorded: &Entry, executed: &Entry, height: Height) -> Result<(), ReplayError> {
    let count = recorded.decisions.len().max(executed.decisions.len());
    for index in 0..count {
        let recorded = recorded.decisions.get(index).copied();
        let executed = executed.decisions.get(index).copied();
        if recorded != executed {
            return Err(ReplayError::Decision {
                height,
                index,
                recorded: recorded.map(Box::new),
                executed: executed.map(Box::new),
            });
        }
    }
    if recorded.schedule_root != executed.schedule_root {
        return Err(ReplayError::ScheduleRoot {
            height,
            recorded: recorded.schedule_root,
            executed: executed.schedule_root,
        });
    }
    Ok(())
}

//! The state of a program between two calls: the values of its mutable globals, and its memory.
//!
//! That is all of it. No call from outside is active then, so that no value and no frame is on the engine's stack, and fuel is granted anew to
//! each call. Functions, types, immutable globals and the table do not change: nobody outside writes them, and the profile refuses every
//! instruction that does (`table.*`). It refuses those that could tell whether a segment was dropped too (`memory.init`, `data.drop`,
//! `table.init`, `elem.drop`). The start function has run. So an instance that is made anew without it, and given globals and memory, goes on
//! as the one that they were read from.
//!
//! Memory is mostly zeros in its beginning. A state is shown as runs of the leaves of 1 KiB that are not all zero.

use tg_types::{Decode, DecodeError, Digest, Domain, Encode, Reader, Writer};
use wasmi::{F32, F64, Val};

use crate::limits::{GLOBALS_MAX, PAGE_BYTES, PAGES_MAX};

/// Bytes of a leaf.
const LEAF: usize = 1 << 10;

/// Leaves of a page.
const LEAVES_PER_PAGE: u64 = (PAGE_BYTES / LEAF) as u64;

/// Most runs of leaves: every second leaf is not zero.
const RUNS_MAX: usize = PAGES_MAX as usize * (PAGE_BYTES / LEAF) / 2;

/// Bytes of the shortest run: its place, its length and one leaf.
const RUN_BYTES_MIN: usize = 8 + LEAF;

/// Bytes of a global: its type and its bits.
const GLOBAL_BYTES: usize = 9;

/// Most bytes that showing a state of so many pages takes: of more than one run of leaves each leaf of zeros between is left out.
pub(crate) const fn shown_bytes_max(pages: u32) -> u64 {
    (12 + GLOBAL_BYTES * GLOBALS_MAX as usize + 8 + pages as usize * PAGE_BYTES) as u64
}

/// The value of a mutable global.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GlobalValue {
    /// 0 i32, 1 i64, 2 f32, 3 f64.
    pub(crate) kind: u8,
    pub(crate) bits: u64,
}

impl GlobalValue {
    pub(crate) fn of_engine(value: &Val) -> Self {
        let (kind, bits) = match value {
            Val::I32(value) => (0, u64::from(value.cast_unsigned())),
            Val::I64(value) => (1, value.cast_unsigned()),
            Val::F32(value) => (2, u64::from(value.to_bits())),
            Val::F64(value) => (3, value.to_bits()),
            // The profile has no other types.
            _ => (4, 0),
        };
        Self { kind, bits }
    }

    /// The value in the engine; of a type of 32 bits the lower half.
    pub(crate) fn to_engine(self) -> Val {
        let low = (self.bits & u64::from(u32::MAX)) as u32;
        match self.kind {
            0 => Val::I32(low.cast_signed()),
            1 => Val::I64(self.bits.cast_signed()),
            2 => Val::F32(F32::from_bits(low)),
            _ => Val::F64(F64::from_bits(self.bits)),
        }
    }

    /// Whether its type has as many bits.
    const fn fits(self) -> bool {
        match self.kind {
            0 | 2 => self.bits <= u32::MAX as u64,
            1 | 3 => true,
            _ => false,
        }
    }
}

impl Encode for GlobalValue {
    fn encode(&self, writer: &mut Writer) {
        let Self { kind, bits } = self;
        writer.u8(*kind);
        writer.u64(*bits);
    }
}

impl Decode for GlobalValue {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (kind, bits) = (reader.u8()?, reader.u64()?);
        let value = Self { kind, bits };
        match value.fits() {
            true => Ok(value),
            false => Err(DecodeError::Invalid {
                field: "value of a global",
                value: u64::from(kind),
            }),
        }
    }
}

/// A state in the engine, as it is looked at.
pub(crate) struct StateLook<'a> {
    globals: Vec<GlobalValue>,
    memory: &'a [u8],
}

impl<'a> StateLook<'a> {
    pub(crate) const fn new(globals: Vec<GlobalValue>, memory: &'a [u8]) -> Self {
        Self { globals, memory }
    }

    /// Its digest.
    pub(crate) fn digest(&self) -> Digest {
        self.shown().0
    }

    /// Its digest, and 32 bytes that who has not computed it does not know ([`Digest::of_shown`]).
    pub(crate) fn shown(&self) -> (Digest, [u8; 32]) {
        let pages = self.memory.len() / PAGE_BYTES;
        shown(&self.globals, pages, &blake3::hash(self.memory))
    }

    /// Bytes that showing it takes.
    pub(crate) fn shown_bytes(&self) -> u32 {
        let runs = runs_of(self.memory);
        let bytes = runs.map(|(_, bytes)| 8 + bytes.len()).sum::<usize>();
        let all = 12 + GLOBAL_BYTES * self.globals.len() + bytes;
        // At most 33 MiB.
        u32::try_from(all).unwrap_or(u32::MAX)
    }

    /// A copy of it.
    pub(crate) fn to_state(&self) -> ProgramState {
        let runs = runs_of(self.memory).map(|(first, bytes)| MemoryRun {
            first,
            bytes: bytes.to_vec(),
        });
        ProgramState {
            globals: self.globals.clone(),
            pages: u32::try_from(self.memory.len() / PAGE_BYTES).unwrap_or(u32::MAX),
            runs: runs.collect(),
        }
    }
}

/// Digest and further output over a state.
fn shown(globals: &[GlobalValue], pages: usize, memory: &blake3::Hash) -> (Digest, [u8; 32]) {
    let mut writer = Writer::new();
    writer.seq(globals);
    writer.count(pages);
    writer.raw(memory.as_bytes());
    Digest::of_shown(Domain::WasmState, &writer.into_bytes())
}

const ZEROS: [u8; LEAF] = [0; LEAF];

fn is_zero(leaf: &[u8]) -> bool {
    leaf == &ZEROS[..leaf.len()]
}

/// The longest runs of leaves that are not all zero, with the place of the first leaf of each.
fn runs_of(memory: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    let mut leaves = memory.chunks_exact(LEAF).map(is_zero).enumerate();
    std::iter::from_fn(move || {
        let (first, _) = leaves.by_ref().find(|(_, is_zero)| !is_zero)?;
        let after = leaves.by_ref().find(|(_, is_zero)| *is_zero);
        let end = after.map_or(memory.len() / LEAF, |(place, _)| place);
        let bytes = memory.get(first * LEAF..end * LEAF)?;
        Some((u32::try_from(first).ok()?, bytes))
    })
}

/// Leaves of a memory that follow one another, none of them all zero.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MemoryRun {
    /// The place of the first leaf.
    first: u32,
    bytes: Vec<u8>,
}

impl MemoryRun {
    /// The place after its last leaf.
    fn end(&self) -> u64 {
        u64::from(self.first) + (self.bytes.len() / LEAF) as u64
    }
}

/// A state of a program between two calls: what a file shows of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramState {
    globals: Vec<GlobalValue>,
    pages: u32,
    runs: Vec<MemoryRun>,
}

impl ProgramState {
    pub(crate) fn globals(&self) -> &[GlobalValue] {
        &self.globals
    }

    /// Pages of its memory, at most [`PAGES_MAX`].
    #[must_use]
    pub const fn pages(&self) -> u32 {
        self.pages
    }

    /// Its digest. Takes a hash over its memory, zeros included.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let zeros = vec![0; PAGE_BYTES];
        let mut hasher = blake3::Hasher::new();
        let skip = |hasher: &mut blake3::Hasher, leaves: u64| {
            let mut left = usize::try_from(leaves).unwrap_or(usize::MAX) * LEAF;
            while left > 0 {
                let piece = left.min(PAGE_BYTES);
                hasher.update(&zeros[..piece]);
                left -= piece;
            }
        };
        let mut at = 0;
        for run in &self.runs {
            skip(&mut hasher, u64::from(run.first) - at);
            hasher.update(&run.bytes);
            at = run.end();
        }
        skip(&mut hasher, leaves_of(self.pages) - at);
        shown(&self.globals, self.pages as usize, &hasher.finalize()).0
    }

    /// Writes its memory over one of as many pages.
    pub(crate) fn write_to(&self, memory: &mut [u8]) {
        memory.fill(0);
        for MemoryRun { first, bytes } in &self.runs {
            let at = *first as usize * LEAF;
            if let Some(place) = memory.get_mut(at..at + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        }
    }
}

/// Leaves of a memory of so many pages.
fn leaves_of(pages: u32) -> u64 {
    u64::from(pages) * LEAVES_PER_PAGE
}

impl Encode for ProgramState {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            globals,
            pages,
            runs,
        } = self;
        writer.seq(globals);
        writer.u32(*pages);
        writer.count(runs.len());
        for MemoryRun { first, bytes } in runs {
            writer.u32(*first);
            writer.bytes(bytes);
        }
    }
}

impl Decode for ProgramState {
    /// The one encoding of a state: runs are whole leaves within its memory, ascending, with a leaf of zeros at least between two, and none
    /// inside.
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let globals = reader.seq("globals", GLOBALS_MAX as usize, GLOBAL_BYTES)?;
        let pages = reader.u32()?;
        let invalid = |field, value| Err(DecodeError::Invalid { field, value });
        if pages > PAGES_MAX {
            return invalid("pages of a state", pages.into());
        }
        let count = reader.count("runs of leaves", RUNS_MAX, RUN_BYTES_MIN)?;
        let mut runs = Vec::with_capacity(count);
        // The first place at which the next run may begin.
        let mut from = 0;
        for _ in 0..count {
            let first = reader.u32()?;
            let bytes = reader.bytes("leaves", PAGES_MAX as usize * PAGE_BYTES)?;
            let mut leaves = bytes.chunks(LEAF);
            let is_run = !bytes.is_empty() && leaves.all(|it| it.len() == LEAF && !is_zero(it));
            let run = MemoryRun {
                first,
                bytes: bytes.to_vec(),
            };
            if !is_run || u64::from(first) < from || run.end() > leaves_of(pages) {
                return invalid("run of leaves", first.into());
            }
            from = run.end() + 1;
            runs.push(run);
        }
        Ok(Self {
            globals,
            pages,
            runs,
        })
    }
}

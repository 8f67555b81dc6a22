//! Models: `Pending -> Active | Refused`, decided by the validators' verdict on the registration proof.

use tg_types::served::provider_of_program;
use tg_types::{
    Address, Amount, Decode, DecodeError, Digest, DurationMs, Encode, Height, Label, ModelId,
    ProgramId, Reader, Tier, TimestampMs, Writer, fields, limits::TRACE_EVIDENCE_BYTES_MAX,
};

use crate::limits::REPEATED_MACS_USUAL;
use crate::record::{Record, Storage};
use crate::rent::{Due, Rent, RentCategory};
use crate::tree::{LeafHead, kind};

/// What the validators found out about a model when they verified its public part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelFacts {
    /// The program; of a served model what stands for its provider ([`tg_types::ServedCard::program_id`]).
    pub program: ProgramId,
    /// What it is executed under: a model of integers or of floats, a program of WebAssembly, or a served model.
    pub tier: Tier,
    /// Multiply-accumulates of one run; what offers are priced by. Of a float model the most units of work of one run, of a program
    /// of WebAssembly the most fuel.
    pub macs: u64,
    /// Bytes of the input; of a float model and of a program of WebAssembly the most.
    pub input_len: u32,
    /// Bytes of the output; of a float model and of a program of WebAssembly the most.
    pub output_len: u32,
    /// Whether a run can be proved, so that jobs may ask for mode `proof`.
    pub provable: bool,
    /// Most bytes of a proof of one run, as evidence: 0 if there is none.
    pub proof_bytes: u32,
    /// Running and proving, as multiply-accumulates that take as long: operations that are none are counted by their time.
    pub work: u64,
    /// Bytes of memory that running and proving take.
    pub memory: u64,
    /// Bytes of what all its nodes give in one run: the most that an opening of it shows. Of a float model and of a program the most bytes of what
    /// a record of a run says of its nodes, or calls. 0 if a dispute about a run ends at no part of it.
    pub trace_bytes: u64,
    /// Most bytes of what one tile of that is computed from, but the input: the most that showing one wrong tile takes. More than any limit
    /// where computing one takes too long. Of a program the most bytes of a state between two calls; 0 of a float model.
    pub read_bytes: u64,
    /// How many values are read when all tiles are checked, repeats counted, without those that weights multiply. A running sum
    /// reads its row so far again for each element. 0 of other tiers than models of integers.
    pub looks: u64,
}

/// Most memory, in bytes, that running and proving such a model may take; running it takes a part of that.
pub(crate) const RECOMPUTED_MEMORY_MAX: u64 = 4 << 30;

/// Most bytes of the trace of a model that jobs of mode `sync` may name: with digests and places an opening of all of it is
/// within [`TRACE_EVIDENCE_BYTES_MAX`].
pub(crate) const TRACED_BYTES_MAX: u64 = 14 << 20;

/// Most looks at values that all tiles of such a model take. A twentieth is drawn: some seconds of the provider, which shows what they read within the
/// window of its evidence, and of a member.
pub(crate) const SAMPLED_LOOKS_MAX: u64 = 1 << 34;

/// Most units of work of a float model whose runs a committee of mode `sync` may have to repeat: up to a second of a core, for the fee of a part.
pub(crate) const SAMPLED_WORK_MAX: u64 = 1 << 33;

/// Most multiply-accumulates of a model of integers whose results one watcher runs again and a dispute ends at one tile: a minute of a slow core.
pub(crate) const WATCHED_MACS_MAX: u64 = 1 << 38;

/// Multiply-accumulates that whoever has to run such a model is given a second for.
pub(crate) const WATCHED_MACS_PER_SECOND: u64 = 1 << 32;

/// Most fuel of a program whose runs a committee of mode `sync` may have to repeat: some tenths of a second of a core, for the fee of a part.
pub(crate) const SAMPLED_FUEL_MAX: u64 = 1 << 27;

/// Fuel for which one second is allowed to run it: 30 ns a unit, twice the slowest program measured.
pub(crate) const FUEL_PER_SECOND: u64 = 1 << 25;

/// Most fuel of a program whose runs every validator may be asked to repeat: 0.2 to 0.5 s of a core, some seconds for the dearest shape that is known.
pub(crate) const RECOMPUTED_FUEL_MAX: u64 = 200_000_000;

/// Most fuel of a program whose results one watcher runs again and a dispute ends at one call: a minute of a slow core, as [`WATCHED_MACS_MAX`].
pub(crate) const WATCHED_FUEL_MAX: u64 = 1 << 31;

/// Most bytes of a state of a program with more fuel than [`RECOMPUTED_FUEL_MAX`]: it is shown whatever it is, so that nobody repeats such a run.
pub(crate) const STATE_BYTES_MAX: u64 = 12 << 20;

const _: () =
    assert!(WATCHED_MACS_MAX / WATCHED_MACS_PER_SECOND == WATCHED_FUEL_MAX / FUEL_PER_SECOND);

/// Multiply-accumulates of integers that take as long as a usual unit of fuel.
pub(crate) const MACS_PER_FUEL: u64 = 16;

/// Most multiply-accumulates of a run that every validator repeats where somebody accuses it, if a dispute about it could end at a part of
/// it: some 10 ms of a core.
pub(crate) const DISPUTED_MACS_REPEATED_MAX: u64 = 1 << 26;

/// Looks at values that nothing multiplies for which a run whole may have so many multiply-accumulates at most: a run takes no longer for it, though
/// it sorts or sums as much as it likes.
pub(crate) const WHOLE_RUN_MACS_PER_LOOK: u64 = 8;

/// Multiply-accumulates of the bound of runs whole for a byte of what its nodes give, which whoever runs it hashes.
pub(crate) const WHOLE_RUN_MACS_PER_BYTE: u64 = 64;

/// Multiply-accumulates of the bound of runs whole for a unit of work of a float model: the dearest operators take four times as long for a unit as a
/// product does.
pub(crate) const WHOLE_RUN_MACS_PER_UNIT: u64 = 4;

/// The same for a unit of fuel: programs of the dearest shapes take twenty times as long for one as usual ones, and members have to have run them
/// in time.
pub(crate) const WHOLE_RUN_MACS_PER_FUEL: u64 = 1 << 11;

/// Units of work of a float model that take as long as a multiply-accumulate of integers.
pub(crate) const FLOAT_UNITS_PER_MAC: u64 = 4;

/// Most bytes of the record of a float run: a claim about it, with an answer, is within [`TRACE_EVIDENCE_BYTES_MAX`].
pub(crate) const RECORDED_BYTES_MAX: u64 = 14 << 20;

/// Most bytes of the trace of such a model: a claim about all of it, 32 bytes for each KiB, is within [`TRACE_EVIDENCE_BYTES_MAX`].
pub(crate) const CLAIMED_BYTES_MAX: u64 = 440 << 20;

/// Most bytes of what one of its tiles is computed from: opened they are within [`TRACE_EVIDENCE_BYTES_MAX`].
pub(crate) const READ_BYTES_MAX: u64 = 14 << 20;

const _: () = assert!(TRACED_BYTES_MAX + (2 << 20) <= TRACE_EVIDENCE_BYTES_MAX as u64);

impl ModelFacts {
    /// Whether validators run it again for a job of mode `recompute`: a program of WebAssembly of no more fuel than `RECOMPUTED_FUEL_MAX`, or a
    /// model that takes no more than `macs_max` ([`Parameters::repeated_macs_max`](crate::Parameters::repeated_macs_max)) and, of integers,
    /// `RECOMPUTED_MEMORY_MAX`.
    #[must_use]
    pub const fn is_recomputable(&self, macs_max: u64) -> bool {
        match self.tier {
            Tier::Tgx1 => self.macs <= macs_max && self.memory <= RECOMPUTED_MEMORY_MAX,
            Tier::Tgf1 => self.macs <= macs_max.saturating_mul(FLOAT_UNITS_PER_MAC),
            Tier::Wasm1 => self.macs <= RECOMPUTED_FUEL_MAX,
            Tier::Served => false,
        }
    }

    /// Whether a committee can compute drawn parts of a run again, for a job of mode `sync`: a model of integers whose openings are no larger
    /// than evidence of that mode, and whose tiles take no longer than a run that validators repeat; or a float model that takes no
    /// more work than `SAMPLED_WORK_MAX`, or a program that has no more fuel than `SAMPLED_FUEL_MAX`: a run of either whose openings would be larger
    /// is shown whole, and its committee repeats it.
    #[must_use]
    pub const fn is_sampled(&self) -> bool {
        match self.tier {
            Tier::Tgx1 => {
                self.is_recomputable(REPEATED_MACS_USUAL)
                    && self.trace_bytes > 0
                    && self.trace_bytes <= TRACED_BYTES_MAX
                    && self.looks <= SAMPLED_LOOKS_MAX
            }
            Tier::Tgf1 => self.macs <= SAMPLED_WORK_MAX,
            Tier::Wasm1 => self.macs <= SAMPLED_FUEL_MAX,
            Tier::Served => false,
        }
    }

    /// Whether a committee of mode `sync` runs it whole, since that is cheaper for everybody than to show and compute drawn parts: one that takes
    /// `macs_max` ([`Parameters::whole_run_macs_max`](crate::Parameters::whole_run_macs_max)) or what takes as long. Nothing is opened, so a model of integers
    /// may have a longer trace than [`Self::is_sampled`] says.
    #[must_use]
    pub const fn is_run_whole(&self, macs_max: u64) -> bool {
        if macs_max == 0 {
            return false;
        }
        match self.tier {
            // Stops: a model without one product that a committee runs for seconds.
            Tier::Tgx1 => {
                self.is_recomputable(REPEATED_MACS_USUAL)
                    && self.macs <= macs_max
                    && self.looks <= macs_max / WHOLE_RUN_MACS_PER_LOOK
                    && self.trace_bytes <= macs_max / WHOLE_RUN_MACS_PER_BYTE
            }
            Tier::Tgf1 => self.is_sampled() && self.macs <= macs_max / WHOLE_RUN_MACS_PER_UNIT,
            Tier::Wasm1 => self.is_sampled() && self.macs <= macs_max / WHOLE_RUN_MACS_PER_FUEL,
            Tier::Served => false,
        }
    }

    /// Whether a dispute about a run ends at a part of it, for a job of mode `optimistic`: a tile of a model of integers, whose claims and tiles
    /// are within evidence of that mode, a node of a float model, whose claims are, or a call of a program, which has to have states that can be
    /// shown where it has more fuel than validators repeat. Shorter runs every validator repeats instead.
    #[must_use]
    pub const fn is_disputed_by_tile(&self, macs_max: u64) -> bool {
        if self.is_short(macs_max) || self.trace_bytes == 0 {
            return false;
        }
        match self.tier {
            Tier::Tgx1 => {
                self.macs <= WATCHED_MACS_MAX
                    && self.trace_bytes <= CLAIMED_BYTES_MAX
                    && self.read_bytes <= READ_BYTES_MAX
            }
            Tier::Tgf1 => self.trace_bytes <= RECORDED_BYTES_MAX,
            Tier::Wasm1 => {
                self.macs <= RECOMPUTED_FUEL_MAX
                    || self.macs <= WATCHED_FUEL_MAX && self.read_bytes <= STATE_BYTES_MAX
            }
            Tier::Served => false,
        }
    }

    /// Whether every validator repeats a run that somebody accuses, though a dispute about it could end at a part: one of up to
    /// `DISPUTED_MACS_REPEATED_MAX`, or `macs_max` if that is less. That is over sooner.
    const fn is_short(&self, macs_max: u64) -> bool {
        let repeated = match macs_max < DISPUTED_MACS_REPEATED_MAX {
            true => macs_max,
            false => DISPUTED_MACS_REPEATED_MAX,
        };
        match self.tier {
            Tier::Wasm1 => self.macs <= repeated / MACS_PER_FUEL,
            Tier::Tgx1 | Tier::Tgf1 | Tier::Served => self.is_recomputable(repeated),
        }
    }

    /// How long whoever runs it again has for that, beside any other window.
    #[must_use]
    pub const fn run_window(&self) -> DurationMs {
        match self.tier {
            Tier::Tgx1 | Tier::Tgf1 => {
                DurationMs::new(self.macs / (WATCHED_MACS_PER_SECOND / 1_000))
            }
            Tier::Wasm1 => DurationMs::new(self.macs / (FUEL_PER_SECOND / 1_000)),
            Tier::Served => DurationMs::ZERO,
        }
    }

    /// Whether an input of this many bytes is one.
    #[must_use]
    pub const fn takes(&self, input_len: u32) -> bool {
        match self.tier {
            Tier::Tgx1 => input_len == self.input_len,
            Tier::Tgf1 | Tier::Wasm1 => input_len > 0 && input_len <= self.input_len,
            // It has no jobs but endpoints, whose inputs come with requests.
            Tier::Served => false,
        }
    }

    /// The only provider of a served model; nothing of other models, which every provider may run.
    #[must_use]
    pub fn served_by(&self) -> Option<Address> {
        match self.tier {
            Tier::Tgx1 | Tier::Tgf1 | Tier::Wasm1 => None,
            Tier::Served => Some(provider_of_program(&self.program)),
        }
    }
}

fields! {
    ModelFacts {
        program,
        tier,
        macs,
        input_len,
        output_len,
        provable: flag("provable"),
        proof_bytes,
        work,
        memory,
        trace_bytes,
        read_bytes,
        looks,
    }
}

/// Why a model was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusedBecause {
    /// Its registration proof failed.
    Check {
        /// Code of the failed check.
        code: u16,
        /// Name of the failed check.
        check: Label,
    },
    /// Validators could not get its public part in time.
    NotDelivered,
}

/// Whether jobs may name a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelState {
    /// Validators verify its registration proof.
    Pending,
    /// Jobs may name it.
    Active(ModelFacts),
    /// Jobs may not name it; the id may be registered again.
    Refused(RefusedBecause),
}

impl ModelState {
    /// The state's tag in the head of its leaf.
    #[must_use]
    pub const fn tag(&self) -> u8 {
        match self {
            Self::Pending => 0,
            Self::Active(_) => 1,
            Self::Refused(_) => 2,
        }
    }

    /// The state's name.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Active(_) => "Active",
            Self::Refused(_) => "Refused",
        }
    }
}

impl Encode for ModelState {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Pending => writer.u8(0),
            Self::Active(facts) => {
                writer.u8(1);
                facts.encode(writer);
            }
            Self::Refused(RefusedBecause::Check { code, check }) => {
                writer.u8(2);
                writer.u16(*code);
                check.encode(writer);
            }
            Self::Refused(RefusedBecause::NotDelivered) => writer.u8(3),
        }
    }
}

impl Decode for ModelState {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            0 => Ok(Self::Pending),
            1 => Ok(Self::Active(ModelFacts::decode(reader)?)),
            2 => Ok(Self::Refused(RefusedBecause::Check {
                code: reader.u16()?,
                check: Label::decode(reader)?,
            })),
            3 => Ok(Self::Refused(RefusedBecause::NotDelivered)),
            tag => Err(DecodeError::Invalid {
                field: "model state",
                value: u64::from(tag),
            }),
        }
    }
}

/// A registered model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// The model.
    pub id: ModelId,
    /// Who registered it.
    pub owner: Address,
    /// Content hash of its public part.
    pub public_blob: Digest,
    /// Content hash of its program with weights.
    pub weights_blob: Digest,
    /// What people call it.
    pub name: Label,
    /// When it was registered.
    pub registered_at: TimestampMs,
    /// In which block it was registered.
    pub registered_height: Height,
    /// Whether jobs may name it.
    pub state: ModelState,
    /// Which validators hold its files.
    pub storage: Storage,
    /// The first owners that were paid for it, as many as make it known; see [`crate::Parameters::owners_paid_min`].
    pub owners_paid: Vec<Address>,
    /// Open jobs that name it.
    pub jobs: u32,
    /// What secures its rent.
    pub rent: Rent,
}

fields! {
    Model {
        id,
        owner,
        public_blob,
        weights_blob,
        name,
        registered_at,
        registered_height,
        state,
        storage,
        owners_paid: seq("owners paid", u8::MAX as usize, 20),
        jobs,
        rent,
    }
}

impl Record for Model {
    type Key = ModelId;
    const KIND: u8 = kind::MODEL;
    const NAME: &'static str = "models";

    fn key(&self) -> ModelId {
        self.id
    }

    fn head(&self) -> LeafHead {
        LeafHead {
            state: self.state.tag(),
            ..LeafHead::of(Self::KIND, self.owner).with_deposit(self.rent.payer, self.rent.deposit)
        }
    }

    fn money(&self) -> Amount {
        Amount::ZERO
    }

    fn deposit(&self) -> Amount {
        self.rent.deposit
    }

    fn due(&self) -> Option<Due> {
        // Validators decide about a pending one within their time; then it is another record.
        let is_free = self.jobs == 0 && self.state != ModelState::Pending;
        self.rent.due(RentCategory::Models, 0).filter(|_| is_free)
    }
}

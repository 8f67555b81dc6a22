//! Program files: a module with the limits of one run. A program's id is the hash of its file, so whoever names it names all of it.

use tg_types::{
    Decode, DecodeError, Digest, Domain, Encode, ModelId, ProgramId, Reader, Writer, fields,
    limits::INPUT_BYTES_MAX,
};

use crate::limits::{
    FUEL_MAX, FUEL_USUAL, LONG_PAGES_MAX, MODULE_BYTES_MAX, OUTPUT_BYTES_MAX, PAGES_MAX,
    PROFILE_VERSION, REPEATED_FUEL_MAX,
};

/// The first bytes of a program file.
const MAGIC: &[u8; 4] = b"TGW\0";

/// What one run may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunLimits {
    /// Units of fuel, 1 to [`FUEL_MAX`]. A job on the program is priced by it, and pays for what was burned.
    pub fuel: u64,
    /// Pages of 64 KiB that the memory may grow to, 1 to [`RunLimits::pages_max`].
    pub pages: u32,
    /// Bytes of an input, 1 to 1 MiB.
    pub input: u32,
    /// Bytes of an output, at most [`OUTPUT_BYTES_MAX`].
    pub output: u32,
}

fields! { RunLimits { fuel, pages, input, output } }

impl RunLimits {
    /// Most pages of memory of a run of so much fuel: nobody repeats one above [`REPEATED_FUEL_MAX`], so every state of it has to be one that
    /// can be shown.
    #[must_use]
    pub const fn pages_max(fuel: u64) -> u32 {
        match fuel > REPEATED_FUEL_MAX {
            true => LONG_PAGES_MAX,
            false => PAGES_MAX,
        }
    }
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            fuel: FUEL_USUAL,
            pages: PAGES_MAX,
            input: INPUT_BYTES_MAX,
            output: OUTPUT_BYTES_MAX,
        }
    }
}

/// Why bytes are no program file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// They do not begin as one.
    #[error("the file is no program: it does not begin with TGW")]
    Magic,
    /// They are of another profile.
    #[error("the program is of profile {got}, this is profile {PROFILE_VERSION}")]
    Version {
        /// The version in the file.
        got: u16,
    },
    /// They cannot be read.
    #[error("read the program file")]
    Decode(#[from] DecodeError),
    /// A limit of a run is outside its range.
    #[error("the limit of {field} is {got}, it may be {least} to {most}")]
    Limit {
        /// Of what.
        field: &'static str,
        /// What the file says.
        got: u64,
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
}

/// A module with the limits of one run, not yet checked beyond them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramFile {
    /// What one run may take.
    pub limits: RunLimits,
    /// The module's bytes.
    pub module: Vec<u8>,
}

/// Whether bytes begin as a program file; a public model never does.
#[must_use]
pub fn is_program(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

impl ProgramFile {
    /// A file of a module.
    #[must_use]
    pub const fn new(module: Vec<u8>, limits: RunLimits) -> Self {
        Self { limits, module }
    }

    /// The file's bytes: `TGW\0`, the profile's version, the limits, and the module, counted.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let Self { limits, module } = self;
        let mut writer = Writer::new();
        writer.raw(MAGIC);
        writer.u16(PROFILE_VERSION);
        limits.encode(&mut writer);
        writer.bytes(module);
        writer.into_bytes()
    }

    /// Reads a file; the one encoding of what it holds.
    ///
    /// # Errors
    /// [`FileError`] if it is none, or a limit is outside its range.
    pub fn decode(bytes: &[u8]) -> Result<Self, FileError> {
        if !is_program(bytes) {
            return Err(FileError::Magic);
        }
        let version = bytes.get(4..6).map_or([0; 2], |it| [it[0], it[1]]);
        let got = u16::from_le_bytes(version);
        if got != PROFILE_VERSION {
            return Err(FileError::Version { got });
        }
        let FileBody { limits, module } = FileBody::from_bytes(bytes.get(6..).unwrap_or_default())?;
        let pages = RunLimits::pages_max(limits.fuel);
        for (field, got, least, most) in [
            ("fuel", limits.fuel, 1, FUEL_MAX),
            ("pages", u64::from(limits.pages), 1, pages.into()),
            (
                "input",
                u64::from(limits.input),
                1,
                u64::from(INPUT_BYTES_MAX),
            ),
            (
                "output",
                u64::from(limits.output),
                0,
                u64::from(OUTPUT_BYTES_MAX),
            ),
        ] {
            if got < least || got > most {
                return Err(FileError::Limit {
                    field,
                    got,
                    least,
                    most,
                });
            }
        }
        Ok(Self { limits, module })
    }
}

/// What stands after the version.
struct FileBody {
    limits: RunLimits,
    module: Vec<u8>,
}

impl Decode for FileBody {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            limits: RunLimits::decode(reader)?,
            module: reader.bytes("module", MODULE_BYTES_MAX)?.to_vec(),
        })
    }
}

/// The id of a program: the hash of its file.
pub(crate) fn program_id(file: &[u8]) -> ProgramId {
    ProgramId::new(*Digest::of(Domain::WasmProgram, file).as_bytes())
}

/// The id under which a program is registered: that of a model without weights.
pub(crate) fn model_id(program: ProgramId) -> ModelId {
    let mut writer = Writer::new();
    program.encode(&mut writer);
    writer.bytes(&[]);
    ModelId::new(*Digest::of(Domain::Model, &writer.into_bytes()).as_bytes())
}

//! What a run answers: how it ended, what it burned, and its output.

use tg_types::{Decode, DecodeError, Encode, Reader, Writer, fields, tags, variants};

use crate::limits::OUTPUT_BYTES_MAX;

/// What a program did that ends a run at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramTrap {
    /// It reached what it says is never reached: a panic.
    Unreachable,
    /// It read or wrote outside its memory.
    Memory,
    /// It called what is not in its table, or with another type.
    IndirectCall,
    /// It divided an integer by zero.
    DivisionByZero,
    /// An integer left its range in a division or a conversion.
    Overflow,
    /// Its calls inside each other were too deep, or their values too many.
    CallDepth,
}

tags! {
    ProgramTrap: "program trap" {
        Unreachable = 0, Memory = 1, IndirectCall = 2, DivisionByZero = 3, Overflow = 4, CallDepth = 5,
    }
}

impl std::fmt::Display for ProgramTrap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Unreachable => "it reached what it says is never reached",
            Self::Memory => "it read or wrote outside its memory",
            Self::IndirectCall => "it called what is not in its table",
            Self::DivisionByZero => "it divided by zero",
            Self::Overflow => "an integer left its range",
            Self::CallDepth => "its calls inside each other are too deep",
        })
    }
}

/// How a run ended. Every end is an answer: the work was done up to it, and is paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramEnd {
    /// All chunks were taken and the output was written.
    Finished,
    /// The fuel of a call or of the run did not suffice.
    OutOfFuel,
    /// The program trapped.
    Trapped(ProgramTrap),
    /// `step` or `merge` gave this code, which is not 0.
    Refused(u32),
    /// The input is no program input, or a merge for a program that has none.
    BadInput,
    /// `alloc` gave no room for a chunk, or one outside memory.
    NoRoom,
    /// `output` named bytes outside memory, or more than the limit.
    BadOutput,
}

variants! {
    ProgramEnd: "program end" {
        0 = Finished {},
        1 = OutOfFuel {},
        2 = Trapped(trap),
        3 = Refused(code),
        4 = BadInput {},
        5 = NoRoom {},
        6 = BadOutput {},
    }
}

impl std::fmt::Display for ProgramEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Finished => f.write_str("finished"),
            Self::OutOfFuel => f.write_str("out of fuel"),
            Self::Trapped(trap) => write!(f, "trapped: {trap}"),
            Self::Refused(code) => write!(f, "the program refused a chunk with code {code}"),
            Self::BadInput => f.write_str("the input is none that the program takes"),
            Self::NoRoom => f.write_str("the program has no room for a chunk"),
            Self::BadOutput => f.write_str("the output is too long or outside memory"),
        }
    }
}

/// What a run answers. Its bytes are the output that a receipt names, and the evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramAnswer {
    /// How it ended.
    pub end: ProgramEnd,
    /// Units of fuel that were burned, at most the program's limit.
    pub fuel: u64,
    /// Chunks that were taken.
    pub calls: u32,
    /// What the program wrote; empty unless it finished.
    pub output: Vec<u8>,
}

/// What stands before an output.
struct AnswerHead {
    end: ProgramEnd,
    fuel: u64,
    calls: u32,
}

fields! { AnswerHead { end, fuel, calls } }

impl ProgramAnswer {
    /// The answer's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.to_bytes()
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// If the bytes are none.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::from_bytes(bytes)
    }
}

impl Encode for ProgramAnswer {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            end,
            fuel,
            calls,
            output,
        } = self;
        let (end, fuel, calls) = (*end, *fuel, *calls);
        AnswerHead { end, fuel, calls }.encode(writer);
        writer.bytes(output);
    }
}

impl Decode for ProgramAnswer {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let AnswerHead { end, fuel, calls } = AnswerHead::decode(reader)?;
        let output = reader.bytes("output", OUTPUT_BYTES_MAX as usize)?.to_vec();
        Ok(Self {
            end,
            fuel,
            calls,
            output,
        })
    }
}

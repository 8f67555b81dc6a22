//! A compiled model: the program and its weights, as one file (`.tgm`).

use crate::check::ProgramError;
use crate::checked::CheckedProgram;
use crate::program::Program;
use crate::weights::{Weights, WeightsError};
use std::ops::Deref;
use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};

/// Format version of a `.tgm` file.
pub const MODEL_VERSION: u16 = 1;

/// A program with its weights: what a provider executes and proves.
#[derive(Debug, Clone, PartialEq)]
pub struct CompiledModel {
    /// The public part.
    pub program: Program,
    /// The private part.
    pub weights: Weights,
}

/// Why a `.tgm` file is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// Not the canonical encoding of a model.
    #[error("the model file cannot be read")]
    Decode(#[from] DecodeError),
    /// The program is not well formed.
    #[error("the model's program is refused")]
    Program(#[from] ProgramError),
    /// The weights are not those of the program.
    #[error("the model's weights are refused")]
    Weights(#[from] WeightsError),
}

impl CompiledModel {
    /// Reads and checks a `.tgm` file.
    ///
    /// # Errors
    /// If the bytes are not canonical, or the program or its weights are not well formed.
    pub fn read(bytes: &[u8]) -> Result<ExecutableModel, ModelError> {
        let model = Self::from_bytes(bytes)?.checked()?;
        model.weights.check(&model.program)?;
        Ok(model)
    }
}

/// A model that can be executed: its program is well formed, and its weights fit it in number, sizes and ranges. That they are
/// the ones whose root the program names is for whoever reads them from a file ([`CompiledModel::read`]).
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutableModel(CompiledModel);

impl ExecutableModel {
    /// The program.
    #[must_use]
    pub const fn checked_program(&self) -> CheckedProgram<'_> {
        CheckedProgram::known(&self.0.program)
    }

    /// The model, which is checked no longer.
    #[must_use]
    pub fn into_inner(self) -> CompiledModel {
        self.0
    }
}

impl Deref for ExecutableModel {
    type Target = CompiledModel;

    fn deref(&self) -> &CompiledModel {
        &self.0
    }
}

impl CompiledModel {
    /// Checks that the model can be executed.
    ///
    /// # Errors
    /// If the program is not well formed or the weights do not fit it.
    pub fn checked(self) -> Result<ExecutableModel, ModelError> {
        self.program.validate()?;
        self.weights.fit(&self.program)?;
        Ok(ExecutableModel(self))
    }
}

impl Encode for CompiledModel {
    fn encode(&self, writer: &mut Writer) {
        let Self { program, weights } = self;
        writer.raw(b"TGM\0");
        writer.u16(MODEL_VERSION);
        program.encode(writer);
        weights.encode(writer);
    }
}

impl Decode for CompiledModel {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let magic = reader.array::<4>()?;
        if &magic != b"TGM\0" {
            return Err(DecodeError::Invalid {
                field: "model magic",
                value: u64::from(u32::from_le_bytes(magic)),
            });
        }
        let version = reader.u16()?;
        if version != MODEL_VERSION {
            return Err(DecodeError::Invalid {
                field: "model version",
                value: u64::from(version),
            });
        }
        Ok(Self {
            program: Program::decode(reader)?,
            weights: Weights::decode(reader)?,
        })
    }
}

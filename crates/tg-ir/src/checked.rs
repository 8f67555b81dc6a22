//! Programs and models that are known to be well formed: what executors and plans take.
//!
//! ```
//! # use tg_ir::{Program, CheckedProgram, ProgramError};
//! fn shapes(program: &Program) -> Result<usize, ProgramError> {
//!     // Nothing after this can meet a shape that is not its operator's.
//!     let program: CheckedProgram<'_> = program.check()?;
//!     Ok(program.nodes.len())
//! }
//! ```

use crate::check::ProgramError;
use crate::model::{CompiledModel, ModelError};
use crate::program::Program;
use std::ops::Deref;

/// A program that is well formed, see [`Program::validate`]. It borrows the program, which cannot change meanwhile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CheckedProgram<'a>(&'a Program);

impl<'a> CheckedProgram<'a> {
    /// The program.
    #[must_use]
    pub const fn get(self) -> &'a Program {
        self.0
    }
}

impl Deref for CheckedProgram<'_> {
    type Target = Program;

    fn deref(&self) -> &Program {
        self.0
    }
}

impl Program {
    /// Checks the program, see [`Program::validate`].
    ///
    /// # Errors
    /// The first thing that is wrong, by node.
    pub fn check(&self) -> Result<CheckedProgram<'_>, ProgramError> {
        self.validate()?;
        Ok(CheckedProgram(self))
    }
}

/// A model that can be executed: its program is well formed, and its weights fit it in number, sizes and ranges. That they are
/// the ones whose root the program names is for whoever reads them from a file ([`CompiledModel::read`]).
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedModel(CompiledModel);

impl CheckedModel {
    /// The program.
    #[must_use]
    pub const fn checked_program(&self) -> CheckedProgram<'_> {
        CheckedProgram(&self.0.program)
    }

    /// The model, which is checked no longer.
    #[must_use]
    pub fn into_inner(self) -> CompiledModel {
        self.0
    }
}

impl Deref for CheckedModel {
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
    pub fn checked(self) -> Result<CheckedModel, ModelError> {
        self.program.validate()?;
        self.weights.fit(&self.program)?;
        Ok(CheckedModel(self))
    }
}

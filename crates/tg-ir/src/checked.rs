//! Programs that are known to be well formed: what plans take. [`ExecutableModel`](crate::ExecutableModel) has the weights too.
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
use crate::program::Program;
use std::ops::Deref;

/// A program that is well formed, see [`Program::validate`]. It borrows the program, which cannot change meanwhile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CheckedProgram<'a>(&'a Program);

impl<'a> CheckedProgram<'a> {
    /// A program that its owner has checked.
    pub(crate) const fn known(program: &'a Program) -> Self {
        Self(program)
    }

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

//! What is wrong with a tensor of a file.

use std::path::PathBuf;

/// What is wrong with a tensor of a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TensorProblem {
    /// An element type that is not read.
    #[error("has the element type {0}, which is not read")]
    ElementType(i32),
    /// A shape that cannot be: a negative axis, too many axes, or a product that overflows.
    #[error("states the shape {0:?}")]
    Shape(Vec<i64>),
    /// Its data do not fill its shape.
    #[error("states the shape {shape:?} and holds {got} elements")]
    Length {
        /// The stated shape.
        shape: Vec<i64>,
        /// Elements held.
        got: usize,
    },
    /// A typed value that its element type does not have.
    #[error("holds the value {value}, which its element type does not have")]
    Value {
        /// The value.
        value: i64,
    },
    /// Text that is not UTF-8.
    #[error("holds a text that is not UTF-8")]
    Text,
    /// Larger than the memory a graph's constants may take.
    #[error("takes {bytes} bytes, {left} are left for constants")]
    Budget {
        /// What it takes.
        bytes: usize,
        /// What is left.
        left: usize,
    },
    /// Stored outside the file, and no folder was given.
    #[error("is stored in the file `{0}`, and no folder to look in was given")]
    NoFolder(String),
    /// Stored in a place outside the folder.
    #[error("is stored in `{0}`, which is not a plain path inside the model's folder")]
    Location(String),
    /// The file that holds it cannot be read.
    #[error("is stored in `{}`, which cannot be read ({kind})", .path.display())]
    External {
        /// The file.
        path: PathBuf,
        /// Why.
        kind: std::io::ErrorKind,
    },
    /// The file that holds it is too short.
    #[error("is stored in `{}` at {offset}..{end}, and the file has {bytes} bytes", .path.display())]
    Short {
        /// The file.
        path: PathBuf,
        /// First byte.
        offset: u64,
        /// End.
        end: u64,
        /// Size of the file.
        bytes: u64,
    },
}

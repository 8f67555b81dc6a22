//! What a proof shows of the tensors that it is about.

/// What a statement says of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Visibility {
    /// Its bytes are in the file; the statement has their digest.
    Public,
    /// Its commitment is in the file ([`crate::argument::ajtai`]); the statement has the commitment's digest.
    Committed,
    /// Nothing: the proof is about some such tensor.
    Hidden,
}

/// What a statement says of input and output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modes {
    /// Of the inputs.
    pub input: Visibility,
    /// Of the outputs.
    pub output: Visibility,
}

impl Modes {
    /// Both public: the only modes of a proof in the clear.
    pub const PUBLIC: Self = Self {
        input: Visibility::Public,
        output: Visibility::Public,
    };
    /// Outputs of hidden inputs.
    pub const HIDDEN_INPUT: Self = Self {
        input: Visibility::Hidden,
        output: Visibility::Public,
    };

    /// Two bits each within the version of a format.
    pub(crate) const fn bits(self) -> u16 {
        (self.input as u16) << 12 | (self.output as u16) << 10
    }

    /// The modes within a version, if they are some.
    pub(crate) const fn of_bits(version: u16) -> Option<Self> {
        const fn mode(bits: u16) -> Option<Visibility> {
            match bits & 3 {
                0 => Some(Visibility::Public),
                1 => Some(Visibility::Committed),
                2 => Some(Visibility::Hidden),
                _ => None,
            }
        }
        match (mode(version >> 12), mode(version >> 10)) {
            (Some(input), Some(output)) => Some(Self { input, output }),
            _ => None,
        }
    }
}

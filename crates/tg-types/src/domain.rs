//! The closed list of hashing and transcript purposes. Changing one is a breaking change of the protocol.

/// A purpose of hashing, globally unique as `TG/<crate>/<purpose>/v<n>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Domain {
    /// Program id: the public part of a model.
    Program,
    /// Root of a model's integer weights.
    Weights,
    /// Model id: program id and weight commitment.
    Model,
    /// Root of an execution trace.
    Trace,
    /// Fiat-Shamir transcript of an inference proof.
    ProofTranscript,
    /// Fiat-Shamir transcript of a model registration proof.
    RegistrationTranscript,
}

impl Domain {
    /// The context string given to BLAKE3 or to a transcript.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Program => "TG/ir/program/v1",
            Self::Weights => "TG/ir/weights/v1",
            Self::Model => "TG/proof/model/v1",
            Self::Trace => "TG/model/trace/v1",
            Self::ProofTranscript => "TG/proof/inference-transcript/v1",
            Self::RegistrationTranscript => "TG/proof/registration-transcript/v1",
        }
    }
}

//! Registered models, and how results are checked.

use serde::{Deserialize, Serialize};
use tg_types::{Address, Digest, ModelId, ProgramId, Tier, VerificationMode};

use crate::text;

/// How a job's result is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ModeDto {
    /// By nobody.
    None,
    /// By a proof that every validator checks.
    Proof,
    /// By every validator, which runs the program again.
    Recompute,
    /// By a committee drawn after the fact, which runs it again if the run is short, else computes drawn parts again.
    Sync,
    /// By one validator drawn after the fact, which runs the program again; then anybody may have all do so, for some time.
    Optimistic,
    /// By the requestor, answer by answer: a service for some time, paid by vouchers.
    Endpoint,
    /// By comparing what several drawn providers find; where they differ, by every validator.
    Replicate,
    /// By the requestor alone, which reads the answer beside its provider: if it says that it is wrong, and shows its key, by every validator.
    Sealed,
}

impl From<VerificationMode> for ModeDto {
    fn from(mode: VerificationMode) -> Self {
        match mode {
            VerificationMode::None => Self::None,
            VerificationMode::Proof => Self::Proof,
            VerificationMode::Recompute => Self::Recompute,
            VerificationMode::Sync => Self::Sync,
            VerificationMode::Optimistic => Self::Optimistic,
            VerificationMode::Endpoint => Self::Endpoint,
            VerificationMode::Replicate => Self::Replicate,
            VerificationMode::Sealed => Self::Sealed,
        }
    }
}

impl From<ModeDto> for VerificationMode {
    fn from(mode: ModeDto) -> Self {
        match mode {
            ModeDto::None => Self::None,
            ModeDto::Proof => Self::Proof,
            ModeDto::Recompute => Self::Recompute,
            ModeDto::Sync => Self::Sync,
            ModeDto::Optimistic => Self::Optimistic,
            ModeDto::Endpoint => Self::Endpoint,
            ModeDto::Replicate => Self::Replicate,
            ModeDto::Sealed => Self::Sealed,
        }
    }
}

impl std::fmt::Display for ModeDto {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(VerificationMode::from(*self).as_str())
    }
}

/// Where a model stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ModelStateDto {
    /// Validators check its registration.
    Pending,
    /// It takes jobs.
    Active,
    /// Its registration did not verify.
    Refused,
}

impl std::fmt::Display for ModelStateDto {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Pending => "pending",
            Self::Active => "active",
            Self::Refused => "refused",
        })
    }
}

/// A registered model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelDto {
    /// Its id: program and weight commitment.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: ModelId,
    /// The name its registrant gave it; not unique.
    pub name: String,
    /// Who registered it.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub owner: Address,
    /// Where it stands.
    pub state: ModelStateDto,
    /// The public part (`.tgv`): what a verifier needs.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub public_blob: Digest,
    /// Program and weights (`.tgm`): what a provider needs.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub weights_blob: Digest,
    /// Time of its registration.
    pub registered_ms: u64,
    /// What validators found, once it is active.
    pub facts: Option<ModelFactsDto>,
    /// Why it was refused, if it was.
    pub refusal: Option<String>,
}

impl ModelDto {
    /// Whether its provider has a server of its own for it, so that nobody checks its answers.
    #[must_use]
    pub fn is_served(&self) -> bool {
        let facts = self.facts.as_ref();
        facts.is_some_and(|facts| facts.tier == Tier::Served.as_str())
    }
}

/// What validators found in a model's public part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelFactsDto {
    /// The public program.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub program: ProgramId,
    /// What it is executed under: `TGX-1` for a model of integers, `TGF-1` for one of floats, `WASM-1` for a program, `served` for one that its provider has a server of its own for.
    pub tier: String,
    /// Multiply-accumulates of one inference; of a float model the most units of work of a run, of a program the most fuel.
    pub macs: u64,
    /// Bytes of one input.
    pub input_len: u32,
    /// Bytes of one output.
    pub output_len: u32,
    /// Whether mode proof is possible.
    pub provable: bool,
}

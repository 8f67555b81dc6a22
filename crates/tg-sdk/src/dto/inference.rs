//! An inference on behalf of a client, and answers in real numbers.

use serde::{Deserialize, Serialize};
use tg_types::{Amount, JobId};

use super::jobs::JobReceiptDto;
use super::models::ModeDto;
use crate::text;

/// A request to run an inference with a funded development account, so that a client needs no signing library.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DevelopmentInferDto {
    /// A model id, or a name.
    pub model: String,
    /// The input, one number per element, as the model was trained on.
    pub input: Vec<f32>,
    /// How the result is checked.
    #[serde(default = "default_mode")]
    pub mode: ModeDto,
    /// Most that is paid to the provider; the network's default if absent.
    #[serde(with = "text::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub max_price: Option<Amount>,
}

/// The mode when none is named: a proof, which every validator checks.
const fn default_mode() -> ModeDto {
    ModeDto::Proof
}

/// An output in real numbers, as the model's file gives them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AnswerDto {
    /// Name of the output in the model's file.
    pub name: String,
    /// Lengths of its axes.
    pub shape: Vec<u32>,
    /// Its elements in the order of the file, the last axis fastest.
    pub values: Vec<f64>,
    /// Name of the class that it chooses, if the model has names of classes.
    pub label: Option<String>,
}

/// The result of an inference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InferenceDto {
    /// The job.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub job: JobId,
    /// The outputs one after the other: the integers that the program computes, one per element.
    pub output: Vec<i32>,
    /// The first output in real numbers, if the model was made from a file.
    #[serde(default)]
    pub answer: Option<AnswerDto>,
    /// All outputs in real numbers; none if the model was not made from a file.
    #[serde(default)]
    pub answers: Vec<AnswerDto>,
    /// Index of the largest element of the first output; the lowest index of equals.
    pub top: u32,
    /// What stands behind it.
    pub receipt: JobReceiptDto,
}

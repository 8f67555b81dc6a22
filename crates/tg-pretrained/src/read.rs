//! A folder to a graph.

use crate::blocks::ModelWriter;
use crate::config::PretrainedConfig;
use crate::encoder::EncoderKind;
use crate::error::PretrainedError;
use crate::weights::{FolderWeights, JSON_MAX, read_file};
use crate::writer::GraphWriter;
use crate::{clip, decoder, encoder, gpt2, image, whisper};
use serde_json::{Map, Value};
use std::path::Path;
use tg_float::Graph;

/// What a folder holds.
#[derive(Debug, Clone, PartialEq)]
pub struct PretrainedModel {
    /// The model, as an exporter would have written it: `input_ids` and `attention_mask` (whole numbers per item and
    /// position, the second axis named `sequence`) or `pixel_values`, to `logits` or `last_hidden_state`.
    pub graph: Graph,
    /// Names of the classes of `logits`, by their number; empty if the model gives none or the folder has no names.
    pub labels: Vec<String>,
    /// What the configuration says of its tokens.
    pub tokens: ModelTokens,
}

/// What a configuration says of the tokens of a model; nothing, of a model that takes none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelTokens {
    /// Tokens are below it: `vocab_size`.
    pub vocabulary: Option<usize>,
    /// Most tokens of an input.
    pub positions: Option<usize>,
    /// The token of padding: `pad_token_id`.
    pub pad: Option<u32>,
}

impl ModelTokens {
    /// Of a configuration that was read already, so that a field which is no number is none here.
    fn of(config: &PretrainedConfig, kind: &str) -> Self {
        let number = |field: &str| {
            let value = config.get(field)?.as_u64()?;
            usize::try_from(value).ok()
        };
        let pad = number("pad_token_id");
        let positions = number("max_position_embeddings").or_else(|| number("n_positions"));
        let positions = match kind {
            // Their positions are counted from the padding's number plus one on.
            "roberta" | "xlm-roberta" | "camembert" => {
                positions.map(|all| all.saturating_sub(pad.unwrap_or(1) + 1))
            }
            _ => positions,
        };
        Self {
            vocabulary: number("vocab_size"),
            positions,
            pad: pad.and_then(|pad| u32::try_from(pad).ok()),
        }
    }
}

/// Most bytes of memory of all weights together.
const WEIGHT_BYTES_MAX: usize = 8 << 30;

/// Reads a folder that `save_pretrained` wrote.
///
/// # Errors
/// Names the file, the field of `config.json` or the tensor that is not taken.
pub fn read(folder: &Path) -> Result<PretrainedModel, PretrainedError> {
    let path = folder.join("config.json");
    if !path.is_file() {
        return Err(PretrainedError::NoConfig);
    }
    let bytes = read_file(&path, JSON_MAX)?;
    let fields: Map<String, Value> =
        serde_json::from_slice(&bytes).map_err(|source| PretrainedError::Json { path, source })?;
    let config = PretrainedConfig::new(fields);
    let architecture = config.architecture()?.to_owned();
    let mut weights = FolderWeights::open(folder, WEIGHT_BYTES_MAX)?;
    let mut model = ModelWriter {
        writer: GraphWriter::new(config.text("model_type", "")?),
        weights: &mut weights,
        config: &config,
    };
    write(&mut model, &architecture)?;
    let graph = model.writer.graph;
    graph.check()?;
    let classifies = architecture.ends_with("ForSequenceClassification")
        || architecture.ends_with("ForImageClassification");
    let labels = if classifies {
        config.labels()
    } else {
        Vec::new()
    };
    let tokens = ModelTokens::of(&config, config.text("model_type", "")?);
    Ok(PretrainedModel {
        graph,
        labels,
        tokens,
    })
}

/// Writes the graph of the architecture that `model_type` names.
fn write(model: &mut ModelWriter<'_>, architecture: &str) -> Result<(), PretrainedError> {
    let config = model.config;
    let kind = config.text("model_type", "")?;
    let prefix = match kind {
        "bert" => "bert.",
        "roberta" | "xlm-roberta" | "camembert" => "roberta.",
        "distilbert" => "distilbert.",
        "gpt2" => "transformer.",
        "vit" => "vit.",
        "clip_text_model" => "text_model.",
        _ => "model.",
    };
    model.weights.set_prefix(prefix);
    match kind {
        "bert" => encoder::write(model, EncoderKind::Bert, architecture),
        "roberta" | "xlm-roberta" | "camembert" => {
            encoder::write(model, EncoderKind::Roberta, architecture)
        }
        "distilbert" => encoder::write(model, EncoderKind::DistilBert, architecture),
        "gpt2" => gpt2::write(model, architecture),
        "llama" | "qwen2" | "qwen3" | "mistral" => decoder::write(model, architecture),
        "vit" => image::write(model, architecture),
        "clip_text_model" => clip::write(model, architecture),
        "whisper" => whisper::write(model, architecture),
        _ => Err(config.refuse(
            "model_type",
            "bert, roberta, xlm-roberta, camembert, distilbert, gpt2, llama, qwen2, qwen3, mistral, vit, clip_text_model and the encoder of whisper are taken; \
             export others to ONNX",
        )),
    }
}

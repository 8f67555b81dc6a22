//! The text half of CLIP: a causal stack whose answer is the state at the end of the text.

use crate::blocks::{AttentionForm, ModelWriter, scale_of};
use crate::error::PretrainedError;
use crate::prenorm::{PreNormForm, TOWER_LAYER, layer};
use tg_float::graph::Attribute;
use tg_float::{DType, FloatTensor, ValueId};

/// The token that older configurations state as the end of a text, and that is not: the greatest token is.
const OLD_END: i64 = 2;

/// Writes the model; `architecture` is the class it was saved from.
pub(crate) fn write(
    model: &mut ModelWriter<'_>,
    architecture: &str,
) -> Result<(), PretrainedError> {
    let config = model.config;
    if !matches!(architecture, "" | "CLIPTextModel") {
        return Err(config.refuse("architectures", "CLIPTextModel is taken"));
    }
    let [width, heads] = config.heads("hidden_size", "num_attention_heads")?;
    let vocabulary = config.size("vocab_size")?;
    let places = config.size("max_position_embeddings")?;
    let epsilon = config.number("layer_norm_eps", 1e-5)?;
    let ids = model.writer.tokens("input_ids");
    let table = model.parameter("embeddings.token_embedding.weight", &[vocabulary, width])?;
    let words = model.embedded(table, ids);
    let name = "embeddings.position_embedding.weight";
    let table = model.parameter(name, &[places, width])?;
    let rows = model.writer.rows_of_positions(table, ids, 0);
    let mut stream = model.writer.add(words, rows);
    let form = PreNormForm {
        names: TOWER_LAYER,
        attention: AttentionForm {
            heads,
            key_heads: heads,
            scale: scale_of(width / heads),
            causal: true,
            window: None,
            mask: None,
        },
        width,
        inner: config.size("intermediate_size")?,
        epsilon,
        activation: "hidden_act",
    };
    if config.get("hidden_act").is_none() {
        let field = "hidden_act".to_owned();
        return Err(PretrainedError::Absent { field });
    }
    for index in 0..config.layers("num_hidden_layers")? {
        stream = layer(model, stream, &format!("encoder.layers.{index}"), &form)?;
    }
    let hidden = model.layer_norm(stream, "final_layer_norm", (width, epsilon))?;
    model.writer.output("last_hidden_state", hidden);
    let pooled = pooled(model, hidden, ids, width)?;
    model.writer.output("pooler_output", pooled);
    Ok(())
}

/// The state at the first token that ends the text.
fn pooled(
    model: &mut ModelWriter<'_>,
    hidden: ValueId,
    ids: ValueId,
    width: usize,
) -> Result<ValueId, PretrainedError> {
    let config = model.config;
    let end = match config.get("eos_token_id") {
        None => OLD_END,
        Some(value) => value
            .as_i64()
            .ok_or_else(|| config.refuse("eos_token_id", "a token is taken"))?,
    };
    let writer = &mut model.writer;
    let marked = if end == OLD_END {
        ids
    } else {
        let end = writer.constant("end", FloatTensor::scalar(end));
        let equal = writer.node("Equal", &[ids, end], &[]);
        let whole = [("to", Attribute::Int(i64::from(DType::I64.to_onnx())))];
        writer.node("Cast", &[equal], &whole)
    };
    let along = [("axis", Attribute::Int(1)), ("keepdims", Attribute::Int(1))];
    let place = writer.node("ArgMax", &[marked], &along);
    let last = writer.ints(&[2]);
    let place = writer.node("Unsqueeze", &[place, last], &[]);
    let shape = writer.ints(&[1, 1, width as i64]);
    let places = writer.node("Expand", &[place, shape], &[]);
    let along = [("axis", Attribute::Int(1))];
    let state = writer.node("GatherElements", &[hidden, places], &along);
    let axis = writer.ints(&[1]);
    Ok(writer.node("Squeeze", &[state, axis], &[]))
}

//! GPT-2: learned positions, normalised before each block, weights stored inputs first.

use crate::blocks::{AttentionForm, ModelWriter, labels, scale_of};
use crate::error::PretrainedError;
use crate::purpose::{last_of_sequence, questions};
use serde_json::json;
use tg_float::ValueId;

/// Writes the model; `architecture` is the class it was saved from.
pub(crate) fn write(
    model: &mut ModelWriter<'_>,
    architecture: &str,
) -> Result<(), PretrainedError> {
    let config = model.config;
    config.only("add_cross_attention", &json!(false))?;
    let [width, heads] = config.heads("n_embd", "n_head")?;
    let vocabulary = config.size("vocab_size")?;
    let places = config.size("n_positions")?;
    let epsilon = config.number("layer_norm_epsilon", 1e-5)?;
    let inner = config.optional_size("n_inner")?.unwrap_or(4 * width);
    let scaled = config.flag("scale_attn_weights", true)?;
    let by_layer = config.flag("scale_attn_by_inverse_layer_idx", false)?;
    let ids = model.writer.tokens("input_ids");
    let table = model.parameter("wte.weight", &[vocabulary, width])?;
    let places = model.parameter("wpe.weight", &[places, width])?;
    let words = model.embedded(table, ids);
    let rows = model.writer.rows_of_positions(places, ids, 0);
    let mut stream = model.writer.add(words, rows);
    for layer in 0..config.layers("n_layer")? {
        let path = format!("h.{layer}");
        let mut scale = if scaled { scale_of(width / heads) } else { 1.0 };
        if by_layer {
            scale /= (layer + 1) as f32;
        }
        let form = AttentionForm {
            heads,
            key_heads: heads,
            scale,
            causal: true,
            window: None,
            mask: None,
        };
        let normal = model.layer_norm(stream, &format!("{path}.ln_1"), (width, epsilon))?;
        let projected = projections(model, normal, &format!("{path}.attn.c_attn"), width)?;
        let mixed = model.attention(projected, &form);
        let mixed = stored(model, mixed, &format!("{path}.attn.c_proj"), [width; 2])?;
        stream = model.onward(stream, mixed);
        let normal = model.layer_norm(stream, &format!("{path}.ln_2"), (width, epsilon))?;
        let wide = stored(model, normal, &format!("{path}.mlp.c_fc"), [width, inner])?;
        let wide = model.activation(wide, "activation_function", "gelu_new")?;
        let narrow = stored(model, wide, &format!("{path}.mlp.c_proj"), [inner, width])?;
        stream = model.onward(stream, narrow);
    }
    let hidden = model.layer_norm(stream, "ln_f", (width, epsilon))?;
    head(
        model,
        architecture,
        (ids, hidden, table),
        [width, vocabulary],
    )
}

/// What is made of the hidden states, by the class that the weights were saved from.
fn head(
    model: &mut ModelWriter<'_>,
    architecture: &str,
    (ids, hidden, table): (ValueId, ValueId, ValueId),
    [width, vocabulary]: [usize; 2],
) -> Result<(), PretrainedError> {
    let logits = match architecture {
        "" | "GPT2Model" => {
            model.writer.output("last_hidden_state", hidden);
            return Ok(());
        }
        "GPT2ForQuestionAnswering" => return questions(model, hidden, width),
        "GPT2LMHeadModel" => model.scores(hidden, "lm_head", table, [width, vocabulary])?,
        "GPT2ForSequenceClassification" => {
            let last = last_of_sequence(model, ids, hidden)?;
            let classes = labels(model)?;
            model.linear(last, "score", [width, classes])?
        }
        "GPT2ForTokenClassification" => {
            let classes = labels(model)?;
            model.linear(hidden, "classifier", [width, classes])?
        }
        _ => {
            return Err(model.config.refuse(
                "architectures",
                "GPT2Model, GPT2LMHeadModel, GPT2ForSequenceClassification, GPT2ForTokenClassification and GPT2ForQuestionAnswering are taken",
            ));
        }
    };
    model.writer.output("logits", logits);
    Ok(())
}

/// The product with weights stored inputs first, plus the bias.
fn stored(
    model: &mut ModelWriter<'_>,
    x: ValueId,
    name: &str,
    shape: [usize; 2],
) -> Result<ValueId, PretrainedError> {
    let weight = format!("{name}.weight");
    let values = model.weights.values(&weight, &shape)?;
    let product = model.product(x, &weight, values, shape);
    let bias = model.parameter(&format!("{name}.bias"), &[shape[1]])?;
    Ok(model.writer.add(product, bias))
}

/// Queries, keys and values, whose weights stand side by side in one matrix.
fn projections(
    model: &mut ModelWriter<'_>,
    x: ValueId,
    name: &str,
    width: usize,
) -> Result<[ValueId; 3], PretrainedError> {
    let weight = format!("{name}.weight");
    let all = model.weights.values(&weight, &[width, 3 * width])?;
    let biases = model
        .weights
        .values(&format!("{name}.bias"), &[3 * width])?;
    Ok([0, 1, 2].map(|part| {
        let columns = part * width..(part + 1) * width;
        let rows = all.chunks_exact(3 * width);
        let own = rows
            .flat_map(|row| &row[columns.clone()])
            .copied()
            .collect();
        let product = model.product(x, &format!("{weight}.{part}"), own, [width; 2]);
        let bias = biases[columns].to_vec();
        let bias = model
            .writer
            .floats(&format!("{name}.bias.{part}"), &[width], bias);
        model.writer.add(product, bias)
    }))
}

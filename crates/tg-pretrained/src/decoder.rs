//! Llama and what has its shape (Qwen2, Qwen3, Mistral): rotary positions, grouped queries, gated layers.

use crate::blocks::{AttentionForm, ModelWriter, labels, scale_of};
use crate::config::PretrainedConfig;
use crate::error::PretrainedError;
use crate::purpose::{last_of_sequence, questions};
use crate::rotary::{Rotations, rotations};
use serde_json::{Value, json};
use tg_float::ValueId;
use tg_float::graph::Attribute;

/// Sizes of a model.
struct DecoderSizes {
    width: usize,
    heads: usize,
    key_heads: usize,
    /// Channels of a head, an even number.
    each: usize,
    inner: usize,
    epsilon: f64,
    /// Of each layer, how many keys before its own place a query may look at, its own among them; none: all.
    windows: Vec<Option<usize>>,
}

/// Writes the model; `architecture` is the class it was saved from.
pub(crate) fn write(
    model: &mut ModelWriter<'_>,
    architecture: &str,
) -> Result<(), PretrainedError> {
    let config = model.config;
    let sizes = sizes(config)?;
    // Llama alone has another name for its body under this head.
    if architecture.ends_with("ForQuestionAnswering")
        && model.weights.has("transformer.embed_tokens.weight")
    {
        model.weights.set_prefix("transformer.");
    }
    let vocabulary = config.size("vocab_size")?;
    let ids = model.writer.tokens("input_ids");
    let table = model.parameter("embed_tokens.weight", &[vocabulary, sizes.width])?;
    let mut stream = model.embedded(table, ids);
    let turns = rotations(model, ids, sizes.each)?;
    for (layer, &window) in sizes.windows.iter().enumerate() {
        let path = format!("layers.{layer}");
        let norm = (sizes.width, sizes.epsilon);
        let normal = model.rms_norm(stream, &format!("{path}.input_layernorm"), norm)?;
        let name = format!("{path}.self_attn");
        let mixed = mixed(model, normal, &name, &sizes, (turns, window))?;
        stream = model.onward(stream, mixed);
        let name = format!("{path}.post_attention_layernorm");
        let normal = model.rms_norm(stream, &name, norm)?;
        let narrow = gated(model, normal, &format!("{path}.mlp"), &sizes)?;
        stream = model.onward(stream, narrow);
    }
    let hidden = model.rms_norm(stream, "norm", (sizes.width, sizes.epsilon))?;
    head(
        model,
        architecture,
        (ids, hidden, table),
        [sizes.width, vocabulary],
    )
}

/// What is made of the hidden states, by the class that the weights were saved from.
fn head(
    model: &mut ModelWriter<'_>,
    architecture: &str,
    (ids, hidden, table): (ValueId, ValueId, ValueId),
    [width, vocabulary]: [usize; 2],
) -> Result<(), PretrainedError> {
    let purpose = architecture
        .find("For")
        .map_or("", |at| &architecture[at..]);
    let logits = match purpose {
        "" => {
            model.writer.output("last_hidden_state", hidden);
            return Ok(());
        }
        "ForQuestionAnswering" => return questions(model, hidden, width),
        "ForCausalLM" => model.scores(hidden, "lm_head", table, [width, vocabulary])?,
        "ForSequenceClassification" => {
            let last = last_of_sequence(model, ids, hidden)?;
            let classes = labels(model)?;
            model.linear(last, "score", [width, classes])?
        }
        "ForTokenClassification" => {
            let classes = labels(model)?;
            model.linear(hidden, "score", [width, classes])?
        }
        _ => {
            return Err(model.config.refuse(
                "architectures",
                "the base model, ForCausalLM, ForSequenceClassification, ForTokenClassification and ForQuestionAnswering are taken",
            ));
        }
    };
    model.writer.output("logits", logits);
    Ok(())
}

fn sizes(config: &PretrainedConfig) -> Result<DecoderSizes, PretrainedError> {
    let width = config.size("hidden_size")?;
    let heads = config.size("num_attention_heads")?;
    let key_heads = config
        .optional_size("num_key_value_heads")?
        .unwrap_or(heads);
    if heads % key_heads != 0 {
        let taken = format!("a divisor of `num_attention_heads` = {heads} is taken");
        return Err(config.refuse("num_key_value_heads", taken));
    }
    let each = match config.optional_size("head_dim")? {
        Some(each) => each,
        None => config.heads("hidden_size", "num_attention_heads")?[0] / heads,
    };
    if each % 2 != 0 {
        return Err(config.refuse("head_dim", "an even number of channels a head is taken"));
    }
    config.only("pretraining_tp", &json!(1))?;
    Ok(DecoderSizes {
        width,
        heads,
        key_heads,
        each,
        inner: config.size("intermediate_size")?,
        epsilon: config.number("rms_norm_eps", 1e-6)?,
        windows: windows(config)?,
    })
}

/// The window of each layer: Mistral's is that of all layers; Qwen2 and Qwen3 say whether they use theirs, and `layer_types`
/// which layers do, else those from `max_window_layers` on.
fn windows(config: &PretrainedConfig) -> Result<Vec<Option<usize>>, PretrainedError> {
    let layers = config.layers("num_hidden_layers")?;
    let kind = config.text("model_type", "")?;
    let window = match kind {
        "mistral" => config.optional_size("sliding_window")?,
        "qwen2" | "qwen3" if config.flag("use_sliding_window", false)? => {
            Some(config.optional_size("sliding_window")?.unwrap_or(4_096))
        }
        _ => None,
    };
    let Some(kinds) = config.get("layer_types").filter(|_| kind != "mistral") else {
        let first = match kind {
            "mistral" => 0,
            _ => config.optional_size("max_window_layers")?.unwrap_or(28),
        };
        let own = |layer: usize| window.filter(|_| layer >= first);
        return Ok((0..layers).map(own).collect());
    };
    let kinds = kinds.as_array().filter(|kinds| kinds.len() == layers);
    let of = |kind: &Value| match kind.as_str() {
        Some("full_attention") => Some(None),
        Some("sliding_attention") => window.map(Some),
        _ => None,
    };
    let windows = kinds.and_then(|kinds| kinds.iter().map(of).collect());
    windows.ok_or_else(|| {
        config.refuse(
            "layer_types",
            "full_attention and, with a `sliding_window` that is used, sliding_attention are taken, one for each layer",
        )
    })
}

/// Attention with rotated queries and keys, projected.
fn mixed(
    model: &mut ModelWriter<'_>,
    x: ValueId,
    path: &str,
    sizes: &DecoderSizes,
    (turns, window): (Rotations, Option<usize>),
) -> Result<ValueId, PretrainedError> {
    let (each, wide) = (sizes.each, sizes.heads * sizes.each);
    let narrow = sizes.key_heads * each;
    let mut heads = [x; 3];
    let parts = [
        ("q", sizes.heads),
        ("k", sizes.key_heads),
        ("v", sizes.key_heads),
    ];
    for (value, (part, count)) in heads.iter_mut().zip(parts) {
        let outputs = if part == "q" { wide } else { narrow };
        let name = format!("{path}.{part}_proj");
        let projected = model.linear(x, &name, [sizes.width, outputs])?;
        let apart = model
            .writer
            .shaped(projected, &[0, 0, count as i64, each as i64]);
        // Qwen3 normalises each head of queries and keys.
        let norm = format!("{path}.{part}_norm");
        let normal = if model.weights.has(&format!("{norm}.weight")) {
            model.rms_norm(apart, &norm, (each, sizes.epsilon))?
        } else {
            apart
        };
        *value = model.writer.transposed(normal, &[0, 2, 1, 3]);
    }
    for value in heads.iter_mut().take(2) {
        *value = rotated(model, *value, each, turns);
    }
    let form = AttentionForm {
        heads: sizes.heads,
        key_heads: sizes.key_heads,
        scale: scale_of(each),
        causal: true,
        window,
        mask: None,
    };
    let mixed = model.attention(heads, &form);
    let back = model.writer.transposed(mixed, &[0, 2, 1, 3]);
    let joined = model.writer.shaped(back, &[0, 0, wide as i64]);
    model.linear(joined, &format!("{path}.o_proj"), [wide, sizes.width])
}

/// Each channel of the first half turned with its partner in the second.
fn rotated(model: &mut ModelWriter<'_>, x: ValueId, each: usize, turns: Rotations) -> ValueId {
    let (half, whole) = ((each / 2) as i64, each as i64);
    let writer = &mut model.writer;
    let first = writer.slice(x, 3, [0, half]);
    let second = writer.slice(x, 3, [half, whole]);
    let minus = writer.node("Neg", &[second], &[]);
    let along = [("axis", Attribute::Int(-1))];
    let partner = writer.node("Concat", &[minus, first], &along);
    let own = writer.mul(x, turns.cosines);
    let other = writer.mul(partner, turns.sines);
    writer.add(own, other)
}

/// The layer of two products of which one is the gate of the other.
fn gated(
    model: &mut ModelWriter<'_>,
    x: ValueId,
    path: &str,
    sizes: &DecoderSizes,
) -> Result<ValueId, PretrainedError> {
    let shape = [sizes.width, sizes.inner];
    let gate = model.linear(x, &format!("{path}.gate_proj"), shape)?;
    let gate = model.activation(gate, "hidden_act", "silu")?;
    let wide = model.linear(x, &format!("{path}.up_proj"), shape)?;
    let both = model.writer.mul(gate, wide);
    model.linear(
        both,
        &format!("{path}.down_proj"),
        [sizes.inner, sizes.width],
    )
}

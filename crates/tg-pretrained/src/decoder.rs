//! Llama and what has its shape (Qwen2, Qwen3, Mistral): rotary positions, grouped queries, gated layers.

use crate::blocks::{AttentionForm, ModelWriter, scale_of};
use crate::config::PretrainedConfig;
use crate::error::PretrainedError;
use serde_json::json;
use tg_float::ValueId;
use tg_float::graph::Attribute;

/// DecoderSizes of a model.
struct DecoderSizes {
    width: usize,
    heads: usize,
    key_heads: usize,
    /// Channels of a head, an even number.
    each: usize,
    inner: usize,
    epsilon: f64,
}

/// The cosines and sines of the positions of an input: `[positions, channels of a head]`.
#[derive(Clone, Copy)]
struct Rotations {
    cosines: ValueId,
    sines: ValueId,
}

/// Writes the model; `architecture` is the class it was saved from.
pub(crate) fn write(
    model: &mut ModelWriter<'_>,
    architecture: &str,
) -> Result<(), PretrainedError> {
    let config = model.config;
    let sizes = sizes(config)?;
    let vocabulary = config.size("vocab_size")?;
    let ids = model.writer.tokens("input_ids");
    let table = model.parameter("embed_tokens.weight", &[vocabulary, sizes.width])?;
    let mut stream = model.embedded(table, ids);
    let turns = rotations(model, ids, sizes.each)?;
    for layer in 0..config.layers("num_hidden_layers")? {
        let path = format!("layers.{layer}");
        let norm = (sizes.width, sizes.epsilon);
        let normal = model.rms_norm(stream, &format!("{path}.input_layernorm"), norm)?;
        let mixed = mixed(model, normal, &format!("{path}.self_attn"), &sizes, turns)?;
        stream = model.onward(stream, mixed);
        let name = format!("{path}.post_attention_layernorm");
        let normal = model.rms_norm(stream, &name, norm)?;
        let narrow = gated(model, normal, &format!("{path}.mlp"), &sizes)?;
        stream = model.onward(stream, narrow);
    }
    let hidden = model.rms_norm(stream, "norm", (sizes.width, sizes.epsilon))?;
    if architecture.ends_with("ForCausalLM") {
        let logits = model.scores(hidden, "lm_head", table, [sizes.width, vocabulary])?;
        model.writer.output("logits", logits);
    } else if architecture.is_empty() || architecture.ends_with("Model") {
        model.writer.output("last_hidden_state", hidden);
    } else {
        return Err(config.refuse("architectures", "the base model and ForCausalLM are taken"));
    }
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
    config.only("use_sliding_window", &json!(false))?;
    // Qwen2 names a window and says that it does not use it.
    let unused = config.get("use_sliding_window").is_some();
    if config.get("sliding_window").is_some() && !unused {
        return Err(config.refuse(
            "sliding_window",
            "null alone is taken: no window of attention",
        ));
    }
    if let Some(kinds) = config.get("layer_types") {
        let full = |kind: &serde_json::Value| kind == "full_attention";
        if !kinds.as_array().is_some_and(|kinds| kinds.iter().all(full)) {
            return Err(config.refuse("layer_types", "full_attention in every layer is taken"));
        }
    }
    config.only("pretraining_tp", &json!(1))?;
    Ok(DecoderSizes {
        width,
        heads,
        key_heads,
        each,
        inner: config.size("intermediate_size")?,
        epsilon: config.number("rms_norm_eps", 1e-6)?,
    })
}

/// Attention with rotated queries and keys, projected.
fn mixed(
    model: &mut ModelWriter<'_>,
    x: ValueId,
    path: &str,
    sizes: &DecoderSizes,
    turns: Rotations,
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

/// Most numbers of a table of rotations.
const ROTATIONS_MAX: usize = 1 << 26;

/// The table of rotations, cut to the positions of `ids`.
fn rotations(
    model: &mut ModelWriter<'_>,
    ids: ValueId,
    each: usize,
) -> Result<Rotations, PretrainedError> {
    let config = model.config;
    let places = config.size("max_position_embeddings")?;
    if places.saturating_mul(each) > ROTATIONS_MAX {
        let taken = format!("at most {} positions are taken", ROTATIONS_MAX / each);
        return Err(config.refuse("max_position_embeddings", taken));
    }
    let steps = frequencies(config, each)?;
    let angles = (0..places).flat_map(|place| {
        let own = steps.iter().map(move |&step| place as f32 * step);
        own.clone().chain(own)
    });
    let angles: Vec<f32> = angles.collect();
    let shape = [places, each];
    // In the library's order: angles in single precision, then cosine and sine of them.
    let of = |turn: fn(f64) -> f64| -> Vec<f32> {
        let turned = angles.iter().map(|&angle| turn(f64::from(angle)) as f32);
        turned.collect()
    };
    let cosines = model.writer.floats("cosines", &shape, of(f64::cos));
    let sines = model.writer.floats("sines", &shape, of(f64::sin));
    Ok(Rotations {
        cosines: model.writer.rows_of_positions(cosines, ids, 0),
        sines: model.writer.rows_of_positions(sines, ids, 0),
    })
}

/// The angle of each pair of channels from a position to the next.
fn frequencies(config: &PretrainedConfig, each: usize) -> Result<Vec<f32>, PretrainedError> {
    let scaling = match config.object("rope_parameters")? {
        Some(parameters) => parameters,
        None => config
            .object("rope_scaling")?
            .unwrap_or_else(|| PretrainedConfig::new(serde_json::Map::new())),
    };
    let base = scaling.number("rope_theta", config.number("rope_theta", 10_000.0)?)?;
    if base <= 0.0 {
        return Err(config.refuse("rope_theta", "a number above 0 is taken"));
    }
    for holder in [config, &scaling] {
        holder.only("partial_rotary_factor", &json!(1.0))?;
    }
    // In the library's order and precision: a power, rounded, of which the reciprocal is taken.
    let share = |pair: usize| (2 * pair) as f32 / each as f32;
    let step = |pair: usize| 1.0 / (base.powf(f64::from(share(pair))) as f32);
    let steps = (0..each / 2).map(step);
    let kind = scaling.text("rope_type", scaling.text("type", "default")?)?;
    match kind {
        "default" => Ok(steps.collect()),
        "linear" => {
            let factor = scaling.number("factor", 1.0)? as f32;
            Ok(steps.map(|step| step / factor).collect())
        }
        "llama3" => steps.map(|step| stretched(&scaling, step)).collect(),
        _ => Err(scaling.refuse("rope_type", "default, linear and llama3 are taken")),
    }
}

/// Llama 3's step of long waves: slower by `factor`, with a passage between the two.
fn stretched(scaling: &PretrainedConfig, step: f32) -> Result<f32, PretrainedError> {
    let number = |field: &str, default: f64| -> Result<f32, PretrainedError> {
        Ok(scaling.number(field, default)? as f32)
    };
    let factor: f32 = number("factor", 8.0)?;
    let low = number("low_freq_factor", 1.0)?;
    let high = number("high_freq_factor", 4.0)?;
    let before = number("original_max_position_embeddings", 8_192.0)?;
    let length = std::f32::consts::TAU / step;
    Ok(if length < before / high {
        step
    } else if length > before / low {
        step / factor
    } else {
        let share = (before / length - low) / (high - low);
        (1.0 - share) * step / factor + share * step
    })
}

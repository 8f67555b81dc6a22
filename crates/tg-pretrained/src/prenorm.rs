//! The layer of ViT, CLIP and Whisper: each block normalises what it reads and is added to the stream.

use crate::blocks::{AttentionForm, ModelWriter};
use crate::error::PretrainedError;
use tg_float::ValueId;

/// Names of the tensors of a layer.
pub(crate) struct PreNormNames {
    pub(crate) projections: [&'static str; 3],
    pub(crate) output: &'static str,
    pub(crate) first_norm: &'static str,
    pub(crate) wide: &'static str,
    pub(crate) narrow: &'static str,
    pub(crate) second_norm: &'static str,
}

/// The names that CLIP has, and Whisper but for those of the norms.
pub(crate) const TOWER_LAYER: PreNormNames = PreNormNames {
    projections: ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    output: "self_attn.out_proj",
    first_norm: "layer_norm1",
    wide: "mlp.fc1",
    narrow: "mlp.fc2",
    second_norm: "layer_norm2",
};

/// What the layers of a model have in common.
pub(crate) struct PreNormForm {
    pub(crate) names: PreNormNames,
    pub(crate) attention: AttentionForm,
    pub(crate) width: usize,
    pub(crate) inner: usize,
    pub(crate) epsilon: f64,
    /// The field of the configuration that names the activation.
    pub(crate) activation: &'static str,
}

/// Writes the layer whose tensors begin with `path`.
pub(crate) fn layer(
    model: &mut ModelWriter<'_>,
    stream: ValueId,
    path: &str,
    form: &PreNormForm,
) -> Result<ValueId, PretrainedError> {
    let &PreNormForm {
        ref names,
        ref attention,
        width,
        inner,
        epsilon,
        activation,
    } = form;
    let norm = (width, epsilon);
    let normal = model.layer_norm(stream, &format!("{path}.{}", names.first_norm), norm)?;
    let mut projected = [normal; 3];
    for (value, name) in projected.iter_mut().zip(names.projections) {
        *value = model.linear(normal, &format!("{path}.{name}"), [width; 2])?;
    }
    let mixed = model.attention(projected, attention);
    let mixed = model.linear(mixed, &format!("{path}.{}", names.output), [width; 2])?;
    let stream = model.onward(stream, mixed);
    let normal = model.layer_norm(stream, &format!("{path}.{}", names.second_norm), norm)?;
    let wide = model.linear(normal, &format!("{path}.{}", names.wide), [width, inner])?;
    let wide = model.activation(wide, activation, "gelu")?;
    let narrow = model.linear(wide, &format!("{path}.{}", names.narrow), [inner, width])?;
    Ok(model.onward(stream, narrow))
}

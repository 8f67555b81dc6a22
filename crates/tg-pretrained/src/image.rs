//! ViT: patches of a picture as tokens, normalised before each block.

use crate::blocks::{AttentionForm, ModelWriter, labels, scale_of};
use crate::error::PretrainedError;
use crate::prenorm::{PreNormForm, PreNormNames, layer};
use tg_float::graph::Attribute;
use tg_float::{DType, Dim, ValueId};

const VIT_LAYER: PreNormNames = PreNormNames {
    projections: [
        "attention.attention.query",
        "attention.attention.key",
        "attention.attention.value",
    ],
    output: "attention.output.dense",
    first_norm: "layernorm_before",
    wide: "intermediate.dense",
    narrow: "output.dense",
    second_norm: "layernorm_after",
};

/// Writes the model; `architecture` is the class it was saved from.
pub(crate) fn write(
    model: &mut ModelWriter<'_>,
    architecture: &str,
) -> Result<(), PretrainedError> {
    let config = model.config;
    let [width, heads] = config.heads("hidden_size", "num_attention_heads")?;
    let epsilon = config.number("layer_norm_eps", 1e-12)?;
    let inner = config.size("intermediate_size")?;
    let mut stream = embeddings(model, width)?;
    let form = PreNormForm {
        names: VIT_LAYER,
        attention: AttentionForm {
            heads,
            key_heads: heads,
            scale: scale_of(width / heads),
            causal: false,
            window: None,
            mask: None,
        },
        width,
        inner,
        epsilon,
        activation: "hidden_act",
    };
    for index in 0..config.layers("num_hidden_layers")? {
        stream = layer(model, stream, &format!("encoder.layer.{index}"), &form)?;
    }
    let hidden = model.layer_norm(stream, "layernorm", (width, epsilon))?;
    match architecture {
        "" | "ViTModel" => {
            model.writer.output("last_hidden_state", hidden);
            if model.weights.has("pooler.dense.weight") {
                let size = config.optional_size("pooler_output_size")?.unwrap_or(width);
                let first = model.writer.at(hidden, 0);
                let dense = model.linear(first, "pooler.dense", [width, size])?;
                let pooled = model.activation(dense, "pooler_act", "tanh")?;
                model.writer.output("pooler_output", pooled);
            }
        }
        "ViTForImageClassification" => {
            let classes = labels(model)?;
            let first = model.writer.at(hidden, 0);
            let logits = model.linear(first, "classifier", [width, classes])?;
            model.writer.output("logits", logits);
        }
        _ => {
            let taken = "ViTModel and ViTForImageClassification are taken";
            return Err(config.refuse("architectures", taken));
        }
    }
    Ok(())
}

/// Patches through a convolution, after the token of the class, plus the positions.
fn embeddings(model: &mut ModelWriter<'_>, width: usize) -> Result<ValueId, PretrainedError> {
    let config = model.config;
    let [size, patch] = [config.size("image_size")?, config.size("patch_size")?];
    let channels = config.optional_size("num_channels")?.unwrap_or(3);
    if size % patch != 0 {
        let taken = format!("a divisor of `image_size` = {size} is taken");
        return Err(config.refuse("patch_size", taken));
    }
    let count = (size / patch) * (size / patch);
    let axes = [channels, size, size].map(Dim::Known);
    let axes = std::iter::once(Dim::Unknown).chain(axes).collect();
    let picture = model.writer.input("pixel_values", DType::F32, axes);
    let name = "embeddings.patch_embeddings.projection";
    let shape = [width, channels, patch, patch];
    let kernel = model.parameter(&format!("{name}.weight"), &shape)?;
    let bias = model.parameter(&format!("{name}.bias"), &[width])?;
    let steps = Attribute::Ints(vec![patch as i64; 2]);
    let attributes = [("kernel_shape", steps.clone()), ("strides", steps)];
    let patches = model
        .writer
        .node("Conv", &[picture, kernel, bias], &attributes);
    let flat = model
        .writer
        .shaped(patches, &[0, width as i64, count as i64]);
    let rows = model.writer.transposed(flat, &[0, 2, 1]);
    let token = model.parameter("embeddings.cls_token", &[1, 1, width])?;
    let batch = model.writer.length(picture, 0);
    let rest = model.writer.ints(&[1, width as i64]);
    let along = [("axis", Attribute::Int(0))];
    let shape = model.writer.node("Concat", &[batch, rest], &along);
    let token = model.writer.node("Expand", &[token, shape], &[]);
    let along = [("axis", Attribute::Int(1))];
    let all = model.writer.node("Concat", &[token, rows], &along);
    let places = model.parameter("embeddings.position_embeddings", &[1, count + 1, width])?;
    Ok(model.writer.add(all, places))
}

//! The encoder of Whisper: two convolutions over the spectrum, then layers that look both ways.

use crate::blocks::{AttentionForm, ModelWriter, scale_of};
use crate::error::PretrainedError;
use crate::prenorm::{PreNormForm, PreNormNames, TOWER_LAYER, layer};
use tg_float::graph::Attribute;
use tg_float::{DType, Dim, ValueId};

/// Writes the model; `architecture` is the class it was saved from.
pub(crate) fn write(
    model: &mut ModelWriter<'_>,
    architecture: &str,
) -> Result<(), PretrainedError> {
    let config = model.config;
    if architecture != "WhisperEncoder" {
        let taken = "WhisperEncoder alone is taken: `model.get_encoder().save_pretrained(..)`";
        return Err(config.refuse("architectures", taken));
    }
    let [width, heads] = config.heads("d_model", "encoder_attention_heads")?;
    let places = config.size("max_source_positions")?;
    let mels = config.size("num_mel_bins")?;
    let axes = vec![Dim::Unknown, Dim::Known(mels), Dim::Known(2 * places)];
    let sound = model.writer.input("input_features", DType::F32, axes);
    let x = convolution(model, sound, "conv1", ([mels, width], 1))?;
    let x = convolution(model, x, "conv2", ([width; 2], 2))?;
    let rows = model.writer.transposed(x, &[0, 2, 1]);
    let table = model.parameter("embed_positions.weight", &[places, width])?;
    let mut stream = model.writer.add(rows, table);
    let form = PreNormForm {
        names: PreNormNames {
            first_norm: "self_attn_layer_norm",
            wide: "fc1",
            narrow: "fc2",
            second_norm: "final_layer_norm",
            ..TOWER_LAYER
        },
        attention: AttentionForm {
            heads,
            key_heads: heads,
            scale: scale_of(width / heads),
            causal: false,
            window: None,
            mask: None,
        },
        width,
        inner: config.size("encoder_ffn_dim")?,
        epsilon: 1e-5,
        activation: "activation_function",
    };
    for index in 0..config.layers("encoder_layers")? {
        stream = layer(model, stream, &format!("layers.{index}"), &form)?;
    }
    let hidden = model.layer_norm(stream, "layer_norm", (width, form.epsilon))?;
    model.writer.output("last_hidden_state", hidden);
    Ok(())
}

/// A convolution of three steps in time and gelu.
fn convolution(
    model: &mut ModelWriter<'_>,
    x: ValueId,
    name: &str,
    ([inputs, outputs], stride): ([usize; 2], i64),
) -> Result<ValueId, PretrainedError> {
    let kernel = model.parameter(&format!("{name}.weight"), &[outputs, inputs, 3])?;
    let bias = model.parameter(&format!("{name}.bias"), &[outputs])?;
    let attributes = [
        ("kernel_shape", Attribute::Ints(vec![3])),
        ("pads", Attribute::Ints(vec![1, 1])),
        ("strides", Attribute::Ints(vec![stride])),
    ];
    let sums = model.writer.node("Conv", &[x, kernel, bias], &attributes);
    Ok(model.activated(sums, "gelu").expect("a known name"))
}

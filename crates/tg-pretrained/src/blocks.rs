//! Layers that the architectures share.

use crate::config::PretrainedConfig;
use crate::error::PretrainedError;
use crate::weights::FolderWeights;
use crate::writer::GraphWriter;
use tg_float::ValueId;
use tg_float::graph::Attribute;

/// A graph under construction, with the weights that it takes.
pub(crate) struct ModelWriter<'a> {
    pub(crate) writer: GraphWriter,
    pub(crate) weights: &'a mut FolderWeights,
    pub(crate) config: &'a PretrainedConfig,
}

/// How a layer of attention looks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttentionForm {
    pub(crate) heads: usize,
    pub(crate) key_heads: usize,
    /// What scores are multiplied by.
    pub(crate) scale: f32,
    pub(crate) causal: bool,
    /// How many keys up to its own place a query may look at; none: all.
    pub(crate) window: Option<usize>,
    /// Truth values by item and key, of four axes.
    pub(crate) mask: Option<ValueId>,
}

type ValueResult = Result<ValueId, PretrainedError>;

impl ModelWriter<'_> {
    /// A tensor of the weights as a constant.
    pub(crate) fn parameter(&mut self, name: &str, shape: &[usize]) -> ValueResult {
        let tensor = self.weights.tensor(name, shape)?;
        Ok(self.writer.constant(name, tensor))
    }

    /// The product with `name.weight` (`[outputs, inputs]`), plus `name.bias` if there is one.
    pub(crate) fn linear(
        &mut self,
        x: ValueId,
        name: &str,
        [inputs, outputs]: [usize; 2],
    ) -> ValueResult {
        let weight = format!("{name}.weight");
        let values = self.weights.values(&weight, &[outputs, inputs])?;
        let turned = transposed(&values, outputs, inputs);
        let product = self.product(x, &weight, turned, [inputs, outputs]);
        let bias = format!("{name}.bias");
        if !self.weights.has(&bias) {
            return Ok(product);
        }
        let bias = self.parameter(&bias, &[outputs])?;
        Ok(self.writer.add(product, bias))
    }

    /// The product with a matrix.
    pub(crate) fn product(
        &mut self,
        x: ValueId,
        name: &str,
        values: Vec<f32>,
        shape: [usize; 2],
    ) -> ValueId {
        let matrix = self.writer.floats(name, &shape, values);
        self.writer.node("MatMul", &[x, matrix], &[])
    }

    /// Rows of a table by number.
    pub(crate) fn embedded(&mut self, table: ValueId, ids: ValueId) -> ValueId {
        self.writer
            .node("Gather", &[table, ids], &[("axis", Attribute::Int(0))])
    }

    /// Layer normalisation over the last axis.
    pub(crate) fn layer_norm(
        &mut self,
        x: ValueId,
        name: &str,
        (size, epsilon): (usize, f64),
    ) -> ValueResult {
        let gain = self.parameter(&format!("{name}.weight"), &[size])?;
        let offset = self.parameter(&format!("{name}.bias"), &[size])?;
        let attributes = normalisation(epsilon);
        Ok(self
            .writer
            .node("LayerNormalization", &[x, gain, offset], &attributes))
    }

    /// Normalisation by the root mean square over the last axis.
    pub(crate) fn rms_norm(
        &mut self,
        x: ValueId,
        name: &str,
        (size, epsilon): (usize, f64),
    ) -> ValueResult {
        let gain = self.parameter(&format!("{name}.weight"), &[size])?;
        Ok(self
            .writer
            .node("RMSNormalization", &[x, gain], &normalisation(epsilon)))
    }

    /// The activation that a field of the configuration names.
    pub(crate) fn activation(&mut self, x: ValueId, field: &str, default: &str) -> ValueResult {
        let name = self.config.text(field, default)?;
        self.activated(x, name).ok_or_else(|| {
            self.config.refuse(
                field,
                "gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, quick_gelu, relu, silu, swish, tanh and sigmoid are taken",
            )
        })
    }

    /// An activation by the name that transformers gives it.
    pub(crate) fn activated(&mut self, x: ValueId, name: &str) -> Option<ValueId> {
        let writer = &mut self.writer;
        let gelu = |how: &str| [("approximate", Attribute::Text(how.as_bytes().to_vec()))];
        Some(match name {
            "gelu" | "gelu_python" => writer.node("Gelu", &[x], &gelu("none")),
            "gelu_new" | "gelu_fast" | "gelu_pytorch_tanh" => {
                writer.node("Gelu", &[x], &gelu("tanh"))
            }
            "quick_gelu" => {
                let factor = writer.scalar(1.702);
                let wide = writer.mul(x, factor);
                let gate = writer.node("Sigmoid", &[wide], &[]);
                writer.mul(x, gate)
            }
            "silu" | "swish" => {
                let gate = writer.node("Sigmoid", &[x], &[]);
                writer.mul(x, gate)
            }
            "relu" => writer.node("Relu", &[x], &[]),
            "tanh" => writer.node("Tanh", &[x], &[]),
            "sigmoid" => writer.node("Sigmoid", &[x], &[]),
            _ => return None,
        })
    }

    /// Attention of queries, keys and values, with the heads side by side in the last axis or on an axis of their own.
    pub(crate) fn attention(&mut self, [q, k, v]: [ValueId; 3], form: &AttentionForm) -> ValueId {
        let count = |heads: usize| Attribute::Int(heads as i64);
        let mut attributes = vec![
            ("q_num_heads", count(form.heads)),
            ("kv_num_heads", count(form.key_heads)),
            ("scale", Attribute::Float(form.scale)),
            ("is_causal", Attribute::Int(i64::from(form.causal))),
        ];
        if let Some(window) = form.window {
            attributes.push(("left_window_size", count(window.saturating_sub(1))));
        }
        let mut inputs = vec![Some(q), Some(k), Some(v)];
        inputs.extend(form.mask.map(Some));
        self.writer.node_of("Attention", inputs, &attributes)
    }

    /// Scores of the vocabulary: by `head.weight`, or by the rows of the embedding if they are tied.
    ///
    /// Where the configuration does not say, they are tied if there is no `head.weight`.
    pub(crate) fn scores(
        &mut self,
        x: ValueId,
        head: &str,
        table: ValueId,
        [width, vocabulary]: [usize; 2],
    ) -> ValueResult {
        let own = !self.weights.has(&format!("{head}.weight"));
        if !self.config.flag("tie_word_embeddings", own)? {
            return self.linear(x, head, [width, vocabulary]);
        }
        let turned = self.writer.transposed(table, &[1, 0]);
        Ok(self.writer.node("MatMul", &[x, turned], &[]))
    }

    /// The stream plus what a block gives.
    pub(crate) fn onward(&mut self, stream: ValueId, block: ValueId) -> ValueId {
        self.writer.add(stream, block)
    }
}

fn normalisation(epsilon: f64) -> [(&'static str, Attribute); 2] {
    [
        ("axis", Attribute::Int(-1)),
        ("epsilon", Attribute::Float(epsilon as f32)),
    ]
}

/// What scores of heads of this size are multiplied by.
pub(crate) fn scale_of(size: usize) -> f32 {
    1.0 / (size as f32).sqrt()
}

/// A matrix of `rows` rows the other way round.
pub(crate) fn transposed(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let mut turned = Vec::with_capacity(values.len());
    for column in 0..columns {
        turned.extend((0..rows).map(|row| values[row * columns + column]));
    }
    turned
}

/// The number of classes: as many as `id2label` names, two if there are no names.
pub(crate) fn labels(model: &ModelWriter<'_>) -> Result<usize, PretrainedError> {
    let names = model.config.labels();
    if !names.is_empty() {
        return Ok(names.len());
    }
    Ok(model.config.optional_size("num_labels")?.unwrap_or(2))
}

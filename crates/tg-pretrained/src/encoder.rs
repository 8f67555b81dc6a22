//! BERT, RoBERTa and DistilBERT: layers that look both ways, normalised after each block.

use crate::blocks::{AttentionForm, ModelWriter, labels, scale_of};
use crate::error::PretrainedError;
use crate::purpose::questions;
use serde_json::json;
use tg_float::graph::Attribute;
use tg_float::{DType, FloatTensor, ValueId};

/// Which of the three, with its names of fields and tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EncoderKind {
    /// `bert`.
    Bert,
    /// `roberta`, `xlm-roberta`, `camembert`: positions are counted from the padding's number on.
    Roberta,
    /// `distilbert`: no kinds of tokens, no pooling.
    DistilBert,
}

/// Names of fields of the configuration.
struct EncoderFields {
    width: &'static str,
    heads: &'static str,
    layers: &'static str,
    inner: &'static str,
    activation: &'static str,
}

/// Names of the tensors of a layer.
struct LayerNames {
    projections: [&'static str; 3],
    output: &'static str,
    first_norm: &'static str,
    wide: &'static str,
    narrow: &'static str,
    last_norm: &'static str,
}

const BERT_FIELDS: EncoderFields = EncoderFields {
    width: "hidden_size",
    heads: "num_attention_heads",
    layers: "num_hidden_layers",
    inner: "intermediate_size",
    activation: "hidden_act",
};
const DISTIL_FIELDS: EncoderFields = EncoderFields {
    width: "dim",
    heads: "n_heads",
    layers: "n_layers",
    inner: "hidden_dim",
    activation: "activation",
};
const BERT_LAYER: LayerNames = LayerNames {
    projections: [
        "attention.self.query",
        "attention.self.key",
        "attention.self.value",
    ],
    output: "attention.output.dense",
    first_norm: "attention.output.LayerNorm",
    wide: "intermediate.dense",
    narrow: "output.dense",
    last_norm: "output.LayerNorm",
};
const DISTIL_LAYER: LayerNames = LayerNames {
    projections: ["attention.q_lin", "attention.k_lin", "attention.v_lin"],
    output: "attention.out_lin",
    first_norm: "sa_layer_norm",
    wide: "ffn.lin1",
    narrow: "ffn.lin2",
    last_norm: "output_layer_norm",
};

/// A model of the family, as it is written.
struct EncoderWriter<'a, 'b> {
    model: &'a mut ModelWriter<'b>,
    kind: EncoderKind,
    fields: EncoderFields,
    width: usize,
    vocabulary: usize,
    epsilon: f64,
}

/// Writes the model; `architecture` is the class it was saved from.
pub(crate) fn write(
    model: &mut ModelWriter<'_>,
    kind: EncoderKind,
    architecture: &str,
) -> Result<(), PretrainedError> {
    let distil = kind == EncoderKind::DistilBert;
    let fields = if distil { DISTIL_FIELDS } else { BERT_FIELDS };
    let config = model.config;
    config.only("position_embedding_type", &json!("absolute"))?;
    config.only("is_decoder", &json!(false))?;
    config.only("add_cross_attention", &json!(false))?;
    let epsilon = if distil {
        1e-12
    } else {
        config.number("layer_norm_eps", 1e-12)?
    };
    let mut encoder = EncoderWriter {
        width: config.size(fields.width)?,
        vocabulary: config.size("vocab_size")?,
        model,
        kind,
        fields,
        epsilon,
    };
    let ids = encoder.model.writer.tokens("input_ids");
    let mask = encoder.model.writer.tokens("attention_mask");
    let table = encoder.table()?;
    let stream = encoder.embeddings(ids, table)?;
    let hidden = encoder.layers(stream, mask)?;
    encoder.head(hidden, table, architecture)
}

impl EncoderWriter<'_, '_> {
    fn table(&mut self) -> Result<ValueId, PretrainedError> {
        let shape = [self.vocabulary, self.width];
        self.model
            .parameter("embeddings.word_embeddings.weight", &shape)
    }

    /// Rows of the words, the positions and the kinds of tokens, normalised.
    fn embeddings(&mut self, ids: ValueId, table: ValueId) -> Result<ValueId, PretrainedError> {
        let (width, epsilon) = (self.width, self.epsilon);
        let words = self.model.embedded(table, ids);
        let places = self.model.config.size("max_position_embeddings")?;
        let name = "embeddings.position_embeddings.weight";
        let places = self.model.parameter(name, &[places, width])?;
        let places = match self.kind {
            EncoderKind::Roberta => {
                let numbers = self.counted(ids)?;
                self.model.embedded(places, numbers)
            }
            EncoderKind::Bert | EncoderKind::DistilBert => {
                self.model.writer.rows_of_positions(places, ids, 0)
            }
        };
        let mut sum = self.model.writer.add(words, places);
        if self.kind != EncoderKind::DistilBert {
            let kinds = self.kinds()?;
            sum = self.model.writer.add(sum, kinds);
        }
        self.model
            .layer_norm(sum, "embeddings.LayerNorm", (width, epsilon))
    }

    /// Rows of the kinds of tokens: of the input `token_type_ids`, or the only one.
    fn kinds(&mut self) -> Result<ValueId, PretrainedError> {
        let count = self.model.config.size("type_vocab_size")?;
        let name = "embeddings.token_type_embeddings.weight";
        let table = self.model.parameter(name, &[count, self.width])?;
        if count == 1 {
            return Ok(table);
        }
        let kinds = self.model.writer.tokens("token_type_ids");
        Ok(self.model.embedded(table, kinds))
    }

    /// RoBERTa's positions: tokens that are not padding are counted from the padding's number plus one on.
    fn counted(&mut self, ids: ValueId) -> Result<ValueId, PretrainedError> {
        let config = self.model.config;
        let padding = match config.get("pad_token_id") {
            None => 1,
            Some(value) => value
                .as_u64()
                .and_then(|id| i64::try_from(id).ok())
                .filter(|&id| id < self.vocabulary as i64)
                .ok_or_else(|| config.refuse("pad_token_id", "a token is taken"))?,
        };
        let writer = &mut self.model.writer;
        let pad = writer.constant("padding", FloatTensor::scalar(padding));
        let equal = writer.node("Equal", &[ids, pad], &[]);
        let there = writer.node("Not", &[equal], &[]);
        let whole = [("to", Attribute::Int(i64::from(DType::I64.to_onnx())))];
        let there = writer.node("Cast", &[there], &whole);
        let axis = writer.constant("axis", FloatTensor::scalar(1i64));
        let count = writer.node("CumSum", &[there, axis], &[]);
        let count = writer.mul(count, there);
        Ok(writer.add(count, pad))
    }

    fn layers(&mut self, mut stream: ValueId, mask: ValueId) -> Result<ValueId, PretrainedError> {
        let [width, heads] = self
            .model
            .config
            .heads(self.fields.width, self.fields.heads)?;
        let writer = &mut self.model.writer;
        let truth = [("to", Attribute::Int(i64::from(DType::Bool.to_onnx())))];
        let seen = writer.node("Cast", &[mask], &truth);
        let axes = writer.ints(&[1, 2]);
        let seen = writer.node("Unsqueeze", &[seen, axes], &[]);
        let form = AttentionForm {
            heads,
            key_heads: heads,
            scale: scale_of(width / heads),
            causal: false,
            window: None,
            mask: Some(seen),
        };
        let (folder, names) = match self.kind {
            EncoderKind::DistilBert => ("transformer.layer", DISTIL_LAYER),
            EncoderKind::Bert | EncoderKind::Roberta => ("encoder.layer", BERT_LAYER),
        };
        for layer in 0..self.model.config.layers(self.fields.layers)? {
            stream = self.layer(stream, &format!("{folder}.{layer}"), &names, &form)?;
        }
        Ok(stream)
    }

    fn layer(
        &mut self,
        stream: ValueId,
        path: &str,
        names: &LayerNames,
        form: &AttentionForm,
    ) -> Result<ValueId, PretrainedError> {
        let (width, epsilon) = (self.width, self.epsilon);
        let inner = self.model.config.size(self.fields.inner)?;
        let model = &mut *self.model;
        let mut projected = [stream; 3];
        for (value, name) in projected.iter_mut().zip(names.projections) {
            *value = model.linear(stream, &format!("{path}.{name}"), [width; 2])?;
        }
        let mixed = model.attention(projected, form);
        let mixed = model.linear(mixed, &format!("{path}.{}", names.output), [width; 2])?;
        let stream = model.onward(stream, mixed);
        let name = format!("{path}.{}", names.first_norm);
        let stream = model.layer_norm(stream, &name, (width, epsilon))?;
        let wide = model.linear(stream, &format!("{path}.{}", names.wide), [width, inner])?;
        let wide = model.activation(wide, self.fields.activation, "gelu")?;
        let narrow = model.linear(wide, &format!("{path}.{}", names.narrow), [inner, width])?;
        let stream = model.onward(stream, narrow);
        let name = format!("{path}.{}", names.last_norm);
        model.layer_norm(stream, &name, (width, epsilon))
    }

    /// What is made of the hidden states, by the class that the weights were saved from.
    fn head(
        &mut self,
        hidden: ValueId,
        table: ValueId,
        architecture: &str,
    ) -> Result<(), PretrainedError> {
        let purpose = architecture
            .find("For")
            .map_or("", |at| &architecture[at..]);
        let logits = match purpose {
            "" => return self.states(hidden),
            "ForQuestionAnswering" => return questions(self.model, hidden, self.width),
            "ForSequenceClassification" => self.classes(hidden)?,
            "ForTokenClassification" => {
                let labels = self.labels()?;
                self.model
                    .linear(hidden, "classifier", [self.width, labels])?
            }
            "ForMaskedLM" => self.words(hidden, table)?,
            _ => {
                return Err(self.model.config.refuse(
                    "architectures",
                    "the base model, ForSequenceClassification, ForTokenClassification, ForQuestionAnswering and ForMaskedLM are taken",
                ));
            }
        };
        self.model.writer.output("logits", logits);
        Ok(())
    }

    /// The base model's outputs.
    fn states(&mut self, hidden: ValueId) -> Result<(), PretrainedError> {
        self.model.writer.output("last_hidden_state", hidden);
        if self.model.weights.has("pooler.dense.weight") {
            let pooled = self.pooled(hidden)?;
            self.model.writer.output("pooler_output", pooled);
        }
        Ok(())
    }

    /// The first position through a layer and tanh.
    fn pooled(&mut self, hidden: ValueId) -> Result<ValueId, PretrainedError> {
        let first = self.model.writer.at(hidden, 0);
        let dense = self.model.linear(first, "pooler.dense", [self.width; 2])?;
        Ok(self.model.writer.node("Tanh", &[dense], &[]))
    }

    fn labels(&self) -> Result<usize, PretrainedError> {
        labels(self.model)
    }

    fn classes(&mut self, hidden: ValueId) -> Result<ValueId, PretrainedError> {
        let (width, labels) = (self.width, self.labels()?);
        match self.kind {
            EncoderKind::Bert => {
                let pooled = self.pooled(hidden)?;
                self.model.linear(pooled, "classifier", [width, labels])
            }
            EncoderKind::Roberta => {
                let first = self.model.writer.at(hidden, 0);
                let dense = self.model.linear(first, "classifier.dense", [width; 2])?;
                let bent = self.model.writer.node("Tanh", &[dense], &[]);
                self.model
                    .linear(bent, "classifier.out_proj", [width, labels])
            }
            EncoderKind::DistilBert => {
                let first = self.model.writer.at(hidden, 0);
                let dense = self.model.linear(first, "pre_classifier", [width; 2])?;
                let bent = self.model.writer.node("Relu", &[dense], &[]);
                self.model.linear(bent, "classifier", [width, labels])
            }
        }
    }

    /// Scores of the vocabulary at each position.
    fn words(&mut self, hidden: ValueId, table: ValueId) -> Result<ValueId, PretrainedError> {
        let (width, vocabulary) = (self.width, self.vocabulary);
        let [dense, norm, head, bias] = match self.kind {
            EncoderKind::Bert => [
                "cls.predictions.transform.dense",
                "cls.predictions.transform.LayerNorm",
                "cls.predictions.decoder",
                "cls.predictions.bias",
            ],
            EncoderKind::Roberta => [
                "lm_head.dense",
                "lm_head.layer_norm",
                "lm_head.decoder",
                "lm_head.bias",
            ],
            EncoderKind::DistilBert => [
                "vocab_transform",
                "vocab_layer_norm",
                "vocab_projector",
                "vocab_projector.bias",
            ],
        };
        let dense = self.model.linear(hidden, dense, [width; 2])?;
        let bent = match self.kind {
            // RoBERTa's head has this activation, whatever its layers have.
            EncoderKind::Roberta => self.model.activated(dense, "gelu").expect("a known name"),
            EncoderKind::Bert | EncoderKind::DistilBert => {
                self.model
                    .activation(dense, self.fields.activation, "gelu")?
            }
        };
        let normal = self.model.layer_norm(bent, norm, (width, self.epsilon))?;
        let tied = !self.model.weights.has(&format!("{head}.weight"));
        if !self.model.config.flag("tie_word_embeddings", tied)? {
            return self.model.linear(normal, head, [width, vocabulary]);
        }
        let scores = self
            .model
            .scores(normal, head, table, [width, vocabulary])?;
        let bias = self.model.parameter(bias, &[vocabulary])?;
        Ok(self.model.writer.add(scores, bias))
    }
}

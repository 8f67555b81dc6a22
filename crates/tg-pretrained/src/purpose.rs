//! What models of several families make of their hidden states.

use crate::blocks::ModelWriter;
use crate::error::PretrainedError;
use tg_float::graph::Attribute;
use tg_float::{DType, FloatTensor, ValueId};

/// The hidden state at the last position that is not padding; at the last one where no token is padding's.
pub(crate) fn last_of_sequence(
    model: &mut ModelWriter<'_>,
    ids: ValueId,
    hidden: ValueId,
) -> Result<ValueId, PretrainedError> {
    let config = model.config;
    let Some(pad) = config.get("pad_token_id") else {
        return Ok(model.writer.at(hidden, -1));
    };
    let pad = pad.as_i64().filter(|&id| id >= 0);
    let pad = pad.ok_or_else(|| config.refuse("pad_token_id", "a token or null is taken"))?;
    let places = config
        .optional_size("max_position_embeddings")?
        .or(config.optional_size("n_positions")?)
        .ok_or_else(|| PretrainedError::Absent {
            field: "max_position_embeddings".to_owned(),
        })?;
    let writer = &mut model.writer;
    let numbers = FloatTensor::vector((0..places as i64).collect());
    let numbers = writer.constant("positions", numbers);
    let numbers = writer.rows_of_positions(numbers, ids, 0);
    let pad = writer.constant("padding", FloatTensor::scalar(pad));
    let equal = writer.node("Equal", &[ids, pad], &[]);
    let there = writer.node("Not", &[equal], &[]);
    let to = |dtype: DType| [("to", Attribute::Int(i64::from(dtype.to_onnx())))];
    let there = writer.node("Cast", &[there], &to(DType::I64));
    let there = writer.mul(numbers, there);
    let last = writer.node(
        "ArgMax",
        &[there],
        &[("axis", Attribute::Int(1)), ("keepdims", Attribute::Int(1))],
    );
    // One of a row of weights is 1: the product is the state at that position.
    let chosen = writer.node("Equal", &[numbers, last], &[]);
    let chosen = writer.node("Cast", &[chosen], &to(DType::F32));
    let axis = writer.ints(&[1]);
    let chosen = writer.node("Unsqueeze", &[chosen, axis], &[]);
    let state = writer.node("MatMul", &[chosen, hidden], &[]);
    Ok(writer.node("Squeeze", &[state, axis], &[]))
}

/// Scores of each position as the first and as the last one of an answer.
pub(crate) fn questions(
    model: &mut ModelWriter<'_>,
    hidden: ValueId,
    width: usize,
) -> Result<(), PretrainedError> {
    let both = model.linear(hidden, "qa_outputs", [width, 2])?;
    for (index, name) in ["start_logits", "end_logits"].into_iter().enumerate() {
        let writer = &mut model.writer;
        let index = writer.constant("end of an answer", FloatTensor::scalar(index as i64));
        let own = writer.node("Gather", &[both, index], &[("axis", Attribute::Int(-1))]);
        writer.output(name, own);
    }
    Ok(())
}

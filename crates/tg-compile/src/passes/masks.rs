//! Masks before a softmax as finite numbers: what is far below every score has no weight in single precision, however far.

use crate::calibrate::masked;
use tg_float::{Data, FloatTensor, Graph, ValueId};

/// What stands for minus infinity.
const FAR: f32 = -1e4;

/// Raises the elements of constant masks that are further below.
pub(super) fn finite(graph: &mut Graph) {
    let masks = masked(graph);
    let readers = graph.readers();
    let only_masks = |value: ValueId| {
        readers[value.index()].iter().all(|&index| {
            let node = &graph.nodes[index];
            node.is("Softmax")
                || node.is("LogSoftmax")
                || node.gives().all(|result| masks.contains(&result))
        })
    };
    let mut raised = Vec::new();
    for (&value, tensor) in &graph.constants {
        let Data::F32(values) = tensor.data() else {
            continue;
        };
        let far = values.iter().any(|&x| x < FAR);
        if !far || !masks.contains(&value) || !only_masks(value) || graph.outputs.contains(&value) {
            continue;
        }
        let values: Vec<f32> = values.iter().map(|x| x.max(FAR)).collect();
        if let Ok(tensor) = FloatTensor::of(tensor.shape().to_vec(), values) {
            raised.push((value, tensor));
        }
    }
    graph.constants.extend(raised);
}

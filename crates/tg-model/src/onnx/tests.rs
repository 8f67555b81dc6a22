#![allow(clippy::unwrap_used, reason = "tests")]

use super::proto::{
    AttributeProto, DimensionProto, NodeProto, OperatorSetIdProto, SparseTensorProto, TensorProto,
    TensorShapeProto, TensorTypeProto, TypeProto,
};
use super::*;

fn axis(size: i64) -> DimensionProto {
    DimensionProto {
        value: Some(Dimension::Value(size)),
    }
}

fn symbol(name: &str) -> DimensionProto {
    DimensionProto {
        value: Some(Dimension::Parameter(name.to_owned())),
    }
}

fn value(name: &str, dim: Vec<DimensionProto>) -> ValueInfoProto {
    ValueInfoProto {
        name: name.to_owned(),
        r#type: Some(TypeProto {
            tensor_type: Some(TensorTypeProto {
                elem_type: data_type::FLOAT,
                shape: Some(TensorShapeProto { dim }),
            }),
        }),
    }
}

fn weights(name: &str, dims: &[i64]) -> TensorProto {
    let elements = usize::try_from(dims.iter().product::<i64>()).unwrap();
    TensorProto {
        dims: dims.to_vec(),
        data_type: data_type::FLOAT,
        float_data: (0..elements).map(|i| (i % 7) as f32 - 3.0).collect(),
        name: name.to_owned(),
        ..TensorProto::default()
    }
}

fn ints(name: &str, ints: &[i64]) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        ints: ints.to_vec(),
        ..AttributeProto::default()
    }
}

fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        i,
        ..AttributeProto::default()
    }
}

fn text(name: &str, s: &str) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        s: s.as_bytes().to_vec(),
        ..AttributeProto::default()
    }
}

fn node(op_type: &str, input: &[&str], attribute: Vec<AttributeProto>) -> NodeProto {
    NodeProto {
        input: input.iter().map(ToString::to_string).collect(),
        output: vec!["y".to_owned()],
        name: "the node".to_owned(),
        op_type: op_type.to_owned(),
        attribute,
        domain: String::new(),
        ..NodeProto::default()
    }
}

/// A model of one node that reads `x` (1x2x6x5) and gives `y`, with constants `w` (4x2x3x3), `m` (60x4) and `b` (4).
fn model(node: NodeProto) -> ModelProto {
    ModelProto {
        ir_version: 8,
        graph: Some(GraphProto {
            node: vec![node],
            name: "g".to_owned(),
            initializer: vec![
                weights("w", &[4, 2, 3, 3]),
                weights("m", &[60, 4]),
                weights("b", &[4]),
            ],
            input: vec![value("x", [1, 2, 6, 5].map(axis).to_vec())],
            output: vec![value("y", Vec::new())],
            sparse_initializer: Vec::new(),
        }),
        opset_import: vec![OperatorSetIdProto {
            domain: String::new(),
            version: 17,
        }],
        ..ModelProto::default()
    }
}

fn conv(attribute: Vec<AttributeProto>) -> NodeProto {
    node("Conv", &["x", "w", "b"], attribute)
}

/// A changed good model is refused with a message that holds `expected`.
fn refused(change: impl FnOnce(&mut ModelProto), expected: &str) {
    let mut model = model(conv(Vec::new()));
    change(&mut model);
    let error = read(&model.encode_to_vec()).unwrap_err();
    let shown = error.to_string();
    assert!(
        shown.contains(expected),
        "{shown:?} does not contain {expected:?}"
    );
}

/// A model of this node is refused, naming node, operator and shapes, with a reason that holds `expected`.
fn node_refused(bad: NodeProto, expected: &str) {
    let operator = bad.op_type.clone();
    let error = read(&model(bad).encode_to_vec()).unwrap_err();
    let shown = error.to_string();
    assert!(
        shown.starts_with(&format!("node `the node` ({operator}, inputs ")),
        "{shown}"
    );
    assert!(
        shown.contains(expected),
        "{shown:?} does not contain {expected:?}"
    );
}

fn graph(model: &mut ModelProto) -> &mut GraphProto {
    model.graph.as_mut().unwrap()
}

fn input_axes(model: &mut ModelProto, axes: Vec<DimensionProto>) {
    graph(model).input = vec![value("x", axes)];
}

#[test]
fn a_good_model_is_read() {
    let graph = read(&model(conv(vec![ints("pads", &[1, 1, 1, 1])])).encode_to_vec()).unwrap();
    assert_eq!(graph.input, [1, 2, 6, 5]);
    assert_eq!(graph.nodes.len(), 1);
    assert_eq!(graph.nodes[0].shape, [1, 4, 6, 5]);
    assert_eq!(graph.parameters(), 4 * 2 * 9 + 4);
}

#[test]
fn a_symbolic_batch_is_one() {
    let mut symbolic = model(conv(Vec::new()));
    input_axes(
        &mut symbolic,
        vec![symbol("batch"), axis(2), axis(6), axis(5)],
    );
    assert_eq!(
        read(&symbolic.encode_to_vec()),
        read(&model(conv(Vec::new())).encode_to_vec())
    );
}

#[test]
fn old_exporters_list_initialisers_as_inputs() {
    let mut old = model(conv(Vec::new()));
    graph(&mut old).input.push(value("w", Vec::new()));
    read(&old.encode_to_vec()).unwrap();
}

#[test]
fn a_node_without_a_name_is_called_by_its_output() {
    let mut nameless = conv(vec![int("group", 2)]);
    nameless.name = String::new();
    let error = read(&model(nameless).encode_to_vec())
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "node `y` (Conv, inputs [1x2x6x5], [4x2x3x3], [4]) has group = 2; only group 1 is supported"
    );
}

#[test]
fn bad_files_are_refused() {
    assert!(matches!(
        read(b"\xff\xff\xff"),
        Err(ImportError::Protobuf(_))
    ));
    assert_eq!(read(b""), Err(ImportError::Opset { version: 0 }));
    let large = vec![0; FILE_BYTES_MAX + 1];
    assert_eq!(
        read(&large),
        Err(ImportError::TooLarge { bytes: large.len() })
    );
    refused(|m| m.graph = None, "no graph");
    for version in [12, 22, -1] {
        refused(
            |m| m.opset_import[0].version = version,
            "an opset between 13 and 21",
        );
    }
    refused(|m| m.opset_import.clear(), "opset 0");
    refused(
        |m| graph(m).node = vec![conv(Vec::new()); 5000],
        "5000 nodes, at most 4096",
    );
}

#[test]
fn bad_inputs_and_outputs_are_refused() {
    refused(|m| graph(m).input.clear(), "0 inputs, exactly one");
    refused(
        |m| graph(m).input.push(value("z", vec![axis(1)])),
        "2 inputs, exactly one is supported: x, z",
    );
    refused(
        |m| graph(m).output.push(value("z", Vec::new())),
        "2 outputs",
    );
    refused(
        |m| graph(m).output[0].name = "z".to_owned(),
        "the output `z` is not computed",
    );
    refused(
        |m| graph(m).output[0].name = "x".to_owned(),
        "the output `x` is not computed",
    );
    refused(
        |m| input_axes(m, vec![axis(1), axis(2), symbol("height"), axis(5)]),
        "axis 2 of the input `x` is dynamic (`height`)",
    );
    refused(
        |m| input_axes(m, vec![axis(1), DimensionProto { value: None }]),
        "axis 1 of the input `x` is dynamic (``)",
    );
    refused(|m| input_axes(m, vec![axis(8), axis(2)]), "of batch 8");
    refused(|m| input_axes(m, vec![axis(1)]), "of shape [1]");
    refused(|m| input_axes(m, vec![axis(1), axis(0)]), "of shape [1, 0]");
    refused(
        |m| input_axes(m, vec![axis(1), axis(-3)]),
        "of shape [1, -3]",
    );
    refused(
        |m| input_axes(m, vec![axis(1); 5]),
        "of shape [1, 1, 1, 1, 1]",
    );
    refused(
        |m| input_axes(m, vec![axis(1), axis(1 << 40)]),
        "at most 2^26 elements",
    );
    refused(|m| graph(m).input[0].r#type = None, "without a shape");
    refused(
        |m| {
            let kind = graph(m).input[0].r#type.as_mut().unwrap();
            kind.tensor_type.as_mut().unwrap().elem_type = 2;
        },
        "of element type 2",
    );
}

#[test]
fn bad_weights_are_refused() {
    refused(
        |m| graph(m).initializer[0].float_data[3] = f32::NAN,
        "the tensor `w` holds a value that is not finite (NaN) at index 3",
    );
    refused(
        |m| graph(m).initializer[2].float_data[0] = f32::INFINITY,
        "the tensor `b`",
    );
    refused(
        |m| graph(m).initializer[0].dims[0] = 5,
        "states the shape [5, 2, 3, 3] and holds 72",
    );
    refused(
        |m| graph(m).initializer[0].data_location = 1,
        "outside the file",
    );
    refused(
        |m| graph(m).sparse_initializer.push(SparseTensorProto {}),
        "sparse",
    );
    let mut constant = node(
        "Constant",
        &[],
        vec![AttributeProto {
            name: "value".to_owned(),
            t: Some(weights("c", &[1])),
            ..AttributeProto::default()
        }],
    );
    constant.attribute[0].t.as_mut().unwrap().float_data[0] = f32::NAN;
    refused(
        |m| graph(m).node[0] = constant,
        "the tensor `the node` holds a value that is not finite",
    );
}

#[test]
fn unsupported_operators_are_refused() {
    node_refused(
        node("Softmax", &["x"], Vec::new()),
        "inputs [1x2x6x5]) has an operator that is not supported",
    );
    node_refused(node("Conv2", &[], Vec::new()), "inputs none)");
    let foreign = NodeProto {
        domain: "com.microsoft".to_owned(),
        ..conv(Vec::new())
    };
    node_refused(foreign, "not supported");
    let two = NodeProto {
        output: vec!["y".to_owned(), "indices".to_owned()],
        ..node("MaxPool", &["x"], vec![ints("kernel_shape", &[2, 2])])
    };
    node_refused(two, "gives 2 outputs");
    node_refused(
        node("Relu", &["nowhere"], Vec::new()),
        "reads `nowhere`, which no earlier node computes",
    );
    node_refused(node("Relu", &[], Vec::new()), "has no input 0");
    node_refused(
        node("Relu", &["w"], Vec::new()),
        "needs input 0 to depend on the model's input",
    );
}

#[test]
fn unsupported_attributes_are_refused() {
    node_refused(
        conv(vec![ints("dilations", &[2, 1])]),
        "has dilations = [2, 1]; only dilation 1",
    );
    node_refused(conv(vec![int("group", 2)]), "has group = 2");
    node_refused(conv(vec![ints("strides", &[0, 1])]), "stride from 1 to 64");
    node_refused(conv(vec![ints("strides", &[1])]), "supported are two axes");
    node_refused(
        conv(vec![ints("pads", &[3, 0, 0, 0])]),
        "padding from 0 to below the kernel",
    );
    node_refused(
        conv(vec![ints("pads", &[-1, 0, 0, 0])]),
        "has pads = [-1, 0, 0, 0]",
    );
    node_refused(conv(vec![ints("pads", &[1, 1])]), "has pads = [1, 1]");
    node_refused(conv(vec![text("auto_pad", "SAME")]), "has auto_pad = SAME");
    node_refused(
        conv(vec![ints("kernel_shape", &[2, 2])]),
        "kernel_shape is not that of the weights",
    );
    let pool = |name: &str, mut attributes: Vec<AttributeProto>| {
        attributes.push(ints("kernel_shape", &[2, 2]));
        node(name, &["x"], attributes)
    };
    for name in ["MaxPool", "AveragePool"] {
        node_refused(pool(name, vec![int("ceil_mode", 1)]), "has ceil_mode = 1");
        node_refused(node(name, &["x"], Vec::new()), "has kernel_shape = []");
        node_refused(
            node(name, &["x"], vec![ints("kernel_shape", &[7, 2])]),
            "larger than the input",
        );
        node_refused(
            node(name, &["x"], vec![ints("kernel_shape", &[65, 1])]),
            "from 1 to 64",
        );
    }
    node_refused(
        pool("MaxPool", vec![int("storage_order", 1)]),
        "has storage_order = 1",
    );
    node_refused(
        pool("AveragePool", vec![ints("pads", &[1, 1, 1, 1])]),
        "count_include_pad = 0",
    );
    node_refused(
        node("Transpose", &["x"], vec![ints("perm", &[0, 1, 1, 2])]),
        "a permutation of the axes",
    );
    node_refused(
        node("Flatten", &["x"], vec![int("axis", 5)]),
        "has axis = 5",
    );
}

#[test]
fn misfitting_shapes_are_refused() {
    node_refused(
        node("Gemm", &["x", "m"], Vec::new()),
        "an input of 1xN is needed",
    );
    node_refused(
        node("MatMul", &["x", "x"], Vec::new()),
        "an input of 1xN is needed",
    );
    node_refused(
        node("Conv", &["x", "x"], Vec::new()),
        "needs input 1 to be a constant",
    );
    node_refused(
        node("Conv", &["x", "m"], Vec::new()),
        "weights of four axes",
    );
    node_refused(
        node("Conv", &["x", "w", "m"], Vec::new()),
        "one value per output",
    );
    node_refused(
        node("Add", &["x", "b"], Vec::new()),
        "two inputs of one shape",
    );
    node_refused(
        node("Add", &["w", "w"], Vec::new()),
        "depend on the model's input",
    );
    node_refused(node("Reshape", &["x"], Vec::new()), "has no input 1");
    node_refused(node("Reshape", &["x", "b"], Vec::new()), "an integer shape");
    node_refused(node("Clip", &["x", "b"], Vec::new()), "scalar bounds");
    node_refused(
        node("BatchNormalization", &["x", "b", "b", "b", "b"], Vec::new()),
        "one parameter per channel",
    );
    let reshaped = |target: &[i64]| {
        let mut model = model(node("Reshape", &["x", "s"], Vec::new()));
        graph(&mut model).initializer.push(TensorProto {
            dims: vec![i64::try_from(target.len()).unwrap()],
            data_type: data_type::INT64,
            int64_data: target.to_vec(),
            name: "s".to_owned(),
            ..TensorProto::default()
        });
        read(&model.encode_to_vec()).map(|graph| graph.nodes[0].shape.clone())
    };
    assert_eq!(reshaped(&[0, -1]).unwrap(), [1, 60]);
    for bad in [
        &[1i64, 59][..],
        &[-1, -1],
        &[7, -1],
        &[1, 2, 6, 5, 0],
        &[i64::MAX, 2],
        &[1, -2],
    ] {
        let shown = reshaped(bad).unwrap_err().to_string();
        assert!(
            shown.contains("do not fill the target shape"),
            "{bad:?}: {shown}"
        );
    }
}

#[test]
fn a_crossed_clip_is_refused() {
    let mut crossed = model(node("Clip", &["x", "low", "high"], Vec::new()));
    for (name, value) in [("low", 1.0), ("high", -1.0)] {
        graph(&mut crossed).initializer.push(TensorProto {
            data_type: data_type::FLOAT,
            float_data: vec![value],
            name: name.to_owned(),
            ..TensorProto::default()
        });
    }
    let shown = read(&crossed.encode_to_vec()).unwrap_err().to_string();
    assert!(shown.contains("min may not be above max"), "{shown}");
}

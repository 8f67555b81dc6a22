#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::proto::{
    AttributeProto, Dimension, DimensionProto, EXTERNAL, FunctionProto, GraphProto, NodeProto,
    OperatorSetIdProto, StringStringEntryProto, TensorShapeProto, TensorTypeProto, TypeProto,
    ValueInfoProto,
};
use tg_float::graph::{Attribute, Dim};
use tg_float::tensor::{DType, Data};
use tg_float::tgf::{Budget, run};

fn value(name: &str, axes: &[Dimension]) -> ValueInfoProto {
    let dim = |axis: &Dimension| DimensionProto {
        value: Some(axis.clone()),
    };
    ValueInfoProto {
        name: name.to_owned(),
        r#type: Some(TypeProto {
            tensor_type: Some(TensorTypeProto {
                elem_type: 1,
                shape: Some(TensorShapeProto {
                    dim: axes.iter().map(dim).collect(),
                }),
            }),
        }),
    }
}

fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    NodeProto {
        op_type: op.to_owned(),
        input: owned(inputs),
        output: owned(outputs),
        ..NodeProto::default()
    }
}

fn floats(name: &str, dims: &[i64], values: &[f32]) -> TensorProto {
    TensorProto {
        name: name.to_owned(),
        dims: dims.to_vec(),
        data_type: 1,
        float_data: values.to_vec(),
        ..TensorProto::default()
    }
}

fn opset(domain: &str, version: i64) -> OperatorSetIdProto {
    OperatorSetIdProto {
        domain: domain.to_owned(),
        version,
    }
}

/// A model from `x` (2) to `y` with these nodes.
fn model(nodes: Vec<NodeProto>) -> ModelProto {
    ModelProto {
        graph: Some(GraphProto {
            node: nodes,
            name: "g".to_owned(),
            input: vec![value("x", &[Dimension::Value(2)])],
            output: vec![value("y", &[])],
            ..GraphProto::default()
        }),
        opset_import: vec![opset("", 18)],
        ..ModelProto::default()
    }
}

fn read_model(model: &ModelProto) -> Result<Graph, ReadError> {
    read(&model.encode_to_vec(), None, &ReadLimits::default())
}

/// Runs a read model on x = (1, -2).
fn outputs(graph: &Graph) -> Vec<f32> {
    let x = FloatTensor::vector(vec![1f32, -2.0]);
    let results = run(graph, &[&x], &Budget::default()).unwrap();
    results[0].values::<f32>().unwrap().to_vec()
}

#[test]
fn nodes_constants_and_symbols_are_kept() {
    let mut proto = model(vec![
        node("Add", &["x", "w"], &["s"]),
        node("Abs", &["s"], &["y"]),
    ]);
    let graph = proto.graph.as_mut().unwrap();
    graph.initializer = vec![floats("w", &[2], &[1.0, 1.0])];
    graph.input = vec![
        value("x", &[Dimension::Parameter("batch".to_owned())]),
        value("w", &[Dimension::Value(2)]),
    ];
    let graph = read_model(&proto).unwrap();
    assert_eq!(graph.inputs.len(), 1, "an initialiser is not asked for");
    assert_eq!(
        graph.inputs[0].shape,
        Some(vec![Dim::Named("batch".to_owned())])
    );
    assert_eq!(graph.nodes.len(), 2);
    assert_eq!(graph.nodes[0].version, 18);
    assert_eq!(graph.constants.len(), 1);
    assert_eq!(outputs(&graph), [2.0, 1.0]);
}

#[test]
fn raw_typed_and_packed_data_are_the_same() {
    let read = |proto: TensorProto| read_tensor(&proto.encode_to_vec(), 1 << 20).unwrap().1;
    let typed = floats("t", &[2], &[1.5, -2.0]);
    let raw = TensorProto {
        float_data: Vec::new(),
        raw_data: [1.5f32, -2.0]
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect(),
        ..typed.clone()
    };
    assert_eq!(read(typed), read(raw));
    let nibbles = TensorProto {
        dims: vec![3],
        data_type: 22,
        raw_data: vec![0xf1, 0x02],
        ..TensorProto::default()
    };
    let expected = Data::Codes(DType::I4, vec![1, 15, 2]);
    assert_eq!(read(nibbles.clone()).data(), &expected);
    let typed = TensorProto {
        raw_data: Vec::new(),
        int32_data: vec![0xf1, 0x02],
        ..nibbles
    };
    assert_eq!(read(typed).data(), &expected);
}

#[test]
fn hostile_tensors_are_refused_before_memory_is_taken() {
    let read = |proto: TensorProto| read_tensor(&proto.encode_to_vec(), 1 << 20);
    let problem = |proto: TensorProto| match read(proto) {
        Err(ReadError::Tensor { problem, .. }) => problem,
        other => panic!("{other:?}"),
    };
    let huge = vec![1 << 40, 1 << 40];
    assert_eq!(problem(floats("t", &huge, &[])), TensorProblem::Shape(huge));
    assert_eq!(
        problem(floats("t", &[-1], &[])),
        TensorProblem::Shape(vec![-1])
    );
    assert_eq!(
        problem(floats("t", &[1; 17], &[1.0])),
        TensorProblem::Shape(vec![1; 17])
    );
    let large = problem(floats("t", &[2_500_000_000], &[]));
    assert!(matches!(
        large,
        TensorProblem::Budget {
            bytes: 10_000_000_000,
            ..
        }
    ));
    assert!(matches!(
        problem(floats("t", &[3], &[1.0])),
        TensorProblem::Length { got: 1, .. }
    ));
    let complex = TensorProto {
        data_type: 14,
        ..floats("t", &[1], &[])
    };
    assert_eq!(problem(complex), TensorProblem::ElementType(14));
    let wide = TensorProto {
        dims: vec![1],
        data_type: 2,
        int32_data: vec![256],
        ..TensorProto::default()
    };
    assert_eq!(problem(wide), TensorProblem::Value { value: 256 });
}

#[test]
fn broken_graphs_are_named() {
    let error = |nodes: Vec<NodeProto>| read_model(&model(nodes)).unwrap_err();
    let unknown = |op: &str, value: &str| ReadError::Unknown {
        node: "y".to_owned(),
        op: op.to_owned(),
        value: value.to_owned(),
    };
    assert_eq!(
        error(vec![node("Abs", &["q"], &["y"])]),
        unknown("Abs", "q")
    );
    // A circle: the first node reads what only the second gives.
    let circle = vec![
        node("Add", &["x", "b"], &["y"]),
        node("Abs", &["y"], &["b"]),
    ];
    assert_eq!(error(circle), unknown("Add", "b"));
    let twice = vec![node("Abs", &["x"], &["y"]), node("Neg", &["x"], &["y"])];
    assert!(matches!(error(twice), ReadError::Twice { .. }));
    assert_eq!(error(Vec::new()), ReadError::Output("y".to_owned()));
    let mut old = model(vec![node("Abs", &["x"], &["y"])]);
    old.opset_import = vec![opset("", 6)];
    assert_eq!(read_model(&old), Err(ReadError::Opset { version: 6 }));
    let limits = ReadLimits {
        nodes: 1,
        ..ReadLimits::default()
    };
    let two = model(vec![
        node("Abs", &["x"], &["a"]),
        node("Abs", &["a"], &["y"]),
    ]);
    let bytes = two.encode_to_vec();
    assert_eq!(read(&bytes, None, &limits), Err(ReadError::TooManyNodes(1)));
    assert!(matches!(
        read(
            &bytes,
            None,
            &ReadLimits {
                file_bytes: 3,
                ..limits
            }
        ),
        Err(ReadError::TooLarge { limit: 3, .. })
    ));
    assert!(matches!(
        read(b"\xff\xff", None, &limits),
        Err(ReadError::Protobuf(_))
    ));
}

#[test]
fn functions_are_written_out_with_their_attributes() {
    let mut call = node("Twice", &["x"], &["y"]);
    call.domain = "local".to_owned();
    call.attribute = vec![AttributeProto {
        name: "slope".to_owned(),
        f: 0.5,
        r#type: 1,
        ..AttributeProto::default()
    }];
    let mut leaky = node("LeakyRelu", &["a"], &["l"]);
    leaky.attribute = vec![AttributeProto {
        name: "alpha".to_owned(),
        r#type: 1,
        ref_attr_name: "slope".to_owned(),
        ..AttributeProto::default()
    }];
    let mut proto = model(vec![call.clone()]);
    proto.opset_import.push(opset("local", 1));
    proto.functions = vec![FunctionProto {
        name: "Twice".to_owned(),
        domain: "local".to_owned(),
        input: vec!["a".to_owned()],
        output: vec!["b".to_owned()],
        node: vec![leaky, node("Add", &["l", "l"], &["b"])],
        opset_import: vec![opset("", 16)],
        ..FunctionProto::default()
    }];
    let graph = read_model(&proto).unwrap();
    let versions: Vec<i64> = graph.nodes.iter().map(|node| node.version).collect();
    assert_eq!(versions, [16, 16]);
    assert_eq!(outputs(&graph), [2.0, -2.0]);
    // A function that calls itself ends at the limit.
    call.input = vec!["a".to_owned()];
    call.output = vec!["b".to_owned()];
    proto.functions[0].node = vec![call];
    assert!(matches!(read_model(&proto), Err(ReadError::Depth { .. })));
    // Its body sees nothing of what is around the call.
    proto.functions[0].node = vec![node("Abs", &["x"], &["b"])];
    assert!(matches!(read_model(&proto), Err(ReadError::Unknown { .. })));
}

#[test]
fn subgraphs_take_outer_values_as_inputs_of_the_node() {
    let branch = |name: &str, op: &str| AttributeProto {
        name: name.to_owned(),
        r#type: 5,
        g: Some(GraphProto {
            node: vec![node(op, &["x"], &["r"])],
            output: vec![value("r", &[])],
            ..GraphProto::default()
        }),
        ..AttributeProto::default()
    };
    let mut condition = node("If", &["c"], &["y"]);
    condition.attribute = vec![branch("then_branch", "Neg"), branch("else_branch", "Abs")];
    for (flag, expected) in [(1, [-1.0, 2.0]), (0, [1.0, 2.0])] {
        let mut proto = model(vec![condition.clone()]);
        proto.graph.as_mut().unwrap().initializer = vec![TensorProto {
            name: "c".to_owned(),
            data_type: 9,
            int32_data: vec![flag],
            ..TensorProto::default()
        }];
        let graph = read_model(&proto).unwrap();
        assert_eq!(graph.nodes[0].inputs.len(), 3, "the condition and x twice");
        let Some(Attribute::Graph(body)) = graph.nodes[0].attributes.get("then_branch") else {
            panic!("the branch is an attribute");
        };
        assert_eq!(body.captures.len(), 1);
        assert_eq!(outputs(&graph), expected);
    }
}

#[test]
fn external_data_stays_inside_the_folder() {
    let folder = std::env::temp_dir().join(format!("tg-onnx-external-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("inside")).unwrap();
    let bytes: Vec<u8> = [0.0f32, 1.0, 1.0]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    std::fs::write(folder.join("inside/w.bin"), &bytes).unwrap();
    std::fs::write(folder.join("secret.bin"), &bytes).unwrap();
    let stored = |location: &str, offset: &str| {
        let entry = |key: &str, value: &str| StringStringEntryProto {
            key: key.to_owned(),
            value: value.to_owned(),
        };
        let mut proto = model(vec![node("Add", &["x", "w"], &["y"])]);
        proto.graph.as_mut().unwrap().initializer = vec![TensorProto {
            data_location: EXTERNAL,
            external_data: vec![entry("location", location), entry("offset", offset)],
            ..floats("w", &[2], &[])
        }];
        proto.encode_to_vec()
    };
    let inside = folder.join("inside");
    let read_from =
        |bytes: &[u8], folder: Option<&Path>| read(bytes, folder, &ReadLimits::default());
    let graph = read_from(&stored("w.bin", "4"), Some(&inside)).unwrap();
    assert_eq!(outputs(&graph), [2.0, -1.0]);
    let problem = |bytes: &[u8], folder: Option<&Path>| match read_from(bytes, folder) {
        Err(ReadError::Tensor { problem, .. }) => problem,
        other => panic!("{other:?}"),
    };
    for location in ["../secret.bin", "/etc/hostname", "", "a/../../secret.bin"] {
        assert_eq!(
            problem(&stored(location, "0"), Some(&inside)),
            TensorProblem::Location(location.to_owned())
        );
    }
    assert!(matches!(
        problem(&stored("w.bin", "8"), Some(&inside)),
        TensorProblem::Short {
            offset: 8,
            end: 16,
            bytes: 12,
            ..
        }
    ));
    assert!(matches!(
        problem(&stored("w.bin", "18446744073709551615"), Some(&inside)),
        TensorProblem::Short { .. }
    ));
    assert!(matches!(
        problem(&stored("w.bin", "0"), None),
        TensorProblem::NoFolder(_)
    ));
    #[cfg(unix)]
    {
        let link = inside.join("link.bin");
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(folder.join("secret.bin"), &link).unwrap();
        assert!(matches!(
            problem(&stored("link.bin", "0"), Some(&inside)),
            TensorProblem::Location(_)
        ));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// What a person is told: the error and its causes, one after another.
fn told(error: &ReadError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        text += ": ";
        text += &next.to_string();
        cause = next.source();
    }
    text
}

/// Each message says what is wrong and where.
#[test]
fn messages_name_the_place_and_the_problem() {
    let check = |model: &ModelProto, parts: &[&str]| {
        let text = told(&read_model(model).unwrap_err());
        for part in parts {
            assert!(text.contains(part), "`{text}` does not say `{part}`");
        }
    };
    let mut named = node("Add", &["x", "absent"], &["y"]);
    named.name = "sum".to_owned();
    check(&model(vec![named]), &["`sum`", "Add", "`absent`"]);
    let circle = vec![node("Neg", &["b"], &["a"]), node("Neg", &["a"], &["b"])];
    check(
        &model(circle),
        &["`a`", "Neg", "`b`", "nothing before it gives"],
    );
    let mut own = node("Neg", &["y"], &["y"]);
    own.name = "loop".to_owned();
    check(&model(vec![own]), &["`loop`", "`y`"]);
    let mut sized = model(vec![node("Add", &["x", "w"], &["y"])]);
    sized.graph.as_mut().unwrap().initializer = vec![floats("w", &[3], &[1.0, 2.0])];
    check(&sized, &["`w`", "[3]", "2 elements"]);
    let mut old = model(vec![node("Neg", &["x"], &["y"])]);
    old.opset_import = vec![opset("", 5)];
    check(&old, &["version 5", "7 to 28"]);
    let mut empty = model(Vec::new());
    empty.graph = None;
    check(&empty, &["no graph"]);
    let nothing = read(&[], None, &ReadLimits::default()).unwrap_err();
    assert_eq!(nothing, ReadError::NoOpset);
    let garbage = read(&[0xff; 40], None, &ReadLimits::default()).unwrap_err();
    assert!(told(&garbage).contains("not an ONNX model"));
}

#[test]
fn axes_that_overflow_and_absurd_shapes_are_refused() {
    let shapes: [&[i64]; 6] = [
        &[i64::MAX],
        &[i64::MAX, i64::MAX],
        &[1 << 32, 1 << 32],
        &[-1, 4],
        &[i64::MIN],
        &[1 << 62, 8, 0],
    ];
    for shape in shapes {
        let mut proto = model(vec![node("Add", &["x", "w"], &["y"])]);
        proto.graph.as_mut().unwrap().initializer = vec![floats("w", shape, &[])];
        match read_model(&proto) {
            Err(ReadError::Tensor { name, problem }) => {
                assert_eq!(name, "w");
                let refused = matches!(
                    problem,
                    TensorProblem::Shape(_) | TensorProblem::Budget { .. }
                );
                assert!(refused, "{shape:?}: {problem:?}");
            }
            other => panic!("{shape:?}: {other:?}"),
        }
    }
    let mut input = model(vec![node("Neg", &["x"], &["y"])]);
    input.graph.as_mut().unwrap().input = vec![value("x", &[Dimension::Value(-3)])];
    assert!(matches!(read_model(&input), Err(ReadError::Input { .. })));
}

/// A constant that states ten gigabytes costs the bytes it holds, in the file and beside it.
#[test]
fn millions_of_empty_nodes_are_refused_before_they_are_made() {
    // Field 1 of the graph, empty: two bytes a node, which takes two hundred in memory.
    let nodes = [0x0a, 0x00].repeat(3_000_000);
    let mut bytes = vec![0x3a];
    prost::encoding::encode_varint(nodes.len() as u64, &mut bytes);
    bytes.extend(nodes);
    let before = bytes.len();
    match read(&bytes, None, &ReadLimits::default()) {
        Err(ReadError::Hollow { bytes, decoded }) => {
            assert_eq!(bytes, before);
            assert!(decoded > 100 * before, "{decoded}");
        }
        other => panic!("{other:?}"),
    }
    // A hundred thousand are decoded, and refused for what they are.
    let few = [0x0a, 0x00].repeat(100_000);
    let mut bytes = vec![0x42, 0x02, 0x10, 17, 0x3a];
    prost::encoding::encode_varint(few.len() as u64, &mut bytes);
    bytes.extend(few);
    let refused = read(&bytes, None, &ReadLimits::default()).unwrap_err();
    assert!(!matches!(refused, ReadError::Hollow { .. }), "{refused}");
}

#[test]
fn ten_gigabytes_are_not_allocated() {
    let elements = 10i64 << 28;
    for external in [false, true] {
        let folder = std::env::temp_dir();
        let mut tensor = floats("w", &[elements], &[]);
        if external {
            tensor.data_location = EXTERNAL;
            tensor.external_data = vec![StringStringEntryProto {
                key: "location".to_owned(),
                value: "nowhere.bin".to_owned(),
            }];
        }
        let mut proto = model(vec![node("Add", &["x", "w"], &["y"])]);
        proto.graph.as_mut().unwrap().initializer = vec![tensor];
        let bytes = proto.encode_to_vec();
        let small = read(&bytes, Some(&folder), &ReadLimits::default());
        assert!(
            matches!(
                &small,
                Err(ReadError::Tensor { problem: TensorProblem::Budget { bytes, .. }, .. })
                    if *bytes == 10 << 30
            ),
            "{small:?}"
        );
        // Also where the limits would let it: the data are looked at before memory is taken.
        let limits = ReadLimits {
            constant_bytes: usize::MAX,
            ..ReadLimits::default()
        };
        let large = read(&bytes, Some(&folder), &limits);
        assert!(
            matches!(
                &large,
                Err(ReadError::Tensor {
                    problem: TensorProblem::Length { .. } | TensorProblem::External { .. },
                    ..
                })
            ),
            "{large:?}"
        );
    }
}

/// A long list, name or row of inputs in a function's body is held once per call.
#[test]
fn what_functions_repeat_is_counted() {
    const LONG: usize = 1 << 16;
    let list = |values: Vec<i64>| AttributeProto {
        name: "axes".to_owned(),
        r#type: 7,
        ints: values,
        ..AttributeProto::default()
    };
    let mut with_list = node("Squeeze", &["a"], &["b"]);
    with_list.attribute = vec![list(vec![0; LONG])];
    let long_name = node("Neg", &["a"], &["b"]);
    let long_name = NodeProto {
        name: "n".repeat(LONG),
        ..long_name
    };
    let mut wide = node("Sum", &["a"], &["b"]);
    wide.input = vec!["a".to_owned(); LONG];
    for body in [with_list, long_name, wide] {
        let function = FunctionProto {
            name: "F".to_owned(),
            domain: "own".to_owned(),
            input: vec!["a".to_owned()],
            output: vec!["b".to_owned()],
            node: vec![body],
            opset_import: vec![opset("", 11)],
            ..FunctionProto::default()
        };
        let calls = (0..200).map(|call| {
            let output = format!("v{call}");
            let mut node = node("F", &["x"], &[output.as_str()]);
            node.domain = "own".to_owned();
            node
        });
        let mut proto = model(calls.collect());
        proto.graph.as_mut().unwrap().output = vec![value("v0", &[])];
        proto.opset_import.push(opset("own", 1));
        proto.functions = vec![function];
        let limits = ReadLimits {
            constant_bytes: 4 << 20,
            ..ReadLimits::default()
        };
        let result = read(&proto.encode_to_vec(), None, &limits);
        assert!(
            matches!(
                &result,
                Err(ReadError::Tensor {
                    problem: TensorProblem::Budget { .. },
                    ..
                })
            ),
            "{:?}",
            result.map(|graph| graph.nodes.len())
        );
        proto.graph.as_mut().unwrap().node.truncate(1);
        assert!(read(&proto.encode_to_vec(), None, &limits).is_ok());
    }
}

/// Every prefix of a good file, and the file with each byte set to its extremes, is read or refused.
#[test]
fn cut_and_altered_files_are_read_or_refused() {
    let mut good = model(vec![
        node("Add", &["x", "w"], &["s"]),
        node("Relu", &["s"], &["y"]),
    ]);
    good.graph.as_mut().unwrap().initializer = vec![floats("w", &[2], &[1.0, 2.0])];
    let bytes = good.encode_to_vec();
    let limits = ReadLimits {
        constant_bytes: 1 << 16,
        ..ReadLimits::default()
    };
    let mut refused = 0;
    for end in 0..bytes.len() {
        refused += usize::from(read(&bytes[..end], None, &limits).is_err());
        for value in [0, 0x7f, 0x80, 0xff] {
            let mut altered = bytes.clone();
            altered[end] = value;
            if let Ok(graph) = read(&altered, None, &limits) {
                assert_eq!(graph.check(), Ok(()));
            }
        }
    }
    assert!(refused > bytes.len() / 2, "{refused} of {}", bytes.len());
}

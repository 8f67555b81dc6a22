#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::limits::{DEPTH_MAX, TEXT_BYTES_MAX};
use super::{EncodedGraph, GraphDecodeError, decode, encode};
use crate::fuzz::{below, fuzz_claim, fuzz_graph, fuzz_trace, judged_files, random_graph, seed_of};
use crate::graph::{Attribute, Dim, Graph, GraphError, Input, Node, Subgraph};
use crate::tensor::{DType, Data, FloatTensor};
use tg_exec::sample::Numbers;
use tg_types::{DecodeError, Digest, Writer};

fn read(encoded: &EncodedGraph) -> Result<Graph, GraphDecodeError> {
    decode(&encoded.structure, &encoded.constants)
}

/// y = x * k + b under a condition, with every kind of attribute.
fn sample() -> Graph {
    let mut graph = Graph {
        name: "sample".to_owned(),
        ..Graph::default()
    };
    graph.opsets.insert(String::new(), 21);
    graph.opsets.insert("ai.onnx.ml".to_owned(), 3);
    let x = graph.fresh("x");
    let y = graph.fresh("y");
    graph.inputs.push(Input {
        value: x,
        name: "x".to_owned(),
        dtype: Some(DType::F32),
        shape: Some(vec![
            Dim::Named("N".to_owned()),
            Dim::Known(2),
            Dim::Unknown,
        ]),
    });
    let nan = f32::from_bits(0x7fc0_1234);
    let k = graph.constant("k", FloatTensor::vector(vec![nan, -0.0]));
    let texts = FloatTensor::vector(vec!["a".to_owned(), "ä".to_owned()]);
    graph.constant("t", texts);
    let codes = Data::Codes(DType::I4, vec![0, 15]);
    graph.constant("c", FloatTensor::new(vec![2, 1], codes).unwrap());
    let mut body = Graph::default();
    let inner = body.fresh("inner");
    body.inputs.push(Input {
        value: inner,
        name: "inner".to_owned(),
        dtype: None,
        shape: None,
    });
    body.outputs.push(inner);
    let body = Subgraph {
        graph: body,
        captures: vec![0],
    };
    let mut node = Node::new("n", "Mul", 14, vec![x, k], vec![y])
        .with("a", Attribute::Float(nan))
        .with("b", Attribute::Int(-1))
        .with("c", Attribute::Text(vec![0xff]))
        .with("d", Attribute::Tensor(FloatTensor::scalar(7i64)))
        .with("e", Attribute::Graph(Box::new(body)))
        .with("f", Attribute::Floats(vec![f32::INFINITY]))
        .with("g", Attribute::Ints(vec![i64::MIN]))
        .with("h", Attribute::Texts(vec![Vec::new(), b"t".to_vec()]))
        .with("i", Attribute::Tensors(vec![FloatTensor::scalar(true)]))
        .with("j", Attribute::Other(11));
    node.inputs.push(None);
    graph.append(node);
    graph.outputs.push(y);
    graph
}

#[test]
fn a_graph_is_read_back_and_its_bytes_stay() {
    let encoded = encode(&sample());
    let graph = read(&encoded).unwrap();
    assert_eq!(encode(&graph), encoded);
    let k = graph.constants.values().next().unwrap();
    let bits: Vec<u32> = k
        .values::<f32>()
        .unwrap()
        .iter()
        .map(|v| v.to_bits())
        .collect();
    assert_eq!(bits, [0x7fc0_1234, 0x8000_0000]);
    // The format is a contract: a change of these is a breaking one.
    let digests =
        [&encoded.structure, &encoded.constants].map(|bytes| Digest::of_blob(bytes).to_string());
    assert_eq!(
        digests,
        [
            "0xa52a298766f74004f1af5ee47ce25e01dc8ad6089d4098e694b0256948291a48",
            "0x7a2ccbc70e60a48b4e69d84721a86564037454cc57edc60a7d652d20420c4584",
        ]
    );
}

#[test]
fn random_graphs_are_read_back() {
    for seed in 0..300 {
        let graph = random_graph(&mut Numbers::new(seed));
        let encoded = encode(&graph);
        let again = read(&encoded).unwrap_or_else(|error| panic!("seed {seed}: {error:?}"));
        assert_eq!(encode(&again), encoded, "seed {seed}");
    }
}

#[test]
fn every_other_length_and_most_changed_bytes_are_refused() {
    let encoded = encode(&sample());
    let EncodedGraph {
        structure,
        constants,
    } = &encoded;
    for length in 0..structure.len() {
        assert!(decode(&structure[..length], constants).is_err(), "{length}");
    }
    for length in 0..constants.len() {
        assert!(decode(structure, &constants[..length]).is_err(), "{length}");
    }
    for (structure, constants) in [
        ([structure.as_slice(), &[0]].concat(), constants.clone()),
        (structure.clone(), [constants.as_slice(), &[0]].concat()),
    ] {
        let trailing = decode(&structure, &constants).unwrap_err();
        assert!(matches!(
            trailing,
            GraphDecodeError::Structure(DecodeError::Trailing { extra: 1 })
                | GraphDecodeError::Constants(DecodeError::Trailing { extra: 1 })
        ));
    }
    // Whatever is read is written back byte for byte.
    for place in 0..structure.len() {
        for change in [1, 0x80, 0xff] {
            let mut structure = structure.clone();
            structure[place] ^= change;
            if let Ok(graph) = decode(&structure, constants) {
                let constants = constants.clone();
                assert_eq!(
                    encode(&graph),
                    EncodedGraph {
                        structure,
                        constants
                    }
                );
            }
        }
    }
}

#[test]
fn graphs_that_are_not_well_formed_are_refused() {
    let check = |change: fn(&mut Graph), expected: fn(&GraphDecodeError) -> bool| {
        let mut graph = sample();
        change(&mut graph);
        let error = read(&encode(&graph)).unwrap_err();
        assert!(expected(&error), "{error:?}");
    };
    check(
        |graph| graph.nodes.push(graph.nodes[0].clone()),
        |error| matches!(error, GraphDecodeError::Graph(GraphError::Twice(_))),
    );
    check(
        |graph| drop(graph.names.pop()),
        |error| matches!(error, GraphDecodeError::Graph(GraphError::Unknown(_))),
    );
    check(
        |graph| {
            let Some(Attribute::Graph(body)) = graph.nodes[0].attributes.get_mut("e") else {
                panic!("the body")
            };
            body.graph.outputs = vec![crate::ValueId::new(9)];
        },
        |error| matches!(error, GraphDecodeError::Graph(GraphError::Output(_))),
    );
    for capture in [2, 3] {
        let mut graph = sample();
        let Some(Attribute::Graph(body)) = graph.nodes[0].attributes.get_mut("e") else {
            panic!("the body")
        };
        body.captures = vec![capture];
        let error = read(&encode(&graph)).unwrap_err();
        assert!(matches!(error, GraphDecodeError::Capture { index, .. } if index == capture));
    }
    let mut long = sample();
    long.constants.clear();
    let text = "a".repeat(TEXT_BYTES_MAX + 1);
    long.constants
        .insert(crate::ValueId::new(2), FloatTensor::scalar(text));
    let error = read(&encode(&long)).unwrap_err();
    assert!(matches!(
        error,
        GraphDecodeError::Constants(DecodeError::TooLong { .. })
    ));
}

/// Bodies inside each other.
fn nested(depth: usize) -> Graph {
    let mut graph = Graph::default();
    for _ in 0..depth {
        let body = Subgraph {
            graph,
            captures: Vec::new(),
        };
        graph = Graph::default();
        let out = graph.fresh("out");
        let node = Node::new("n", "If", 16, vec![], vec![out]);
        graph.append(node.with("then_branch", Attribute::Graph(Box::new(body))));
    }
    graph
}

#[test]
fn bodies_are_nested_no_deeper_than_the_limit() {
    assert!(read(&encode(&nested(DEPTH_MAX))).is_ok());
    let deep = read(&encode(&nested(DEPTH_MAX + 1)));
    assert_eq!(deep, Err(GraphDecodeError::Depth));
    // As deep as the bytes go: refused at the limit, without a deep stack.
    let shallow = encode(&nested(1)).structure;
    let start = encode(&nested(0)).structure.len() - 4;
    let per_level = &shallow[..shallow.len() - start - 4];
    let bytes = per_level.repeat(1_000);
    assert!(decode(&bytes, &[]).is_err());
}

#[test]
fn what_the_bytes_cannot_hold_is_refused_before_memory_is_taken() {
    let head = |count: u32| {
        let mut writer = Writer::new();
        writer.str("");
        writer.u32(0);
        writer.u32(count);
        writer.into_bytes()
    };
    let error = decode(&head(1 << 20), &[]).unwrap_err();
    assert!(matches!(
        error,
        GraphDecodeError::Structure(DecodeError::Truncated { .. })
    ));
    let error = decode(&head(u32::MAX), &[]).unwrap_err();
    assert!(matches!(
        error,
        GraphDecodeError::Structure(DecodeError::TooLong { .. })
    ));
    // A constant that claims more elements than there are bytes, and a shape that overflows.
    for (shape, expected) in [
        (vec![1 << 40], false),
        (vec![usize::MAX, 2], true),
        (vec![0, 1 << 21], true),
    ] {
        let mut writer = Writer::new();
        for _ in 0..2 {
            writer.u32(0);
        }
        writer.u32(1);
        writer.str("k");
        writer.u32(0);
        writer.u32(0);
        writer.u32(1);
        writer.u32(0);
        writer.u8(1);
        writer.count(shape.len());
        for &size in &shape {
            writer.u64(size as u64);
        }
        writer.u32(0);
        let error = decode(&writer.into_bytes(), &[0; 64]).unwrap_err();
        assert_eq!(
            matches!(error, GraphDecodeError::Shape { .. }),
            expected,
            "{error:?}"
        );
    }
}

/// Files changed a little: the target of `fuzz/` on stable. `TENSORGRID_FUZZ_ROUNDS` makes it longer.
#[test]
fn changed_files_never_panic() {
    let rounds = std::env::var("TENSORGRID_FUZZ_ROUNDS").ok();
    let rounds: u64 = rounds.and_then(|text| text.parse().ok()).unwrap_or(20_000);
    let mut numbers = Numbers::new(7);
    let mut seeds: Vec<Vec<u8>> = (0..50)
        .map(|seed| seed_of(&random_graph(&mut Numbers::new(seed))))
        .collect();
    seeds.push(seed_of(&sample()));
    for _ in 0..rounds {
        let seed = &seeds[below(&mut numbers, seeds.len())];
        fuzz_graph(&changed(seed, &mut numbers));
    }
}

/// The same for files about runs.
#[test]
fn changed_files_about_runs_never_panic() {
    let rounds = std::env::var("TENSORGRID_FUZZ_ROUNDS").ok();
    let rounds: u64 = rounds.and_then(|text| text.parse().ok()).unwrap_or(2_000);
    let mut numbers = Numbers::new(8);
    let seeds = judged_files();
    for seed in &seeds {
        fuzz_trace(seed);
        fuzz_claim(seed);
    }
    for _ in 0..rounds {
        let seed = &seeds[below(&mut numbers, seeds.len())];
        let bytes = changed(seed, &mut numbers);
        fuzz_trace(&bytes);
        fuzz_claim(&bytes);
    }
}

/// Bytes changed a little.
fn changed(seed: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=below(numbers, 3) {
        let at = below(numbers, bytes.len());
        match below(numbers, 5) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, numbers.next() as u8),
            2 => {
                let run = bytes[at..bytes.len().min(at + 40)].to_vec();
                bytes.splice(at..at, run);
            }
            3 if !bytes.is_empty() => bytes[at] = numbers.next() as u8,
            _ if !bytes.is_empty() => bytes[at] ^= 1 << below(numbers, 8),
            _ => {}
        }
    }
    bytes
}

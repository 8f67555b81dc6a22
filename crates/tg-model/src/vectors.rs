//! The test vectors of the protocol document, run by the scalar semantics and by the executor.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::execute::{Tensor, run_node};
use crate::input;
use std::collections::BTreeMap;
use std::path::Path;
use tg_ir::{
    InputSpec, LinearWeights, Node, Op, Program, Requantise, Rescale, Shape, TensorId, Weights,
    Window, scalar,
};

/// One vector: its fields by name.
struct Vector<'a> {
    fields: BTreeMap<&'a str, &'a str>,
}

impl<'a> Vector<'a> {
    fn parse(block: &'a str) -> Self {
        let lines = block.lines().map(|line| line.split_once(' ').unwrap());
        Self {
            fields: lines.collect(),
        }
    }

    fn text(&self, field: &str) -> &'a str {
        self.fields
            .get(field)
            .unwrap_or_else(|| panic!("a vector of {} has no {field}", self.fields["op"]))
    }

    fn numbers<T: std::str::FromStr<Err: std::fmt::Debug>>(&self, field: &str) -> Vec<T> {
        let words = self.text(field).split_whitespace();
        words.map(|word| word.parse().unwrap()).collect()
    }

    /// `HxWxC: elements`.
    fn tensor(&self, field: &str) -> (Shape, Vec<i32>) {
        let (shape, elements) = self.text(field).split_once(':').unwrap();
        let axes: Vec<u32> = shape.split('x').map(|axis| axis.parse().unwrap()).collect();
        let elements = elements.split_whitespace();
        let shape = Shape::new(axes[0], axes[1], axes[2]);
        let elements: Vec<i32> = elements.map(|word| word.parse().unwrap()).collect();
        assert_eq!(elements.len(), shape.elements());
        (shape, elements)
    }

    fn window(&self) -> Window {
        Window {
            kernel: self.numbers("kernel").try_into().unwrap(),
            stride: self.numbers("stride").try_into().unwrap(),
            pads: self.numbers("pads").try_into().unwrap(),
        }
    }

    fn requantise(&self) -> Requantise {
        let pairs = self.text("pairs").split_whitespace().map(|pair| {
            let (m, s) = pair.split_once('/').unwrap();
            Rescale::new(m.parse().unwrap(), s.parse().unwrap()).unwrap()
        });
        let table = self.fields.get("table").map(|text| {
            let (rest, entries) = text.split_once(" with ").unwrap();
            let mut table = vec![rest.parse::<i8>().unwrap(); 256];
            for entry in entries.split_whitespace() {
                let (y, z) = entry.split_once('=').unwrap();
                let index = y.parse::<i32>().unwrap() + 128;
                table[usize::try_from(index).unwrap()] = z.parse().unwrap();
            }
            table
        });
        Requantise {
            pairs: pairs.collect(),
            channel_pairs: self.numbers("channel_pairs"),
            range: [i32::MIN / 2, i32::MAX / 2],
            clamp: self.numbers("clamp").try_into().unwrap(),
            table,
        }
    }

    fn op(&self) -> Op {
        let input = TensorId::INPUT;
        match self.text("op") {
            "Conv" => Op::Conv {
                input,
                window: self.window(),
            },
            "Dense" => Op::Dense { input },
            "WindowSum" => Op::WindowSum {
                input,
                window: self.window(),
            },
            "Add" => Op::Add {
                inputs: [input, TensorId(1)],
                multipliers: self.numbers("multipliers").try_into().unwrap(),
            },
            "Requantise" => Op::Requantise {
                input,
                how: self.requantise(),
            },
            "MaxPool" => Op::MaxPool {
                input,
                window: self.window(),
            },
            "Permute" => Op::Permute {
                input,
                source: self.numbers("source"),
            },
            other => panic!("no such operator: {other}"),
        }
    }

    fn check(&self) {
        let (shape, expected) = self.tensor("output");
        if self.text("op") == "Input" {
            let spec = spec(shape, self.text("scale").parse().unwrap());
            let got = input::quantise(&spec, &self.numbers::<f32>("reals"));
            assert_eq!(got.into_iter().map(i32::from).collect::<Vec<_>>(), expected);
            return;
        }
        let (input_shape, input) = self.tensor("input");
        let op = self.op();
        let layer = op.has_weights().then(|| LinearWeights {
            weights: self.numbers("weights"),
            bias: self.numbers("bias"),
        });
        let mut tensors = vec![input];
        let mut nodes = Vec::new();
        if self.fields.contains_key("input2") {
            let (shape, second) = self.tensor("input2");
            tensors.push(second);
            nodes.push(named(
                Op::Dense {
                    input: TensorId::INPUT,
                },
                shape,
            ));
        }
        let node = nodes.len();
        let accumulators = op.output_type() == tg_ir::ElementType::I32;
        nodes.push(named(op, shape));
        let weights = Weights {
            layers: layer.iter().cloned().collect(),
        };
        let program = Program {
            name: String::new(),
            input: spec(input_shape, 1.0),
            nodes,
            weights_root: weights.root(),
        };
        if node == 0 && self.text("op") != "Requantise" {
            program.validate().unwrap();
            weights.check(&program).unwrap();
        }
        let elements = 0..shape.elements();
        let by_element: Vec<i32> = elements
            .map(|element| scalar::element(&program, &weights, node, element, &tensors))
            .collect();
        assert_eq!(
            by_element,
            expected,
            "scalar semantics of {}",
            self.text("op")
        );
        let typed: Vec<Tensor> = tensors
            .iter()
            .map(|values| {
                let narrow: Option<Vec<i8>> = values
                    .iter()
                    .map(|&value| i8::try_from(value).ok())
                    .collect();
                narrow.map_or_else(|| Tensor::I32(values.clone()), Tensor::I8)
            })
            .collect();
        let fast = run_node(&program, node, layer.as_ref(), &typed);
        assert_eq!(fast.widened(), expected, "executor of {}", self.text("op"));
        assert_eq!(fast.accumulators().is_some(), accumulators);
    }
}

fn spec(shape: Shape, scale: f32) -> InputSpec {
    InputSpec {
        shape,
        scale,
        mean: Vec::new(),
        std: Vec::new(),
    }
}

fn named(op: Op, shape: Shape) -> Node {
    Node {
        name: "node".to_owned(),
        op,
        shape,
        scale: 1.0,
    }
}

#[test]
fn the_document_is_what_the_code_does() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut counts = BTreeMap::new();
    for entry in std::fs::read_dir(docs).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = std::fs::read_to_string(path).unwrap();
        for rest in text.split("```tgx1-vector\n").skip(1) {
            let (block, _) = rest.split_once("\n```").unwrap();
            let vector = Vector::parse(block);
            vector.check();
            *counts.entry(vector.text("op").to_owned()).or_insert(0) += 1;
        }
    }
    let operators = [
        "Add",
        "Conv",
        "Dense",
        "Input",
        "MaxPool",
        "Permute",
        "Requantise",
        "WindowSum",
    ];
    assert!(
        counts.keys().map(String::as_str).eq(operators),
        "{counts:?}"
    );
}

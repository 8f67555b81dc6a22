//! The test vectors of the protocol document, run by the scalar semantics and by the executor.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::path::Path;
use tg_exec::kernels::{Cpu, SimdLevel};
use tg_exec::{IntTensor, engine};
use tg_ir::coding;
use tg_ir::forest::{Branch, Child, Forest};
use tg_ir::op::{self, Extreme, Norm, Ranked, Reduction, Relation, Softmax};
use tg_ir::{
    Axis, Coding, CompiledModel, ElementType, InputSpec, LinearWeights, Node, Op, Program,
    Requantise, Rescale, Shape, TensorId, View, Weights, Window, scalar,
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

    /// `HxWxC: elements` or `HxWxC type: elements`; without a type i8, or i32 where an element needs it.
    fn tensor(&self, field: &str) -> (Shape, IntTensor) {
        let (head, elements) = self.text(field).split_once(':').unwrap();
        let (shape, kind) = head.split_once(' ').unwrap_or((head, ""));
        let axes: Vec<u32> = shape.split('x').map(|axis| axis.parse().unwrap()).collect();
        let shape = Shape::new(axes[0], axes[1], axes[2]);
        let elements = elements.split_whitespace();
        let elements: Vec<i32> = elements.map(|word| word.parse().unwrap()).collect();
        assert_eq!(elements.len(), shape.elements());
        let narrow = elements.iter().all(|&value| i8::try_from(value).is_ok());
        let kind = match kind {
            "i16" => ElementType::I16,
            "" if narrow => ElementType::I8,
            _ => ElementType::I32,
        };
        (shape, IntTensor::of(kind, &elements))
    }

    /// The field as one number, or `default` if the vector has none.
    fn number<T: std::str::FromStr<Err: std::fmt::Debug>>(&self, field: &str, default: T) -> T {
        let word = self.fields.get(field).map(|word| word.parse().unwrap());
        word.unwrap_or(default)
    }

    fn axis(&self) -> Axis {
        match self.text("axis") {
            "rows" => Axis::Rows,
            "columns" => Axis::Columns,
            _ => Axis::Channels,
        }
    }

    fn rescale(&self, field: &str) -> Rescale {
        let (m, s) = self.text(field).split_once('/').unwrap();
        Rescale::new(m.parse().unwrap(), s.parse().unwrap()).unwrap()
    }

    fn window(&self) -> Window {
        let pair = |field: &str| match self.fields.get(field) {
            Some(_) => self.numbers(field).try_into().unwrap(),
            None => [1; 2],
        };
        Window {
            kernel: self.numbers("kernel").try_into().unwrap(),
            stride: self.numbers("stride").try_into().unwrap(),
            pads: self.numbers("pads").try_into().unwrap(),
            dilation: pair("dilation"),
            spread: pair("spread"),
        }
    }

    fn requantise(&self) -> Requantise {
        let pairs = self.text("pairs").split_whitespace().map(|pair| {
            let (m, s) = pair.split_once('/').unwrap();
            Rescale::new(m.parse().unwrap(), s.parse().unwrap()).unwrap()
        });
        let clamp: [i16; 2] = self.numbers("clamp").try_into().unwrap();
        let table = self.fields.get("table").map(|text| {
            let (rest, entries) = text.split_once(" with ").unwrap();
            let mut table =
                vec![rest.parse::<i16>().unwrap(); usize::from(clamp[1].abs_diff(clamp[0])) + 1];
            for entry in entries.split_whitespace() {
                let (y, z) = entry.split_once('=').unwrap();
                let index = y.parse::<i16>().unwrap() - clamp[0];
                table[usize::try_from(index).unwrap()] = z.parse().unwrap();
            }
            table
        });
        Requantise {
            pairs: pairs.collect(),
            channel_pairs: self.numbers("channel_pairs"),
            zero: self.number("zero", 0),
            range: [-1_000_000_000, 1_000_000_000],
            clamp,
            table,
            output: match self.number("to", "i8".to_owned()).as_str() {
                "i16" => ElementType::I16,
                _ => ElementType::I8,
            },
        }
    }

    fn op(&self) -> Op {
        let input = TensorId::INPUT;
        let pair = [input, TensorId(1)];
        match self.text("op") {
            "Conv" => Op::Conv(op::Conv {
                input,
                window: self.window(),
                groups: self.number("groups", 1),
                zero: self.number("zero", 0),
            }),
            "Dense" => Op::Dense(op::Dense { input }),
            "MatMul" => Op::MatMul(op::MatMul {
                inputs: pair,
                transposed: self.number("transposed", true),
            }),
            "Parameter" => Op::Parameter(op::Parameter),
            "Embed" => Op::Embed(op::Embed {
                input,
                rows: self.number("rows", 0),
            }),
            "WindowSum" => Op::WindowSum(op::WindowSum {
                input,
                window: self.window(),
            }),
            "Add" => Op::Add(op::Add {
                inputs: (0..)
                    .map(TensorId)
                    .take(self.numbers::<i32>("multipliers").len())
                    .collect(),
                multipliers: self.numbers("multipliers"),
                bias: self.number("bias", 0),
            }),
            "Mul" => Op::Mul(op::Mul { inputs: pair }),
            "Requantise" => Op::Requantise(op::Unary {
                input,
                how: self.requantise(),
            }),
            "MaxPool" => Op::MaxPool(op::MaxPool {
                input,
                window: self.window(),
            }),
            "Trees" => Op::Trees(op::Trees {
                input,
                forest: self.forest(),
            }),
            other => self.op_of_movement(other),
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm per operator")]
    fn op_of_movement(&self, name: &str) -> Op {
        let input = TensorId::INPUT;
        let pair = [input, TensorId(1)];
        match name {
            "Extremum" => Op::Extremum(op::Extremum {
                inputs: pair,
                which: match self.text("which") {
                    "greater" => Extreme::Greater,
                    _ => Extreme::Lesser,
                },
            }),
            "Compare" => Op::Compare(op::Compare {
                inputs: pair,
                relation: match self.text("relation") {
                    "equal" => Relation::Equal,
                    "greater" => Relation::Greater,
                    _ => Relation::GreaterOrEqual,
                },
            }),
            "Select" => Op::Select(op::Select {
                condition: input,
                inputs: [TensorId(1), TensorId(2)],
            }),
            "Reduce" => Op::Reduce(op::Reduce {
                input,
                reduction: match self.text("reduction") {
                    "sum" => Reduction::Sum,
                    "greatest" => Reduction::Greatest,
                    _ => Reduction::Least,
                },
                axis: self.axis(),
            }),
            "RunningSum" => Op::RunningSum(op::RunningSum {
                input,
                axis: self.axis(),
            }),
            "ArgMax" => Op::ArgMax(op::ArgMax { input }),
            "TopK" => Op::TopK(op::TopK {
                input,
                give: match self.text("give") {
                    "values" => Ranked::Values,
                    _ => Ranked::Channels,
                },
            }),
            "Softmax" => Op::Softmax(op::Unary {
                input,
                how: Softmax {
                    rescale: self.rescale("rescale"),
                    table: self.numbers("table"),
                    causal: self.fields.get("causal").map(|word| word.parse().unwrap()),
                },
            }),
            "Norm" => Op::Norm(op::Unary {
                input,
                how: Norm {
                    centred: self.number("centred", true),
                    epsilon: self.number("epsilon", 0),
                    precision: self.number("precision", 0),
                    fraction: self.number("fraction", 0),
                },
            }),
            "View" => Op::View(op::Unary {
                input,
                how: View::new(
                    self.number("offset", 0),
                    &self
                        .numbers("sizes")
                        .into_iter()
                        .zip(self.numbers("strides"))
                        .collect::<Vec<_>>(),
                ),
            }),
            "Concat" => Op::Concat(op::Concat {
                inputs: pair.to_vec(),
                axis: self.axis(),
            }),
            "Pad" => Op::Pad(op::Pad {
                input,
                before: self.numbers("before").try_into().unwrap(),
                after: self.numbers("after").try_into().unwrap(),
                value: self.number("value", 0),
            }),
            "Gather" => Op::Gather(op::Gather {
                input,
                axis: self.axis(),
                indices: self.numbers("indices"),
            }),
            other => panic!("no such operator: {other}"),
        }
    }

    /// Branches `feature threshold below above`, children `bN` or `lN`.
    fn forest(&self) -> Forest {
        let child = |word: &str| {
            let index = word[1..].parse().unwrap();
            if word.starts_with('b') {
                Child::Branch(index)
            } else {
                Child::Leaf(index)
            }
        };
        let words: Vec<&str> = self.text("branches").split_whitespace().collect();
        let branch = |words: &[&str]| Branch {
            feature: words[0].parse().unwrap(),
            threshold: words[1].parse().unwrap(),
            below: child(words[2]),
            above: child(words[3]),
        };
        Forest {
            roots: self.text("roots").split_whitespace().map(child).collect(),
            branches: words.chunks_exact(4).map(branch).collect(),
            leaves: self.numbers("leaves"),
            bias: self.numbers("bias"),
        }
    }

    /// Runs the vector by the scalar semantics and by the executor, and shows it to `also`.
    #[expect(clippy::too_many_lines, reason = "one vector from text to verdict")]
    fn check(&self, also: &mut Also<'_>) {
        let name = self.text("op");
        let (shape, expected) = self.tensor("output");
        if name == "Input" {
            if self.fields.contains_key("scales") {
                let spec = InputSpec {
                    coding: Coding::PerChannel(self.numbers("scales")),
                    ..InputSpec::scaled(shape, 1.0)
                };
                let got = coding::encode(&spec, &self.numbers::<f32>("reals")).unwrap();
                assert_eq!(got, expected);
                return;
            }
            let spec = InputSpec::scaled(shape, self.text("scale").parse().unwrap());
            let got = coding::quantise(&spec, &self.numbers::<f32>("reals"));
            assert_eq!(IntTensor::I8(got), expected);
            return;
        }
        let op = self.op();
        let fields = ["input", "input2", "input3"];
        let inputs = fields
            .iter()
            .filter(|field| self.fields.contains_key(**field));
        let inputs: Vec<(Shape, IntTensor)> = inputs.map(|field| self.tensor(field)).collect();
        let first = inputs.first().cloned();
        let (input_shape, input) = first.unwrap_or((Shape::vector(1), IntTensor::I8(vec![0])));
        let mut spec = InputSpec::scaled(input_shape, 1.0);
        spec.coding = match input.element_type() {
            ElementType::I32 => Coding::Tokens(1 << 20),
            kind => Coding::Scaled(kind),
        };
        let mut tensors = vec![input];
        let mut nodes = Vec::new();
        let mut layers = Vec::new();
        for (shape, tensor) in inputs.into_iter().skip(1) {
            // Other tensors come from nodes that give their type; only 8-bit ones can be parameters.
            let node = match &tensor {
                IntTensor::I8(values) => {
                    layers.push(LinearWeights {
                        weights: values.iter().map(|&value| value.max(-127)).collect(),
                        bias: Vec::new(),
                    });
                    Op::Parameter(op::Parameter)
                }
                _ => Op::Softmax(op::Unary {
                    input: TensorId::INPUT,
                    how: Softmax {
                        rescale: Rescale::new(1, 2).unwrap(),
                        table: vec![1],
                        causal: None,
                    },
                }),
            };
            nodes.push(named(node, shape));
            tensors.push(tensor);
        }
        if op.has_weights() {
            layers.push(LinearWeights {
                weights: self.numbers("weights"),
                bias: if op.has_bias() {
                    self.numbers("bias")
                } else {
                    Vec::new()
                },
            });
        }
        let node = nodes.len();
        nodes.push(named(op, shape));
        let weights = Weights { layers };
        let program = Program {
            name: String::new(),
            input: spec,
            nodes,
            outputs: Vec::new(),
            ties: Vec::new(),
            signature: None,
            tokenizer: None,
            weights_root: weights.root(),
        };
        if tensors
            .iter()
            .all(|tensor| tensor.element_type() == ElementType::I8)
            && name != "Requantise"
        {
            program.validate().unwrap();
            weights.check(&program).unwrap();
        }
        let widened: Vec<Vec<i32>> = tensors.iter().map(IntTensor::widened).collect();
        let elements: Vec<i32> = (0..shape.elements())
            .map(|element| scalar::element(&program, &weights, node, element, &widened))
            .collect();
        assert_eq!(elements, expected.widened(), "scalar semantics of {name}");
        let kind = program.element_type(TensorId::of_node(node));
        let model = CompiledModel { program, weights };
        for level in SimdLevel::available() {
            let cpu = Cpu::with_level(level, 1).unwrap();
            let fast = engine::run_node(&model, &cpu, node, &tensors);
            let (got, wanted) = (fast.widened(), expected.widened());
            assert_eq!(got, wanted, "{level} executor of {name}");
            assert_eq!(fast.element_type(), kind, "type of {name}");
        }
        let expected = IntTensor::of(kind, &expected.widened());
        also(&model, node, &tensors, &expected);
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

/// What else a vector is shown to: a model, one of its nodes, the tensors before it, and what it gives.
type Also<'a> = dyn FnMut(&CompiledModel, usize, &[IntTensor], &IntTensor) + 'a;

/// Runs every vector of the documents, and shows each to `also`.
pub(crate) fn check_document(also: &mut Also<'_>) {
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
            vector.check(also);
            *counts.entry(vector.text("op").to_owned()).or_insert(0) += 1;
        }
    }
    let operators = [
        "Add",
        "ArgMax",
        "Compare",
        "Concat",
        "Conv",
        "Dense",
        "Embed",
        "Extremum",
        "Gather",
        "Input",
        "MatMul",
        "MaxPool",
        "Mul",
        "Norm",
        "Pad",
        "Parameter",
        "Reduce",
        "Requantise",
        "RunningSum",
        "Select",
        "Softmax",
        "TopK",
        "Trees",
        "View",
        "WindowSum",
    ];
    assert!(
        counts.keys().map(String::as_str).eq(operators),
        "{counts:?}"
    );
}

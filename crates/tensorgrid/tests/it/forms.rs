//! Files of small models, from ONNX to a verified proof: without weights, without anything to round, of one operator.

use crate::run::{Grid, Ran, run};

/// Bytes of a protobuf message.
#[derive(Default, Clone)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    pub(crate) fn varint(mut self, field: u64, value: u64) -> Self {
        self.number(field << 3);
        self.number(value);
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.number(field << 3 | 2);
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    pub(crate) fn message(self, field: u64, inner: &Self) -> Self {
        self.bytes(field, &inner.0)
    }

    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

pub(crate) const FLOAT: u64 = 1;
const INT64: u64 = 7;

/// A named input or output (fields of `ValueInfoProto`).
pub(crate) fn value(name: &str, kind: u64, shape: &[u64]) -> Message {
    let dims = shape.iter().fold(Message::default(), |dims, &length| {
        dims.message(1, &Message::default().varint(1, length))
    });
    let tensor = Message::default().varint(1, kind).message(2, &dims);
    let kind = Message::default().message(1, &tensor);
    Message::default().text(1, name).message(2, &kind)
}

/// A constant (fields of `TensorProto`).
pub(crate) fn constant(name: &str, shape: &[u64], values: &[f32]) -> Message {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let tensor = shape
        .iter()
        .fold(Message::default(), |own, &length| own.varint(1, length));
    tensor.varint(2, FLOAT).text(8, name).bytes(9, &bytes)
}

/// The file of a graph (fields of `GraphProto`).
pub(crate) fn file_of(graph: &Message) -> Vec<u8> {
    let opset = Message::default().text(1, "").varint(2, 17);
    let model = Message::default().varint(1, 8).message(7, graph);
    model.message(8, &opset).0
}

fn node(op: &str, inputs: &[&str], attributes: &[(&str, u64)]) -> Message {
    let node = inputs
        .iter()
        .fold(Message::default(), |node, input| node.text(1, input));
    let node = node.text(2, "y").text(3, "only").text(4, op);
    attributes.iter().fold(node, |node, &(name, number)| {
        let attribute = Message::default().text(1, name);
        node.message(5, &attribute.varint(3, number).varint(20, 2))
    })
}

/// A model of one node.
struct Model {
    node: Message,
    constants: Vec<Message>,
    input: Message,
    output: Message,
    /// What it is calibrated on and run with.
    values: serde_json::Value,
    /// Its output's shape, and what it gives for these, computed apart.
    answer: (Vec<u32>, Vec<f64>),
    /// Further nodes and outputs.
    more: Vec<(Message, Message)>,
}

impl Model {
    /// An answer is the output's: its name, its shape, and its reals, but for a fiftieth of the greatest.
    fn answered(&self, answer: &serde_json::Value, name: &str) {
        let (shape, expected) = &self.answer;
        assert_eq!(answer["name"], "y", "{name}");
        assert_eq!(answer["shape"], serde_json::json!(shape), "{name}");
        let got: Vec<f64> = serde_json::from_value(answer["values"].clone()).unwrap();
        assert_eq!(got.len(), expected.len(), "{name}");
        let reach = expected.iter().fold(0.0f64, |most, x| most.max(x.abs()));
        let near = |(got, expected): (&f64, &f64)| (got - expected).abs() <= reach / 50.0;
        assert!(
            got.iter().zip(expected).all(near),
            "{name}: {got:?}, not {expected:?}"
        );
    }

    fn bytes(&self) -> Vec<u8> {
        let graph = Message::default().message(1, &self.node);
        let nodes = self.more.iter().map(|(node, _)| node);
        let graph = nodes.fold(graph, |graph, node| graph.message(1, node));
        let graph = graph.text(2, "small");
        let graph = self
            .constants
            .iter()
            .fold(graph, |graph, own| graph.message(5, own));
        let graph = graph.message(11, &self.input).message(12, &self.output);
        let outputs = self.more.iter().map(|(_, output)| output);
        let graph = outputs.fold(graph, |graph, output| graph.message(12, output));
        file_of(&graph)
    }
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count)
        .map(|i| (i * 37 % 19) as f32 / 9.0 - 1.0)
        .collect()
}

fn reals(values: &[f32]) -> Vec<f64> {
    values.iter().copied().map(f64::from).collect()
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    let pairs = reals(a).into_iter().zip(reals(b));
    pairs.map(|(a, b)| a * b).sum()
}

fn softmax_of(scores: &[f32]) -> Vec<f64> {
    let raised: Vec<f64> = reals(scores).into_iter().map(f64::exp).collect();
    let sum: f64 = raised.iter().sum();
    raised.into_iter().map(|e| e / sum).collect()
}

/// Rows of eight, normalised, times and plus the same eight numbers.
fn normalised(values: &[f32]) -> Vec<f64> {
    let affine = reals(&numbers(8));
    let rows = reals(values);
    let row = |row: &[f64]| -> Vec<f64> {
        let mean = row.iter().sum::<f64>() / 8.0;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 8.0;
        let deviation = (variance + 1e-5).sqrt();
        let pairs = row.iter().zip(&affine);
        pairs.map(|(x, a)| (x - mean) / deviation * a + a).collect()
    };
    rows.chunks_exact(8).flat_map(row).collect()
}

/// A row of the embedding's table.
fn row(index: usize) -> Vec<f64> {
    reals(&numbers(54)[6 * index..6 * index + 6])
}

/// `nn.Linear(13, 1)`.
fn regression() -> Model {
    Model {
        node: node("Gemm", &["x", "w", "b"], &[("transB", 1)]),
        constants: vec![
            constant("w", &[1, 13], &numbers(13)),
            constant("b", &[1], &[0.25]),
        ],
        input: value("x", FLOAT, &[1, 13]),
        output: value("y", FLOAT, &[1, 1]),
        values: serde_json::json!(numbers(13)),
        answer: (vec![1, 1], vec![dot(&numbers(13), &numbers(13)) + 0.25]),
        more: Vec::new(),
    }
}

fn softmax() -> Model {
    Model {
        node: node("Softmax", &["x"], &[]),
        constants: Vec::new(),
        input: value("x", FLOAT, &[1, 7]),
        output: value("y", FLOAT, &[1, 7]),
        values: serde_json::json!(numbers(7)),
        answer: (vec![1, 7], softmax_of(&numbers(7))),
        more: Vec::new(),
    }
}

fn layer_norm() -> Model {
    Model {
        node: node("LayerNormalization", &["x", "scale", "shift"], &[]),
        constants: vec![
            constant("scale", &[8], &numbers(8)),
            constant("shift", &[8], &numbers(8)),
        ],
        input: value("x", FLOAT, &[1, 3, 8]),
        output: value("y", FLOAT, &[1, 3, 8]),
        values: serde_json::json!(numbers(24)),
        answer: (vec![1, 3, 8], normalised(&numbers(24))),
        more: Vec::new(),
    }
}

fn embedding() -> Model {
    Model {
        node: node("Gather", &["w", "x"], &[]),
        constants: vec![constant("w", &[9, 6], &numbers(54))],
        input: value("x", INT64, &[1, 4]),
        output: value("y", FLOAT, &[1, 4, 6]),
        values: serde_json::json!([1, 8, 0, 3]),
        answer: (vec![1, 4, 6], [1, 8, 0, 3].map(row).concat()),
        more: Vec::new(),
    }
}

/// Its output is its input.
fn identity() -> Model {
    Model {
        node: node("Identity", &["x"], &[]),
        constants: Vec::new(),
        input: value("x", FLOAT, &[1, 7]),
        output: value("y", FLOAT, &[1, 7]),
        values: serde_json::json!(numbers(7)),
        answer: (vec![1, 7], reals(&numbers(7))),
        more: Vec::new(),
    }
}

/// Scores and what is above zero of them: two outputs, one of which the other reads.
fn detector() -> Model {
    let scores: Vec<f64> = numbers(28)
        .chunks_exact(7)
        .map(|w| dot(&numbers(7), w))
        .collect();
    let above = Message::default()
        .text(1, "y")
        .text(2, "above")
        .text(4, "Relu");
    Model {
        node: node("Gemm", &["x", "w"], &[("transB", 1)]),
        constants: vec![constant("w", &[4, 7], &numbers(28))],
        output: value("y", FLOAT, &[1, 4]),
        answer: (vec![1, 4], scores),
        more: vec![(above, value("above", FLOAT, &[1, 4]))],
        ..identity()
    }
}

fn relu() -> Model {
    let positive = numbers(7).into_iter().map(|x| f64::from(x.max(0.0)));
    Model {
        node: node("Relu", &["x"], &[]),
        answer: (vec![1, 7], positive.collect()),
        ..identity()
    }
}

/// A folder with a compiled model.
struct ModelFolder {
    folder: tempfile::TempDir,
}

impl ModelFolder {
    fn of(model: &Model) -> Self {
        let model_folder = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        std::fs::write(model_folder.path("m.onnx"), model.bytes()).unwrap();
        let input = serde_json::json!({ "input_data": [model.values] });
        std::fs::write(model_folder.path("x.json"), input.to_string()).unwrap();
        model_folder
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn compile(&self) -> Ran {
        self.compile_with(&[])
    }

    fn compile_with(&self, flags: &[&str]) -> Ran {
        let [onnx, input, own, public] =
            ["m.onnx", "x.json", "m.tgm", "m.tgv"].map(|name| self.path(name));
        let compile = ["--json", "model", "compile", &onnx, "--calibrate", &input];
        run(&[&compile[..], &["-o", &own, "--public-out", &public], flags].concat())
    }

    fn prove(&self, flags: &[&str]) -> serde_json::Value {
        let [own, input, proof] = ["m.tgm", "x.json", "p.bin"].map(|name| self.path(name));
        let prove = ["--json", "prove", &own, &input, "-o", &proof];
        run(&[&prove[..], flags].concat()).ends(0).json()
    }

    fn verify(&self, flags: &[&str]) -> Ran {
        let [public, proof] = ["m.tgv", "p.bin"].map(|name| self.path(name));
        run(&[&["verify", &proof, "--model", &public], flags].concat())
    }
}

#[test]
fn small_models_are_compiled_proved_and_verified() {
    let models = [
        ("regression", regression()),
        ("softmax", softmax()),
        ("layer norm", layer_norm()),
        ("embedding", embedding()),
        ("identity", identity()),
        ("relu", relu()),
    ];
    for (name, model) in models {
        let model_folder = ModelFolder::of(&model);
        let compiled = model_folder.compile().ends(0).json();
        let id = compiled["model"].as_str().unwrap();
        for flags in [&[][..], &["--zk"], &["--zk", "--input-mode", "public"]] {
            let proved = model_folder.prove(flags);
            assert_eq!(proved["model"], id, "{name} {flags:?}");
            model.answered(&proved["answer"][0], name);
            let explained = model_folder.verify(&["--explain"]).ends(0).stdout;
            // Hidden in name only; `--zk` hides the input if nothing else is said.
            let hidden = flags == ["--zk"];
            let revealed = explained.contains("it reveals them");
            assert_eq!(revealed, hidden && name == "identity", "{explained}");
            assert!(explained.contains("collision of a hash"), "{explained}");
            let flipped = model_folder.verify(&["--flip-byte", "100"]);
            assert!(flipped.ends(3).stderr.contains("REJECTED"), "{name}");
        }
    }
}

/// Both outputs of a file are in one program, one proof and one answer, each by its name; one of them if that is asked for.
#[test]
fn all_outputs_of_a_file_are_proved_at_once() {
    let model = detector();
    let model_folder = ModelFolder::of(&model);
    let compiled = model_folder.compile().ends(0).json();
    assert_eq!(compiled["left_out"], serde_json::json!([]));
    let [onnx, input] = ["m.onnx", "x.json"].map(|name| model_folder.path(name));
    let explain = ["--json", "model", "explain", &onnx, "--calibrate", &input];
    let explained = run(&explain).ends(0).json();
    let nodes = explained["program"]["nodes"].as_array().unwrap();
    let sum: u64 = nodes
        .iter()
        .map(|node| node["cost"]["parameters"].as_u64().unwrap())
        .sum();
    assert_eq!(explained["program"]["cost"]["parameters"], sum);
    assert!(explained["measured"]["snr_db"].as_f64().unwrap() > 20.0);
    for flags in [&[][..], &["--zk"], &["--zk", "--output-mode", "hidden"]] {
        let proved = model_folder.prove(flags);
        let answer = proved["answer"].as_array().unwrap();
        assert_eq!(answer.len(), 2, "{answer:?}");
        model.answered(&answer[0], "detector");
        assert_eq!(answer[1]["name"], "above");
        let scores: Vec<f64> = serde_json::from_value(answer[0]["values"].clone()).unwrap();
        let above: Vec<f64> = serde_json::from_value(answer[1]["values"].clone()).unwrap();
        for (score, above) in scores.iter().zip(above) {
            assert!((score.max(0.0) - above).abs() < 0.1, "{score} {above}");
        }
        let told = model_folder.verify(&[]).ends(0).stdout;
        let shown = told.contains("output y [1, 4]: ") && told.contains("output above [1, 4]: ");
        assert_eq!(shown, !flags.contains(&"hidden"), "{told}");
    }
    let one = model_folder
        .compile_with(&["--keep", "above"])
        .ends(0)
        .json();
    assert_ne!(one["program"], compiled["program"]);
    assert_eq!(
        model_folder.prove(&[])["answer"].as_array().unwrap().len(),
        1
    );
    let twice = model_folder.compile_with(&["--keep", "above", "--keep", "y"]);
    assert_eq!(twice.ends(0).json()["outputs"][0]["name"], "above");
}

/// Reals come with the names of classes, which are a part of the program's id; integers on request.
#[test]
fn answers_are_real_numbers_with_names() {
    let model_folder = ModelFolder::of(&softmax());
    let plain = model_folder.compile().ends(0).json()["program"].clone();
    let names = model_folder.path("names.txt");
    std::fs::write(&names, "ant\nbee\ncat\ndog\neel\nfox\ngnu\n").unwrap();
    let labelled = model_folder
        .compile_with(&["--labels", &names])
        .ends(0)
        .json();
    assert_ne!(labelled["program"], plain);
    let proved = model_folder.prove(&[]);
    let greatest = proved["answer"][0]["greatest"].as_u64().unwrap() as usize;
    let label = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu"][greatest];
    assert_eq!(proved["answer"][0]["label"], label);
    let told = model_folder.verify(&[]).ends(0).stdout;
    let end = format!("greatest at index {greatest} ({label})");
    assert!(
        told.contains("output y [1, 7]: 0.") && told.contains(&end),
        "{told}"
    );
    let raw = model_folder.verify(&["--raw"]).ends(0).stdout;
    assert!(raw.contains("output [") && !raw.contains(label), "{raw}");

    std::fs::write(&names, "ant\nbee\n").unwrap();
    let refused = model_folder
        .compile_with(&["--labels", &names])
        .ends(2)
        .stderr;
    assert!(
        refused.contains("2 class names") && refused.contains("7 elements"),
        "{refused}"
    );
}

/// A model without weights, or with two outputs, is registered once, whoever asks, and its jobs are proved on a grid.
#[test]
fn small_models_run_on_a_grid() {
    let data = tempfile::tempdir().unwrap();
    let grid = Grid::up(data.path(), 1);
    let models = [
        ("softmax", softmax(), 1),
        ("regression", regression(), 1),
        ("detector", detector(), 2),
    ];
    for (name, model, outputs) in models {
        let model_folder = ModelFolder::of(&model);
        let id = model_folder.compile().ends(0).json()["model"].clone();
        let [own, public, input] = ["m.tgm", "m.tgv", "x.json"].map(|file| model_folder.path(file));
        let add = ["--json", "model", "add", &own, &public, "--name", name];
        if name != "softmax" {
            let taken = ["model", "add", &own, &public, "--name", "softmax"];
            let refused = grid.run(&taken).ends(2).stderr;
            assert!(refused.contains("--name NAME"), "{refused}");
        }
        let added = grid.run(&add).ends(0).json();
        assert_eq!(added["id"], id);
        let again = grid.run(&add).ends(0);
        assert_eq!(again.json()["id"], id);
        assert!(again.stderr.contains("is registered"), "{}", again.stderr);
        let infer = [
            "--json", "infer", name, &input, "--yes", "--verify", "proof",
        ];
        let ran = grid.run(&infer).ends(0).json();
        assert_eq!(ran["proof"]["verified"], true, "{name}");
        model.answered(&ran["answer"][0], name);
        assert_eq!(ran["answer"].as_array().unwrap().len(), outputs, "{name}");
    }
}

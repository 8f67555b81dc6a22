//! Texts as numbers: a program has whole numbers alone, and an output port says which text each of them stands for.
//!
//! Every text of a graph gets the number of its first place among all texts of it, so texts that are equal are equal numbers
//! wherever they come from.

use super::edit::{input, output};
use std::collections::{BTreeMap, BTreeSet};
use tg_float::{Attribute, DType, Data, FloatTensor, Graph, Node, ValueId};

/// Operators that move elements of their first input, or of all inputs where `true`.
const MOVES: [(&str, bool); 14] = [
    ("ArrayFeatureExtractor", false),
    ("Concat", true),
    ("Expand", false),
    ("Flatten", false),
    ("Gather", false),
    ("GatherElements", false),
    ("GatherND", false),
    ("Identity", false),
    ("Reshape", false),
    ("Slice", false),
    ("Squeeze", false),
    ("Transpose", false),
    ("Unsqueeze", false),
    ("Where", true),
];

/// Attributes that are lists of texts, and their lists of numbers.
const LISTS: [(&str, &str); 4] = [
    ("classlabels_strings", ""),
    ("keys_strings", "keys_int64s"),
    ("values_strings", "values_int64s"),
    ("cats_strings", "cats_int64s"),
];

/// The number of each text, in order.
#[derive(Debug, Default)]
struct Numbering {
    texts: Vec<String>,
    numbers: BTreeMap<Vec<u8>, i64>,
}

impl Numbering {
    fn number(&mut self, text: &[u8]) -> i64 {
        let next = self.texts.len() as i64;
        let number = *self.numbers.entry(text.to_vec()).or_insert(next);
        if number == next {
            self.texts.push(String::from_utf8_lossy(text).into_owned());
        }
        number
    }

    fn list(&mut self, texts: &[Vec<u8>]) -> Vec<i64> {
        texts.iter().map(|text| self.number(text)).collect()
    }
}

/// Writes texts as numbers. The texts of each output, which is empty where the output is no text; nothing is changed if a text
/// comes from an input or goes where its letters count.
pub(super) fn rewrite(graph: &mut Graph) -> Vec<Vec<String>> {
    let none = vec![Vec::new(); graph.outputs.len()];
    let Some(textual) = textual(graph) else {
        return none;
    };
    let mut numbering = Numbering::default();
    for node in &mut graph.nodes {
        number_attributes(node, &mut numbering);
        if node.is("Cast") && output(node).is_some_and(|value| textual.contains(&value)) {
            "Identity".clone_into(&mut node.op);
            node.attributes.clear();
        }
    }
    for tensor in graph.constants.values_mut() {
        if let Data::String(texts) = tensor.data() {
            let numbers = texts.iter().map(|text| numbering.number(text.as_bytes()));
            let numbers = Data::I64(numbers.collect());
            let shape = tensor.shape().to_vec();
            *tensor = FloatTensor::new(shape, numbers).expect("as many elements as before");
        }
    }
    let each = graph.outputs.iter();
    each.map(|value| match textual.contains(value) {
        true => numbering.texts.clone(),
        false => Vec::new(),
    })
    .collect()
}

/// The values that are texts; nothing if there are none, or if one cannot be a number.
fn textual(graph: &Graph) -> Option<BTreeSet<ValueId>> {
    let of_input = |input: &tg_float::Input| input.dtype == Some(DType::String);
    if graph.inputs.iter().any(of_input) {
        return None;
    }
    let constants = graph.constants.iter();
    let mut found: BTreeSet<ValueId> = constants
        .filter(|(_, tensor)| tensor.dtype() == DType::String)
        .map(|(&value, _)| value)
        .collect();
    for node in &graph.nodes {
        if gives_text(node, &found)? {
            found.extend(output(node));
        }
    }
    (!found.is_empty()).then_some(found)
}

/// Whether the first output of a node is a text; nothing if it makes something else of one.
fn gives_text(node: &Node, found: &BTreeSet<ValueId>) -> Option<bool> {
    let reads = node.reads().any(|value| found.contains(&value));
    let has = |name: &str| node.attributes.contains_key(name);
    if node.domain == "ai.onnx.ml" && node.op != "ArrayFeatureExtractor" {
        return match node.op.as_str() {
            "LabelEncoder" => (reads == has("keys_strings")).then(|| has("values_strings")),
            "OneHotEncoder" => (reads == has("cats_strings")).then_some(false),
            "ZipMap" => (!reads).then_some(false),
            _ => (!reads).then(|| has("classlabels_strings")),
        };
    }
    let to_text = matches!(node.attributes.get("to"), Some(Attribute::Int(to))
        if *to == i64::from(DType::String.to_onnx()));
    match node.op.as_str() {
        "Cast" if reads || to_text => (reads && to_text).then_some(true),
        "Equal" => Some(false),
        _ if !reads => Some(false),
        name => {
            let (_, all) = MOVES.iter().find(|(op, _)| *op == name)?;
            let first = input(node, 0).is_some_and(|value| found.contains(&value));
            (*all || first).then_some(true)
        }
    }
}

fn number_attributes(node: &mut Node, numbering: &mut Numbering) {
    if node.domain != "ai.onnx.ml" || node.op == "ZipMap" {
        return;
    }
    let valued = node.attributes.contains_key("values_strings");
    for (texts, numbers) in LISTS {
        let Some(Attribute::Texts(list)) = node.attributes.get(texts) else {
            continue;
        };
        if list.is_empty() {
            continue;
        }
        let list = Attribute::Ints(numbering.list(list));
        let name = match (numbers, node.op.as_str()) {
            ("", "LinearClassifier" | "SVMClassifier") => "classlabels_ints",
            ("", _) => "classlabels_int64s",
            (name, _) => name,
        };
        node.attributes.remove(texts);
        node.attributes.insert(name.to_owned(), list);
    }
    if node.op == "LabelEncoder" && valued {
        let default = match node.attributes.remove("default_string") {
            Some(Attribute::Text(text)) => text,
            _ => b"_Unused".to_vec(),
        };
        let number = Attribute::Int(numbering.number(&default));
        node.attributes.insert("default_int64".to_owned(), number);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tg_float::tgf::{self, Budget};
    use tg_float::{Dim, Input};

    fn texts(list: &[&str]) -> Attribute {
        Attribute::Texts(list.iter().map(|text| text.as_bytes().to_vec()).collect())
    }

    /// The greatest of three scores as a text, and the text that an encoder makes of it.
    fn labelled() -> Graph {
        let mut graph = Graph::default();
        let x = graph.fresh("x");
        graph.inputs.push(Input {
            value: x,
            name: "x".to_owned(),
            dtype: Some(DType::F32),
            shape: Some(vec![Dim::Known(1), Dim::Known(3)]),
        });
        let [label, scores, short, cast] =
            ["label", "scores", "short", "cast"].map(|name| graph.fresh(name));
        let eye = vec![1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
        let classifier = Node::new("c", "LinearClassifier", 1, vec![x], vec![label, scores])
            .with("coefficients", Attribute::Floats(eye))
            .with("intercepts", Attribute::Floats(vec![0.0; 3]))
            .with("classlabels_strings", texts(&["red", "green", "blue"]));
        let encoder = Node::new("e", "LabelEncoder", 2, vec![label], vec![short])
            .with("keys_strings", texts(&["green", "blue"]))
            .with("values_strings", texts(&["g", "b"]))
            .with("default_string", Attribute::Text(b"other".to_vec()));
        let to = Attribute::Int(i64::from(DType::String.to_onnx()));
        let cast = Node::new("k", "Cast", 13, vec![short], vec![cast]).with("to", to);
        graph.nodes = vec![classifier, encoder, cast];
        for node in graph.nodes.iter_mut().take(2) {
            "ai.onnx.ml".clone_into(&mut node.domain);
        }
        graph.outputs = vec![label, graph.nodes[2].outputs[0].unwrap(), scores];
        graph
    }

    #[test]
    fn texts_are_numbers_of_a_list() {
        let plain = labelled();
        let mut graph = labelled();
        let ports = rewrite(&mut graph);
        let expected = ["red", "green", "blue", "g", "b", "other"];
        assert_eq!([&ports[0], &ports[1]], [&expected, &expected]);
        assert!(ports[2].is_empty());
        for row in [[1f32, 0.0, 0.0], [0.0, 1.0, 0.5], [0.0, 1.0, 2.0]] {
            let x = FloatTensor::of(vec![1, 3], row.to_vec()).unwrap();
            let of = |graph: &Graph| tgf::run(graph, &[&x], &Budget::default()).unwrap();
            let (before, after) = (of(&plain), of(&graph));
            for output in 0..2 {
                let Data::String(words) = before[output].data() else {
                    panic!("a text")
                };
                let number = after[output].values::<i64>().unwrap()[0];
                assert_eq!(ports[output][number as usize], words[0]);
            }
            assert_eq!(before[2], after[2]);
        }
    }

    #[test]
    fn texts_that_are_read_stay() {
        let mut graph = labelled();
        graph.nodes[2]
            .attributes
            .insert("to".to_owned(), Attribute::Int(1));
        let same = graph.clone();
        assert!(rewrite(&mut graph).iter().all(Vec::is_empty));
        assert_eq!(graph, same);
        let mut graph = labelled();
        graph.inputs[0].dtype = Some(DType::String);
        assert!(rewrite(&mut graph).iter().all(Vec::is_empty));
    }
}

//! `tensorgrid run`: a model on an input, without a grid and without a proof.

use crate::answer::ShownAnswer;
use crate::arguments::RunArguments;
use crate::models;
use crate::{execution, text};
use std::path::{Path, PathBuf};
use std::time::Instant;
use tg_console::files;
use tg_console::outcome::{Exit, Failure, OrFail, Outcome, json, line};
use tg_cuda::{DeviceChoice, Executed};
use tg_exec::kernels::Cpu;
use tg_float::tgf::{Budget, Engine};
use tg_float::{Data, Dim, FloatTensor, Graph, convert, npy};
use tg_input::Kind;
use tg_ir::Answer;
use tg_ir::Program;
use tg_ir::coding::encode;

/// Values of an output that are printed; `--output` and `--json` give all.
const SHOWN: usize = 16;

/// Runs an ONNX file as it is (tier TGF-1), or a compiled model (tier TGX-1).
///
/// # Errors
/// If a file cannot be read, is refused, or the run fails.
pub fn run(arguments: &RunArguments, as_json: bool) -> Outcome {
    let onnx = arguments.model.extension().is_some_and(|end| end == "onnx");
    if onnx || arguments.model.is_dir() {
        if let DeviceChoice::Cuda(_) = arguments.device {
            let text = "an ONNX file or a Hugging Face folder is executed in floats, on the CPU: a GPU executes compiled models";
            return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)));
        }
        run_float(arguments, as_json)
    } else {
        run_integer(arguments, as_json)
    }
}

fn run_integer(arguments: &RunArguments, as_json: bool) -> Outcome {
    let model = models::compiled_model(&arguments.model)?;
    let reals = text::inputs(&model.program, (&arguments.text, &arguments.inputs))?;
    let input = encode(&model.program.input, &reals).or_fail(Exit::Usage, "take the input")?;
    let device = execution::choose(arguments.device)?;
    let start = Instant::now();
    let Executed { trace, on } = device
        .execute(&model, input)
        .or_fail(Exit::Failed, "execute the model")?;
    let elapsed_ms = start.elapsed().as_secs_f64() * 1e3;
    let values = trace.output_values();
    let answers = Answer::all(&model.program, &values);
    if let Some(path) = &arguments.output {
        write(path, &tensor_of(&model.program, &values, arguments.raw)?)?;
    }
    if as_json {
        return Ok(json(&serde_json::json!({
            "tier": "TGX-1", "program": model.program.id().to_string(), "ms": elapsed_ms, "values": values,
            "answer": answers.json(), "greatest": trace.top_class(), "trace": trace.digest().to_string(),
            "device": on.to_string(),
        }))?);
    }
    for text in answers.lines(arguments.raw) {
        line(text)?;
    }
    line(format_args!(
        "executed in exact integers (TGX-1) on {on} in {elapsed_ms:.2} ms; digest of all steps {}",
        trace.digest()
    ))?;
    Ok(())
}

/// The first output as a tensor: reals in the shape of the file, or the program's integers by row, column and channel.
fn tensor_of(program: &Program, values: &[i32], raw: bool) -> Result<FloatTensor, Failure> {
    let doing = "shape the output";
    let answer = Answer::new(program, values);
    if let (Some(port), false) = (answer.port(), raw) {
        let axes = port.shape.iter().map(|&axis| axis as usize).collect();
        let reals: Vec<f32> = answer.reals().into_iter().map(|real| real as f32).collect();
        return FloatTensor::of(axes, reals).or_fail(Exit::Failed, doing);
    }
    let shape = program.shape(program.output());
    let axes = [shape.height, shape.width, shape.channels].map(|axis| axis as usize);
    let stored: Vec<i32> = answer.stored().flatten().copied().collect();
    FloatTensor::of(axes.to_vec(), stored).or_fail(Exit::Failed, doing)
}

fn run_float(arguments: &RunArguments, as_json: bool) -> Outcome {
    let brought = models::brought(&arguments.model)?;
    let inputs = match arguments.text.given() {
        None => inputs(&brought.graph, &arguments.inputs)?,
        Some(given) => {
            let tokenizer = text::of_model(&brought, arguments.text.tokenizer.as_deref())?;
            let tokenizer = tokenizer.ok_or_else(text::missing)?;
            let limits = (brought.tokens.vocabulary, brought.tokens.positions);
            text::graph_inputs(&brought.graph, &tokenizer, given, limits)?
        }
    };
    let models::Brought { graph, labels, .. } = brought;
    let references: Vec<&FloatTensor> = inputs.iter().collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut engine = Engine::new(graph, Cpu::new(threads));
    let start = Instant::now();
    let outputs = engine
        .run(&references, &Budget::default())
        .or_fail(Exit::Failed, "execute the model")?;
    let elapsed_ms = start.elapsed().as_secs_f64() * 1e3;
    if let (Some(path), Some(first)) = (&arguments.output, outputs.first()) {
        write(path, first)?;
    }
    let names = outputs.first().map(|first| classes(first, &labels));
    let names = names.unwrap_or_default();
    if as_json {
        let outputs: Vec<_> = outputs.iter().map(tensor_json).collect();
        return Ok(json(&serde_json::json!({
            "tier": "TGF-1", "ms": elapsed_ms, "outputs": outputs, "classes": names,
        }))?);
    }
    for tensor in &outputs {
        line(format_args!("output {}", described_value(tensor)))?;
    }
    for name in names {
        line(format_args!("class {name}"))?;
    }
    line(format_args!(
        "executed in reproducible floats (TGF-1) in {elapsed_ms:.2} ms"
    ))?;
    Ok(())
}

/// The name of the greatest score of each row of an output that has a score for each name.
fn classes<'a>(scores: &FloatTensor, labels: &'a [String]) -> Vec<&'a str> {
    let values = scores.values::<f32>().unwrap_or_default();
    if labels.is_empty() || scores.shape().last() != Some(&labels.len()) {
        return Vec::new();
    }
    let greatest = |row: &[f32]| {
        let mut best = 0;
        for (index, value) in row.iter().enumerate() {
            if *value > row[best] {
                best = index;
            }
        }
        labels[best].as_str()
    };
    values.chunks_exact(labels.len()).map(greatest).collect()
}

/// An array that a file gives.
struct GivenArray {
    /// That of `name=file`, else its own in the file.
    name: Option<String>,
    tensor: FloatTensor,
    /// Whether the name is that of `name=file`.
    asked: bool,
    /// Numbers of JSON, which has neither types nor, in a flat list, axes.
    listed: bool,
}

/// The graph's inputs from files, by name or, without one, in the graph's order.
///
/// # Errors
/// If a file cannot be read, or names no input.
pub fn inputs(graph: &Graph, paths: &[PathBuf]) -> Result<Vec<FloatTensor>, Failure> {
    let usage = |text: String| Failure::new(Exit::Usage, anyhow::anyhow!(text));
    let mut given = arrays(paths)?;
    if let ([only], [_], [path]) = (given.as_mut_slice(), graph.inputs.as_slice(), paths)
        && models::split(path).0.is_none()
    {
        // One array for one input needs no name.
        only.name = None;
    }
    let mut tensors: Vec<FloatTensor> = Vec::with_capacity(graph.inputs.len());
    let mut every_one_given = true;
    for input in &graph.inputs {
        let name = Some(input.name.as_str());
        let named = given.iter().position(|it| it.name.as_deref() == name);
        let found = named.or_else(|| given.iter().position(|it| it.name.is_none()));
        if let Some(index) = found {
            tensors.push(fitted(given.remove(index), input));
            continue;
        }
        every_one_given = false;
        let filled = text::left_out(input, graph.inputs.iter().zip(&tensors));
        tensors.push(filled.ok_or_else(|| {
            usage(format!(
                "the model takes {}; no file is given for `{}`",
                described(graph),
                input.name
            ))
        })?);
    }
    if every_one_given {
        // Beside all inputs a file may have a target, say.
        let unread = given.extract_if(.., |it| it.name.is_some() && !it.asked);
        let unread = unread.filter_map(|it| it.name);
        unread.for_each(|name| models::say_unread(&name));
    }
    match given.first().map(|it| &it.name) {
        None => Ok(tensors),
        Some(Some(name)) => Err(usage(format!(
            "there is an array `{}`; the model takes {} only",
            name.escape_debug(),
            described(graph)
        ))),
        Some(None) => Err(usage(format!("the model takes {} only", described(graph)))),
    }
}

/// The arrays of all files in their order.
fn arrays(paths: &[PathBuf]) -> Result<Vec<GivenArray>, Failure> {
    let mut all = Vec::new();
    for path in paths {
        let (asked, file) = models::split(path);
        let doing = format!("read the input {}", file.display());
        let kind = Kind::of_path(file).unwrap_or(Kind::Npy);
        let bytes = files::read(file, tg_input::FILE_BYTES_MAX as u64)?;
        let mut read = tg_input::read_arrays(&bytes, kind).or_fail(Exit::Usage, doing.clone())?;
        if let Some(name) = asked {
            let [(own, _)] = read.as_mut_slice() else {
                let text = format!("{doing}: it holds {} arrays for one name", read.len());
                return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)));
            };
            *own = Some(name.to_owned());
        }
        let listed = kind == Kind::Json;
        let named = read.into_iter();
        all.extend(named.map(|(name, tensor)| GivenArray {
            asked: asked.is_some(),
            name,
            tensor,
            listed,
        }));
    }
    Ok(all)
}

/// An array as it is given; one of JSON in the type of its input and, if it has as many elements, in its shape.
fn fitted(given: GivenArray, input: &tg_float::Input) -> FloatTensor {
    let GivenArray { tensor, listed, .. } = given;
    if !listed {
        return tensor;
    }
    let known = |axis: &Dim| match axis {
        Dim::Known(size) => Some(*size),
        Dim::Named(_) | Dim::Unknown => None,
    };
    let axes = input.shape.as_ref().map(|axes| axes.iter().map(known));
    let axes: Option<Vec<usize>> = axes.and_then(Iterator::collect);
    let shaped = axes.and_then(|axes| FloatTensor::new(axes, tensor.data().clone()).ok());
    let tensor = shaped.unwrap_or(tensor);
    let mode = convert::CastMode::default();
    let cast = input
        .dtype
        .and_then(|dtype| convert::cast(&tensor, dtype, mode));
    cast.unwrap_or(tensor)
}

/// The inputs of a graph in words.
pub fn described(graph: &Graph) -> String {
    let axis = |dim: &Dim| match dim {
        Dim::Known(size) => size.to_string(),
        Dim::Named(name) => name.clone(),
        Dim::Unknown => "?".to_owned(),
    };
    let one = |input: &tg_float::Input| {
        let shape = input.shape.as_ref().map(|axes| {
            let axes: Vec<String> = axes.iter().map(axis).collect();
            format!(" [{}]", axes.join(", "))
        });
        let dtype = input.dtype.map(|dtype| format!(" {dtype:?}"));
        format!(
            "`{}`{}{}",
            input.name,
            dtype.unwrap_or_default(),
            shape.unwrap_or_default()
        )
    };
    let all: Vec<String> = graph.inputs.iter().map(one).collect();
    all.join(", ")
}

/// A tensor as JSON: shape, element type and values.
pub fn tensor_json(tensor: &FloatTensor) -> serde_json::Value {
    let values = match tensor.data() {
        Data::String(texts) => serde_json::json!(texts),
        _ => serde_json::json!(reals(tensor)),
    };
    serde_json::json!({
        "shape": tensor.shape(), "type": format!("{:?}", tensor.dtype()), "values": values,
    })
}

/// The shape and the first values of a tensor.
pub fn described_value(tensor: &FloatTensor) -> String {
    let values = match tensor.data() {
        Data::String(texts) => shown(texts),
        _ => reals(tensor).map_or_else(String::new, |values| shown(&values)),
    };
    format!("{:?} {values}", tensor.shape())
}

fn reals(tensor: &FloatTensor) -> Option<Vec<f64>> {
    tg_float::convert::to_f64(tensor.data())
}

fn shown<T: std::fmt::Debug>(values: &[T]) -> String {
    if values.len() <= SHOWN {
        return format!("{values:?}");
    }
    format!("{:?} and {} more", &values[..SHOWN], values.len() - SHOWN)
}

fn write(path: &Path, tensor: &FloatTensor) -> Outcome {
    let bytes = npy::write_npy(tensor).ok_or_else(|| {
        Failure::new(
            Exit::Failed,
            anyhow::anyhow!("an output of type {:?} has no numpy form", tensor.dtype()),
        )
    })?;
    files::write(path, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tg_float::{DType, Input};

    fn graph(inputs: &[(&str, DType, &[usize])]) -> Graph {
        let mut graph = Graph::default();
        for (name, dtype, shape) in inputs {
            let value = graph.fresh(*name);
            graph.inputs.push(Input {
                value,
                name: (*name).to_owned(),
                dtype: Some(*dtype),
                shape: Some(shape.iter().map(|&size| Dim::Known(size)).collect()),
            });
        }
        graph
    }

    /// Models that run in floats took `.npy` files alone.
    #[test]
    fn a_float_model_takes_json_by_name_or_flat() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("a file");
            path
        };
        let pair = graph(&[("ids", DType::I64, &[1, 2]), ("x", DType::F32, &[2, 2])]);
        let named = file("named.json", r#"{"x": [1, 2, 3, 4], "ids": [[5, 6]]}"#);
        let read = inputs(&pair, std::slice::from_ref(&named)).expect("both inputs");
        assert_eq!(
            read[0],
            FloatTensor::of(vec![1, 2], vec![5i64, 6]).expect("ids")
        );
        let x = FloatTensor::of(vec![2, 2], vec![1f32, 2.0, 3.0, 4.0]).expect("x");
        assert_eq!(read[1], x);
        let ids = file("ids.json", "[[5, 6]]");
        let x_file = file("x.json", r#"{"input_data": [1, 2, 3, 4]}"#);
        let by_name = |name: &str, path: &Path| PathBuf::from(format!("{name}={}", path.display()));
        let each = [by_name("x", &x_file), by_name("ids", &ids)];
        assert_eq!(inputs(&pair, &each).expect("both inputs"), read);
        let one = graph(&[("y", DType::F32, &[2, 2])]);
        let other = file("other.json", r#"{"z": [1, 2, 3, 4]}"#);
        assert_eq!(inputs(&one, &[other]).expect("its one array"), [x]);
        for (graph, paths) in [
            (&pair, vec![ids]),
            (&one, vec![named.clone()]),
            (&one, vec![by_name("y", &named)]),
        ] {
            let refused = inputs(graph, &paths).expect_err("not its inputs");
            assert_eq!(refused.exit, Exit::Usage, "{paths:?}");
        }
    }
}

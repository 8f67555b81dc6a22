//! `tensorgrid run`: a model on an input, without a grid and without a proof.

use crate::cli::RunArguments;
use crate::offline::answer::ShownAnswer;
use crate::offline::{execution, files, text};
use crate::outcome::{Exit, Failure, OrFail, Outcome, json, line};
use std::path::{Path, PathBuf};
use std::time::Instant;
use tg_cuda::{DeviceChoice, Executed};
use tg_exec::kernels::Cpu;
use tg_float::tgf::{Budget, Engine};
use tg_float::{Data, Dim, FloatTensor, Graph, npy};
use tg_ir::Answer;
use tg_ir::Program;
use tg_ir::coding::encode;

/// Values of an output that are printed; `--output` and `--json` give all.
const SHOWN: usize = 16;

/// Runs an ONNX file as it is (tier TGF-1), or a compiled model (tier TGX-1).
pub(crate) fn run(arguments: &RunArguments, as_json: bool) -> Outcome {
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
    let model = files::compiled_model(&arguments.model)?;
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
        "executed exactly (TGX-1) on {on} in {elapsed_ms:.2} ms; trace {}",
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
    let brought = files::brought(&arguments.model)?;
    let inputs = match arguments.text.given() {
        None => inputs(&brought.graph, &arguments.inputs)?,
        Some(given) => {
            let tokenizer = text::of_model(&brought, arguments.text.tokenizer.as_deref())?;
            let tokenizer = tokenizer.ok_or_else(text::missing)?;
            let limits = (brought.tokens.vocabulary, brought.tokens.positions);
            text::graph_inputs(&brought.graph, &tokenizer, given, limits)?
        }
    };
    let files::Brought { graph, labels, .. } = brought;
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

/// The graph's inputs from files, in the graph's order or by `name=file`.
pub(crate) fn inputs(graph: &Graph, paths: &[PathBuf]) -> Result<Vec<FloatTensor>, Failure> {
    let usage = |text: String| Failure::new(Exit::Usage, anyhow::anyhow!(text));
    let named: Vec<(Option<&str>, &Path)> = paths.iter().map(|path| files::split(path)).collect();
    let mut unnamed = named.iter().filter(|(name, _)| name.is_none());
    let mut tensors: Vec<FloatTensor> = Vec::with_capacity(graph.inputs.len());
    let mut given = 0;
    for input in &graph.inputs {
        let by_name = named.iter().find(|(name, _)| *name == Some(&input.name));
        let Some((_, path)) = by_name.or_else(|| unnamed.next()) else {
            let filled = text::left_out(input, graph.inputs.iter().zip(&tensors));
            tensors.push(filled.ok_or_else(|| {
                usage(format!(
                    "the model takes {}; no file is given for `{}`",
                    described(graph),
                    input.name
                ))
            })?);
            continue;
        };
        given += 1;
        let bytes = files::read(path, tg_compile::input::FILE_BYTES_MAX as u64)?;
        let doing = format!("read the input {}", path.display());
        tensors.push(npy::read_npy(&bytes).or_fail(Exit::Usage, doing)?);
    }
    if paths.len() > given {
        return Err(usage(format!("the model takes {} only", described(graph))));
    }
    Ok(tensors)
}

/// The inputs of a graph in words.
pub(crate) fn described(graph: &Graph) -> String {
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
pub(crate) fn tensor_json(tensor: &FloatTensor) -> serde_json::Value {
    let values = match tensor.data() {
        Data::String(texts) => serde_json::json!(texts),
        _ => serde_json::json!(reals(tensor)),
    };
    serde_json::json!({
        "shape": tensor.shape(), "type": format!("{:?}", tensor.dtype()), "values": values,
    })
}

/// The shape and the first values of a tensor.
pub(crate) fn described_value(tensor: &FloatTensor) -> String {
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

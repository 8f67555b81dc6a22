//! Models, proofs and inputs as files.

use std::path::{Path, PathBuf};
use tg_compile::integer::{InputOrder, InputPlaces};
use tg_compile::passes::Prepared;
use tg_console::files::read;
use tg_console::outcome::{Exit, Failure, OrFail, say};
use tg_float::Graph;
use tg_input::{Expected, FILE_BYTES_MAX, Kind, Loaded, NamedInput};
use tg_ir::{CompiledModel, ExecutableModel, Program};
use tg_onnx::ReadLimits;
use tg_pretrained::{ModelTokens, PretrainedModel};
use tg_proof::sequence::SEQUENCE_FILE_MAX;
use tg_proof::{ProofFile, PublicModel, SequenceFile};

/// Most bytes of a compiled model.
const MODEL_MAX: u64 = 256 << 20;
/// Most bytes of a public model.
const PUBLIC_MODEL_MAX: u64 = 16 << 20;

/// A model as people bring it: an ONNX file, or a folder that Hugging Face's `save_pretrained` wrote.
#[derive(Debug)]
pub struct Brought {
    /// The model in floats.
    pub graph: Graph,
    /// Names of the classes of its first output, if the folder has them.
    pub labels: Vec<String>,
    /// What the folder says of its tokens.
    pub tokens: ModelTokens,
    /// The tokenizer of the folder, if it has one.
    pub tokenizer: Option<PathBuf>,
}

/// Reads an ONNX file or a Hugging Face folder.
///
/// # Errors
/// If it is neither, or holds what is not taken.
pub fn brought(path: &Path) -> Result<Brought, Failure> {
    let doing = format!("read {}", path.display());
    if path.is_dir() {
        let PretrainedModel {
            graph,
            labels,
            tokens,
        } = tg_pretrained::read(path).or_fail(Exit::Usage, doing)?;
        let tokenizer = path.join("tokenizer.json");
        return Ok(Brought {
            graph,
            labels,
            tokens,
            tokenizer: tokenizer.is_file().then_some(tokenizer),
        });
    }
    let limits = ReadLimits::default();
    let bytes = read(path, limits.file_bytes as u64)?;
    let graph = tg_onnx::read(&bytes, path.parent(), &limits).or_fail(Exit::Usage, doing)?;
    Ok(Brought {
        graph,
        labels: Vec::new(),
        tokens: ModelTokens::default(),
        tokenizer: None,
    })
}

/// Reads a compiled model.
///
/// # Errors
/// If it is not one.
pub fn compiled_model(path: &Path) -> Result<ExecutableModel, Failure> {
    let bytes = read(path, MODEL_MAX)?;
    if is_onnx(path, &bytes) {
        let text = format!("{} is an ONNX file, not a compiled model", path.display());
        return Err(
            Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint(format!(
                "compile it with `tensorgrid model compile {} --calibrate DIR ...`",
                path.display()
            )),
        );
    }
    CompiledModel::read(&bytes)
        .or_fail(
            Exit::Usage,
            format!("{} is not a compiled model", path.display()),
        )
        .map_err(|failure| {
            failure
                .hint("compile one with `tensorgrid model compile FILE.onnx --calibrate DIR ...`")
        })
}

/// Whether a file is an ONNX one by its name, or begins as one does: with the version of the format as the first field.
fn is_onnx(path: &Path, bytes: &[u8]) -> bool {
    path.extension().is_some_and(|it| it == "onnx") || bytes.first() == Some(&ONNX_FIRST)
}

/// The first byte of an ONNX file: field 1, a number.
const ONNX_FIRST: u8 = 0x08;

/// Reads a public model and checks its registration proof.
///
/// # Errors
/// If it is not one, or its registration proof does not verify.
pub fn public_model(path: &Path) -> Result<PublicModel, Failure> {
    let model = PublicModel::decode(&read(path, PUBLIC_MODEL_MAX)?)
        .or_fail(
            Exit::Usage,
            format!("{} is not a public model", path.display()),
        )
        .map_err(|failure| failure.hint("the public part of a model is its .tgv file"))?;
    model.verify_registration().or_fail(
        Exit::Rejected,
        format!("the registration proof in {} is rejected", path.display()),
    )?;
    Ok(model)
}

/// A proof, with or without a sequence around it.
#[derive(Debug)]
pub enum AnyProof {
    /// Of one execution or several.
    Plain(ProofFile),
    /// Of a sequence that was written.
    Sequence(SequenceFile),
}

/// Reads a proof file or a sequence file.
///
/// # Errors
/// If it is neither.
pub fn proof_file(path: &Path, flip_byte: Option<usize>) -> Result<AnyProof, Failure> {
    let mut bytes = read(path, SEQUENCE_FILE_MAX as u64)?;
    if let Some(position) = flip_byte {
        let length = bytes.len();
        let byte = bytes.get_mut(position).ok_or_else(|| {
            Failure::new(
                Exit::Usage,
                anyhow::anyhow!("--flip-byte {position}: the file has {length} bytes"),
            )
        })?;
        *byte ^= 1;
    }
    if SequenceFile::is_one(&bytes) {
        let text = format!("{} is not a sequence file", path.display());
        let file = SequenceFile::read(&bytes).or_fail(Exit::Rejected, text)?;
        return Ok(AnyProof::Sequence(file));
    }
    let text = format!("{} is not a proof file", path.display());
    let file = ProofFile::read(&bytes).or_fail(Exit::Rejected, text)?;
    Ok(AnyProof::Plain(file))
}

/// The elements of all outputs as integers.
#[must_use]
pub fn output_values(program: &Program, bytes: &[u8]) -> Vec<i32> {
    tg_ir::coding::output_of(program, bytes).unwrap_or_default()
}

/// One inference's input as reals in storage order: from one file, or from one for each input of the model, by name or in order.
///
/// # Errors
/// If the files are not an input of this program.
pub fn inputs(paths: &[PathBuf], program: &Program) -> Result<Vec<f32>, Failure> {
    let named = NamedInput::all_of(program);
    let expected = Expected::of_spec(&program.input, &named);
    let usage = |text: String| Failure::new(Exit::Usage, anyhow::anyhow!(text));
    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        let (name, file) = split(path);
        let doing = format!("read the input {}", file.display());
        let kind = Kind::of_path(file)
            .ok_or_else(|| usage(format!("{doing}: not a .npy, .npz, .json or .png file")))?;
        files.push((name, kind, read(file, FILE_BYTES_MAX as u64)?));
    }
    match files.as_slice() {
        // A model of constants.
        [] if signed_without_inputs(program) => Ok(vec![0.0; program.input.shape.elements()]),
        [] => Err(usage("the model takes an input file".to_owned())),
        [(None, kind, bytes)] => {
            let doing = format!("read the input {}", paths[0].display());
            let (row, unread) =
                tg_input::read_one(bytes, *kind, expected).or_fail(Exit::Usage, doing)?;
            unread.iter().for_each(|name| say_unread(name));
            Ok(row)
        }
        several => {
            let each = several.iter();
            let each: Vec<_> = each
                .map(|(name, kind, bytes)| (*name, *kind, bytes.as_slice()))
                .collect();
            tg_input::read_each(&each, expected).or_fail(Exit::Usage, "read the inputs")
        }
    }
}

/// Most inputs that are read at once.
const INPUTS_MAX: usize = 100_000;

/// Inputs in storage order, each with what it is of: of each file, of each file of a folder (in the order of their names), and of each row of an
/// array that has one axis more than the input.
///
/// # Errors
/// If a file is no input of this program, or there are none or too many.
pub fn each_input(
    paths: &[PathBuf],
    program: &Program,
) -> Result<Vec<(String, Vec<f32>)>, Failure> {
    let named = NamedInput::all_of(program);
    let expected = Expected::of_spec(&program.input, &named);
    let usage = |text: String| Failure::new(Exit::Usage, anyhow::anyhow!(text));
    let mut inputs = Vec::new();
    for file in each_file(paths)? {
        let doing = format!("read the input {}", file.display());
        let kind = Kind::of_path(&file)
            .ok_or_else(|| usage(format!("{doing}: not a .npy, .npz, .json or .png file")))?;
        let bytes = read(&file, FILE_BYTES_MAX as u64)?;
        let rows = tg_input::read(&bytes, kind, expected).or_fail(Exit::Usage, doing)?;
        let is_one = rows.len() == 1;
        for (index, row) in rows.into_iter().enumerate() {
            let name = match is_one {
                true => file.display().to_string(),
                false => format!("{}[{index}]", file.display()),
            };
            inputs.push((name, row));
        }
        if inputs.len() > INPUTS_MAX {
            return Err(usage(format!("there are more than {INPUTS_MAX} inputs")));
        }
    }
    match inputs.is_empty() {
        true => Err(usage("there is no input in what was named".to_owned())),
        false => Ok(inputs),
    }
}

/// The files that are named, and of folders those that can be inputs.
fn each_file(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let doing = format!("list {}", path.display());
        let entries = std::fs::read_dir(path).or_fail(Exit::Usage, doing.clone())?;
        let mut inside = Vec::new();
        for entry in entries {
            let file = entry.or_fail(Exit::Usage, doing.clone())?.path();
            if file.is_file() && Kind::of_path(&file).is_some() {
                inside.push(file);
            }
        }
        inside.sort();
        files.append(&mut inside);
    }
    Ok(files)
}

/// Says that an array of a file is not read.
pub fn say_unread(name: &str) {
    say(format_args!(
        "note: no input of the model is called `{}`; that array is not read",
        name.escape_debug()
    ));
}

/// Whether a program is that of a file without inputs.
fn signed_without_inputs(program: &Program) -> bool {
    let signature = program.signature.as_ref();
    signature.is_some_and(|signature| signature.inputs.is_empty())
}

/// `name=file`, or a file.
pub fn split(path: &Path) -> (Option<&str>, &Path) {
    match path.to_str().and_then(|text| text.split_once('=')) {
        Some((name, file)) if !path.exists() => (Some(name), Path::new(file)),
        _ => (None, path),
    }
}

/// The inputs of a graph by their names, as the program that is made of it holds them.
pub fn named_inputs(order: &InputOrder, prepared: &Prepared) -> Vec<NamedInput> {
    let places = order.places(prepared).into_iter();
    let one = |it: InputPlaces| NamedInput {
        name: it.name,
        shape: it.shape,
        places: it.places,
    };
    places.map(one).collect()
}

/// Calibration inputs for an imported model.
///
/// # Errors
/// If the files are not inputs of this model.
pub fn calibration(
    path: Option<&Path>,
    prepared: &Prepared,
    mean: &[f32],
    std: &[f32],
) -> Result<Loaded, Failure> {
    let (shape, order) = tg_compile::integer::input_order(prepared)
        .or_fail(Exit::Usage, "read the shape of the model's input")?;
    if prepared.graph.inputs.is_empty() {
        // A model of constants.
        let rows = vec![vec![0.0; shape.elements()]];
        return Ok(Loaded {
            rows,
            ..Loaded::default()
        });
    }
    let Some(path) = path else {
        let names: Vec<String> = named_inputs(&order, prepared)
            .into_iter()
            .map(|input| input.name)
            .collect();
        let failure = anyhow::anyhow!(
            "the model takes inputs ({}), and no file gives typical ones",
            names.join(", ")
        );
        return Err(Failure::new(Exit::Usage, failure)
            .hint("name a file or a folder of them with --calibrate"));
    };
    tg_input::load(
        path,
        Expected {
            shape,
            mean,
            std,
            numbers: false,
            inputs: &named_inputs(&order, prepared),
        },
    )
    .or_fail(Exit::Usage, "read the calibration inputs")
}

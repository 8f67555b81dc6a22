//! What a proof says of each input and output: as a command names it, and as it is read from a file.

use crate::answer::number;
use crate::arguments::{Mode, ProveArguments};
use tg_console::outcome::{Exit, Failure};
use tg_input::NamedInput;
use tg_ir::{Answer, Coding, IntTensor, Program, TensorId};
use tg_proof::{Modes, PartModes, ProofFile, Visibility};

/// Values of an input that are printed; `--json` gives all.
const SHOWN: usize = 16;

/// Names of inputs, and of outputs.
type Names = [Vec<String>; 2];

/// The modes that a command names: `--input-mode` and `--output-mode`, but for the inputs and outputs that have their own.
///
/// # Errors
/// If a name is none of the model's file, is both an input's and an output's, or is given two modes.
pub fn of_command(arguments: &ProveArguments, program: &Program) -> Result<Modes, Failure> {
    let usual = [arguments.input_mode, arguments.output_mode].map(visibility);
    let names = names_of(program);
    let mut own = [0, 1].map(|side: usize| vec![None; names[side].len()]);
    let lists = [
        (&arguments.show, Visibility::Public),
        (&arguments.commit, Visibility::Committed),
        (&arguments.hide, Visibility::Hidden),
    ];
    for (list, mode) in lists {
        for name in list {
            let (side, index) = find(name, &names)?;
            if own[side][index].replace(mode).is_some() {
                let name = name.escape_debug();
                return Err(usage(format!("`{name}` is given two modes")));
            }
        }
    }
    let of = |side: usize| {
        if own[side].iter().all(Option::is_none) {
            return usual[side];
        }
        let modes = own[side].iter().map(|mode| mode.unwrap_or(usual[side]));
        let modes: Vec<Visibility> = modes.collect();
        let listed = PartModes::new(&modes).map(Visibility::Each);
        // What is no list is one word: of one part, or of parts that are all public or all hidden.
        listed.unwrap_or(modes[0])
    };
    Ok(Modes {
        input: of(0),
        output: of(1),
    })
}

const fn visibility(mode: Mode) -> Visibility {
    match mode {
        Mode::Public => Visibility::Public,
        Mode::Committed => Visibility::Committed,
        Mode::Hidden => Visibility::Hidden,
    }
}

/// The input (0) or output (1) of a name: as it is, or after `input:` or `output:`.
fn find(name: &str, names: &Names) -> Result<(usize, usize), Failure> {
    let of = |side: usize, name: &str| {
        let index = names[side].iter().position(|own| own == name)?;
        Some((side, index))
    };
    let written = name.escape_debug();
    match (of(0, name), of(1, name)) {
        (Some(_), Some(_)) => Err(usage(format!(
            "`{written}` is an input and an output: write `input:{written}` or `output:{written}`"
        ))),
        (Some(found), None) | (None, Some(found)) => Ok(found),
        (None, None) => {
            let input = name.strip_prefix("input:").and_then(|name| of(0, name));
            let output = name.strip_prefix("output:").and_then(|name| of(1, name));
            input.or(output).ok_or_else(|| unknown(name, names))
        }
    }
}

/// The names of inputs and of outputs; none if the program does not say what they are.
fn names_of(program: &Program) -> Names {
    let Some(signature) = &program.signature else {
        return [Vec::new(), Vec::new()];
    };
    let inputs = signature.inputs.iter().map(|port| port.name.clone());
    let outputs = signature.outputs.iter().map(|port| port.name.clone());
    [inputs.collect(), outputs.collect()]
}

fn unknown(name: &str, names: &Names) -> Failure {
    let name = name.escape_debug();
    if names.iter().all(Vec::is_empty) {
        return usage(format!(
            "there is no `{name}`: this model does not name its inputs and outputs; use --input-mode and --output-mode"
        ));
    }
    let list = |what: &str, names: &[String]| {
        let names: Vec<String> = names
            .iter()
            .map(|name| format!("`{}`", name.escape_debug()))
            .collect();
        match names.as_slice() {
            [] => format!("it has no {what}"),
            [only] => format!("its {what} is {only}"),
            several => format!("its {what}s are {}", several.join(", ")),
        }
    };
    let [inputs, outputs] = names;
    usage(format!(
        "the model has no input or output `{name}`: {}, {}",
        list("input", inputs),
        list("output", outputs)
    ))
}

fn usage(text: String) -> Failure {
    Failure::new(Exit::Usage, anyhow::anyhow!(text))
}

/// Whether a commitment is among what is shown.
pub fn commits(mode: Visibility) -> bool {
    mode.of_parts(1).contains(&Visibility::Committed)
}

/// A mode as `--json` gives it.
const fn word(mode: Visibility) -> &'static str {
    match mode {
        Visibility::Public => "public",
        Visibility::Committed => "committed",
        Visibility::Hidden => "hidden",
        Visibility::Each(_) => "each",
    }
}

/// An input or output: its name, its mode, and what the file has of it if it is one of a list.
#[derive(Debug)]
struct PartShown<'a> {
    name: String,
    mode: Visibility,
    bytes: &'a [u8],
}

/// What a proof that was verified shows, input by input and output by output.
#[derive(Debug)]
pub struct ModesShown<'a> {
    program: &'a Program,
    batch: usize,
    modes: Modes,
    inputs: Vec<PartShown<'a>>,
    outputs: Vec<PartShown<'a>>,
}

impl<'a> ModesShown<'a> {
    /// Of a proof of a program.
    pub fn of(program: &'a Program, file: &'a ProofFile) -> Self {
        let modes = file.statement.modes();
        let [inputs, mut outputs] = names_of(program);
        if outputs.is_empty() {
            let count = program.outputs().len();
            outputs = (0..count).map(|index| index.to_string()).collect();
        }
        let bytes = file.listed(program);
        let with = |names: Vec<String>, mode: Visibility, bytes: Vec<&'a [u8]>| {
            let modes = mode.of_parts(names.len());
            let bytes = bytes.into_iter().chain(std::iter::repeat(&[][..]));
            let parts = names.into_iter().zip(modes).zip(bytes);
            parts
                .map(|((name, mode), bytes)| PartShown { name, mode, bytes })
                .collect()
        };
        let [of_inputs, of_outputs] = bytes;
        Self {
            program,
            batch: file.statement.batch as usize,
            modes,
            inputs: with(inputs, modes.input, of_inputs),
            outputs: with(outputs, modes.output, of_outputs),
        }
    }

    /// The modes of input and output as `--json` gives them: "each" if each part has its own.
    pub fn words(&self) -> [&'static str; 2] {
        [self.modes.input, self.modes.output].map(word)
    }

    /// The modes of input and output as people read them.
    pub fn sentences(&self) -> [String; 2] {
        let sides = [
            (self.modes.input, &self.inputs),
            (self.modes.output, &self.outputs),
        ];
        sides.map(|(mode, parts)| match mode {
            Visibility::Each(_) => {
                let parts: Vec<String> = parts
                    .iter()
                    .map(|part| format!("{} {}", part.name.escape_debug(), word(part.mode)))
                    .collect();
                parts.join(", ")
            }
            mode => word(mode).to_owned(),
        })
    }

    /// The integers of all outputs, of one inference after the other, with zeros for those that are not shown; nothing if none
    /// is shown.
    pub fn output_values(&self, file: &ProofFile) -> Vec<i32> {
        match self.modes.output {
            Visibility::Public => crate::models::output_values(self.program, &file.output),
            Visibility::Committed | Visibility::Hidden => Vec::new(),
            Visibility::Each(_) => self.listed_values(),
        }
    }

    fn listed_values(&self) -> Vec<i32> {
        let ids = self.program.outputs();
        let each = self.outputs.iter().zip(ids).map(|(part, id)| {
            let (kind, elements) = (
                self.program.element_type(id),
                self.program.shape(id).elements(),
            );
            let public = part.mode == Visibility::Public;
            let values = public
                .then(|| IntTensor::from_bytes(kind, part.bytes))
                .flatten();
            let values = values.map_or_else(|| vec![0; elements * self.batch], |own| own.widened());
            (values, elements)
        });
        let each: Vec<(Vec<i32>, usize)> = each.collect();
        let of_inference = |inference: usize| {
            let each = each.iter();
            each.flat_map(move |(values, elements)| {
                let values = values.iter().skip(inference * elements);
                values.take(*elements).copied()
            })
        };
        (0..self.batch).flat_map(of_inference).collect()
    }

    /// The answers of the outputs that are shown.
    pub fn answers<'b>(&'b self, values: &'b [i32]) -> Vec<Answer<'b>> {
        let all = Answer::all(self.program, values).into_iter();
        let Visibility::Each(modes) = self.modes.output else {
            return all.collect();
        };
        let shown = all.zip(modes.iter());
        shown
            .filter_map(|(answer, mode)| (mode == Visibility::Public).then_some(answer))
            .collect()
    }

    /// The integers of the outputs that are shown, one output after the other.
    pub fn shown_values(&self, values: &[i32]) -> Vec<i32> {
        if !matches!(self.modes.output, Visibility::Each(_)) {
            return values.to_vec();
        }
        let answers = self.answers(values);
        answers
            .iter()
            .flat_map(|answer| answer.stored().flatten().copied())
            .collect()
    }

    /// The numbers of an input that is shown beside others, in the order of the file: reals, tokens, or ranks among the
    /// program's thresholds.
    fn numbers(&self, part: &PartShown<'_>) -> Option<Vec<f64>> {
        let listed = matches!(self.modes.input, Visibility::Each(_));
        if !listed || part.mode != Visibility::Public {
            return None;
        }
        let input = &self.program.input;
        let named = NamedInput::all_of(self.program);
        let places = named
            .into_iter()
            .find(|own| own.name == part.name)?
            .places
            .into_iter();
        let channels = input.shape.channels as usize;
        let units: Vec<f64> = places
            .map(|place| f64::from(input.unit(place % channels)))
            .collect();
        let kind = self.program.element_type(TensorId::INPUT);
        let values = IntTensor::from_bytes(kind, part.bytes)?.widened();
        let values = values.into_iter().zip(units.iter().cycle());
        Some(
            values
                .map(|(value, unit)| f64::from(value) * unit)
                .collect(),
        )
    }

    /// A line for each input and output with its mode, if each has its own, and the numbers of inputs that are shown.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let ranks = matches!(self.program.input.coding, Coding::Ranks(_));
        if matches!(self.modes.input, Visibility::Each(_)) {
            lines.extend(self.inputs.iter().map(|part| {
                let line = format!("input {}: {}", part.name.escape_debug(), word(part.mode));
                let Some(numbers) = self.numbers(part) else {
                    return line;
                };
                let first: Vec<String> = numbers.iter().take(SHOWN).map(|&x| number(x)).collect();
                let more = match numbers.len().saturating_sub(SHOWN) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                let what = if ranks { ", ranks" } else { "" };
                format!("{line}{what}: {}{more}", first.join(", "))
            }));
        }
        if matches!(self.modes.output, Visibility::Each(_)) {
            lines.extend(self.outputs.iter().map(|part| {
                let name = part.name.escape_debug();
                format!("output {name}: {}", word(part.mode))
            }));
        }
        lines
    }

    /// Name and mode of each input, and the numbers of those that are shown beside others.
    pub fn inputs_json(&self) -> serde_json::Value {
        let one = |part: &PartShown<'_>| {
            let values = self.numbers(part);
            serde_json::json!({ "name": part.name, "mode": word(part.mode), "values": values })
        };
        self.inputs.iter().map(one).collect()
    }

    /// Name and mode of each output.
    pub fn outputs_json(&self) -> serde_json::Value {
        let one = |part: &PartShown<'_>| serde_json::json!({ "name": part.name, "mode": word(part.mode) });
        self.outputs.iter().map(one).collect()
    }
}

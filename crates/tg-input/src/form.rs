//! What one input looks like, how files order it, and what can be wrong with a file.

use tg_float::npy::header::NpyProblem;
use tg_ir::coding::channels_first;
use tg_ir::{Coding, InputSpec, Program, Shape, Signature};

/// Largest input file that is read.
pub const FILE_BYTES_MAX: usize = 256 << 20;
/// Most rows of one file, and most files of one folder.
pub const ROWS_MAX: usize = 100_000;

/// The kinds of input files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A numpy array of numbers or truth values, C order.
    Npy,
    /// Several numpy arrays, by the names of the model's inputs.
    Npz,
    /// Lists of numbers: `{"input_data": [[...], ...]}`, nested or flat, or `{"NAME": [...], ...}`.
    Json,
    /// An 8-bit image of exactly the model's size.
    Png,
}

impl Kind {
    /// The kind of a file by the end of its name.
    #[must_use]
    pub fn of_path(path: &std::path::Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "npy" => Some(Self::Npy),
            "npz" => Some(Self::Npz),
            "json" => Some(Self::Json),
            "png" => Some(Self::Png),
            _ => None,
        }
    }
}

/// What one input looks like, and how 8-bit images become reals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected<'a> {
    /// Shape of one input.
    pub shape: Shape,
    /// Per channel, or empty; see [`InputSpec::mean`].
    pub mean: &'a [f32],
    /// Per channel, or empty.
    pub std: &'a [f32],
    /// Whether 8-bit values are numbers as they are, not an image's.
    pub numbers: bool,
    /// The inputs of the model's file, if they are known.
    pub inputs: &'a [NamedInput],
}

/// An input of a model's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedInput {
    /// Its name.
    pub name: String,
    /// Lengths of its axes.
    pub shape: Vec<usize>,
    /// Per element in the order of the file, its place in a row in storage order.
    pub places: Vec<usize>,
}

impl NamedInput {
    /// The inputs of a program's file; none if the program does not say what they are.
    #[must_use]
    pub fn all_of(program: &Program) -> Vec<Self> {
        let signature = program.signature.as_ref();
        let of_signature = |signature: &Signature| {
            let places = signature.input_places(program.input.shape)?;
            let inputs = signature.inputs.iter().zip(places);
            let one = |(port, places): (&tg_ir::InputPort, Vec<usize>)| Self {
                name: port.name.clone(),
                shape: port.shape.iter().map(|&axis| axis as usize).collect(),
                places,
            };
            Some(inputs.map(one).collect())
        };
        signature.and_then(of_signature).unwrap_or_default()
    }

    /// How many rows an array of this shape holds, if it holds some: axes of one element may be left out, a row may be flat, and
    /// before its axes there may be one that counts rows.
    pub(super) fn rows_of(&self, got: &[usize]) -> Option<usize> {
        let long = |axes: &[usize]| -> Vec<usize> {
            axes.iter().copied().filter(|&axis| axis != 1).collect()
        };
        let own = long(&self.shape);
        let one = |axes: &[usize]| long(axes) == own || axes == [self.places.len()];
        if one(got) {
            return Some(1);
        }
        let (&rows, rest) = got.split_first()?;
        one(rest).then_some(rows)
    }
}

impl<'a> Expected<'a> {
    /// What a compiled program expects whose inputs are these ([`NamedInput::all_of`]), or are not known.
    #[must_use]
    pub fn of_spec(spec: &'a InputSpec, inputs: &'a [NamedInput]) -> Self {
        Self {
            shape: spec.shape,
            mean: &spec.mean,
            std: &spec.std,
            numbers: !matches!(spec.coding, Coding::Scaled(_)),
            inputs,
        }
    }

    /// What the model takes, in words.
    pub(super) fn described(&self) -> String {
        let one = |input: &NamedInput| format!("`{}` {:?}", input.name.escape_debug(), input.shape);
        match self.inputs {
            [] => format!("{}", self.shape),
            inputs => {
                let all: Vec<String> = inputs.iter().map(one).collect();
                all.join(", ")
            }
        }
    }

    /// The real value of an 8-bit one.
    pub(super) fn real(&self, channel: usize, value: u8) -> f32 {
        if self.numbers {
            return f32::from(value);
        }
        let x = f32::from(value) / 255.0;
        match (self.mean.get(channel), self.std.get(channel)) {
            (Some(mean), Some(std)) => (x - mean) / std,
            _ => x,
        }
    }
}

/// Why an input file is refused.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// An image where arrays are needed.
    #[error("an image is no array: a model that runs in floats takes .npy, .npz and .json files")]
    Image,
    /// The file is larger than the limit.
    #[error("the file has {bytes} bytes, at most {FILE_BYTES_MAX} are read")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// Not a numpy array that is read.
    #[error("the numpy file cannot be read: {0}")]
    Npy(NpyProblem),
    /// Not an archive of numpy arrays that is read.
    #[error("the numpy archive cannot be read: {0}")]
    Npz(NpzProblem),
    /// Not JSON of the expected form.
    #[error(
        "the JSON file cannot be read; expected are numbers in lists: {{\"input_data\": [[...], ...]}}, or \
         {{\"NAME\": [...], ...}} by the names of the inputs"
    )]
    Json(#[source] serde_json::Error),
    /// Lists of different lengths where an array is needed.
    #[error("the list {} is of lists with different lengths", name.escape_debug())]
    Ragged {
        /// Its name, or nothing.
        name: String,
    },
    /// An array of no input.
    #[error("the file has an array `{}`; the model takes {inputs}", name.escape_debug())]
    Name {
        /// The array's name, or its number.
        name: String,
        /// The model's inputs.
        inputs: String,
    },
    /// An input without an array.
    #[error("there is no array for the input `{}`; the model takes {inputs}", name.escape_debug())]
    Missing {
        /// The input.
        name: String,
        /// All of them.
        inputs: String,
    },
    /// An array of another shape than its input.
    #[error(
        "the array for `{}` has the shape {got:?}; the input has {expected:?} (a leading count is optional)", name.escape_debug()
    )]
    InputShape {
        /// The input.
        name: String,
        /// The array's shape.
        got: Vec<usize>,
        /// The input's.
        expected: Vec<usize>,
    },
    /// Arrays of different numbers of rows.
    #[error("the array for `{}` holds {rows} rows, and that of the first input {expected}", name.escape_debug())]
    Rows {
        /// The input.
        name: String,
        /// Its rows.
        rows: usize,
        /// Those of the first input.
        expected: usize,
    },
    /// A file that cannot be one input of several.
    #[error("one input of several is a .npy or .json file; an .npz file holds them all")]
    Alone,
    /// Not a PNG image that is read.
    #[error("the PNG image cannot be used: {0}")]
    Png(PngProblem),
    /// An array of another shape.
    #[error(
        "the array has the shape {got:?}; the model takes {expected} (channels first or last, a leading count is optional)"
    )]
    Shape {
        /// The array's shape.
        got: Vec<usize>,
        /// The model's inputs.
        expected: String,
    },
    /// A row of another length.
    #[error("row {row} has {got} values; the model takes {expected}")]
    RowLength {
        /// Which row.
        row: usize,
        /// Its length.
        got: usize,
        /// The model's.
        expected: usize,
    },
    /// A value that is a NaN or an infinity, or too large for a float.
    #[error("row {row} has a value that is not finite at index {index}")]
    NotFinite {
        /// Which row.
        row: usize,
        /// Where, in the order of the file.
        index: usize,
    },
    /// No rows.
    #[error("the file holds no inputs")]
    NoRows,
    /// More rows than the limit.
    #[error("the file holds {rows} inputs, at most {ROWS_MAX} are read")]
    TooManyRows {
        /// How many.
        rows: usize,
    },
    /// Several rows where one is needed.
    #[error("the file holds {rows} inputs; give a file with exactly one")]
    NotOne {
        /// How many.
        rows: usize,
    },
}

/// What is wrong with an archive of arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NpzProblem {
    /// Not a ZIP archive, or a damaged one.
    #[error("it is not a ZIP archive, or a damaged one")]
    Damaged,
    /// Compressed in another way, or encrypted.
    #[error("its entries are neither stored nor deflated; write it with numpy.savez")]
    Method,
    /// Too many arrays.
    #[error("it has {entries} arrays, at most 64 are read")]
    Entries {
        /// How many.
        entries: usize,
    },
    /// Arrays that are larger than an input file.
    #[error("its arrays have more than {FILE_BYTES_MAX} bytes")]
    TooLarge,
}

/// What is wrong with an image.
#[derive(Debug, thiserror::Error)]
pub enum PngProblem {
    /// Not a PNG file, or a damaged one.
    #[error("it is not a PNG file, or a damaged one ({0})")]
    Decode(png::DecodingError),
    /// Another size than the model's.
    #[error(
        "it has {width}x{height} pixels, the model takes {expected_width}x{expected_height}; scale it first"
    )]
    Size {
        /// Columns of the image.
        width: u32,
        /// Its rows.
        height: u32,
        /// Columns of the model's input.
        expected_width: u32,
        /// Its rows.
        expected_height: u32,
    },
    /// Another pixel format than the model's.
    #[error("it is {color:?} with {bits} bits; the model takes {expected} with 8 bits")]
    Format {
        /// Its colour type.
        color: png::ColorType,
        /// Bits per channel.
        bits: u8,
        /// What the model takes.
        expected: &'static str,
    },
    /// A model that takes no images.
    #[error("the model takes {channels} channels, which no PNG image has; use .npy or .json")]
    Channels {
        /// The model's channels.
        channels: u32,
    },
}

/// How the elements of one input are ordered in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    ChannelsFirst,
    ChannelsLast,
}

impl Layout {
    /// The layout of values without axes: a sequence (one column) is position by position, an image channels first as
    /// ONNX has it.
    pub(super) const fn of_flat(shape: Shape) -> Self {
        if shape.width == 1 {
            Self::ChannelsLast
        } else {
            Self::ChannelsFirst
        }
    }

    /// The index in the file of each element in storage order.
    pub(super) fn order(self, shape: Shape) -> Vec<usize> {
        match self {
            Self::ChannelsFirst => {
                let order = channels_first(shape).into_iter();
                order.map(|index| index as usize).collect()
            }
            Self::ChannelsLast => (0..shape.elements()).collect(),
        }
    }
}

/// The rows and layout of an array, or nothing if it does not fit.
pub(super) fn fit(got: &[usize], shape: Shape) -> Option<(usize, Layout)> {
    let [height, width, channels] =
        [shape.height, shape.width, shape.channels].map(|axis| axis as usize);
    let mut forms = vec![
        (vec![channels, height, width], Layout::ChannelsFirst),
        (vec![height, width, channels], Layout::ChannelsLast),
        (vec![shape.elements()], Layout::of_flat(shape)),
    ];
    if channels == 1 {
        forms.push((vec![height, width], Layout::ChannelsLast));
    }
    if width == 1 {
        forms.push((vec![height, channels], Layout::ChannelsLast));
    }
    let whole = forms.iter().find(|(form, _)| form == got);
    if let Some((_, layout)) = whole {
        return Some((1, *layout));
    }
    let (&rows, one) = got.split_first()?;
    let (_, layout) = forms.iter().find(|(form, _)| form == one)?;
    Some((rows, *layout))
}

/// Checks a row of reals and puts it in storage order; what no element fills is 0.
pub(super) fn reordered(
    values: &[f32],
    row: usize,
    order: &[usize],
) -> Result<Vec<f32>, InputError> {
    if let Some(index) = values.iter().position(|value| !value.is_finite()) {
        return Err(InputError::NotFinite { row, index });
    }
    let places = order.iter();
    Ok(places
        .map(|&index| values.get(index).copied().unwrap_or(0.0))
        .collect())
}

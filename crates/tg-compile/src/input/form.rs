//! What one input looks like, how files order it, and what can be wrong with a file.

use tg_float::npy::header::NpyProblem;
use tg_ir::coding::channels_first;
use tg_ir::{Coding, InputSpec, Shape};

/// Largest input file that is read.
pub const FILE_BYTES_MAX: usize = 256 << 20;
/// Most rows of one file, and most files of one folder.
pub const ROWS_MAX: usize = 100_000;

/// The kinds of input files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A numpy array of `f32` or `u8`, C order.
    Npy,
    /// `{"input_data": [[...], ...]}`: one flat row of reals per input, channels first.
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
}

impl<'a> Expected<'a> {
    /// What a compiled program expects.
    #[must_use]
    pub fn of_spec(spec: &'a InputSpec) -> Self {
        Self {
            shape: spec.shape,
            mean: &spec.mean,
            std: &spec.std,
            numbers: !matches!(spec.coding, Coding::Scaled(_)),
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
    /// The file is larger than the limit.
    #[error("the file has {bytes} bytes, at most {FILE_BYTES_MAX} are read")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// Not a numpy array that is read.
    #[error("the numpy file cannot be read: {0}")]
    Npy(NpyProblem),
    /// Not JSON of the expected form.
    #[error(
        "the JSON file cannot be read; expected is {{\"input_data\": [[...], ...]}} with one flat row of numbers per input"
    )]
    Json(#[source] serde_json::Error),
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
        /// The model's input.
        expected: Shape,
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
    pub(super) fn order(self, shape: Shape) -> Vec<u32> {
        match self {
            Self::ChannelsFirst => channels_first(shape),
            Self::ChannelsLast => {
                (0..u32::try_from(shape.elements()).unwrap_or(u32::MAX)).collect()
            }
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

/// Checks a row of reals and puts it in storage order.
pub(super) fn reordered(values: &[f32], row: usize, order: &[u32]) -> Result<Vec<f32>, InputError> {
    if let Some(index) = values.iter().position(|value| !value.is_finite()) {
        return Err(InputError::NotFinite { row, index });
    }
    Ok(order.iter().map(|&index| values[index as usize]).collect())
}

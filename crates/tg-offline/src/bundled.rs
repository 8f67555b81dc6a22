//! What is built into the program: two models trained on handwritten digits, the digits, and a language model.

use tg_compile::digits::{self, Digit};
use tg_compile::integer::Precision;
use tg_compile::{CompileOptions, Compiled, PrecisionChoice, compile};
use tg_console::outcome::{Exit, Failure, OrFail};
use tg_ir::{CompiledModel, ExecutableModel};
use tg_onnx::ReadLimits;

const LENET: &[u8] = include_bytes!("../../../models/lenet-digits.onnx");
const MLP: &[u8] = include_bytes!("../../../models/mlp-digits.onnx");
/// See `models/train/train_gpt.py`.
const GPT: &[u8] = include_bytes!("../../../models/gpt-bytes.tgm");
/// Name of the language model on the grid; its tokens are bytes.
pub const GPT_NAME: &str = "gpt-bytes";
const DIGITS: &[u8] = include_bytes!("../../../models/digits/digits.bin");
/// Digits on which a bundled model is calibrated, from those it was trained on.
const CALIBRATION: usize = 256;

/// A model that is built in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bundled {
    /// LeNet for 28x28 digits, 44,426 parameters.
    Lenet,
    /// A dense network 64-32-10 for 8x8 digits.
    Mlp,
}

impl Bundled {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Mlp, Self::Lenet];

    /// Its name on the grid.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lenet => "lenet-digits",
            Self::Mlp => "mlp-digits",
        }
    }

    /// A digit as the model's input, reals in [0, 1].
    #[must_use]
    pub fn input(self, digit: &Digit) -> Vec<f32> {
        self.image(digit)
            .iter()
            .map(|&byte| f32::from(byte) / 255.0)
            .collect()
    }

    /// A digit as a grey image of the model's size.
    #[must_use]
    pub fn image(self, digit: &Digit) -> Vec<u8> {
        match self {
            Self::Lenet => digit.bytes_28x28(),
            Self::Mlp => digit.bytes_8x8(),
        }
    }

    /// Compiles the model, calibrated on digits it was trained on.
    ///
    /// # Errors
    /// If the file that was built in is damaged.
    pub fn compile(self) -> Result<Compiled, Failure> {
        let file = match self {
            Self::Lenet => LENET,
            Self::Mlp => MLP,
        };
        let graph = tg_onnx::read(file, None, &ReadLimits::default())
            .or_fail(Exit::Failed, "read a built-in model")?;
        let digits = digits()?;
        let seen = digits
            .iter()
            .filter(|digit| !digit.unseen)
            .take(CALIBRATION);
        let calibration: Vec<Vec<f32>> = seen.map(|digit| self.input(digit)).collect();
        let options = CompileOptions {
            name: self.name().to_owned(),
            precision: PrecisionChoice::Fixed(Precision::Bits8),
            ..CompileOptions::default()
        };
        compile(graph, &calibration, &options).or_fail(Exit::Failed, "compile a built-in model")
    }
}

/// A model that is built in, as the commands that register models take it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuiltIn {
    /// Of digits.
    Digits(Bundled),
    /// The language model.
    Gpt,
}

impl BuiltIn {
    /// All.
    pub const ALL: [Self; 3] = [
        Self::Digits(Bundled::Mlp),
        Self::Digits(Bundled::Lenet),
        Self::Gpt,
    ];

    /// Its name on the grid.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Digits(digits) => digits.name(),
            Self::Gpt => GPT_NAME,
        }
    }

    /// The model.
    ///
    /// # Errors
    /// If the file that was built in is damaged.
    pub fn model(self) -> Result<ExecutableModel, Failure> {
        match self {
            Self::Digits(digits) => Ok(digits.compile()?.model),
            Self::Gpt => CompiledModel::read(GPT).or_fail(Exit::Failed, "read a built-in model"),
        }
    }
}

impl From<Bundled> for BuiltIn {
    fn from(digits: Bundled) -> Self {
        Self::Digits(digits)
    }
}

/// The built-in digits.
///
/// # Errors
/// If the file that was built in is damaged.
pub fn digits() -> Result<Vec<Digit>, Failure> {
    digits::read(DIGITS).or_fail(Exit::Failed, "read the built-in digits")
}

/// The digits that the built-in models never saw.
///
/// # Errors
/// If the file that was built in is damaged.
pub fn unseen_digits() -> Result<Vec<Digit>, Failure> {
    Ok(digits()?.into_iter().filter(|digit| digit.unseen).collect())
}

//! What a language model is to write: the arguments that `generate` and `write` share.

use clap::Args;
use std::path::PathBuf;

/// What a language model is to write, and how tokens are drawn.
#[derive(Debug, Clone, Args)]
pub struct DrawArguments {
    /// The tokens to begin with.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "T,..",
        required_unless_present = "text"
    )]
    pub prompt: Vec<u32>,
    /// The text to begin with, for models whose 256 tokens are bytes, or with --tokenizer.
    #[arg(long, conflicts_with = "prompt", allow_hyphen_values = true)]
    pub text: Option<String>,
    /// What makes tokens of the text and text of what is written, a file of Hugging Face tokenizers: the one that the model was
    /// compiled with.
    #[arg(long, value_name = "tokenizer.json")]
    pub tokenizer: Option<PathBuf>,
    /// Most tokens to write; the model's window may end before.
    #[arg(short = 'n', long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    pub tokens: u32,
    /// How evenly tokens are drawn: 1 as the model says, less for likelier ones, 0 for the likeliest always.
    #[arg(long, default_value_t = 1.0)]
    pub temperature: f64,
    /// Draw among so many likeliest tokens; by default all that the model gives.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    pub top_k: Option<u32>,
    /// Of those, draw among the fewest that have this share of the probability.
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    pub top_p: f64,
    /// 32 bytes in hexadecimal that decide every draw; by default from the operating system.
    #[arg(long, value_name = "HEX")]
    pub seed: Option<Seed>,
    /// Write nothing after this token.
    #[arg(long, value_name = "T")]
    pub stop: Option<u32>,
}

/// 32 bytes.
#[derive(Debug, Clone, Copy)]
pub struct Seed(pub [u8; 32]);

impl std::str::FromStr for Seed {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digest = tg_types::Digest::from_hex(text).ok_or("a seed is 64 hexadecimal digits")?;
        Ok(Self(*digest.as_bytes()))
    }
}

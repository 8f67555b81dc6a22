//! Flags of a provider that serves models by a server of its own.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tg_provider::UpstreamUrl;
use tg_provider::upstream::config::{AT_ONCE_USUAL, CONTEXT_USUAL, SILENCE_USUAL};
use tg_types::served::CARD_CONTEXT_MAX;
use tg_types::{Amount, ServedCall};

use super::connect_args::{ApiArguments, PassphraseArguments};
use tg_console::needs::amount;

/// What a served model can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CallArgument {
    /// Conversations: /chat/completions.
    Chat,
    /// Texts to go on from: /completions.
    Completions,
    /// Vectors of texts: /embeddings.
    Embeddings,
}

impl From<CallArgument> for ServedCall {
    fn from(argument: CallArgument) -> Self {
        match argument {
            CallArgument::Chat => Self::Chat,
            CallArgument::Completions => Self::Completion,
            CallArgument::Embeddings => Self::Embedding,
        }
    }
}

/// `provider status`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tensorgrid provider status\n  tensorgrid provider status 0x52908400098527886E0F7030069857D2E4169EE7\n\n\
                  All of it is as the API says."
)]
pub(crate) struct ProviderStatusArguments {
    /// The provider's address; that of --key if absent.
    pub(crate) provider: Option<String>,
    /// File of the provider's key.
    #[arg(
        long,
        env = "TENSORGRID_PROVIDER_KEY",
        default_value = "./tensorgrid-provider/key",
        value_name = "FILE"
    )]
    pub(crate) key: PathBuf,
    #[command(flatten)]
    pub(crate) passphrase: PassphraseArguments,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}

/// Models that a provider has a server of its own for.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "Models of a server of your own (nothing of their answers is checked)"
)]
pub(crate) struct ServeArguments {
    /// Serve a model by a server that speaks the OpenAI API (vLLM, llama.cpp, Ollama) instead of running the grid's models: NAME is
    /// what callers name it, MODEL what the server does, if that is another name. Once for each model.
    #[arg(
        long,
        env = "TENSORGRID_SERVE_OPENAI",
        value_delimiter = ',',
        value_name = "NAME=URL[#MODEL]"
    )]
    pub(crate) serve_openai: Vec<UpstreamUrl>,
    /// A file with models to serve, each with prices, context and key of its own: tables [[model]] with name, url, and what the
    /// flags below say otherwise: model, prompt_price, completion_price, context, calls, at_once, key_env, key_file.
    #[arg(long, env = "TENSORGRID_SERVE_CONFIG", value_name = "FILE")]
    pub(crate) serve_config: Option<PathBuf>,
    /// Price of a million tokens of prompts.
    #[arg(long, env = "TENSORGRID_PROMPT_PRICE", default_value = "0.5", value_parser = amount, value_name = "TGRID")]
    pub(crate) prompt_price: Amount,
    /// Price of a million tokens that are written.
    #[arg(long, env = "TENSORGRID_COMPLETION_PRICE", default_value = "1.5", value_parser = amount, value_name = "TGRID")]
    pub(crate) completion_price: Amount,
    /// Tokens of prompt and answer together, at most: the server's context.
    #[arg(long, env = "TENSORGRID_CONTEXT", default_value_t = CONTEXT_USUAL, value_parser = clap::value_parser!(u32).range(1..=i64::from(CARD_CONTEXT_MAX)), value_name = "TOKENS")]
    pub(crate) context: u32,
    /// What can be asked.
    #[arg(long, value_delimiter = ',', default_values_t = [CallArgument::Chat, CallArgument::Completions], value_name = "CALLS")]
    pub(crate) calls: Vec<CallArgument>,
    /// Requests that the server is asked at once; others wait.
    #[arg(long, default_value_t = AT_ONCE_USUAL, value_parser = clap::value_parser!(u16).range(1..=4096), value_name = "N")]
    pub(crate) at_once: u16,
    /// Seconds for which the server may say nothing before a request counts as lost.
    #[arg(long, env = "TENSORGRID_UPSTREAM_TIMEOUT", default_value_t = SILENCE_USUAL.as_secs() as u32, value_parser = clap::value_parser!(u32).range(1..=900), value_name = "SECONDS")]
    pub(crate) upstream_timeout: u32,
    /// Accounts that can ask at once: each that asks holds a lease, with collateral.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024), value_name = "N")]
    pub(crate) accounts_at_once: u16,
    /// Variable of the environment with the key that the server wants.
    #[arg(long, value_name = "NAME", conflicts_with = "upstream_key_file")]
    pub(crate) upstream_key_env: Option<String>,
    /// File with that key.
    #[arg(long, value_name = "FILE")]
    pub(crate) upstream_key_file: Option<PathBuf>,
}

impl std::fmt::Display for CallArgument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(ServedCall::from(*self).as_str())
    }
}

impl ServeArguments {
    /// Whether models are served.
    pub(crate) const fn is_serving(&self) -> bool {
        !self.serve_openai.is_empty() || self.serve_config.is_some()
    }
}

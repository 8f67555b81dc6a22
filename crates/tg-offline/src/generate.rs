//! `tensorgrid generate`: a language model writes, and proves that it did.

use crate::arguments::GenerateArguments;
use crate::models;
use crate::partial::Partial;
use crate::prove::{Progress, failed, random_seed};
use crate::text;
use std::path::Path;
use std::time::Instant;
use tg_console::draw::DrawArguments;
use tg_console::files;
use tg_console::outcome::{Exit, Failure, OrFail, Outcome, json, line, say};
use tg_console::tokens::{self, sampling, takes_bytes};
use tg_exec::generate::{GenerateError, Written, generate};
use tg_exec::kernels::Cpu;
use tg_ir::{ExecutableModel, GenerationRequest, Generator, Program};
use tg_proof::SequenceFile;
use tg_prover::{Limits, ProveRequest, ProvingModel};
use tg_text::TextTokenizer;
use tg_types::codec::Encode;
use tg_types::digest::hex;

/// Writes what follows a prompt, and a proof of it where one is asked for.
///
/// # Errors
/// If the model cannot write, the prompt is refused, or a file cannot be written.
pub fn run(arguments: &GenerateArguments, as_json: bool) -> Outcome {
    let model = models::compiled_model(&arguments.model)?;
    let generator = Generator::of(&model.program)
        .or_fail(
            Exit::Usage,
            format!("{} cannot generate", arguments.model.display()),
        )
        .map_err(|failure| {
            failure.hint("compile a language model with `tensorgrid model compile ... --top-k 8`")
        })?;
    let coding = TokenCoding::of(&arguments.what, &model.program, &generator)?;
    let request = request(&arguments.what, &generator, &coding)?;
    if let Some(path) = &arguments.output {
        files::check_writable(path)?;
    }
    let start = Instant::now();
    let written = run_model(&model, &request)?;
    let generate_ms = start.elapsed().as_secs_f64() * 1e3;
    let tokens = written.written();
    let seed = hex(&request.sampling.seed);
    let proof = match &arguments.output {
        None => None,
        Some(path) => {
            let start = Instant::now();
            let (bytes, partial) = proved(model, &written, (arguments, path))?;
            files::write(path, &bytes)?;
            partial.done();
            Some((path, bytes.len(), start.elapsed().as_secs_f64() * 1e3))
        }
    };
    let shown = coding.text(&request.prompt, &tokens)?;
    if as_json {
        return Ok(json(&serde_json::json!({
            "prompt": request.prompt, "tokens": tokens, "text": shown,
            "seed": seed, "sampling": tokens::rule_json(&request.sampling, generator.unit),
            "generate_ms": generate_ms,
            "file": proof.map(|(path, ..)| path), "bytes": proof.map(|(_, bytes, _)| bytes),
            "prove_ms": proof.map(|(.., ms)| ms),
        }))?);
    }
    line(match shown {
        Some(text) => format!("{text:?}"),
        None => listed(&tokens),
    })?;
    line(format_args!(
        "{} tokens in {generate_ms:.0} ms, {}",
        tokens.len(),
        tokens::rule(&request.sampling, generator.unit)
    ))?;
    if let Some((path, bytes, ms)) = proof {
        line(format_args!(
            "proved in {ms:.0} ms; {} ({bytes} bytes) holds the sequence and the proof",
            path.display()
        ))?;
    }
    Ok(())
}

/// Writes, and says how far it is where that takes long.
fn run_model(model: &ExecutableModel, request: &GenerationRequest) -> Result<Written, Failure> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut shown = Instant::now();
    let mut count = 0_u32;
    let mut observe = |_| {
        count += 1;
        if shown.elapsed().as_secs() >= 1 {
            shown = Instant::now();
            say(format!("{count} of at most {} tokens ...", request.limit));
        }
        true
    };
    generate(model, request, Cpu::new(threads), &mut observe).map_err(|error| {
        let exit = match error {
            GenerateError::Execute(_) | GenerateError::Stopped => Exit::Failed,
            _ => Exit::Usage,
        };
        Failure::new(exit, anyhow::Error::new(error).context("generate"))
    })
}

/// Tokens as numbers.
fn listed(tokens: &[u32]) -> String {
    let tokens: Vec<String> = tokens.iter().map(u32::to_string).collect();
    tokens.join(",")
}

/// What tokens are to whoever asks for a text.
#[derive(Debug)]
pub enum TokenCoding {
    /// Numbers.
    Numbers,
    /// Bytes.
    Bytes,
    /// What a tokenizer makes of a text.
    Tokenizer(Box<TextTokenizer>),
}

impl TokenCoding {
    /// What they are to a command line.
    ///
    /// # Errors
    /// If a text is given, and what makes tokens of it is missing or another program's.
    pub fn of(
        asked: &DrawArguments,
        program: &Program,
        generator: &Generator,
    ) -> Result<Self, Failure> {
        if asked.text.is_none() && asked.tokenizer.is_none() {
            return Ok(Self::Numbers);
        }
        if asked.tokenizer.is_none() && takes_bytes(program, generator) {
            return Ok(Self::Bytes);
        }
        let named = asked.tokenizer.as_deref();
        let tokenizer = text::of_program(program, named);
        let tokenizer = tokenizer.map_err(|failure| match named {
            Some(_) => failure,
            None => failure.hint("--tokenizer FOLDER/tokenizer.json, or tokens with --prompt"),
        })?;
        Ok(Self::Tokenizer(Box::new(tokenizer)))
    }

    /// Tokens of a prompt.
    fn tokens(&self, prompt: &str, vocabulary: u32) -> Result<Vec<u32>, Failure> {
        match self {
            Self::Tokenizer(tokenizer) => text::prompt(tokenizer, prompt, vocabulary),
            Self::Bytes | Self::Numbers => Ok(prompt.bytes().map(u32::from).collect()),
        }
    }

    /// What was written after a prompt, as text; nothing if tokens are numbers.
    ///
    /// # Errors
    /// If the tokenizer has no text for a token.
    pub fn text(&self, prompt: &[u32], written: &[u32]) -> Result<Option<String>, Failure> {
        match self {
            Self::Numbers => Ok(None),
            Self::Bytes => Ok(Some(text_of_bytes(written))),
            Self::Tokenizer(tokenizer) => tokens::written(tokenizer, prompt, written).map(Some),
        }
    }
}

/// What the command line asks for.
///
/// # Errors
/// If the prompt or how tokens are drawn does not fit the model.
pub fn request(
    asked: &DrawArguments,
    generator: &Generator,
    coding: &TokenCoding,
) -> Result<GenerationRequest, Failure> {
    let prompt = match &asked.text {
        None => asked.prompt.clone(),
        Some(text) => coding.tokens(text, generator.vocabulary)?,
    };
    let seed = match &asked.seed {
        Some(seed) => seed.0,
        None => random_seed()?,
    };
    let &DrawArguments {
        temperature, top_p, ..
    } = asked;
    let sampling = sampling(generator, (temperature, top_p, asked.top_k), seed);
    Ok(GenerationRequest {
        prompt,
        limit: asked.tokens,
        stop: asked.stop,
        sampling: sampling.map_err(usage)?,
    })
}

fn usage(text: String) -> Failure {
    Failure::new(Exit::Usage, anyhow::anyhow!(text))
}

/// The bytes of the sequence file, and what was kept of the proof's steps meanwhile.
fn proved(
    model: ExecutableModel,
    written: &Written,
    (arguments, output): (&GenerateArguments, &Path),
) -> Result<(Vec<u8>, Partial), Failure> {
    say("committing the weights ...");
    let model =
        ProvingModel::of_checked(model).or_fail(Exit::Usage, "this model cannot be proved")?;
    let of = (model.id(), &written.tokens);
    let partial = Partial::of(&arguments.partial, output, of)?;
    let limits = Limits {
        memory: arguments.memory.map(|mib| mib << 20),
        cancel: None,
        record: Some(&partial.record),
    };
    let mut progress = Progress::of(&model)?;
    let request = ProveRequest::of(vec![written.tokens.clone()]).within(limits);
    let mut observe = |stage| progress.show(stage);
    let (proof, _) = tg_prover::prove(&model, request, &mut observe).map_err(failed)?;
    let generation = written.generation;
    Ok((SequenceFile { generation, proof }.to_bytes(), partial))
}

/// Bytes as text.
fn text_of_bytes(tokens: &[u32]) -> String {
    let bytes: Vec<u8> = tokens.iter().map(|&token| token as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

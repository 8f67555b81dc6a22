//! Writing sequences: a causal program run step by step, with what is final kept ([`CachedEngine`]).

use crate::engine::CachedEngine;
use crate::engine::values::Values;
use crate::execute::ExecuteError;
use crate::kernels::Cpu;
use tg_ir::IntTensor;
use tg_ir::generation::GeneratorError;
use tg_ir::{ExecutableModel, Generation, GenerationRequest, Generator};

/// A sequence that was written.
#[derive(Debug, Clone)]
pub struct Written {
    /// The whole window: prompt, written tokens, zeros.
    pub tokens: IntTensor,
    /// What it is.
    pub generation: Generation,
}

impl Written {
    /// The tokens that were written.
    #[must_use]
    pub fn written(&self) -> Vec<u32> {
        let Generation {
            prompt, written, ..
        } = self.generation;
        let tokens = self.tokens.widened().into_iter();
        let written = tokens.skip(prompt as usize).take(written as usize);
        written.map(i32::cast_unsigned).collect()
    }
}

/// Why nothing is written.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// The model cannot generate.
    #[error("the model cannot generate")]
    Generator(#[from] GeneratorError),
    /// Its tokens are not along one axis.
    #[error("the model takes its tokens along two axes, so that it has no steps")]
    Steps,
    /// A prompt that is empty or leaves no room.
    #[error("a prompt has 1 to {} tokens, this one {got}: the model's window is {window}", window - 1)]
    Prompt {
        /// Tokens.
        got: usize,
        /// Positions.
        window: u32,
    },
    /// A token outside the vocabulary.
    #[error("token {token} at position {position} of the prompt is not below {vocabulary}")]
    Token {
        /// Where.
        position: usize,
        /// The token.
        token: u32,
        /// Tokens are below it.
        vocabulary: u32,
    },
    /// Nothing is asked for.
    #[error("at least one token is to be written")]
    Nothing,
    /// More scores to choose among than the model gives.
    #[error(
        "the model gives the {ranks} greatest scores, so at most as many can be kept, not {keep}"
    )]
    Keep {
        /// To keep.
        keep: u32,
        /// Given.
        ranks: u32,
    },
    /// An execution failed.
    #[error("execute the model")]
    Execute(#[from] ExecuteError),
    /// The caller wants no more.
    #[error("it was stopped")]
    Stopped,
}

/// Writes what follows a prompt. `observe` sees each token as it is drawn, and ends the writing with an error by answering
/// `false`.
///
/// # Errors
/// If the model cannot generate, or the request does not fit it.
pub fn generate(
    model: &ExecutableModel,
    request: &GenerationRequest,
    cpu: Cpu,
    observe: &mut dyn FnMut(u32) -> bool,
) -> Result<Written, GenerateError> {
    SequenceWriter::new(model, cpu)?.write(request, observe)
}

/// A model made ready to write, once or many times.
#[derive(Debug)]
pub struct SequenceWriter {
    generator: Generator,
    engine: CachedEngine,
}

impl SequenceWriter {
    /// Prepares a model. Cost: see [`CachedEngine::new`].
    ///
    /// # Errors
    /// If the model cannot generate.
    ///
    /// # Panics
    /// Never, for a valid model.
    pub fn new(model: &ExecutableModel, cpu: Cpu) -> Result<Self, GenerateError> {
        let generator = Generator::of(&model.program)?;
        let engine = CachedEngine::new(model, cpu).ok_or(GenerateError::Steps)?;
        Ok(Self { generator, engine })
    }

    /// Whether the model can write what a request asks, without writing it.
    ///
    /// # Errors
    /// What [`Self::write`] would say before it begins.
    pub fn check(&self, request: &GenerationRequest) -> Result<(), GenerateError> {
        begin(&self.generator, request).map(|_| ())
    }

    /// What the model can write.
    #[must_use]
    pub const fn generator(&self) -> &Generator {
        &self.generator
    }

    /// Writes what follows a prompt, see [`generate`].
    ///
    /// # Errors
    /// If the request does not fit the model.
    ///
    /// # Panics
    /// Never: a prompt has a token, after which the model gives a row.
    pub fn write(
        &mut self,
        request: &GenerationRequest,
        observe: &mut dyn FnMut(u32) -> bool,
    ) -> Result<Written, GenerateError> {
        let window = self.generator.window;
        let mut tokens = begin(&self.generator, request)?;
        let given = request.prompt.len();
        let mut generation = Generation {
            prompt: u32::try_from(given).expect("within the window"),
            written: 0,
            limit: request.limit,
            stop: request.stop,
            sampling: request.sampling,
        };
        let mut known = 0;
        while generation.written < request.limit && generation.length() < window {
            let position = generation.length();
            let length = position as usize;
            let mut before = Vec::new();
            self.engine.extend(
                known,
                Values::I32(&tokens[known..length]),
                &mut |step, row| {
                    if step + 1 == length {
                        before = (0..row.len()).map(|index| row.at(index)).collect();
                    }
                },
            )?;
            known = length;
            let next = generation.next(position, &before);
            tokens[length] = next;
            generation.written += 1;
            if !observe(next.cast_unsigned()) {
                return Err(GenerateError::Stopped);
            }
            if request.stop == Some(next.cast_unsigned()) {
                break;
            }
        }
        Ok(Written {
            tokens: IntTensor::I32(tokens),
            generation,
        })
    }
}

/// The window with the prompt at its beginning.
fn begin(generator: &Generator, request: &GenerationRequest) -> Result<Vec<i32>, GenerateError> {
    let &Generator {
        window,
        vocabulary,
        ranks,
        ..
    } = generator;
    let got = request.prompt.len();
    if got == 0 || got >= window as usize {
        return Err(GenerateError::Prompt { got, window });
    }
    if request.limit == 0 {
        return Err(GenerateError::Nothing);
    }
    let keep = request.sampling.keep;
    if keep > ranks {
        return Err(GenerateError::Keep { keep, ranks });
    }
    let mut tokens = vec![0; window as usize];
    for (position, (&token, place)) in request.prompt.iter().zip(&mut tokens).enumerate() {
        if token >= vocabulary {
            return Err(GenerateError::Token {
                position,
                token,
                vocabulary,
            });
        }
        *place = token.cast_signed();
    }
    debug_assert!(generator.takes(request), "both say the same");
    Ok(tokens)
}

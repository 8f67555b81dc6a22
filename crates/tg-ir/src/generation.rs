//! Generations: what it means that a language model wrote a sequence.
//!
//! A program that can generate takes the tokens of a whole window, is [causal](crate::causality), and gives for each
//! position its greatest scores for the next token and whose they are ([`rank`] makes one of a program that gives all
//! scores). By causality one execution over the finished sequence gives at every position what the execution gave after
//! which the next token was drawn. So *that execution*, which one proof proves, and `check`, which needs no secret, are
//! all there is to say: each written token is the one that [`Sampling::draw`] draws from the row before it.

use crate::causality::{self, CausalityError};
use crate::check::ProgramError;
use crate::op::{self, Axis, Op, Ranked};
use crate::program::{Coding, Node, Program, TensorId};
use crate::request::GenerationRequest;
use crate::sampling::Sampling;
use crate::shape::{ElementType, Shape};
use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};

/// Why a program cannot generate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GeneratorError {
    /// It does not take tokens.
    #[error("the program takes no tokens")]
    NoTokens,
    /// It gives more than scores.
    #[error("the program gives {0} outputs: compile it with the scores alone (--output NAME)")]
    Outputs(usize),
    /// Its output is not ranked scores.
    #[error(
        "the program does not end in ranked scores: compile it with --top-k, or let it end in TopK values and channels"
    )]
    NotRanked,
    /// It gives no score per token of its vocabulary at each position.
    #[error("the program gives {got} at each of its positions, not {expected} scores")]
    Scores {
        /// Size of the vocabulary.
        expected: u32,
        /// Channels of the output.
        got: u32,
    },
    /// It may look ahead.
    #[error("the program is not causal: {0}")]
    Causality(#[from] CausalityError),
    /// The program with ranks is not valid.
    #[error("the program with ranked scores is refused")]
    Program(#[from] ProgramError),
}

/// What is known of a program that can generate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Generator {
    /// Positions: prompt and generated tokens together are at most so many.
    pub window: u32,
    /// Tokens are below it.
    pub vocabulary: u32,
    /// Scores it gives for each position.
    pub ranks: u32,
    /// Real value of one unit of a score.
    pub unit: f32,
}

impl Generator {
    /// Checks that a valid program can generate.
    ///
    /// # Errors
    /// If it cannot.
    pub fn of(program: &Program) -> Result<Self, GeneratorError> {
        let (vocabulary, ranks, unit) = shaped(program)?;
        causality::check(program)?;
        Ok(Self {
            window: u32::try_from(program.input.shape.pixels()).expect("a shape is small"),
            vocabulary,
            ranks,
            unit,
        })
    }
}

impl Generator {
    /// Real value of one unit of a score, of a program that takes tokens and gives ranks of scores. Takes a moment.
    #[must_use]
    pub fn score_unit(program: &Program) -> Option<f32> {
        shaped(program).ok().map(|(.., unit)| unit)
    }

    /// Whether it can write what a request asks: it has room for the prompt and a token, knows all of its tokens, and gives as many scores as
    /// tokens are drawn from.
    #[must_use]
    pub fn takes(&self, request: &GenerationRequest) -> bool {
        let is_known = |token: &u32| *token < self.vocabulary;
        !request.prompt.is_empty()
            && request.prompt.len() < self.window as usize
            && request.limit > 0
            && request.sampling.keep <= self.ranks
            && request.prompt.iter().all(is_known)
    }
}

/// Whether a program takes tokens and gives ranks of scores, so that it writes if it is causal. Takes a moment.
#[must_use]
pub fn may_generate(program: &Program) -> bool {
    shaped(program).is_ok()
}

/// Vocabulary, ranks and unit of a program that takes tokens and gives ranks of scores.
fn shaped(program: &Program) -> Result<(u32, u32, f32), GeneratorError> {
    one_output(program)?;
    let Coding::Tokens(vocabulary) = program.input.coding else {
        return Err(GeneratorError::NoTokens);
    };
    let (ranks, unit) = ranked(program).ok_or(GeneratorError::NotRanked)?;
    Ok((vocabulary, ranks, unit))
}

/// Refuses a program whose answers are not scores alone.
fn one_output(program: &Program) -> Result<(), GeneratorError> {
    match program.outputs.len() {
        0 => Ok(()),
        count => Err(GeneratorError::Outputs(count)),
    }
}

/// Ranks and unit of scores, if a program ends in the values of the greatest channels of a tensor, then which they are.
fn ranked(program: &Program) -> Option<(u32, f32)> {
    let node =
        |tensor: TensorId| -> Option<&Node> { program.nodes.get(tensor.index().checked_sub(1)?) };
    let Op::Concat(op::Concat { inputs, axis }) = &node(program.output())?.op else {
        return None;
    };
    let &[mut values, channels] = inputs.as_slice() else {
        return None;
    };
    if let Op::Add(op::Add {
        inputs,
        multipliers,
        bias: 0,
    }) = &node(values)?.op
        && multipliers == &[1]
    {
        values = inputs[0];
    }
    let top = |tensor, expected| match &node(tensor)?.op {
        Op::TopK(op::TopK { input, give }) if *give == expected => Some(*input),
        _ => None,
    };
    let (scores, of) = (
        top(values, Ranked::Values)?,
        top(channels, Ranked::Channels)?,
    );
    let [ranks, others] = [values, channels].map(|tensor| program.shape(tensor).channels);
    (*axis == Axis::Channels && scores == of && ranks == others)
        .then(|| (ranks, node(values).map_or(1.0, |node| node.scale)))
}

/// Lets a program that gives a score for each token of its vocabulary end in the greatest few of them: per position their
/// values in descending order, then which tokens they are.
///
/// # Errors
/// If the program takes no tokens, gives no score per token, is not causal, or has fewer tokens than ranks.
pub fn rank(program: &mut Program, ranks: u32) -> Result<Generator, GeneratorError> {
    one_output(program)?;
    let Coding::Tokens(vocabulary) = program.input.coding else {
        return Err(GeneratorError::NoTokens);
    };
    let scores = program.output();
    let (shape, kind) = (program.shape(scores), program.element_type(scores));
    if shape.channels != vocabulary {
        return Err(GeneratorError::Scores {
            expected: vocabulary,
            got: shape.channels,
        });
    }
    // The file's output are scores, which the program does not give any more.
    program.signature = None;
    let scale = program.nodes.last().map_or(1.0, |node| node.scale);
    let top = Shape {
        channels: ranks,
        ..shape
    };
    let mut push = |op, shape, scale, name: &str| {
        let name = name.to_owned();
        program.nodes.push(Node {
            name,
            op,
            shape,
            scale,
        });
        program.output()
    };
    let give = |give| {
        Op::TopK(op::TopK {
            input: scores,
            give,
        })
    };
    let mut values = push(give(Ranked::Values), top, scale, "greatest scores");
    if kind != ElementType::I32 {
        let widen = Op::Add(op::Add {
            inputs: vec![values],
            multipliers: vec![1],
            bias: 0,
        });
        values = push(widen, top, scale, "widened scores");
    }
    let channels = push(give(Ranked::Channels), top, 1.0, "their tokens");
    let both = Op::Concat(op::Concat {
        inputs: vec![values, channels],
        axis: Axis::Channels,
    });
    let doubled = Shape {
        channels: 2 * ranks,
        ..shape
    };
    push(both, doubled, 1.0, "ranked scores");
    program.validate()?;
    Generator::of(program)
}

/// A sequence that a model is said to have written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation {
    /// Tokens that were given, at least 1.
    pub prompt: u32,
    /// Tokens that were written after them, at least 1.
    pub written: u32,
    /// Most tokens to write. Fewer are written only before the end of the window or after [`Self::stop`].
    pub limit: u32,
    /// The token after which nothing is written.
    pub stop: Option<u32>,
    /// How each was drawn.
    pub sampling: Sampling,
}

/// Why a sequence was not written as stated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GenerationError {
    /// The input and the output are not those of the program.
    #[error("the sequence has other sizes than the program's window and ranks")]
    Sizes,
    /// More tokens than the window, or none.
    #[error("{prompt} given and {written} written tokens are not within a window of {window}")]
    Window {
        /// Given.
        prompt: u32,
        /// Written.
        written: u32,
        /// Positions.
        window: u32,
    },
    /// More than the limit, or fewer without a reason.
    #[error("{written} tokens were written where {limit} were asked for and nothing stopped them")]
    Length {
        /// Written.
        written: u32,
        /// Asked for.
        limit: u32,
    },
    /// More scores are to be kept than the program gives.
    #[error("{keep} scores are to be kept of the {ranks} that the program gives")]
    Keep {
        /// To be kept.
        keep: u32,
        /// Given.
        ranks: u32,
    },
    /// A token that another was drawn for.
    #[error("at position {position} stands token {found}, but {drawn} is drawn there")]
    Token {
        /// Where.
        position: u32,
        /// What stands there.
        found: i32,
        /// What is drawn.
        drawn: i32,
    },
    /// It went on after the token that stops.
    #[error("it goes on after the token that stops it, at position {position}")]
    Stopped {
        /// Where that token stands.
        position: u32,
    },
    /// A position after the end does not hold token 0.
    #[error("position {position} lies after the end and is not 0")]
    After {
        /// Where.
        position: u32,
    },
}

impl Generation {
    /// Tokens, given and written.
    #[must_use]
    pub const fn length(&self) -> u32 {
        self.prompt.saturating_add(self.written)
    }

    /// The request that it answers, given its prompt.
    #[must_use]
    pub const fn request(&self, prompt: Vec<u32>) -> GenerationRequest {
        GenerationRequest {
            prompt,
            limit: self.limit,
            stop: self.stop,
            sampling: self.sampling,
        }
    }

    /// Checks that the tokens `input` were written as stated, given the program's output for them.
    ///
    /// # Errors
    /// The first thing that is not as stated.
    pub fn check(
        &self,
        generator: &Generator,
        input: &[i32],
        output: &[i32],
    ) -> Result<(), GenerationError> {
        let &Generator { window, ranks, .. } = generator;
        let row = 2 * ranks as usize;
        if input.len() != window as usize || output.len() != input.len() * row {
            return Err(GenerationError::Sizes);
        }
        self.check_length(generator, input)?;
        for position in self.prompt..self.length() {
            let before = &output[(position as usize - 1) * row..][..row];
            let drawn = self.next(position, before);
            let found = input[position as usize];
            if found != drawn {
                return Err(GenerationError::Token {
                    position,
                    found,
                    drawn,
                });
            }
        }
        Ok(())
    }

    fn check_length(&self, generator: &Generator, input: &[i32]) -> Result<(), GenerationError> {
        let &Self {
            prompt,
            written,
            limit,
            sampling,
            ..
        } = self;
        let &Generator { window, ranks, .. } = generator;
        if sampling.keep > ranks {
            let keep = sampling.keep;
            return Err(GenerationError::Keep { keep, ranks });
        }
        if prompt == 0 || written == 0 || self.length() > window {
            return Err(GenerationError::Window {
                prompt,
                written,
                window,
            });
        }
        let last = self.length() - 1;
        let stops = |token: i32| {
            self.stop
                .is_some_and(|stop| i64::from(stop) == i64::from(token))
        };
        let mut before = prompt..last;
        if let Some(position) = before.find(|position| stops(input[*position as usize])) {
            return Err(GenerationError::Stopped { position });
        }
        let ended = stops(input[last as usize]) || self.length() == window;
        if written > limit || written < limit && !ended {
            return Err(GenerationError::Length { written, limit });
        }
        let mut after = self.length()..window;
        match after.find(|position| input[*position as usize] != 0) {
            Some(position) => Err(GenerationError::After { position }),
            None => Ok(()),
        }
    }

    /// The token that is drawn for a position from the program's output at the one before it.
    ///
    /// # Panics
    /// If the output is empty.
    #[must_use]
    pub fn next(&self, position: u32, before: &[i32]) -> i32 {
        let (scores, tokens) = before.split_at(before.len() / 2);
        tokens[self.sampling.draw(position, scores)]
    }
}

impl Encode for Generation {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            prompt,
            written,
            limit,
            stop,
            sampling,
        } = self;
        writer.u32(*prompt);
        writer.u32(*written);
        writer.u32(*limit);
        writer.u8(u8::from(stop.is_some()));
        writer.u32(stop.unwrap_or(0));
        sampling.encode(writer);
    }
}

impl Decode for Generation {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            prompt: reader.u32()?,
            written: reader.u32()?,
            limit: reader.u32()?,
            stop: stop(reader)?,
            sampling: Sampling::decode(reader)?,
        })
    }
}

/// The token that stops, or 0 if none does.
fn stop(reader: &mut Reader<'_>) -> Result<Option<u32>, DecodeError> {
    match (reader.u8()?, reader.u32()?) {
        (0, 0) => Ok(None),
        (1, token) => Ok(Some(token)),
        (tag, token) => Err(DecodeError::Invalid {
            field: "stop token",
            value: u64::from(tag) << 32 | u64::from(token),
        }),
    }
}

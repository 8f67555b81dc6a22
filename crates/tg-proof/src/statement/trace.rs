//! Trace files: that tiles of an execution, drawn after it was committed to, are what the program gives.
//!
//! The evidence of mode `sync` ([`tg_ir::tiles`] says what it shows). Unlike a proof it is checked with the model's weights, and it
//! says nothing of tiles that were not drawn. Which ones are drawn follows from the receipt's lease and a seed that nobody
//! knew when the receipt became final ([`challenge`]).

use crate::statement::sequence::SEQUENCE_STEPS_MAX;
use crate::verify::integers;
use std::cell::OnceCell;
use tg_ir::request::written_bytes;
use tg_ir::tiles::{self, Checksum, ExecutionClaim, TileFault, TraceOpening, TraceTile};
use tg_ir::{
    ElementType, ExecutableModel, Generation, GenerationRequest, Generator, IntTensor, Program,
    TensorId, causality,
};
use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};
use tg_types::limits::{EVIDENCE_BYTES_MAX, INPUT_BYTES_MAX};
use tg_types::{Digest, LeaseId, Receipt, TileName, Vote, domain::Domain};

const MAGIC: [u8; 4] = *b"TGX\0";
/// Version of the file format.
pub const TRACE_FILE_VERSION: u16 = 1;

/// At least so many tiles are drawn: a program that has fewer is computed again as a whole.
pub const TILES_MIN: u64 = 64;

/// One tile of so many is drawn of a program with more than [`TILES_MIN`] times as many.
pub const TILES_SHARE: u64 = 20;

/// Most steps of the analysis that shows a program causal, for an order to write whose answer nobody checks: a second or so of every
/// validator, once in a turn for each program. Of a program that takes more no order is taken, and endpoints serve it.
pub const ORDERED_STEPS_MAX: u64 = 1 << 28;

const _: () = assert!(SEQUENCE_STEPS_MAX <= ORDERED_STEPS_MAX);
const _: () = assert!(ORDERED_STEPS_MAX <= causality::STEPS_MAX);

/// How many tiles of a program are drawn: the greater of [`TILES_MIN`] and a [`TILES_SHARE`]th of them, rounded up.
#[must_use]
pub fn tiles_drawn(program: &Program) -> u64 {
    let all = tiles::count(program);
    all.div_ceil(TILES_SHARE).max(TILES_MIN).min(all)
}

/// What draws the tiles of a lease, from the seed of the block in which its receipt became final.
#[must_use]
pub fn challenge(seed: &Digest, lease: &LeaseId) -> Digest {
    let both = [seed.as_bytes().as_slice(), lease.as_bytes()].concat();
    Digest::of(Domain::Challenge, &both)
}

/// The tiles of a program that a challenge draws.
#[must_use]
pub fn tiles_of(program: &Program, challenge: &Digest) -> Vec<TraceTile> {
    tiles::draw(program, challenge, tiles_drawn(program))
}

/// What a model wrote, if that is what was ordered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedSequence {
    /// Which tokens were written, and how they were drawn.
    pub generation: Generation,
    /// The tokens of the whole window: what was executed.
    pub tokens: Vec<u8>,
}

/// Tiles of an execution, opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceFile {
    /// The sequence, if one was ordered.
    pub sequence: Option<TracedSequence>,
    /// The bytes of the program's outputs.
    pub output: Vec<u8>,
    /// The tiles and all that they read.
    pub opening: TraceOpening,
}

/// What a trace file must be about.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedTrace<'a> {
    /// The bytes that the order names as input.
    pub input: &'a [u8],
    /// What the provider committed to.
    pub receipt: &'a Receipt,
    /// See [`challenge`].
    pub challenge: &'a Digest,
}

/// Why a trace file is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceFileError {
    /// It is not about the order's input, or not of the kind that was ordered.
    #[error("the trace is not one of the ordered input: {field}")]
    Input {
        /// What differs.
        field: &'static str,
    },
    /// Another answer than the one that the receipt names.
    #[error("the answer is not the one that the receipt names")]
    Answer,
    /// The model cannot generate.
    #[error("the model cannot generate")]
    Generator(#[from] tg_ir::generation::GeneratorError),
    /// The tokens are not those that were drawn.
    #[error("the sequence was not written as stated")]
    Generation(#[from] tg_ir::generation::GenerationError),
    /// A tile is wrong, or not shown.
    #[error(transparent)]
    TraceTile(#[from] TileFault),
}

impl TraceFileError {
    /// A stable number of the check that failed.
    #[must_use]
    pub const fn code(&self) -> u16 {
        match self {
            Self::Input { .. } => 100,
            Self::Answer => 101,
            Self::Generator(_) => 102,
            Self::Generation(_) => 103,
            Self::TraceTile(TileFault::Trace) => 104,
            Self::TraceTile(TileFault::Output { .. }) => 105,
            Self::TraceTile(TileFault::Tensor { .. }) => 106,
            Self::TraceTile(TileFault::Missing { .. }) => 107,
            Self::TraceTile(TileFault::Surplus { .. }) => 108,
            Self::TraceTile(TileFault::Bounds { .. }) => 109,
            Self::TraceTile(TileFault::Element { .. }) => 110,
        }
    }
}

impl TraceFile {
    /// Whether bytes begin as a trace file does.
    #[must_use]
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// Opens the tiles that a challenge draws of an execution: `tensors` is the input and the output of every node.
    ///
    /// # Panics
    /// If these are not the tensors of an execution of the model.
    #[must_use]
    pub fn of(
        model: &ExecutableModel,
        tensors: &[IntTensor],
        generation: Option<Generation>,
        challenge: &Digest,
    ) -> Self {
        let drawn = tiles_of(&model.program, challenge);
        let outputs = model.program.outputs().into_iter();
        Self {
            sequence: generation.map(|generation| TracedSequence {
                generation,
                tokens: tensors[TensorId::INPUT.index()].to_bytes(),
            }),
            output: outputs
                .flat_map(|output| tensors[output.index()].to_bytes())
                .collect(),
            opening: TraceOpening::of(model, tensors, &drawn),
        }
    }
}

/// Checks that a trace file shows the tiles that were drawn, and that each is right; gives the answer, and the checksum of what was computed. Total, for any bytes that decode to one.
/// Takes a few nanoseconds for each multiply-add of the tiles.
///
/// # Errors
/// The check that failed.
pub fn verify_trace(
    model: &ExecutableModel,
    file: &TraceFile,
    expected: ExpectedTrace<'_>,
) -> Result<(Vec<u8>, Checksum), TraceFileError> {
    let program = &model.program;
    let (input, answer) = stated(
        program,
        file.sequence.as_ref(),
        &file.output,
        expected.input,
    )?;
    // Stops: another answer than the one that is delivered and paid.
    if Digest::of_blob(&answer) != expected.receipt.output {
        return Err(TraceFileError::Answer);
    }
    let claim = ExecutionClaim {
        input: &input,
        output: &file.output,
        trace: expected.receipt.trace,
    };
    let drawn = tiles_of(program, expected.challenge);
    let checksum = tiles::check(model, claim, &drawn, &file.opening)?;
    Ok((answer, checksum))
}

/// Why what a member of a committee says of a trace file is so, if it is: every validator looks, and finds the same. Total.
///
/// A tile is wrong only if it was drawn, and the file shows it: what was not drawn nobody had to open. Whether the file has another form is
/// found by [`verify_trace`], which looks at the tiles last.
#[must_use]
pub fn accusation_holds(
    model: &ExecutableModel,
    file: &TraceFile,
    expected: ExpectedTrace<'_>,
    vote: Vote,
) -> Option<TraceFileError> {
    match vote {
        // Of a run nothing was drawn, and no file of traces is shown.
        Vote::Right { .. } | Vote::WrongRun => None,
        Vote::WrongForm => {
            let fault = verify_trace(model, file, expected).err();
            let is_element = |it: &TraceFileError| {
                matches!(it, TraceFileError::TraceTile(TileFault::Element { .. }))
            };
            fault.filter(|it| !is_element(it))
        }
        Vote::WrongTile(TileName { node, leaf }) => {
            let tile = TraceTile { node, leaf };
            let drawn = tiles_of(&model.program, expected.challenge);
            drawn.binary_search(&tile).ok()?;
            let (sequence, output) = (file.sequence.as_ref(), &file.output);
            let (input, _) = stated(&model.program, sequence, output, expected.input).ok()?;
            let claim = ExecutionClaim {
                input: &input,
                output: &file.output,
                trace: expected.receipt.trace,
            };
            let fault = tiles::check_one(model, claim, tile, &file.opening).err();
            let is_element = |it: &TileFault| matches!(it, TileFault::Element { .. });
            fault.filter(is_element).map(TraceFileError::TraceTile)
        }
    }
}

/// What a member of a committee says of a trace file.
#[must_use]
pub fn vote_on(result: Result<Checksum, &TraceFileError>) -> Vote {
    match result {
        Ok(checksum) => Vote::Right {
            checksum: checksum.get(),
        },
        Err(TraceFileError::TraceTile(TileFault::Element { node, leaf, .. })) => {
            let index =
                |it: usize| u32::try_from(it).expect("nodes and leaves are counted in 32 bits");
            Vote::WrongTile(TileName {
                node: index(*node),
                leaf: index(*leaf),
            })
        }
        Err(_) => Vote::WrongForm,
    }
}

/// What was executed, as the file says, and the answer: the order's input, or the tokens of a sequence that answers it.
pub(super) fn stated(
    program: &Program,
    sequence: Option<&TracedSequence>,
    output: &[u8],
    ordered: &[u8],
) -> Result<(IntTensor, Vec<u8>), TraceFileError> {
    let (input, answer) = match sequence {
        None => (ordered, output.to_vec()),
        Some(sequence) => {
            let written = check_sequence(program, sequence, output, ordered)?;
            (sequence.tokens.as_slice(), written)
        }
    };
    Ok((taken(program, input)?, answer))
}

/// Whether a program takes these bytes as its input: as many, and values that its coding gives.
#[must_use]
pub fn is_taken(program: &Program, input: &[u8]) -> bool {
    taken(program, input).is_ok()
}

/// Whether a program runs on what was ordered: an input that it takes, or a request that it can answer. With `is_shown`, whether evidence of
/// that could be checked too, which takes validators a bounded time. Takes up to some hundredths of a second for a request.
#[must_use]
pub fn is_ordered(program: &Program, ordered: &[u8], is_shown: bool) -> bool {
    OrderRule::default().takes(program, ordered, is_shown)
}

/// What [`is_ordered`] finds out about a program, for many orders of it.
#[derive(Debug, Default)]
pub struct OrderRule(OnceCell<Option<Generator>>);

impl OrderRule {
    /// As [`is_ordered`], of the same program each time.
    #[must_use]
    pub fn takes(&self, program: &Program, ordered: &[u8], is_shown: bool) -> bool {
        if !GenerationRequest::is_for(program, ordered) {
            return is_taken(program, ordered);
        }
        let most = if is_shown {
            SEQUENCE_STEPS_MAX
        } else {
            ORDERED_STEPS_MAX
        };
        let Ok(request) = GenerationRequest::read(ordered) else {
            return false;
        };
        // Stops: a program whose analysis holds up whoever looks at orders of it.
        if ordered.len() != program.input_bytes() || causality::steps(program) > most {
            return false;
        }
        let generator = self.0.get_or_init(|| Generator::of(program).ok());
        generator.is_some_and(|generator| generator.takes(&request))
    }
}

/// The input's integers, if the program takes them.
fn taken(program: &Program, input: &[u8]) -> Result<IntTensor, TraceFileError> {
    let fault = |field| TraceFileError::Input { field };
    if input.len() != program.input_bytes() {
        return Err(fault("length"));
    }
    let tensor = IntTensor::from_bytes(program.input.element_type(), input);
    let tensor = tensor.ok_or(fault("length"))?;
    let channels = program.shape(TensorId::INPUT).channels.max(1) as usize;
    let admits = |(element, &value): (usize, &i32)| program.input.admits(element % channels, value);
    match tensor.widened().iter().enumerate().all(admits) {
        true => Ok(tensor),
        false => Err(fault("a value that the model does not take")),
    }
}

/// That the tokens answer the request and were drawn from the scores beside them; gives the bytes of the answer.
fn check_sequence(
    program: &Program,
    sequence: &TracedSequence,
    scores: &[u8],
    request: &[u8],
) -> Result<Vec<u8>, TraceFileError> {
    let fault = |field| TraceFileError::Input { field };
    // Stops: a program whose analysis costs validators seconds.
    if causality::steps(program) > SEQUENCE_STEPS_MAX {
        return Err(fault("length of the program"));
    }
    if sequence.tokens.len() != program.input_bytes() || scores.len() != program.output_bytes() {
        return Err(fault("sizes"));
    }
    let generator = Generator::of(program)?;
    let tokens = integers(ElementType::I32, &sequence.tokens);
    let scores = integers(ElementType::I32, scores);
    let generation = &sequence.generation;
    generation.check(&generator, &tokens, &scores)?;
    let until = generation.length() as usize;
    let mut prompt: Vec<u32> = tokens[..until]
        .iter()
        .map(|it| it.cast_unsigned())
        .collect();
    let written = prompt.split_off(generation.prompt as usize);
    let answered: GenerationRequest = generation.request(prompt);
    // Stops: the answer to another prompt, or drawn otherwise than was ordered.
    match answered.to_input(program.input_bytes()) {
        Some(input) if input == request => Ok(written_bytes(&written)),
        _ => Err(fault("request")),
    }
}

impl TracedSequence {
    /// Writes whether there is one, and it.
    pub(super) fn encode_some(sequence: Option<&Self>, writer: &mut Writer) {
        writer.u8(u8::from(sequence.is_some()));
        if let Some(Self { generation, tokens }) = sequence {
            generation.encode(writer);
            writer.bytes(tokens);
        }
    }

    /// Reads what [`Self::encode_some`] wrote.
    pub(super) fn decode_some(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        match reader.flag("a sequence")? {
            true => Ok(Some(Self {
                generation: Generation::decode(reader)?,
                tokens: reader.bytes("tokens", INPUT_BYTES_MAX as usize)?.to_vec(),
            })),
            false => Ok(None),
        }
    }
}

impl Encode for TraceFile {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            sequence,
            output,
            opening,
        } = self;
        writer.raw(&MAGIC);
        writer.u16(TRACE_FILE_VERSION);
        TracedSequence::encode_some(sequence.as_ref(), writer);
        writer.bytes(output);
        opening.encode(writer);
    }
}

impl Decode for TraceFile {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let magic = reader.array::<4>()?;
        if magic != MAGIC {
            return Err(DecodeError::Invalid {
                field: "trace magic",
                value: u64::from(u32::from_le_bytes(magic)),
            });
        }
        let version = reader.u16()?;
        if version != TRACE_FILE_VERSION {
            return Err(DecodeError::Invalid {
                field: "trace file version",
                value: u64::from(version),
            });
        }
        let sequence = TracedSequence::decode_some(reader)?;
        let output = reader.bytes("output", EVIDENCE_BYTES_MAX as usize)?;
        Ok(Self {
            sequence,
            output: output.to_vec(),
            opening: TraceOpening::decode(reader)?,
        })
    }
}

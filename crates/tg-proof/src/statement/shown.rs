//! What a file shows of input and output: bytes, digests, bounds, commitments.

use crate::argument::ajtai::{COMMITMENT_BYTES, TensorCommitment};
use crate::plan::TensorCoding;
use crate::plan::cost::PUBLIC_BYTES_MAX;
use crate::plan::modes::{Modes, PartModes, Visibility};
use crate::statement::file::ProofFile;
use crate::verify::{ShownPart, ShownTensor, VerifyError, integers, interleaved};
use tg_ir::bounds::FIELD_BOUND;
use tg_ir::{ElementType, Program, TensorId};
use tg_types::Digest;
use tg_types::codec::{Decode, Reader};

/// The public bytes as integers of the input and of each output, with lengths, digests and bounds checked.
pub(crate) fn tensors(
    program: &Program,
    file: &ProofFile,
) -> Result<(Vec<i32>, Vec<Vec<i32>>), VerifyError> {
    Ok((
        input_elements(program, file)?,
        output_elements(program, file)?,
    ))
}

fn input_elements(program: &Program, file: &ProofFile) -> Result<Vec<i32>, VerifyError> {
    let batch = file.statement.batch as usize;
    let expected = batch.saturating_mul(program.input_bytes());
    let input = ("input", file.input.as_slice());
    check_bytes(input, expected, file.statement.input)?;
    let input = integers(program.input.element_type(), &file.input);
    let channels = program.input.shape.channels as usize;
    // Stops: an input that no coding gives, for which no accumulator has a bound.
    let mut elements = input.iter().enumerate();
    if let Some((index, _)) =
        elements.find(|&(index, &value)| !program.input.admits(index % channels, value))
    {
        return Err(VerifyError::InputCoding { index });
    }
    Ok(interleaved(input, program.input.shape, batch))
}

/// What a statement in zero knowledge shows of the input, then of each output.
pub(crate) fn shown(program: &Program, file: &ProofFile) -> Result<Vec<ShownTensor>, VerifyError> {
    let modes = file.statement.modes();
    let input = match modes.input {
        Visibility::Public => vec![ShownTensor {
            elements: input_elements(program, file)?,
            ..ShownTensor::default()
        }],
        Visibility::Each(modes) => vec![ShownTensor {
            parts: input_parts(program, file, modes)?,
            ..ShownTensor::default()
        }],
        mode => {
            let of = ("input", file.input.as_slice(), file.statement.input);
            let kind = TensorCoding::of_input(program).kind();
            let elements = program.input.shape.elements();
            not_public(mode, of, &[(kind, elements)], file)?
        }
    };
    let outputs = match modes.output {
        Visibility::Public => {
            let outputs = output_elements(program, file)?.into_iter();
            let public = outputs.map(|elements| ShownTensor {
                elements,
                ..ShownTensor::default()
            });
            public.collect()
        }
        Visibility::Each(modes) => each_output(program, file, modes)?,
        mode => {
            let of = ("output", file.output.as_slice(), file.statement.output);
            let outputs = program.outputs().into_iter();
            let kinds: Vec<_> = outputs
                .map(|id| (program.element_type(id), program.shape(id).elements()))
                .collect();
            not_public(mode, of, &kinds, file)?
        }
    };
    Ok(input.into_iter().chain(outputs).collect())
}

impl ProofFile {
    /// What the file has of each input and of each output where a list says their modes: elements of one inference after
    /// the other, a commitment, or nothing of one that is hidden. Empty where no list says them, and for a file that does not
    /// fit the program, which does not verify.
    #[must_use]
    pub fn listed(&self, program: &Program) -> [Vec<&[u8]>; 2] {
        let batch = self.statement.batch as usize;
        let Modes { input, output } = self.statement.modes();
        let kind = program.element_type(TensorId::INPUT);
        let places = input_places(program, input).unwrap_or_default();
        let inputs = places
            .iter()
            .map(|own| own.len().saturating_mul(kind.bytes()));
        let outputs = program.outputs().into_iter();
        let outputs = outputs.map(|id| {
            let elements = program.shape(id).elements();
            elements.saturating_mul(program.element_type(id).bytes())
        });
        let of = |mode, bytes: &'_ [usize], from| cut(mode, bytes, batch, from).unwrap_or_default();
        let [inputs, outputs]: [Vec<usize>; 2] = [inputs.collect(), outputs.collect()];
        [
            of(input, &inputs, &self.input),
            of(output, &outputs, &self.output),
        ]
    }
}

/// The bytes of each part of a list, given how many each has of one inference if it is public.
fn cut<'a>(
    mode: Visibility,
    parts: &[usize],
    batch: usize,
    bytes: &'a [u8],
) -> Option<Vec<&'a [u8]>> {
    let Visibility::Each(modes) = mode else {
        return None;
    };
    let mut rest = bytes;
    let mut all = Vec::new();
    for (mode, &own) in modes.iter().zip(parts) {
        let length = match mode {
            Visibility::Public => own.checked_mul(batch)?,
            Visibility::Committed => COMMITMENT_BYTES,
            Visibility::Hidden | Visibility::Each(_) => 0,
        };
        let (part, after) = rest.split_at_checked(length)?;
        rest = after;
        all.push(part);
    }
    (modes.count() == parts.len() && rest.is_empty()).then_some(all)
}

/// Where the inputs of a list lie in the program's tensor.
fn input_places(program: &Program, mode: Visibility) -> Option<Vec<Vec<usize>>> {
    let Visibility::Each(modes) = mode else {
        return None;
    };
    let signature = program.signature.as_ref();
    let places = signature.and_then(|own| own.input_places(program.input.shape));
    // Stops: modes of other inputs than the file's.
    places.filter(|places| places.len() == modes.count())
}

/// What is shown of each input of the file that is not hidden, and that the elements of none are 0.
fn input_parts(
    program: &Program,
    file: &ProofFile,
    modes: PartModes,
) -> Result<Vec<ShownPart>, VerifyError> {
    const REFUSED: VerifyError = VerifyError::Commitment { which: "input" };
    check_digest(("input", &file.input), file.statement.input)?;
    let batch = file.statement.batch as usize;
    let places = input_places(program, Visibility::Each(modes)).ok_or(REFUSED)?;
    let kind = TensorCoding::of_input(program).kind();
    let channels = program.input.shape.channels as usize;
    let mut reader = Reader::new(&file.input);
    let mut shown = Vec::new();
    for (mode, places) in modes.iter().zip(&places) {
        let elements = places.len().saturating_mul(batch);
        match mode {
            Visibility::Public => {
                let values = taken(&mut reader, (kind, elements)).ok_or(REFUSED)?;
                let mut each = values.iter().zip(places.iter().cycle());
                // Stops: elements that no coding gives, whose bytes may be those of others.
                if let Some(index) =
                    each.position(|(&value, place)| !program.input.admits(place % channels, value))
                {
                    return Err(VerifyError::InputCoding { index });
                }
                shown.push(ShownPart::Public(values));
            }
            Visibility::Committed => {
                let named = commitment(&mut reader, (kind, elements)).ok_or(REFUSED)?;
                shown.push(ShownPart::Committed(named));
            }
            _ => {}
        }
    }
    // Stops: bytes after the last input.
    reader.finish().map_err(|_| REFUSED)?;
    let rest = tg_ir::unnamed_places(&places, program.input.shape);
    if !rest.is_empty() {
        let elements = rest.len().saturating_mul(batch);
        // Stops: an allocation that no byte of the file pays for.
        if elements as u64 > PUBLIC_BYTES_MAX {
            let batch = file.statement.batch;
            return Err(VerifyError::Batch { batch });
        }
        shown.push(ShownPart::Public(vec![0; elements]));
    }
    Ok(shown)
}

/// What is shown of each output.
fn each_output(
    program: &Program,
    file: &ProofFile,
    modes: PartModes,
) -> Result<Vec<ShownTensor>, VerifyError> {
    const REFUSED: VerifyError = VerifyError::Commitment { which: "output" };
    check_digest(("output", &file.output), file.statement.output)?;
    let batch = file.statement.batch as usize;
    let outputs = program.outputs();
    if outputs.len() != modes.count() {
        return Err(REFUSED);
    }
    let mut reader = Reader::new(&file.output);
    let mut shown = Vec::with_capacity(outputs.len());
    for (mode, id) in modes.iter().zip(outputs) {
        let (kind, shape) = (program.element_type(id), program.shape(id));
        let elements = shape.elements().saturating_mul(batch);
        let mut own = ShownTensor::default();
        match mode {
            Visibility::Public => {
                let values = taken(&mut reader, (kind, elements)).ok_or(REFUSED)?;
                check_bound(&values)?;
                own.elements = interleaved(values, shape, batch);
            }
            Visibility::Committed => {
                own.commitment = Some(commitment(&mut reader, (kind, elements)).ok_or(REFUSED)?);
            }
            _ => {}
        }
        shown.push(own);
    }
    // Stops: bytes after the last output.
    reader.finish().map_err(|_| REFUSED)?;
    Ok(shown)
}

/// Elements of a type, as many as there must be.
fn taken(reader: &mut Reader<'_>, (kind, elements): (ElementType, usize)) -> Option<Vec<i32>> {
    let bytes = reader.raw(elements.checked_mul(kind.bytes())?).ok()?;
    Some(integers(kind, bytes))
}

/// The commitment of elements of a type.
fn commitment(
    reader: &mut Reader<'_>,
    (kind, elements): (ElementType, usize),
) -> Option<TensorCommitment> {
    let own = TensorCommitment::decode(reader).ok()?;
    // Stops: the commitment of another type of tensor, whose equal bytes are other numbers.
    (own.kind == kind && own.elements as usize == elements).then_some(own)
}

/// Stops: an output that is right modulo p only.
fn check_bound(values: &[i32]) -> Result<(), VerifyError> {
    let mut elements = values.iter();
    match elements.position(|&value| i64::from(value).abs() > FIELD_BOUND) {
        Some(index) => Err(VerifyError::OutputBound { index }),
        None => Ok(()),
    }
}

/// Tensors of some types and lengths that are committed, or of which nothing may be said.
fn not_public(
    mode: Visibility,
    (which, bytes, digest): (&'static str, &[u8], Digest),
    tensors: &[(ElementType, usize)],
    file: &ProofFile,
) -> Result<Vec<ShownTensor>, VerifyError> {
    if mode == Visibility::Hidden {
        // Stops: a tensor beside a proof that is not about it.
        if digest != Digest::default() {
            return Err(VerifyError::Digest { which });
        }
        if !bytes.is_empty() {
            let (expected, got) = (0, bytes.len());
            return Err(VerifyError::Length {
                which,
                expected,
                got,
            });
        }
        return Ok(vec![ShownTensor::default(); tensors.len()]);
    }
    check_digest((which, bytes), digest)?;
    let refused = VerifyError::Commitment { which };
    let mut reader = Reader::new(bytes);
    let mut shown = Vec::with_capacity(tensors.len());
    for &(kind, elements) in tensors {
        let elements = elements.saturating_mul(file.statement.batch as usize);
        let commitment = commitment(&mut reader, (kind, elements));
        let commitment = commitment.ok_or_else(|| refused.clone())?;
        shown.push(ShownTensor {
            commitment: Some(commitment),
            ..ShownTensor::default()
        });
    }
    // Stops: bytes after the commitments.
    reader.finish().map_err(|_| refused)?;
    Ok(shown)
}

/// Each output, batched.
fn output_elements(program: &Program, file: &ProofFile) -> Result<Vec<Vec<i32>>, VerifyError> {
    let batch = file.statement.batch as usize;
    let expected = batch.saturating_mul(program.output_bytes());
    let output = ("output", file.output.as_slice());
    check_bytes(output, expected, file.statement.output)?;
    let all = program.output_bytes();
    let mut start = 0;
    let mut outputs = Vec::new();
    for tensor in program.outputs() {
        let (kind, shape) = (program.element_type(tensor), program.shape(tensor));
        let own = start..start + shape.elements() * kind.bytes();
        start = own.end;
        let inferences = file.output.chunks_exact(all);
        let bytes: Vec<u8> = inferences
            .flat_map(|bytes| bytes[own.clone()].iter().copied())
            .collect();
        let output = integers(kind, &bytes);
        check_bound(&output)?;
        outputs.push(interleaved(output, shape, batch));
    }
    Ok(outputs)
}

/// Length and digest.
fn check_bytes(
    (which, bytes): (&'static str, &[u8]),
    expected: usize,
    digest: Digest,
) -> Result<(), VerifyError> {
    if bytes.len() != expected {
        return Err(VerifyError::Length {
            which,
            expected,
            got: bytes.len(),
        });
    }
    check_digest((which, bytes), digest)
}

/// The digest that the statement has.
fn check_digest((which, bytes): (&'static str, &[u8]), digest: Digest) -> Result<(), VerifyError> {
    if Digest::of_blob(bytes) != digest {
        return Err(VerifyError::Digest { which });
    }
    Ok(())
}

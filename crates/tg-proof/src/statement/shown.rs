//! What a file shows of input and output: bytes, digests, bounds, commitments.

use crate::argument::ajtai::TensorCommitment;
use crate::plan::TensorCoding;
use crate::plan::modes::Visibility;
use crate::statement::file::ProofFile;
use crate::verify::{ShownTensor, VerifyError, integers, interleaved};
use tg_ir::bounds::FIELD_BOUND;
use tg_ir::{ElementType, Program};
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
            commitment: None,
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
                commitment: None,
            });
            public.collect()
        }
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
    if Digest::of_blob(bytes) != digest {
        return Err(VerifyError::Digest { which });
    }
    let refused = VerifyError::Commitment { which };
    let mut reader = Reader::new(bytes);
    let mut shown = Vec::with_capacity(tensors.len());
    for &(kind, elements) in tensors {
        let commitment = TensorCommitment::decode(&mut reader).ok();
        let elements = elements.saturating_mul(file.statement.batch as usize);
        // Stops: the commitment of another type of tensor, whose equal bytes are other numbers.
        let commitment = commitment
            .filter(|own| own.kind == kind && own.elements as usize == elements)
            .ok_or_else(|| refused.clone())?;
        shown.push(ShownTensor {
            elements: Vec::new(),
            commitment: Some(commitment),
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
        // Stops: an output that is right modulo p only.
        let mut elements = output.iter();
        if let Some(index) = elements.position(|&value| i64::from(value).abs() > FIELD_BOUND) {
            return Err(VerifyError::OutputBound { index });
        }
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
    if Digest::of_blob(bytes) != digest {
        return Err(VerifyError::Digest { which });
    }
    Ok(())
}

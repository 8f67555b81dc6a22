//! What a file shows of input and output: bytes, digests, bounds, commitments.

use crate::argument::ajtai::TensorCommitment;
use crate::plan::TensorCoding;
use crate::plan::modes::Visibility;
use crate::statement::file::ProofFile;
use crate::verify::{ShownTensor, VerifyError, integers, interleaved};
use tg_ir::bounds::FIELD_BOUND;
use tg_ir::{ElementType, Program};
use tg_types::Digest;
use tg_types::codec::Decode;

/// The public bytes as integers, with lengths, digests and bounds checked.
pub(crate) fn tensors(
    program: &Program,
    file: &ProofFile,
) -> Result<(Vec<i32>, Vec<i32>), VerifyError> {
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

/// What a statement in zero knowledge shows of input and output.
pub(crate) fn shown(program: &Program, file: &ProofFile) -> Result<[ShownTensor; 2], VerifyError> {
    let modes = file.statement.modes();
    let input = match modes.input {
        Visibility::Public => ShownTensor {
            elements: input_elements(program, file)?,
            commitment: None,
        },
        mode => {
            let of = ("input", file.input.as_slice(), file.statement.input);
            let kind = TensorCoding::of_input(program).kind();
            let elements = program.input.shape.elements();
            not_public(mode, of, kind, (elements, file))?
        }
    };
    let output = match modes.output {
        Visibility::Public => ShownTensor {
            elements: output_elements(program, file)?,
            commitment: None,
        },
        mode => {
            let of = ("output", file.output.as_slice(), file.statement.output);
            let kind = TensorCoding::of_output(program).kind();
            let elements = program.shape(program.output()).elements();
            not_public(mode, of, kind, (elements, file))?
        }
    };
    Ok([input, output])
}

/// A tensor that is committed, or of which nothing may be said.
fn not_public(
    mode: Visibility,
    (which, bytes, digest): (&'static str, &[u8], Digest),
    kind: ElementType,
    (elements, file): (usize, &ProofFile),
) -> Result<ShownTensor, VerifyError> {
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
        return Ok(ShownTensor::default());
    }
    if Digest::of_blob(bytes) != digest {
        return Err(VerifyError::Digest { which });
    }
    let commitment = TensorCommitment::from_bytes(bytes).ok();
    let elements = elements.saturating_mul(file.statement.batch as usize);
    // Stops: the commitment of another type of tensor, whose equal bytes are other numbers.
    let commitment = commitment
        .filter(|own| own.kind == kind && own.elements as usize == elements)
        .ok_or(VerifyError::Commitment { which })?;
    Ok(ShownTensor {
        elements: Vec::new(),
        commitment: Some(commitment),
    })
}

fn output_elements(program: &Program, file: &ProofFile) -> Result<Vec<i32>, VerifyError> {
    let batch = file.statement.batch as usize;
    let expected = batch.saturating_mul(program.output_bytes());
    let output = ("output", file.output.as_slice());
    check_bytes(output, expected, file.statement.output)?;
    let output = integers(program.element_type(program.output()), &file.output);
    // Stops: an output that is right modulo p only.
    match output
        .iter()
        .position(|&value| i64::from(value).abs() > FIELD_BOUND)
    {
        Some(index) => Err(VerifyError::OutputBound { index }),
        None => Ok(interleaved(output, program.shape(program.output()), batch)),
    }
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

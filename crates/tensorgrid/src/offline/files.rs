//! Reading and writing the files of the offline commands.

use crate::outcome::{Exit, Failure, OrFail};
use std::io::{Read, Write};
use std::path::Path;
use tg_ir::{CompiledModel, ElementType, Program};
use tg_proof::{ProofFile, PublicModel};

/// Most bytes of a compiled model.
const MODEL_MAX: u64 = 256 << 20;
/// Most bytes of a public model.
const PUBLIC_MODEL_MAX: u64 = 16 << 20;

/// A file's bytes, up to a limit.
///
/// # Errors
/// If it cannot be read or is larger.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, Failure> {
    let doing = format!("read {}", path.display());
    let file = std::fs::File::open(path).or_fail(Exit::Usage, doing.clone())?;
    let mut bytes = Vec::new();
    file.take(limit + 1)
        .read_to_end(&mut bytes)
        .or_fail(Exit::Usage, doing.clone())?;
    if bytes.len() as u64 > limit {
        return Err(Failure::new(
            Exit::Usage,
            anyhow::anyhow!("{doing}: larger than {limit} bytes"),
        ));
    }
    Ok(bytes)
}

/// Writes a file whole or not at all: to a neighbour first, then by rename.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let doing = format!("write {}", path.display());
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.partial", std::process::id()));
    let partial = path.with_file_name(name);
    let written = std::fs::File::create(&partial)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&partial, path));
    if written.is_err() {
        // What was left half written is of no use; if it cannot be removed either, the error below says enough.
        let _gone = std::fs::remove_file(&partial);
    }
    written.or_fail(Exit::Failed, doing)
}

/// Reads a compiled model.
///
/// # Errors
/// If it is not one.
pub(crate) fn compiled_model(path: &Path) -> Result<CompiledModel, Failure> {
    CompiledModel::read(&read(path, MODEL_MAX)?)
        .or_fail(
            Exit::Usage,
            format!("{} is not a compiled model", path.display()),
        )
        .map_err(|failure| {
            failure
                .hint("compile one with `tensorgrid model compile FILE.onnx --calibrate DIR ...`")
        })
}

/// Reads a public model and checks its registration proof.
///
/// # Errors
/// If it is not one, or its registration proof does not verify.
pub(crate) fn public_model(path: &Path) -> Result<PublicModel, Failure> {
    let model = PublicModel::decode(&read(path, PUBLIC_MODEL_MAX)?)
        .or_fail(
            Exit::Usage,
            format!("{} is not a public model", path.display()),
        )
        .map_err(|failure| failure.hint("the public part of a model is its .tgv file"))?;
    model.verify_registration().or_fail(
        Exit::Rejected,
        format!("the registration proof in {} is rejected", path.display()),
    )?;
    Ok(model)
}

/// Reads a proof file.
///
/// # Errors
/// If it is not one.
pub(crate) fn proof_file(path: &Path, flip_byte: Option<usize>) -> Result<ProofFile, Failure> {
    let mut bytes = read(path, tg_proof::PROOF_FILE_MAX as u64)?;
    if let Some(position) = flip_byte {
        let length = bytes.len();
        let byte = bytes.get_mut(position).ok_or_else(|| {
            Failure::new(
                Exit::Usage,
                anyhow::anyhow!("--flip-byte {position}: the file has {length} bytes"),
            )
        })?;
        *byte ^= 1;
    }
    ProofFile::read(&bytes).or_fail(
        Exit::Rejected,
        format!("{} is not a proof file", path.display()),
    )
}

/// The output's elements as integers.
#[must_use]
pub(crate) fn output_values(program: &Program, bytes: &[u8]) -> Vec<i32> {
    match program.element_type(program.output()) {
        ElementType::I8 => bytes
            .iter()
            .map(|&byte| i32::from(byte.cast_signed()))
            .collect(),
        ElementType::I32 => bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|&word| i32::from_le_bytes(word))
            .collect(),
    }
}

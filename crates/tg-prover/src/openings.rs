//! The secret of private weights, and the count of openings that were begun.
//!
//! A commitment to private weights serves a limited number of openings; one more may reveal the weights. So the count is
//! written to disk before an opening begins, and every opening that was begun counts, finished or not.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};
use tg_types::{Digest, ProgramId, domain::Domain};

/// Version of the file format.
pub const SECRET_VERSION: u16 = 1;
const MAGIC: &[u8; 4] = b"TGK\0";
/// What older files begin with, which sequence files do too. They are read still.
const OLD_MAGIC: &[u8; 4] = b"TGS\0";
/// Bytes of a secret file: magic, version, program, seed, proofs, begun.
const SECRET_BYTES: usize = 4 + 2 + 32 + 32 + 4 + 4;

/// Why no opening of private weights may begin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpeningError {
    /// All of them were begun.
    #[error(
        "all {capacity} openings of these private weights were begun: one more may give the weights away. Commit them anew \
         under another secret; the model id changes"
    )]
    UsedUp {
        /// How many there were, the registration's among them.
        capacity: usize,
    },
    /// The secret is another model's.
    #[error("the secret is another model's")]
    Program,
    /// The file holds no secret.
    #[error("{path} holds no secret of private weights")]
    Decode {
        /// The file.
        path: String,
        /// What is wrong with it.
        #[source]
        source: DecodeError,
    },
    /// The count cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: String,
        /// What the system says.
        error: String,
    },
}

/// Who counts the openings of private weights.
pub trait Openings: Sync {
    /// Counts one more of the `capacity` openings of a program's weights, for good, before it begins.
    ///
    /// # Errors
    /// If all were begun, or it cannot be counted.
    fn begin(&self, program: ProgramId, capacity: usize) -> Result<(), OpeningError>;
}

/// The secret of private weights: what the random rows of their commitment are drawn from.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    /// The program whose weights it hides.
    pub program: ProgramId,
    /// 32 bytes that nobody else knows.
    pub seed: [u8; 32],
    /// How many proofs were asked for.
    pub proofs: u32,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret")
            .field("program", &self.program)
            .field("proofs", &self.proofs)
            .finish_non_exhaustive()
    }
}

impl Secret {
    /// The generator's seed: no two programs or numbers of proofs have the same random rows.
    pub(crate) fn rows(&self) -> [u8; 32] {
        let mut writer = Writer::new();
        self.program.encode(&mut writer);
        writer.raw(&self.seed);
        writer.u32(self.proofs);
        *Digest::of(Domain::PrivateWeights, &writer.into_bytes()).as_bytes()
    }

    fn to_bytes(&self, begun: u32) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.raw(MAGIC);
        writer.u16(SECRET_VERSION);
        self.program.encode(&mut writer);
        writer.raw(&self.seed);
        writer.u32(self.proofs);
        writer.u32(begun);
        writer.into_bytes()
    }

    /// The secret and how many openings were begun.
    fn read(bytes: &[u8]) -> Result<(Self, u32), DecodeError> {
        let mut reader = Reader::new(bytes);
        let invalid = |field, value| Err(DecodeError::Invalid { field, value });
        let magic = reader.array::<4>()?;
        if &magic != MAGIC && &magic != OLD_MAGIC {
            return invalid("secret magic", u64::from(u32::from_le_bytes(magic)));
        }
        let version = reader.u16()?;
        if version != SECRET_VERSION {
            return invalid("secret version", u64::from(version));
        }
        let program = ProgramId::decode(&mut reader)?;
        let seed = reader.array::<32>()?;
        let (proofs, begun) = (reader.u32()?, reader.u32()?);
        reader.finish()?;
        let secret = Self {
            program,
            seed,
            proofs,
        };
        Ok((secret, begun))
    }
}

/// A secret in a file that counts its openings.
#[derive(Debug)]
pub struct SecretFile {
    path: PathBuf,
    secret: Secret,
}

impl SecretFile {
    /// Makes the file of a new secret, readable by this user alone; nothing was begun yet.
    ///
    /// # Errors
    /// If it exists or cannot be written.
    pub fn create(path: &Path, secret: Secret) -> Result<Self, OpeningError> {
        let mut options = File::options();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let written = options.open(path).and_then(|mut file| {
            file.write_all(&secret.to_bytes(0))?;
            file.sync_all()?;
            // The folder's entry too: a secret that is lost is a model that cannot be proved.
            path.parent().map_or(Ok(()), sync_folder)
        });
        written.map_err(|error| failed(path, &error))?;
        let path = path.to_owned();
        Ok(Self { path, secret })
    }

    /// Reads a secret's file.
    ///
    /// # Errors
    /// If it cannot be read or is none.
    pub fn open(path: &Path) -> Result<Self, OpeningError> {
        let mut file = File::open(path).map_err(|error| failed(path, &error))?;
        let (secret, _) = read(path, &mut file)?;
        let path = path.to_owned();
        Ok(Self { path, secret })
    }

    /// The secret.
    #[must_use]
    pub const fn secret(&self) -> &Secret {
        &self.secret
    }

    /// How many openings were begun.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn begun(&self) -> Result<u32, OpeningError> {
        let mut file = File::open(&self.path).map_err(|error| failed(&self.path, &error))?;
        Ok(read(&self.path, &mut file)?.1)
    }
}

impl Openings for SecretFile {
    fn begin(&self, program: ProgramId, capacity: usize) -> Result<(), OpeningError> {
        let failed = |error: std::io::Error| failed(&self.path, &error);
        if program != self.secret.program {
            return Err(OpeningError::Program);
        }
        let mut file = File::options()
            .read(true)
            .write(true)
            .open(&self.path)
            .map_err(failed)?;
        // Of two processes one waits: no opening is counted once for both.
        file.lock().map_err(failed)?;
        let (secret, begun) = read(&self.path, &mut file)?;
        if secret != self.secret {
            return Err(OpeningError::Program);
        }
        if begun as usize >= capacity {
            return Err(OpeningError::UsedUp { capacity });
        }
        let place = SeekFrom::Start(SECRET_BYTES as u64 - 4);
        file.seek(place).map_err(failed)?;
        file.write_all(&(begun + 1).to_le_bytes()).map_err(failed)?;
        file.sync_all().map_err(failed)
    }
}

fn read(path: &Path, file: &mut File) -> Result<(Secret, u32), OpeningError> {
    let mut bytes = Vec::with_capacity(SECRET_BYTES);
    let mut some = file.take(SECRET_BYTES as u64 + 1);
    some.read_to_end(&mut bytes)
        .map_err(|error| failed(path, &error))?;
    Secret::read(&bytes).map_err(|source| OpeningError::Decode {
        path: path.display().to_string(),
        source,
    })
}

#[cfg(unix)]
fn sync_folder(folder: &Path) -> std::io::Result<()> {
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> std::io::Result<()> {
    Ok(())
}

fn failed(path: &Path, error: &std::io::Error) -> OpeningError {
    OpeningError::File {
        path: path.display().to_string(),
        error: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// Secret files and sequence files began with the same four bytes. Those that exist are read.
    #[test]
    fn a_secret_file_is_no_sequence_file() {
        let secret = Secret {
            program: ProgramId::default(),
            seed: [7; 32],
            proofs: 3,
        };
        let mut bytes = secret.to_bytes(2);
        assert!(!tg_proof::SequenceFile::is_one(&bytes));
        assert_eq!(Secret::read(&bytes), Ok((secret.clone(), 2)));
        bytes[..4].copy_from_slice(OLD_MAGIC);
        assert_eq!(Secret::read(&bytes), Ok((secret, 2)));
        bytes[2] = b'M';
        assert!(Secret::read(&bytes).is_err());
    }
}

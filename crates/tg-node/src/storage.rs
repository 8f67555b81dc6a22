//! Whether this validator holds what a job or a model needs: all bytes are there, hash to their name, and are what the
//! order or the program says. Files are streamed: a model of hundreds of megabytes takes some 64 KiB of memory here.

use std::fs::File;
use std::io::{BufReader, Read};

use tg_ir::model::MODEL_VERSION;
use tg_ir::weights::BIAS_MAX;
use tg_ir::{Op, Program};
use tg_proof::PublicModel;
use tg_types::{Digest, Domain, Encode as _};

use crate::blob::{BlobError, BlobStore};
use crate::limits::{MODEL_BYTES_MAX, PUBLIC_MODEL_BYTES_MAX};

/// Bytes read at a time.
const STEP: usize = 64 * 1024;

/// What a look at the store found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holding {
    /// All is here and right.
    Held,
    /// This blob is not here, or damaged, or cannot be read.
    Missing(Digest),
    /// This blob is here and is not what it must be: fetching it again changes nothing.
    Wrong(Digest),
}

/// Looks for a job's input of `length` bytes.
#[must_use]
pub fn input(store: &BlobStore, digest: &Digest, length: u64) -> Holding {
    match store.size(digest) {
        Some(size) if size == length => match store.verified_size(digest) {
            Ok(Some(_)) => Holding::Held,
            Ok(None) | Err(_) => Holding::Missing(*digest),
        },
        // A file of another size is either damaged or not of this length at all.
        Some(_) => match store.verified_size(digest) {
            Ok(Some(_)) => Holding::Wrong(*digest),
            Ok(None) | Err(_) => Holding::Missing(*digest),
        },
        None => Holding::Missing(*digest),
    }
}

/// Looks for the files of a model: the public part, and the program with the weights that the public part's program names.
#[must_use]
pub fn model(store: &BlobStore, public: &Digest, weights: &Digest) -> Holding {
    let bytes = match store.get(public, PUBLIC_MODEL_BYTES_MAX) {
        Ok(Some(bytes)) => bytes,
        Err(BlobError::TooLarge { .. }) => return Holding::Wrong(*public),
        Ok(None) | Err(_) => return Holding::Missing(*public),
    };
    let Ok(decoded) = PublicModel::decode(&bytes) else {
        return Holding::Wrong(*public);
    };
    drop(bytes);
    match store.file(weights) {
        Ok(Some((_, size))) if size > MODEL_BYTES_MAX => Holding::Wrong(*weights),
        Ok(Some((file, _))) => match stream(file, weights, decoded.program()) {
            Ok(()) => Holding::Held,
            Err(Fault::Unreadable) => Holding::Missing(*weights),
            Err(Fault::Other) => {
                // Bytes that are not those of the name are damage here, else they are the registrant's doing.
                match store.verified_size(weights) {
                    Ok(Some(_)) => Holding::Wrong(*weights),
                    Ok(None) | Err(_) => Holding::Missing(*weights),
                }
            }
        },
        Ok(None) | Err(_) => Holding::Missing(*weights),
    }
}

/// Why a file is not a model's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The file cannot be read.
    Unreadable,
    /// Its bytes are others.
    Other,
}

/// A file whose bytes all go through the hash of its name.
struct Stream {
    file: BufReader<File>,
    name: blake3::Hasher,
    step: Vec<u8>,
}

impl Stream {
    /// Takes `count` bytes, in parts.
    fn take(
        &mut self,
        mut count: u64,
        mut each: impl FnMut(&[u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        while count > 0 {
            let length = usize::try_from(count).map_or(STEP, |count| count.min(STEP));
            let part = &mut self.step[..length];
            self.file.read_exact(part).map_err(|error| {
                if error.kind() == std::io::ErrorKind::UnexpectedEof {
                    Fault::Other
                } else {
                    Fault::Unreadable
                }
            })?;
            self.name.update(part);
            each(part)?;
            count -= length as u64;
        }
        Ok(())
    }

    /// Takes bytes that must be these.
    fn expect(&mut self, expected: &[u8]) -> Result<(), Fault> {
        let mut rest = expected;
        self.take(expected.len() as u64, |part| {
            let (head, tail) = rest.split_at(part.len());
            rest = tail;
            if part == head {
                Ok(())
            } else {
                Err(Fault::Other)
            }
        })
    }
}

/// Reads a model's file: header, program, and for each weighted node its weights and biases, within their ranges.
fn stream(file: File, digest: &Digest, program: &Program) -> Result<(), Fault> {
    let mut stream = Stream {
        file: BufReader::new(file),
        name: blake3::Hasher::new(),
        step: vec![0; STEP],
    };
    let mut root = blake3::Hasher::new_derive_key(Domain::Weights.as_str());
    stream.expect(b"TGM\0")?;
    stream.expect(&MODEL_VERSION.to_le_bytes())?;
    stream.expect(&program.to_bytes())?;
    let layers: Vec<(usize, usize)> = (0..program.nodes.len())
        .filter(|node| program.nodes[*node].op.has_weights())
        .map(|node| lengths(program, node))
        .collect();
    counted(&mut stream, &mut root, layers.len())?;
    for (weights, biases) in layers {
        counted(&mut stream, &mut root, weights)?;
        stream.take(weights as u64, |part| {
            root.update(part);
            // Stops: a weight outside its range, which no provider would load.
            let in_range = part.iter().all(|byte| byte.cast_signed() != i8::MIN);
            in_range.then_some(()).ok_or(Fault::Other)
        })?;
        counted(&mut stream, &mut root, biases)?;
        // Four bytes each, and parts are a multiple of four.
        stream.take(4 * biases as u64, |part| {
            root.update(part);
            let biases = part.as_chunks::<4>().0;
            let in_range = |bytes: &[u8; 4]| {
                i32::from_le_bytes(*bytes).unsigned_abs() <= BIAS_MAX.unsigned_abs()
            };
            biases
                .iter()
                .all(in_range)
                .then_some(())
                .ok_or(Fault::Other)
        })?;
    }
    let ends = matches!(stream.file.read(&mut [0]), Ok(0));
    let is_named = stream.name.finalize().as_bytes() == digest.as_bytes();
    let is_root = root.finalize().as_bytes() == program.weights_root.as_bytes();
    if ends && is_named && is_root {
        Ok(())
    } else {
        Err(Fault::Other)
    }
}

fn counted(stream: &mut Stream, root: &mut blake3::Hasher, count: usize) -> Result<(), Fault> {
    let count = u32::try_from(count)
        .map_err(|_| Fault::Other)?
        .to_le_bytes();
    root.update(&count);
    stream.expect(&count)
}

/// How many weights and biases of its own a node has.
fn lengths(program: &Program, node: usize) -> (usize, usize) {
    let weights = if program.weights_owner(node) == node {
        program.weights_of(node)
    } else {
        0
    };
    let described = &program.nodes[node];
    let biases = if Op::has_bias(&described.op) {
        described.shape.channels as usize
    } else {
        0
    };
    (weights, biases)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tg_exec::sample::random_model;
    use tg_prover::ProvingModel;

    const LIMIT: u64 = 1 << 24;

    fn store() -> (tempfile::TempDir, BlobStore) {
        let folder = tempfile::tempdir().unwrap();
        let store = BlobStore::open(&folder.path().join("blobs"), 1 << 30).unwrap();
        (folder, store)
    }

    /// The files of a model that can be proved.
    fn files() -> (Vec<u8>, Vec<u8>) {
        (0..)
            .find_map(|seed| {
                let (compiled, _) = random_model(seed);
                let weights = compiled.to_bytes();
                let proving = ProvingModel::new(compiled).ok()?;
                Some((proving.register().ok()?.encode(), weights))
            })
            .unwrap()
    }

    #[test]
    fn an_input_is_held_with_its_length_and_digest() {
        let (folder, store) = store();
        let digest = store.put(b"input", LIMIT).unwrap();
        assert_eq!(input(&store, &digest, 5), Holding::Held);
        assert_eq!(input(&store, &digest, 64), Holding::Wrong(digest));
        let absent = Digest::of_blob(b"other");
        assert_eq!(input(&store, &absent, 5), Holding::Missing(absent));
        let name = digest.to_string();
        let name = name.trim_start_matches("0x");
        let path = folder.path().join("blobs").join(&name[..2]).join(name);
        for damage in [&b"inpux"[..], b"in"] {
            std::fs::write(&path, damage).unwrap();
            assert_eq!(input(&store, &digest, 5), Holding::Missing(digest));
        }
    }

    #[test]
    fn a_model_is_held_with_the_weights_that_its_program_names() {
        let (_folder, store) = store();
        let (public, weights) = files();
        let public = store.put(&public, LIMIT).unwrap();
        let absent = Digest::of_blob(&weights);
        assert_eq!(model(&store, &public, &absent), Holding::Missing(absent));
        assert_eq!(model(&store, &absent, &absent), Holding::Missing(absent));
        let held = store.put(&weights, LIMIT).unwrap();
        assert_eq!(model(&store, &public, &held), Holding::Held);
        assert_eq!(model(&store, &held, &held), Holding::Wrong(held));
    }

    /// A true public part with a wrong weights file.
    #[test]
    fn weights_other_than_those_of_the_program_are_wrong() {
        let (_folder, store) = store();
        let (public, weights) = files();
        let public = store.put(&public, LIMIT).unwrap();
        let mut others = vec![
            Vec::new(),
            weights[..weights.len() - 1].to_vec(),
            [weights.as_slice(), &[0]].concat(),
        ];
        for at in [0, 5, 9, weights.len() / 2, weights.len() - 1] {
            let mut changed = weights.clone();
            changed[at] ^= 1;
            others.push(changed);
        }
        for other in others {
            let other = store.put(&other, LIMIT).unwrap();
            assert_eq!(model(&store, &public, &other), Holding::Wrong(other));
        }
    }
}

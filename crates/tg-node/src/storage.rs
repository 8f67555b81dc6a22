//! Whether this validator holds the files of a job or a model: all bytes are there, hash to their name, and are what the
//! order or the program says. Files are streamed: a model of hundreds of megabytes takes some 64 KiB of memory here.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};

use tg_float::job::{FloatModel, FloatModelFile, PublicFloatModel};
use tg_ir::model::MODEL_VERSION;
use tg_ir::range::{RangeError, Ranges, Rows};
use tg_ir::weights::BIAS_MAX;
use tg_ir::{GenerationRequest, Op, Program};
use tg_ledger::{AnswerLength, InputTaker};
use tg_proof::{OrderRule, PublicModel};
use tg_types::{Digest, Domain, Encode as _, ServedCard};
use tg_wasm::WasmProgram;

use crate::blob::{BlobError, BlobStore};
use crate::limits::{MODEL_BYTES_MAX, PUBLIC_MODEL_BYTES_MAX};

/// Bytes of a token in what a model wrote.
const TOKEN_BYTES: u64 = 4;

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
    /// All files of a model are here and right, and some input leaves the range of this node: such a job would run and have
    /// no proof, or the intervals up to it are too many to know. For good.
    OutOfRange(usize),
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

/// Programs of models, read once for several looks.
#[derive(Debug, Default)]
pub(crate) struct Programs(BTreeMap<Digest, Option<(Program, OrderRule)>>);

impl Programs {
    /// Looks for a job's input, which its model must take. Reads the model's program once; for the first request to write it takes up to
    /// some hundredths of a second.
    pub(crate) fn taken_input(
        &mut self,
        store: &BlobStore,
        (digest, length): (&Digest, u64),
        taker: &InputTaker,
    ) -> Holding {
        let held = input(store, digest, length);
        if held != Holding::Held {
            return held;
        }
        let InputTaker { public, is_shown } = taker;
        let Some((program, rule)) = self.of(store, public) else {
            return Holding::Missing(*public);
        };
        match store.get(digest, length) {
            Ok(Some(bytes)) if rule.takes(program, &bytes, *is_shown) => Holding::Held,
            Ok(Some(_)) => Holding::Wrong(*digest),
            Ok(None) | Err(_) => Holding::Missing(*digest),
        }
    }

    /// Looks for an answer that nobody checks. The model's program is read only if the answer is not as long as its output, as one is that was
    /// asked for by a request to write.
    pub(crate) fn answer(
        &mut self,
        store: &BlobStore,
        digest: &Digest,
        length: &AnswerLength,
    ) -> Holding {
        let Some(size) = store.size(digest) else {
            return Holding::Missing(*digest);
        };
        let most = match length {
            AnswerLength::AtMost(most) => u64::from(*most),
            AnswerLength::OfModel { output, .. } if size == u64::from(*output) => size,
            AnswerLength::OfModel {
                public,
                input,
                input_len,
                ..
            } => match self.written_max(store, public, (input, *input_len)) {
                Ok(most) if size.is_multiple_of(TOKEN_BYTES) => most,
                Ok(_) => 0,
                Err(missing) => return Holding::Missing(missing),
            },
        };
        // Stops: pay for no answer, or for one that is longer or shorter than any that the model gives.
        let is_fit = size > 0 && size <= most;
        match store.verified_size(digest) {
            Ok(Some(_)) if is_fit => Holding::Held,
            Ok(Some(_)) => Holding::Wrong(*digest),
            Ok(None) | Err(_) => Holding::Missing(*digest),
        }
    }

    /// The most bytes that a model of integers writes for an input; none for an input that does not ask it to.
    fn written_max(
        &mut self,
        store: &BlobStore,
        public: &Digest,
        (input, input_len): (&Digest, u32),
    ) -> Result<u64, Digest> {
        let (program, _) = self.of(store, public).as_ref().ok_or(*public)?;
        let bytes = store.get(input, u64::from(input_len)).ok().flatten();
        let bytes = bytes.ok_or(*input)?;
        let is_request = GenerationRequest::is_for(program, &bytes);
        let request = GenerationRequest::read(&bytes).ok();
        let limit = request.filter(|_| is_request).map_or(0, |it| it.limit);
        Ok(u64::from(limit) * TOKEN_BYTES)
    }

    /// The program in a public part, read once.
    fn of(&mut self, store: &BlobStore, public: &Digest) -> &Option<(Program, OrderRule)> {
        self.0.entry(*public).or_insert_with(|| {
            let bytes = store.get(public, PUBLIC_MODEL_BYTES_MAX).ok()??;
            let program = PublicModel::decode_program(&bytes).ok()?;
            Some((program, OrderRule::default()))
        })
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
    if tg_wasm::is_program(&bytes) {
        return program(&bytes, (public, weights));
    }
    if tg_float::job::is_public_float(&bytes) {
        return float_model(store, &bytes, (public, weights));
    }
    if ServedCard::is_one(&bytes) {
        return card(&bytes, (public, weights));
    }
    let program = PublicModel::decode_program(&bytes).map(|program| (program.validate(), program));
    let Ok((Ok(()), program)) = program else {
        return Holding::Wrong(*public);
    };
    drop(bytes);
    match store.file(weights) {
        Ok(Some((_, size))) if size > MODEL_BYTES_MAX => Holding::Wrong(*weights),
        Ok(Some((file, _))) => match stream(file, weights, &program) {
            Ok(()) => Holding::Held,
            Err(Fault::Range(error)) => {
                let (RangeError::Left { node, .. } | RangeError::TooMany { node, .. }) = &error;
                tracing::warn!(model = %public, %error, "a model that has no proof for some inputs");
                Holding::OutOfRange(*node)
            }
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

/// Looks at the file of a program, which is both blobs of its registration.
fn program(bytes: &[u8], (public, weights): (&Digest, &Digest)) -> Holding {
    if public != weights {
        return Holding::Wrong(*weights);
    }
    match WasmProgram::read(bytes) {
        Ok(_) => Holding::Held,
        Err(_) => Holding::Wrong(*public),
    }
}

/// Looks at the card of a served model, which is both blobs of its registration.
fn card(bytes: &[u8], (public, weights): (&Digest, &Digest)) -> Holding {
    if public != weights {
        return Holding::Wrong(*weights);
    }
    match ServedCard::read(bytes) {
        Ok(_) => Holding::Held,
        Err(_) => Holding::Wrong(*public),
    }
}

/// Looks at the files of a float model: the whole file is read at once, since it is executed from memory anyway, and what it
/// begins with is the public part.
fn float_model(store: &BlobStore, bytes: &[u8], (public, weights): (&Digest, &Digest)) -> Holding {
    if PublicFloatModel::read(bytes).is_err() {
        return Holding::Wrong(*public);
    }
    match store.get(weights, MODEL_BYTES_MAX) {
        Ok(Some(file)) => {
            let begins = FloatModelFile::parts(&file).is_ok_and(|(own, _)| own == bytes);
            match begins && FloatModel::read(&file).is_ok() {
                true => Holding::Held,
                false => Holding::Wrong(*weights),
            }
        }
        Err(BlobError::TooLarge { .. }) => Holding::Wrong(*weights),
        Ok(None) | Err(_) => Holding::Missing(*weights),
    }
}

/// Why a file is not that of a model that can be served.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fault {
    /// The file cannot be read.
    Unreadable,
    /// Its bytes are others.
    Other,
    /// Its weights leave a range that the program declares.
    Range(RangeError),
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

    /// Looks once more at bytes that were taken.
    fn again(
        &mut self,
        place: u64,
        mut count: u64,
        mut each: impl FnMut(&[u8]),
    ) -> Result<(), Fault> {
        let here = self.file.stream_position().map_err(|_| Fault::Unreadable)?;
        self.seek(place)?;
        while count > 0 {
            let length = usize::try_from(count).map_or(STEP, |count| count.min(STEP));
            let part = &mut self.step[..length];
            self.file.read_exact(part).map_err(|_| Fault::Unreadable)?;
            each(part);
            count -= length as u64;
        }
        self.seek(here)
    }

    fn seek(&mut self, place: u64) -> Result<(), Fault> {
        let sought = self.file.seek(SeekFrom::Start(place));
        sought.map(|_| ()).map_err(|_| Fault::Unreadable)
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

/// Most weights of ties that are read once more: what a tied node makes of its inputs needs them at its own place.
const TIED_MAX: u64 = 1 << 28;

/// Reads a model's file: header, program, and for each weighted node its weights and biases, within their ranges; and checks
/// that no input leaves the range of a requantisation.
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
    let has_weights = |node: &usize| program.nodes[*node].op.has_weights();
    let layers = (0..program.nodes.len()).filter(has_weights).count();
    counted(&mut stream, &mut root, layers)?;
    let mut ranges = Looked::new(program);
    for node in 0..program.nodes.len() {
        if has_weights(&node) {
            layer(&mut stream, &mut root, &mut ranges, node)?;
        } else {
            ranges.pass(Ranges::pass);
        }
    }
    let ends = matches!(stream.file.read(&mut [0]), Ok(0));
    let is_named = stream.name.finalize().as_bytes() == digest.as_bytes();
    let is_root = root.finalize().as_bytes() == program.weights_root.as_bytes();
    if !(ends && is_named && is_root) {
        return Err(Fault::Other);
    }
    // Said of the right files only: of others it would be nobody's fault.
    ranges
        .failed
        .map_or(Ok(()), |error| Err(Fault::Range(error)))
}

/// The intervals of a program so far, until one leaves its range.
struct Looked<'a> {
    program: &'a Program,
    ranges: Ranges<'a>,
    failed: Option<RangeError>,
    /// Per node where its weights begin in the file.
    places: BTreeMap<usize, u64>,
    /// Weights that may be read once more.
    again: u64,
}

impl<'a> Looked<'a> {
    fn new(program: &'a Program) -> Self {
        Self {
            program,
            ranges: Ranges::new(program),
            failed: None,
            places: BTreeMap::new(),
            again: TIED_MAX,
        }
    }

    fn pass(&mut self, node: impl FnOnce(&mut Ranges<'a>) -> Result<(), RangeError>) {
        if self.failed.is_none() {
            self.failed = node(&mut self.ranges).err();
        }
    }

    /// What takes in the weights of the next node.
    fn rows(&self) -> Option<Rows> {
        self.failed.is_none().then(|| self.ranges.rows())
    }

    /// Feeds the weights of the owner of a tied node.
    fn feed_tied(
        &mut self,
        stream: &mut Stream,
        rows: &mut Rows,
        node: usize,
    ) -> Result<(), Fault> {
        let weights = self.program.weights_of(node) as u64;
        let owner = self.program.weights_owner(node);
        let Some(left) = self.again.checked_sub(weights) else {
            let name = self.program.nodes[node].name.clone();
            self.failed = Some(RangeError::TooMany {
                node,
                name,
                limit: TIED_MAX,
            });
            return Ok(());
        };
        self.again = left;
        let place = *self.places.get(&owner).ok_or(Fault::Other)?;
        stream.again(place, weights, |part| rows.feed(part))
    }
}

/// Reads the weights and biases of one node.
fn layer(
    stream: &mut Stream,
    root: &mut blake3::Hasher,
    looked: &mut Looked<'_>,
    node: usize,
) -> Result<(), Fault> {
    let (weights, biases) = lengths(looked.program, node);
    let mut rows = looked.rows();
    counted(stream, root, weights)?;
    let place = stream
        .file
        .stream_position()
        .map_err(|_| Fault::Unreadable)?;
    looked.places.insert(node, place);
    stream.take(weights as u64, |part| {
        root.update(part);
        // Stops: a weight outside its range, which no provider would load.
        if part.iter().any(|byte| byte.cast_signed() == i8::MIN) {
            return Err(Fault::Other);
        }
        if let Some(rows) = &mut rows {
            rows.feed(part);
        }
        Ok(())
    })?;
    if let Some(rows) = &mut rows
        && looked.program.weights_owner(node) != node
    {
        looked.feed_tied(stream, rows, node)?;
    }
    counted(stream, root, biases)?;
    // Four bytes each, and parts are a multiple of four.
    let is_whole = looked.failed.is_none();
    stream.take(4 * biases as u64, |part| {
        root.update(part);
        let biases = part.as_chunks::<4>().0.iter();
        let mut biases = biases.map(|bytes| i32::from_le_bytes(*bytes));
        if biases
            .clone()
            .any(|bias| bias.unsigned_abs() > BIAS_MAX.unsigned_abs())
        {
            return Err(Fault::Other);
        }
        if let Some(rows) = rows.as_mut().filter(|_| is_whole) {
            rows.add_biases(biases.by_ref());
        }
        Ok(())
    })?;
    if let Some(rows) = rows {
        looked.pass(|ranges| ranges.pass_weighted(rows));
    }
    Ok(())
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
    use tg_ir::op;
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

    /// Stops: an order on which no provider can run the model.
    #[test]
    fn an_input_is_held_if_the_model_takes_it() {
        let (_folder, store) = store();
        let (public, _) = files();
        let program = PublicModel::decode_program(&public).unwrap();
        let public = store.put(&public, LIMIT).unwrap();
        let taker = InputTaker {
            public,
            is_shown: true,
        };
        let mut programs = Programs::default();
        let mut held = |bytes: &[u8]| {
            let digest = store.put(bytes, LIMIT).unwrap();
            let length = bytes.len() as u64;
            let found = programs.taken_input(&store, (&digest, length), &taker);
            (found, digest)
        };
        let zeros = vec![0; program.input_bytes()];
        assert_eq!(held(&zeros).0, Holding::Held);
        let long = [&zeros[..], &[0]].concat();
        let (found, digest) = held(&long);
        assert_eq!(found, Holding::Wrong(digest));
        // Bytes that begin as a request to write are an input like any other of a model that takes no tokens.
        assert_ne!(program.input.element_type(), tg_ir::ElementType::I32);
        let mut like_a_request = zeros;
        like_a_request[..4].copy_from_slice(b"TGQ\0");
        assert_eq!(held(&like_a_request).0, Holding::Held);
        let absent = InputTaker {
            public: Digest::of_blob(b"no model"),
            ..taker
        };
        let digest = Digest::of_blob(&like_a_request);
        let length = like_a_request.len() as u64;
        let found = programs.taken_input(&store, (&digest, length), &absent);
        assert_eq!(found, Holding::Missing(absent.public));
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

    /// The attack: a range that the accumulators leave. The model registers and runs, and no proof of it exists: whoever held
    /// a lease on it would be late. It is found from the weights that the same statement is about.
    #[test]
    fn a_model_whose_weights_leave_a_declared_range_is_not_held() {
        let (_folder, store) = store();
        let (compiled, input) = (0..)
            .map(random_model)
            .find(|(compiled, _)| ProvingModel::new(compiled.clone()).is_ok())
            .unwrap();
        let held = |compiled: &tg_ir::CompiledModel| {
            let public = ProvingModel::new(compiled.clone())
                .unwrap()
                .register()
                .unwrap();
            assert_eq!(public.verify_registration(), Ok(()));
            let files = [public.encode(), compiled.to_bytes()];
            let [public, weights] = files.map(|file| store.put(&file, LIMIT).unwrap());
            model(&store, &public, &weights)
        };
        assert_eq!(held(&compiled), Holding::Held);
        for range in [[0, 0], [-1, 0], [1, 1]] {
            let mut compiled = compiled.clone();
            let nodes = compiled.program.nodes.iter_mut().enumerate();
            let narrowed: Vec<usize> = nodes
                .filter_map(|(index, node)| {
                    let Op::Requantise(op::Unary { how, .. }) = &mut node.op else {
                        return None;
                    };
                    how.range = range;
                    Some(index)
                })
                .collect();
            assert_eq!(
                held(&compiled),
                Holding::OutOfRange(narrowed[0]),
                "{range:?}"
            );
            let proving = ProvingModel::new(compiled).unwrap();
            let input = tg_exec::IntTensor::I8(input.clone());
            let request = tg_prover::ProveRequest::of(vec![input]);
            let proved = tg_prover::prove(&proving, request, &mut |_| {});
            assert!(proved.is_err(), "{range:?}");
        }
    }

    /// A node that is tied to another one's weights needs them at its own place, after what it reads is known.
    #[test]
    fn tied_weights_are_looked_at_for_each_node_that_reads_them() {
        let (_folder, store) = store();
        let node = |op: Op| tg_ir::Node {
            name: op.name().to_owned(),
            op,
            shape: tg_ir::Shape::vector(8),
            scale: 1.0,
        };
        let how = |reach: i32| {
            let rescale = tg_ir::Rescale::new(1 << 14, 17).unwrap();
            tg_ir::Requantise::to_i8(vec![rescale], vec![0], [-reach, reach], [-5, 5])
        };
        // Weights of 3: 8 x 3 x 128 at first, then 8 x 3 x 5 and the bias.
        let compiled = |second: i32| {
            let weights = tg_ir::Weights {
                layers: [(vec![3; 64], vec![0; 8]), (Vec::new(), vec![2; 8])]
                    .map(|(weights, bias)| tg_ir::LinearWeights { weights, bias })
                    .to_vec(),
            };
            let program = Program {
                name: "tied".to_owned(),
                input: tg_ir::InputSpec::scaled(tg_ir::Shape::vector(8), 1.0),
                nodes: vec![
                    node(Op::Dense(op::Dense {
                        input: tg_ir::TensorId(0),
                    })),
                    node(Op::Requantise(op::Unary {
                        input: tg_ir::TensorId(1),
                        how: how(8 * 3 * 128),
                    })),
                    node(Op::Dense(op::Dense {
                        input: tg_ir::TensorId(2),
                    })),
                    node(Op::Requantise(op::Unary {
                        input: tg_ir::TensorId(3),
                        how: how(second),
                    })),
                ],
                outputs: Vec::new(),
                ties: vec![tg_ir::Tie { node: 2, to: 0 }],
                signature: None,
                tokenizer: None,
                weights_root: weights.root(),
            };
            tg_ir::CompiledModel { program, weights }
        };
        for (second, expected) in [(122, Holding::Held), (121, Holding::OutOfRange(3))] {
            let compiled = compiled(second);
            let public = ProvingModel::new(compiled.clone())
                .unwrap()
                .register()
                .unwrap();
            let files = [public.encode(), compiled.to_bytes()];
            let [public, weights] = files.map(|file| store.put(&file, LIMIT).unwrap());
            assert_eq!(model(&store, &public, &weights), expected);
        }
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

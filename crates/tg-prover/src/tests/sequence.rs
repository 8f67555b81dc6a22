//! Sequences: what a language model wrote is proved by one execution over it, and nothing else is.

use crate::{ProveRequest, ProvingModel};
use std::sync::LazyLock;
use tg_compile::suite::{WriterSizes, tiny_transformer, writing_transformer};
use tg_exec::IntTensor;
use tg_exec::generate::generate;
use tg_exec::kernels::Cpu;
use tg_exec::sample::Numbers;
use tg_ir::generation::{GenerationError, GeneratorError};
use tg_ir::{GenerationRequest, Sampling, sampling::NUCLEUS_ALL};
use tg_proof::{
    ExpectedSequence, ExpectedStatement, PublicModel, SequenceError, SequenceFile, VerifyError,
    verify_answer, verify_sequence,
};
use tg_types::codec::Encode;
use tg_types::{Address, Digest, JobId};

use super::fuzz::corrupt;

struct Written {
    model: ProvingModel,
    public: PublicModel,
    file: SequenceFile,
}

static WRITTEN: LazyLock<Written> = LazyLock::new(|| {
    let (mut model, _) = tiny_transformer(5);
    tg_ir::generation::rank(&mut model.program, 4).unwrap();
    let request = GenerationRequest {
        prompt: vec![7, 1, 30],
        limit: 4,
        stop: None,
        sampling: Sampling {
            keep: 4,
            rescale: Sampling::rescale(1.0, 3_000.0).unwrap(),
            nucleus: NUCLEUS_ALL,
            seed: [3; 32],
        },
    };
    let model = model.checked().unwrap();
    let written = generate(&model, &request, Cpu::new(1), &mut |_| true).unwrap();
    let model = ProvingModel::of_checked(model).unwrap();
    let public = model.register().unwrap();
    let generation = written.generation;
    let proof = prove(&model, written.tokens);
    let file = SequenceFile { generation, proof };
    Written {
        model,
        public,
        file,
    }
});

fn prove(model: &ProvingModel, tokens: IntTensor) -> tg_proof::ProofFile {
    let (proof, _) = crate::prove(model, ProveRequest::of(vec![tokens]), &mut |_| {}).unwrap();
    proof
}

fn verdict(file: &SequenceFile) -> Result<(), SequenceError> {
    verify_sequence(&WRITTEN.public, file, &ExpectedStatement::default())
}

#[test]
fn a_written_sequence_is_proved_by_one_execution() {
    let Written { file, .. } = &*WRITTEN;
    assert_eq!(verdict(file), Ok(()));
    let (given, written) = file.tokens().unwrap();
    assert_eq!((given, written.len()), (vec![7, 1, 30], 4));
    let bytes = file.to_bytes();
    assert!(SequenceFile::is_one(&bytes));
    assert_eq!(SequenceFile::read(&bytes).as_ref(), Ok(file));
}

/// Stops: evidence at which a validator panics, and comes to no verdict.
#[test]
fn a_sequence_that_states_more_tokens_than_it_has_is_refused() {
    let Written { public, file, .. } = &*WRITTEN;
    let expected = ExpectedSequence {
        job: JobId::default(),
        provider: Address::default(),
        request: Digest::new([1; 32]),
        written: Digest::new([2; 32]),
    };
    for (prompt, written) in [
        (u32::MAX, 1),
        (1, u32::MAX),
        (u32::MAX, u32::MAX),
        (1 << 20, 0),
    ] {
        let mut other = file.clone();
        (other.generation.prompt, other.generation.written) = (prompt, written);
        assert_eq!(other.tokens(), None);
        let found = tg_proof::verify_answer(public, &other, &expected);
        assert_eq!(found, Err(SequenceError::Statement));
        assert!(verdict(&other).is_err());
    }
}

/// An honest proof of an execution over other tokens than were drawn.
#[test]
fn tokens_that_were_not_drawn_are_caught() {
    let Written { model, file, .. } = &*WRITTEN;
    let first = file.generation.prompt as usize;
    for position in first..file.generation.length() as usize {
        let mut tokens: Vec<i32> = file
            .proof
            .input
            .as_chunks::<4>()
            .0
            .iter()
            .map(|bytes| i32::from_le_bytes(*bytes))
            .collect();
        tokens[position] ^= 1;
        let proof = prove(model, IntTensor::I32(tokens));
        let forged = SequenceFile {
            proof,
            ..file.clone()
        };
        assert!(matches!(
            verdict(&forged),
            Err(SequenceError::Generation(GenerationError::Token { .. }))
        ));
    }
    let mut other = file.clone();
    other.generation.sampling.seed[31] ^= 1;
    let mut drawn = verdict(&other);
    // A seed may happen to draw the same: the next ones do not.
    for seed in 0..4 {
        other.generation.sampling.seed = [seed + 100; 32];
        drawn = drawn.and(verdict(&other));
    }
    assert!(matches!(drawn, Err(SequenceError::Generation(_))));
}

/// Scores from which the written tokens are drawn, and which the model does not give.
#[test]
fn scores_that_the_model_does_not_give_are_caught() {
    let Written { file, .. } = &*WRITTEN;
    let mut forged = file.clone();
    let (first, prompt) = (
        forged.proof.input.len() - 4,
        file.generation.prompt as usize,
    );
    // The last position's scores draw nothing: only the proof says that they are wrong.
    let output = &mut forged.proof.output;
    let last = output.len() - 4;
    output[last] ^= 1;
    forged.proof.statement.output = Digest::of_blob(output);
    assert!(matches!(verdict(&forged), Err(SequenceError::Proof(_))));
    // Other tokens, and scores that draw them.
    let mut forged = file.clone();
    let rows = forged.proof.output.len() / (first / 4 + 1);
    let before = &mut forged.proof.output[(prompt - 1) * rows..][..rows];
    let token = 4 * prompt;
    let drawn: [u8; 4] = forged.proof.input[token..][..4].try_into().unwrap();
    let other = (i32::from_le_bytes(drawn) ^ 1).to_le_bytes();
    before[rows / 2..].as_chunks_mut::<4>().0.fill(other);
    forged.proof.input[token..][..4].copy_from_slice(&other);
    forged.proof.statement.input = Digest::of_blob(&forged.proof.input);
    forged.proof.statement.output = Digest::of_blob(&forged.proof.output);
    assert!(
        matches!(
            verdict(&forged),
            Err(SequenceError::Proof(VerifyError::Node { .. }))
        ),
        "{:?}",
        verdict(&forged)
    );
}

#[test]
fn other_models_and_statements_are_refused() {
    let Written { file, .. } = &*WRITTEN;
    let mut several = file.clone();
    several.proof.statement.batch = 2;
    assert_eq!(verdict(&several), Err(SequenceError::Statement));
    let mut hidden = file.clone();
    hidden.proof.statement.zk = Some(tg_proof::Modes::HIDDEN_INPUT);
    assert_eq!(verdict(&hidden), Err(SequenceError::Statement));
    let mut short = file.clone();
    short.proof.input.pop();
    assert_eq!(verdict(&short), Err(SequenceError::Statement));
    let other = super::models::case();
    let refused = verify_sequence(&other.public, file, &ExpectedStatement::default());
    assert_eq!(
        refused,
        Err(SequenceError::Generator(GeneratorError::NoTokens))
    );
    let expected = ExpectedStatement {
        job: Some(JobId::new([1; 32])),
        ..ExpectedStatement::default()
    };
    let refused = verify_sequence(&WRITTEN.public, file, &expected);
    let field = "job";
    assert_eq!(
        refused,
        Err(SequenceError::Proof(VerifyError::Statement { field }))
    );
}

/// Any bytes give a verdict, and none but the file's own is accepted.
#[test]
fn corrupted_sequences_are_refused() {
    let honest = WRITTEN.file.to_bytes();
    let mut numbers = Numbers::new(31);
    for case in 0..600 {
        let bytes = corrupt(&honest, &mut numbers);
        assert!(!super::fuzz::fuzz_sequence(&bytes, verdict), "case {case}");
    }
}

/// Where nothing is drawn, one answer has one file: seed, temperature and share of weight do not matter, so none may be said.
#[test]
fn a_greedy_sequence_has_one_encoding() {
    let (mut model, _) = tiny_transformer(5);
    tg_ir::generation::rank(&mut model.program, 4).unwrap();
    let model = model.checked().unwrap();
    let request = GenerationRequest {
        prompt: vec![7, 1, 30],
        limit: 3,
        stop: None,
        sampling: Sampling::greatest(),
    };
    let written = generate(&model, &request, Cpu::new(1), &mut |_| true).unwrap();
    let generation = written.generation;
    let model = ProvingModel::of_checked(model).unwrap();
    let public = model.register().unwrap();
    let proof = prove(&model, written.tokens);
    let file = SequenceFile { generation, proof };
    let found = verify_sequence(&public, &file, &ExpectedStatement::default());
    assert_eq!(found, Ok(()));
    let honest = file.to_bytes();
    assert_eq!(SequenceFile::read(&honest).as_ref(), Ok(&file));
    for change in [
        |sampling: &mut Sampling| sampling.seed[0] ^= 1,
        |sampling: &mut Sampling| sampling.nucleus -= 1,
        |sampling: &mut Sampling| sampling.rescale = Sampling::rescale(1.0, 3_000.0).unwrap(),
    ] {
        let mut other = file.clone();
        change(&mut other.generation.sampling);
        assert!(SequenceFile::read(&other.to_bytes()).is_err());
    }
    // Rescale, share of weight and seed: what follows `keep`.
    let end = generation_bytes(&file);
    for bit in 8 * (end - 44)..8 * end {
        let mut bytes = honest.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(SequenceFile::read(&bytes).is_err(), "bit {bit}");
    }
}

/// Where a file's proof begins: after the magic word, the version and the generation.
fn generation_bytes(file: &SequenceFile) -> usize {
    6 + file.generation.to_bytes().len()
}

/// A sequence that answers a request of a job, and what its receipt names.
fn answered() -> (PublicModel, SequenceFile, ExpectedSequence) {
    let sizes = WriterSizes {
        layers: 1,
        channels: 16,
        heads: 2,
        window: 32,
        vocabulary: 32,
    };
    let (mut model, _) = writing_transformer(&sizes, 5);
    tg_ir::generation::rank(&mut model.program, 4).unwrap();
    let model = model.checked().unwrap();
    let request = GenerationRequest {
        prompt: vec![7, 1, 30],
        limit: 5,
        stop: Some(31),
        sampling: Sampling {
            keep: 4,
            rescale: Sampling::rescale(1.0, 3_000.0).unwrap(),
            nucleus: NUCLEUS_ALL,
            seed: [3; 32],
        },
    };
    let input = request.to_input(model.program.input_bytes()).unwrap();
    let written = generate(&model, &request, Cpu::new(1), &mut |_| true).unwrap();
    let output = tg_ir::request::written_bytes(&written.written());
    let model = ProvingModel::of_checked(model).unwrap();
    let public = model.register().unwrap();
    let (job, provider) = (JobId::new([4; 32]), Address::new([5; 20]));
    let proved = ProveRequest::of(vec![written.tokens.clone()]).named(job, provider);
    let (proof, _) = crate::prove(&model, proved, &mut |_| {}).unwrap();
    let file = SequenceFile {
        generation: written.generation,
        proof,
    };
    let expected = ExpectedSequence {
        job,
        provider,
        request: Digest::of_blob(&input),
        written: Digest::of_blob(&output),
    };
    (public, file, expected)
}

/// A receipt of a generation is shown by the sequence that answers its request, proved for its job, and by nothing near it.
#[test]
fn a_receipt_names_one_sequence() {
    let (public, file, expected) = answered();
    assert_eq!(verify_answer(&public, &file, &expected), Ok(()));
    let wrong = |change: &dyn Fn(&mut ExpectedSequence)| {
        let mut expected = expected;
        change(&mut expected);
        verify_answer(&public, &file, &expected).unwrap_err()
    };
    let other = Digest::new([9; 32]);
    let error = wrong(&|expected| expected.request = other);
    assert_eq!(
        (error.code(), error),
        (73, SequenceError::Receipt { field: "request" })
    );
    let error = wrong(&|expected| expected.written = other);
    assert_eq!(error, SequenceError::Receipt { field: "tokens" });
    // Proofs for others: what they name is a part of what is proved.
    let error = wrong(&|expected| expected.job = JobId::new([6; 32]));
    assert!(matches!(
        error,
        SequenceError::Proof(VerifyError::Statement { .. })
    ));
    let error = wrong(&|expected| expected.provider = Address::new([6; 20]));
    assert!(matches!(
        error,
        SequenceError::Proof(VerifyError::Statement { .. })
    ));
    // Every parameter of the draws is a part of the request.
    for change in [
        |generation: &mut tg_ir::Generation| generation.limit += 1,
        |generation: &mut tg_ir::Generation| generation.stop = None,
        |generation: &mut tg_ir::Generation| generation.sampling.seed[0] ^= 1,
        |generation: &mut tg_ir::Generation| generation.sampling.keep = 3,
        |generation: &mut tg_ir::Generation| generation.sampling.nucleus -= 1,
        |generation: &mut tg_ir::Generation| generation.prompt += 1,
    ] {
        let mut forged = file.clone();
        change(&mut forged.generation);
        assert!(verify_answer(&public, &forged, &expected).is_err());
    }
    // Fewer bytes than a window, which could not be read as one.
    let mut forged = file.clone();
    forged.proof.input.truncate(8);
    let error = verify_answer(&public, &forged, &expected).unwrap_err();
    assert_eq!(error, SequenceError::Statement);
}

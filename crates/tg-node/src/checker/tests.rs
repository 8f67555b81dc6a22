//! Real proofs of a small model, and everything near them that must be refused.
#![allow(clippy::unwrap_used, reason = "tests")]

use tg_model::Tensor;
use tg_model::sample::random_model;
use tg_prover::{Limits, Masking, ModelError, Modes, ProvingModel, prove, prove_zk};
use tg_types::{Encode as _, LeaseId, Tier};

use super::*;

const JOB: JobId = JobId::new([7; 32]);
const PROVIDER: Address = Address::new([9; 20]);

/// A registered model, one proved job, and the task that a ledger would give.
struct Case {
    _folder: tempfile::TempDir,
    blobs: BlobStore,
    checker: ProofChecker,
    public: PublicModel,
    registration: EvidenceTask,
    work: EvidenceTask,
    model: ProvingModel,
    input: Vec<i8>,
}

fn provable() -> (ProvingModel, Vec<i8>) {
    (0..)
        .find_map(|seed| {
            let (compiled, input) = random_model(seed);
            match ProvingModel::new(compiled) {
                Ok(model) => Some((model, input)),
                Err(ModelError::Plan(_)) => None,
                Err(error) => panic!("seed {seed}: {error}"),
            }
        })
        .unwrap()
}

fn case() -> Case {
    let folder = tempfile::tempdir().unwrap();
    let blobs = BlobStore::open(folder.path(), 64 << 20).unwrap();
    let (model, input) = provable();
    let public = model.register().unwrap();
    let public_blob = blobs.put(&public.encode(), PUBLIC_MODEL_BYTES_MAX).unwrap();
    let (file, _) = prove(&model, &input, JOB, PROVIDER, &mut |_| {}).unwrap();
    let bytes = file.to_bytes();
    let evidence = blobs.put(&bytes, EVIDENCE_BYTES_MAX).unwrap();
    let work = EvidenceTask::Lease {
        lease: LeaseId::new([1; 32]),
        job: JOB,
        provider: PROVIDER,
        model: public.id(),
        public_blob,
        program: public.program_id(),
        receipt: Box::new(Receipt {
            program: public.program_id(),
            model: public.id(),
            input: file.statement.input,
            output: file.statement.output,
            trace: Digest::default(),
            tier: Tier::Tgx1,
        }),
        evidence,
        size: u32::try_from(bytes.len()).unwrap(),
    };
    Case {
        _folder: folder,
        blobs,
        checker: ProofChecker::default(),
        registration: EvidenceTask::Model {
            model: public.id(),
            public_blob,
        },
        public,
        work,
        model,
        input,
    }
}

impl Case {
    /// The work's task with a proof in zero knowledge.
    fn masked(&self, modes: Modes) -> EvidenceTask {
        let (masking, limits) = (Masking::new([3; 32], modes), Limits::default());
        let inputs = vec![Tensor::I8(self.input.clone())];
        let with = (&masking, &limits);
        let proved = prove_zk(&self.model, inputs, (JOB, PROVIDER), with, &mut |_| {});
        let bytes = proved.unwrap().0.to_bytes();
        let mut task = self.work.clone();
        if let EvidenceTask::Lease { evidence, size, .. } = &mut task {
            *evidence = self.blobs.put(&bytes, EVIDENCE_BYTES_MAX).unwrap();
            *size = u32::try_from(bytes.len()).unwrap();
        }
        task
    }

    fn check(&self, task: &EvidenceTask) -> Outcome {
        self.checker.check(task, &self.blobs).unwrap()
    }

    fn refused(&self, task: &EvidenceTask) -> (u16, String) {
        match self.check(task) {
            Outcome::Rejected { code, check } => (code, check.to_string()),
            accepted => panic!("{accepted:?}"),
        }
    }

    /// The same work with one field changed.
    fn changed(&self, change: impl FnOnce(&mut EvidenceTask)) -> (u16, String) {
        let mut task = self.work.clone();
        change(&mut task);
        self.refused(&task)
    }

    fn shown(&self, bytes: &[u8]) -> (u16, String) {
        let shown = self.blobs.put(bytes, PUBLIC_MODEL_BYTES_MAX).unwrap();
        self.changed(|task| {
            if let EvidenceTask::Lease { evidence, size, .. } = task {
                *evidence = shown;
                *size = u32::try_from(bytes.len()).unwrap();
            }
        })
    }

    fn evidence(&self) -> Vec<u8> {
        let digest = self.work.evidence();
        self.blobs
            .get(&digest, EVIDENCE_BYTES_MAX)
            .unwrap()
            .unwrap()
    }
}

/// A proof in zero knowledge answers a job if it shows what the job names: its input and the receipt's output.
#[test]
fn a_masked_proof_is_accepted_if_its_input_is_public() {
    let case = case();
    assert_eq!(
        case.check(&case.masked(Modes::PUBLIC)),
        Outcome::LeaseAccepted
    );
    let (code, check) = case.refused(&case.masked(Modes::HIDDEN_INPUT));
    assert_eq!((code, check.as_str()), (2, "statement: input"));
}

#[test]
fn a_model_and_a_proof_are_accepted_and_nothing_near_them() {
    let case = case();
    let Outcome::ModelAccepted(facts) = case.check(&case.registration) else {
        panic!("the model is good");
    };
    assert_eq!(facts.program, case.public.program_id());
    assert!(facts.provable && facts.macs > 0 && facts.output_len > 0);
    assert_eq!(case.check(&case.work), Outcome::LeaseAccepted);

    let other = |name: &str| (2, format!("statement: {name}"));
    type Change = fn(&mut EvidenceTask);
    let changes: [(Change, (u16, String)); 7] = [
        (
            |task| lease(task, |job, _, _, _| *job = JobId::new([8; 32])),
            other("job"),
        ),
        (
            |task| lease(task, |_, provider, _, _| *provider = Address::new([8; 20])),
            other("provider"),
        ),
        (
            |task| {
                lease(task, |_, _, receipt, _| {
                    receipt.input = Digest::new([8; 32])
                })
            },
            other("input"),
        ),
        (
            |task| {
                lease(task, |_, _, receipt, _| {
                    receipt.output = Digest::new([8; 32])
                })
            },
            other("output"),
        ),
        (
            |task| {
                lease(task, |_, _, receipt, _| {
                    receipt.program = ProgramId::new([8; 32])
                })
            },
            (CODE_RECEIPT, "receipt".to_owned()),
        ),
        (
            |task| {
                lease(task, |_, _, receipt, _| {
                    receipt.model = ModelId::new([8; 32])
                })
            },
            (CODE_RECEIPT, "receipt".to_owned()),
        ),
        (
            |task| lease(task, |_, _, _, size| *size += 1),
            (CODE_SIZE, "evidence size".to_owned()),
        ),
    ];
    for (change, expected) in changes {
        assert_eq!(case.changed(change), expected);
    }
}

fn lease(
    task: &mut EvidenceTask,
    change: impl FnOnce(&mut JobId, &mut Address, &mut Receipt, &mut u32),
) {
    if let EvidenceTask::Lease {
        job,
        provider,
        receipt,
        size,
        ..
    } = task
    {
        change(job, provider, receipt, size);
    }
}

#[test]
fn bytes_that_are_no_proof_are_refused_by_name() {
    let case = case();
    assert_eq!(case.shown(b"").0, CODE_PROOF_FILE);
    assert_eq!(case.shown(&[0x54; 300]).0, CODE_PROOF_FILE);
    let good = case.evidence();
    assert_eq!(case.shown(&good[..good.len() - 1]).0, CODE_PROOF_FILE);
    // One byte of the proof, of its input and of its output each.
    for at in [good.len() / 2, good.len() - 40] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        let (code, check) = case.shown(&bad);
        assert!(code < CODE_SIZE, "byte {at}: {code} {check}");
    }
    let large = vec![1; usize::try_from(EVIDENCE_BYTES_MAX).unwrap() + 1];
    assert_eq!(case.shown(&large), (CODE_SIZE, "evidence size".to_owned()));
}

#[test]
fn bytes_that_are_no_model_are_refused_by_name() {
    let case = case();
    let register = |bytes: &[u8], model| {
        let public_blob = case.blobs.put(bytes, PUBLIC_MODEL_BYTES_MAX).unwrap();
        case.refused(&EvidenceTask::Model { model, public_blob })
    };
    let good = case.public.encode();
    assert_eq!(
        register(&good, ModelId::new([1; 32])),
        (CODE_MODEL_ID, "model id".to_owned())
    );
    assert_eq!(register(b"TGV", case.public.id()).0, CODE_PUBLIC_MODEL);
    assert_eq!(
        register(&good[..good.len() - 1], case.public.id()).0,
        CODE_PUBLIC_MODEL
    );
    let mut bad = good;
    let last = bad.len() - 1;
    bad[last] ^= 1;
    let (code, check) = register(&bad, case.public.id());
    assert!((60..80).contains(&code), "{code} {check}");
}

#[test]
fn missing_and_damaged_blobs_are_reasons_to_wait() {
    let case = case();
    let missing = EvidenceTask::Model {
        model: case.public.id(),
        public_blob: Digest::new([5; 32]),
    };
    let error = case.checker.check(&missing, &case.blobs).unwrap_err();
    assert!(matches!(error, CheckError::Missing { digest } if digest == Digest::new([5; 32])));
    // A decoded model stays usable; the checker of a restarted validator has to read it again.
    let path = case._folder.path();
    for folder in std::fs::read_dir(path).unwrap() {
        let folder = folder.unwrap().path();
        for file in std::fs::read_dir(&folder).into_iter().flatten() {
            std::fs::write(file.unwrap().path(), b"damaged").unwrap();
        }
    }
    let error = case.checker.check(&case.work, &case.blobs).unwrap_err();
    assert!(matches!(error, CheckError::Blob(BlobError::Damaged { .. })));
}

#[test]
fn old_models_leave_the_cache() {
    let case = case();
    case.check(&case.registration);
    let blob = case.registration.evidence();
    assert!(case.checker.kept(&blob).is_some());
    let model = case.checker.kept(&blob).unwrap();
    let mut models = case.checker.models.lock().unwrap();
    for number in 0..u8::try_from(MODELS_KEPT).unwrap() {
        if models.len() == MODELS_KEPT {
            models.pop_front();
        }
        models.push_back((Digest::new([number; 32]), model.clone()));
    }
    drop(models);
    assert!(case.checker.kept(&blob).is_none());
    assert_eq!(case.check(&case.work), Outcome::LeaseAccepted);
}

/// Orders and blobs count bytes: an input of 16 bits has two for each element.
#[test]
fn facts_count_bytes() {
    use tg_ir::{Coding, CompiledModel, ElementType, InputSpec, LinearWeights, Node, Op};
    use tg_ir::{Program, Requantise, Rescale, Shape, TensorId, Weights};
    let node = |op: Op, channels| Node {
        name: op.name().to_owned(),
        op,
        shape: Shape::vector(channels),
        scale: 1.0,
    };
    let layer = |weights| LinearWeights {
        weights: vec![1; weights],
        bias: vec![0; 2],
    };
    let how = Requantise::to_i8(
        vec![Rescale::new(16_384, 24).unwrap()],
        vec![0],
        [-100_000, 100_000],
        [-128, 127],
    );
    let weights = Weights {
        layers: vec![layer(6), layer(4)],
    };
    let mut input = InputSpec::scaled(Shape::vector(3), 1.0);
    input.coding = Coding::Scaled(ElementType::I16);
    let program = Program {
        name: "words".to_owned(),
        input,
        nodes: vec![
            node(Op::Dense { input: TensorId(0) }, 2),
            node(
                Op::Requantise {
                    input: TensorId(1),
                    how,
                },
                2,
            ),
            node(Op::Dense { input: TensorId(2) }, 2),
        ],
        ties: Vec::new(),
        weights_root: weights.root(),
    };
    let model = ProvingModel::new(CompiledModel { program, weights }).unwrap();
    let public = model.register().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let blobs = BlobStore::open(folder.path(), 64 << 20).unwrap();
    let public_blob = blobs.put(&public.encode(), PUBLIC_MODEL_BYTES_MAX).unwrap();
    let task = EvidenceTask::Model {
        model: public.id(),
        public_blob,
    };
    let outcome = ProofChecker::default().check(&task, &blobs).unwrap();
    let Outcome::ModelAccepted(facts) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!((facts.input_len, facts.output_len), (6, 8));
}

/// Providers hold the weights of what they prove, but not the secret that hides private ones.
#[test]
fn private_weights_are_not_for_grids() {
    const PUBLIC: &[u8] = include_bytes!("../../../tg-proof/tests/data/private.tgv");
    let folder = tempfile::tempdir().unwrap();
    let blobs = BlobStore::open(folder.path(), 64 << 20).unwrap();
    let public_blob = blobs.put(PUBLIC, PUBLIC_MODEL_BYTES_MAX).unwrap();
    let model = PublicModel::decode(PUBLIC).unwrap().id();
    let task = EvidenceTask::Model { model, public_blob };
    let outcome = ProofChecker::default().check(&task, &blobs).unwrap();
    let Outcome::Rejected { code, check } = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!((code, check.to_string().as_str()), (87, "private weights"));
}

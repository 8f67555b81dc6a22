//! Real proofs of a small model, and everything near them that must be refused.
#![allow(clippy::unwrap_used, reason = "tests")]

use tg_exec::IntTensor;
use tg_exec::sample::random_model;
use tg_prover::{Masking, ModelError, Modes, ProveRequest, ProvingModel, prove};
use tg_types::{Amount, Encode as _, LeaseId, ProgramId, Receipt, Tier, TimestampMs};

use super::kept::ReadAs;
use super::*;
use crate::storage::Holding;

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
    let request = ProveRequest::of(vec![IntTensor::I8(input.clone())]).named(JOB, PROVIDER);
    let (file, _) = prove(&model, request, &mut |_| {}).unwrap();
    let bytes = file.to_bytes();
    let evidence = blobs.put(&bytes, EVIDENCE_BYTES_MAX).unwrap();
    let work = EvidenceTask::Lease {
        lease: LeaseId::new([1; 32]),
        job: JOB,
        provider: PROVIDER,
        model: public.id(),
        mode: VerificationMode::Proof,
        public_blob,
        weights_blob: Digest::default(),
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
        let masking = Masking::new([3; 32], modes);
        let inputs = vec![IntTensor::I8(self.input.clone())];
        let request = ProveRequest::of(inputs).named(JOB, PROVIDER);
        let proved = prove(&self.model, request.masked(&masking), &mut |_| {});
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

/// What decoded models take is counted in bytes, and the one that was not used longest leaves first.
#[test]
fn kept_models_are_bounded_by_their_bytes() {
    let case = case();
    case.check(&case.registration);
    let blob = (case.registration.evidence(), ReadAs::Public);
    let Some(Verdict::Admitted(model)) = case.checker.kept().find(&blob) else {
        panic!("an admitted model is kept");
    };
    let named = |number: u64| {
        let digest = Digest::of_blob(&number.to_le_bytes());
        (digest, ReadAs::Public)
    };
    let room = kept::BYTES_MAX / model.memory();
    for number in 1..room {
        let verdict = Verdict::Admitted(model.clone());
        case.checker.kept().keep(named(number), verdict);
    }
    // Looked up, it is the last to leave.
    assert!(case.checker.kept().find(&blob).is_some());
    for number in room..room + 2 {
        let verdict = Verdict::Admitted(model.clone());
        case.checker.kept().keep(named(number), verdict);
    }
    let mut kept = case.checker.kept();
    assert!(kept.find(&named(1)).is_none());
    assert!(kept.find(&blob).is_some());
    assert!(kept.find(&named(room + 1)).is_some());
    drop(kept);
    assert_eq!(case.check(&case.work), Outcome::LeaseAccepted);
}

/// Registering one refused model again and again costs its decoding once: nothing of it is kept but why.
#[test]
fn a_refused_model_is_decoded_once() {
    let case = case();
    let mut bad = case.public.encode();
    let last = bad.len() - 1;
    bad[last] ^= 1;
    let public_blob = case.blobs.put(&bad, PUBLIC_MODEL_BYTES_MAX).unwrap();
    let model = case.public.id();
    let task = EvidenceTask::Model { model, public_blob };
    let refused = case.check(&task);
    assert!(matches!(refused, Outcome::Rejected { .. }));
    let kept = case.checker.kept().find(&(public_blob, ReadAs::Public));
    assert!(matches!(kept, Some(Verdict::Refused(outcome)) if outcome == refused));
    // Its bytes are not asked for again.
    for folder in std::fs::read_dir(case._folder.path()).unwrap() {
        let folder = folder.unwrap().path();
        for file in std::fs::read_dir(&folder).into_iter().flatten() {
            std::fs::write(file.unwrap().path(), b"damaged").unwrap();
        }
    }
    assert_eq!(case.check(&task), refused);
}

/// A dense layer and a hundred rankings: 24 kB whose proofs verify, and are larger than evidence may be. Every provider that
/// made one would be late.
#[test]
fn a_model_whose_proofs_are_no_evidence_is_not_registered() {
    use tg_ir::op::{self, Ranked};
    use tg_ir::{CompiledModel, InputSpec, LinearWeights, Node, Op};
    use tg_ir::{Program, Requantise, Rescale, Shape, TensorId, Weights};
    let shape = Shape::vector(32);
    let node = |op: Op| Node {
        name: op.name().to_owned(),
        op,
        shape,
        scale: 1.0,
    };
    let weights = Weights {
        layers: vec![LinearWeights {
            weights: (0..32 * 32).map(|at| (at % 7) as i8 - 3).collect(),
            bias: vec![0; 32],
        }],
    };
    let model = |rankings: u32| {
        let dense = Op::Dense(op::Dense { input: TensorId(0) });
        let ranked = (1..=rankings).map(|input| {
            Op::TopK(op::TopK {
                input: TensorId(input),
                give: Ranked::Values,
            })
        });
        let how = Requantise::to_i8(
            vec![Rescale::new(16_384, 24).unwrap()],
            vec![0],
            [-100_000, 100_000],
            [-128, 127],
        );
        let last = Op::Requantise(op::Unary {
            input: TensorId(rankings + 1),
            how,
        });
        let ops = std::iter::once(dense).chain(ranked).chain([last]);
        let program = Program {
            name: "ranked".to_owned(),
            input: InputSpec::scaled(shape, 1.0),
            nodes: ops.map(node).collect(),
            outputs: Vec::new(),
            ties: Vec::new(),
            signature: None,
            tokenizer: None,
            weights_root: weights.root(),
        };
        let weights = weights.clone();
        ProvingModel::new(CompiledModel { program, weights }).unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    let blobs = BlobStore::open(folder.path(), 64 << 20).unwrap();
    let register = |rankings| {
        let public = model(rankings).register().unwrap();
        let public_blob = blobs.put(&public.encode(), PUBLIC_MODEL_BYTES_MAX).unwrap();
        let model = public.id();
        let task = EvidenceTask::Model { model, public_blob };
        ProofChecker::default().check(&task, &blobs).unwrap()
    };
    assert!(matches!(register(10), Outcome::ModelAccepted(_)));
    let refused = register(80);
    let Outcome::Rejected { code, .. } = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(code, CODE_MODEL_PROOF);
}

/// Orders and blobs count bytes: an input of 16 bits has two for each element.
#[test]
fn facts_count_bytes() {
    use tg_ir::op;
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
            node(Op::Dense(op::Dense { input: TensorId(0) }), 2),
            node(
                Op::Requantise(op::Unary {
                    input: TensorId(1),
                    how,
                }),
                2,
            ),
            node(Op::Dense(op::Dense { input: TensorId(2) }), 2),
        ],
        outputs: Vec::new(),
        ties: Vec::new(),
        signature: None,
        tokenizer: None,
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

#[test]
fn of_a_served_model_its_card_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = BlobStore::open(folder.path(), 64 << 20).unwrap();
    let card = ServedCard {
        provider: PROVIDER,
        name: Label::lossy("parrot"),
        context: 4_096,
        calls: 1,
        prompt_price: Amount::ZERO,
        completion_price: Amount::ZERO,
        issued: TimestampMs::ZERO,
    };
    let check = |card: &ServedCard, model| {
        let public_blob = blobs.put(&card.file(), PUBLIC_MODEL_BYTES_MAX).unwrap();
        let held = crate::storage::model(&blobs, &public_blob, &public_blob);
        let task = EvidenceTask::Model { model, public_blob };
        let outcome = ProofChecker::default().check(&task, &blobs).unwrap();
        (outcome, held)
    };
    let (outcome, held) = check(&card, card.model_id());
    let Outcome::ModelAccepted(facts) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(
        (facts.tier, facts.served_by()),
        (Tier::Served, Some(PROVIDER))
    );
    assert_eq!(held, Holding::Held);
    let code = |outcome| match outcome {
        Outcome::Rejected { code, .. } => code,
        other => panic!("{other:?}"),
    };
    let (outcome, _) = check(&card, ModelId::new([1; 32]));
    assert_eq!(code(outcome), CODE_MODEL_ID);
    let wrong = ServedCard { context: 0, ..card };
    let (outcome, held) = check(&wrong, wrong.model_id());
    assert_eq!(code(outcome), CODE_CARD);
    assert!(matches!(held, Holding::Wrong(_)));
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

/// A model that is run again, and what is near an honest answer.
struct Rerun {
    _folder: tempfile::TempDir,
    blobs: BlobStore,
    checker: ProofChecker,
    weights_blob: Digest,
    receipt: Receipt,
    output: Vec<u8>,
}

impl Rerun {
    fn new(seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let blobs = BlobStore::open(folder.path(), 64 << 20).unwrap();
        let (compiled, input) = random_model(seed);
        let weights_blob = blobs.put(&compiled.to_bytes(), 1 << 20).unwrap();
        let model = compiled.checked().unwrap();
        let trace = tg_exec::execute(&model, &input).unwrap();
        let input = IntTensor::I8(input).to_bytes();
        let output = trace.output_bytes();
        let receipt = Receipt {
            program: model.program.id(),
            model: ModelId::new([3; 32]),
            input: blobs.put(&input, 1 << 20).unwrap(),
            output: Digest::of_blob(&output),
            trace: trace.digest(),
            tier: Tier::Tgx1,
        };
        Self {
            _folder: folder,
            blobs,
            checker: ProofChecker::default(),
            weights_blob,
            receipt,
            output,
        }
    }

    fn check(&self, receipt: &Receipt, evidence: Digest) -> Result<Outcome, CheckError> {
        let task = EvidenceTask::Lease {
            lease: LeaseId::new([1; 32]),
            job: JOB,
            provider: PROVIDER,
            model: self.receipt.model,
            mode: VerificationMode::Recompute,
            public_blob: Digest::default(),
            weights_blob: self.weights_blob,
            program: self.receipt.program,
            receipt: Box::new(receipt.clone()),
            evidence,
            size: 1,
        };
        self.checker.check(&task, &self.blobs)
    }

    fn code(&self, receipt: &Receipt, evidence: Digest) -> Option<u16> {
        match self.check(receipt, evidence).unwrap() {
            Outcome::Rejected { code, .. } => Some(code),
            _ => None,
        }
    }
}

/// Whoever registers a model names any blob as its public part. The weights of somebody else's model are none, and stay that model's weights.
#[test]
fn weights_that_are_registered_as_a_public_part_are_weights_all_the_same() {
    let case = Rerun::new(5);
    let registration = EvidenceTask::Model {
        model: case.receipt.model,
        public_blob: case.weights_blob,
    };
    let refused = |case: &Rerun| case.checker.check(&registration, &case.blobs).unwrap();
    let first = refused(&case);
    assert!(matches!(first, Outcome::Rejected { .. }), "{first:?}");
    assert_eq!(case.code(&case.receipt, case.receipt.output), None);
    // The other way round too: a validator that has the weights ready says the same of the registration as one that has not.
    let case = Rerun::new(5);
    assert_eq!(case.code(&case.receipt, case.receipt.output), None);
    assert_eq!(refused(&case), first);
}

#[test]
fn a_run_again_takes_the_honest_answer_alone_and_delivers_it() {
    let case = Rerun::new(5);
    let honest = &case.receipt;
    assert!(!case.blobs.contains(&honest.output));
    assert_eq!(case.code(honest, honest.output), None);
    let kept = case.blobs.get(&honest.output, 1 << 20).unwrap();
    assert_eq!(kept.as_ref(), Some(&case.output), "it is delivered");
    let other = Digest::of_blob(b"another");
    let lies = [
        (
            Receipt {
                output: other,
                ..honest.clone()
            },
            other,
            CODE_RUN,
        ),
        (
            Receipt {
                trace: other,
                ..honest.clone()
            },
            honest.output,
            CODE_RUN,
        ),
        (honest.clone(), other, CODE_ANSWER),
        (
            Receipt {
                model: ModelId::new([4; 32]),
                ..honest.clone()
            },
            honest.output,
            CODE_RECEIPT,
        ),
        (
            Receipt {
                program: ProgramId::new([4; 32]),
                ..honest.clone()
            },
            honest.output,
            CODE_RECEIPT,
        ),
    ];
    for (receipt, evidence, code) in lies {
        assert_eq!(case.code(&receipt, evidence), Some(code), "{receipt:?}");
    }
    let missing = Receipt {
        input: other,
        ..honest.clone()
    };
    let error = case.check(&missing, honest.output).unwrap_err();
    assert!(matches!(error, CheckError::Missing { digest } if digest == other));
}

#[test]
fn weights_of_another_model_are_not_run() {
    let mut case = Rerun::new(5);
    let (other, _) = random_model(6);
    case.weights_blob = case.blobs.put(&other.to_bytes(), 1 << 20).unwrap();
    assert_eq!(
        case.code(&case.receipt, case.receipt.output),
        Some(CODE_RECEIPT)
    );
    case.weights_blob = case.blobs.put(b"no model", 1 << 20).unwrap();
    assert_eq!(
        case.code(&case.receipt, case.receipt.output),
        Some(CODE_MODEL_SIZE)
    );
}

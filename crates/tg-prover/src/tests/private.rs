//! Proofs and registrations that show nothing of the weights.

use super::models::{Draft, JOB, PROVIDER, everything, set};
use crate::columns::NodeColumns;
use crate::error::ProveError;
use crate::limits::Limits;
use crate::masking::Masking;
use crate::model::ModelError;
use crate::openings::{OpeningError, Openings, Secret, SecretFile};
use crate::tests::mutate;
use crate::{ProveRequest, ProvingModel, prove};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use tg_exec::IntTensor;
use tg_exec::sample::Numbers;
use tg_ir::op;
use tg_ir::{CompiledModel, Op, Shape, TensorId};
use tg_proof::error::RegistrationError;
use tg_proof::hiding::Strength;
use tg_proof::messages;
use tg_proof::model::ProofShape;
use tg_proof::private::{PROOFS_MAX, PrivateRegistration};
use tg_proof::zk::ZkProof;
use tg_proof::{
    ExpectedStatement, Modes, Part, Parts, ProofFile, PublicModel, VerifyError, Visibility,
    security, verify,
};
use tg_types::Digest;
use tg_types::codec::Encode;

/// What is sent of a proof about private weights: no opening beside the hiding ones.
const PRIVATE: Parts = Parts {
    weights: Part::Absent,
    witness: Part::Committed,
};

/// Counts without a file.
#[derive(Debug, Default)]
pub(super) struct Counted(AtomicUsize);

impl Openings for Counted {
    fn begin(&self, _: tg_types::ProgramId, _: usize) -> Result<(), OpeningError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

pub(super) fn secret(model: &CompiledModel, seed: u8, proofs: u32) -> Secret {
    Secret {
        program: model.program.id(),
        seed: [seed; 32],
        proofs,
    }
}

/// A model with private weights, registered.
pub(super) struct Private {
    pub(super) model: ProvingModel,
    pub(super) public: PublicModel,
    pub(super) input: IntTensor,
}

impl Private {
    pub(super) fn of((compiled, input): (CompiledModel, IntTensor)) -> Self {
        let secret = secret(&compiled, 7, 3);
        let model = ProvingModel::private(compiled, &secret).unwrap();
        let public = model
            .register_private(&Counted::default(), [1; 32])
            .unwrap();
        Self {
            model,
            public,
            input,
        }
    }

    pub(super) fn prove(&self, modes: Modes, seed: u8) -> ProofFile {
        prove_with(&self.model, vec![self.input.clone()], modes, seed)
    }

    fn check(&self, file: &ProofFile) -> Result<(), VerifyError> {
        verify(&self.public, file, &ExpectedStatement::default())
    }
}

fn prove_with(model: &ProvingModel, inputs: Vec<IntTensor>, modes: Modes, seed: u8) -> ProofFile {
    let (masking, counted) = (Masking::new([seed; 32], modes), Counted::default());
    let request = ProveRequest::of(inputs).named(JOB, PROVIDER);
    let request = request.masked(&masking).counted_by(&counted);
    prove(model, request, &mut |_| {}).unwrap().0
}

/// The model with every operator, made once.
pub(super) fn private() -> &'static Private {
    static PRIVATE: OnceLock<Private> = OnceLock::new();
    PRIVATE.get_or_init(|| {
        let (model, input) = everything();
        Private::of((model, IntTensor::I8(input)))
    })
}

/// One dense layer, and another.
fn small() -> (CompiledModel, IntTensor) {
    let mut draft = Draft::new(9, Shape::vector(2));
    let input = TensorId::INPUT;
    let acc = draft.push(Op::Dense(op::Dense { input }), Shape::vector(3));
    let input = draft.requantise(acc, 21, [-128, 127]);
    draft.push(Op::Dense(op::Dense { input }), Shape::vector(2));
    draft.finish_tensor()
}

#[test]
fn honest_proofs_verify_in_all_modes() {
    let own = private();
    for modes in [Modes::PUBLIC, Modes::HIDDEN_INPUT] {
        let file = own.prove(modes, 3);
        assert_eq!(own.check(&file), Ok(()), "{modes:?}");
        let read = ProofFile::read(&file.to_bytes()).unwrap();
        assert_eq!(own.check(&read), Ok(()));
        assert!(own.public.witness_root(&file).is_some());
        let report = security::report_zk(&own.public, 1, modes).unwrap();
        assert!(report.bits >= f64::from(security::LEVEL), "{}", report.bits);
        let mut terms = report.terms.iter();
        assert!(terms.any(|term| term.label == "anchor of the private weights"));
    }
    assert_eq!(security::report(&own.public), None);
    let report = security::registration_report(&own.public).unwrap();
    assert!(report.bits >= f64::from(security::LEVEL), "{}", report.bits);
    let inputs = vec![own.input.clone(), own.input.clone()];
    let file = prove_with(&own.model, inputs, Modes::HIDDEN_INPUT, 4);
    assert_eq!(own.check(&file), Ok(()));
    let bytes = own.public.encode();
    let read = PublicModel::decode(&bytes).unwrap();
    assert_eq!((read.id(), read.encode()), (own.model.id(), bytes));
    assert_eq!(read.verify_registration(), Ok(()));
}

/// Embeddings of public and of computed tokens, parameters, groups: every gadget that reads weights.
#[test]
fn every_gadget_with_weights_hides_them() {
    let mut tokens = Draft::new(31, Shape::new(1, 4, 1)).coded(tg_ir::Coding::Tokens(7));
    let input = TensorId::INPUT;
    let embedded = tokens.push(Op::Embed(op::Embed { input, rows: 7 }), Shape::new(1, 4, 6));
    let positions = tokens.push(Op::Parameter(op::Parameter), Shape::new(1, 4, 6));
    let added = tokens.push(Op::add([embedded, positions], [1, 1]), Shape::new(1, 4, 6));
    let input = tokens.narrowed(added, 8);
    tokens.push(Op::Dense(op::Dense { input }), Shape::vector(3));
    let tokens = tokens.finish_tensor();

    let mut grouped = Draft::new(3, Shape::new(3, 3, 4));
    let conv = Op::Conv(op::Conv {
        input: TensorId::INPUT,
        window: super::models::window(3, 1, [1; 4]),
        zero: 3,
        groups: 2,
    });
    let acc = grouped.push(conv, Shape::new(3, 3, 6));
    grouped.requantise(acc, 23, [-128, 127]);
    for case in [tokens, grouped.finish_tensor()] {
        let own = Private::of(case);
        for modes in [Modes::PUBLIC, Modes::HIDDEN_INPUT] {
            let file = own.prove(modes, 3);
            assert_eq!(own.check(&file), Ok(()));
        }
    }
}

/// Public weights and private ones are different models, and no proof of one kind is one of the other.
#[test]
fn kinds_of_weights_are_not_mixed() {
    let own = private();
    let public = super::models::case();
    assert_ne!(own.public.id(), public.public.id());
    let clear = public.file.clone();
    let hidden = super::zk::in_modes(public, Modes::HIDDEN_INPUT);
    let statement = |file: &ProofFile, id| {
        let mut file = file.clone();
        file.statement.model = id;
        file
    };
    let (to_private, to_public) = (own.public.id(), public.public.id());
    assert_eq!(
        own.check(&statement(&clear, to_private)),
        Err(VerifyError::PrivateWeights)
    );
    let refused = Err(VerifyError::Encoding);
    assert_eq!(own.check(&statement(&hidden, to_private)), refused);
    let file = own.prove(Modes::HIDDEN_INPUT, 3);
    assert_eq!(public.check(&statement(&file, to_public)), refused);

    let (masking, counted) = (Masking::new([1; 32], Modes::PUBLIC), Counted::default());
    let request = || ProveRequest::of(vec![own.input.clone()]).named(JOB, PROVIDER);
    let not_masked = request().counted_by(&counted);
    for request in [request(), request().masked(&masking), not_masked] {
        let proved = prove(&own.model, request, &mut |_| {});
        assert_eq!(proved.err(), Some(ProveError::PrivateWeights));
    }
    let request = request().masked(&masking).counted_by(&counted);
    let proved = prove(&public.model, request, &mut |_| {});
    assert!(proved.is_err());
    assert_eq!(
        counted.0.load(Ordering::Relaxed),
        0,
        "what cannot be proved costs no opening"
    );
    let registered = public.model.register_private(&counted, [1; 32]);
    assert!(matches!(registered, Err(ModelError::Public)));
}

/// The commitment, the number of proofs and the registration are those of one model.
#[test]
fn another_commitment_or_number_of_proofs_is_refused() {
    let own = private();
    let parts = |proofs, change: &dyn Fn(&mut tg_proof::commitment::WeightCommitment)| {
        let mut commitment = own.public.weights_commitment().unwrap().clone();
        change(&mut commitment);
        let registration = own.public.registration().to_vec();
        let program = own.public.program().clone();
        PublicModel::with_private_weights(program, commitment, proofs, registration)
    };
    let one = tg_proof::field::basis(0);
    assert_eq!(parts(3, &|_| ()).unwrap().verify_registration(), Ok(()));
    for changed in [
        parts(4, &|_| ()).unwrap(),
        parts(3, &|commitment| commitment.anchor[0][0] += one).unwrap(),
        parts(3, &|commitment| {
            commitment.root = super::models::case()
                .public
                .weights_commitment()
                .unwrap()
                .root
                .clone();
        })
        .unwrap(),
    ] {
        assert!(changed.verify_registration().is_err());
        assert_ne!(changed.id(), own.public.id());
        let mut file = own.prove(Modes::PUBLIC, 3);
        file.statement.model = changed.id();
        assert!(verify(&changed, &file, &ExpectedStatement::default()).is_err());
    }
    for proofs in [0, PROOFS_MAX + 1, 1 << 20] {
        let refused = parts(proofs, &|_| ());
        assert!(refused.is_err(), "{proofs}");
    }
    assert!(parts(3, &|commitment| commitment.anchor.clear()).is_err());
    assert!(parts(3, &|commitment| commitment.anchor[0].push(one)).is_err());
}

/// A prover with other weights than those it committed, who follows the protocol.
#[test]
fn other_weights_than_the_committed_are_refused() {
    let (compiled, input) = small();
    let secret = secret(&compiled, 7, 3);
    let honest = ProvingModel::private(compiled.clone(), &secret).unwrap();
    let public = honest
        .register_private(&Counted::default(), [1; 32])
        .unwrap();
    let check = |model: &ProvingModel| {
        let file = prove_with(model, vec![input.clone()], Modes::HIDDEN_INPUT, 5);
        verify(&public, &file, &ExpectedStatement::default())
    };
    assert_eq!(check(&honest), Ok(()));

    // Other weights executed and walked, the registered commitment opened.
    let change = |change: &dyn Fn(&mut CompiledModel)| {
        let mut other = compiled.clone();
        change(&mut other);
        let (shape, columns) = columns_of(&other);
        let other = other.checked().unwrap();
        let own = ProvingModel::commit_private(other, (shape, columns), &secret, Strength::FULL);
        own.unwrap()
    };
    let changes: [&dyn Fn(&mut CompiledModel); 2] =
        [&|model| model.weights.layers[0].weights[0] ^= 1, &|model| {
            model.weights.layers[1].bias[1] += 1
        }];
    for changed in changes {
        let mut liar = change(changed);
        // It is honest about its own commitment, which is not the registered one.
        assert!(check(&liar).is_err());
        let again = ProvingModel::private(compiled.clone(), &secret).unwrap();
        liar.commitment = again.commitment.clone();
        liar.anchor_point = again.anchor_point.clone();
        liar.rename(again.id());
        // Another commitment opened under the registered root, then the registered one with other claims.
        assert!(matches!(check(&liar), Err(VerifyError::Hidden(_))));
        liar.private = again.private;
        assert!(matches!(check(&liar), Err(VerifyError::Hidden(_))));
    }
}

/// The columns of a model whose weights are not those its program names.
fn columns_of(model: &CompiledModel) -> (ProofShape, Vec<NodeColumns>) {
    let shape = ProofShape::new(model.program.check().unwrap()).unwrap();
    let layers = shape.plan.weights.iter().zip(&model.weights.layers);
    let columns = layers.map(|(layout, layer)| NodeColumns {
        pieces: layout
            .own_pieces()
            .iter()
            .map(|piece| layout.weight_column(piece, layer))
            .collect(),
        bias: layout.biased.then(|| layout.bias_columns(layer)),
    });
    let columns = columns.collect();
    (shape, columns)
}

/// A prover that registers weights outside their range, or cells that are padding.
#[test]
fn what_no_registration_may_hold_is_refused() {
    let (compiled, _) = small();
    let secret = secret(&compiled, 7, 3);
    let verdict = |change: &dyn Fn(&mut Vec<NodeColumns>)| {
        let (shape, mut columns) = columns_of(&compiled);
        change(&mut columns);
        let committed = (shape, columns);
        let model = compiled.clone().checked().unwrap();
        let own = ProvingModel::commit_private(model, committed, &secret, Strength::FULL);
        let public = own.unwrap().register_private(&Counted::default(), [1; 32]);
        public.unwrap().verify_registration()
    };
    assert_eq!(verdict(&|_| ()), Ok(()));
    let refused = Err(RegistrationError::Opening);
    // A weight, a digit and a padded cell of -128; a padded cell, of the weights and of a digit, of 1.
    let last = |column: &mut Vec<i8>| column.len() - 1;
    assert_eq!(verdict(&|own| own[0].pieces[0][0] = -128), refused);
    assert_eq!(
        verdict(&|own| own[1].bias.as_mut().unwrap()[2][0] = -128),
        refused
    );
    assert_eq!(
        verdict(&|own| {
            let place = last(&mut own[0].pieces[0]);
            own[0].pieces[0][place] = 1;
        }),
        refused
    );
    assert_eq!(
        verdict(&|own| own[0].bias.as_mut().unwrap()[1][100] = 1),
        refused
    );
}

/// Every field of a proof and of a registration, changed alone.
#[test]
fn every_message_is_bound() {
    let own = Private::of(small());
    let honest = own.prove(Modes::HIDDEN_INPUT, 3);
    let proof = ZkProof::decode(&honest.proof, PRIVATE).unwrap();
    let mut changes = 0;
    let codes = mutate::all(&serde_json::to_value(&proof).unwrap(), &mut |changed| {
        let proof: ZkProof = serde_json::from_value(changed).ok()?;
        let proof = proof.encode();
        if proof == honest.proof {
            return None;
        }
        changes += 1;
        let file = ProofFile {
            proof,
            ..honest.clone()
        };
        Some(
            own.check(&file)
                .expect_err("a changed proof is refused")
                .code(),
        )
    });
    assert!(changes > 100 && codes.len() > 30, "{changes}");

    let proof: PrivateRegistration = messages::decode(own.public.registration()).unwrap();
    let mut changes = 0;
    let codes = mutate::all(&serde_json::to_value(&proof).unwrap(), &mut |changed| {
        let proof: PrivateRegistration = serde_json::from_value(changed).ok()?;
        changes += 1;
        let commitment = own.public.weights_commitment().unwrap();
        let program = own.public.program_id();
        let shape = own.public.private_weights().unwrap();
        let verdict = tg_proof::private::verify_messages(program, commitment, shape, &proof);
        Some(verdict.expect_err("a changed proof is refused").code())
    });
    assert!(changes > 50 && codes.len() > 20, "{changes}");
}

/// Any bytes give a verdict.
#[test]
fn corrupted_bytes_are_refused() {
    let own = Private::of(small());
    let (file, model) = (own.prove(Modes::PUBLIC, 3).to_bytes(), own.public.encode());
    let mut numbers = Numbers::new(8);
    for _ in 0..200 {
        let bytes = super::fuzz::corrupt(&file, &mut numbers);
        let accepted = ProofFile::read(&bytes).is_ok_and(|file| own.check(&file).is_ok());
        assert!(!accepted);
        assert!(!super::fuzz::fuzz_public_model(&super::fuzz::corrupt(
            &model,
            &mut numbers
        )));
    }
    assert!(super::fuzz::fuzz_public_model(&model));
    for bit in (0..model.len() * 8).step_by(4_999) {
        let mut bytes = model.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(!super::fuzz::fuzz_public_model(&bytes), "bit {bit}");
    }
}

/// The same secret and seed give the same bytes; another secret another model.
#[test]
fn bytes_follow_from_secret_and_seed() {
    let (compiled, input) = small();
    let with = |seed| {
        let secret = secret(&compiled, seed, 3);
        let model = ProvingModel::private(compiled.clone(), &secret).unwrap();
        let file = prove_with(&model, vec![input.clone()], Modes::PUBLIC, 1);
        (model.id(), file.to_bytes())
    };
    assert_eq!(with(1), with(1));
    assert_ne!(with(1).0, with(2).0);
    let mut foreign = secret(&compiled, 1, 3);
    foreign.program = super::models::case().model.program_id;
    let refused = ProvingModel::private(compiled, &foreign);
    assert!(matches!(refused, Err(ModelError::Secret)));
}

/// The file counts before a proof begins, once for whoever asks, and refuses when all were begun.
#[test]
fn openings_are_counted_and_run_out() {
    let (compiled, input) = small();
    let path = std::env::temp_dir().join(format!("tg-secret-{}", std::process::id()));
    let _gone = std::fs::remove_file(&path);
    let file = SecretFile::create(&path, secret(&compiled, 7, 30)).unwrap();
    assert!(SecretFile::create(&path, secret(&compiled, 8, 1)).is_err());
    let model = ProvingModel::private(compiled, file.secret()).unwrap();
    let capacity = model.openings();
    assert!(capacity >= 31);
    let public = model.register_private(&file, [1; 32]).unwrap();
    assert_eq!(file.begun(), Ok(1));
    let (masking, limits) = (Masking::new([2; 32], Modes::PUBLIC), Limits::default());
    let prove_within = |inputs, limits| {
        let request = ProveRequest::of(inputs).named(JOB, PROVIDER).within(limits);
        let request = request.masked(&masking).counted_by(&file);
        prove(&model, request, &mut |_| {})
    };
    let proof = prove_within(vec![input.clone()], limits).unwrap().0;
    assert_eq!(
        verify(&public, &proof, &ExpectedStatement::default()),
        Ok(())
    );
    assert_eq!(file.begun(), Ok(2));
    // What is refused beforehand costs nothing.
    let memory = Limits {
        memory: Some(1),
        ..Limits::default()
    };
    assert!(prove_within(vec![input.clone()], memory).is_err());
    assert!(prove_within(vec![IntTensor::I8(vec![0])], limits).is_err());
    assert_eq!(file.begun(), Ok(2));
    // Two openers of one file count as one.
    let second = SecretFile::open(&path).unwrap();
    std::thread::scope(|scope| {
        for own in [&file, &second] {
            let model = &model;
            scope.spawn(move || {
                (0..10).for_each(|_| drop(own.begin(model.program_id, model.openings())))
            });
        }
    });
    assert_eq!(file.begun().unwrap() as usize, capacity.min(22));
    while file.begun().unwrap() < u32::try_from(capacity).unwrap() {
        file.begin(model.program_id, model.openings()).unwrap();
    }
    let refused = prove_within(vec![input], limits).err();
    let used_up = OpeningError::UsedUp { capacity };
    assert_eq!(refused, Some(ProveError::Opening(used_up)));
    assert_eq!(file.begun().unwrap() as usize, capacity);

    // Files that are none.
    let bytes = std::fs::read(&path).unwrap();
    for bytes in [&bytes[1..], &[&bytes[..], &[0]].concat(), &[]] {
        std::fs::write(&path, bytes).unwrap();
        assert!(SecretFile::open(&path).is_err());
        assert!(file.begin(model.program_id, model.openings()).is_err());
    }
    // Another secret put in its place is not counted for this one.
    std::fs::remove_file(&path).unwrap();
    let mut other = file.secret().clone();
    other.seed = [9; 32];
    SecretFile::create(&path, other).unwrap();
    assert_eq!(
        file.begin(model.program_id, model.openings()),
        Err(OpeningError::Program)
    );
    std::fs::remove_file(&path).unwrap();
}

/// An element of the input that was changed still gives a proof about it, and only about it.
#[test]
fn another_statement_is_refused() {
    let own = private();
    let honest = own.prove(Modes::PUBLIC, 3);
    let changes: [&dyn Fn(&mut ProofFile); 3] = [
        &|file| file.statement.provider = tg_types::Address::new([1; 20]),
        &|file| {
            file.input[0] ^= 1;
            file.statement.input = Digest::of_blob(&file.input);
        },
        &|file| {
            file.output[0] ^= 1;
            file.statement.output = Digest::of_blob(&file.output);
        },
    ];
    for change in changes {
        let mut file = honest.clone();
        change(&mut file);
        assert!(own.check(&file).is_err());
    }
    let mut input = own.input.clone();
    set(&mut input, 4, 17);
    let file = prove_with(&own.model, vec![input], Modes::HIDDEN_INPUT, 3);
    assert_eq!(own.check(&file), Ok(()));
    let committed = Modes {
        input: Visibility::Committed,
        output: Visibility::Hidden,
    };
    assert_eq!(own.check(&own.prove(committed, 3)), Ok(()));
}

mod statistics {
    //! Two models with equal public data but for what hides: every revealed element is distributed alike.

    use super::*;
    use crate::hiding::tests::{Counts, LEAK as ROWS, distance, revealed};
    use crate::private::prove_registration;
    use crate::tests::proofs_a_side;
    use crate::tests::zk::LEAK;
    use crate::witness::Witness;
    use crate::zk::ZkExecution;
    use p3_field::PrimeField32;
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use std::collections::BTreeMap;
    use tg_proof::Statement;
    use tg_proof::field::F;
    use tg_proof::messages::GadgetProof;
    use tg_proof::zk::ZkShape;

    /// Proofs of one commitment.
    const EACH: u32 = 5;
    const WEAK: Strength = Strength {
        bits: 12.0,
        grinding: 0,
    };

    /// A single weight, then two: the last requantisation gives 0 whatever they are.
    fn silent() -> [CompiledModel; 2] {
        let mut draft = Draft::new(9, Shape::vector(1));
        let input = TensorId::INPUT;
        let acc = draft.push(Op::Dense(op::Dense { input }), Shape::vector(1));
        let input = draft.requantise(acc, 21, [-128, 127]);
        let acc = draft.push(Op::Dense(op::Dense { input }), Shape::vector(2));
        draft.requantise(acc, 42, [-128, 127]);
        let (mut one, _) = draft.finish();
        let mut other = one.clone();
        one.weights.layers[0].weights[0] = 3;
        one.weights.layers[0].bias[0] = 77;
        for layer in &mut other.weights.layers {
            layer.weights.fill(0);
            layer.bias.fill(0);
        }
        [one, other]
    }

    fn commit(compiled: &CompiledModel, number: u32) -> ProvingModel {
        let mut secret = secret(compiled, 0, EACH);
        secret.seed[..4].copy_from_slice(&number.to_le_bytes());
        let columns = columns_of(compiled);
        let model = compiled.clone().checked().unwrap();
        ProvingModel::commit_private(model, columns, &secret, WEAK).unwrap()
    }

    fn shape(model: &ProvingModel) -> ZkShape {
        let (program, private) = (&model.model.program, model.private.as_ref().unwrap());
        let (program, kept) = (program.check().unwrap(), &private.shape.kept);
        ZkShape::private(program, 1, Modes::HIDDEN_INPUT, kept, WEAK).unwrap()
    }

    fn prove(model: &ProvingModel, shape: &ZkShape, seed: u64) -> (ZkProof, Statement) {
        let input = IntTensor::I8(vec![1]);
        let trace = tg_exec::execute_tensor(&model.model, input).unwrap();
        let output = trace.output_bytes();
        assert!(output.iter().all(|&byte| byte == 0), "equal outputs");
        let program = &model.model.program;
        let witness = Witness::of(program, &shape.plan, trace.tensors()).unwrap();
        let statement = Statement {
            model: model.id(),
            job: JOB,
            provider: PROVIDER,
            batch: 1,
            input: Digest::default(),
            output: Digest::of_blob(&output),
            zk: Some(Modes::HIDDEN_INPUT),
        };
        let execution = ZkExecution {
            model,
            shape,
            tensors: trace.tensors(),
            witness: &witness,
            commitments: Vec::new(),
            parts: Vec::new(),
        };
        let (mut rng, limits) = (StdRng::seed_from_u64(seed), Limits::default());
        let proof = execution.prove(&statement, &mut rng, &limits, &mut |_| {});
        (proof.unwrap(), statement)
    }

    fn count(counts: &mut Counts, side: usize, prefix: &str, shown: &impl serde::Serialize) {
        let mut found = BTreeMap::new();
        revealed(&serde_json::to_value(shown).unwrap(), prefix, &mut found);
        for (position, value) in found {
            let bytes = position.contains("cap") || position.starts_with("commitment.root");
            let high = if bytes {
                value >> 5
            } else {
                value * 8 / u64::from(F::ORDER_U32)
            };
            let own = counts.entry(position).or_default();
            own[0][side][(value & 7) as usize] += 1;
            own[1][side][high as usize] += 1;
        }
    }

    /// The greatest two-sample distance over all places of registrations, commitments and proofs, its place, and how many
    /// were compared.
    fn compare(proofs: u32) -> (f64, String, usize) {
        let mut counts = Counts::new();
        for (side, compiled) in silent().iter().enumerate() {
            let shape = shape(&commit(compiled, 0));
            for number in 0..proofs / EACH {
                let number = 2 * number + side as u32;
                let model = commit(compiled, number);
                let commitment = model.commitment.as_ref().unwrap();
                count(&mut counts, side, "commitment.root", &commitment.root);
                count(&mut counts, side, "anchor", &commitment.anchor);
                let private = model.private.as_ref().unwrap();
                let mut rng = StdRng::seed_from_u64(u64::from(number));
                let registration = prove_registration(&model, private, &mut rng).unwrap();
                count(&mut counts, side, "registration", &registration);
                for proof in 0..EACH {
                    let seed = u64::from(number) << 8 | u64::from(proof) | 1 << 40;
                    let (proof, _) = prove(&model, &shape, seed);
                    count(&mut counts, side, "proof", &proof);
                }
            }
        }
        let compared = counts.len();
        let distances = counts.into_iter().map(|(position, [low, high])| {
            let greatest = distance(low).max(distance(high));
            (greatest, position)
        });
        let (greatest, position) = distances.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
        (greatest, position, compared)
    }

    /// Seven degrees of freedom: a distance above 60 has probability 10^-10, two per place.
    const BOUND: f64 = 60.0;

    #[test]
    fn proofs_about_two_sets_of_weights_look_alike() {
        let (greatest, position, compared) = compare(proofs_a_side());
        assert!(compared > 1_000, "{compared}");
        assert!(greatest < BOUND, "{position}: {greatest} of {compared}");
        // Without random rows the value at the drawn point is zero if all weights are.
        ROWS.set(true);
        let (greatest, position, _) = compare(100);
        ROWS.set(false);
        assert!(greatest > 2.0 * BOUND, "{position}: {greatest}");
    }

    /// The one weight of the first layer, sent without its pad.
    #[test]
    fn one_pad_that_is_missing_shows() {
        let models = silent().map(|compiled| commit(&compiled, 1));
        let shape = shape(&models[0]);
        let sent = |seed: u64| {
            let (proof, _) = prove(&models[0], &shape, seed);
            let nodes = proof.nodes.iter().rev();
            let mut products = nodes.filter_map(|node| match &node.gadget {
                GadgetProof::Products(products) => Some(products.weights[0]),
                _ => None,
            });
            products.next().unwrap()
        };
        let weight = tg_proof::field::basis(0) * F::new(3);
        let leak = (0..shape.secrets.messages).find(|&index| {
            LEAK.set(Some(index));
            sent(0) == weight
        });
        assert!(leak.is_some(), "some message is the first layer's weight");
        let (greatest, position, _) = compare(100);
        LEAK.set(None);
        assert!(
            greatest > BOUND && position.contains("weights"),
            "{position}: {greatest}"
        );
    }

    /// Weak proofs are proofs: what is measured is what is sent, and it verifies.
    #[test]
    fn proofs_that_are_measured_verify() {
        for compiled in silent() {
            let model = commit(&compiled, 3);
            let private = model.private.as_ref().unwrap();
            let mut rng = StdRng::seed_from_u64(1);
            let registration = prove_registration(&model, private, &mut rng).unwrap();
            let commitment = model.commitment.as_ref().unwrap();
            let (program, shape) = (model.program_id, &private.shape);
            let verdict =
                tg_proof::private::verify_messages(program, commitment, shape, &registration);
            assert_eq!(verdict, Ok(()));
        }
    }
}

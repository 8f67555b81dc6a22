//! Honest proofs verify, for random programs of every operator.

use super::models::bytes;
use crate::{ModelError, ProvingModel, prove};
use tg_exec::sample::random_model;
use tg_proof::{ExpectedStatement, ProofFile, PublicModel, verify};
use tg_types::codec::{Decode, Encode};
use tg_types::{Address, JobId};

#[test]
fn random_models_prove_and_verify() {
    let (mut proved, mut refused) = (0, 0);
    for seed in 0..200u64 {
        let (compiled, input) = random_model(seed);
        let model = match ProvingModel::new(compiled) {
            Ok(model) => model,
            Err(ModelError::Plan(_)) => {
                refused += 1;
                continue;
            }
            Err(error) => panic!("seed {seed}: {error}"),
        };
        let public = PublicModel::decode(&model.register().unwrap().encode()).unwrap();
        assert_eq!(public.verify_registration(), Ok(()), "seed {seed}");
        let request = bytes(&[&input]).named(JobId::new([7; 32]), Address::new([9; 20]));
        let (file, traces) = prove(&model, request, &mut |_| {}).unwrap();
        assert_eq!(file.output, traces[0].output_bytes());
        let read = ProofFile::from_bytes(&file.to_bytes()).unwrap();
        let ops: Vec<_> = public
            .program()
            .nodes
            .iter()
            .map(|node| node.op.name())
            .collect();
        assert_eq!(
            verify(&public, &read, &ExpectedStatement::default()),
            Ok(()),
            "seed {seed}: {ops:?}"
        );
        proved += 1;
    }
    assert!(
        proved >= 40,
        "most random models are provable: {proved} of {}",
        proved + refused
    );
}

//! What a program says about its proofs, against proofs.

use super::models::{Case, case};
use crate::{ProveRequest, ProvingModel, prove};
use tg_compile::suite::Architecture;
use tg_proof::{Facts, ProofFile, size};
use tg_types::Encode;

/// A proof file has at most the bytes that its shape says, and not many fewer.
fn sized(model: &ProvingModel, file: &ProofFile, percent: u64) {
    let program = &model.model.program;
    let shape = model.shape_of(file.statement.batch as usize).unwrap();
    let (stated, real) = (
        size::proof_file(program, &shape),
        file.to_bytes().len() as u64,
    );
    let name = &program.name;
    assert!(real <= stated, "{name}: {real} of {stated}");
    assert!(
        stated * 100 <= real * (100 + percent),
        "{name}: {real} of {stated}"
    );
}

#[test]
fn proofs_are_as_large_as_their_shapes_say() {
    for architecture in [
        Architecture::Mlp,
        Architecture::LeNet,
        Architecture::Gpt250k,
    ] {
        let (model, input) = architecture.model(1);
        let model = ProvingModel::new(model).unwrap();
        let proved = prove(&model, ProveRequest::of(vec![input]), &mut |_| {});
        // A fifth at most for what is small, where digests of trees are counted in full.
        sized(&model, &proved.unwrap().0, 25);
    }
    // Small programs read few entries of their tables, and which follows from the input.
    let small: [&Case; 2] = [case(), super::linear::linear()];
    for case in small {
        sized(&case.model, &case.file, 40);
    }
}

/// Facts rise with what they are about: comparisons are work, though they multiply nothing.
#[test]
fn work_and_memory_are_more_than_products() {
    for architecture in [Architecture::Mlp, Architecture::LeNet] {
        let model = ProvingModel::new(architecture.model(1).0).unwrap();
        let program = &model.model.program;
        let facts = Facts::of(program, &model.shape);
        assert!(facts.run_work > program.macs());
        assert!(facts.prove_work > facts.run_work);
        assert!(facts.memory() >= facts.prove_memory.max(facts.run_memory));
        let weights: usize = (0..program.nodes.len())
            .map(|node| program.weights_of(node))
            .sum();
        assert!(facts.run_memory > weights as u64);
    }
}

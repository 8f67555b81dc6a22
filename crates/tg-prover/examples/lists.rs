//! `lists FOLDER` writes a public model of two inputs and two outputs, and a proof that shows one input, commits to the other,
//! shows one output and hides the other, for the tests of the format.
#![allow(clippy::unwrap_used, reason = "a tool")]

use tg_compile::suite::{Architecture, random_input};
use tg_ir::{InputPort, OutputPort, Signature, TensorId};
use tg_prover::{Masking, Modes, PartModes, ProveRequest, ProvingModel, Visibility, prove};
use tg_types::codec::Encode;

fn main() {
    use Visibility::{Committed, Hidden, Public};
    let folder = std::path::PathBuf::from(std::env::args().nth(1).unwrap());
    let (mut compiled, _) = Architecture::Mlp.model(1);
    let program = &mut compiled.program;
    let last = program.last();
    program.outputs = vec![TensorId(last.0 - 1), last];
    let elements = |tensor| u32::try_from(program.shape(tensor).elements()).unwrap();
    let half = elements(TensorId::INPUT) / 2;
    let input = |name: &str| InputPort {
        name: name.to_owned(),
        shape: vec![half],
    };
    let output = |&tensor: &TensorId| OutputPort {
        name: format!("y{}", tensor.0),
        scale: 1.0,
        zero: 0,
        shape: vec![elements(tensor)],
        order: vec![0],
        labels: Vec::new(),
    };
    program.signature = Some(Signature {
        inputs: ["left", "right"].map(input).to_vec(),
        outputs: program.outputs.iter().map(output).collect(),
    });
    let each = |modes| Visibility::Each(PartModes::new(modes).unwrap());
    let modes = Modes {
        input: each(&[Public, Committed]),
        output: each(&[Hidden, Public]),
    };
    let masking = Masking {
        salts: [[7; 32]; 2],
        ..Masking::new([3; 32], modes)
    };
    let input = random_input(&compiled.program, 1);
    let model = ProvingModel::new(compiled).unwrap();
    let request = ProveRequest::of(vec![input]).masked(&masking);
    let (file, _) = prove(&model, request, &mut |_| {}).unwrap();
    let public = model.register().unwrap();
    std::fs::write(folder.join("lists.tgv"), public.encode()).unwrap();
    std::fs::write(folder.join("lists.proof"), file.to_bytes()).unwrap();
}

use tg_model::digits::{self, Digit};
use tg_model::{CompileOptions, Compiled, compile, execute, input, onnx};

fn reals(bytes: &[u8]) -> Vec<f32> {
    bytes.iter().map(|&b| f32::from(b) / 255.0).collect()
}

fn shipped(onnx: &[u8], image: fn(&Digit) -> Vec<u8>) -> (Compiled, Vec<Digit>) {
    let digits = digits::read(include_bytes!("../../../../models/digits/digits.bin")).unwrap();
    let graph = onnx::read(onnx).unwrap();
    let calibration: Vec<Vec<f32>> = digits
        .iter()
        .filter(|d| !d.unseen)
        .take(256)
        .map(|d| reals(&image(d)))
        .collect();
    let compiled = compile(graph, &calibration, &CompileOptions::default()).unwrap();
    let unseen = digits.into_iter().filter(|d| d.unseen).collect();
    (compiled, unseen)
}

fn check(onnx: &[u8], image: fn(&Digit) -> Vec<u8>) {
    let (compiled, unseen) = shipped(onnx, image);
    let (mut float_right, mut integer_right, mut agree) = (0, 0, 0);
    let argmax = |v: &[f32]| {
        (0..v.len())
            .rev()
            .max_by(|&a, &b| v[a].total_cmp(&v[b]))
            .unwrap()
    };
    for digit in &unseen {
        let x = reals(&image(digit));
        let float = argmax(&compiled.float.output(&x).unwrap());
        let q = input::quantise(&compiled.model.program.input, &x);
        let integer = execute(&compiled.model, &q).unwrap().top_class();
        float_right += usize::from(float == usize::from(digit.label));
        integer_right += usize::from(integer == usize::from(digit.label));
        agree += usize::from(integer == float);
    }
    println!(
        "{float_right} {integer_right} {agree} {:#?}",
        compiled.report
    );
    for n in &compiled.model.program.nodes {
        println!(
            "{} {} {} {:?}",
            n.name,
            n.op.name(),
            n.shape,
            if let tg_ir::Op::Requantise { how, .. } = &n.op {
                Some((how.pairs.clone(), how.range))
            } else {
                None
            }
        );
    }
    assert!(integer_right + 1 >= float_right);
}

#[test]
fn lenet() {
    check(
        include_bytes!("../../../../models/lenet-digits.onnx"),
        Digit::bytes_28x28,
    );
}

#[test]
fn mlp() {
    check(
        include_bytes!("../../../../models/mlp-digits.onnx"),
        Digit::bytes_8x8,
    );
}

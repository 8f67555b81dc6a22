//! Where a program's input holds the inputs of a file: what the compiler does, and what is read off shapes afterwards.

use crate::graphs::Writer;
use tg_compile::integer::input_order;
use tg_compile::passes::{PrepareOptions, prepare};
use tg_float::DType;
use tg_ir::{InputPort, Signature};

/// The places of a graph's inputs by the compiler are those by the rule.
fn check(inputs: &[(DType, &[usize])]) {
    let mut writer = Writer::new(31);
    let mut sum = None;
    for (index, (dtype, shape)) in inputs.iter().enumerate() {
        let input = writer.input(&format!("x{index}"), *dtype, shape);
        let real = match dtype {
            DType::F32 => input,
            _ => writer.node("Cast", &[input], &[("to", tg_float::Attribute::Int(1))]),
        };
        let flat = writer.node("ReduceSum", &[real], &[]);
        sum = Some(match sum {
            None => flat,
            Some(sum) => writer.node("Add", &[sum, flat], &[]),
        });
    }
    let graph = writer.finish(sum.unwrap());
    let prepared = prepare(graph, &PrepareOptions::default()).unwrap();
    let (shape, order) = input_order(&prepared).unwrap();
    let named = order.places(&prepared);
    assert_eq!(named.len(), inputs.len(), "{inputs:?}");
    let port = |own: &tg_compile::integer::InputPlaces| InputPort {
        name: own.name.clone(),
        shape: own
            .shape
            .iter()
            .map(|&axis| u32::try_from(axis).unwrap())
            .collect(),
    };
    let signature = Signature {
        inputs: named.iter().map(port).collect(),
        outputs: Vec::new(),
    };
    let places = named.into_iter().map(|own| own.places).collect();
    assert_eq!(signature.input_places(shape), Some(places), "{inputs:?}");
}

#[test]
fn the_places_of_inputs_follow_from_their_shapes() {
    let shapes: [&[usize]; 13] = [
        &[],
        &[5],
        &[1, 5],
        &[3, 4],
        &[1, 3, 4],
        &[1, 3, 4, 5],
        &[1, 1, 1, 1],
        &[2, 3, 4, 5],
        &[2, 3, 4],
        &[1, 7, 1, 1],
        &[1, 1, 6, 1],
        &[1, 2, 3, 4, 5],
        &[2, 1, 3, 1, 2, 1, 2, 1],
    ];
    for shape in shapes {
        for dtype in [DType::F32, DType::I64, DType::Bool] {
            check(&[(dtype, shape)]);
            check(&[(dtype, shape), (dtype, shape)]);
            check(&[(dtype, shape), (DType::F32, &[1, 4]), (DType::I64, shape)]);
        }
    }
    // Too long for one axis: in rows, of which the last has a rest.
    check(&[(DType::F32, &[70_000])]);
    for shape in [&[70_000][..], &[1, 70_000], &[1, 1, 70_000]] {
        check(&[(DType::F32, shape), (DType::F32, &[1, 4])]);
        check(&[
            (DType::F32, &[1, 4]),
            (DType::I64, shape),
            (DType::Bool, shape),
        ]);
    }
    let many: Vec<(DType, &[usize])> = vec![(DType::I64, &[1, 9]); 16];
    check(&many);
}

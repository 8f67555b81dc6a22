#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::pinned::{PINNED_ROWS, PINNED_TRACE, graph, input};
use super::{
    FloatAnswer, FloatEnd, FloatFileError, FloatLimits, FloatModel, FloatModelFile, NamedTensors,
    PublicFloatModel, is_float_file, is_public_float, limits,
};
use crate::fuzz::random_tensor;
use crate::tensor::FloatTensor;
use tg_exec::sample::Numbers;
use tg_types::{Decode as _, Encode as _};

fn model(limits: FloatLimits) -> FloatModel {
    FloatModel::read(&FloatModelFile::new(&graph(), limits).unwrap().file).unwrap()
}

#[test]
fn a_model_answers_with_named_outputs_and_a_bill() {
    let files = FloatModelFile::new(&graph(), FloatLimits::default()).unwrap();
    assert!(is_public_float(&files.public) && is_float_file(&files.file));
    assert!(!is_public_float(&files.file) && !is_float_file(&files.public));
    let public = PublicFloatModel::read(&files.public).unwrap();
    let model = FloatModel::read(&files.file).unwrap();
    assert_eq!(
        (public.id(), public.model_id()),
        (model.id(), model.model_id())
    );
    assert_eq!(public.outline().inputs, model.graph().inputs);
    let run = model.run(&input(2));
    assert_eq!(run.answer.end, FloatEnd::Finished);
    let outputs = NamedTensors::read(&run.answer.output).unwrap();
    assert_eq!(outputs.get("y").unwrap().shape(), [2, 4]);
    assert_eq!(outputs.get("product").unwrap().shape(), [2, 4]);
    assert_eq!(
        FloatAnswer::from_bytes(&run.answer.to_bytes()),
        Ok(run.answer.clone())
    );
    assert_eq!(model.run(&input(2)), run);
    assert_ne!(model.run(&input(3)).trace, run.trace);
    assert!(model.run(&input(3)).answer.work > run.answer.work);
    // A contract: what an id is made of, what a run answers and what it costs.
    let pinned = (
        model.id().to_string(),
        run.trace.to_string(),
        run.answer.work,
    );
    let expected = [
        "0x9b79fc33327b20cd8261ee7bcfc51968c9c2060de81305492289c878a221557a",
        PINNED_TRACE,
    ]
    .map(str::to_owned);
    assert_eq!(PINNED_ROWS, 2);
    assert_eq!(pinned, (expected[0].clone(), expected[1].clone(), 39_608));
}

#[test]
fn every_end_of_a_run_is_an_answer() {
    let check = |limits: FloatLimits, bytes: &[u8], expected: FloatEnd, work: Option<u64>| {
        let answer = model(limits).run(bytes).answer;
        assert_eq!(answer.end, expected);
        assert!(answer.output.is_empty());
        if let Some(work) = work {
            assert_eq!(answer.work, work);
        }
        assert_eq!(FloatAnswer::from_bytes(&answer.to_bytes()), Ok(answer));
    };
    let whole = model(FloatLimits::default()).run(&input(2)).answer.work;
    let usual = FloatLimits::default();
    let little = FloatLimits {
        work: whole - 1,
        ..usual
    };
    check(
        little,
        &input(2),
        FloatEnd::OutOfWork("normalise".to_owned()),
        Some(whole - 1),
    );
    let least = FloatLimits { work: 1, ..usual };
    check(
        least,
        &input(2),
        FloatEnd::OutOfWork("multiply".to_owned()),
        Some(1),
    );
    let narrow = FloatLimits {
        memory: 40,
        ..usual
    };
    check(
        narrow,
        &input(2),
        FloatEnd::OutOfMemory("multiply".to_owned()),
        None,
    );
    let short = FloatLimits {
        output: 40,
        ..usual
    };
    check(short, &input(2), FloatEnd::BadOutput, Some(whole));
    check(
        FloatLimits { input: 10, ..usual },
        &input(2),
        FloatEnd::BadInput,
        Some(0),
    );
    let other =
        |name: &str, tensor: FloatTensor| NamedTensors(vec![(name.to_owned(), tensor)]).to_bytes();
    let x = FloatTensor::of(vec![1, 3], vec![0f32; 3]).unwrap();
    for bad in [
        Vec::new(),
        b"TGT\0".to_vec(),
        NamedTensors::default().to_bytes(),
        other("z", x.clone()),
        other("x", FloatTensor::of(vec![3], vec![0f32; 3]).unwrap()),
        other("x", FloatTensor::of(vec![1, 3], vec![0i64; 3]).unwrap()),
        [other("x", x), vec![0]].concat(),
    ] {
        check(usual, &bad, FloatEnd::BadInput, Some(0));
    }
}

#[test]
fn files_that_are_not_what_they_say_are_refused() {
    let files = FloatModelFile::new(&graph(), FloatLimits::default()).unwrap();
    assert_eq!(
        FloatModel::read(&files.public).unwrap_err(),
        FloatFileError::Magic
    );
    let mut other = files.public.clone();
    other[4] = 9;
    let error = PublicFloatModel::read(&other).unwrap_err();
    assert_eq!(error, FloatFileError::Version { got: 9 });
    for length in 0..files.file.len() {
        assert!(FloatModel::read(&files.file[..length]).is_err(), "{length}");
    }
    let mut changed = files.file;
    *changed.last_mut().unwrap() ^= 1;
    assert_eq!(
        FloatModel::read(&changed).unwrap_err(),
        FloatFileError::Constants
    );
    for (limits, field) in [
        (
            FloatLimits {
                work: 0,
                ..FloatLimits::default()
            },
            "work",
        ),
        (
            FloatLimits {
                work: limits::WORK_MAX + 1,
                ..FloatLimits::default()
            },
            "work",
        ),
        (
            FloatLimits {
                memory: limits::MEMORY_MAX + 1,
                ..FloatLimits::default()
            },
            "memory",
        ),
        (
            FloatLimits {
                input: 0,
                ..FloatLimits::default()
            },
            "input",
        ),
        (
            FloatLimits {
                output: u32::MAX,
                ..FloatLimits::default()
            },
            "output",
        ),
    ] {
        let error = FloatModelFile::new(&graph(), limits).unwrap_err();
        assert!(
            matches!(error, FloatFileError::Limit { field: own, .. } if own == field),
            "{error}"
        );
    }
    let mut unknown = graph();
    unknown.nodes[1].op = "Adam".to_owned();
    unknown.nodes[1].domain = "ai.onnx.preview.training".to_owned();
    let error = FloatModelFile::new(&unknown, FloatLimits::default()).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("normalise") && text.contains("Adam of ai.onnx.preview.training"),
        "{text}"
    );
}

#[test]
fn tensors_of_every_type_are_read_back() {
    let mut numbers = Numbers::new(3);
    for round in 0..500 {
        let named = (0..round % 4).map(|index| (format!("t{index}"), random_tensor(&mut numbers)));
        let bytes = NamedTensors(named.collect()).to_bytes();
        let again = NamedTensors::read(&bytes).unwrap();
        assert_eq!(again.to_bytes(), bytes);
        for length in 0..bytes.len() {
            assert!(NamedTensors::read(&bytes[..length]).is_err());
        }
    }
}

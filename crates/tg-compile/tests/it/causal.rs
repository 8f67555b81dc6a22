//! The causal rule: row i of a causal program depends on rows up to i alone, bit for bit.

use crate::graphs::Writer;
use proptest::prelude::*;
use tg_compile::integer::Precision;
use tg_compile::suite::{WriterSizes, random_input, writing_transformer};
use tg_compile::{CompileOptions, Compiled, PrecisionChoice, compile};
use tg_exec::engine::CachedEngine;
use tg_exec::engine::values::Values;
use tg_exec::execute_tensor;
use tg_exec::generate::{GenerateError, Written, generate};
use tg_exec::kernels::Cpu;
use tg_exec::sample::wide::random_program;
use tg_float::{Attribute, DType, FloatTensor, Graph, ValueId};
use tg_ir::causality::{self, CausalityError};
use tg_ir::coding;
use tg_ir::generation::{self, GenerationError, GeneratorError};
use tg_ir::op;
use tg_ir::{Generation, GenerationRequest, Sampling};

const VOCABULARY: usize = 11;
const WIDTH: usize = 8;
const HEADS: usize = 2;

impl Writer {
    fn norm(&mut self, x: ValueId) -> ValueId {
        let [gain, offset] = [0, 1].map(|_| self.weights(&[WIDTH]));
        let axis = [("axis", Attribute::Int(-1))];
        self.node("LayerNormalization", &[x, gain, offset], &axis)
    }

    /// `[1, T, WIDTH]` to heads `[1, HEADS, T, WIDTH / HEADS]`, or with the last axes swapped.
    fn heads(&mut self, x: ValueId, steps: usize, order: [i64; 4]) -> ValueId {
        let split = self.ints(&[1, steps as i64, HEADS as i64, (WIDTH / HEADS) as i64]);
        let apart = self.node("Reshape", &[x, split], &[]);
        self.node(
            "Transpose",
            &[apart],
            &[("perm", Attribute::Ints(order.to_vec()))],
        )
    }

    fn attention(&mut self, x: ValueId, steps: usize) -> ValueId {
        let [q, k, v] = [0, 1, 2].map(|_| {
            let w = self.weights(&[WIDTH, WIDTH]);
            self.node("MatMul", &[x, w], &[])
        });
        let q = self.heads(q, steps, [0, 2, 1, 3]);
        let k = self.heads(k, steps, [0, 2, 3, 1]);
        let v = self.heads(v, steps, [0, 2, 1, 3]);
        let scores = self.node("MatMul", &[q, k], &[]);
        let mask = (0..steps * steps).map(|at| {
            if at % steps > at / steps {
                f32::MIN
            } else {
                0.0
            }
        });
        let mask = FloatTensor::of(vec![1, 1, steps, steps], mask.collect()).unwrap();
        let mask = self.graph.constant("mask", mask);
        let masked = self.node("Add", &[scores, mask], &[]);
        let weights = self.node("Softmax", &[masked], &[("axis", Attribute::Int(-1))]);
        let mixed = self.node("MatMul", &[weights, v], &[]);
        let order = Attribute::Ints(vec![0, 2, 1, 3]);
        let back = self.node("Transpose", &[mixed], &[("perm", order)]);
        let join = self.ints(&[1, steps as i64, WIDTH as i64]);
        let joined = self.node("Reshape", &[back, join], &[]);
        let w = self.weights(&[WIDTH, WIDTH]);
        self.node("MatMul", &[joined, w], &[])
    }
}

/// One block of a transformer over so many positions.
fn transformer(seed: u64, steps: usize) -> Graph {
    let mut writer = Writer::new(seed);
    let tokens = writer.input("tokens", DType::I64, &[1, steps]);
    let table = writer.weights(&[VOCABULARY, WIDTH]);
    // The same positions for every length: a shorter sequence is a prefix.
    let places = writer.weights(&[16, WIDTH]);
    let range = writer.ints(&(0..steps as i64).collect::<Vec<_>>());
    let embedded = writer.node("Gather", &[table, tokens], &[]);
    let places = writer.node("Gather", &[places, range], &[]);
    let x = writer.node("Add", &[embedded, places], &[]);
    let normed = writer.norm(x);
    let attended = writer.attention(normed, steps);
    let x = writer.node("Add", &[x, attended], &[]);
    let normed = writer.norm(x);
    let w = writer.weights(&[WIDTH, 2 * WIDTH]);
    let hidden = writer.node("MatMul", &[normed, w], &[]);
    let hidden = writer.node("Tanh", &[hidden], &[]);
    let w = writer.weights(&[2 * WIDTH, WIDTH]);
    let fed = writer.node("MatMul", &[hidden, w], &[]);
    let x = writer.node("Add", &[x, fed], &[]);
    let w = writer.weights(&[WIDTH, VOCABULARY]);
    let scores = writer.node("MatMul", &[x, w], &[]);
    writer.graph.outputs.push(scores);
    writer.graph
}

fn compiled(seed: u64, steps: usize, precision: Precision) -> Compiled {
    let calibration: Vec<Vec<f32>> = (0..8)
        .map(|row| {
            (0..steps)
                .map(|at| ((at * 7 + row * 3) % VOCABULARY) as f32)
                .collect()
        })
        .collect();
    let options = CompileOptions {
        precision: PrecisionChoice::Fixed(precision),
        ..CompileOptions::default()
    };
    compile(transformer(seed, steps), &calibration, &options).unwrap()
}

fn run(model: &Compiled, tokens: &[usize]) -> Vec<i32> {
    let reals: Vec<f32> = tokens.iter().map(|&token| token as f32).collect();
    let encoded = coding::encode(&model.model.program.input, &reals).unwrap();
    let trace = execute_tensor(&model.model, encoded).unwrap();
    trace.output().widened()
}

#[test]
fn a_transformer_follows_its_floats() {
    for (precision, least) in [
        (Precision::Bits8, 15.0),
        (Precision::Mixed, 20.0),
        (Precision::Bits16, 30.0),
    ] {
        let model = compiled(7, 6, precision);
        let found = model.report.output_snr_db();
        assert!(found > least, "{precision:?}: {found} dB");
        let causal = model.model.program.nodes.iter().any(
            |node| matches!(&node.op, tg_ir::Op::Softmax(op::Unary { how, .. }) if how.causal == Some(0)),
        );
        assert!(causal, "the mask is taken into the softmax");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Later tokens change nothing in earlier rows: what a prefill gives for a prefix, and what decoding token by
    /// token gives, is what one pass over the whole sequence gives.
    #[test]
    fn rows_depend_on_earlier_rows_alone(
        seed in 0u64..1000,
        tokens in prop::collection::vec(0..VOCABULARY, 6),
        others in prop::collection::vec(0..VOCABULARY, 6),
        kept in 1usize..6,
        precision in prop::sample::select(vec![Precision::Bits8, Precision::Mixed, Precision::Bits16]),
    ) {
        let model = compiled(seed, 6, precision);
        let mut changed = others;
        changed[..kept].copy_from_slice(&tokens[..kept]);
        let (whole, prefix) = (run(&model, &tokens), run(&model, &changed));
        prop_assert_eq!(&whole[..kept * VOCABULARY], &prefix[..kept * VOCABULARY]);
    }
}

/// A model that gives its five greatest scores for each of eight positions.
fn writer_of(seed: u64) -> tg_ir::ExecutableModel {
    let mut model = compiled(seed, 8, Precision::Mixed).model.into_inner();
    let generator = generation::rank(&mut model.program, 5).unwrap();
    assert_eq!(
        (generator.window, generator.vocabulary, generator.ranks),
        (8, VOCABULARY as u32, 5)
    );
    assert!(generator.unit > 0.0);
    model.checked().unwrap()
}

fn request(model: &tg_ir::ExecutableModel, seed: u8) -> GenerationRequest {
    let unit = f64::from(tg_ir::Generator::of(&model.program).unwrap().unit);
    GenerationRequest {
        prompt: vec![3, 1, 4],
        limit: 5,
        stop: None,
        sampling: Sampling {
            keep: 5,
            rescale: Sampling::rescale(unit, 1.0).unwrap(),
            nucleus: tg_ir::sampling::NUCLEUS_ALL,
            seed: [seed; 32],
        },
    }
}

fn write(
    model: &tg_ir::ExecutableModel,
    request: &GenerationRequest,
) -> Result<Written, GenerateError> {
    generate(model, request, Cpu::new(1), &mut |_| true)
}

/// One execution over what was written says that it was written, and nothing else.
#[test]
fn what_was_written_is_what_one_execution_says() {
    let model = writer_of(11);
    let generator = tg_ir::Generator::of(&model.program).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..8 {
        let written = write(&model, &request(&model, seed)).unwrap();
        seen.insert(written.written());
        let output = execute_tensor(&model, written.tokens.clone()).unwrap();
        let (tokens, output) = (written.tokens.widened(), output.output().widened());
        let generation = written.generation;
        assert_eq!((generation.prompt, generation.written), (3, 5));
        assert_eq!(generation.check(&generator, &tokens, &output), Ok(()));
        // Another token anywhere in what was written, with what the model gives for it.
        for position in 3..8 {
            let mut forged = tokens.clone();
            forged[position] = (forged[position] + 1) % VOCABULARY as i32;
            let input = tg_exec::IntTensor::I32(forged.clone());
            let output = execute_tensor(&model, input).unwrap().output().widened();
            let found = generation.check(&generator, &forged, &output);
            let at = u32::try_from(position).unwrap();
            assert!(
                matches!(found, Err(GenerationError::Token { position, .. }) if position == at),
                "{found:?}"
            );
        }
    }
    assert!(seen.len() > 2, "seeds draw different tokens: {seen:?}");
}

#[test]
fn writing_ends_where_it_was_told_to() {
    let model = writer_of(11);
    let generator = tg_ir::Generator::of(&model.program).unwrap();
    let whole = write(&model, &request(&model, 1)).unwrap();
    let stop = whole.written()[2];
    let first = whole.written().iter().position(|&token| token == stop);
    let stopped = GenerationRequest {
        stop: Some(stop),
        ..request(&model, 1)
    };
    let stopped = write(&model, &stopped).unwrap();
    assert_eq!(stopped.written().len(), first.unwrap() + 1);
    let check = |written: &Written, change: &dyn Fn(&mut Generation, &mut Vec<i32>)| {
        let (mut generation, mut tokens) = (written.generation, written.tokens.widened());
        change(&mut generation, &mut tokens);
        let input = tg_exec::IntTensor::I32(tokens.clone());
        let output = execute_tensor(&model, input).unwrap().output().widened();
        generation.check(&generator, &tokens, &output)
    };
    assert_eq!(check(&stopped, &|_, _| {}), Ok(()));
    let ends = check(&stopped, &|generation, _| generation.stop = None);
    assert!(matches!(
        ends,
        Err(GenerationError::Length { limit: 5, .. })
    ));
    let goes_on = check(&whole, &|generation, _| generation.stop = Some(stop));
    assert!(matches!(goes_on, Err(GenerationError::Stopped { .. })));
    let after = check(&stopped, &|_, tokens| tokens[7] = 1);
    assert_eq!(after, Err(GenerationError::After { position: 7 }));
    let keep = check(&whole, &|generation, _| generation.sampling.keep = 6);
    assert_eq!(keep, Err(GenerationError::Keep { keep: 6, ranks: 5 }));
    for (prompt, written) in [(0, 8), (8, 0), (4, 5), (u32::MAX, 2)] {
        let window = check(&whole, &|generation, _| {
            (generation.prompt, generation.written) = (prompt, written);
        });
        assert!(matches!(window, Err(GenerationError::Window { .. })));
    }
    let output = execute_tensor(&model, whole.tokens.clone()).unwrap();
    let (tokens, output) = (whole.tokens.widened(), output.output().widened());
    let short = whole.generation.check(&generator, &tokens[1..], &output);
    assert_eq!(short, Err(GenerationError::Sizes));
}

#[test]
fn requests_that_do_not_fit_are_refused() {
    let model = writer_of(11);
    let with = |change: &dyn Fn(&mut GenerationRequest)| {
        let mut request = request(&model, 1);
        change(&mut request);
        write(&model, &request).unwrap_err()
    };
    for prompt in [vec![], vec![0; 8], vec![0; 9]] {
        let got = prompt.len();
        let error = with(&move |request| request.prompt.clone_from(&prompt));
        assert!(matches!(error, GenerateError::Prompt { got: found, window: 8 } if found == got));
    }
    let error = with(&|request| request.prompt[1] = VOCABULARY as u32);
    assert!(matches!(error, GenerateError::Token { position: 1, .. }));
    let error = with(&|request| request.limit = 0);
    assert!(matches!(error, GenerateError::Nothing));
    let error = with(&|request| request.sampling.keep = 6);
    assert!(matches!(error, GenerateError::Keep { keep: 6, ranks: 5 }));
    let stopped = generate(&model, &request(&model, 1), Cpu::new(1), &mut |_| false);
    assert!(matches!(stopped, Err(GenerateError::Stopped)));
}

#[test]
fn programs_that_cannot_generate_say_why() {
    let whole = compiled(7, 6, Precision::Bits8).model.into_inner().program;
    assert_eq!(causality::check(&whole), Ok(()));
    let refused = tg_ir::Generator::of(&whole);
    assert_eq!(refused, Err(GeneratorError::NotRanked));
    let mut many = whole.clone();
    let refused = generation::rank(&mut many, VOCABULARY as u32 + 1);
    assert!(matches!(refused, Err(GeneratorError::Program(_))));
    // Without its mask it looks ahead.
    let mut open = whole.clone();
    for node in &mut open.nodes {
        if let tg_ir::Op::Softmax(op::Unary { how, .. }) = &mut node.op {
            how.causal = None;
        }
    }
    let future = CausalityError::Future {
        output: 0,
        input: 5,
    };
    assert_eq!(causality::check(&open), Err(future));
    let refused = generation::rank(&mut open, 3);
    assert_eq!(refused, Err(GeneratorError::Causality(future)));
    // One place further than the mask that hides the future.
    let mut ahead = whole;
    for node in &mut ahead.nodes {
        if let tg_ir::Op::Softmax(op::Unary { how, .. }) = &mut node.op {
            how.causal = Some(1);
        }
    }
    let future = CausalityError::Future {
        output: 0,
        input: 1,
    };
    assert_eq!(causality::check(&ahead), Err(future));
}

/// An input pixel changes no output element that is said not to depend on it.
#[test]
fn nothing_depends_on_later_pixels_than_it_is_said_to() {
    let mut spared = 0_u64;
    for seed in 0..3_000 {
        let (model, input) = random_program(seed);
        let model = model.checked().unwrap();
        let program = &model.program;
        let latest = causality::latest_of_output(program);
        let before = execute_tensor(&model, input.clone()).unwrap();
        let before = before.output().widened();
        assert_eq!(latest.len(), before.len());
        let other = random_input(program, seed).widened();
        let channels = program.input.shape.channels as usize;
        // All pixels from one on are others.
        for pixel in 0..program.input.shape.pixels() {
            let mut changed = input.widened();
            let from = pixel * channels;
            changed[from..].copy_from_slice(&other[from..]);
            let changed = tg_exec::IntTensor::of(program.input.element_type(), &changed);
            let after = execute_tensor(&model, changed).unwrap().output().widened();
            for (element, (before, after)) in before.iter().zip(&after).enumerate() {
                if latest[element] as usize <= pixel {
                    spared += 1;
                    assert_eq!(
                        before, after,
                        "seed {seed}: element {element}, pixel {pixel}"
                    );
                }
            }
        }
    }
    assert!(spared > 10_000, "{spared}");
}

/// Language models of the shapes that are used, at once and token by token, against a run over the whole window.
#[test]
fn language_models_give_the_rows_of_whole_runs() {
    let shipped = include_bytes!("../../../../models/gpt-bytes.tgm");
    let shipped = tg_ir::CompiledModel::read(shipped).unwrap();
    let sizes = WriterSizes {
        layers: 2,
        channels: 48,
        heads: 3,
        window: 150,
        vocabulary: 40,
    };
    let drawn = writing_transformer(&sizes, 3).0.checked().unwrap();
    for model in [shipped, drawn, writer_of(4)] {
        let mut engine = CachedEngine::new(&model, Cpu::new(1)).unwrap();
        assert_eq!(engine.whole_nodes(), 0);
        let tokens = random_input(&model.program, 9).widened();
        let trace = execute_tensor(&model, tg_exec::IntTensor::I32(tokens.clone())).unwrap();
        let whole = trace.output().widened();
        let channels = whole.len() / tokens.len();
        // All but the last few at once, after others that a cache must not remember.
        let others: Vec<i32> = tokens.iter().rev().copied().collect();
        let mut found = vec![0; whole.len()];
        let mut each = |step: usize, row: Values<'_>| {
            for (index, found) in found[step * channels..][..channels].iter_mut().enumerate() {
                *found = row.at(index);
            }
        };
        let most = tokens.len() - 4;
        engine.extend(0, Values::I32(&others), &mut each).unwrap();
        engine
            .extend(0, Values::I32(&tokens[..most]), &mut each)
            .unwrap();
        for step in most..tokens.len() {
            let next = Values::I32(&tokens[step..=step]);
            engine.extend(step, next, &mut each).unwrap();
        }
        assert!(found == whole, "{}", model.program.name);
    }
}

/// The bounds of the analysis take GPT-2 with its whole window; those of orders that validators look at do not. Steps are a number for each
/// channel and one beside, so that two narrow models say what one of 768 channels takes.
#[test]
fn the_whole_window_of_gpt_2_is_within_the_bounds() {
    let [narrow, wide] = [48, 96].map(|channels| {
        let sizes = WriterSizes {
            layers: 12,
            channels,
            heads: 12,
            window: 1_024,
            vocabulary: 50_257,
        };
        writing_transformer(&sizes, 1).0.program
    });
    for program in [&narrow, &wide] {
        assert_eq!(causality::bounded(program), Ok(()));
        // Scores of every position, before and after they are rescaled, or once.
        let scores = 1_024 * 50_257;
        assert!((scores..3 * scores).contains(&causality::held(program)));
    }
    let [narrow, wide] = [&narrow, &wide].map(causality::steps);
    let steps = narrow + (768 - 48) / 48 * (wide - narrow);
    assert!(steps <= causality::STEPS_MAX, "{steps}");
    assert!(steps > 1 << 28, "{steps}");
}

/// Memory has a bound beside that of steps: here an input of 2^29 elements, which two nodes at most read.
#[test]
fn a_program_that_holds_too_much_at_once_is_refused() {
    let mut program = writer_of(4).program.clone();
    assert_eq!(causality::bounded(&program), Ok(()));
    program.input.shape = tg_ir::Shape::new(1, 1 << 15, 1 << 14);
    assert!(causality::steps(&program) <= causality::STEPS_MAX);
    match causality::bounded(&program) {
        Err(CausalityError::TooWide { held }) => assert!(held > causality::HELD_MAX),
        other => panic!("{other:?}"),
    }
}

//! Tiles of random executions, computed again: what is honest passes, and nothing else does.
#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;
use tg_exec::execute::{Trace, execute_tensor};
use tg_exec::sample::{random_model, wide::random_program};
use tg_ir::tiles::{
    self, Checksum, ExecutionClaim, ReadOpening, TileFault, TraceLeaves, TraceOpening, TraceTile,
};
use tg_ir::{ExecutableModel, IntTensor, TensorId, bounds};
use tg_types::{Decode as _, Digest, Encode as _};

/// An execution of a random program.
struct Case {
    model: ExecutableModel,
    trace: Trace,
    output: Vec<u8>,
}

impl Case {
    fn of(seed: u64) -> Self {
        let (model, input) = if seed.is_multiple_of(2) {
            let (model, input) = random_model(seed);
            (model, IntTensor::I8(input))
        } else {
            random_program(seed)
        };
        let model = model.checked().unwrap();
        let trace = execute_tensor(&model, input).unwrap();
        let output = trace.output_bytes();
        Self {
            model,
            trace,
            output,
        }
    }

    fn drawn(&self, seed: u64, tiles: u64) -> Vec<TraceTile> {
        tiles::draw(
            &self.model.program,
            &Digest::of_blob(&seed.to_le_bytes()),
            tiles,
        )
    }

    fn check(&self, tiles: &[TraceTile], opening: &TraceOpening) -> Result<Checksum, TileFault> {
        self.check_of(self.trace.tensors(), tiles, opening)
    }

    /// As if the provider had committed to these tensors.
    fn check_of(
        &self,
        tensors: &[IntTensor],
        tiles: &[TraceTile],
        opening: &TraceOpening,
    ) -> Result<Checksum, TileFault> {
        let digests = tensors[1..].iter();
        let digests: Vec<Digest> = digests
            .map(|tensor| Digest::of_blob(&tensor.to_bytes()))
            .collect();
        let outputs = self.model.program.outputs().into_iter();
        let output: Vec<u8> = outputs
            .flat_map(|output| tensors[output.index()].to_bytes())
            .collect();
        let claim = ExecutionClaim {
            input: self.trace.tensor(TensorId::INPUT),
            output: &output,
            trace: tiles::root(&digests),
        };
        tiles::check(&self.model, claim, tiles, opening)
    }
}

/// A tensor with one element moved, within what the program allows; nothing if no other value is allowed.
fn moved(case: &Case, tensor: usize, element: usize, by: i64) -> Option<Vec<IntTensor>> {
    let program = &case.model.program;
    let [low, high] = bounds::intervals(program)[tensor];
    let kind = program.element_type(TensorId::of_node(tensor - 1));
    let mut tensors = case.trace.tensors().to_vec();
    let mut values = tensors[tensor].widened();
    let greatest = match kind.bytes() {
        1 => i64::from(i8::MAX),
        2 => i64::from(i16::MAX),
        _ => i64::from(i32::MAX),
    };
    let (low, high) = (low.max(-greatest - 1), high.min(greatest));
    let old = i64::from(values[element]);
    let new = [old + by, old - by]
        .into_iter()
        .find(|new| (low..=high).contains(new))?;
    values[element] = i32::try_from(new).unwrap();
    tensors[tensor] = IntTensor::of(kind, &values);
    Some(tensors)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn honest_executions_pass(seed in any::<u64>(), few in 1_u64..6) {
        let case = Case::of(seed);
        prop_assert_eq!(&case.trace.output_bytes(), &case.output);
        for tiles in [few, u64::MAX] {
            let drawn = case.drawn(seed, tiles);
            let opening = TraceOpening::of(&case.model, case.trace.tensors(), &drawn);
            let checksum = case.check(&drawn, &opening);
            prop_assert!(checksum.is_ok());
            prop_assert_eq!(case.check(&drawn, &opening), checksum);
            let bytes = opening.to_bytes();
            prop_assert_eq!(TraceOpening::from_bytes(&bytes).unwrap(), opening);
        }
    }

    /// A lie in one element, with all that it is committed to, and everything after it honestly left as it was, is found where
    /// its tile is drawn; a change that spreads is no lie there.
    #[test]
    fn a_wrong_element_is_found_in_its_tile(seed in any::<u64>(), at in any::<prop::sample::Index>(), by in 1_i64..40) {
        let case = Case::of(seed);
        let node = at.index(case.model.program.nodes.len());
        let element = at.index(case.trace.tensors()[node + 1].len());
        let Some(tensors) = moved(&case, node + 1, element, by) else {
            return Ok(());
        };
        let all = case.drawn(seed, u64::MAX);
        let opening = TraceOpening::of(&case.model, &tensors, &all);
        let fault = case.check_of(&tensors, &all, &opening);
        let is_found = matches!(
            fault,
            Err(TileFault::Element { node: found, element: wrong, .. }) if found == node && wrong == element
        );
        prop_assert!(is_found, "{:?}", fault);
        // Not in the tiles before it, which do not read it.
        let before: Vec<TraceTile> = all.into_iter().filter(|tile| (tile.node as usize) < node).collect();
        let opening = TraceOpening::of(&case.model, &tensors, &before);
        prop_assert!(case.check_of(&tensors, &before, &opening).is_ok());
    }

    /// Whatever is committed to within the bounds, checking it ends.
    #[test]
    fn strange_values_are_judged(seed in any::<u64>(), strange in any::<u64>()) {
        let case = Case::of(seed);
        let program = &case.model.program;
        let mut numbers = tg_exec::sample::Numbers::new(strange);
        let limits = bounds::intervals(program);
        let mut tensors = case.trace.tensors().to_vec();
        for (tensor, values) in tensors.iter_mut().enumerate().skip(1) {
            let kind = program.element_type(TensorId::of_node(tensor - 1));
            let most = (1_i64 << (8 * kind.bytes() - 1)) - 1;
            let [low, high] = limits[tensor];
            let (low, high) = (low.max(-most - 1), high.min(most));
            let strange: Vec<i32> = (0..values.len())
                .map(|_| i32::try_from(numbers.between(low, high)).unwrap())
                .collect();
            *values = IntTensor::of(kind, &strange);
        }
        let drawn = case.drawn(seed, 4);
        let opening = TraceOpening::of(&case.model, &tensors, &drawn);
        let _ = case.check_of(&tensors, &drawn, &opening);
    }

    /// No changed byte of an opening passes, and none stops the check.
    #[test]
    fn no_changed_byte_passes(seed in any::<u64>(), at in any::<prop::sample::Index>(), bit in 0_u8..8) {
        let case = Case::of(seed);
        let drawn = case.drawn(seed, 3);
        let opening = TraceOpening::of(&case.model, case.trace.tensors(), &drawn);
        let mut bytes = opening.to_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        if let Ok(changed) = TraceOpening::from_bytes(&bytes) {
            prop_assert!(case.check(&drawn, &changed).is_err());
        }
    }

    /// What is opened for other tiles is not what is asked for.
    #[test]
    fn tiles_that_were_not_drawn_do_not_pass(seed in any::<u64>()) {
        let case = Case::of(seed);
        let (asked, other) = (case.drawn(seed, 2), case.drawn(seed ^ 1, 3));
        let opening = TraceOpening::of(&case.model, case.trace.tensors(), &other);
        let result = case.check(&asked, &opening);
        let same = TraceOpening::of(&case.model, case.trace.tensors(), &asked) == opening;
        prop_assert_eq!(result.is_ok(), same);
    }
}

#[test]
fn an_answer_that_is_not_the_executions_is_refused() {
    let case = Case::of(4);
    let drawn = case.drawn(0, u64::MAX);
    let opening = TraceOpening::of(&case.model, case.trace.tensors(), &drawn);
    let mut output = case.output.clone();
    let mut claim = ExecutionClaim {
        input: case.trace.tensor(TensorId::INPUT),
        output: &output,
        trace: case.trace.digest(),
    };
    assert!(tiles::check(&case.model, claim, &drawn, &opening).is_ok());
    claim.trace = Digest::of_blob(b"another");
    let fault = tiles::check(&case.model, claim, &drawn, &opening);
    assert_eq!(fault, Err(TileFault::Trace));
    output.push(0);
    let claim = ExecutionClaim {
        input: case.trace.tensor(TensorId::INPUT),
        output: &output,
        trace: case.trace.digest(),
    };
    let fault = tiles::check(&case.model, claim, &drawn, &opening);
    assert_eq!(fault, Err(TileFault::Output { output: 1 }));
}

/// One wrong tile of `N` is found with `k/N`: 4,000 draws.
#[test]
fn every_tile_is_drawn_as_often() {
    let (model, _) = (0..)
        .map(random_model)
        .find(|(model, _)| tiles::count(&model.program) >= 6)
        .unwrap();
    let all = tiles::count(&model.program);
    let mut drawn = vec![0_u32; usize::try_from(all).unwrap()];
    let every = tiles::draw(&model.program, &Digest::default(), u64::MAX);
    for round in 0..4_000_u32 {
        let challenge = Digest::of_blob(&round.to_le_bytes());
        for tile in tiles::draw(&model.program, &challenge, 2) {
            drawn[every.iter().position(|it| *it == tile).unwrap()] += 1;
        }
    }
    let expected = 8_000.0 / all as f64;
    for times in drawn {
        let off = (f64::from(times) - expected).abs() / expected.sqrt();
        assert!(off < 5.0, "{times} times, {expected} expected");
    }
}

/// What an execution says of itself, and what another one finds wrong with it; `claimed` are its tensors.
fn refuted(case: &Case, claimed: &[IntTensor], own: &[IntTensor]) -> Option<bool> {
    let (model, program) = (&case.model, &case.model.program);
    let leaves = TraceLeaves::of(claimed);
    let names = leaves.names(program).unwrap();
    let tile = TraceLeaves::of(own).first_difference(&leaves, program)?;
    let opening = ReadOpening::of(model, own, tile);
    let bytes = opening.to_bytes();
    assert_eq!(ReadOpening::from_bytes(&bytes).unwrap(), opening);
    let input = case.trace.tensor(TensorId::INPUT);
    let said = (&leaves, names);
    Some(tiles::is_refuted(model, input, said, tile, opening))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// Whoever claims a wrong element is refuted by whoever executed the model, and cannot refute it.
    #[test]
    fn who_is_right_wins_a_dispute(seed in any::<u64>(), at in any::<prop::sample::Index>(), by in 1_i64..40) {
        let case = Case::of(seed);
        let node = at.index(case.model.program.nodes.len());
        let element = at.index(case.trace.tensors()[node + 1].len());
        let Some(lie) = moved(&case, node + 1, element, by) else {
            return Ok(());
        };
        let truth = case.trace.tensors();
        prop_assert_eq!(refuted(&case, &lie, truth), Some(true));
        prop_assert_eq!(refuted(&case, truth, &lie), Some(false));
        prop_assert_eq!(refuted(&case, truth, truth), None);
    }

    /// The leaves of an execution name its tensors, and nothing else does.
    #[test]
    fn leaves_give_the_names_of_tensors(seed in any::<u64>()) {
        let case = Case::of(seed);
        let tensors = case.trace.tensors();
        let leaves = TraceLeaves::of(tensors);
        let names: Vec<Digest> = tensors[1..].iter().map(|it| Digest::of_blob(&it.to_bytes())).collect();
        prop_assert_eq!(leaves.names(&case.model.program), Some(names));
        let mut bytes = leaves.to_bytes();
        prop_assert_eq!(TraceLeaves::from_bytes(&bytes).unwrap(), leaves);
        // One leaf fewer.
        let count = u32::try_from(bytes.len() / 32 - 1).unwrap();
        bytes.truncate(bytes.len() - 32);
        bytes[..4].copy_from_slice(&count.to_le_bytes());
        if let Ok(fewer) = TraceLeaves::from_bytes(&bytes) {
            prop_assert_eq!(fewer.names(&case.model.program), None);
        }
    }

    /// No tile of a right claim is refuted, whatever is shown: nothing at all, what another tile reads, or changed bytes.
    #[test]
    fn nothing_refutes_a_right_claim(seed in any::<u64>(), at in any::<prop::sample::Index>(), bit in 0_u8..8) {
        let case = Case::of(seed);
        let (model, tensors) = (&case.model, case.trace.tensors());
        let leaves = TraceLeaves::of(tensors);
        let names = leaves.names(&model.program).unwrap();
        let all = case.drawn(seed, u64::MAX);
        let (tile, other) = (all[at.index(all.len())], all[at.index(all.len() / 2 + 1)]);
        let input = case.trace.tensor(TensorId::INPUT);
        let refutes = |tile, opening| tiles::is_refuted(model, input, (&leaves, names.clone()), tile, opening);
        let opening = ReadOpening::of(model, tensors, other);
        prop_assert!(!refutes(tile, opening.clone()));
        prop_assert!(!refutes(other, opening.clone()));
        let empty = ReadOpening::from_bytes(&0_u32.to_le_bytes()).unwrap();
        prop_assert!(!refutes(tile, empty));
        let mut bytes = opening.to_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        if let Ok(changed) = ReadOpening::from_bytes(&bytes) {
            prop_assert!(!refutes(other, changed.clone()));
            prop_assert!(!refutes(tile, changed));
        }
        // A tile that is none.
        let nowhere = TraceTile { node: u32::MAX, leaf: 0 };
        prop_assert!(!refutes(nowhere, opening.clone()));
        let behind = TraceTile { leaf: u32::MAX, ..tile };
        prop_assert!(!refutes(behind, opening));
    }
}

/// What the widest tile reads is at most what is counted before anything runs.
#[test]
fn openings_are_as_small_as_is_counted() {
    for seed in 0..40 {
        let case = Case::of(seed);
        let (model, tensors) = (&case.model, case.trace.tensors());
        let most = tiles::widest_reads(&model.program);
        for tile in case.drawn(seed, u64::MAX) {
            let opening = ReadOpening::of(model, tensors, tile).to_bytes();
            // Each leaf has a place, each tensor its lengths, and a short leaf is counted as it is.
            assert!(opening.len() as u64 <= 2 * most + 4_096, "{seed}");
        }
    }
}

/// Values that are looked at, counted.
struct Looks<'a> {
    tensors: &'a [IntTensor],
    count: std::cell::Cell<u64>,
}

impl tg_ir::scalar::ElementValues for Looks<'_> {
    fn value(&self, tensor: TensorId, element: usize) -> i32 {
        self.count.set(self.count.get() + 1);
        self.tensors[tensor.index()].value(element)
    }

    /// What weights multiply is counted as multiply-adds.
    fn dot(&self, tensor: TensorId, first: usize, weights: &[i8]) -> i64 {
        let values = (first..).zip(weights);
        let of = |(at, weight): (usize, &i8)| {
            i64::from(self.tensors[tensor.index()].value(at)) * i64::from(*weight)
        };
        values.map(of).sum()
    }
}

/// Stops: operators that multiply nothing, and take whoever shows or checks a tile longer than its window.
#[test]
fn no_element_looks_at_more_values_than_is_counted() {
    for seed in 0..60 {
        let case = Case::of(seed);
        let program = &case.model.program;
        let mut all = 0;
        for node in 0..program.nodes.len() {
            let looks = Looks {
                tensors: case.trace.tensors(),
                count: std::cell::Cell::new(0),
            };
            let elements = program.shape(TensorId::of_node(node)).elements();
            let weights = &case.model.weights;
            let values = tg_ir::scalar::elements(program, weights, node, 0..elements, &looks);
            values.for_each(drop);
            let found = looks.count.get();
            let counted = program.looks(node) * elements as u64;
            assert!(
                found <= counted,
                "seed {seed} node {node}: {found} of {counted}"
            );
            all += counted;
        }
        assert_eq!(tiles::looks(program).0, all);
    }
}

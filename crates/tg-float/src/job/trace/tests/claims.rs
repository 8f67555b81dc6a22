//! Claims about a run: whoever ran the model wins, as accuser and as accused, whatever the other hands in.

use super::super::{ExpectedFloatClaim, FloatClaim, FloatFault, RunRecord, ValueRecord};
use super::*;
use std::collections::BTreeSet;
use tg_types::{JobId, LeaseId, ModelId, Receipt, Tier, TraceForm, stated_trace};

const LEASE: LeaseId = LeaseId::new([7; 32]);

/// A receipt of mode `optimistic` that says that a run answered this.
fn receipt(model: &FloatModel, input: &[u8], answer: &FloatAnswer) -> Receipt {
    let run = FloatModel::digest_of(input, answer);
    let names = (&JobId::default(), &LEASE);
    Receipt {
        program: model.id(),
        model: ModelId::default(),
        input: Digest::of_blob(input),
        output: Digest::of_blob(&answer.to_bytes()),
        trace: stated_trace(TraceForm::Run, names, run, answer.work),
        tier: Tier::Tgf1,
    }
}

/// A result that somebody accuses.
struct Result {
    input: Vec<u8>,
    receipt: Receipt,
    delivered: Vec<u8>,
}

impl Result {
    fn of(model: &FloatModel, input: &[u8], answer: &FloatAnswer) -> Self {
        Self {
            input: input.to_vec(),
            receipt: receipt(model, input, answer),
            delivered: answer.to_bytes(),
        }
    }

    fn expected(&self) -> ExpectedFloatClaim<'_> {
        ExpectedFloatClaim {
            lease: &LEASE,
            input: &self.input,
            receipt: &self.receipt,
            delivered: &self.delivered,
        }
    }
}

/// A model on an input.
type Case = (FloatModel, Vec<u8>);

/// Runs that end in every way.
fn cases() -> Vec<Case> {
    let graph = layered(4);
    let whole = usual(&graph).run(&input(&[4, 32])).answer.work;
    let limits = FloatLimits::default();
    let with = |work, memory, output| FloatLimits {
        work,
        memory,
        output,
        ..limits
    };
    let usual_limits = with(limits.work, limits.memory, limits.output);
    let (mut b, x) = Builder::new(&[2, 3]);
    b.0.outputs.push(x);
    let nodeless = b.0;
    let (mut b, x) = Builder::new(&[2, 3]);
    let shape = b.0.constant("shape", FloatTensor::vector(vec![7i64]));
    let sum = b.node("Add", &[x, x]);
    let y = b.node("Reshape", &[sum, shape]);
    b.0.outputs.push(y);
    let failing = b.0;
    vec![
        (model(&graph, usual_limits), input(&[4, 32])),
        (model(&graph, usual_limits), b"TGT".to_vec()),
        (model(&graph, usual_limits), input(&[4, 33])),
        (
            model(&graph, with(whole - 1, limits.memory, 9_000)),
            input(&[4, 32]),
        ),
        (
            model(&graph, with(whole / 2, limits.memory, 9_000)),
            input(&[4, 32]),
        ),
        (
            model(&graph, with(limits.work, 600, 9_000)),
            input(&[4, 32]),
        ),
        (
            model(&graph, with(limits.work, limits.memory, 100)),
            input(&[4, 32]),
        ),
        (usual(&nodeless), input(&[2, 3])),
        (usual(&failing), input(&[2, 3])),
    ]
}

/// Answers that differ from a right one, each in something.
fn other_answers(right: &FloatAnswer) -> Vec<FloatAnswer> {
    let ends = [
        FloatEnd::Finished,
        FloatEnd::OutOfWork("n1".to_owned()),
        FloatEnd::OutOfMemory("n1".to_owned()),
        FloatEnd::Failed("n1".to_owned()),
        FloatEnd::OutOfMemory("loop".to_owned()),
        FloatEnd::BadInput,
        FloatEnd::BadOutput,
    ];
    let ended = |end: FloatEnd| FloatAnswer {
        end,
        work: right.work,
        output: Vec::new(),
    };
    let mut others: Vec<FloatAnswer> = ends.into_iter().map(ended).collect();
    others.extend(
        [right.work + 1, right.work.saturating_sub(1), 0].map(|work| FloatAnswer {
            work,
            ..right.clone()
        }),
    );
    let mut output = right.output.clone();
    if let Some(last) = output.last_mut() {
        *last ^= 1;
    }
    others.push(FloatAnswer {
        output,
        ..right.clone()
    });
    others.retain(|it| it != right);
    others
}

/// Records that differ from a right one, each in something.
fn other_records(right: &RunRecord) -> Vec<RunRecord> {
    let mut others = vec![RunRecord::default()];
    let mut changed = |change: &dyn Fn(&mut RunRecord)| {
        let mut other = right.clone();
        change(&mut other);
        others.push(other);
    };
    for node in 0..right.0.len() {
        changed(&|it| it.0.truncate(node));
        changed(&|it| it.0[node].values[0].digest = Digest::of_blob(b"another value"));
        changed(&|it| it.0[node].values[0].bytes += 4);
        changed(&|it| it.0[node].work += 1);
        changed(&|it| it.0[node..].iter_mut().for_each(|it| it.work += 1));
    }
    if let Some(last) = right.0.last().cloned() {
        changed(&|it| it.0.push(last.clone()));
    }
    let value = ValueRecord {
        bytes: 0,
        digest: Digest::new([0; 32]),
    };
    changed(&|it| {
        it.0.push(super::super::NodeRecord {
            work: right.0.last().map_or(0, |it| it.work),
            values: vec![value.clone()],
        });
    });
    others.retain(|it| it != right);
    others
}

/// All that a claim may say, one thing or both changed.
fn other_claims(right: &FloatClaim) -> Vec<FloatClaim> {
    let mut answers = other_answers(&right.answer);
    answers.push(right.answer.clone());
    let mut records = other_records(&right.record);
    records.push(right.record.clone());
    let all = answers.iter().flat_map(|answer| {
        records.iter().map(move |record| FloatClaim {
            answer: answer.clone(),
            record: record.clone(),
        })
    });
    all.filter(|it| it != right).collect()
}

#[test]
fn an_honest_provider_wins_against_every_other_claim() {
    for (model, input) in cases() {
        let right = model.claim(&input);
        let result = Result::of(&model, &input, &right.answer);
        let mut shown = 0;
        for claim in other_claims(&right) {
            let claim = claim.to_bytes();
            let fault = model.fault_of(&claim, result.expected()).unwrap();
            shown += u64::from(matches!(fault, FloatFault::Node { .. }));
            let fails = model.claim_fails((&claim, &fault.to_bytes()), result.expected());
            assert!(fails, "{:?} {fault:?}", right.answer.end);
        }
        assert!(shown > 0 || right.record.0.is_empty());
        // What is no claim at all.
        let nothing = FloatFault::Claim.to_bytes();
        assert!(model.claim_fails((b"", &nothing), result.expected()));
        assert!(model.claim_fails((&right.to_bytes(), b""), result.expected()));
    }
}

/// All that a liar may show of a right claim: nodes with their right values, or other ones, and none.
fn faults(model: &FloatModel, claim: &FloatClaim, input: &[u8]) -> Vec<FloatFault> {
    let graph = model.graph();
    let lives = Lives::of(graph);
    let mut all = vec![FloatFault::Claim];
    for node in 0..graph.nodes.len() + 2 {
        all.push(FloatFault::LargeNode { node });
        all.push(FloatFault::Node {
            node,
            values: Vec::new(),
        });
        if node < graph.nodes.len() && node <= claim.record.0.len() {
            let read: BTreeSet<ValueId> = lives.reads_of_node(graph, node);
            let values = model.values_of(input, &lives, &read);
            let values: Vec<(ValueId, FloatTensor)> = values.into_iter().collect();
            let mut moved = values.clone();
            for (_, tensor) in &mut moved {
                *tensor =
                    FloatTensor::of(tensor.shape().to_vec(), vec![0.5; tensor.len()]).unwrap();
            }
            all.push(FloatFault::Node { node, values });
            all.push(FloatFault::Node {
                node,
                values: moved,
            });
        }
    }
    all
}

#[test]
fn a_right_claim_stands_against_whatever_a_liar_shows() {
    for (model, input) in cases() {
        let right = model.claim(&input);
        let claim = right.to_bytes();
        for lie in other_answers(&right.answer) {
            let result = Result::of(&model, &input, &lie);
            for fault in faults(&model, &right, &input) {
                let fails = model.claim_fails((&claim, &fault.to_bytes()), result.expected());
                assert!(!fails, "{lie:?} {fault:?}");
            }
            assert_eq!(model.fault_of(&claim, result.expected()), None);
            assert!(!model.claim_fails((&claim, b""), result.expected()));
        }
        // The right answer under another commitment, as one that hides the bill.
        let mut result = Result::of(&model, &input, &right.answer);
        result.receipt.trace = Digest::new([9; 32]);
        let nothing = FloatFault::Claim.to_bytes();
        assert!(!model.claim_fails((&claim, &nothing), result.expected()));
    }
}

/// Values of 8 MiB: a node that reads two of them is named alone, and everybody runs the model.
#[test]
fn a_node_that_reads_too_much_has_all_of_it_repeated() {
    let (mut b, x) = Builder::new(&[1, 1 << 17]);
    let mut last = b.node("Concat", &[x; 16]);
    let node = b.0.nodes.last_mut().unwrap();
    *node = node.clone().with("axis", Attribute::Int(0));
    let negated = b.node("Neg", &[last]);
    last = b.node("Add", &[last, negated]);
    let axes = b.0.constant("axes", FloatTensor::vector(vec![0i64, 1]));
    let y = b.node("ReduceSum", &[last, axes]);
    b.0.outputs.push(y);
    let model = usual(&b.0);
    let input = input(&[1, 1 << 17]);
    let right = model.claim(&input);
    let result = Result::of(&model, &input, &right.answer);
    // Wrong at the node that reads both, and at the one after it, which reads one.
    for (wrong, is_large) in [(2, true), (3, false)] {
        let mut claim = right.clone();
        claim.record.0[wrong].values[0].digest = Digest::of_blob(b"another value");
        let mut outputs = NamedTensors::read(&claim.answer.output).unwrap();
        outputs.0[0].1 = FloatTensor::of(vec![1, 1], vec![3.0]).unwrap();
        claim.record.0[3].values[0] = ValueRecord::of(&outputs.0[0].1);
        claim.answer.output = outputs.to_bytes();
        let claim = claim.to_bytes();
        let fault = model.fault_of(&claim, result.expected()).unwrap();
        match is_large {
            true => assert_eq!(fault, FloatFault::LargeNode { node: 2 }),
            false => assert!(matches!(fault, FloatFault::Node { node: 3, .. })),
        }
        assert!(model.claim_fails((&claim, &fault.to_bytes()), result.expected()));
    }
    // Of a right claim against a liar it shows nothing.
    for lie in other_answers(&right.answer) {
        let result = Result::of(&model, &input, &lie);
        let fault = FloatFault::LargeNode { node: 2 }.to_bytes();
        assert!(!model.claim_fails((&right.to_bytes(), &fault), result.expected()));
    }
}

#[test]
fn any_bytes_of_a_dispute_are_judged() {
    let (model, input) = (usual(&layered(4)), input(&[4, 32]));
    let right = model.claim(&input);
    let (honest, liar) = (
        Result::of(&model, &input, &right.answer),
        Result::of(&model, &input, &other_answers(&right.answer)[0]),
    );
    let mut wrong = right.clone();
    wrong.record.0[3].work += 1;
    for it in &mut wrong.record.0[4..] {
        it.work += 1;
    }
    wrong.answer.work += 1;
    let (claim, wrong) = (right.to_bytes(), wrong.to_bytes());
    let fault = model
        .fault_of(&wrong, honest.expected())
        .unwrap()
        .to_bytes();
    let mut numbers = Numbers::new(3);
    let mut change = |bytes: &[u8]| {
        let mut changed = bytes.to_vec();
        let last = i64::try_from(bytes.len()).unwrap() - 1;
        let place = usize::try_from(numbers.between(0, last)).unwrap();
        changed[place] ^= 1 << numbers.between(0, 7);
        changed
    };
    for _ in 0..600 {
        // Whatever is changed of what an honest provider shows, a right claim stands.
        let changed = change(&fault);
        assert!(!model.claim_fails((&claim, &changed), liar.expected()));
        let _ = model.claim_fails((&wrong, &changed), honest.expected());
        // Whatever is changed of a claim, an honest provider wins.
        let changed = change(&claim);
        let fault = model.fault_of(&changed, honest.expected()).unwrap();
        let files = (changed.as_slice(), fault.to_bytes());
        assert!(model.claim_fails((files.0, &files.1), honest.expected()));
        if let Ok(read) = FloatClaim::from_bytes(&changed) {
            assert_eq!(read.to_bytes(), changed);
        }
    }
    for length in 0..fault.len().min(3_000) {
        assert!(FloatFault::from_bytes(&fault[..length]).is_err());
    }
}

//! The session as Rust, and the committed module under an interpreter: both have to accept what provers write today, and to refuse the
//! same files with a byte changed. If the module alone fails, `cargo xtask dashboard --verifier` has to build it anew.
#![allow(clippy::unwrap_used, reason = "tests")]

mod blocks;
mod module;

use serde_json::Value;
use tg_browser::session::{PageInput, VerifySession, VerifyStep};
use tg_ir::{Generation, Sampling};
use tg_proof::{ProofFile, SequenceFile};
use tg_types::codec::Encode;

const STEPS: [VerifyStep; 4] = [
    VerifyStep::ReadProof,
    VerifyStep::ReadModel,
    VerifyStep::Registration,
    VerifyStep::Verify,
];

/// Proofs that `tg-proof` keeps, which its own tests compare with what provers write, and their models.
const KEPT: [(&str, &[u8], &[u8]); 3] = [
    (
        "mlp-digits",
        include_bytes!("../../../tg-proof/tests/data/mlp-digits.proof"),
        include_bytes!("../../../tg-proof/tests/data/mlp-digits.tgv"),
    ),
    (
        "large-tables",
        include_bytes!("../../../tg-proof/tests/data/large-tables.proof"),
        include_bytes!("../../../tg-proof/tests/data/large-tables.tgv"),
    ),
    (
        "private",
        include_bytes!("../../../tg-proof/tests/data/private.proof"),
        include_bytes!("../../../tg-proof/tests/data/private.tgv"),
    ),
];

/// A forged proof of inputs that come to 2^32 rows, which are none in a word of 32 bits, and its model.
const FORGED: (&[u8], &[u8]) = (
    include_bytes!("../../../tg-proof/tests/data/wrapped-rows.proof"),
    include_bytes!("../../../tg-proof/tests/data/wrapped-rows.tgv"),
);

/// What a page does with a verifier.
trait Verifies {
    /// Writes an input; gives whether there was room.
    fn write(&mut self, input: PageInput, bytes: &[u8]) -> bool;
    /// Takes a step; gives whether it found nothing wrong, and the answer.
    fn take(&mut self, step: VerifyStep) -> (bool, Value);
}

impl Verifies for VerifySession {
    fn write(&mut self, input: PageInput, bytes: &[u8]) -> bool {
        let room = self.room(input, bytes.len());
        room.map(|room| room.copy_from_slice(bytes)).is_some()
    }

    fn take(&mut self, step: VerifyStep) -> (bool, Value) {
        let is_right = self.step(step);
        (is_right, serde_json::from_str(self.answer()).unwrap())
    }
}

/// All steps; the last answer, or that of the step that refused.
fn verify(
    verifier: &mut impl Verifies,
    (proof, model): (&[u8], &[u8]),
    expected: &str,
) -> (bool, Value) {
    assert!(verifier.write(PageInput::Proof, proof));
    assert!(verifier.write(PageInput::Model, model));
    assert!(verifier.write(PageInput::Expected, expected.as_bytes()));
    let mut last = (false, Value::Null);
    for step in STEPS {
        last = verifier.take(step);
        if !last.0 {
            break;
        }
    }
    last
}

/// The kept proofs are accepted, and refused when a byte of them is another one.
fn holds_what_is_right_and_nothing_else(
    mut verifier: impl Verifies,
    (name, proof, model): (&str, &[u8], &[u8]),
) {
    let (is_right, verdict) = verify(&mut verifier, (proof, model), "");
    assert!(is_right, "{name}: {verdict}");
    assert!(
        verdict["security"]["bits"].as_f64().unwrap() > 98.0,
        "{verdict}"
    );
    for at in [proof.len() / 3, proof.len() - 100] {
        let mut changed = proof.to_vec();
        changed[at] ^= 1;
        let (is_right, why) = verify(&mut verifier, (&changed, model), "");
        assert!(!is_right, "{name} with another byte at {at}");
        assert!(why["reason"].is_string(), "{why}");
    }
    let other = format!("job 0x{}", "5a".repeat(32));
    let (is_right, why) = verify(&mut verifier, (proof, model), &other);
    assert!(!is_right, "{name} is about another job");
    assert_eq!(why["check"], "statement", "{why}");
}

/// Rows that wrap are refused with a verdict.
fn refuses_rows_that_wrap(verifier: &mut impl Verifies) {
    let (is_right, why) = verify(verifier, FORGED, "");
    assert!(!is_right);
    assert!(why["reason"].is_string(), "{why}");
}

#[test]
fn rows_that_wrap_are_refused_in_a_session() {
    refuses_rows_that_wrap(&mut VerifySession::default());
}

#[test]
fn kept_proofs_hold_in_a_session() {
    for kept in KEPT {
        holds_what_is_right_and_nothing_else(VerifySession::default(), kept);
    }
}

/// Whatever is named of a sequence is compared, or the names are refused: none is passed over.
#[test]
fn some_of_the_names_of_a_sequence_are_refused() {
    let (_, proof, model) = KEPT[0];
    let file = SequenceFile {
        generation: Generation {
            prompt: 1,
            written: 1,
            limit: 1,
            stop: None,
            sampling: Sampling::greatest(),
        },
        proof: ProofFile::read(proof).unwrap(),
    };
    let bytes = file.to_bytes();
    let lines = [
        format!("job 0x{}\n", "5a".repeat(32)),
        format!("provider 0x{}\n", "5a".repeat(20)),
        format!("input 0x{}\n", "5a".repeat(32)),
        format!("output 0x{}\n", "5a".repeat(32)),
    ];
    for named in 0..16u32 {
        let own = lines.iter().enumerate();
        let own = own.filter(|(index, _)| named >> index & 1 == 1);
        let expected: String = own.map(|(_, line)| line.as_str()).collect();
        let (is_right, why) = verify(&mut VerifySession::default(), (&bytes, model), &expected);
        assert!(!is_right, "this model writes nothing");
        // All four, or neither of the last two: it is looked at.
        let check = match named {
            0..4 | 15 => "sequence",
            _ => "expected",
        };
        assert_eq!(why["check"], check, "{expected}: {why}");
    }
}

#[test]
fn steps_out_of_order_are_refused() {
    let (_, proof, model) = KEPT[0];
    for step in [VerifyStep::Registration, VerifyStep::Verify] {
        assert_eq!(VerifySession::default().take(step).1["check"], "order");
    }
    let mut session = VerifySession::default();
    assert!(session.write(PageInput::Proof, proof));
    assert!(session.write(PageInput::Model, model));
    assert!(session.take(VerifyStep::ReadProof).0);
    assert!(session.take(VerifyStep::ReadModel).0);
    // The registration was not verified yet.
    assert_eq!(session.take(VerifyStep::Verify).1["check"], "order");
    assert!(session.take(VerifyStep::Registration).0);
    assert!(session.take(VerifyStep::Verify).0);
    // Another model's bytes forget what was verified.
    assert!(session.write(PageInput::Model, model));
    assert_eq!(session.take(VerifyStep::Verify).1["check"], "order");
}

#[test]
fn the_public_part_of_another_model_is_refused() {
    let (_, proof, _) = KEPT[0];
    let (_, _, other) = KEPT[1];
    let (is_right, why) = verify(&mut VerifySession::default(), (proof, other), "");
    assert!(!is_right);
    assert_eq!(why["check"], "model");
}

#[test]
fn inputs_have_a_limit_and_expectations_a_form() {
    let mut session = VerifySession::default();
    for number in 0..6 {
        let input = PageInput::numbered(number).unwrap();
        assert!(session.room(input, input.max() + 1).is_none());
    }
    assert!(PageInput::numbered(6).is_none());
    assert!(VerifyStep::numbered(5).is_none());
    let (_, proof, model) = KEPT[0];
    for wrong in ["job", "job 0x12", "colour 0x00", "job \u{0}", "\u{7f}"] {
        let (is_right, why) = verify(&mut session, (proof, model), wrong);
        assert!(!is_right, "{wrong:?}");
        assert_eq!(why["check"], "expected", "{why}");
    }
}

#[test]
fn any_bytes_give_an_answer() {
    let (_, proof, model) = KEPT[0];
    for length in [0, 1, 7, 64, 1_000] {
        for bytes in [
            vec![0; length],
            vec![0xff; length],
            proof[..length].to_vec(),
            model[..length].to_vec(),
        ] {
            assert!(!verify(&mut VerifySession::default(), (&bytes, model), "").0);
            assert!(!verify(&mut VerifySession::default(), (proof, &bytes), "").0);
        }
    }
}

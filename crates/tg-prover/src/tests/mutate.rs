//! Every field of every message, changed one at a time: each change is refused, by a known check, without a panic.

use super::models::{Case, case};
use serde_json::Value;
use std::collections::BTreeMap;
use tg_proof::messages::{self, InferenceProof, RegistrationProof};
use tg_proof::{ProofFile, PublicModel};

/// One place in a message: its path with list positions left out, and with them.
struct Place {
    kind: String,
    path: Vec<Step>,
}

#[derive(Clone)]
enum Step {
    Key(String),
    Index(usize),
}

/// All places that hold a number, a list or an absent option, the first and last of each list only.
fn places(value: &Value, kind: &str, path: &[Step], found: &mut Vec<Place>) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                let path = [path, &[Step::Key(key.clone())]].concat();
                places(field, &format!("{kind}.{key}"), &path, found);
            }
        }
        Value::Array(items) => {
            found.push(Place {
                kind: format!("{kind}[]"),
                path: path.to_vec(),
            });
            let mut chosen = vec![0, items.len().saturating_sub(1)];
            // Node messages differ from node to node.
            if kind.ends_with("nodes") {
                chosen = (0..items.len()).collect();
            }
            chosen.dedup();
            for index in chosen.into_iter().filter(|&index| index < items.len()) {
                let path = [path, &[Step::Index(index)]].concat();
                places(&items[index], &format!("{kind}*"), &path, found);
            }
        }
        Value::Number(_) | Value::Null => found.push(Place {
            kind: kind.to_owned(),
            path: path.to_vec(),
        }),
        Value::Bool(_) | Value::String(_) => {}
    }
}

fn at<'a>(value: &'a mut Value, path: &[Step]) -> &'a mut Value {
    path.iter().fold(value, |value, step| match step {
        Step::Key(key) => &mut value[key],
        Step::Index(index) => &mut value[index],
    })
}

/// The changes of one place.
fn changes(value: &Value) -> Vec<Value> {
    match value {
        Value::Number(number) => {
            let number = number.as_u64().unwrap();
            vec![
                Value::from(number ^ 1),
                Value::from(0),
                Value::from(2_130_706_433u64),
            ]
        }
        Value::Array(items) => {
            let mut changes = vec![Value::Array(Vec::new())];
            if let Some(last) = items.last() {
                changes.push(Value::Array(items[1..].to_vec()));
                changes.push(Value::Array(
                    [items.as_slice(), std::slice::from_ref(last)].concat(),
                ));
            }
            changes
        }
        _ => vec![Value::from(1), Value::Array(Vec::new())],
    }
}

/// Applies every change to a message and collects, per kind of place, the codes with which it was refused. A change
/// that is no message any more (0 while collecting) is left out.
pub(crate) fn all(
    message: &Value,
    refuse: &mut dyn FnMut(Value) -> Option<u16>,
) -> BTreeMap<String, Vec<u16>> {
    let mut found = Vec::new();
    places(message, "", &[], &mut found);
    let mut codes: BTreeMap<String, Vec<u16>> = BTreeMap::new();
    for Place { kind, path } in found {
        let mut changed = message.clone();
        let original = at(&mut changed, &path).clone();
        for change in changes(&original)
            .into_iter()
            .filter(|change| *change != original)
        {
            *at(&mut changed, &path) = change;
            let code = refuse(changed.clone()).unwrap_or(0);
            codes.entry(kind.clone()).or_default().push(code);
        }
    }
    for codes in codes.values_mut() {
        codes.sort_unstable();
        codes.dedup();
        codes.retain(|&code| code != 0);
    }
    codes.retain(|_, codes| !codes.is_empty());
    codes
}

fn render(codes: &BTreeMap<String, Vec<u16>>) -> String {
    codes
        .iter()
        .map(|(kind, codes)| format!("{kind} {codes:?}\n"))
        .collect()
}

fn inference(case: &Case) -> String {
    let proof = messages::decode_inference(&case.file.proof, case.parts()).unwrap();
    let message = serde_json::to_value(&proof).unwrap();
    let back: InferenceProof = serde_json::from_value(message.clone()).unwrap();
    assert!(messages::encode_inference(&back) == case.file.proof);
    let codes = all(&message, &mut |changed| {
        let proof: InferenceProof = serde_json::from_value(changed).ok()?;
        let file = ProofFile {
            proof: messages::encode_inference(&proof),
            ..case.file.clone()
        };
        Some(
            case.check(&file)
                .expect_err("a changed proof is refused")
                .code(),
        )
    });
    render(&codes)
}

#[test]
fn every_message_of_an_inference_is_bound() {
    let rendered = inference(case());
    assert_eq!(rendered, include_str!("inference_codes.txt"), "{rendered}");
}

/// The same for every linear and product gadget.
#[test]
fn every_message_of_the_linear_gadgets_is_bound() {
    let rendered = inference(super::linear::linear());
    assert_eq!(rendered, include_str!("linear_codes.txt"), "{rendered}");
}

/// Openings of larger commitments have rounds, which the small case has not.
#[test]
fn every_message_of_an_opening_in_rounds_is_bound() {
    let case = Case::of_tensor(tg_compile::suite::Architecture::LeNet.model(1));
    let rendered = inference(&case);
    for opening in ["witness", "weights"] {
        let rounds = format!(".{opening}_opening.rounds*.openings.Base.rows** [8]");
        assert!(rendered.contains(&rounds), "{rendered}");
    }
}

#[test]
fn every_message_of_a_registration_is_bound() {
    let case = case();
    let proof: RegistrationProof = messages::decode(case.public.registration()).unwrap();
    let message = serde_json::to_value(&proof).unwrap();
    let codes = all(&message, &mut |changed| {
        let proof: RegistrationProof = serde_json::from_value(changed).ok()?;
        let public = PublicModel::new(
            case.public.program().clone(),
            case.public.weights_commitment().cloned(),
            messages::encode(&proof),
        )
        .unwrap();
        Some(
            public
                .verify_registration()
                .expect_err("a changed registration is refused")
                .code(),
        )
    });
    let rendered = render(&codes);
    assert_eq!(
        rendered,
        include_str!("registration_codes.txt"),
        "{rendered}"
    );
}

/// Messages of one node are not admitted for another operator, nor those of another proof.
#[test]
fn swapped_messages_are_refused() {
    use tg_proof::VerifyError;
    use tg_proof::error::NodeCheck;
    let case = case();
    let name = |node: usize| case.public.program().nodes[node].name.clone();
    let expected = VerifyError::Node {
        node: 10,
        name: name(10),
        check: NodeCheck::Messages,
    };
    assert_eq!(case.forged(|proof| proof.nodes.swap(0, 1)), expected);
    let expected = VerifyError::Nodes {
        expected: 11,
        got: 10,
    };
    assert_eq!(case.forged(|proof| drop(proof.nodes.pop())), expected);
    // The maximum's output has two readers: its merge is required, and no other node's is admitted.
    let expected = VerifyError::Node {
        node: 2,
        name: name(2),
        check: NodeCheck::Messages,
    };
    assert_eq!(case.forged(|proof| proof.nodes[8].merge = None), expected);
    let expected = VerifyError::Node {
        node: 10,
        name: name(10),
        check: NodeCheck::Messages,
    };
    let moved = |proof: &mut InferenceProof| proof.nodes[0].merge = proof.nodes[8].merge.clone();
    assert_eq!(case.forged(moved), expected);
}

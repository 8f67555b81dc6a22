//! Proofs that are gone on with from any of their steps have the bytes of one that was never interrupted.

use super::models::{Case, JOB, PROVIDER, case};
use super::sections::sectioned;
use crate::{Limits, ProveError, ProveRequest, Record};
use std::sync::{Arc, Mutex};
use tg_exec::IntTensor;
use tg_proof::ProofFile;

type Kept = Arc<Mutex<Vec<Vec<u8>>>>;

/// Proves with some steps known; gives the proof, all steps then kept and how many were restored.
fn prove(
    case: &Case,
    known: &[Vec<u8>],
    input: &IntTensor,
) -> (Result<ProofFile, ProveError>, Vec<Vec<u8>>, usize) {
    let kept: Kept = Arc::new(Mutex::new(known.to_vec()));
    let sink = Arc::clone(&kept);
    let keep = move |number: usize, step: &[u8]| {
        let mut kept = sink.lock().unwrap();
        kept.truncate(number);
        assert_eq!(kept.len(), number, "no step is left out");
        kept.push(step.to_vec());
    };
    let record = Record::new(known.to_vec(), Box::new(keep));
    let limits = Limits {
        record: Some(&record),
        ..Limits::default()
    };
    let inputs = vec![input.clone()];
    let request = ProveRequest::of(inputs).named(JOB, PROVIDER).within(limits);
    let proved = crate::prove(&case.model, request, &mut |_| {});
    let kept = kept.lock().unwrap().clone();
    (proved.map(|(file, _)| file), kept, record.restored())
}

fn input(case: &Case) -> IntTensor {
    case.trace.tensors()[0].clone()
}

/// A proof of several sections, and one of a single section, from each of their steps.
#[test]
fn a_proof_goes_on_from_any_step() {
    for (case, least) in [(sectioned(), 3 * 3 + 2), (case(), 3)] {
        let (file, steps, restored) = prove(case, &[], &input(case));
        assert_eq!(file, Ok(case.file.clone()));
        assert_eq!(restored, 0);
        assert!(steps.len() >= least, "{} steps", steps.len());
        for known in 0..=steps.len() {
            let (again, kept, restored) = prove(case, &steps[..known], &input(case));
            assert_eq!(again, Ok(case.file.clone()), "from step {known}");
            assert_eq!(restored, known);
            assert_eq!(kept, steps);
        }
    }
}

/// A step that was damaged on the way is refused and made again, or the proof is: none that does not verify comes out.
#[test]
fn damaged_steps_make_no_other_proof() {
    for case in [sectioned(), case()] {
        let (_, steps, _) = prove(case, &[], &input(case));
        let (mut remade, mut refused) = (0, 0);
        for (index, step) in steps.iter().enumerate() {
            for place in [0, step.len() / 3, step.len() - 1] {
                let mut damaged = steps.clone();
                damaged[index][place] ^= 1;
                match prove(case, &damaged, &input(case)) {
                    (Ok(file), kept, restored) => {
                        assert_eq!(file, case.file, "step {index} byte {place}");
                        assert_eq!(restored, index);
                        assert_eq!(kept, steps);
                        remade += 1;
                    }
                    (Err(error), _, _) => {
                        assert_eq!(error, ProveError::Record, "step {index} byte {place}");
                        refused += 1;
                    }
                }
            }
        }
        assert!(remade > 0);
        assert!(remade + refused == 3 * steps.len());
    }
}

/// Steps of another input are of no use: the walk's or the sums' do not verify, or the roots are others.
#[test]
fn steps_of_another_proof_are_refused() {
    let case = sectioned();
    let other = match input(case) {
        IntTensor::I8(values) => IntTensor::I8(values.iter().map(|value| value ^ 1).collect()),
        other => other,
    };
    let (_, steps, _) = prove(case, &[], &other);
    let (proved, _, _) = prove(case, &steps, &input(case));
    assert_eq!(proved, Err(ProveError::Record));
    let (whole, steps) = (super::models::case(), steps.as_slice());
    // The first step of a proof with one section is its walk.
    let (proved, kept, restored) = prove(whole, steps, &input(whole));
    assert_eq!(proved, Ok(whole.file.clone()));
    assert_eq!(restored, 0);
    assert!(kept.iter().zip(steps).all(|(kept, other)| kept != other));
}

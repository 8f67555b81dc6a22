//! Stored states that contradict themselves are refused by name.

use std::sync::Arc;

use tg_types::{Address, Amount, Decode, DecodeError, Encode, LeaseId};

use super::pruning::{network, with_cancelled_jobs};
use crate::record::{Account, Job, JobPhase, JobState, OpenStage};
use crate::state::State;

fn refusal(state: &State) -> DecodeError {
    State::from_bytes(&state.to_bytes()).unwrap_err()
}

fn invalid(field: &'static str, value: u64) -> DecodeError {
    DecodeError::Invalid { field, value }
}

/// Where a job stands that waits.
const QUEUED: JobPhase = JobPhase::Open {
    stage: OpenStage::Queued,
    escrow: Amount::ZERO,
};

/// The first ended job, changed.
fn with_job(change: impl FnOnce(&mut Job)) -> State {
    let mut state = with_cancelled_jobs(2);
    let mut job = state.ended_jobs().last().unwrap().clone();
    change(&mut job);
    state.put_job(job);
    state.seal();
    state
}

/// The encoding of a state, with the places of its leaves changed.
fn with_places(change: impl FnOnce(&mut Vec<u32>)) -> Vec<u8> {
    let state = network();
    let mut places: Vec<u32> = state.leaves.indices().collect();
    let bytes = state.to_bytes();
    // After the places stands the count of free ones, which is zero.
    let after = bytes.len() - 4;
    let before = after - 4 * places.len();
    change(&mut places);
    let places = places.iter().flat_map(|it| it.to_le_bytes());
    let mut changed = bytes[..before].to_vec();
    changed.extend(places);
    changed.extend_from_slice(&bytes[after..]);
    changed
}

#[test]
fn a_leaf_beyond_the_used_ones() {
    assert!(State::from_bytes(&with_places(|_| ())).is_ok());
    let refusal = |bytes: &[u8]| State::from_bytes(bytes).unwrap_err();
    let bytes = with_places(|places| places[0] = 9);
    assert_eq!(refusal(&bytes), invalid("leaf index", 9));
    let bytes = with_places(|places| places[0] = 0);
    assert_eq!(refusal(&bytes), invalid("leaf index", 0));
}

#[test]
fn two_records_of_one_leaf() {
    let bytes = with_places(|places| places[0] = places[1]);
    assert!(matches!(
        State::from_bytes(&bytes).unwrap_err(),
        DecodeError::Invalid {
            field: "leaf index",
            ..
        }
    ));
}

#[test]
fn a_record_without_a_leaf() {
    let mut state = network();
    let account = Account::new(Address::new([7; 20]), Amount::ZERO);
    state.put_account(account);
    assert_eq!(refusal(&state), invalid("leaf count", 4));
}

#[test]
fn a_job_without_a_history() {
    let state = with_job(|job| job.history.clear());
    assert_eq!(refusal(&state), invalid("job sequence", 0));
}

#[test]
fn a_job_whose_history_ends_elsewhere() {
    let state = with_job(|job| {
        job.history.pop();
    });
    assert_eq!(refusal(&state), invalid("job sequence", 0));
    let state = with_job(|job| job.phase = QUEUED);
    assert_eq!(refusal(&state), invalid("job sequence", 0));
}

#[test]
fn a_job_without_the_lease_that_it_names() {
    let lease = LeaseId::new([7; 32]);
    let state = with_job(|job| {
        job.phase = JobPhase::Open {
            stage: OpenStage::Running(lease),
            escrow: Amount::ZERO,
        };
        if let Some(step) = job.history.last_mut() {
            step.state = JobState::Running;
        }
    });
    assert_eq!(refusal(&state), invalid("lease of a job", 0));
}

#[test]
fn a_job_from_the_future() {
    let state = with_job(|job| job.sequence = 2);
    assert_eq!(refusal(&state), invalid("job sequence", 2));
}

#[test]
fn two_jobs_of_one_place_in_the_queue() {
    let mut state = with_cancelled_jobs(2);
    let mut jobs: Vec<Job> = state.jobs.iter().cloned().collect();
    for job in &mut jobs {
        job.sequence = 1;
        job.phase = QUEUED;
        if let Some(step) = job.history.last_mut() {
            step.state = JobState::Queued;
        }
    }
    for job in jobs {
        state.put_job(job);
    }
    state.seal();
    assert_eq!(refusal(&state), invalid("job sequence", 1));
}

#[test]
fn records_out_of_order() {
    let state = network();
    let bytes = state.to_bytes();
    // Two accounts stand one after the other; exchanged, they are the same records in another order.
    let accounts: Vec<Vec<u8>> = state.accounts.iter().map(Encode::to_bytes).collect();
    let [first, second] = &accounts[..] else {
        panic!("two accounts were expected");
    };
    let together = [first.clone(), second.clone()].concat();
    let at = bytes
        .windows(together.len())
        .position(|window| window == together)
        .unwrap();
    let mut exchanged = bytes.clone();
    exchanged[at..at + together.len()].copy_from_slice(&[second.clone(), first.clone()].concat());
    assert!(State::from_bytes(&bytes).is_ok());
    assert!(matches!(
        State::from_bytes(&exchanged).unwrap_err(),
        DecodeError::Invalid {
            field: "accounts",
            ..
        }
    ));
    // And the same record twice is out of order too.
    let mut twice = bytes;
    twice[at..at + together.len()].copy_from_slice(&[first.clone(), first.clone()].concat());
    assert!(State::from_bytes(&twice).is_err());
}

#[test]
fn a_state_that_was_read_can_be_written_to() {
    let state = with_cancelled_jobs(3);
    let mut restored = State::from_bytes(&state.to_bytes()).unwrap();
    assert!(Arc::ptr_eq(&state.validators, &state.clone().validators));
    let mut other = state;
    for state in [&mut restored, &mut other] {
        let mut account = state.accounts.iter().next().unwrap().clone();
        account.nonce += 1;
        state.put_account(account);
        state.seal();
    }
    assert_eq!(restored.root(), other.root());
    assert_eq!(restored.to_bytes(), other.to_bytes());
}

//! The families of attacks.

use tg_ledger::StoredFile;
use tg_types::{OfferTerms, Transaction};

use super::grid::{Grid, Plan, SECRET};
use super::measure::{Attack, Size};

mod failing;
mod filling;
mod ordering;
mod sharing;
mod standing;
mod turns;
mod voting;

/// Every attack, in the order of the table.
pub(crate) fn all() -> Vec<Attack> {
    let families = [
        ordering::attacks(),
        failing::attacks(),
        sharing::attacks(),
        voting::attacks(),
        standing::attacks(),
        turns::attacks(),
        filling::attacks(),
    ];
    families.into_iter().flatten().collect()
}

/// An attack beside which nothing of its kind is done.
fn attack(
    name: &'static str,
    who: &'static str,
    plan: Plan,
    play: impl FnMut(&mut Grid) + 'static,
) -> Attack {
    Attack {
        name,
        who,
        bound: "",
        size: Size::Quick,
        plan,
        always: None,
        instead: None,
        play: Box::new(play),
        happened: |grid| grid.sent.0 > 0,
    }
}

fn post(grid: &mut Grid, name: &str, terms: OfferTerms) {
    grid.send(name, Transaction::PostOffer { terms });
}

/// Does what an honest provider does with all leases of `name`.
fn work(grid: &mut Grid, name: &str) {
    for (job, lease) in grid.leases(name) {
        if let Some(duty) = grid.duty(&job, &lease) {
            grid.send(name, duty);
        }
    }
}

/// What a validator is asked about, whether it is asked again, and whether nobody honest has it.
type Task = (tg_types::StorageSubject, bool, bool);

/// What each of the attacker's validators has to state.
fn tasks(grid: &Grid) -> Vec<(String, Vec<Task>)> {
    let validators = grid.state.validators().iter();
    let hostile = validators.filter(|it| grid.is_hostile(&it.address));
    let of = |address| {
        let tasks = grid.state.storage_tasks(address).into_iter().take(24);
        let told = tasks.map(|task| {
            let is_secret = task
                .files
                .iter()
                .any(|file| matches!(file, StoredFile::Input { digest, .. } if *digest == SECRET));
            (task.subject, task.is_recheck, is_secret)
        });
        told.collect()
    };
    hostile
        .map(|it| (grid.name(&it.address).to_owned(), of(&it.address)))
        .collect()
}

/// The attacker's validators state that they hold everything.
fn say_held(grid: &mut Grid) {
    for (name, tasks) in tasks(grid) {
        let mut held: Vec<_> = tasks.into_iter().map(|it| it.0).collect();
        held.sort_unstable();
        let missing = Vec::new();
        if !held.is_empty() {
            grid.send(&name, Transaction::ReportStorage { held, missing });
        }
    }
}

/// The attacker's validators state that they lack whatever they are asked for again.
fn say_missing(grid: &mut Grid) {
    for (name, tasks) in tasks(grid) {
        let mut missing: Vec<_> = tasks.iter().filter(|it| it.1).map(|it| it.0).collect();
        missing.sort_unstable();
        let held = Vec::new();
        if !missing.is_empty() {
            grid.send(&name, Transaction::ReportStorage { held, missing });
        }
    }
}

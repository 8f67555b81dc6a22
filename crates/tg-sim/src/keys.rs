//! What a requestor does with the keys of its sealed jobs: it grants each to the provider of its lease, shows it if the provider says that it opens
//! nothing, and shows it if the answer does not open or is wrong.

use std::collections::BTreeMap;
use std::sync::Arc;

use tg_ledger::{Job, Lease, SealingStage, State, SyncStage};
use tg_types::{Digest, LeaseId, Transaction, VerificationMode};

use crate::grid::{ClientAccount, Context, SimGrid, fate, now_ms, sleep_ms};
use crate::sealed::SealedOrder;

/// How often it looks, in milliseconds.
const LOOK_MS: u64 = 250;

/// How long it waits for the effect of what it sent before it sends again, in milliseconds.
const PATIENCE_MS: u64 = 1_500;

/// What a lease asks of whoever has the key of its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum KeyDuty {
    /// Its provider has no key.
    Grant,
    /// Its provider is wrong.
    Show,
}

/// Does that for an account until the run ends.
pub(crate) async fn keep(
    context: Context,
    grid: Arc<SimGrid>,
    index: usize,
    account: ClientAccount,
) {
    let mut sent: BTreeMap<(LeaseId, KeyDuty), u64> = BTreeMap::new();
    loop {
        sleep_ms(&context, LOOK_MS).await;
        let Some(state) = account.state(&grid, &context) else {
            continue;
        };
        let now = now_ms(&context);
        let mut due = due(&grid, &state, &account);
        due.retain(|(lease, duty, _)| {
            let last = sent.get(&(*lease, *duty));
            last.is_none_or(|at| now >= at + PATIENCE_MS)
        });
        for (lease, duty, order) in due {
            let Some(transaction) = transaction(&state, &lease, duty, &order) else {
                continue;
            };
            sent.insert((lease, duty), now);
            let fared = account.send(&grid, &context, transaction).await;
            let what = format!("{duty:?} the key of {lease}, {}", fate(&fared));
            grid.line(&context, &format!("requestor{index}"), &what);
        }
    }
}

/// What all leases of an account's sealed jobs ask of it.
fn due(
    grid: &SimGrid,
    state: &State,
    account: &ClientAccount,
) -> Vec<(LeaseId, KeyDuty, SealedOrder)> {
    let me = account.wallet.address();
    let leases = state.live_leases();
    let mine =
        leases.filter(|(job, _)| job.requestor == me && job.order.mode == VerificationMode::Sealed);
    let due = mine.filter_map(|(job, lease)| {
        let order = grid.checks().facts.sealed.get(&job.order.input).cloned()?;
        let duty = duty(grid, (job, lease), &order)?;
        Some((lease.id, duty, order))
    });
    due.collect()
}

/// What a lease asks of the account that ordered its job, if anything.
fn duty(grid: &SimGrid, (job, lease): (&Job, &Lease), order: &SealedOrder) -> Option<KeyDuty> {
    match lease.sealing.as_ref()?.stage {
        SealingStage::AwaitsKey => Some(KeyDuty::Grant),
        SealingStage::Questioned { .. } => Some(KeyDuty::Show),
        SealingStage::Revealed { .. } => None,
        SealingStage::Granted { .. } => {
            let stage = lease.check.as_ref().map(|it| &it.stage);
            if !matches!(stage, Some(SyncStage::Contestable { .. })) {
                return None;
            }
            let answer = read(grid, &lease.receipt()?.output)?;
            let right = grid.sample().simulated_output(&job.order.input);
            let opened = order.key.open_answer(&lease.id, &answer);
            (opened.as_ref() != Ok(&right)).then_some(KeyDuty::Show)
        }
    }
}

/// What any validator has of an answer.
fn read(grid: &SimGrid, answer: &Digest) -> Option<Vec<u8>> {
    let nodes = grid.nodes();
    let mut stores = nodes.iter().map(|(_, node)| node.blobs());
    stores.find_map(|it| it.get(answer, 1 << 20).ok().flatten())
}

fn transaction(
    state: &State,
    id: &LeaseId,
    duty: KeyDuty,
    order: &SealedOrder,
) -> Option<Transaction> {
    let lease = *id;
    Some(match duty {
        KeyDuty::Grant => {
            let to = &state.lease(id)?.sealing.as_ref()?.key;
            let grant = order.key.grant(id, to).ok()?;
            Transaction::GrantKey { lease, grant }
        }
        KeyDuty::Show => Transaction::RevealKey {
            lease,
            key: *order.key.as_bytes(),
        },
    })
}

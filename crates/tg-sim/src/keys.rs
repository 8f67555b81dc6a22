//! What a requestor does with the keys of its sealed jobs: it grants each to the provider of its lease, shows it if the provider says that it opens
//! nothing, and shows it if the answer does not open or is wrong. One that is hostile does the same with grants that open nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use tg_ledger::{Job, Lease, SealingStage, State, SyncStage};
use tg_privacy::JobKey;
use tg_types::{Digest, KeyGrant, LeaseId, SealingPublicKey, Transaction, VerificationMode};

use crate::grid::{ClientAccount, Context, SimGrid, fate, now_ms, sleep_ms};
use crate::plan::RequestorRole;
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
    (index, role): (usize, RequestorRole),
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
            let Some(transaction) = transaction(&state, &lease, duty, (&order, role)) else {
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
    (order, role): (&SealedOrder, RequestorRole),
) -> Option<Transaction> {
    let lease = *id;
    Some(match duty {
        KeyDuty::Grant => {
            let to = &state.lease(id)?.sealing.as_ref()?.key;
            let grant = match role {
                RequestorRole::KeyGarbler => garbled(&order.key, id, to)?,
                _ => order.key.grant(id, to).ok()?,
            };
            Transaction::GrantKey { lease, grant }
        }
        KeyDuty::Show => Transaction::RevealKey {
            lease,
            key: *order.key.as_bytes(),
        },
    })
}

/// A grant that opens nothing: for every second lease of another key, else with a bit changed.
fn garbled(key: &JobKey, lease: &LeaseId, to: &SealingPublicKey) -> Option<KeyGrant> {
    if lease.as_bytes()[0] & 1 == 0 {
        let other = JobKey::new(*lease.as_bytes());
        return other.grant(lease, to).ok();
    }
    let grant = key.grant(lease, to).ok()?;
    let mut bytes = *grant.as_bytes();
    bytes[0] ^= 1;
    Some(KeyGrant::new(bytes))
}

#[cfg(test)]
mod tests {
    use tg_privacy::{SealedFor, SealingKey};
    use tg_types::{ModelId, Wallet};

    use super::*;

    /// Neither kind of grant gives its provider the key, and the right one does.
    #[test]
    fn what_is_garbled_opens_no_input() {
        let (wallet, model) = (Wallet::from_seed(b"requestor"), ModelId::new([3; 32]));
        let (order, sealed) = SealedOrder::seal(&wallet, model, (&[7; 20][..], false));
        let provider = SealingKey::of(&Wallet::from_seed(b"provider"));
        let purpose = SealedFor {
            model,
            requestor: wallet.address(),
        };
        let opens = |lease: &LeaseId, grant: &KeyGrant| {
            let key = provider.open_grant(lease, grant);
            key.is_ok_and(|it| it.open_input(&purpose, &sealed).is_ok())
        };
        for first in [4, 5] {
            let lease = LeaseId::new([first; 32]);
            let to = provider.to_register();
            let grant = garbled(&order.key, &lease, &to).expect("it can be made");
            assert!(!opens(&lease, &grant), "{first}");
            let right = order.key.grant(&lease, &to);
            assert!(opens(&lease, &right.expect("it can be made")));
        }
    }
}

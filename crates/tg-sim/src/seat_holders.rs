//! Those that bond for a seat, and those that give theirs back.

use std::sync::Arc;

use tg_ledger::State;
use tg_node::ValidatorKey;
use tg_types::{Address, BlockId, Label, Transaction};

use crate::grid::{ClientAccount, Context, SimGrid, fate, now_ms, sleep_ms};

/// How long one waits for the effect of what it sent before it sends again, in milliseconds.
const PATIENCE_MS: u64 = 1_500;

/// What a newcomer sends for its bond. Nothing dials the endpoint: the simulated network has its own.
pub(crate) fn joining(
    index: usize,
    key: &ValidatorKey,
    (genesis, account): (&BlockId, &Address),
) -> Transaction {
    let endpoint = Label::new(&format!("10.0.0.{index}:30000"));
    Transaction::JoinValidators {
        key: key.public(),
        endpoint: endpoint.expect("a short text is a label"),
        possession: key.possession(genesis, account),
    }
}

/// What a validator sends that gives its seat back.
pub(crate) fn leaving(key: &ValidatorKey) -> Transaction {
    let key = key.public();
    Transaction::LeaveValidators { key }
}

/// Sends the transaction of a seat, from a time on, until it has its effect.
pub(crate) async fn hold(
    context: Context,
    grid: Arc<SimGrid>,
    (index, at_ms): (usize, u64),
    account: ClientAccount,
    transaction: Transaction,
) {
    sleep_ms(&context, at_ms.saturating_sub(now_ms(&context))).await;
    let address = account.wallet.address();
    loop {
        let state = account.state(&grid, &context);
        if state.is_some_and(|it| has_effect(&it, &address, &transaction)) {
            return;
        }
        let sent = account.send(&grid, &context, transaction.clone()).await;
        let (who, what) = (format!("seat{index}"), transaction.kind().as_str());
        grid.line(&context, &who, &format!("{what}, {}", fate(&sent)));
        sleep_ms(&context, PATIENCE_MS).await;
    }
}

/// Whether a state shows that the transaction was executed.
fn has_effect(state: &State, address: &Address, transaction: &Transaction) -> bool {
    let seat = state.seat_of(address).map(usize::from);
    let seat = seat.and_then(|it| state.seats().seats.get(it));
    match transaction {
        Transaction::JoinValidators { .. } => {
            seat.is_some() || state.seats().bonds().any(|it| it.address == *address)
        }
        _ => seat.is_none_or(|it| it.is_leaving),
    }
}

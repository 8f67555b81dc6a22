//! An account that is left until its rent is spent, and what was signed for it sent again by anybody: before it is opened anew, after,
//! and once it has sent something more.

use std::sync::Arc;

use tg_ledger::rent::{ACCOUNT_BYTES, ACCOUNT_RENEWAL};
use tg_ledger::{RentCategory, State, gas};
use tg_types::{Address, Amount, Fees, SignedTransaction, Transaction};

use crate::grid::{ClientAccount, Context, SimGrid, now_ms, sleep_ms};
use crate::plan::{LapsePlan, PAUSE};

/// What each of its first transactions pays.
const PAID: Amount = Amount::new(1_000_000_000);

/// How long it waits for the effect of what it sent before it sends again, in looks of a quarter of a second.
const LOOKS: u32 = 8;

/// How often all old transactions are sent again after the account was opened anew.
const ROUNDS: u32 = 4;

/// An account that is left, and the one that opens it again.
pub(crate) struct LeftAccount {
    plan: LapsePlan,
    account: ClientAccount,
    opener: ClientAccount,
    /// All that was signed for it.
    signed: Vec<SignedTransaction>,
}

/// What the account pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Payment {
    /// A little.
    Little,
    /// All but what the fee may be.
    All,
}

/// What an account may keep when it is left: less than a day of its rent.
fn is_empty(state: &State, address: &Address) -> bool {
    let day = state.rent_for(RentCategory::Accounts, ACCOUNT_BYTES, ACCOUNT_RENEWAL);
    state.balance(address) < day
}

impl LeftAccount {
    pub(crate) const fn new(
        plan: LapsePlan,
        account: ClientAccount,
        opener: ClientAccount,
    ) -> Self {
        Self {
            plan,
            account,
            opener,
            signed: Vec::new(),
        }
    }

    /// Empties the account, waits until it is gone, opens it again, and sends its old transactions at each of these steps.
    pub(crate) async fn run(mut self, grid: Arc<SimGrid>, context: Context) {
        let me = self.account.wallet.address();
        for _ in 0..self.plan.transfers {
            self.pay(&grid, &context, Payment::Little).await;
        }
        while !self.holds(&grid, &context, |state| is_empty(state, &me)) {
            self.pay(&grid, &context, Payment::All).await;
        }
        let what = format!("is empty after {} transactions", self.signed.len());
        grid.line(&context, "left", &what);
        grid.left_empty();
        while !self.holds(&grid, &context, |state| state.account(&me).is_none()) {
            sleep_ms(&context, 250).await;
        }
        grid.line(&context, "left", "is removed: its rent is spent");
        self.send_again(&grid, &context).await;
        self.open(&grid, &context).await;
        grid.line(&context, "left", "is opened again");
        for _ in 0..ROUNDS {
            self.send_again(&grid, &context).await;
            sleep_ms(&context, 1_000).await;
        }
        // What is signed for it now holds.
        self.pay(&grid, &context, Payment::Little).await;
        self.send_again(&grid, &context).await;
        grid.ordered();
    }

    /// Whether something holds of the last final state that its validator shows.
    fn holds(&self, grid: &SimGrid, context: &Context, is: impl Fn(&State) -> bool) -> bool {
        let state = self.account.state(grid, context);
        state.is_some_and(|state| is(&state))
    }

    /// Pays somebody, and waits until that is executed.
    async fn pay(&mut self, grid: &SimGrid, context: &Context, payment: Payment) {
        let me = self.account.wallet.address();
        loop {
            let Some(state) = self.account.state(grid, context) else {
                sleep_ms(context, 500).await;
                continue;
            };
            // What was asked before may have been behind.
            if payment == Payment::All && is_empty(&state, &me) {
                return;
            }
            let (nonce, fees) = (state.nonce(&me), Fees::from_base_fee(state.base_fee()));
            let transfer = |amount| Transaction::Transfer {
                to: self.opener.wallet.address(),
                amount,
            };
            let most = fees
                .max_fee_per_gas
                .saturating_mul(gas::charged_gas(&transfer(Amount::ZERO)));
            let transfer = transfer(match payment {
                Payment::Little => PAID,
                Payment::All => state.balance(&me).saturating_sub(most),
            });
            let wallet = &self.account.wallet;
            let signed = wallet.sign_with_fees(transfer, nonce, fees, &grid.domain);
            if !self.signed.contains(&signed) {
                self.signed.push(signed.clone());
            }
            let sent = self.account.send_signed(grid, context, signed).await;
            if let Err(error) = sent {
                grid.line(
                    context,
                    "left",
                    &format!("nonce {nonce} not taken: {error}"),
                );
            }
            for _ in 0..LOOKS {
                sleep_ms(context, 250).await;
                if self.holds(grid, context, |state| state.nonce(&me) > nonce) {
                    return;
                }
            }
        }
    }

    /// Sends it money until it is there.
    async fn open(&self, grid: &SimGrid, context: &Context) {
        let me = self.account.wallet.address();
        let transfer = Transaction::Transfer {
            to: me,
            amount: Amount::from_tgrid(1),
        };
        loop {
            let sent = self.opener.send(grid, context, transfer.clone()).await;
            if let Err(error) = sent {
                grid.line(context, "left", &format!("not opened: {error}"));
            }
            for _ in 0..LOOKS {
                sleep_ms(context, 250).await;
                // A validator that is behind has the account as it was before.
                let is_open = |state: &State| {
                    state.head().time.get() > PAUSE.get() && state.account(&me).is_some()
                };
                if self.holds(grid, context, is_open) {
                    return;
                }
            }
        }
    }

    /// Sends all that was ever signed for it to every validator, as anybody may who has seen it.
    async fn send_again(&self, grid: &SimGrid, context: &Context) {
        let mut taken = 0;
        for signed in &self.signed {
            for (_, node) in grid.nodes() {
                taken += usize::from(node.submit(signed.clone()).await.is_ok());
            }
        }
        let what = format!(
            "at {} ms its {} old transactions are sent again, {taken} taken",
            now_ms(context),
            self.signed.len()
        );
        grid.line(context, "left", &what);
    }
}

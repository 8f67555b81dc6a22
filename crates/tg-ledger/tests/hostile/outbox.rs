//! What the actors sign in one block.

use std::collections::BTreeMap;

use tg_ledger::State;
use tg_types::{
    Address, Amount, DurationMs, Fees, NonceLane, SessionScope, SessionWallet, SignedTransaction,
    Transaction, TransactionId, Wallet,
};

/// How long a session key signs.
const SESSION_TIME: DurationMs = DurationMs::from_secs(20 * 24 * 3_600);

/// How long before its end one is used no more.
const MARGIN: DurationMs = DurationMs::from_secs(3_600);

/// Blocks between two times at which an account thinks of its session keys.
const SESSION_BLOCKS: u64 = 32;

/// Signed transactions for the next block, with each account's nonces in order.
#[derive(Debug)]
pub(crate) struct Outbox<'a> {
    pub(crate) state: &'a State,
    sent: BTreeMap<NonceLane, u64>,
    /// By lane, in the order of nonces.
    all: BTreeMap<NonceLane, Vec<SignedTransaction>>,
    /// What was sent last of an account.
    last: BTreeMap<Address, TransactionId>,
    /// Accounts that thought of their session keys, and whether they use them in this block.
    thought: BTreeMap<Address, bool>,
}

/// The session key that an account has for a scope.
fn session_of(wallet: &Wallet, scope: SessionScope) -> SessionWallet {
    let mut secret = wallet.secret();
    secret[0] ^= 1 + scope.tag();
    SessionWallet::from_secret(&secret, wallet.address())
}

impl<'a> Outbox<'a> {
    pub(crate) const fn new(state: &'a State) -> Self {
        Self {
            state,
            sent: BTreeMap::new(),
            all: BTreeMap::new(),
            last: BTreeMap::new(),
            thought: BTreeMap::new(),
        }
    }

    /// Signs with the account's next nonce, at the fees that wallets offer.
    pub(crate) fn send(&mut self, wallet: &Wallet, transaction: Transaction) {
        self.send_for(
            wallet,
            transaction,
            Fees::from_base_fee(self.state.base_fee()),
        );
    }

    /// Signs with the account's session key if it has one for this, else with its own.
    pub(crate) fn send_for(&mut self, wallet: &Wallet, transaction: Transaction, fees: Fees) {
        let scope = transaction.kind().session_scope();
        if let Some(scope) = scope.filter(|_| self.uses_sessions(wallet)) {
            let session = session_of(wallet, scope);
            if self.is_registered(&session) && self.may_sign(&session, &transaction) {
                let nonce = self.next(session.lane());
                let domain = self.state.domain();
                self.put(session.sign_with_fees(transaction, nonce, fees, domain));
                return;
            }
        }
        self.send_own(wallet, transaction, fees);
    }

    fn send_own(&mut self, wallet: &Wallet, transaction: Transaction, fees: Fees) {
        let nonce = self.next(wallet.address().into());
        let domain = self.state.domain();
        self.put(wallet.sign_with_fees(transaction, nonce, fees, domain));
    }

    /// Whether an account signs with session keys in this block. Every second account has such keys; it registers them in one block, and
    /// takes them back in a later one, which has nothing that they sign.
    fn uses_sessions(&mut self, wallet: &Wallet) -> bool {
        let account = wallet.address();
        let number = u64::from(account.as_bytes()[0]);
        if let Some(uses) = self.thought.get(&account) {
            return *uses;
        }
        let height = self.state.head().height.get() + number;
        let is_poor = self.state.balance(&account) < Amount::from_tgrid(1);
        let changes = number % 2 == 0 && height.is_multiple_of(SESSION_BLOCKS) && !is_poor;
        self.thought.insert(account, !changes);
        if !changes {
            return true;
        }
        for scope in SessionScope::ALL {
            let session = session_of(wallet, *scope);
            let key = session.public();
            let change = match self.is_registered(&session) {
                true => Transaction::RevokeSessionKey { key },
                false => Transaction::RegisterSessionKey {
                    key,
                    scope: *scope,
                    cap: Amount::from_tgrid(1_000_000),
                    expires: self.state.head().time.saturating_add(SESSION_TIME),
                },
            };
            let fees = Fees::from_base_fee(self.state.base_fee());
            self.send_own(wallet, change, fees);
        }
        false
    }

    fn is_registered(&self, session: &SessionWallet) -> bool {
        let account = self.state.account(&session.account());
        let known = account.and_then(|it| it.session(&session.public()));
        known.is_some_and(|it| it.expires > self.state.head().time.saturating_add(MARGIN))
    }

    /// What is about a job alone is signed by whoever ordered it.
    fn may_sign(&self, session: &SessionWallet, transaction: &Transaction) -> bool {
        let job = match transaction {
            Transaction::CancelJob { job } | Transaction::RateJob { job, .. } => Some(*job),
            Transaction::GrantKey { lease, .. } | Transaction::RevealKey { lease, .. } => {
                self.state.lease(lease).map(|it| it.job)
            }
            _ => None,
        };
        let job = job.and_then(|it| self.state.job(&it));
        job.is_none_or(|it| it.session == Some(session.public()))
    }

    fn next(&mut self, lane: NonceLane) -> u64 {
        let sent = self.sent.entry(lane).or_default();
        let nonce = self.state.nonce_in(&lane) + *sent;
        *sent += 1;
        nonce
    }

    fn put(&mut self, signed: SignedTransaction) {
        let id = signed.id(self.state.domain());
        self.last.insert(signed.sender, id);
        self.all.entry(signed.lane()).or_default().push(signed);
    }

    /// As [`Self::send`], with the name of what was sent.
    pub(crate) fn send_named(
        &mut self,
        wallet: &Wallet,
        transaction: Transaction,
    ) -> TransactionId {
        self.send(wallet, transaction);
        self.last[&wallet.address()]
    }

    /// All of it, by lane.
    pub(crate) fn into_senders(self) -> Vec<Vec<SignedTransaction>> {
        self.all.into_values().collect()
    }
}

//! The session key of a machine that signs all day: a provider's agent, a gateway.
//!
//! A process that has the account's key makes session keys of it, one after the other: each follows from the account's secret, its scope and its end,
//! so no file has it, and after a restart it is found again among the keys that the account has registered. One that is used up, ends soon,
//! or was taken back is replaced by another; until that stands in the ledger, the account's own key signs. A key that somebody
//! registered and gave to the machine in a file is used as long as it is registered, and never replaced.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tg_types::{
    Address, Amount, Digest, Domain, DurationMs, SessionScope, SessionWallet, TimestampMs,
    Transaction, TransactionKind, Wallet,
};

use crate::client::Client;
use crate::clock;
use crate::dto::SessionDto;
use crate::error::ClientError;
use crate::job_error::{Doing, JobError};
use crate::jobs;

/// How long a key that was registered is looked for often.
const APPEARS: Duration = Duration::from_secs(60);

/// How often, meanwhile.
const LOOK_SOON: Duration = Duration::from_secs(1);

/// What a machine's session key may cost, and when it is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionPolicy {
    /// What it may cost in all. Of nothing no key is registered.
    pub cap: Amount,
    /// One that may cost less than this beside what it has cost is replaced.
    pub left_min: Amount,
    /// For how long it signs.
    pub lasts: DurationMs,
    /// One that lasts no longer than this is replaced.
    pub lasts_min: DurationMs,
    /// Shortest time between two that are registered: an API that hides them costs no more than this allows.
    pub pause: Duration,
    /// How often it is looked whether it is registered still.
    pub look: Duration,
}

impl SessionPolicy {
    /// A key that may cost so much, is replaced when less than `left_min` of that is left, signs for a week, and is replaced in the last day of it.
    #[must_use]
    pub const fn new(cap: Amount, left_min: Amount) -> Self {
        Self {
            cap,
            left_min,
            lasts: DurationMs::from_secs(7 * 24 * 3_600),
            lasts_min: DurationMs::from_secs(24 * 3_600),
            pause: Duration::from_secs(600),
            look: Duration::from_secs(30),
        }
    }

    /// Whether a key has enough left, and long enough to go.
    fn is_good(&self, session: &SessionDto, now: TimestampMs) -> bool {
        let lasts = session.expires_ms.saturating_sub(now.get());
        session.cap.saturating_sub(session.spent) >= self.left_min && lasts > self.lasts_min.get()
    }
}

/// The session key that a machine makes of its account's key: one for each scope and end.
fn made(wallet: &Wallet, scope: SessionScope, expires: TimestampMs) -> SessionWallet {
    let mut subject = vec![scope.tag()];
    subject.extend_from_slice(&expires.get().to_be_bytes());
    let secret = wallet.derived_secret(Domain::SessionSecret, &subject);
    SessionWallet::from_secret(secret.as_bytes(), wallet.address())
}

/// Registers the next key, by this machine's clock.
///
/// Stops: an API that tells the ledger time at which a key was registered that was taken back since, as it leaked. The same end would give the same
/// key, which would sign again. The ledger bounds what a clock that is wrong does.
fn registration(
    (wallet, scope): (&Wallet, SessionScope),
    policy: &SessionPolicy,
    clock: TimestampMs,
) -> Transaction {
    let expires = clock.saturating_add(policy.lasts);
    Transaction::RegisterSessionKey {
        key: made(wallet, scope, expires).public(),
        scope,
        cap: policy.cap,
        expires,
    }
}

/// Where a machine's session key comes from.
#[derive(Debug)]
enum SessionSource {
    /// It is made of the account's key, and registered and replaced here.
    Account(Wallet),
    /// Somebody registered it.
    Given(SessionWallet),
}

impl SessionSource {
    const fn account(&self) -> Address {
        match self {
            Self::Account(wallet) => wallet.address(),
            Self::Given(session) => session.account(),
        }
    }
}

/// What is known of the key.
#[derive(Debug, Default)]
struct SessionState {
    /// What signs now.
    current: Option<SessionWallet>,
    /// The public key of one that was refused: another takes its place.
    refused: Option<[u8; 32]>,
    /// When the account was looked at last.
    looked: Option<Instant>,
    /// When a key was registered last.
    registered: Option<Instant>,
    /// Whether one was registered lately that is not seen.
    is_awaited: bool,
    /// Whether something was to be signed with it.
    is_wanted: bool,
}

/// A change of who signs for a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionChange {
    /// This session key signs from now on.
    Signs(Digest),
    /// No session key signs: the account's own does.
    Lost,
}

/// What an account's session keys mean for a machine that makes its own.
#[derive(Debug)]
struct OwnSessions {
    /// The best of its own.
    current: Option<SessionWallet>,
    /// Whether another is to be registered.
    is_due: bool,
    /// One that another has replaced, and that answers for no lease.
    old: Option<[u8; 32]>,
}

impl OwnSessions {
    /// Those of an account's keys that a machine made and that have not ended; one that was refused is as good as gone.
    fn of(
        (wallet, scope): (&Wallet, SessionScope),
        policy: &SessionPolicy,
        (sessions, refused): (&[SessionDto], Option<[u8; 32]>),
        now: TimestampMs,
    ) -> Self {
        let live = sessions
            .iter()
            .filter(|it| it.scope == scope.as_str() && it.expires_ms > now.get());
        let own = live.filter_map(|it| {
            let own = made(wallet, scope, TimestampMs::new(it.expires_ms));
            (own.public() == *it.key.as_bytes()).then_some((own, it))
        });
        let own: Vec<(SessionWallet, &SessionDto)> = own.collect();
        let usable = own.iter().filter(|(it, _)| Some(it.public()) != refused);
        let best = usable.max_by_key(|(_, it)| (policy.is_good(it, now), it.expires_ms));
        let is_due = best.is_none_or(|(_, it)| !policy.is_good(it, now));
        let public = best.map(|(it, _)| it.public());
        let mut replaced = own
            .iter()
            .filter(|(it, dto)| Some(it.public()) != public && dto.at_risk.is_zero());
        Self {
            current: best.map(|(it, _)| it.clone()),
            is_due,
            old: replaced
                .next()
                .filter(|_| !is_due)
                .map(|(it, _)| it.public()),
        }
    }
}

/// The session key of a machine.
#[derive(Debug)]
pub struct MachineSession {
    source: SessionSource,
    scope: SessionScope,
    state: Mutex<SessionState>,
}

impl MachineSession {
    /// One that is made of the account's key, registered and replaced by [`MachineSession::tend`].
    #[must_use]
    pub fn of_account(wallet: Wallet, scope: SessionScope) -> Self {
        Self::of(SessionSource::Account(wallet), scope)
    }

    /// One that somebody registered.
    #[must_use]
    pub fn given(session: SessionWallet, scope: SessionScope) -> Self {
        Self::of(SessionSource::Given(session), scope)
    }

    fn of(source: SessionSource, scope: SessionScope) -> Self {
        Self {
            source,
            scope,
            state: Mutex::default(),
        }
    }

    /// The account for which it signs.
    #[must_use]
    pub const fn account(&self) -> Address {
        self.source.account()
    }

    fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session key that signs transactions of a kind now; nothing if the account's own key does.
    #[must_use]
    pub fn signing(&self, kind: TransactionKind) -> Option<SessionWallet> {
        if kind.session_scope() != Some(self.scope) {
            return None;
        }
        let mut state = self.state();
        state.is_wanted = true;
        state.current.clone()
    }

    /// Whether something was to be signed with it: for an account that never orders no key is registered.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.state().is_wanted
    }

    /// The ledger refused what the key signed. Unless it was for what the transaction is about, another takes its place, where keys are made here.
    pub fn refused(&self, session: &SessionWallet, error: &ClientError) {
        let mut state = self.state();
        state.looked = None;
        if error.is_session_used_up() && matches!(self.source, SessionSource::Account(_)) {
            state.refused = Some(session.public());
            state.current = state
                .current
                .take()
                .filter(|it| it.public() != session.public());
        }
    }

    /// Looks at the account's keys when it is time to, registers another if none is good, and takes one back that was replaced. Tells a change of who
    /// signs.
    ///
    /// # Errors
    /// Those of any call, and of submitting.
    pub async fn tend(
        &self,
        client: &Client,
        policy: &SessionPolicy,
    ) -> Result<Option<SessionChange>, JobError> {
        if !self.is_time(policy) {
            return Ok(None);
        }
        let account = client.account(self.account()).await;
        let sessions = account
            .doing("ask for the account's session keys")?
            .sessions;
        let status = client.status().await.doing("ask for the grid's time")?;
        // Stops: a key that lasts for years, by a ledger time that only the API tells. It does not run ahead of clocks.
        let now = TimestampMs::new(status.ledger_time_ms).min(clock::now());
        let wallet = match &self.source {
            SessionSource::Given(session) => {
                let key = Digest::new(session.public());
                let found = sessions.iter().any(|it| {
                    let is_it = it.key == key && it.scope == self.scope.as_str();
                    is_it && it.expires_ms >= now.get()
                });
                return Ok(self.use_now(found.then(|| session.clone())));
            }
            SessionSource::Account(wallet) => wallet,
        };
        let refused = self.state().refused;
        let own = OwnSessions::of((wallet, self.scope), policy, (&sessions, refused), now);
        let change = self.use_now(own.current);
        if !own.is_due {
            self.state().is_awaited = false;
        }
        if let Some(key) = own.old {
            let revoke = Transaction::RevokeSessionKey { key };
            jobs::submit(client, wallet, &revoke, "take a session key back").await?;
        }
        if own.is_due && !policy.cap.is_zero() && self.may_register(policy) {
            self.register(client, wallet, policy).await?;
        }
        Ok(change)
    }

    /// Registers another key.
    async fn register(
        &self,
        client: &Client,
        wallet: &Wallet,
        policy: &SessionPolicy,
    ) -> Result<(), JobError> {
        let register = registration((wallet, self.scope), policy, clock::now());
        jobs::submit(client, wallet, &register, "register a session key").await?;
        self.state().is_awaited = true;
        Ok(())
    }

    /// Whether the account is to be looked at; takes note that it is.
    fn is_time(&self, policy: &SessionPolicy) -> bool {
        let mut state = self.state();
        let is_new = state.registered.is_some_and(|at| at.elapsed() < APPEARS);
        let every = match state.is_awaited && is_new {
            true => policy.look.min(LOOK_SOON),
            false => policy.look,
        };
        let is_time = state.looked.is_none_or(|at| at.elapsed() >= every);
        if is_time {
            state.looked = Some(Instant::now());
        }
        is_time
    }

    /// Whether another key may be registered; takes note that it is.
    fn may_register(&self, policy: &SessionPolicy) -> bool {
        let mut state = self.state();
        let may = state
            .registered
            .is_none_or(|at| at.elapsed() >= policy.pause);
        if may {
            state.registered = Some(Instant::now());
        }
        may
    }

    /// Signs with a key from now on, or with none; tells whether that is another one than before.
    fn use_now(&self, current: Option<SessionWallet>) -> Option<SessionChange> {
        let mut state = self.state();
        let key = |it: &SessionWallet| Digest::new(it.public());
        let (before, after) = (state.current.as_ref().map(key), current.as_ref().map(key));
        state.current = current;
        match (before, after) {
            (Some(before), Some(after)) if before == after => None,
            (_, Some(after)) => Some(SessionChange::Signs(after)),
            (Some(_), None) => Some(SessionChange::Lost),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::error::ErrorBody;

    const NOW: TimestampMs = TimestampMs::new(1_000_000_000);
    const HOUR: u64 = 3_600_000;

    fn policy() -> SessionPolicy {
        SessionPolicy::new(Amount::from_tgrid(20), Amount::from_tgrid(5))
    }

    fn own() -> (Wallet, SessionScope) {
        (Wallet::from_seed(b"carol"), SessionScope::Serve)
    }

    /// A key that the machine made, which ends in so many hours.
    fn session(hours: u64, spent: u64, at_risk: u64) -> SessionDto {
        let expires = TimestampMs::new(NOW.get() + hours * HOUR);
        let (wallet, scope) = own();
        SessionDto {
            key: Digest::new(made(&wallet, scope, expires).public()),
            scope: scope.as_str().to_owned(),
            cap: Amount::from_tgrid(20),
            spent: Amount::from_tgrid(spent),
            at_risk: Amount::from_tgrid(at_risk),
            expires_ms: expires.get(),
            nonce: 1 << 20,
        }
    }

    /// Which of the keys signs, whether another is due, and which is taken back.
    fn found(
        sessions: &[SessionDto],
        refused: Option<usize>,
    ) -> (Option<usize>, bool, Option<usize>) {
        let (wallet, scope) = own();
        let refused = refused.map(|at| *sessions[at].key.as_bytes());
        let own = OwnSessions::of((&wallet, scope), &policy(), (sessions, refused), NOW);
        let place = |key: [u8; 32]| sessions.iter().position(|it| *it.key.as_bytes() == key);
        let current = own.current.map(|it| place(it.public()).unwrap());
        (current, own.is_due, own.old.map(|it| place(it).unwrap()))
    }

    #[test]
    fn a_key_signs_until_it_ends_soon_or_is_used_up_and_the_one_before_it_is_taken_back() {
        assert_eq!(found(&[], None), (None, true, None));
        assert_eq!(found(&[session(100, 0, 0)], None), (Some(0), false, None));
        // A lease's collateral comes back: what is at risk makes no other one due.
        assert_eq!(found(&[session(100, 15, 5)], None), (Some(0), false, None));
        // It signs until another does.
        assert_eq!(found(&[session(100, 16, 0)], None), (Some(0), true, None));
        assert_eq!(found(&[session(24, 0, 0)], None), (Some(0), true, None));
        assert_eq!(found(&[session(0, 0, 0)], None), (None, true, None));
        let both = [session(20, 3, 0), session(168, 0, 0)];
        assert_eq!(found(&both, None), (Some(1), false, Some(0)));
        // A lease that it serves ends first.
        let both = [session(20, 3, 5), session(168, 0, 0)];
        assert_eq!(found(&both, None), (Some(1), false, None));
        // One with more left comes before one that lasts longer.
        let both = [session(168, 18, 0), session(100, 0, 0)];
        assert_eq!(found(&both, None), (Some(1), false, Some(0)));
    }

    #[test]
    fn a_key_that_is_refused_signs_no_more_and_those_of_others_are_left_alone() {
        assert_eq!(found(&[session(100, 0, 0)], Some(0)), (None, true, None));
        let both = [session(100, 0, 0), session(168, 0, 0)];
        assert_eq!(found(&both, Some(0)), (Some(1), false, Some(0)));
        let others = SessionDto {
            key: Digest::new([7; 32]),
            ..session(100, 0, 0)
        };
        let of_orders = SessionDto {
            scope: "order".to_owned(),
            ..session(101, 0, 0)
        };
        let all = [others, of_orders, session(168, 0, 0)];
        assert_eq!(found(&all, None), (Some(2), false, None));
        assert_eq!(found(&all[..2], None), (None, true, None));
    }

    #[test]
    fn each_millisecond_of_the_clock_gives_another_key() {
        let (wallet, scope) = own();
        let at = |ms: u64| {
            let clock = TimestampMs::new(NOW.get() + ms);
            let Transaction::RegisterSessionKey { key, expires, .. } =
                registration((&wallet, scope), &policy(), clock)
            else {
                unreachable!("a registration");
            };
            assert_eq!(expires, clock.saturating_add(policy().lasts));
            key
        };
        assert_eq!(at(0), at(0));
        assert_ne!(at(0), at(1));
    }

    #[test]
    fn what_no_scope_allows_is_signed_by_the_account_and_a_refused_key_by_none() {
        let (wallet, scope) = own();
        let machine = MachineSession::of_account(wallet.clone(), scope);
        let key = made(&wallet, scope, NOW);
        assert!(machine.signing(TransactionKind::StartLease).is_none());
        let change = machine.use_now(Some(key.clone()));
        let public = Digest::new(key.public());
        assert_eq!(change, Some(SessionChange::Signs(public)));
        assert_eq!(machine.use_now(Some(key.clone())), None);
        assert!(machine.signing(TransactionKind::StartLease).is_some());
        for kind in [TransactionKind::PostOffer, TransactionKind::SubmitJob] {
            assert!(machine.signing(kind).is_none(), "{kind}");
        }
        let refusal = |code: &str| ClientError::Refused {
            status: 409,
            body: ErrorBody {
                code: code.to_owned(),
                message: String::new(),
                hint: String::new(),
            },
        };
        // What the transaction is about is for the account's key, and the next may be for this one.
        machine.refused(&key, &refusal("TG-LED-153"));
        assert!(machine.signing(TransactionKind::StartLease).is_some());
        machine.refused(&key, &refusal("TG-LED-151"));
        assert!(machine.signing(TransactionKind::StartLease).is_none());
        // One that somebody gave may be registered again.
        let given = MachineSession::given(key.clone(), scope);
        assert!(given.use_now(Some(key.clone())).is_some());
        given.refused(&key, &refusal("TG-LED-151"));
        assert!(given.signing(TransactionKind::StartLease).is_some());
        assert_eq!(given.use_now(None), Some(SessionChange::Lost));
    }

    #[test]
    fn keys_are_registered_with_a_pause_between_them() {
        let (wallet, scope) = own();
        let machine = MachineSession::of_account(wallet, scope);
        let policy = policy();
        assert!(machine.is_time(&policy) && !machine.is_time(&policy));
        assert!(machine.may_register(&policy) && !machine.may_register(&policy));
        let at_once = SessionPolicy {
            pause: Duration::ZERO,
            look: Duration::ZERO,
            ..policy
        };
        assert!(machine.is_time(&at_once) && machine.may_register(&at_once));
    }
}

//! The agent's session key: what it signs is paid, and the agent goes on when it is taken back or ends.

use std::time::Duration;

use tg_provider::{AgentConfig, AgentEvent, ProvingWorker, SessionChoice, serving_policy};
use tg_sdk::SessionPolicy;
use tg_sdk::dto::{JobStateDto, LeaseEndDto, SessionDto};
use tg_types::{
    Address, Amount, DurationMs, SessionScope, SessionWallet, TimestampMs, Transaction,
    VerificationMode,
};

use crate::agent::{Fixture, fixture, terms, until};
use crate::grid::wallet;

/// A key that is looked after often.
fn policy() -> SessionPolicy {
    SessionPolicy {
        pause: Duration::ZERO,
        look: Duration::from_millis(50),
        ..serving_policy(&terms())
    }
}

fn config(session: SessionChoice) -> AgentConfig {
    AgentConfig {
        session,
        ..AgentConfig::new(terms())
    }
}

fn carol() -> Address {
    wallet("carol").address()
}

impl Fixture {
    /// The session keys of carol.
    async fn sessions(&self) -> Vec<SessionDto> {
        self.client.account(carol()).await.unwrap().sessions
    }

    /// Waits for a key of carol that is none of these, and until her agent has seen it.
    async fn new_session(&self, known: &[SessionDto]) -> SessionDto {
        let is_new = |it: &SessionDto| known.iter().all(|known| known.key != it.key);
        until(async || self.sessions().await.iter().any(is_new)).await;
        // The agent's loop turns four times a second.
        tokio::time::sleep(Duration::from_secs(1)).await;
        self.sessions().await.into_iter().find(is_new).unwrap()
    }

    async fn paid(&self, mode: VerificationMode) {
        let job = self.order(mode).await;
        self.ends(job, JobStateDto::Paid).await;
    }
}

fn keys(told: &[AgentEvent]) -> usize {
    let keys = told.iter();
    keys.filter(|event| matches!(event, AgentEvent::SessionKey(Some(_))))
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_is_paid_for_what_its_session_key_signed_and_survives_its_revocation() {
    let fixture = fixture().await;
    let running = fixture.agent(ProvingWorker::new(), config(SessionChoice::Own(policy())));
    let first = fixture.new_session(&[]).await;
    assert_eq!((first.scope.as_str(), first.cap), ("serve", policy().cap));
    let nonce = fixture.client.account(carol()).await.unwrap().nonce;
    fixture.paid(VerificationMode::None).await;
    let account = fixture.client.account(carol()).await.unwrap();
    // Its start and its receipt; the account's own key signed nothing.
    assert_eq!(account.nonce, nonce);
    assert!(account.sessions[0].nonce >= first.nonce + 2, "{account:?}");
    assert_eq!(account.sessions[0].at_risk, Amount::ZERO);
    // It is taken back while a lease that it started waits for its proof.
    let job = fixture.order(VerificationMode::Proof).await;
    until(async || {
        let state = fixture.client.job(job).await.unwrap().state;
        !matches!(state, JobStateDto::Submitted | JobStateDto::Queued)
    })
    .await;
    let revoke = Transaction::RevokeSessionKey {
        key: *first.key.as_bytes(),
    };
    let own = wallet("carol");
    fixture.client.sign_and_submit(&own, revoke).await.unwrap();
    fixture.ends(job, JobStateDto::Paid).await;
    let second = fixture.new_session(std::slice::from_ref(&first)).await;
    assert!(second.expires_ms > first.expires_ms);
    assert!(
        !fixture
            .sessions()
            .await
            .iter()
            .any(|it| it.key == first.key)
    );
    fixture.paid(VerificationMode::None).await;
    let after = fixture.sessions().await;
    assert!(after[0].nonce >= second.nonce + 2, "{after:?}");
    let told = running.stop().await;
    assert_eq!(keys(&told), 2, "{told:?}");
    let lost = told.iter().any(
        |it| matches!(it, AgentEvent::Ended(lease) if lease.end != Some(LeaseEndDto::Fulfilled)),
    );
    assert!(!lost, "{told:?}");
}

/// A lifetime of seconds in place of a week.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_replaced_before_it_ends_and_the_one_before_it_is_taken_back() {
    let fixture = fixture().await;
    let short = SessionPolicy {
        lasts: DurationMs::from_secs(6),
        lasts_min: DurationMs::from_secs(3),
        ..policy()
    };
    let running = fixture.agent(ProvingWorker::new(), config(SessionChoice::Own(short)));
    let first = fixture.new_session(&[]).await;
    let second = fixture.new_session(std::slice::from_ref(&first)).await;
    assert!(second.expires_ms > first.expires_ms);
    until(async || {
        !fixture
            .sessions()
            .await
            .iter()
            .any(|it| it.key == first.key)
    })
    .await;
    fixture.paid(VerificationMode::None).await;
    running.stop().await;
}

/// After a restart the key that is registered goes on to sign; nothing keeps it but the account's own.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_started_again_finds_its_key() {
    let fixture = fixture().await;
    let choice = SessionChoice::Own(policy());
    let running = fixture.agent(ProvingWorker::new(), config(choice.clone()));
    let first = fixture.new_session(&[]).await;
    running.stop().await;
    let running = fixture.agent(ProvingWorker::new(), config(choice));
    until(async || !fixture.client.offers().await.unwrap().is_empty()).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    fixture.paid(VerificationMode::None).await;
    let sessions = fixture.sessions().await;
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    assert!(sessions[0].key == first.key && sessions[0].nonce >= first.nonce + 2);
    assert_eq!(keys(&running.stop().await), 1);
}

/// A key that somebody registered signs as long as it is registered, and none takes its place.
#[tokio::test(flavor = "multi_thread")]
async fn a_given_key_signs_until_it_is_taken_back_and_then_the_accounts_own() {
    let fixture = fixture().await;
    let given = SessionWallet::from_secret(&[9; 32], carol());
    let status = fixture.client.status().await.unwrap();
    let register = Transaction::RegisterSessionKey {
        key: given.public(),
        scope: SessionScope::Serve,
        cap: Amount::from_tgrid(20),
        expires: TimestampMs::new(status.ledger_time_ms + 3_600_000),
    };
    let own = wallet("carol");
    fixture
        .client
        .sign_and_submit(&own, register)
        .await
        .unwrap();
    let key = given.public();
    let running = fixture.agent(ProvingWorker::new(), config(SessionChoice::Given(given)));
    until(async || !fixture.client.offers().await.unwrap().is_empty()).await;
    let first = fixture.new_session(&[]).await;
    fixture.paid(VerificationMode::None).await;
    assert!(fixture.sessions().await[0].nonce >= first.nonce + 2);
    let revoke = Transaction::RevokeSessionKey { key };
    fixture.client.sign_and_submit(&own, revoke).await.unwrap();
    fixture.paid(VerificationMode::None).await;
    assert_eq!(fixture.sessions().await, []);
    assert_eq!(keys(&running.stop().await), 1);
}

//! An endpoint over the API and the real ledger: asked, paid, served again after a restart, and what cheats gain.

use std::sync::Arc;
use std::time::Duration;

use tg_exec::IntTensor;
use tg_exec::execute_tensor;
use tg_provider::{
    AgentConfig, AgentEvent, Execution, Progress, ProvingWorker, Task, WorkError, Worker,
};
use tg_sdk::dto::{JobDto, JobStateDto, ModeDto};
use tg_sdk::endpoint::session::{EndpointError, EndpointSession, ServedBy};
use tg_sdk::endpoint::wire::EndpointRefusal;
use tg_sdk::jobs;
use tg_sdk::{CheckedModel, OrderTerms};
use tg_types::{Amount, Digest, JobId, OfferTerms, Transaction, VerificationMode};

use crate::agent::{Fixture, fixture, terms, until};
use crate::grid::wallet;

/// A minute for 6 TGRID, a run of the model for a thousandth.
fn offer() -> OfferTerms {
    OfferTerms {
        // A fortieth of a minute.
        price_base: Amount::new(150_000_000_000_000_000),
        price_per_mmac: Amount::new(1_000_000_000_000_000),
        ..terms()
    }
}

impl Fixture {
    async fn endpoint(&self, money: u64) -> JobId {
        let terms = OrderTerms {
            mode: VerificationMode::Endpoint,
            deadline: Duration::from_secs(300),
            ..OrderTerms::new(Amount::from_tgrid(money))
        };
        let alice = wallet("alice");
        let job = jobs::order_endpoint(&self.client, &alice, self.model, terms);
        job.await.unwrap()
    }

    async fn job(&self, id: JobId) -> Option<JobDto> {
        self.client.job(id).await.ok()
    }

    async fn is(&self, id: JobId, state: JobStateDto) -> bool {
        self.job(id).await.is_some_and(|job| job.state == state)
    }

    /// A session, once somebody serves the endpoint.
    async fn session(&self, id: JobId) -> EndpointSession {
        for _ in 0..1_000 {
            if self.is(id, JobStateDto::Running).await
                && let Ok(session) =
                    EndpointSession::open(&self.client, &wallet("alice"), id, &ServedBy::AsTold)
                        .await
            {
                return session;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("nobody serves it");
    }

    async fn close(&self, id: JobId) -> JobDto {
        let cancel = Transaction::CancelJob { job: id };
        self.client
            .sign_and_submit(&wallet("alice"), cancel)
            .await
            .unwrap();
        until(async || self.is(id, JobStateDto::Paid).await).await;
        self.job(id).await.unwrap()
    }

    fn checked(&self) -> CheckedModel {
        let public = self.proving.register().unwrap();
        CheckedModel::read(&public.encode(), self.model).unwrap()
    }

    fn expected(&self) -> Vec<u8> {
        let input = IntTensor::from_bytes(
            self.proving.compiled().program.input.element_type(),
            &self.input,
        );
        let trace = execute_tensor(self.proving.compiled(), input.unwrap()).unwrap();
        trace.output_bytes()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_answers_at_once_and_is_paid_for_time_and_answers() {
    let fixture = fixture().await;
    let running = fixture.agent(ProvingWorker::new(), AgentConfig::new(offer()));
    let job = fixture.endpoint(100).await;
    let session = Arc::new(fixture.session(job).await);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (session, input) = (Arc::clone(&session), fixture.input.clone());
        tasks.spawn(async move {
            let mut outputs = Vec::new();
            for _ in 0..10 {
                outputs.push(session.ask(input.clone(), &mut |_| {}).await.unwrap());
            }
            outputs
        });
    }
    let expected = fixture.expected();
    while let Some(answers) = tasks.join_next().await {
        for answer in answers.unwrap() {
            assert_eq!(answer.output, expected);
        }
    }
    session.pay().await.unwrap();
    let owed = session.owed();
    assert_eq!(owed.answered, 80);
    let ended = fixture.close(job).await;
    let lease = &ended.leases[0];
    let meter = lease.meter.as_ref().unwrap();
    assert_eq!((meter.answered, meter.vouchers), (80, owed.amount));
    assert!(meter.paid > owed.amount, "time is paid too");
    let settled = ended.settlement.as_ref().unwrap();
    assert_eq!(settled.price, meter.paid);
    assert_eq!(
        settled.price.checked_add(settled.refund).unwrap(),
        Amount::from_tgrid(100)
    );
    let told = running.stop().await;
    let served = told.iter().filter_map(|event| match event {
        AgentEvent::Served(_, count) => Some(*count),
        _ => None,
    });
    assert!(served.sum::<u64>() >= 80, "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_and_requestors_that_are_restarted_go_on_where_they_were() {
    let fixture = fixture().await;
    let first = fixture.agent(ProvingWorker::new(), AgentConfig::new(offer()));
    let job = fixture.endpoint(100).await;
    let session = fixture.session(job).await;
    for _ in 0..5 {
        session
            .ask(fixture.input.clone(), &mut |_| {})
            .await
            .unwrap();
    }
    session.pay().await.unwrap();
    let owed = session.owed();
    // A requestor that lost count is told by its provider.
    let again = fixture.session(job).await;
    assert_eq!(again.owed(), owed);
    // The agent is killed; another one with its key takes over.
    first.task.abort();
    let _second = fixture.agent(ProvingWorker::new(), AgentConfig::new(offer()));
    until(async || again.ask(fixture.input.clone(), &mut |_| {}).await.is_ok()).await;
    again.pay().await.unwrap();
    let ended = fixture.close(job).await;
    let meter = ended.leases[0].meter.clone().unwrap();
    assert_eq!(meter.answered, again.owed().answered);
    assert!(meter.answered >= 6);
    assert_eq!(ended.leases.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_money_nothing_is_answered_and_more_money_goes_on() {
    let fixture = fixture().await;
    let _running = fixture.agent(ProvingWorker::new(), AgentConfig::new(offer()));
    // Six a minute, and a run beside: it lasts some 70 s.
    let job = fixture.endpoint(7).await;
    let session = fixture.session(job).await;
    let answer = session
        .ask(fixture.input.clone(), &mut |_| {})
        .await
        .unwrap();
    assert_eq!(answer.output, fixture.expected());
    let run = answer.price;
    // Who signs for all that is locked has nothing left to ask for.
    let all = tg_types::Voucher {
        answered: 10_000,
        amount: Amount::from_tgrid(7),
        ..session.owed()
    };
    let lease = session.lease();
    let domain = fixture.client.domain().await.unwrap();
    let claim = Transaction::SettleEndpoint {
        lease,
        voucher: Some(all.sign(&wallet("alice"), &domain)),
        ends: false,
    };
    fixture
        .client
        .sign_and_submit(&wallet("carol"), claim)
        .await
        .unwrap();
    until(async || fixture.is(job, JobStateDto::Queued).await).await;
    let refused = session.ask(fixture.input.clone(), &mut |_| {}).await;
    assert!(refused.is_err(), "{refused:?}");
    let raise = Transaction::RaiseJob {
        job,
        max_price: Amount::from_tgrid(50),
        max_attempts: 4,
    };
    fixture
        .client
        .sign_and_submit(&wallet("alice"), raise)
        .await
        .unwrap();
    let session = fixture.session(job).await;
    assert_ne!(session.lease(), lease);
    let answer = session
        .ask(fixture.input.clone(), &mut |_| {})
        .await
        .unwrap();
    assert_eq!(answer.price, run);
    session.pay().await.unwrap();
    let ended = fixture.close(job).await;
    let settled = ended.settlement.unwrap();
    assert_eq!(
        settled.price.checked_add(settled.refund).unwrap(),
        Amount::from_tgrid(50)
    );
}

/// A requestor that never pays gets 64 runs, which is what an unclaimed voucher risks.
#[tokio::test(flavor = "multi_thread")]
async fn a_requestor_that_does_not_pay_gains_no_more_than_the_limit() {
    let fixture = fixture().await;
    let _running = fixture.agent(ProvingWorker::new(), AgentConfig::new(offer()));
    let job = fixture.endpoint(100).await;
    let mut answered = 0;
    let refused = loop {
        // Each session counts anew and asks once: none pays for the answers before.
        let session = fixture.session(job).await;
        match session.ask(fixture.input.clone(), &mut |_| {}).await {
            Ok(_) => answered += 1,
            Err(error) => break error,
        }
        assert!(answered <= 64, "{answered} answers for nothing");
    };
    assert_eq!(answered, 64);
    let is_unpaid = matches!(
        refused,
        EndpointError::Refused {
            because: EndpointRefusal::Unpaid,
            ..
        }
    );
    assert!(is_unpaid, "{refused:?}");
    // A stranger gets nothing.
    let mallory =
        EndpointSession::open(&fixture.client, &wallet("dave"), job, &ServedBy::AsTold).await;
    let Err(EndpointError::Client(refused)) = mallory else {
        panic!("a stranger was served: {mallory:?}");
    };
    assert_eq!(refused.code(), Some("TG-API-013"));
}

/// Answers something else than the model gives, and proves what the model gives, or nothing.
struct WrongAnswers {
    worker: ProvingWorker,
    proves: bool,
}

impl WrongAnswers {
    fn new(proves: bool) -> Self {
        let worker = ProvingWorker::new();
        Self { worker, proves }
    }
}

impl Worker for WrongAnswers {
    fn takes_tokens(&self, task: &Task) -> bool {
        self.worker.takes_tokens(task)
    }

    fn execute(&self, task: &Task, progress: &dyn Fn(Progress)) -> Result<Execution, WorkError> {
        self.worker.execute(task, progress)
    }

    fn answer(
        &self,
        task: &Task,
        piece: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<Vec<u8>, WorkError> {
        let mut answer = self.worker.answer(task, piece)?;
        answer[0] ^= 1;
        Ok(answer)
    }

    fn open(
        &self,
        task: &Task,
        execution: &Execution,
        seed: &Digest,
    ) -> Result<Vec<u8>, WorkError> {
        self.worker.open(task, execution, seed)
    }

    fn prove(
        &self,
        task: &Task,
        execution: &Execution,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Vec<u8>, WorkError> {
        let mut proof = self.worker.prove(task, execution, progress)?;
        if !self.proves {
            let middle = proof.len() / 2;
            proof[middle] ^= 1;
        }
        Ok(proof)
    }
}

/// Asked for a proof, it gives one and is paid what a job with a proof costs; a proof of nothing is not paid at all.
#[tokio::test(flavor = "multi_thread")]
async fn a_proved_answer_is_checked_before_it_is_owed() {
    let fixture = fixture().await;
    let _running = fixture.agent(ProvingWorker::new(), AgentConfig::new(offer()));
    let job = fixture.endpoint(100).await;
    let session = fixture.session(job).await;
    let model = fixture.checked();
    let plain = session
        .ask(fixture.input.clone(), &mut |_| {})
        .await
        .unwrap();
    assert_eq!(plain.proof, None);
    for _ in 0..2 {
        let before = session.owed().amount;
        let answer = session.ask_proved(fixture.input.clone(), &model).await;
        let answer = answer.unwrap();
        assert_eq!(answer.output, fixture.expected());
        assert!(answer.proof.is_some_and(|it| it.len() > 1_000));
        // The base price of a job, beside the run.
        let base = Amount::new(150_000_000_000_000_000);
        assert_eq!(answer.price, session.run().saturating_add(base));
        let owed = session.owed().amount.checked_sub(before);
        assert_eq!(owed, Some(answer.price));
    }
    // An input that the model does not take has neither answer nor proof.
    let refused = session.ask_proved(vec![1, 2, 3], &model).await;
    let is_failed = matches!(
        refused,
        Err(EndpointError::Refused {
            because: EndpointRefusal::Failed,
            ..
        })
    );
    assert!(is_failed, "{refused:?}");
    session.pay().await.unwrap();
    let owed = session.owed();
    let ended = fixture.close(job).await;
    let meter = ended.leases[0].meter.clone().unwrap();
    assert_eq!((meter.answered, meter.vouchers), (3, owed.amount));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proof_that_does_not_hold_is_not_paid() {
    let fixture = fixture().await;
    let worker = WrongAnswers::new(false);
    let _running = fixture.agent(worker, AgentConfig::new(offer()));
    let job = fixture.endpoint(100).await;
    let session = fixture.session(job).await;
    let model = fixture.checked();
    let before = session.owed();
    let answer = session.ask_proved(fixture.input.clone(), &model).await;
    assert!(
        matches!(answer, Err(EndpointError::Unproved(_))),
        "{answer:?}"
    );
    assert_eq!(session.owed(), before);
}

/// What is proved of an answer that was drawn after it came: the same output, or the provider lied.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_proved_afterwards_shows_a_liar() {
    for lies in [false, true] {
        let fixture = fixture().await;
        let config = AgentConfig::new(offer());
        let _running = match lies {
            false => fixture.agent(ProvingWorker::new(), config),
            true => fixture.agent(WrongAnswers::new(true), config),
        };
        let job = fixture.endpoint(100).await;
        let session = fixture.session(job).await;
        let (model, input) = (fixture.checked(), &fixture.input);
        let answer = session.ask(input.clone(), &mut |_| {}).await.unwrap();
        assert_eq!(answer.output != fixture.expected(), lies);
        let proved = session.prove_afterwards(input.clone(), &answer, &model);
        match proved.await {
            Ok(proved) => assert!(!lies && proved.output == answer.output),
            Err(EndpointError::Lied { number, proved }) => {
                assert!(lies && number == answer.number && proved > number);
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// A provider that lies is paid what its requestor signed for, and no more than its time beside that.
#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_lies_gains_what_was_signed_for_and_its_time() {
    let fixture = fixture().await;
    let _running = fixture.agent(WrongAnswers::new(false), AgentConfig::new(offer()));
    let job = fixture.endpoint(100).await;
    let session = fixture.session(job).await;
    let answer = session
        .ask(fixture.input.clone(), &mut |_| {})
        .await
        .unwrap();
    // Whoever holds it can show what was answered, and by whom.
    assert_ne!(answer.output, fixture.expected());
    // The requestor sees it and pays nothing.
    let ended = fixture.close(job).await;
    assert_eq!(ended.mode, ModeDto::Endpoint);
    let meter = ended.leases[0].meter.clone().unwrap();
    assert_eq!((meter.answered, meter.vouchers), (0, Amount::ZERO));
    let served = meter.ends_ms.unwrap() - meter.started_ms.unwrap();
    let time = Amount::from_tgrid(6)
        .checked_mul_div_ceil(served, 60_000)
        .unwrap();
    assert!(meter.paid <= time, "{} for {time}", meter.paid);
}

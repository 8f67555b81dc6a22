//! Serving an endpoint: requests are fetched, answered and paid, until the lease ends.
//!
//! [`ServedBook`] decides which requests are answered, from what the requestor signed and what the ledger says, without I/O.
//! The loop around it fetches requests from the gateway, runs the model on a few threads, delivers the answers, and tells the
//! agent what to claim.

mod runners;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tg_privacy::{SealedChannel, SealingKey};
use tg_sdk::endpoint::served::ServedRequest;
use tg_sdk::endpoint::session::proved_price;
use tg_sdk::endpoint::wire::{
    AnswerPart, AskedFor, AskedInput, ENDPOINT_BATCH_MAX, ENDPOINT_BYTES_MAX, EndpointRefusal,
    EndpointRequest, NumberedPart, SERVE_BYTES_MAX, SealedInput, ServeAnswer, ServeCall,
    ServingProof, sign_answer,
};
use tg_sdk::{Client, ClientError};
use tg_types::{
    Address, Amount, ChainDomain, Decode as _, Digest, Label, LeaseId, ServedCard, ServingClaim,
    SignedVoucher, TimestampMs, Wallet, with_sources,
};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::unpaid::{UNPAID_RUNS_MAX, UnpaidRuns};
use crate::work::{Outcome, Report, ServeReport};
use crate::worker::{Task, Worker};

use runners::{AskedRun, FromRunner, MADE_MAX, Runners};

/// Largest requests of a served model whose answers may be given or be made before a voucher pays for them, in a lease that may leave
/// [`UNPAID_RUNS_MAX`] runs unpaid; in another its share of them. Those that were given alone may cost one.
const UNPAID_SERVED_MAX: u64 = 16;

/// The least of that: beside what was given and nobody took, such as to a caller that went away, there is room for the largest request.
const UNPAID_SERVED_LEAST: u64 = 2;

/// Proved answers that may be given before a voucher pays for them, likewise; at least one.
const UNPAID_PROOFS_MAX: u64 = 4;

/// Requests that are answered or wait to be, at most.
const PENDING_MAX: usize = 1_024;

/// The same of a served model, whose requests may have a mebibyte each.
const PENDING_SERVED_MAX: usize = 256;

/// Answers that are kept for a requestor that lost the connection, and their bytes.
const KEPT_MAX: usize = 2_048;
const KEPT_BYTES_MAX: usize = 8 << 20;

/// Channels of sessions that are kept open.
const CHANNELS_KEPT: usize = 64;

/// How long a call waits for requests at the gateway, in milliseconds.
const WAIT_MS: u16 = 4_000;

/// How long to wait after a call that failed.
const AGAIN: Duration = Duration::from_millis(500);

/// How often something is claimed, if something is owed.
const CLAIM_EVERY: Duration = Duration::from_secs(30);

/// How often it is at most, if what is owed passes [`CLAIM_RUNS`].
const CLAIM_EARLY: Duration = Duration::from_secs(2);

/// Runs for which more is claimed before its time: vouchers are in memory alone, and an agent that ends without a claim loses what they say.
const CLAIM_RUNS: u64 = 1_000;

/// How long answers that are being made have after the order to stop.
const STOPPING: Duration = Duration::from_secs(3);

/// What of a lease the book goes by, as the ledger says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServedTerms {
    /// The lease.
    pub lease: LeaseId,
    /// Who signs requests.
    pub requestor: Address,
    /// What a run of the model costs; of a served model what its largest request does.
    pub run: Amount,
    /// What a minute costs.
    pub minute: Amount,
    /// What a proved answer costs.
    pub proved: Amount,
    /// Whether tokens are paid, so that a request says what it costs at most only when it is opened.
    pub by_tokens: bool,
    /// What was claimed of vouchers before this agent began.
    pub claimed: Amount,
    /// Runs that may be unpaid before the first one was paid for.
    pub unpaid_first: u64,
    /// What the network's signatures are bound to.
    pub domain: ChainDomain,
}

/// A lease to serve, before the network is known.
#[derive(Debug, Clone)]
pub(crate) struct LeaseToServe {
    pub(crate) task: Arc<Task>,
    pub(crate) requestor: Address,
    pub(crate) run: Amount,
    pub(crate) minute: Amount,
    pub(crate) claimed: Amount,
    pub(crate) unpaid: UnpaidRuns,
}

/// What a provider may still earn: what is locked, and what time takes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServedFunds {
    /// What was paid for the lease and what is left of the escrow, together.
    pub all: Amount,
    /// What time has earned so far.
    pub time: Amount,
}

/// What was asked of a lease, answered and paid for.
#[derive(Debug)]
pub struct ServedBook {
    terms: ServedTerms,
    /// The last voucher that holds.
    last: Option<SignedVoucher>,
    /// What the answers cost that were given.
    owed: Amount,
    /// What those may cost that are being made.
    pending: BTreeMap<u64, Amount>,
    /// Prices of proved answers that no voucher pays for yet, each with what was owed once it was given.
    unpaid_proofs: VecDeque<(Amount, Amount)>,
    kept: VecDeque<(u64, AnswerPart)>,
    kept_bytes: usize,
    /// Numbers below the oldest kept answer are not answered again.
    answered_up_to: u64,
    funds: ServedFunds,
}

/// What is to be done with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestDecision {
    /// Run the model.
    Run,
    /// Say this.
    Say(Box<AnswerPart>),
    /// Nothing: it is being answered.
    Wait,
}

impl ServedBook {
    /// A book of a lease of which nothing was asked since this agent began.
    #[must_use]
    pub const fn new(terms: ServedTerms, funds: ServedFunds) -> Self {
        Self {
            terms,
            last: None,
            owed: terms.claimed,
            pending: BTreeMap::new(),
            unpaid_proofs: VecDeque::new(),
            kept: VecDeque::new(),
            kept_bytes: 0,
            answered_up_to: 0,
            funds,
        }
    }

    /// The last voucher.
    #[must_use]
    pub const fn last(&self) -> Option<SignedVoucher> {
        self.last
    }

    /// Takes note of what the ledger says.
    pub const fn set_funds(&mut self, funds: ServedFunds) {
        self.funds = funds;
    }

    /// Whether time and vouchers have earned all that there is: time alone would take what is not claimed.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        let vouchers = self.last.map_or(Amount::ZERO, |it| it.voucher.amount);
        !vouchers.is_zero() && self.funds.time.saturating_add(vouchers) >= self.funds.all
    }

    /// What becomes of a request.
    pub fn decide(&mut self, request: &EndpointRequest) -> RequestDecision {
        let said = &request.voucher.voucher;
        let is_payment = request.input.is_empty();
        let fits = said.lease == self.terms.lease && said.asks == request.asked();
        if !fits || request.voucher.account(&self.terms.domain) != Ok(self.terms.requestor) {
            return RequestDecision::Say(Box::new(self.refusal(EndpointRefusal::Unsigned, "")));
        }
        self.take_voucher(request.voucher);
        if let Some((_, part)) = self
            .kept
            .iter()
            .find(|(number, _)| *number == request.number)
        {
            return RequestDecision::Say(Box::new(part.clone()));
        }
        if self.pending.contains_key(&request.number) {
            return RequestDecision::Wait;
        }
        if request.number <= self.answered_up_to {
            return RequestDecision::Say(Box::new(
                self.refusal(EndpointRefusal::Unsigned, "an old request"),
            ));
        }
        if is_payment {
            // A requestor that lost count, and begins again.
            return match said.amount < self.paid() {
                true => RequestDecision::Say(Box::new(self.refusal(EndpointRefusal::Behind, ""))),
                false => RequestDecision::Run,
            };
        }
        let most = match self.terms.by_tokens {
            true => PENDING_SERVED_MAX,
            false => PENDING_MAX,
        };
        if self.pending.len() >= most {
            return RequestDecision::Say(Box::new(self.refusal(EndpointRefusal::Busy, "")));
        }
        let least = match self.terms.by_tokens {
            true => Amount::ZERO,
            false => self.terms.run,
        };
        match self.promise(request.number, least) {
            Ok(()) => RequestDecision::Run,
            Err(refusal) => RequestDecision::Say(refusal),
        }
    }

    /// Takes note that an answer is made that may cost so much, instead of what was noted for it before.
    fn promise(&mut self, number: u64, price: Amount) -> Result<(), Box<AnswerPart>> {
        let others = self.pending.iter().filter(|(other, _)| **other != number);
        let promised = others.fold(self.owed, |sum, (_, other)| sum.saturating_add(*other));
        let paid = self.paid();
        let after = promised.saturating_add(price);
        let proofs = self.promised_proofs(number);
        // A proof costs as much as many runs: each has a bound of its own.
        let is_too_much = if self.terms.by_tokens {
            let most = self.unpaid_share(UNPAID_SERVED_MAX);
            let most = most.max(UNPAID_SERVED_LEAST);
            let most = self.terms.run.saturating_mul(most);
            let given = self.owed.saturating_sub(paid);
            given > self.terms.run || after.saturating_sub(paid) > most
        } else if price > self.terms.run {
            let most = self.unpaid_share(UNPAID_PROOFS_MAX);
            let most = self.terms.proved.saturating_mul(most);
            proofs.saturating_add(price) > most
        } else {
            let most = self.terms.run.saturating_mul(self.unpaid_most());
            after.saturating_sub(paid).saturating_sub(proofs) > most
        };
        if is_too_much {
            return Err(Box::new(self.refusal(EndpointRefusal::Unpaid, "")));
        }
        let earned = self.funds.time.saturating_add(after.max(paid));
        if earned > self.funds.all {
            let detail = format!("{} TGRID are locked", self.funds.all);
            return Err(Box::new(self.refusal(EndpointRefusal::NoMoney, &detail)));
        }
        self.pending.insert(number, price);
        Ok(())
    }

    /// Runs that may be unpaid now: one more for each that was paid for, up to [`UNPAID_RUNS_MAX`], and those that are written off.
    fn unpaid_most(&self) -> u64 {
        self.unpaid_grown().saturating_add(self.written_off())
    }

    /// The same without those that are written off.
    fn unpaid_grown(&self) -> u64 {
        let first = self.terms.unpaid_first;
        let grown = first.saturating_add(self.runs_of(self.paid()));
        grown.min(UNPAID_RUNS_MAX.max(first))
    }

    /// Of so many that a lease may leave unpaid which may leave [`UNPAID_RUNS_MAX`] runs, as many as this one may now.
    fn unpaid_share(&self, most: u64) -> u64 {
        (most.saturating_mul(self.unpaid_grown()) / UNPAID_RUNS_MAX).max(1)
    }

    /// How many whole runs an amount pays for.
    fn runs_of(&self, amount: Amount) -> u64 {
        let runs = amount.get().checked_div(self.terms.run.get());
        runs.map_or(0, |it| u64::try_from(it).unwrap_or(u64::MAX))
    }

    /// Runs that were answered and no voucher paid for.
    fn unpaid_runs(&self) -> u64 {
        self.runs_of(self.owed.saturating_sub(self.paid()))
    }

    /// Runs for which no voucher has to come any more: one for each minute that was paid, or for a run's price of minutes where that
    /// is more. Stops: answers that got lost on their way, which a requestor does not pay for and which ended an endpoint after 64 of
    /// them. Whoever pays for nothing but minutes is given less than it pays.
    fn written_off(&self) -> u64 {
        let each = self.terms.minute.max(self.terms.run).get();
        let times = self.funds.time.get().checked_div(each);
        times.map_or(0, |it| u64::try_from(it).unwrap_or(u64::MAX))
    }

    /// What proved answers cost that no voucher pays for, and those that are being made but for one.
    fn promised_proofs(&self, but_for: u64) -> Amount {
        let unpaid = self.unpaid_proofs.iter().map(|(_, price)| *price);
        let pending = self
            .pending
            .iter()
            .filter(|(number, price)| **number != but_for && **price > self.terms.run);
        let all = unpaid.chain(pending.map(|(_, price)| *price));
        all.fold(Amount::ZERO, Amount::saturating_add)
    }

    /// As [`Self::decide`] went on, for a request that turned out to ask for a proof.
    ///
    /// # Errors
    /// With the refusal, if it costs more than may be owed or is there.
    pub fn decide_proved(&mut self, number: u64) -> Result<(), Box<AnswerPart>> {
        self.promise(number, self.terms.proved)
    }

    /// As [`Self::decide`] went on, for a request of a served model that turned out to cost so much at most.
    ///
    /// # Errors
    /// With the refusal, if it is more than may be owed or is there.
    pub fn decide_tokens(&mut self, number: u64, most: Amount) -> Result<(), Box<AnswerPart>> {
        self.promise(number, most)
    }

    /// What was paid for by vouchers.
    fn paid(&self) -> Amount {
        let last = self.last.map_or(Amount::ZERO, |it| it.voucher.amount);
        last.max(self.terms.claimed)
    }

    /// Takes note of an answer, and of its price.
    pub fn answered(&mut self, number: u64, part: &AnswerPart) {
        self.pending.remove(&number);
        let AnswerPart::Whole { price, .. } = part else {
            return;
        };
        self.owed = self.owed.saturating_add(*price);
        if *price > self.terms.run && !self.terms.by_tokens {
            self.unpaid_proofs.push_back((self.owed, *price));
        }
        self.keep(number, part);
    }

    /// Takes note that what was begun for a request has no answer. Stops: a gateway that hands the same request in again, whose pieces would
    /// be sealed under the same numbers once more.
    fn failed(&mut self, number: u64, part: &AnswerPart) {
        self.pending.remove(&number);
        self.keep(number, part);
    }

    fn keep(&mut self, number: u64, part: &AnswerPart) {
        self.kept_bytes += answer_bytes(part);
        self.kept.push_back((number, part.clone()));
        while self.kept.len() > KEPT_MAX || self.kept_bytes > KEPT_BYTES_MAX {
            let Some((number, oldest)) = self.kept.pop_front() else {
                break;
            };
            self.kept_bytes -= answer_bytes(&oldest);
            self.answered_up_to = self.answered_up_to.max(number);
        }
    }

    /// That there is no answer, with the last voucher for a requestor that lost count.
    #[must_use]
    pub fn refusal(&self, because: EndpointRefusal, detail: &str) -> AnswerPart {
        AnswerPart::Refused {
            because,
            detail: Label::lossy(detail),
            last: self.last,
        }
    }

    /// Vouchers only grow. What a requestor owes after this agent was restarted is what its vouchers say.
    fn take_voucher(&mut self, voucher: SignedVoucher) {
        let before = self.last.map_or(Amount::ZERO, |it| it.voucher.amount);
        // Stops: payment that the ledger would not pay.
        if self.last.is_none() || voucher.voucher.is_later_than(before) {
            self.last = Some(voucher);
            self.owed = self.owed.max(voucher.voucher.amount);
            let paid = self.paid();
            while self
                .unpaid_proofs
                .front()
                .is_some_and(|(owed, _)| *owed <= paid)
            {
                self.unpaid_proofs.pop_front();
            }
        }
    }
}

/// Bytes of an answer; none of a refusal.
const fn answer_bytes(part: &AnswerPart) -> usize {
    match part {
        AnswerPart::Whole { answer, .. } => answer.len(),
        _ => 0,
    }
}

/// What of a voucher can be claimed where `claimed` was: one that is not later is refused by the ledger.
pub(crate) fn claimable(voucher: Option<SignedVoucher>, claimed: Amount) -> Option<SignedVoucher> {
    voucher.filter(|it| it.voucher.is_later_than(claimed))
}

/// What the agent tells the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServeOrders {
    /// Whether to stop.
    pub stop: bool,
    /// What may be earned, as the ledger last said; `None` until it was asked: nothing is answered before.
    pub funds: Option<ServedFunds>,
}

/// Serves a lease until the order to stop.
pub(crate) async fn serve<W: Worker>(
    client: Client,
    wallet: Wallet,
    worker: Arc<W>,
    lease: LeaseToServe,
    mut orders: watch::Receiver<ServeOrders>,
    outcomes: mpsc::Sender<Outcome>,
) {
    let LeaseToServe {
        task,
        requestor,
        run,
        minute,
        claimed,
        unpaid,
    } = lease;
    let reports = Reports {
        lease: task.lease,
        outcomes,
    };
    let domain = loop {
        match client.domain().await {
            Ok(domain) => break domain,
            Err(error) => reports.send(ServeReport::Problem(with_sources(&error))),
        }
        tokio::time::sleep(AGAIN).await;
        if orders.borrow().stop {
            reports.ended(None).await;
            return;
        }
    };
    // An error means that the agent is gone.
    let known = orders.wait_for(|it| it.stop || it.funds.is_some()).await;
    let funds = known.ok().and_then(|it| it.funds);
    let Some(funds) = funds else {
        reports.ended(None).await;
        return;
    };
    let card = ServedCard::read(&task.model_file).ok().map(Arc::new);
    let terms = ServedTerms {
        lease: task.lease,
        requestor,
        run: card.as_ref().map_or(run, |card| card.largest_price()),
        minute,
        proved: proved_price(run, minute),
        by_tokens: card.is_some(),
        claimed,
        unpaid_first: unpaid.first(task.lease, Instant::now()),
        domain,
    };
    let (ready, task_ready) = (Arc::clone(&worker), Arc::clone(&task));
    tokio::task::spawn_blocking(move || ready.prepare(&task_ready));
    let (made_sender, made) = mpsc::channel(MADE_MAX);
    let mut serving = ServingLoop {
        client,
        wallet,
        terms,
        book: ServedBook::new(terms, funds),
        runners: match &card {
            None => Runners::threads(&worker, &task, &made_sender, (terms.run, terms.proved)),
            Some(card) => Runners::tasks(&worker, &task, &made_sender, card),
        },
        card,
        key: SealingKey::draw(),
        channels: VecDeque::new(),
        token: None,
        outbox: VecDeque::new(),
        answered: 0,
    };
    drop(made_sender);
    serving.run(&mut orders, made, &reports).await;
    unpaid.note(terms.lease, Instant::now(), serving.book.unpaid_runs());
    reports.ended(serving.book.last()).await;
}

/// Where reports go.
struct Reports {
    lease: LeaseId,
    outcomes: mpsc::Sender<Outcome>,
}

impl Reports {
    /// Dropped if the queue is full: a later one follows.
    fn send(&self, report: ServeReport) {
        let _full = self.outcomes.try_send((self.lease, Report::Served(report)));
    }

    async fn ended(&self, last: Option<SignedVoucher>) {
        let report = Report::Served(ServeReport::Ended(last));
        // A closed queue means that the agent is gone.
        let _gone = self.outcomes.send((self.lease, report)).await;
    }
}

/// The loop and what it knows.
struct ServingLoop {
    client: Client,
    wallet: Wallet,
    terms: ServedTerms,
    book: ServedBook,
    runners: Runners,
    /// What tokens cost, if the model is a served one.
    card: Option<Arc<ServedCard>>,
    key: SealingKey,
    /// Channels of sessions, the ones used last behind.
    channels: VecDeque<(Digest, SealedChannel)>,
    token: Option<[u8; 16]>,
    outbox: VecDeque<NumberedPart>,
    answered: u64,
}

impl ServingLoop {
    async fn run(
        &mut self,
        orders: &mut watch::Receiver<ServeOrders>,
        mut made: mpsc::Receiver<FromRunner>,
        reports: &Reports,
    ) {
        // One call waits for requests while others bring answers.
        let (fetched_sender, mut fetched) = mpsc::channel(1);
        let mut fetching = false;
        let mut stop_at: Option<Instant> = None;
        let (mut claimed, mut told) = (Instant::now(), self.book.paid());
        loop {
            let is_stopping = stop_at.is_some();
            if !fetching && !is_stopping {
                fetching = true;
                self.fetch(fetched_sender.clone(), reports).await;
            }
            if self.flush(reports).await && self.book.pending.is_empty() && is_stopping {
                return;
            }
            if stop_at.is_some_and(|at| Instant::now() >= at) {
                return;
            }
            let paid = self.book.paid();
            let is_much = paid.saturating_sub(told) > self.terms.run.saturating_mul(CLAIM_RUNS);
            let waited = claimed.elapsed();
            if waited >= CLAIM_EVERY || is_much && waited >= CLAIM_EARLY {
                (claimed, told) = (Instant::now(), paid);
                reports.send(ServeReport::Claim(self.book.last()));
            }
            let wake = stop_at.map_or(CLAIM_EVERY, |at| {
                at.saturating_duration_since(Instant::now())
            });
            tokio::select! {
                Some(got) = fetched.recv() => {
                    fetching = false;
                    self.take_fetched(got, reports);
                }
                Some(one) = made.recv() => {
                    self.take_made(one);
                    while let Ok(one) = made.try_recv() {
                        self.take_made(one);
                    }
                }
                changed = orders.changed(), if !is_stopping => {
                    let now = *orders.borrow_and_update();
                    if let Some(funds) = now.funds {
                        self.book.set_funds(funds);
                    }
                    if self.book.is_spent() {
                        reports.send(ServeReport::Claim(self.book.last()));
                    }
                    // An error means that the agent is gone, which is the same order.
                    if now.stop || changed.is_err() {
                        stop_at = Some(Instant::now() + STOPPING);
                    }
                }
                () = tokio::time::sleep(wake) => {}
            }
        }
    }

    /// Claims the lease at the gateway if that was not done, then asks for requests beside everything else.
    async fn fetch(&mut self, fetched: mpsc::Sender<Fetched>, reports: &Reports) {
        if self.token.is_none()
            && let Ok(answer) = self.claim().await
        {
            self.token = Some(answer.token);
            self.take_fetched(Fetched::Got(Ok(answer.requests)), reports);
        }
        let Some(token) = self.token else {
            tokio::spawn(async move {
                tokio::time::sleep(AGAIN).await;
                let _gone = fetched.send(Fetched::NotClaimed).await;
            });
            return;
        };
        let (client, lease) = (self.client.clone(), self.terms.lease);
        tokio::spawn(async move {
            let call = ServeCall {
                proof: ServingProof::Token(token),
                wait_ms: WAIT_MS,
                parts: Vec::new(),
            };
            let got = client.serve(lease, &call).await;
            if got.is_err() {
                tokio::time::sleep(AGAIN).await;
            }
            let _gone = fetched.send(Fetched::Got(got.map(|it| it.requests))).await;
        });
    }

    async fn claim(&self) -> Result<ServeAnswer, ClientError> {
        let status = self.client.status().await?;
        let call = ServeCall {
            proof: ServingProof::Claim(ServingClaim::new(
                self.terms.lease,
                TimestampMs::new(status.timestamp_ms),
                &self.wallet,
                &self.terms.domain,
            )),
            wait_ms: 0,
            parts: Vec::new(),
        };
        self.client.serve(self.terms.lease, &call).await
    }

    fn take_fetched(&mut self, fetched: Fetched, reports: &Reports) {
        let requests = match fetched {
            Fetched::NotClaimed => return,
            Fetched::Got(Ok(requests)) => requests,
            Fetched::Got(Err(error)) => {
                // The gateway may have been restarted: the claim is made again.
                self.token = None;
                let problem = format!(
                    "fetch requests of {}: {}",
                    self.terms.lease,
                    with_sources(&error)
                );
                reports.send(ServeReport::Problem(problem));
                return;
            }
        };
        for request in requests {
            match self.book.decide(&request) {
                RequestDecision::Wait => {}
                RequestDecision::Say(part) => self.outbox.push_back(NumberedPart {
                    number: request.number,
                    part: *part,
                }),
                RequestDecision::Run => self.begin(&request),
            }
        }
    }

    /// Has a request answered; one without an input at once, by this provider's public key.
    fn begin(&mut self, request: &EndpointRequest) {
        let (number, asked) = (request.number, request.asked());
        if request.input.is_empty() {
            let part = self.whole(&asked, Ok((self.key.public(), Amount::ZERO)));
            self.outbox.push_back(NumberedPart { number, part });
            return;
        }
        let refused = match self.opened(request) {
            None => self.book.refusal(EndpointRefusal::Unsealed, ""),
            Some((channel, AskedInput { wanted, input })) => {
                let is_proved = wanted == AskedFor::Proof;
                let promised = self.promised(number, is_proved, &input);
                let job = AskedRun {
                    number,
                    asked,
                    input: Arc::from(input),
                    is_proved,
                    channel,
                };
                match promised {
                    Ok(()) if self.runners.give(job) => return,
                    Ok(()) => self.book.refusal(EndpointRefusal::Busy, ""),
                    Err(refusal) => *refusal,
                }
            }
        };
        let part = refused;
        self.book.answered(number, &part);
        self.outbox.push_back(NumberedPart { number, part });
    }

    /// Takes note of what a request may cost, which only shows when it is opened.
    fn promised(
        &mut self,
        number: u64,
        is_proved: bool,
        input: &[u8],
    ) -> Result<(), Box<AnswerPart>> {
        let failed = |book: &ServedBook, detail| {
            Err(Box::new(book.refusal(EndpointRefusal::Failed, detail)))
        };
        match (&self.card, is_proved) {
            (None, true) => self.book.decide_proved(number),
            (None, false) => Ok(()),
            (Some(_), true) => failed(&self.book, "answers of served models have no proof"),
            (Some(card), false) => {
                let request = ServedRequest::from_bytes(input).ok();
                match request.and_then(|it| it.most(card)) {
                    Some(most) => self.book.decide_tokens(number, most),
                    None => failed(&self.book, "this is no request of the OpenAI API"),
                }
            }
        }
    }

    /// What a request asks, and the channel that it came through; nothing if it was not sealed to the key of this agent.
    fn opened(&mut self, request: &EndpointRequest) -> Option<(SealedChannel, AskedInput)> {
        let sealed = SealedInput::from_bytes(&request.input).ok()?;
        let name = Digest::of_blob(&sealed.encapsulated);
        let known = self.channels.iter().find(|(it, _)| *it == name);
        let channel = match known {
            Some((_, channel)) => channel.clone(),
            None => {
                let lease = &self.terms.lease;
                let channel = self.key.accept(&sealed.encapsulated, lease).ok()?;
                if self.channels.len() >= CHANNELS_KEPT {
                    self.channels.pop_front();
                }
                self.channels.push_back((name, channel.clone()));
                channel
            }
        };
        let asked = channel.open_request(request.number, &sealed.sealed).ok()?;
        let asked = AskedInput::from_bytes(&asked).ok()?;
        (!asked.input.is_empty()).then_some((channel, asked))
    }

    fn take_made(&mut self, made: FromRunner) {
        let (number, part) = match made {
            FromRunner::Part(number, part) => (number, part),
            FromRunner::Whole(number, asked, answer) => {
                let part = self.whole(&asked, answer);
                match &part {
                    AnswerPart::Whole { .. } => self.book.answered(number, &part),
                    _ => self.book.failed(number, &part),
                }
                self.answered += 1;
                (number, part)
            }
        };
        self.outbox.push_back(NumberedPart { number, part });
    }

    fn whole(&self, asked: &Digest, answer: Result<(Vec<u8>, Amount), String>) -> AnswerPart {
        match answer {
            Ok((answer, price)) if answer.len() <= ENDPOINT_BYTES_MAX => AnswerPart::Whole {
                price,
                signature: sign_answer(
                    &self.wallet,
                    (&self.terms.lease, asked),
                    &answer,
                    &self.terms.domain,
                ),
                answer,
            },
            Ok(_) => self
                .book
                .refusal(EndpointRefusal::Failed, "the answer is too large"),
            Err(detail) => self.book.refusal(EndpointRefusal::Failed, &detail),
        }
    }

    /// Brings what is to be said; whether all of it is gone.
    async fn flush(&mut self, reports: &Reports) -> bool {
        while !self.outbox.is_empty() {
            let Some(token) = self.token else {
                return false;
            };
            let (mut parts, mut bytes) = (Vec::new(), 0);
            while parts.len() < ENDPOINT_BATCH_MAX && bytes < SERVE_BYTES_MAX {
                let Some(next) = self.outbox.pop_front() else {
                    break;
                };
                bytes += match &next.part {
                    AnswerPart::Piece { piece: bytes, .. }
                    | AnswerPart::Whole { answer: bytes, .. } => bytes.len(),
                    AnswerPart::Refused { .. } => 0,
                };
                parts.push(next);
            }
            let call = ServeCall {
                proof: ServingProof::Token(token),
                wait_ms: 0,
                parts,
            };
            match self.client.serve(self.terms.lease, &call).await {
                Ok(answer) => {
                    // Requests that came meanwhile.
                    let got = Fetched::Got(Ok(answer.requests));
                    self.take_fetched(got, reports);
                }
                Err(error) => {
                    self.token = None;
                    let problem = format!(
                        "bring answers of {}: {}",
                        self.terms.lease,
                        with_sources(&error)
                    );
                    reports.send(ServeReport::Problem(problem));
                    // Who asked asks again: answers are kept.
                    return false;
                }
            }
        }
        if self.answered > 0 {
            reports.send(ServeReport::Answered(self.answered));
            self.answered = 0;
        }
        true
    }
}

/// What came of asking for requests.
enum Fetched {
    NotClaimed,
    Got(Result<Vec<EndpointRequest>, ClientError>),
}

#[cfg(test)]
mod tests;

//! Clients that trust nobody but the seats: each asks gateways what the final state has, and some of the gateways lie to it.
//!
//! What decides is the code of the SDK ([`tg_sdk::shown`]), with the proofs and certificates of the run. What a client takes must be what the state
//! of that block has, read from the state itself, and the block must be final; and from an honest gateway it must take the truth.

use std::collections::VecDeque;
use std::sync::Arc;

use tg_node::NodeHandle;
use tg_sdk::shown::{self, AnswerChecks, ShownError};
use tg_types::TimestampMs;
use tg_types::chain::{AnswerError, BlockHeader, NetworkTrust, SeatChanges, TrustedHead};

use crate::draw::SeedStream;
use crate::grid::{Context, SimGrid, now_ms, sleep_ms};
use crate::lies::{GatewayLie, HonestGateway, LieCase, Question, Standing, Told};
use crate::plan::ClientPlan;

/// Truths that a client takes before a run may end.
const TRUTHS: u64 = 10;

/// How long no gateway may show a client who votes now, in milliseconds: longer than faults last.
const UNSHOWN_MAX_MS: u64 = 40_000;

/// How many answers a gateway that lies remembers, and the checks.
const KNOWN_MAX: usize = 24;

/// A client.
pub(crate) struct SimClient {
    index: usize,
    plan: ClientPlan,
    trust: NetworkTrust,
    checks: AnswerChecks,
    draw: SeedStream,
    /// How many keys ever had a seat.
    voters: u64,
    /// What honest gateways had earlier, the newest last.
    old: VecDeque<HonestGateway>,
    /// Truths that it took.
    truths: u64,
    /// Since when no gateway shows it who votes now.
    unshown_since: Option<u64>,
}

/// What a client takes for true.
struct Taken {
    header: BlockHeader,
    standing: Option<Standing>,
}

/// The newest block of a validator, if it can show that it is final.
fn gateway(node: &NodeHandle) -> Option<HonestGateway> {
    let tip = node.snapshot();
    let height = tip.block.header.height.get();
    let proof = node.shown_final(height).ok()??;
    Some(HonestGateway {
        block: tip.id,
        height,
        proof,
        state: Arc::clone(&tip.state),
    })
}

/// Whether an answer is of validators that are not known, as far as the client can see.
const fn is_unshown(taken: &Result<Taken, ShownError>) -> bool {
    matches!(taken, Err(ShownError::NotShown(AnswerError::Finality(_))))
}

impl SimClient {
    pub(crate) fn new(
        (index, plan): (usize, ClientPlan),
        trust: NetworkTrust,
        (seed, voters): (u64, usize),
    ) -> Self {
        let head = trust.genesis();
        Self {
            index,
            plan,
            checks: AnswerChecks::new(trust.clone(), head),
            trust,
            draw: SeedStream::new(seed, &format!("client {index}")),
            voters: voters as u64,
            old: VecDeque::new(),
            truths: 0,
            unshown_since: None,
        }
    }

    /// Asks as long as the run lasts.
    pub(crate) async fn run(mut self, grid: Arc<SimGrid>, context: Context) {
        loop {
            let pause = self.draw.between(100, self.plan.pause_ms);
            sleep_ms(&context, pause).await;
            let now = now_ms(&context);
            let Some(node) = grid.gateway(self.plan.gateway, now) else {
                continue;
            };
            if self.checks.check_age(TimestampMs::new(now)).is_err() {
                self.begin_anew(&grid, &node, now);
                continue;
            }
            let Some(honest) = gateway(&node) else {
                continue;
            };
            let question = Question::drawn(&honest.state, &mut self.draw);
            if self.draw.chance(self.plan.lies_permille) {
                self.hears_lie(&grid, &context, (question, &honest));
            }
            self.hears_truth(&grid, &node, now, (question, &honest));
            if self.old.len() >= KNOWN_MAX {
                self.old.pop_front();
            }
            self.old.push_back(honest);
        }
    }

    /// What it knows is too old: its user names a newer block, from whoever runs the gateway.
    fn begin_anew(&mut self, grid: &SimGrid, node: &NodeHandle, now: u64) {
        let Ok(Some(told)) = node.checkpoint(None) else {
            return;
        };
        match self.trust.begin_at(&told.checkpoint(), &told) {
            Ok(head) => self.checks = AnswerChecks::new(self.trust.clone(), head),
            Err(error) => {
                let what = format!("an honest gateway's block is not taken: {error}");
                self.violated(grid, now, &what);
            }
        }
    }

    fn violated(&self, grid: &SimGrid, now: u64, what: &str) {
        let what = format!("client{}: {what}", self.index);
        grid.checks().violated("light", now, what);
    }

    /// What it makes of an answer, as the client of the SDK does.
    fn take(
        &mut self,
        question: &Question,
        told: &Told,
        now: TimestampMs,
    ) -> Result<Taken, ShownError> {
        self.checks.check_age(now)?;
        let (record, id) = (question.record(), question.id());
        let shown = match self.checks.take(&told.answer, record, id) {
            // Perhaps of other validators than those that are known.
            Err(ShownError::NotShown(AnswerError::Finality(_))) if !told.changes.0.is_empty() => {
                self.checks.learn(&told.changes)?;
                self.checks.take(&told.answer, record, id)?
            }
            shown => shown?,
        };
        let content = match question.has_content() {
            true => shown::content(&shown, &told.answer)?,
            false => None,
        };
        Ok(Taken {
            header: shown.header,
            standing: shown.found.map(|(head, _)| (head.amount, content)),
        })
    }

    /// A gateway lies. What is taken must be true all the same: a lie may say what is so.
    fn hears_lie(
        &mut self,
        grid: &SimGrid,
        context: &Context,
        (question, honest): (Question, &HonestGateway),
    ) {
        let now = now_ms(context);
        let lie = self.draw.pick(&GatewayLie::ALL);
        let head = self.checks.head().clone();
        let unbonded_at = head.timestamp().saturating_add(self.trust.unbonding);
        let old = match self.old.is_empty() {
            true => None,
            false => Some(self.draw.index(self.old.len())),
        };
        let case = LieCase {
            question,
            now: honest,
            old: old.and_then(|it| self.old.get(it)),
            head: &head,
            voters: self.voters,
            unbonded_at,
        };
        let Some(told) = lie.told(&case, &mut self.draw) else {
            return;
        };
        let at = match told.is_late {
            true => unbonded_at,
            false => TimestampMs::new(now),
        };
        let taken = self.take(&question, &told, at);
        let outcome = match &taken {
            Ok(_) => "takes it for what it is".to_owned(),
            Err(error) => format!("refuses it: {}", tg_types::with_sources(error)),
        };
        let what = format!("is told a lie, {lie:?}, and {outcome}");
        grid.line(context, &format!("client{}", self.index), &what);
        let found = match &taken {
            Ok(taken) => self.is_true(grid, (&question, honest), taken),
            Err(_) => Ok(()),
        };
        if let Err(what) = found.and_then(|()| self.is_sound(grid, &head)) {
            self.violated(grid, now, &format!("{lie:?} of {question:?}: {what}"));
        }
    }

    /// Whether what it takes is so: of a final block, and what the state after it has.
    fn is_true(
        &self,
        grid: &SimGrid,
        (question, honest): (&Question, &HonestGateway),
        taken: &Taken,
    ) -> Result<(), String> {
        let (height, block) = (taken.header.height.get(), taken.header.id());
        let last = grid.checks().block(height).copied();
        // Of other blocks no gateway told anything that is true.
        let mut told = self.old.iter().chain([honest]);
        let known = told.find(|it| it.block == block);
        let Some(known) = known.filter(|_| last.is_none_or(|it| it == block)) else {
            return Err(format!("it takes {block} for the final block {height}"));
        };
        let truth = question.standing(&known.state);
        match truth == taken.standing {
            true => Ok(()),
            false => Err(format!(
                "in block {height} it takes {:?}, and there is {:?}",
                told_of(taken.standing.as_ref()),
                told_of(truth.as_ref())
            )),
        }
    }

    /// Whether what it knows of the chain after a lie is of final blocks, by the same validators, and not older.
    fn is_sound(&self, grid: &SimGrid, before: &TrustedHead) -> Result<(), String> {
        let head = self.checks.head();
        let (newest, last) = (head.checkpoint(), before.checkpoint());
        let block = grid.checks().block(newest.height.get()).copied();
        let is_other = block.is_some_and(|it| it != newest.block);
        match is_other || newest.height < last.height || head.root() != before.root() {
            true => Err(format!("it knew {last}, and knows {newest}")),
            false => Ok(()),
        }
    }

    /// What a validator shows of changes of the set that are not known yet.
    fn changes(&self, node: &NodeHandle) -> SeatChanges {
        let known = self.checks.head().changed().get();
        node.seat_changes(known).unwrap_or_default()
    }

    /// An honest gateway answers: the truth must be taken.
    fn hears_truth(
        &mut self,
        grid: &SimGrid,
        node: &NodeHandle,
        now: u64,
        (question, honest): (Question, &HonestGateway),
    ) {
        let at = TimestampMs::new(now);
        let mut told = honest.tells(&question, self.changes(node));
        let mut taken = self.take(&question, &told, at);
        // What shows a change of the set may be at another gateway only.
        for (_, other) in grid.nodes() {
            if !is_unshown(&taken) {
                break;
            }
            told.changes = self.changes(&other);
            taken = self.take(&question, &told, at);
        }
        match taken {
            Ok(taken) => {
                self.unshown_since = None;
                self.truths += 1;
                if self.truths == TRUTHS {
                    grid.ordered();
                }
                if let Err(what) = self.is_true(grid, (&question, honest), &taken) {
                    self.violated(grid, now, &format!("of {question:?}, honestly: {what}"));
                }
            }
            // The gateway is behind a change that another one has shown.
            Err(ShownError::NotShown(AnswerError::Superseded { .. })) => {}
            // Nobody knows yet what shows the last change.
            Err(ShownError::NotShown(AnswerError::Finality(error))) => {
                let since = *self.unshown_since.get_or_insert(now);
                if now > since + UNSHOWN_MAX_MS {
                    let what = format!("no gateway shows since {since} ms who votes: {error}");
                    self.violated(grid, now, &what);
                }
            }
            Err(error) => {
                let why = tg_types::with_sources(&error);
                let what = format!("the truth about {question:?} is not taken: {why}");
                self.violated(grid, now, &what);
            }
        }
    }
}

/// What stands of a record in a violation: its money, and how many bytes it has.
fn told_of(standing: Option<&Standing>) -> Option<(String, Option<usize>)> {
    standing.map(|(amount, content)| (amount.to_string(), content.as_ref().map(Vec::len)))
}

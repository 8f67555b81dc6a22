//! Whole scenarios as text: the ledger after each block, written down and pinned in `tests/data/scenarios.txt`.
//!
//! The file is meant to be read. It is written by this test when `TENSORGRID_REGENERATE` is set.

use std::fmt::Write as _;

use tg_ledger::{Event, Outcome};
use tg_types::{Address, Amount, Transaction};

use crate::world::{PEOPLE, World, address, register, rejected, terms, tgrid};

/// A world whose blocks are written down.
struct ScenarioLog {
    world: World,
    blocks: usize,
    text: String,
}

impl ScenarioLog {
    fn new(title: &str) -> Self {
        Self {
            world: World::with_offers(),
            blocks: 0,
            text: format!("== {title}\n"),
        }
    }

    fn name(&self, who: Address) -> String {
        let person = PEOPLE.into_iter().find(|name| address(name) == who);
        let validators = self.world.state.validators();
        let seat = validators.iter().position(|it| it.address == who);
        match (person, seat) {
            (Some(name), _) => name.to_owned(),
            (None, Some(seat)) => format!("validator {seat}"),
            (None, None) => who.to_string(),
        }
    }

    /// One line for what happened in a block, and one for what everyone has.
    fn record(&mut self, events: &[Event]) {
        self.blocks += 1;
        for event in events {
            if let Some(line) = self.sentence(event) {
                writeln!(self.text, "{:>3}  {line}", self.blocks).unwrap();
            }
        }
        let money = self.world.state.money();
        writeln!(
            self.text,
            "{:>3}  = collateral {} escrow {} burned {} | alice {} cheap {} middle {}",
            self.blocks,
            money.collateral,
            money.escrow,
            money.burned,
            self.world.balance("alice"),
            self.world.balance("cheap"),
            self.world.balance("middle"),
        )
        .unwrap();
    }

    fn sentence(&self, event: &Event) -> Option<String> {
        Some(match event {
            Event::TransactionExecuted { sender, kind, .. } => {
                format!("{} sends {kind}", self.name(*sender))
            }
            Event::Transferred { from, to, amount } => {
                format!("{} pays {amount} to {}", self.name(*from), self.name(*to))
            }
            Event::ModelChanged { state, .. } => format!("model is {}", state.as_str()),
            Event::OfferPosted { provider, .. } => format!("{} offers", self.name(*provider)),
            Event::OfferWithdrawn { provider, .. } => {
                format!("{} withdraws its offer", self.name(*provider))
            }
            Event::JobChanged { state, .. } => format!("job is {state}"),
            Event::LeaseMade {
                provider,
                price,
                collateral,
                ..
            } => format!(
                "{} gets the job for {price}, locks {collateral}",
                self.name(*provider)
            ),
            Event::LeaseEnded { provider, end, .. } => {
                format!(
                    "lease of {} ends {}: {end}",
                    self.name(*provider),
                    end.as_str()
                )
            }
            Event::Slashed {
                provider, amount, ..
            } => {
                format!("{amount} of {} is burned", self.name(*provider))
            }
            Event::Forfeited {
                provider, amount, ..
            } => {
                format!("{amount} of {} is lost", self.name(*provider))
            }
            Event::JobEnded {
                reason, settlement, ..
            } => format!(
                "job ended, {reason}: price {} verification {} refund {} burned {}",
                settlement.price, settlement.verification_fee, settlement.refund, settlement.burned,
            ),
            // Four equal lines a block say nothing, and the decisions are written as leases.
            Event::Rewarded { .. } | Event::Scheduled { .. } => return None,
            other => format!("{other:?}"),
        })
    }

    fn send(&mut self, name: &str, transaction: Transaction) {
        let events = self.world.send(name, transaction);
        self.record(&events);
    }

    fn order(&mut self, attempts: u8) -> tg_types::JobId {
        let mut order = self.world.order();
        order.max_attempts = attempts;
        let job = self.world.submit("alice", order);
        self.record(&[]);
        job
    }

    fn deliver(&mut self, job: tg_types::JobId, outcome: Outcome) {
        let task = self.world.work(job);
        let events = self.world.decide(&task, outcome);
        self.record(&events);
    }
}

fn all_scenarios() -> String {
    let mut text = String::new();
    let mut log = ScenarioLog::new("a good provider");
    let job = log.order(3);
    log.deliver(job, Outcome::LeaseAccepted);
    text += &log.text;

    let mut log = ScenarioLog::new("a liar, then a good provider");
    let job = log.order(3);
    log.deliver(job, rejected());
    log.deliver(job, Outcome::LeaseAccepted);
    text += &log.text;

    let mut log = ScenarioLog::new("a provider that sleeps, and the next one");
    let job = log.order(3);
    let start_by = log.world.lease(job).start_by.get();
    let events = log.world.wait_until(start_by + 1);
    log.record(&events);
    log.deliver(job, Outcome::LeaseAccepted);
    text += &log.text;

    let mut log = ScenarioLog::new("sleepers only: their leases are no attempts");
    let job = log.order(2);
    for _ in 0..2 {
        let start_by = log.world.lease(job).start_by.get();
        let events = log.world.wait_until(start_by + 1);
        log.record(&events);
    }
    text += &log.text;

    let mut log = ScenarioLog::new("an offer withdrawn, a payment, a model");
    let offer = log.world.post("mallory", terms(20));
    log.send("mallory", Transaction::WithdrawOffer { offer });
    let to = address("bob");
    let amount = tgrid(2_500);
    log.send("alice", Transaction::Transfer { to, amount });
    let Transaction::RegisterModel {
        public_blob,
        weights_blob,
        name,
        ..
    } = register()
    else {
        panic!("not a registration");
    };
    let model = tg_types::ModelId::new([0x77; 32]);
    let registration = Transaction::RegisterModel {
        model,
        public_blob,
        weights_blob,
        name,
    };
    log.send("bob", registration);
    assert!(log.world.state.money().burned > Amount::ZERO);
    text + &log.text
}

#[test]
fn scenarios_are_pinned() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/scenarios.txt");
    let ours = all_scenarios();
    if std::env::var_os("TENSORGRID_REGENERATE").is_some() {
        std::fs::write(path, &ours).unwrap();
    }
    assert_eq!(ours, std::fs::read_to_string(path).unwrap());
}

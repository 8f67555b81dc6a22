//! Registrants: one keeps two models in good order, the other makes every kind that is none.

use tg_lab::synthetic::Draws;
use tg_ledger::{ModelState, State};
use tg_types::{Digest, Label, ModelId, Transaction, Wallet};

use crate::files::{Files, HONEST, HOSTILE, REPEATED_MACS, Truth, facts};
use crate::net::{Moment, Side, digest, milli};
use crate::outbox::Outbox;

/// A registrant.
#[derive(Debug)]
pub(crate) struct Maker {
    pub(crate) wallet: Wallet,
    pub(crate) side: Side,
    /// What it registered.
    pub(crate) models: Vec<ModelId>,
}

/// Models that an honest one keeps.
const KEPT: usize = 2;

impl Maker {
    pub(crate) fn new(name: &str, side: Side) -> Self {
        Self {
            wallet: Wallet::from_seed(name.as_bytes()),
            side,
            models: Vec::new(),
        }
    }

    /// The models that may be ordered now.
    pub(crate) fn usable(&self, state: &State) -> Vec<ModelId> {
        let usable = self.models.iter().copied().filter(|id| {
            state.model(id).is_some_and(|it| {
                matches!(it.state, ModelState::Active(_)) && state.is_held(&it.storage)
            })
        });
        usable.collect()
    }

    pub(crate) fn act(
        &mut self,
        moment: &Moment,
        files: &mut Files,
        draws: &mut Draws,
        out: &mut Outbox<'_>,
    ) {
        let state = out.state;
        self.models.retain(|id| state.model(id).is_some());
        match self.side {
            Side::Honest if self.models.len() < KEPT => {
                self.register(files, HONEST, draws, out);
            }
            Side::Honest if draws.below(300) == 0 => {
                let record = Digest::new(*draws.pick(&self.models).as_bytes());
                let amount = milli(100);
                out.send(&self.wallet, Transaction::PayRent { record, amount });
            }
            Side::Hostile if moment.is_hostile && draws.below(60) == 0 => {
                self.register_bad(files, draws, out);
            }
            Side::Honest | Side::Hostile => {}
        }
    }

    fn register(
        &mut self,
        files: &mut Files,
        holders: u8,
        draws: &mut Draws,
        out: &mut Outbox<'_>,
    ) {
        let model = ModelId::new(*digest(draws).as_bytes());
        let truth = Truth {
            // Of every other one a dispute ends at a tile.
            facts: Some(facts(
                &model,
                REPEATED_MACS + u64::from(model.as_bytes()[0] % 2),
            )),
            is_delivered: true,
            holders,
            can_be_served: true,
        };
        self.send(model, truth, files, out);
    }

    fn register_bad(&mut self, files: &mut Files, draws: &mut Draws, out: &mut Outbox<'_>) {
        let model = ModelId::new(*digest(draws).as_bytes());
        let good = facts(&model, 400_000);
        let (facts, is_delivered, holders, can_be_served) = match draws.below(8) {
            // A proof that does not hold; a public part that nobody gets.
            0 | 1 => (None, true, HONEST, true),
            2 | 3 => (Some(good), false, HONEST, true),
            // Files that nobody has, or f.
            4 => (Some(good), true, 0, true),
            5 => (Some(good), true, HOSTILE | 1, true),
            // A model that nobody can serve in time.
            _ => (Some(good), true, HONEST, false),
        };
        let truth = Truth {
            facts,
            is_delivered,
            holders,
            can_be_served,
        };
        self.send(model, truth, files, out);
    }

    fn send(&mut self, model: ModelId, truth: Truth, files: &mut Files, out: &mut Outbox<'_>) {
        files.models.insert(model, truth);
        self.models.push(model);
        let register = Transaction::RegisterModel {
            model,
            public_blob: Digest::new(*model.as_bytes()),
            weights_blob: Digest::new(*model.as_bytes()),
            name: Label::lossy("a model"),
        };
        out.send(&self.wallet, register);
    }
}

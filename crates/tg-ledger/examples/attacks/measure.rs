//! What an attack costs whom: the same honest people run with and without it, and the difference is counted.
//!
//! *Cost* is what the attackers together own less at the end, everything counted that is locked and comes back; *gain* is
//! what they own more. The *loss* of honest parties is the money that requestors, providers and validators own less (each
//! group by itself, so that a group that earns from an attack offsets no other), the time for which machines were held by
//! leases that ended unpaid, at their price for the declared time, and for each honest order the time by which it was paid
//! later, at its price for the time that it takes undisturbed. An order that ended unpaid counts as late until its end, or
//! the end of the run, and as ordered once more after that.

use std::collections::BTreeMap;

use tg_ledger::{JobState, LeaseEnd};
use tg_types::JobId;

use super::grid::{DECLARED, Grid, Plan, REQUESTORS};

/// What an attacker does before each block; called from the block on in which the offers of the plan stand.
pub(crate) type Play = Box<dyn FnMut(&mut Grid)>;

/// Where an attack is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// In every test run.
    Quick,
    /// Only where the table is made.
    Large,
}

/// One attack.
pub(crate) struct Attack {
    /// What is done.
    pub(crate) name: &'static str,
    /// By whom.
    pub(crate) who: &'static str,
    /// What bounds the loss.
    pub(crate) bound: &'static str,
    pub(crate) size: Size,
    /// The honest people.
    pub(crate) plan: Plan,
    /// What is done in the run without the attack too: what attackers would do as honest people.
    pub(crate) always: Option<Play>,
    /// What is done in the run without the attack alone: how attackers would earn as much openly.
    pub(crate) instead: Option<Play>,
    pub(crate) play: Play,
    /// Whether the attack happened as its name says.
    pub(crate) happened: fn(&Grid) -> bool,
}

/// What was measured; money in base units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Figures {
    /// What attackers own more than without the attack; less if negative.
    pub(crate) gain: i128,
    /// Money that honest requestors, providers and validators own less, capacity that was held, and delay.
    pub(crate) money: i128,
    pub(crate) held: i128,
    pub(crate) delay: i128,
    /// By how much the most delayed honest order was late, in milliseconds.
    pub(crate) lost_ms: u64,
}

/// What is left of a run.
struct Run {
    attackers: i128,
    requestors: i128,
    providers: i128,
    validators: i128,
    held: i128,
    /// How long each honest order took to its end, whether it was paid, and its price.
    orders: BTreeMap<usize, (u64, bool, i128)>,
    /// How long each took to the end of the run.
    open: BTreeMap<usize, u64>,
}

/// Runs an attack, and the same without it.
pub(crate) fn measure(attack: Attack) -> Figures {
    let Attack {
        plan,
        always,
        mut instead,
        mut play,
        happened,
        name,
        ..
    } = attack;
    let mut always = always.unwrap_or_else(|| Box::new(|_| {}));
    let without = run(plan.clone(), &mut always, instead.as_mut()).0;
    let (with, grid) = run(plan, &mut always, Some(&mut play));
    grid.summary();
    assert!(happened(&grid), "`{name}` did not happen: {:?}", grid.sent);
    for (index, (_, is_paid, _)) in &without.orders {
        assert!(
            is_paid,
            "`{name}`: order {index} is unpaid without the attack"
        );
    }
    let lost = |less: i128, more: i128| (less - more).max(0);
    let held = (with.held - without.held).max(0);
    // What attackers pay for machines that they held offsets what holding them cost.
    let providers = (without.providers - with.providers + held).max(0);
    let money = lost(without.requestors, with.requestors)
        + lost(without.validators, with.validators)
        + lost(without.providers, with.providers).min(providers);
    let held = providers - lost(without.providers, with.providers).min(providers);
    let (mut delay, mut most) = (0_i128, 0_u64);
    for (index, (took, _, price)) in &without.orders {
        let open = with.open.get(index).copied().unwrap_or(*took);
        let (lasted, is_paid, _) = with.orders.get(index).copied().unwrap_or((open, false, 0));
        let again = if is_paid { 0 } else { *took };
        let late = lasted.saturating_sub(*took) + again;
        most = most.max(late);
        delay += price * i128::from(late) / i128::from(*took);
    }
    Figures {
        gain: with.attackers - without.attackers,
        money,
        held,
        delay,
        lost_ms: most,
    }
}

fn run(plan: Plan, always: &mut Play, mut play: Option<&mut Play>) -> (Run, Grid) {
    let steps = plan.steps;
    let mut grid = Grid::new(plan);
    while grid.step < steps {
        if grid.step >= 4 {
            always(&mut grid);
            if let Some(play) = play.as_mut() {
                play(&mut grid);
            }
        }
        grid.advance();
    }
    (account(&grid), grid)
}

fn account(grid: &Grid) -> Run {
    let is_hostile = |name: &str| name.starts_with('x');
    let is_validator = |name: &str| name.starts_with("validator");
    let is_requestor = |name: &str| REQUESTORS.contains(&name) || name == "mia";
    let is_provider = |name: &str| {
        !is_hostile(name) && !is_validator(name) && !is_requestor(name) && !name.is_empty()
    };
    let ends = grid.state.head().timestamp.get();
    let order = |index: &usize, id: &JobId| {
        let begun = grid.begun.get(index)?;
        let job = grid.state.job(id)?;
        let is_paid = job.state() == JobState::Paid;
        let last = job.history.last().map_or(ends, |it| it.timestamp.get());
        let ended = if job.state().is_final() { last } else { ends };
        let price = job
            .settlement()
            .map_or(0, |it| it.price.saturating_add(it.members).get());
        Some((ended.saturating_sub(*begun), is_paid, price as i128))
    };
    let orders = grid.jobs.iter();
    Run {
        attackers: grid.worth(is_hostile),
        requestors: grid.worth(is_requestor),
        providers: grid.worth(is_provider),
        validators: grid.worth(is_validator),
        held: held(grid),
        orders: orders
            .filter_map(|(index, id)| Some((*index, order(index, id)?)))
            .collect(),
        open: grid
            .begun
            .iter()
            .map(|(index, begun)| (*index, ends - begun))
            .collect(),
    }
}

/// What machines of honest providers cost while leases held them that ended unpaid, or did not end.
fn held(grid: &Grid) -> i128 {
    let now = grid.state.head().time;
    let leases = grid.state.leases().iter();
    let unpaid = leases
        .filter(|it| it.end() != Some(&LeaseEnd::Fulfilled) && !grid.is_hostile(&it.provider));
    let cost = unpaid.map(|lease| {
        let job = grid.state.job(&lease.job);
        let reference = job.map_or(0, |it| it.order.needs.reference.get());
        let declared = reference.max(DECLARED);
        let from = lease.matched_at.max(lease.grant.from);
        let held = lease.ended_at().unwrap_or(now).saturating_since(from).get();
        lease.price.get() as i128 * i128::from(held) / i128::from(declared)
    });
    cost.sum()
}

//! Which faults were there while jobs were in which state, counted over runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use tg_ledger::{Event, JobState};
use tg_node::Finalized;

use crate::plan::{PlannedSeats, ProviderRole, RequestorRole, SeatRole, SimPlan};

/// How often a job entered a state while a fault was there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultCoverage {
    counts: BTreeMap<(String, u8), u64>,
    /// Faults that are there for the whole run.
    standing: BTreeSet<String>,
    /// Faults with a beginning and an end, in milliseconds.
    passing: Vec<(u64, u64, String)>,
}

impl FaultCoverage {
    /// The faults of a plan, nothing counted.
    pub(crate) fn new(plan: &SimPlan) -> Self {
        let mut standing = BTreeSet::from(["any".to_owned()]);
        for role in plan.seats.iter().filter(|it| **it != SeatRole::Honest) {
            standing.insert(format!("validator {}", role.name()));
        }
        let PlannedSeats { newcomers, leavers } = &plan.seat_changes;
        for newcomer in newcomers.iter().flatten() {
            let name = match newcomer.is_silent {
                true => "silent newcomer",
                false => "newcomer",
            };
            standing.insert(name.to_owned());
        }
        if leavers.iter().any(Option::is_some) {
            standing.insert("leaver".to_owned());
        }
        for provider in plan.providers.iter().flatten() {
            if provider.role != ProviderRole::Honest {
                standing.insert(format!("provider {}", provider.role.name()));
            }
            if provider.price_shock {
                standing.insert("price shock".to_owned());
            }
        }
        for requestor in plan.requestors.iter().flatten() {
            if requestor.role != RequestorRole::Honest {
                standing.insert(format!("requestor {}", requestor.role.name()));
            }
        }
        if plan.clients.iter().any(Option::is_some) {
            standing.insert("lying gateway".to_owned());
        }
        if plan.gateways.iter().any(Option::is_some) {
            standing.insert("gateway that follows".to_owned());
        }
        if plan.seals {
            standing.insert("sealed jobs".to_owned());
        }
        if plan.floats {
            standing.insert("float model".to_owned());
        }
        let faults = plan.faults.iter().flatten();
        let passing = faults.map(|it| (it.at_ms, it.at_ms + it.for_ms, it.kind.name().to_owned()));
        let renewals = plan.release.iter();
        let passing =
            passing.chain(renewals.map(|it| (it.at_ms, it.at_ms, "new release".to_owned())));
        Self {
            counts: BTreeMap::new(),
            standing,
            passing: passing.collect(),
        }
    }

    /// Counts the states that jobs entered in a block.
    pub(crate) fn block(&mut self, block: &Finalized, at_ms: u64) {
        let begins = |it: &Event| matches!(it, Event::ProtocolBegan { .. });
        if block.events.iter().any(begins) {
            self.standing.insert("next protocol".to_owned());
        }
        let states = block.events.iter().filter_map(|event| match event {
            Event::JobChanged { state, .. } => Some(*state as u8),
            _ => None,
        });
        for state in states {
            let passing = self.passing.iter();
            let passing = passing.filter(|(from, to, _)| (*from..=*to + 1_000).contains(&at_ms));
            let names = self.standing.iter().chain(passing.map(|(_, _, name)| name));
            for name in names {
                *self.counts.entry((name.clone(), state)).or_default() += 1;
            }
        }
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        for (key, count) in &other.counts {
            *self.counts.entry(key.clone()).or_default() += count;
        }
    }
}

/// The states in the order of the table.
const STATES: [(JobState, &str); 12] = [
    (JobState::Submitted, "submitted"),
    (JobState::Queued, "queued"),
    (JobState::Leased, "leased"),
    (JobState::Running, "running"),
    (JobState::Committed, "committed"),
    (JobState::Verifying, "verifying"),
    (JobState::Delivering, "delivering"),
    (JobState::Accepted, "accepted"),
    (JobState::Paid, "paid"),
    (JobState::Refunded, "refunded"),
    (JobState::Expired, "expired"),
    (JobState::Cancelled, "cancelled"),
];

impl fmt::Display for FaultCoverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<24}", "fault")?;
        for (_, name) in STATES {
            write!(f, " {name:>10}")?;
        }
        let names: BTreeSet<&String> = self.counts.keys().map(|(name, _)| name).collect();
        for name in names {
            write!(f, "\n{name:<24}")?;
            for (state, _) in STATES {
                let count = self.counts.get(&(name.clone(), state as u8));
                write!(f, " {:>10}", count.copied().unwrap_or(0))?;
            }
        }
        Ok(())
    }
}

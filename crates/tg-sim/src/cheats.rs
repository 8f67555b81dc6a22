//! Each cheat against each way of checking, measured: one hostile party, or several that work together, among honest ones, with
//! nothing else that fails.

use tg_types::{Amount, VerificationMode};

use crate::plan::{
    Links, PlannedSeats, ProviderPlan, ProviderRole, RequestorPlan, RequestorRole, SeatRole,
    SimPlan,
};
use crate::run::{PartyReport, SimOptions, SimReport, run};

/// Validators of a run: one of them may be faulty.
const SEATS: usize = 4;

/// So many of them are a majority that validators may not have: more than two thirds.
const BRIBED: usize = 3;

/// Orders of a run.
const ORDERS: u64 = 20;

/// A way to cheat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheatKind {
    /// What it is called.
    pub name: &'static str,
    /// What the provider does that is cheapest.
    pub provider: ProviderRole,
    /// What the last validators of four do.
    pub seat: SeatRole,
    /// How many of them do.
    pub seats: usize,
    /// What the requestor does.
    pub requestor: RequestorRole,
}

impl CheatKind {
    /// All that are measured.
    pub const ALL: [Self; 21] = [
        Self::provider("a result that is wrong all over", ProviderRole::Wrong),
        Self::provider(
            "a result that is wrong in one part of twenty",
            ProviderRole::OnePart,
        ),
        Self::provider(
            "the same, and no evidence if that part is drawn",
            ProviderRole::Picker,
        ),
        Self::provider("the evidence of an earlier job", ProviderRole::Stale),
        Self::provider("the evidence of another provider", ProviderRole::Copied),
        Self::provider("half of the evidence", ProviderRole::Partial),
        Self::provider("evidence that nobody gets", ProviderRole::Withheld),
        Self::seat(
            "evidence for a validator that is its friend, and nobody else",
            ProviderRole::Selective,
            SeatRole::StorageLiar,
        ),
        Self::seat(
            "a wrong result for all but its friends, and evidence for a validator that is its friend",
            ProviderRole::SelectiveLiar,
            SeatRole::StorageLiar,
        ),
        Self::provider("a start and no result", ProviderRole::Idle),
        Self::provider("no start", ProviderRole::Absent),
        Self::provider(
            "a bill for all that a run of a program may take",
            ProviderRole::Overcharger,
        ),
        Self::seat(
            "a member that looks at nothing",
            ProviderRole::Honest,
            SeatRole::LazyMember,
        ),
        Self::seat(
            "a member that sleeps and a wrong result",
            ProviderRole::Wrong,
            SeatRole::Sleeper,
        ),
        Self::seat(
            "a bribed member and a wrong result",
            ProviderRole::Wrong,
            SeatRole::BribedWatcher,
        ),
        Self {
            seats: BRIBED,
            ..Self::seat(
                "three bribed members of four and a wrong result",
                ProviderRole::Wrong,
                SeatRole::BribedMember,
            )
        },
        Self::seat(
            "a member that accuses everybody",
            ProviderRole::Honest,
            SeatRole::FalseAccuser,
        ),
        Self::seat(
            "a member that copies votes",
            ProviderRole::Honest,
            SeatRole::VoteCopier,
        ),
        Self::seat(
            "a validator that withholds seeds",
            ProviderRole::Honest,
            SeatRole::SeedWithholder,
        ),
        Self::seat(
            "a validator that lies about evidence",
            ProviderRole::Wrong,
            SeatRole::VerdictLiar,
        ),
        Self::requestor("orders that are taken back", RequestorRole::Fickle),
    ];

    const fn provider(name: &'static str, provider: ProviderRole) -> Self {
        Self::seat(name, provider, SeatRole::Honest)
    }

    const fn seat(name: &'static str, provider: ProviderRole, seat: SeatRole) -> Self {
        Self {
            name,
            provider,
            seat,
            seats: 1,
            requestor: RequestorRole::Honest,
        }
    }

    const fn requestor(name: &'static str, requestor: RequestorRole) -> Self {
        Self {
            requestor,
            ..Self::seat(name, ProviderRole::Honest, SeatRole::Honest)
        }
    }

    /// Who orders: of a provider that has friends, half of the orders are of one.
    fn requestors(&self) -> Vec<Option<RequestorPlan>> {
        let requestor = |role, orders| {
            Some(RequestorPlan {
                role,
                gateway: 1,
                orders,
            })
        };
        match self.provider {
            ProviderRole::SelectiveLiar => vec![
                requestor(self.requestor, ORDERS / 2),
                requestor(RequestorRole::Friend, ORDERS - ORDERS / 2),
            ],
            _ => vec![requestor(self.requestor, ORDERS)],
        }
    }

    /// A run of it.
    #[must_use]
    pub fn plan(&self, way: CheckedBy, seed: u64) -> SimPlan {
        let provider = |role, price_milli| {
            Some(ProviderPlan {
                role,
                gateway: 0,
                slots: 4,
                price_milli,
                work_ms: 200,
                price_shock: false,
            })
        };
        let mut seats = vec![SeatRole::Honest; SEATS];
        seats[SEATS - self.seats..].fill(self.seat);
        SimPlan {
            seed,
            seats,
            links: Links {
                latency_ms: 20,
                jitter_ms: 5,
                loss_permille: 0,
            },
            providers: vec![
                provider(self.provider, 1_000),
                provider(ProviderRole::Honest, 1_500),
                provider(ProviderRole::Honest, 1_600),
            ],
            requestors: self.requestors(),
            release: Vec::new(),
            seat_changes: PlannedSeats::default(),
            lapse: None,
            clients: Vec::new(),
            gateways: Vec::new(),
            clocks_ms: Vec::new(),
            faults: Vec::new(),
            mode: Some(way.mode),
            by_tile: way.by_tile,
            run_whole: way.run_whole,
            retains: false,
            programs: way.programs,
            floats: way.floats,
            seals: false,
            heal_ms: 30_000,
            without: Vec::new(),
        }
    }
}

/// A way of checking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckedBy {
    /// The mode of the orders.
    pub mode: VerificationMode,
    /// Whether the model is too large for validators to repeat it, so that a dispute ends at one tile.
    pub by_tile: bool,
    /// Whether a committee of mode sync runs the model whole, as its runs are short.
    pub run_whole: bool,
    /// Whether orders name a program.
    pub programs: bool,
    /// Whether orders name a float model.
    pub floats: bool,
}

impl CheckedBy {
    /// Every way that is measured.
    pub const ALL: [Self; 13] = [
        Self::mode(VerificationMode::None),
        Self::mode(VerificationMode::Recompute),
        Self::mode(VerificationMode::Proof),
        Self::mode(VerificationMode::Sync),
        Self {
            run_whole: true,
            ..Self::mode(VerificationMode::Sync)
        },
        Self::mode(VerificationMode::Optimistic),
        Self {
            by_tile: true,
            ..Self::mode(VerificationMode::Optimistic)
        },
        Self::mode(VerificationMode::Replicate),
        Self {
            programs: true,
            ..Self::mode(VerificationMode::Sync)
        },
        Self {
            programs: true,
            ..Self::mode(VerificationMode::Optimistic)
        },
        Self {
            programs: true,
            by_tile: true,
            ..Self::mode(VerificationMode::Optimistic)
        },
        Self {
            floats: true,
            ..Self::mode(VerificationMode::Sync)
        },
        Self {
            floats: true,
            ..Self::mode(VerificationMode::Optimistic)
        },
    ];

    const fn mode(mode: VerificationMode) -> Self {
        Self {
            mode,
            by_tile: false,
            run_whole: false,
            programs: false,
            floats: false,
        }
    }
}

impl std::fmt::Display for CheckedBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.mode.as_str())?;
        f.write_str(match (self.by_tile, self.programs, self.floats) {
            (true, true, _) => ", one call",
            (true, false, true) => ", one node",
            (true, false, false) => ", one tile",
            (false, true, _) => ", a program",
            (false, false, true) => ", a float model",
            (false, false, false) => "",
        })?;
        f.write_str(if self.run_whole { ", short runs" } else { "" })
    }
}

/// Most that a party pays in fees of transactions, in thousandths of a TGRID: who has lost more was caught.
const FEES_MILLI: i128 = 100;

/// What a cheat came to under one way of checking, all runs together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CheatReport {
    /// Runs.
    pub runs: u64,
    /// Runs that broke a rule of the simulator.
    pub broken: u64,
    /// Jobs that were ordered.
    pub jobs: u64,
    /// Jobs that were paid.
    pub paid: u64,
    /// Leases that were made, those of the cheat among them.
    pub leases: u64,
    /// Leases that the hostile provider took.
    pub taken: u64,
    /// Wrong results that were paid.
    pub wrong: u64,
    /// Right results of the hostile provider that were paid.
    pub right: u64,
    /// From order to payment, all paid jobs together, in milliseconds.
    pub paid_ms: u64,
    /// What the hostile provider gained, or lost.
    pub provider: Change,
    /// What the hostile seat gained, or lost.
    pub seat: Change,
}

/// What a party gained or lost, in thousandths of a TGRID.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Change(i128);

impl Change {
    fn add(&mut self, party: PartyReport) {
        let milli =
            |amount: Amount| i128::try_from(amount.get() / 1_000_000_000_000_000).unwrap_or(0);
        self.0 += milli(party.after) - milli(party.before);
    }

    /// In thousandths of a TGRID.
    #[must_use]
    pub const fn milli(self) -> i128 {
        self.0
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (sign, milli) = (if self.0 < 0 { "-" } else { "+" }, self.0.unsigned_abs());
        write!(f, "{sign}{}.{:03}", milli / 1_000, milli % 1_000)
    }
}

/// Measures a cheat in runs of these seeds.
#[must_use]
pub fn measure(
    cheat: &CheatKind,
    way: CheckedBy,
    seeds: std::ops::Range<u64>,
    options: SimOptions,
) -> CheatReport {
    let mut sum = CheatReport::default();
    for seed in seeds {
        sum.add(&run(&cheat.plan(way, seed), options));
    }
    sum
}

impl CheatReport {
    /// Whether the cheat was caught: *yes* if no wrong result was paid and a party lost more than fees by it; of wrong results that were paid, how
    /// many of the cheat's leases, but those of which a right one was paid, ended in no such payment; else nothing was wrong.
    #[must_use]
    pub fn caught(&self) -> String {
        let has_lost = |change: Change| change.milli() < -FEES_MILLI;
        if self.wrong > 0 {
            let lies = self.taken.saturating_sub(self.right);
            format!("{} of {lies}", lies.saturating_sub(self.wrong))
        } else if has_lost(self.provider) || has_lost(self.seat) {
            "yes".to_owned()
        } else {
            "nothing wrong".to_owned()
        }
    }

    fn add(&mut self, report: &SimReport) {
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        self.runs += 1;
        self.broken += u64::from(!report.violations.is_empty());
        self.jobs += count(report.jobs);
        self.paid += count(report.paid);
        self.paid_ms += report.paid_ms;
        self.leases += count(report.leases);
        self.wrong += report
            .providers
            .iter()
            .map(|it| it.results.wrong)
            .sum::<u64>();
        if let Some(provider) = report.providers.first() {
            self.taken += count(provider.leases);
            self.right += provider.results.right;
            self.provider.add(*provider);
        }
        if let Some(seat) = report.seats.last() {
            self.seat.add(*seat);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{BRIBED, Change, CheatKind, CheatReport, CheckedBy};
    use crate::plan::{SeatRole, SimPlan};

    #[test]
    fn only_a_bribed_majority_is_more_than_the_network_bears() {
        for cheat in CheatKind::ALL {
            let plan = cheat.plan(CheckedBy::ALL[0], 0);
            let seats = plan.seats.iter();
            let hostile = seats.filter(|it| **it != SeatRole::Honest).count();
            let is_majority = cheat.seats == BRIBED;
            assert_eq!(plan.is_outvoted(), is_majority, "{}", cheat.name);
            assert!(hostile <= plan.faults_max() || is_majority);
            let orders = plan.requestors.iter().flatten().map(|it| it.orders);
            assert_eq!(orders.sum::<u64>(), super::ORDERS, "{}", cheat.name);
        }
        assert!((0..300).all(|seed| !SimPlan::drawn(seed).is_outvoted()));
    }

    #[test]
    fn each_way_and_each_cheat_has_a_name_of_its_own() {
        let ways = CheckedBy::ALL.map(|it| it.to_string());
        assert_eq!(BTreeSet::from(ways).len(), CheckedBy::ALL.len());
        let cheats = CheatKind::ALL.map(|it| it.name);
        assert_eq!(BTreeSet::from(cheats).len(), CheatKind::ALL.len());
        let floats = CheckedBy::ALL.into_iter().filter(|it| it.floats);
        assert!(floats.clone().count() == 2 && floats.clone().all(|it| !it.programs));
        for way in floats {
            assert!(CheatKind::ALL[0].plan(way, 0).floats, "{way}");
        }
    }

    #[test]
    fn who_was_paid_for_a_lie_was_not_caught() {
        let check = |wrong, provider, seat, expected: &str| {
            let report = CheatReport {
                taken: 12,
                wrong,
                provider: Change(provider),
                seat: Change(seat),
                ..CheatReport::default()
            };
            assert_eq!(report.caught(), expected);
        };
        check(0, -60_004, 90, "yes");
        check(0, 39_996, -40_000, "yes");
        check(0, -4, 0, "nothing wrong");
        check(0, 39_996, 90, "nothing wrong");
        check(10, -30_004, 90, "2 of 12");
        check(12, 12_000, 0, "0 of 12");
        // Two members may be paid for one lease's result.
        check(13, 12_000, 0, "0 of 12");
        // Of its friends it had right results paid.
        let report = CheatReport {
            taken: 12,
            right: 5,
            wrong: 6,
            ..CheatReport::default()
        };
        assert_eq!(report.caught(), "1 of 7");
    }
}

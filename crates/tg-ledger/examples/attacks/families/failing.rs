//! Providers that underbid and do not serve.

use tg_ledger::{JobState, LeaseEnd};
use tg_types::{DeclineReason, Transaction};

use super::super::grid::{ABSENT, BAD, Grid, Plan, Want, bait, evidence, receipt, register, terms};
use super::super::measure::Attack;
use super::{attack, post, work};

pub(crate) fn attacks() -> Vec<Attack> {
    vec![
        never_starts(),
        fresh_names(),
        declines("declines what it is given", DeclineReason::Unwilling, 0),
        declines(
            "declines and says that the input is missing, which it is not",
            DeclineReason::InputMissing,
            0,
        ),
        declines(
            "declines and says that the input is missing, and a validator says so too",
            DeclineReason::InputMissing,
            1,
        ),
        ally_comes_next(),
        starts_and_vanishes(),
        vanishes_on_a_new_model(),
        wrong_proof(),
        evidence_withheld(),
        unprovable_model(),
    ]
}

const BOUND_START: &str = "one start timeout for each name and order: whoever failed an order does not get it again; \
    the penalty doubles with each lease that is not started within the hour, and so does the time without leases";

const BOUND_LATE: &str = "one lease of an order for each name, for at most three declared times and 20 s; its collateral, here the \
    least that may be put up, burns, its standing falls with each, and below the floor it gets no leases";

/// An underbidder that takes what it is given and does what `act` says.
fn underbids(
    name: &'static str,
    who: &'static str,
    plan: Plan,
    mut act: impl FnMut(&mut Grid) + 'static,
) -> Attack {
    attack(name, who, plan, move |grid| {
        if grid.step == 90 {
            post(grid, "x0", bait(1));
        }
        act(grid);
    })
}

fn has_end(grid: &Grid, is: impl Fn(&LeaseEnd) -> bool) -> bool {
    let leases = grid.state.leases().iter();
    let mut theirs = leases.filter(|it| grid.is_hostile(&it.provider));
    theirs.any(|it| it.end().is_some_and(&is))
}

fn never_starts() -> Attack {
    Attack {
        bound: BOUND_START,
        happened: |grid| has_end(grid, |end| matches!(end, LeaseEnd::Abandoned(_))),
        ..underbids(
            "bids below all others and never starts",
            "provider",
            Plan::usual(),
            |_| {},
        )
    }
}

fn fresh_names() -> Attack {
    // A name for each order, so that no penalty doubles.
    let play = |grid: &mut Grid| {
        let names = ["x0", "x1", "x2", "x3", "x4", "x5"];
        for (index, name) in names.into_iter().enumerate() {
            if grid.step == 100 + 10 * index as u64 {
                post(grid, name, bait(1));
            }
            if grid.step == 106 + 10 * index as u64 {
                let offers = grid.offers_of(name);
                for offer in offers {
                    grid.send(name, Transaction::WithdrawOffer { offer });
                }
            }
        }
    };
    Attack {
        bound: BOUND_START,
        happened: |grid| has_end(grid, |end| matches!(end, LeaseEnd::Abandoned(_))),
        ..attack(
            "a new name for each order that is taken and never started",
            "provider",
            Plan::usual(),
            play,
        )
    }
}

fn declines(name: &'static str, reason: DeclineReason, corrupt: usize) -> Attack {
    let who = match corrupt {
        0 => "provider",
        _ => "provider, one validator of four",
    };
    let act = move |grid: &mut Grid| {
        for (job, lease) in grid.leases("x0") {
            if job.state() == JobState::Leased {
                let lease = lease.id;
                grid.send("x0", Transaction::DeclineLease { lease, reason });
            }
        }
        if corrupt > 0 {
            super::say_missing(grid);
        }
    };
    Attack {
        bound: "",
        happened: |grid| has_end(grid, |end| matches!(end, LeaseEnd::Declined(_))),
        ..underbids(name, who, Plan::usual().with_corrupt(corrupt), act)
    }
}

fn ally_comes_next() -> Attack {
    let always = |grid: &mut Grid| {
        if grid.step == 90 {
            post(grid, "x provider", terms(40));
        }
        work(grid, "x provider");
    };
    let play = |grid: &mut Grid| {
        if grid.step == 90 {
            for name in ["x0", "x1", "x2"] {
                post(grid, name, bait(1));
            }
        }
        for name in ["x0", "x1", "x2"] {
            for (job, lease) in grid.leases(name) {
                if job.state() == JobState::Leased {
                    let (lease, reason) = (lease.id, DeclineReason::Unwilling);
                    grid.send(name, Transaction::DeclineLease { lease, reason });
                }
            }
        }
    };
    Attack {
        always: Some(Box::new(always)),
        bound: "",
        happened: |grid| has_end(grid, |end| matches!(end, LeaseEnd::Declined(_))),
        ..attack(
            "three names underbid and decline so that a dearer ally comes next",
            "two providers",
            Plan::usual(),
            play,
        )
    }
}

fn starts_and_vanishes() -> Attack {
    let act = |grid: &mut Grid| {
        for (_, lease) in grid.leases("x0") {
            if lease.started_at().is_none() {
                grid.send("x0", Transaction::StartLease { lease: lease.id });
            }
        }
    };
    Attack {
        bound: BOUND_LATE,
        happened: |grid| has_end(grid, |end| matches!(end, LeaseEnd::Late(_))),
        ..underbids(
            "starts and never hands in anything",
            "provider",
            Plan::usual(),
            act,
        )
    }
}

const NEW: tg_types::ModelId = tg_types::ModelId::new([0x21; 32]);

/// The usual market with a second model, which nobody was paid for, and one order of it.
fn with_new_model(count: u64) -> Plan {
    let mut plan = Plan::usual();
    plan.wants.truncate(8);
    plan.wants.extend((0..count).map(|index| Want {
        model: NEW,
        ..Want::usual(100 + 10 * index, "rosa")
    }));
    plan
}

fn vanishes_on_a_new_model() -> Attack {
    let mut attack = underbids(
        "starts and never hands in anything, of a model for which nobody was paid yet",
        "provider",
        with_new_model(1),
        |grid| {
            for (_, lease) in grid.leases("x0") {
                if lease.started_at().is_none() {
                    grid.send("x0", Transaction::StartLease { lease: lease.id });
                }
            }
        },
    );
    attack.always = Some(Box::new(|grid: &mut Grid| {
        if grid.step == 20 {
            grid.send("x9", register(NEW));
        }
    }));
    Attack {
        bound: "three owners: once they were paid for the model all of the collateral is at risk; until then one lease \
            of at most three declared times and 20 s for each name and order",
        happened: |grid| has_end(grid, |end| matches!(end, LeaseEnd::Late(_))),
        ..attack
    }
}

fn hands_in(grid: &mut Grid, digest: tg_types::Digest) {
    for (job, lease) in grid.leases("x0") {
        let lease_id = lease.id;
        let next = match job.state() {
            JobState::Leased => Transaction::StartLease { lease: lease_id },
            JobState::Running => Transaction::CommitReceipt {
                lease: lease_id,
                receipt: receipt(&job),
            },
            JobState::Committed => evidence(lease_id, digest),
            _ => continue,
        };
        grid.send("x0", next);
    }
}

fn wrong_proof() -> Attack {
    Attack {
        happened: |grid| has_end(grid, |end| matches!(end, LeaseEnd::Rejected { .. })),
        ..underbids(
            "hands in a proof that does not hold",
            "provider",
            Plan::usual(),
            |grid| hands_in(grid, BAD),
        )
    }
}

fn evidence_withheld() -> Attack {
    Attack {
        bound: BOUND_LATE,
        happened: |grid| has_end(grid, |end| matches!(end, LeaseEnd::Abandoned(_))),
        ..underbids(
            "names evidence that nobody can get",
            "provider",
            Plan::usual(),
            |grid| hands_in(grid, ABSENT),
        )
    }
}

fn unprovable_model() -> Attack {
    let play = |grid: &mut Grid| {
        if grid.step == 60 {
            grid.send("x9", register(NEW));
            post(grid, "x provider", terms(63));
        }
        if grid.step == 100 {
            for _ in 0..5 {
                let mut order = grid.order(64, 200_000);
                order.model = NEW;
                order.max_attempts = 16;
                grid.submit("x requestor", order);
            }
        }
        grid.unprovable = Some(NEW);
        work(grid, "x provider");
    };
    Attack {
        bound: "validators refuse models whose proof, time or memory is beyond what they declare; one lease of an order for each \
            provider, which risks ten times its gas until three owners were paid for the model",
        happened: |grid| {
            let leases = grid.state.leases().iter();
            let mut honest = leases.filter(|it| !grid.is_hostile(&it.provider));
            honest.any(|it| matches!(it.end(), Some(LeaseEnd::Late(_))))
        },
        ..attack(
            "a model that executes and cannot be proved, and a machine of one's own that is matched last",
            "registrant, requestor, provider",
            Plan::usual(),
            play,
        )
    }
}

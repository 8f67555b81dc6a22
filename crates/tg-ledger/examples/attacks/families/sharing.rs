//! Machines that several hold: spot jobs that make room, and gangs.

use tg_ledger::{JobState, LatePhase, LeaseEnd};
use tg_types::{Amount, CapacityTier, JobNeeds, Transaction};

use super::super::grid::{Grid, Plan, REQUESTORS, Want, gpu_needs, gpu_terms, milli, receipt};
use super::super::measure::Attack;
use super::{attack, post, work};

pub(crate) fn attacks() -> Vec<Attack> {
    vec![
        pushed_out(
            "pushes a spot job out and takes the order back when its machine is free",
            Then::CancelWhenPlaced,
        ),
        pushed_out(
            "tells a spot job to leave and takes the order back before it left",
            Then::CancelWhileLeaving,
        ),
        pushed_out(
            "pushes a spot job out for an order whose deadline passes meanwhile",
            Then::LetItExpire,
        ),
        own_spot_jobs(),
        member("joins gangs and never starts", 0, cheap_machine),
        Attack {
            bound: "one lease of an order for each name, and of an order that states its GPU time: while nobody handed in anything, an \
                    order of too little time and a member of too little work look the same, so both lose the same, at most the price",
            ..member(
                "joins gangs, starts, and hands in no part",
                1,
                cheap_machine,
            )
        },
        member(
            "joins gangs and hands in its part, but not the result if it leads",
            2,
            leading_machine,
        ),
        members_ally(),
    ]
}

/// What the attacker does after it asked for a place.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    CancelWhenPlaced,
    CancelWhileLeaving,
    LetItExpire,
}

fn spot(seconds: u64) -> JobNeeds {
    JobNeeds {
        preemptible: true,
        tier: CapacityTier::Spot,
        ..gpu_needs(seconds)
    }
}

fn want(at: u64, index: usize, needs: JobNeeds) -> Want {
    Want {
        needs,
        max_price: milli(20_000),
        patience: 2_000_000,
        ..Want::usual(at, REQUESTORS[index % 3])
    }
}

/// One machine of an honest provider, and a spot job of 200 s on it.
fn one_machine() -> Plan {
    Plan {
        offers: vec![("ann", gpu_terms(10))],
        wants: vec![want(1, 0, gpu_needs(10)), want(40, 1, spot(200))],
        steps: 900,
        ..Plan::usual()
    }
}

fn pushed_out(name: &'static str, then: Then) -> Attack {
    let play = move |grid: &mut Grid| {
        if grid.step == 200 {
            let patience = match then {
                Then::LetItExpire => 2_000 + 34_000 + 2_000,
                Then::CancelWhenPlaced | Then::CancelWhileLeaving => 300_000,
            };
            let mut order = grid.order(10_000, patience);
            order.needs = JobNeeds {
                priority: 8,
                ..gpu_needs(30)
            };
            grid.submit("x requestor", order);
        }
        for job in grid.open_jobs("x requestor") {
            let is_due = match then {
                Then::CancelWhenPlaced => job.state() == JobState::Leased,
                Then::CancelWhileLeaving => job.state() == JobState::Queued,
                Then::LetItExpire => false,
            };
            if is_due {
                grid.send("x requestor", Transaction::CancelJob { job: job.id });
            }
        }
    };
    Attack {
        bound: match then {
            Then::CancelWhenPlaced => {
                "three times for one job, of a tier that is sold at two fifths of the price for that; whoever worked is paid for \
                 it out of the order's escrow, by the longest time of its lease"
            }
            Then::CancelWhileLeaving | Then::LetItExpire => "",
        },
        happened: |grid| {
            let mut jobs = grid.state.jobs().iter();
            jobs.any(|job| grid.is_hostile(&job.requestor) && job.state().is_final())
        },
        ..attack(name, "requestor", one_machine(), play)
    }
}

fn own_spot_jobs() -> Attack {
    let plan = Plan {
        offers: vec![("ann", gpu_terms(10))],
        wants: vec![
            want(1, 0, gpu_needs(10)),
            // It holds the only honest machine.
            want(30, 1, gpu_needs(600)),
            Want {
                needs: JobNeeds {
                    priority: 2,
                    ..gpu_needs(60)
                },
                ..want(200, 2, gpu_needs(60))
            },
        ],
        steps: 1_000,
        ..Plan::usual()
    };
    let instead = |grid: &mut Grid| {
        if grid.step == 60 {
            post(grid, "x provider", gpu_terms(13));
        }
        work(grid, "x provider");
    };
    let play = |grid: &mut Grid| {
        if grid.step == 60 {
            post(grid, "x provider", gpu_terms(10));
        }
        if grid.step == 62 {
            let mut order = grid.order(10_000, 900_000);
            order.needs = spot(400);
            grid.submit("x requestor", order);
        }
        work(grid, "x provider");
    };
    Attack {
        instead: Some(Box::new(instead)),
        bound: "no more than asking for it: beside a run in which it asks 13 instead of 10 for a second. Whoever comes pays within its maximum and goes to whoever is cheaper",
        happened: |grid| {
            let leases = grid.state.leases().iter();
            let mut theirs = leases.filter(|it| grid.is_hostile(&it.provider));
            theirs.any(|it| it.end() == Some(&LeaseEnd::Preempted))
        },
        ..attack(
            "fills its machine with spot jobs of its own, to be owed for them by whoever needs the machine",
            "provider, requestor",
            plan,
            play,
        )
    }
}

fn gang(seconds: u64) -> JobNeeds {
    JobNeeds {
        gang: 2,
        neighbourhood_us: 1_000,
        ..gpu_needs(seconds)
    }
}

/// Four machines near each other and gangs of two.
fn gangs() -> Plan {
    let names = ["ann", "ben", "cat", "dan"];
    let offers = names.iter().enumerate();
    let first = (0..4).map(|index| want(1, index, gpu_needs(10)));
    let later = (0..4).map(|index| Want {
        max_price: milli(2_000),
        ..want(100 + 60 * index as u64, index, gang(40))
    });
    Plan {
        offers: offers
            .map(|(index, name)| (*name, gpu_terms(10 + index as u64)))
            .collect(),
        wants: first.chain(later).collect(),
        steps: 700,
        ..Plan::usual()
    }
}

/// Does `upto` steps of what a member has to do: 1 starts, 2 hands in its part.
fn shirk(grid: &mut Grid, name: &str, upto: u8) {
    for (job, lease) in grid.leases(name) {
        let id = lease.id;
        if upto >= 1 && lease.started_at().is_none() {
            grid.send(name, Transaction::StartLease { lease: id });
        } else if upto >= 2
            && lease.lead().is_some()
            && lease.receipt().is_none()
            && job.state() == JobState::Running
        {
            let receipt = receipt(&job);
            grid.send(name, Transaction::CommitPart { lease: id, receipt });
        }
    }
}

fn cheap_machine() -> tg_types::OfferTerms {
    tg_types::OfferTerms {
        collateral_per_lease: milli(16_000),
        ..gpu_terms(1)
    }
}

/// One that asks more than the cheapest and less than all others: with the cheapest it is a gang, which it leads.
fn leading_machine() -> tg_types::OfferTerms {
    let price = gpu_terms(21).price_per_gpu_second.split(2);
    tg_types::OfferTerms {
        price_per_gpu_second: price.map_or(Amount::ZERO, |(half, _)| half),
        ..cheap_machine()
    }
}

fn failed(grid: &Grid) -> bool {
    let leases = grid.state.leases().iter();
    let mut theirs = leases.filter(|it| grid.is_hostile(&it.provider));
    theirs.any(|it| {
        matches!(
            it.end(),
            Some(LeaseEnd::Abandoned(_) | LeaseEnd::Late(LatePhase::Running))
        )
    })
}

fn member(name: &'static str, upto: u8, machine: fn() -> tg_types::OfferTerms) -> Attack {
    let play = move |grid: &mut Grid| {
        if grid.step == 90 {
            post(grid, "x0", machine());
        }
        shirk(grid, "x0", upto);
    };
    Attack {
        happened: failed,
        bound: "",
        ..attack(name, "provider", gangs(), play)
    }
}

fn members_ally() -> Attack {
    let mut plan = gangs();
    for want in &mut plan.wants {
        if want.needs.gang == 2 {
            want.needs.gang = 3;
        }
    }
    let play = |grid: &mut Grid| {
        if grid.step == 90 {
            post(grid, "x0", cheap_machine());
            post(grid, "x1", cheap_machine());
        }
        // One does its part, to be paid for its time out of what the other one forfeits.
        shirk(grid, "x0", 2);
        shirk(grid, "x1", 1);
    };
    Attack {
        happened: failed,
        bound: "",
        ..attack(
            "two members of a gang, of whom one fails so that the other is paid for its time",
            "two providers",
            plan,
            play,
        )
    }
}

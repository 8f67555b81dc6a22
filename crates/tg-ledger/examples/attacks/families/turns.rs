//! Turns go by the GPU time that an order states: too little, too much, in many parts, and to have machines held back.

use tg_ledger::{JobState, LatePhase, LeaseEnd};
use tg_types::{JobNeeds, JobOrder, Transaction};

use super::super::grid::{Grid, Plan, REQUESTORS, Want, gpu_needs, gpu_terms, milli};
use super::super::measure::Attack;
use super::attack;

pub(crate) fn attacks() -> Vec<Attack> {
    vec![
        understated(
            "states a second for orders of five minutes, to go before others",
            1,
        ),
        understated(
            "states a second for orders of five minutes, of a model that three owners were paid for",
            3,
        ),
        split(),
        overstated(),
        squats(),
    ]
}

fn want(at: u64, index: usize, needs: JobNeeds) -> Want {
    Want {
        needs,
        max_price: milli(20_000),
        patience: 4_000_000,
        ..Want::usual(at, REQUESTORS[index % 3])
    }
}

/// The machines of so many honest providers, by whose first jobs the model becomes known; then jobs of a minute keep them busy.
fn busy(providers: usize) -> Plan {
    let names = ["ann", "ben", "cat"];
    let offers = names.iter().take(providers);
    let first = (0..providers).map(|index| want(1, index, gpu_needs(10)));
    let later = (0..4 * providers).map(|index| want(100, index, gpu_needs(60)));
    Plan {
        offers: offers.map(|name| (*name, gpu_terms(10))).collect(),
        wants: first.chain(later).collect(),
        steps: 1_400,
        ..Plan::usual()
    }
}

/// An order of the attacker for `seconds` of a GPU.
fn order(grid: &Grid, needs: JobNeeds) -> JobOrder {
    JobOrder {
        needs,
        ..grid.order(20_000, 4_000_000)
    }
}

fn is_theirs(grid: &Grid, is: impl Fn(&LeaseEnd) -> bool) -> bool {
    grid.state.leases().iter().any(|lease| {
        let job = grid.state.job(&lease.job);
        let theirs = job.is_some_and(|job| grid.is_hostile(&job.requestor));
        theirs && lease.end().is_some_and(&is)
    })
}

fn understated(name: &'static str, providers: usize) -> Attack {
    let play = move |grid: &mut Grid| {
        grid.hostile_takes = Some(300_000);
        if grid.step == 110 {
            for _ in 0..providers {
                let order = order(grid, gpu_needs(1));
                grid.submit("x requestor", order);
            }
        }
    };
    Attack {
        bound: "one lease for each provider and attempt, cut at three times the declared time and 20 s; provider and order lose its \
            price each; the provider sees what is stated and may decline",
        happened: |grid| is_theirs(grid, |end| *end == LeaseEnd::Late(LatePhase::Running)),
        ..attack(name, "requestor", busy(providers), play)
    }
}

fn split() -> Attack {
    let play = |grid: &mut Grid| {
        if grid.step == 110 {
            for _ in 0..30 {
                let order = order(grid, gpu_needs(10));
                grid.submit("x requestor", order);
            }
        }
    };
    Attack {
        bound: "it pays for all of them, as thirty others would whose short orders go first; whoever waited long enough goes by age",
        happened: |grid| is_theirs(grid, |end| *end == LeaseEnd::Fulfilled),
        ..attack(
            "orders thirty jobs of ten seconds instead of one of five minutes, to go before others",
            "requestor",
            busy(1),
            play,
        )
    }
}

fn overstated() -> Attack {
    let play = |grid: &mut Grid| {
        grid.hostile_takes = Some(10_000);
        if grid.step == 90 {
            let order = JobOrder {
                max_price: milli(80_000),
                ..order(grid, gpu_needs(3_600))
            };
            grid.submit("x requestor", order);
        }
    };
    Attack {
        happened: |grid| is_theirs(grid, |end| *end == LeaseEnd::Fulfilled),
        ..attack(
            "states an hour for an order of ten seconds, so that its machine is promised to nobody",
            "requestor",
            busy(1),
            play,
        )
    }
}

/// A machine with two GPUs, for which jobs of one GPU come without end; the attacker wants both, and takes its order back when it
/// has them, or would.
fn squats() -> Attack {
    let mut terms = gpu_terms(10);
    terms.machine.gpu_count = 2;
    let later = (0..160).map(|index| want(40 + 20 * index as u64, index, gpu_needs(30)));
    let plan = Plan {
        offers: vec![("ann", terms)],
        wants: std::iter::once(want(1, 0, gpu_needs(10)))
            .chain(later)
            .collect(),
        steps: 4_400,
        ..Plan::usual()
    };
    let play = |grid: &mut Grid| {
        if grid.step == 60 {
            let both = JobNeeds {
                gpus: 2,
                ..gpu_needs(20)
            };
            let order = order(grid, both);
            grid.submit("x requestor", order);
        }
        for job in grid.open_jobs("x requestor") {
            let soon = grid.now() + 2_000;
            let held = grid.state.reservation_of(&job.id);
            let is_due = held.is_some_and(|it| it.from.get() <= soon);
            if is_due || job.state() == JobState::Leased {
                grid.send("x requestor", Transaction::CancelJob { job: job.id });
            }
        }
    };
    Attack {
        happened: |grid| {
            let mut jobs = grid.state.jobs().iter();
            jobs.any(|job| grid.is_hostile(&job.requestor) && !job.escrow_burned.is_zero())
        },
        ..attack(
            "waits until a machine is held back for its order, and takes the order back when it is free",
            "requestor",
            plan,
            play,
        )
    }
}

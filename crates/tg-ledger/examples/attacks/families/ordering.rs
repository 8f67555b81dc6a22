//! Requestors: inputs that are missing, orders that are taken back, deadlines that are too tight.

use tg_ledger::{JobState, LeaseEnd};
use tg_types::{JobOrder, Transaction};

use super::super::grid::{Grid, Plan, SECRET, demanded, terms};
use super::super::measure::Attack;
use super::{attack, post, work};

pub(crate) fn attacks() -> Vec<Attack> {
    vec![
        withheld(),
        withheld_with_a_liar(),
        half_held_with_a_liar(),
        cancelled_before_the_start(),
        cancelled_at_the_end(),
        tight_deadline(),
        tight_deadline_with_a_leader(),
        low_ratings(),
    ]
}

fn secret(grid: &Grid) -> JobOrder {
    JobOrder {
        input: SECRET,
        max_attempts: 16,
        ..grid.order(64, 200_000)
    }
}

/// Six orders of the attacker, one every ten seconds.
fn is_time(grid: &Grid) -> bool {
    grid.step >= 100 && grid.step < 160 && grid.step.is_multiple_of(10)
}

fn has_waiting(grid: &Grid) -> bool {
    grid.state.jobs().iter().any(|job| {
        job.order.input == SECRET && job.state() == JobState::Expired && job.leases().is_empty()
    })
}

/// Whether a lease of an attacker's order ended so.
fn ended(grid: &Grid, is: impl Fn(&LeaseEnd) -> bool) -> bool {
    grid.state.leases().iter().any(|lease| {
        let job = grid.state.job(&lease.job);
        let is_theirs = job.is_some_and(|job| grid.is_hostile(&job.requestor));
        is_theirs && lease.end().is_some_and(&is)
    })
}

fn withheld() -> Attack {
    let play = |grid: &mut Grid| {
        if grid.step == 40 {
            post(grid, "x provider", terms(63));
        }
        if is_time(grid) {
            grid.submit("x requestor", secret(grid));
        }
        work(grid, "x provider");
    };
    Attack {
        happened: has_waiting,
        ..attack(
            "orders with an input that nobody has, and a machine of one's own that is matched last",
            "requestor, provider",
            Plan::usual(),
            play,
        )
    }
}

fn withheld_with_a_liar() -> Attack {
    let play = |grid: &mut Grid| {
        grid.holders = 1;
        if is_time(grid) {
            grid.submit("x requestor", secret(grid));
        }
        super::say_held(grid);
    };
    Attack {
        happened: has_waiting,
        ..attack(
            "an input is given to one validator, and another one states that it has it too",
            "requestor, one validator of four",
            Plan::usual().with_corrupt(1),
            play,
        )
    }
}

fn half_held_with_a_liar() -> Attack {
    let play = |grid: &mut Grid| {
        grid.holders = 2;
        if is_time(grid) {
            grid.submit("x requestor", secret(grid));
        }
        super::say_held(grid);
    };
    Attack {
        happened: |grid| ended(grid, |end| *end == LeaseEnd::Fulfilled),
        ..attack(
            "an input is given to two validators, and a third one states that it has it too",
            "requestor, one validator of four",
            Plan::usual().with_corrupt(1),
            play,
        )
    }
}

fn cancelled_before_the_start() -> Attack {
    let play = |grid: &mut Grid| {
        if is_time(grid) {
            grid.submit("x requestor", grid.order(64, 200_000));
        }
        for job in grid.open_jobs("x requestor") {
            if job.state() == JobState::Leased {
                grid.send("x requestor", Transaction::CancelJob { job: job.id });
            }
        }
    };
    Attack {
        bound: "the time from a match to the start, which is the provider's to choose, and at most the start timeout; the gas of \
            the lease is paid",
        happened: |grid| ended(grid, |end| *end == LeaseEnd::Cancelled),
        ..attack(
            "orders that are taken back once they are matched",
            "requestor",
            Plan::usual(),
            play,
        )
    }
}

fn cancelled_at_the_end() -> Attack {
    let play = |grid: &mut Grid| {
        if is_time(grid) {
            grid.submit("x requestor", grid.order(64, 200_000));
        }
        for job in grid.open_jobs("x requestor") {
            let lease = job.live_lease().and_then(|id| grid.state.lease(&id));
            let started = lease.and_then(|it| it.started_at());
            if started.is_some_and(|at| at.get() + 8_000 <= grid.now()) {
                grid.send("x requestor", Transaction::CancelJob { job: job.id });
            }
        }
    };
    Attack {
        happened: |grid| ended(grid, |end| *end == LeaseEnd::Cancelled),
        ..attack(
            "orders that are taken back a second before their result",
            "requestor",
            Plan::usual(),
            play,
        )
    }
}

/// Just enough for the time that the cheapest offers declare, from the block on in which the order is matched.
fn tight(grid: &Grid) -> JobOrder {
    grid.order(64, 2_000 + 12_000)
}

fn tight_deadline() -> Attack {
    let play = |grid: &mut Grid| {
        if is_time(grid) {
            grid.submit("x requestor", tight(grid));
        }
    };
    attack(
        "deadlines that leave no second beside the declared time",
        "requestor",
        Plan::usual(),
        play,
    )
}

fn tight_deadline_with_a_leader() -> Attack {
    let play = |grid: &mut Grid| {
        grid.censor = Some(demanded);
        grid.delay = 3_000;
        // So that the evidence would be in the leader's block.
        if grid.step >= 100 && grid.step < 160 && grid.step.is_multiple_of(9) {
            grid.submit("x requestor", tight(grid));
        }
    };
    Attack {
        bound: super::voting::TURNS,
        ..attack(
            "such deadlines, and a leader that keeps results out of its blocks and delays them",
            "requestor, one validator of four",
            Plan::usual().with_corrupt(1),
            play,
        )
    }
}

fn low_ratings() -> Attack {
    let play = |grid: &mut Grid| {
        if is_time(grid) {
            grid.submit("x requestor", grid.order(64, 200_000));
        }
        let address = grid.address("x requestor");
        let jobs = grid.state.jobs().iter();
        let paid = jobs.filter(|it| it.requestor == address && it.state() == JobState::Paid);
        let unrated: Vec<_> = paid
            .filter(|it| it.stars().is_none())
            .map(|it| it.id)
            .collect();
        for job in unrated {
            grid.send("x requestor", Transaction::RateJob { job, stars: 1 });
        }
    };
    Attack {
        happened: |grid| {
            grid.state
                .jobs()
                .iter()
                .any(|job| job.stars().is_some_and(|it| it.get() == 1))
        },
        ..attack(
            "one star for every result",
            "requestor",
            Plan::usual(),
            play,
        )
    }
}

//! Validators: one of four that leaves out, delays and lies; and all of them paused.

use tg_ledger::Schedule;
use tg_types::{JobNeeds, Transaction};

use super::super::grid::{Grid, MARKET, Plan, Want, demanded, gpu_needs, gpu_terms, milli};
use super::super::measure::Attack;
use super::attack;

pub(crate) fn attacks() -> Vec<Attack> {
    vec![
        leaves_out(),
        delays(),
        leaves_out_reveals(),
        loses_everybody(),
        states_what_it_lacks(),
        pause(),
        pauses(),
    ]
}

const ONE: &str = "one validator of four";
pub(super) const TURNS: &str = "its turns: one block of four, after which an honest leader takes everything in; all windows are longer";

fn leaves_out() -> Attack {
    let play = |grid: &mut Grid| grid.censor = Some(demanded);
    Attack {
        bound: TURNS,
        happened: |grid| grid.censor.is_some(),
        ..attack(
            "keeps orders, starts, receipts, evidence, statements and verdicts out of its blocks",
            ONE,
            Plan::usual().with_corrupt(1),
            play,
        )
    }
}

fn delays() -> Attack {
    let play = |grid: &mut Grid| {
        grid.censor = Some(demanded);
        grid.delay = 1_500;
    };
    Attack {
        bound: TURNS,
        happened: |grid| grid.censor.is_some(),
        ..attack(
            "the same, and each of its blocks comes after the whole timeout of a leader",
            ONE,
            Plan::usual().with_corrupt(1),
            play,
        )
    }
}

/// Two machines, and sealed bids for them.
pub(crate) fn auction() -> Plan {
    let first = (0..2).map(|index| Want {
        needs: gpu_needs(10),
        max_price: milli(3_000),
        ..Want::usual(1, ["rosa", "raul"][index])
    });
    let bids = (0..4).map(|index| Want {
        needs: JobNeeds {
            class: tg_types::JobClass::Batch,
            ..gpu_needs(30)
        },
        max_price: milli(900),
        patience: 600_000,
        ..Want::usual(
            100 + 40 * index,
            ["rosa", "raul", "ruth"][index as usize % 3],
        )
    });
    Plan {
        offers: vec![("ann", gpu_terms(10)), ("ben", gpu_terms(11))],
        wants: first.chain(bids).collect(),
        steps: 420,
        ..Plan::usual()
    }
}

fn leaves_out_reveals() -> Attack {
    let play = |grid: &mut Grid| grid.censor = Some(demanded);
    Attack {
        bound: TURNS,
        happened: |grid| grid.censor.is_some(),
        ..attack(
            "keeps sealed bids and their openings out of its blocks",
            ONE,
            auction().with_corrupt(1),
            play,
        )
    }
}

fn loses_everybody() -> Attack {
    let play = |grid: &mut Grid| {
        let epoch = Schedule::epoch(grid.state.head().height.next());
        let name = grid.corrupt_name();
        let seen = grid.noted.get("epoch").copied().unwrap_or(0);
        if epoch > seen {
            let mut lost: Vec<_> = Vec::new();
            if seen == 0 {
                lost = MARKET.iter().map(|(name, _)| grid.address(name)).collect();
                lost.sort_unstable();
            }
            grid.noted.insert("epoch", epoch);
            if !lost.is_empty() {
                let back = vec![];
                grid.send(&name, Transaction::ReportLiveness { epoch, lost, back });
            }
        }
    };
    attack(
        "reports every provider as lost",
        ONE,
        Plan::usual().with_corrupt(1),
        play,
    )
}

fn states_what_it_lacks() -> Attack {
    let play = |grid: &mut Grid| {
        if grid.step >= 100 && grid.step < 160 && grid.step.is_multiple_of(10) {
            let mut order = grid.order(64, 100_000);
            order.input = super::super::grid::SECRET;
            grid.submit("x requestor", order);
        }
        super::say_held(grid);
    };
    attack(
        "states that it holds inputs which nobody has",
        "one validator of four, requestor",
        Plan::usual().with_corrupt(1),
        play,
    )
}

fn pause() -> Attack {
    let play = |grid: &mut Grid| {
        if grid.step == 112 {
            grid.pause = 60_000;
            grid.noted.insert("paused", 1);
        }
    };
    Attack {
        bound: "more than f validators must stop; ledger time stands still meanwhile, so nobody loses money",
        happened: |grid| grid.noted.contains_key("paused"),
        ..attack(
            "no blocks for 60 s while leases run",
            "two validators of four",
            Plan::usual().with_corrupt(0),
            play,
        )
    }
}

fn pauses() -> Attack {
    let play = |grid: &mut Grid| {
        if grid.step >= 104 && grid.step < 144 && grid.step.is_multiple_of(4) {
            grid.pause = 5_000;
            grid.noted.insert("paused", 1);
        }
    };
    Attack {
        bound: "more than f validators must stop; ledger time moves by a second for each pause",
        happened: |grid| grid.noted.contains_key("paused"),
        ..attack(
            "no blocks for 5 s, ten times",
            "two validators of four",
            Plan::usual().with_corrupt(0),
            play,
        )
    }
}

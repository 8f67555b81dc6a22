//! Standing: orders from oneself, bids against oneself.

use tg_ledger::JobState;
use tg_types::{JobNeeds, Transaction, VerificationMode, transaction::bid_commitment};

use super::super::grid::{Grid, Plan, Want, bait, gpu_needs, gpu_terms, milli};
use super::super::measure::Attack;
use super::{attack, post, work};

pub(crate) fn attacks() -> Vec<Attack> {
    vec![
        own_orders(
            "orders from itself, for standing and bonus",
            VerificationMode::Proof,
            1,
        ),
        own_orders(
            "orders from itself at a high price, for a higher bonus",
            VerificationMode::Proof,
            1_000,
        ),
        own_orders(
            "orders from itself that nobody checks",
            VerificationMode::None,
            1,
        ),
        shill(),
    ]
}

fn is_done(grid: &Grid) -> bool {
    let jobs = grid.state.jobs().iter();
    let theirs = jobs.filter(|it| grid.is_hostile(&it.requestor));
    theirs.filter(|it| it.state() == JobState::Paid).count() >= 50
}

fn own_orders(name: &'static str, mode: VerificationMode, price: u64) -> Attack {
    // No honest orders meanwhile: whoever serves them well earns by work.
    let mut plan = Plan::usual();
    plan.wants.truncate(8);
    let play = move |grid: &mut Grid| {
        if grid.step == 40 {
            let mut terms = bait(price);
            terms.slots = 8;
            terms.collateral_per_lease = milli(16_000);
            grid.send("x provider", Transaction::PostOffer { terms });
        }
        if grid.step >= 50 && grid.step < 250 && grid.step.is_multiple_of(3) {
            let mut order = grid.order(price + 20, 100_000);
            order.mode = mode;
            grid.submit("x requestor", order);
        }
        work(grid, "x provider");
    };
    let mut attack = attack(name, "provider, requestor", plan, play);
    if price > 100 {
        // Honest machines are cheaper and would take the orders.
        attack.plan.offers.iter_mut().for_each(|(_, terms)| {
            terms.price_base = milli(1_010);
        });
        attack.plan.wants.iter_mut().for_each(|want| {
            want.max_price = milli(2_000);
        });
    }
    Attack {
        happened: is_done,
        ..attack
    }
}

/// Opens its own sealed bid in its slot, and seals one beside each bid of somebody else.
fn bid_beside_others(grid: &mut Grid) {
    let order = tg_types::JobOrder {
        deadline: tg_types::TimestampMs::new(1_000_000 + 520_000),
        mode: VerificationMode::Proof,
        needs: batch(),
        ..grid.order(850, 0)
    };
    let salt = tg_types::Digest::new([5; 32]);
    let bids: Vec<_> = grid
        .state
        .bids()
        .iter()
        .map(|it| (it.id, it.bidder, it.slot))
        .collect();
    let mine = grid.address("x requestor");
    let next = tg_types::TimestampMs::new(grid.now() + 1_000);
    let slot = grid.plan().parameters.slot(next);
    for (bid, bidder, sealed) in &bids {
        if *bidder == mine && slot == sealed + 1 {
            let (bid, order) = (*bid, order.clone());
            grid.send("x requestor", Transaction::RevealBid { bid, salt, order });
        }
    }
    // A bid beside each bid that somebody else seals.
    let is_there = bids.iter().any(|it| it.1 == mine);
    if bids.iter().any(|it| it.1 != mine) && !is_there {
        let commitment = bid_commitment(&order, &salt, &mine);
        let deposit = milli(20);
        grid.send(
            "x requestor",
            Transaction::CommitBid {
                commitment,
                deposit,
            },
        );
    }
}

fn shill() -> Attack {
    let bids = (0..4).map(|index| Want {
        needs: batch(),
        max_price: milli(900),
        patience: 600_000,
        ..Want::usual(
            100 + 60 * index,
            ["rosa", "raul", "ruth"][index as usize % 3],
        )
    });
    let first = Want {
        needs: gpu_needs(10),
        max_price: milli(3_000),
        ..Want::usual(1, "rosa")
    };
    let plan = Plan {
        offers: vec![("ann", gpu_terms(10))],
        wants: std::iter::once(first).chain(bids).collect(),
        steps: 500,
        ..Plan::usual()
    };
    let instead = |grid: &mut Grid| {
        if grid.step == 40 {
            post(grid, "x provider", gpu_terms(25));
        }
        work(grid, "x provider");
    };
    let play = |grid: &mut Grid| {
        if grid.step == 40 {
            post(grid, "x provider", gpu_terms(8));
        }
        work(grid, "x provider");
        bid_beside_others(grid);
    };
    Attack {
        instead: Some(Box::new(instead)),
        bound: "no more than asking for it: beside a run in which it asks as much. Nobody pays more than it bid, and bids are sealed",
        ..attack(
            "bids for its own machine, so that others pay more for it",
            "provider, requestor",
            plan,
            play,
        )
    }
}

fn batch() -> JobNeeds {
    JobNeeds {
        class: tg_types::JobClass::Batch,
        ..gpu_needs(30)
    }
}

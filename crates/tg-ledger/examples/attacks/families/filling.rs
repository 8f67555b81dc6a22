//! Room: blocks that are filled, tables that are filled, records that come and go.

use tg_types::{
    Amount, Fees, JobNeeds, ModelId, Transaction, VerificationMode, transaction::bid_commitment,
};

use super::super::grid::{ATTACKERS, Grid, Plan, Want, gpu_needs, milli, register, terms};
use super::super::measure::{Attack, Size};
use super::voting::auction;
use super::{attack, post};

pub(crate) fn attacks() -> Vec<Attack> {
    vec![
        full_blocks("keeps all others out of blocks for 20 s", 20),
        full_blocks("keeps all others out of blocks for 60 s", 60),
        unfunded(),
        dust(),
        churn(),
        unopened_bids(),
        full_models(),
        full_queue(),
    ]
}

/// The usual market with an honest order every second from the hundredth second on.
fn busy() -> Plan {
    let mut plan = Plan::usual();
    plan.wants.truncate(8);
    let names = super::super::grid::REQUESTORS;
    plan.wants
        .extend((0..20).map(|index| Want::usual(100 + 3 * index, names[index as usize % 3])));
    for (_, terms) in &mut plan.offers {
        terms.slots = 8;
    }
    plan
}

/// Orders of gangs of 32 that nobody can serve: the most gas for a signature. They end at once.
fn full_blocks(name: &'static str, seconds: u64) -> Attack {
    let play = move |grid: &mut Grid| {
        if grid.step < 104 || grid.step >= 104 + seconds {
            return;
        }
        // Ahead of whoever tips the tenth that wallets offer.
        let base_fee = grid.state.base_fee();
        let fees = Fees {
            max_fee_per_gas: base_fee.saturating_mul(2),
            max_tip_per_gas: Amount::new(base_fee.get() / 9),
        };
        for name in &ATTACKERS[..10] {
            let mut order = grid.order(1, 1_500);
            order.max_attempts = 1;
            order.needs = JobNeeds {
                gang: if *name == "x9" { 6 } else { 32 },
                ..gpu_needs(1)
            };
            grid.send_with(name, Transaction::SubmitJob { order }, fees);
        }
    };
    Attack {
        bound: "the base fee, which doubles every 10 s for whoever fills blocks; whoever waits loses time and no money, and \
            may tip more; leases are untouched, half of each block is theirs",
        ..attack(name, "anybody with money", busy(), play)
    }
}

fn unfunded() -> Attack {
    let play = |grid: &mut Grid| {
        if grid.step >= 100 && grid.step < 130 {
            for number in 0..30 {
                let name = format!("x unfunded {}", grid.step * 30 + number);
                let to = grid.address("x0");
                let amount = Amount::new(1);
                grid.send(&name, Transaction::Transfer { to, amount });
            }
        }
    };
    Attack {
        bound: "nothing of it is executed, and without an account nothing is kept in the pool",
        happened: |grid| grid.sent.0 == 0 && grid.sent.1 == 900,
        ..attack(
            "900 transactions of keys that have no money",
            "anybody",
            Plan::usual(),
            play,
        )
    }
}

fn dust() -> Attack {
    let play = |grid: &mut Grid| {
        if grid.step >= 100 && grid.step < 120 {
            for number in 0..50 {
                let to = grid.address(&format!("x dust {}", grid.step * 50 + number));
                let amount = milli(10);
                grid.send("x0", Transaction::Transfer { to, amount });
            }
        }
    };
    attack(
        "opens a thousand accounts with the least that one may have",
        "anybody with money",
        Plan::usual(),
        play,
    )
}

fn churn() -> Attack {
    let play = |grid: &mut Grid| {
        if grid.step < 100 || grid.step >= 160 {
            return;
        }
        for offer in grid.offers_of("x0") {
            grid.send("x0", Transaction::WithdrawOffer { offer });
        }
        // Cheapest in every other block, so that quotes are wrong; gone before anybody is matched.
        let price = if grid.step.is_multiple_of(2) { 29 } else { 63 };
        let mut terms = terms(price);
        terms.modes = tg_types::ModeSet::of(&[VerificationMode::None]);
        post(grid, "x0", terms);
    };
    attack(
        "takes its offer back and posts it anew in every block, which no interval limits",
        "provider",
        Plan::usual(),
        play,
    )
}

fn unopened_bids() -> Attack {
    let play = |grid: &mut Grid| {
        if grid.step >= 100 && grid.step < 240 && grid.step.is_multiple_of(9) {
            for number in 0..16 {
                let mut order = grid.order(100_000, 300_000);
                order.needs = JobNeeds {
                    class: tg_types::JobClass::Batch,
                    ..gpu_needs(30)
                };
                let salt = tg_types::Digest::new([number; 32]);
                let commitment = bid_commitment(&order, &salt, &grid.address("x0"));
                let deposit = milli(10);
                grid.send(
                    "x0",
                    Transaction::CommitBid {
                        commitment,
                        deposit,
                    },
                );
            }
        }
    };
    attack(
        "seals bids above all others and never opens them",
        "requestor",
        auction(),
        play,
    )
}

fn full_models() -> Attack {
    let play = |grid: &mut Grid| {
        if grid.step < 20 || grid.step >= 20 + 16 * 2 {
            return;
        }
        let at = grid.step - 20;
        let name = ATTACKERS[at as usize / 2];
        for number in 0..128_u64 {
            let mut id = [0x55; 32];
            id[..8].copy_from_slice(&(at * 128 + number).to_be_bytes());
            grid.send(name, register(ModelId::new(id)));
        }
    };
    Attack {
        size: Size::Large,
        happened: |grid| grid.state.models().len() >= 4_090,
        ..attack(
            "registers models until no more fit",
            "registrant",
            Plan::usual(),
            play,
        )
    }
}

fn full_queue() -> Attack {
    let mut plan = Plan::usual();
    for want in plan.wants.iter_mut().skip(8) {
        want.at += 150;
    }
    plan.steps = 420;
    let play = |grid: &mut Grid| {
        if grid.step < 40 || grid.step >= 240 {
            return;
        }
        let at = grid.step - 40;
        let name = ATTACKERS[at as usize / 20];
        for _ in 0..51 {
            // Nobody asks so little.
            let mut order = grid.order(1, 600_000);
            order.max_attempts = 1;
            grid.submit(name, order);
        }
    };
    Attack {
        size: Size::Large,
        happened: |grid| grid.sent.0 >= 10_000,
        ..attack(
            "orders what nobody serves until the queue is full",
            "requestor",
            plan,
            play,
        )
    }
}

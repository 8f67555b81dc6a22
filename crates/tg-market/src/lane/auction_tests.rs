#![allow(clippy::unwrap_used, reason = "tests")]

//! The batch auction against linear programming, and what it promises to those who bid.

use proptest::prelude::*;
use tg_types::Amount;

use crate::lane::auction::{Ask, Bid, ClassSet, Clearing, clear_uniform};
use tg_lab::synthetic::Draws;

const fn amount(units: u64) -> Amount {
    Amount::new(units as u128)
}

/// A market with many ties: `spread` distinct values.
fn market(seed: u64, bids: u64, asks: u64, classes: u64, spread: u64) -> (Vec<Bid>, Vec<Ask>) {
    let mut draws = Draws::new(seed);
    let bids = (0..bids)
        .map(|_| {
            let mut accepts = ClassSet::NONE.with(draws.below(classes) as u8);
            for _ in 0..draws.below(4) {
                accepts = accepts.with(draws.below(classes) as u8);
            }
            Bid {
                accepts,
                units: draws.below(6) as u32,
                value: amount(draws.below(spread)),
            }
        })
        .collect();
    let asks = (0..asks)
        .map(|_| Ask {
            class: draws.below(classes) as u8,
            units: draws.below(8) as u32,
            cost: amount(draws.below(spread)),
        })
        .collect();
    (bids, asks)
}

/// Maximises `objective * x` over `rows * x <= limits`, `x >= 0`, `limits >= 0`, by the simplex method with Bland's rule,
/// in integers: the constraints of a transport problem are totally unimodular, so every pivot is 1.
fn linear_optimum(mut rows: Vec<Vec<i64>>, mut limits: Vec<i64>, objective: &[i64]) -> i64 {
    let variables = objective.len();
    let count = rows.len();
    for (at, row) in rows.iter_mut().enumerate() {
        row.extend((0..count).map(|slack| i64::from(slack == at)));
    }
    let mut gains: Vec<i64> = objective.to_vec();
    gains.extend(std::iter::repeat_n(0, count));
    let mut basis: Vec<usize> = (variables..variables + count).collect();
    let mut value = 0;
    while let Some(enters) = gains.iter().position(|gain| *gain > 0) {
        let leaves = (0..count)
            .filter(|at| rows[*at][enters] > 0)
            .min_by_key(|at| (limits[*at], basis[*at]))
            .expect("a market is bounded");
        assert_eq!(rows[leaves][enters], 1, "totally unimodular");
        basis[leaves] = enters;
        let (pivot, limit) = (rows[leaves].clone(), limits[leaves]);
        for at in (0..count).filter(|at| *at != leaves) {
            let factor = rows[at][enters];
            if factor != 0 {
                for (cell, own) in rows[at].iter_mut().zip(&pivot) {
                    *cell -= factor * own;
                    assert!(cell.abs() <= 1, "totally unimodular");
                }
                limits[at] -= factor * limit;
            }
        }
        let factor = gains[enters];
        for (gain, own) in gains.iter_mut().zip(&pivot) {
            *gain -= factor * own;
        }
        value += factor * limit;
    }
    value
}

/// The welfare optimum by linear programming: variables are the units of each bid from each class, and the units sold
/// of each ask.
fn welfare_optimum(bids: &[Bid], asks: &[Ask]) -> i64 {
    let pairs: Vec<(usize, u8)> = bids
        .iter()
        .enumerate()
        .flat_map(|(at, bid)| bid.accepts.iter().map(move |class| (at, class)))
        .collect();
    let variables = pairs.len() + asks.len();
    let mut objective: Vec<i64> = pairs
        .iter()
        .map(|(bid, _)| bids[*bid].value.get() as i64)
        .collect();
    objective.extend(asks.iter().map(|ask| -(ask.cost.get() as i64)));
    let (mut rows, mut limits) = (Vec::new(), Vec::new());
    let mut constrain = |limit: i64, coefficient: &dyn Fn(usize) -> i64| {
        rows.push((0..variables).map(coefficient).collect::<Vec<i64>>());
        limits.push(limit);
    };
    for (at, bid) in bids.iter().enumerate() {
        let of_bid = |it: usize| i64::from(it < pairs.len() && pairs[it].0 == at);
        constrain(i64::from(bid.units), &of_bid);
    }
    for (at, ask) in asks.iter().enumerate() {
        constrain(i64::from(ask.units), &|it| {
            i64::from(it == pairs.len() + at)
        });
    }
    for class in 0..128 {
        let flow = |it: usize| match it.checked_sub(pairs.len()) {
            None => i64::from(pairs[it].1 == class),
            Some(ask) => -i64::from(asks[ask].class == class),
        };
        if (0..variables).any(|it| flow(it) != 0) {
            constrain(0, &flow);
        }
    }
    linear_optimum(rows, limits, &objective)
}

#[test]
fn the_simplex_method_solves_what_can_be_solved_by_hand() {
    // max 3x + 2y with x + y <= 4, x <= 3, y <= 3.
    let rows = vec![vec![1, 1], vec![1, 0], vec![0, 1]];
    assert_eq!(linear_optimum(rows, vec![4, 3, 3], &[3, 2]), 11);
    assert_eq!(linear_optimum(vec![vec![1]], vec![0], &[5]), 0);
    assert_eq!(linear_optimum(vec![vec![1]], vec![7], &[-5]), 0);
}

/// What holders of `units` pay or get at the prices of their classes.
fn payment(clearing: &Clearing, bid: usize) -> u128 {
    let bought = clearing.bought[bid].iter();
    bought
        .map(|(class, units)| clearing.prices[class].get() * u128::from(*units))
        .sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn welfare_is_the_optimum_of_the_linear_programme(
        seed: u64, bids in 0_u64..24, asks in 0_u64..16, classes in 1_u64..8, spread in 1_u64..60,
    ) {
        let (bids, asks) = market(seed, bids, asks, classes, spread);
        let clearing = clear_uniform(&bids, &asks);
        let welfare = clearing.welfare(&bids, &asks).unwrap();
        prop_assert_eq!(welfare, i128::from(welfare_optimum(&bids, &asks)));
    }

    #[test]
    fn the_dual_proves_it_at_any_size(
        seed: u64, bids in 0_u64..300, asks in 0_u64..200, classes in 1_u64..60, spread in 1_u64..2_000,
    ) {
        let (bids, asks) = market(seed, bids, asks, classes, spread);
        let clearing = clear_uniform(&bids, &asks);
        prop_assert_eq!(clearing.welfare(&bids, &asks), clearing.welfare_bound(&bids, &asks));
    }

    #[test]
    fn the_bound_holds_for_worse_allocations(seed: u64, bids in 1_u64..20, asks in 1_u64..20) {
        // Whoever clears badly is found out: the bound stays above what was reached.
        let (bids, asks) = market(seed, bids, asks, 5, 30);
        let mut clearing = clear_uniform(&bids, &asks);
        let best = clearing.welfare(&bids, &asks).unwrap();
        if let Some(at) = clearing.bought.iter().position(|it| !it.is_empty()) {
            let (class, units) = clearing.bought[at].pop_first().unwrap();
            let seller = (0..asks.len())
                .find(|it| asks[*it].class == class && clearing.sold[*it] > 0)
                .unwrap();
            let given_up = units.min(clearing.sold[seller]);
            clearing.sold[seller] -= given_up;
            if given_up < units {
                clearing.bought[at].insert(class, units - given_up);
            }
        }
        let worse = clearing.welfare(&bids, &asks).unwrap();
        prop_assert!(worse <= best && best <= clearing.welfare_bound(&bids, &asks).unwrap());
    }

    #[test]
    fn nobody_is_over_budget_and_the_auction_keeps_nothing(
        seed: u64, bids in 0_u64..60, asks in 0_u64..40, classes in 1_u64..12, spread in 1_u64..500,
    ) {
        let (bids, asks) = market(seed, bids, asks, classes, spread);
        let clearing = clear_uniform(&bids, &asks);
        let mut paid = 0;
        for (at, bid) in bids.iter().enumerate() {
            let units: u32 = clearing.bought[at].values().sum();
            prop_assert!(units <= bid.units, "over capacity of the bid");
            let pays = payment(&clearing, at);
            prop_assert!(pays <= bid.value.get() * u128::from(units), "over budget");
            paid += pays;
        }
        let mut got = 0;
        for (ask, sold) in asks.iter().zip(&clearing.sold) {
            prop_assert!(*sold <= ask.units, "over capacity of the ask");
            if *sold > 0 {
                let gets = clearing.prices[&ask.class].get();
                prop_assert!(gets >= ask.cost.get(), "sold at a loss");
                got += gets * u128::from(*sold);
            }
        }
        prop_assert_eq!(paid, got, "the budget does not balance");
    }

    #[test]
    fn the_order_of_the_lists_changes_nothing_without_ties(seed: u64, bids in 1_u64..40, asks in 1_u64..40, by: usize) {
        // Distinct values and costs, so that no tie is to be broken.
        let (mut bids, mut asks) = market(seed, bids, asks, 6, 50);
        for (at, bid) in bids.iter_mut().enumerate() {
            bid.value = amount(bid.value.get() as u64 * 1_000 + 2 * at as u64);
        }
        for (at, ask) in asks.iter_mut().enumerate() {
            ask.cost = amount(ask.cost.get() as u64 * 1_000 + 2 * at as u64 + 1);
        }
        let here = clear_uniform(&bids, &asks);
        let (turn_bids, turn_asks) = (by % bids.len(), by / 7 % asks.len());
        let (mut other_bids, mut other_asks) = (bids.clone(), asks.clone());
        other_bids.rotate_left(turn_bids);
        other_asks.rotate_left(turn_asks);
        let mut there = clear_uniform(&other_bids, &other_asks);
        there.bought.rotate_right(turn_bids);
        there.sold.rotate_right(turn_asks);
        prop_assert_eq!(&here.prices, &there.prices);
        prop_assert_eq!(&here.sold, &there.sold);
        let units = |it: &Clearing| -> Vec<u32> {
            it.bought.iter().map(|bought| bought.values().sum()).collect()
        };
        prop_assert_eq!(units(&here), units(&there));
    }

    #[test]
    fn more_supply_never_lowers_welfare_or_raises_the_price(seed: u64, bids in 1_u64..30, asks in 1_u64..20) {
        let (bids, mut asks) = market(seed, bids, asks, 1, 80);
        let before = clear_uniform(&bids, &asks);
        asks.push(Ask { class: 0, units: 3, cost: amount(seed % 80) });
        let after = clear_uniform(&bids, &asks);
        prop_assert!(after.welfare(&bids, &asks) >= before.welfare(&bids, &asks[..asks.len() - 1]));
        if let (Some(old), Some(new)) = (before.prices.get(&0), after.prices.get(&0)) {
            prop_assert!(new <= old, "{new} > {old}");
        }
    }

}

#[test]
fn uniform_prices_are_not_truthful_and_are_not_said_to_be() {
    // A buyer of two units keeps the price down by asking for one.
    let class = ClassSet::NONE.with(0);
    let bid = |units, value| Bid {
        accepts: class,
        units,
        value: amount(value),
    };
    let asks = [Ask {
        class: 0,
        units: 2,
        cost: amount(1),
    }];
    let gain = |units| {
        let bids = [bid(units, 10), bid(1, 9)];
        let clearing = clear_uniform(&bids, &asks);
        let got: u32 = clearing.bought[0].values().sum();
        10 * u128::from(got) - payment(&clearing, 0)
    };
    assert!(gain(1) >= gain(2), "{} {}", gain(1), gain(2));
}

#[test]
fn threads_do_not_matter() {
    let (bids, asks) = market(11, 400, 300, 40, 1_000);
    let alone = clear_uniform(&bids, &asks);
    for threads in [2, 5] {
        let cleared: Vec<Clearing> = std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads)
                .map(|_| scope.spawn(|| clear_uniform(&bids, &asks)))
                .collect();
            running.into_iter().map(|it| it.join().unwrap()).collect()
        });
        assert!(cleared.iter().all(|it| *it == alone));
    }
}

#[test]
fn classes_beyond_the_last_and_empty_markets_are_harmless() {
    assert_eq!(clear_uniform(&[], &[]), Clearing::default());
    let bid = Bid {
        accepts: ClassSet::NONE.with(200),
        units: 1,
        value: amount(9),
    };
    let ask = Ask {
        class: 200,
        units: 1,
        cost: amount(1),
    };
    let clearing = clear_uniform(&[bid], &[ask]);
    assert!(clearing.prices.is_empty() && clearing.sold == [0]);
    let set = ClassSet::NONE.with(3).with(127).with(3);
    assert_eq!(set.iter().collect::<Vec<_>>(), [3, 127]);
    assert!(set.contains(127) && !set.contains(4) && !set.contains(255));
    // Amounts that no sum can hold have no welfare, but clear.
    let bid = Bid {
        accepts: ClassSet::NONE.with(0),
        units: 2,
        value: Amount::MAX,
    };
    let ask = Ask {
        class: 0,
        units: 2,
        cost: Amount::ZERO,
    };
    let clearing = clear_uniform(&[bid], &[ask]);
    assert_eq!(clearing.sold, [2]);
    assert_eq!(clearing.welfare(&[bid], &[ask]), None);
    assert_eq!(clearing.welfare_bound(&[bid], &[ask]), None);
}

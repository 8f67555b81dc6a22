#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use tg_types::{Amount, DurationMs, TimestampMs};

use crate::lane::auction::{Ask, Bid, ClassSet, clear_uniform};
use crate::lane::deadline::{PARTS, reserved_price};
use crate::lane::queue::{AGE_FULL, Preemptible, Waiting, victims};
use tg_lab::synthetic::Draws;

const fn amount(units: u64) -> Amount {
    Amount::new(units as u128)
}

/// Who is next.
fn next(waiting: &[Waiting], now: TimestampMs) -> Waiting {
    *waiting.iter().min_by_key(|it| it.turn(now)).unwrap()
}

/// A small auction with ties and bids for several classes.
fn auction(seed: u64, bids: u64, asks: u64, classes: u64) -> (Vec<Bid>, Vec<Ask>) {
    let mut draws = Draws::new(seed);
    let bids = (0..bids)
        .map(|_| {
            let mut accepts = ClassSet::NONE.with(draws.below(classes) as u8);
            for _ in 0..draws.below(3) {
                accepts = accepts.with(draws.below(classes) as u8);
            }
            Bid {
                accepts,
                units: 1 + draws.below(3) as u32,
                value: amount(draws.below(30)),
            }
        })
        .collect();
    let asks = (0..asks)
        .map(|_| Ask {
            class: draws.below(classes) as u8,
            units: 1 + draws.below(3) as u32,
            cost: amount(draws.below(25)),
        })
        .collect();
    (bids, asks)
}

/// Greatest welfare by trying, unit by unit of the bids, every class and nothing.
fn best_welfare(bids: &[Bid], asks: &[Ask]) -> i128 {
    let mut units: Vec<(ClassSet, i128)> = Vec::new();
    for bid in bids {
        for _ in 0..bid.units {
            units.push((bid.accepts, bid.value.get() as i128));
        }
    }
    let mut costs: BTreeMap<u8, Vec<i128>> = BTreeMap::new();
    for ask in asks {
        let list = costs.entry(ask.class).or_default();
        list.extend(std::iter::repeat_n(
            ask.cost.get() as i128,
            ask.units as usize,
        ));
    }
    for list in costs.values_mut() {
        list.sort_unstable();
    }
    // State: how many units of each class are sold; best welfare so far.
    let mut states = BTreeMap::from([(BTreeMap::<u8, usize>::new(), 0_i128)]);
    for (accepts, value) in units {
        let mut next = states.clone();
        for (sold, welfare) in &states {
            for class in accepts.iter() {
                let at = sold.get(&class).copied().unwrap_or(0);
                let Some(cost) = costs.get(&class).and_then(|it| it.get(at)) else {
                    continue;
                };
                let mut sold = sold.clone();
                *sold.entry(class).or_default() += 1;
                let best = next.entry(sold).or_insert(i128::MIN);
                *best = (*best).max(welfare + value - cost);
            }
        }
        states = next;
    }
    states.into_values().max().unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn the_auction_finds_the_greatest_welfare(seed: u64, bids in 0_u64..6, asks in 0_u64..7) {
        let (bids, asks) = auction(seed, bids, asks, 4);
        let clearing = clear_uniform(&bids, &asks);
        prop_assert_eq!(clearing.welfare(&bids, &asks), Some(best_welfare(&bids, &asks)));
    }

    #[test]
    fn prices_suit_everyone(seed: u64, bids in 0_u64..60, asks in 0_u64..60, classes in 1_u64..9) {
        let (bids, asks) = auction(seed, bids, asks, classes);
        let clearing = clear_uniform(&bids, &asks);
        let mut balance: BTreeMap<u8, i64> = BTreeMap::new();
        for (bid, bought) in bids.iter().zip(&clearing.bought) {
            let got: u32 = bought.values().sum();
            prop_assert!(got <= bid.units);
            for (class, units) in bought {
                // Individual rationality, and only what was asked for.
                prop_assert!(bid.accepts.contains(*class));
                prop_assert!(clearing.prices[class] <= bid.value);
                *balance.entry(*class).or_default() += i64::from(*units);
            }
            if got < bid.units {
                // Whoever went without would not have paid more than the price anywhere.
                for class in bid.accepts.iter() {
                    if let Some(price) = clearing.prices.get(&class) {
                        prop_assert!(bid.value <= *price);
                    }
                }
            }
        }
        for (ask, sold) in asks.iter().zip(&clearing.sold) {
            prop_assert!(*sold <= ask.units);
            *balance.entry(ask.class).or_default() -= i64::from(*sold);
            if *sold > 0 {
                prop_assert!(ask.cost <= clearing.prices[&ask.class]);
            }
            if *sold < ask.units && let Some(price) = clearing.prices.get(&ask.class) {
                prop_assert!(ask.cost >= *price);
            }
        }
        // One price and as many units bought as sold in every class: the budget balances.
        prop_assert!(balance.values().all(|it| *it == 0));
    }

    #[test]
    fn nobody_starves(seed: u64, rate in 1_u64..4) {
        // One job is served each minute; `rate` richer ones arrive each minute.
        let mut draws = Draws::new(seed);
        let minute = |it: u64| TimestampMs::new(it * 60_000);
        let poor = Waiting { job: 0, price: amount(1), priority: 1, since: minute(0), expected: DurationMs::ZERO };
        let mut waiting = vec![poor];
        let mut number = 1;
        let bound = AGE_FULL.get() / 60_000 + 1;
        let mut served_at = None;
        for now in 0..400 {
            for _ in 0..rate {
                let price = amount(1_000 + draws.below(1_000));
                waiting.push(Waiting { job: number, price, since: minute(now), priority: 8, ..poor });
                number += 1;
            }
            let first = next(&waiting, minute(now));
            waiting.retain(|it| it.job != first.job);
            if first.job == 0 {
                served_at = Some(now);
                break;
            }
        }
        // It is the oldest, so it goes as soon as age alone counts.
        prop_assert!(served_at.is_some_and(|at| at <= bound), "{served_at:?}");
    }

    #[test]
    fn only_consenting_jobs_are_pushed_out(seed: u64, needed in 0_u32..12) {
        let mut draws = Draws::new(seed);
        let running: Vec<Preemptible> = (0..9)
            .map(|job| Preemptible {
                job,
                consents: draws.below(2) == 0,
                units: draws.below(4) as u32,
                loss: amount(draws.below(50)),
            })
            .collect();
        let gain = amount(60);
        let of = |job: &u64| running[*job as usize];
        if let Some(chosen) = victims(&running, needed, gain) {
            prop_assert!(chosen.iter().all(|job| of(job).consents));
            let units: u32 = chosen.iter().map(|job| of(job).units).sum();
            let loss: u128 = chosen.iter().map(|job| of(job).loss.get()).sum();
            prop_assert!(units >= needed && (loss < gain.get() || needed == 0));
            // Nobody is pushed out in vain.
            prop_assert!(chosen.iter().all(|job| units - of(job).units < needed));
        }
    }
}

#[test]
fn a_unit_moves_on_to_make_room() {
    // The first bid could have either class; the second only class 0, which is the cheaper.
    let both = ClassSet::NONE.with(0).with(1);
    let bid = |accepts, value| Bid {
        accepts,
        units: 1,
        value: amount(value),
    };
    let ask = |class, cost| Ask {
        class,
        units: 1,
        cost: amount(cost),
    };
    let bids = [bid(both, 20), bid(ClassSet::NONE.with(0), 10)];
    let clearing = clear_uniform(&bids, &[ask(0, 1), ask(1, 5)]);
    assert_eq!(clearing.bought[0], BTreeMap::from([(1, 1)]));
    assert_eq!(clearing.bought[1], BTreeMap::from([(0, 1)]));
    assert_eq!(clearing.prices[&0], amount(10));
}

#[test]
fn age_overtakes_price_bit_by_bit() {
    let job = |job, price, since| Waiting {
        job,
        price: amount(price),
        priority: 1,
        since: TimestampMs::new(since),
        expected: DurationMs::ZERO,
    };
    let minutes = |it: u64| DurationMs::from_secs(it * 60).get();
    let waiting = [job(1, 100, 0), job(2, 150, minutes(4))];
    let first = |now| next(&waiting, TimestampMs::new(now)).job;
    assert_eq!(first(minutes(4)), 1);
    let waiting = [job(1, 100, 0), job(2, 250, minutes(4))];
    let first = |now| next(&waiting, TimestampMs::new(now)).job;
    assert_eq!((first(minutes(4)), first(minutes(31))), (2, 1));
}

#[test]
fn the_price_of_a_reserved_place_rises_from_low_to_high() {
    let (low, high) = (amount(100), amount(10_000));
    let price = |reserved| reserved_price(low, high, reserved);
    assert_eq!((price(0), price(PARTS)), (low, high));
    // Half full: the geometric mean.
    assert_eq!(price(PARTS / 2), amount(1_000));
    for reserved in 0..PARTS {
        let (now, next) = (
            price(reserved).get() as f64,
            price(reserved + 1).get() as f64,
        );
        // 100^(1 / 64) is 1.0746; prices are rounded down.
        assert!((1.06..1.09).contains(&(next / now)), "{reserved}");
    }
    // Bounds the wrong way round, beyond the end, and as large as amounts get.
    assert_eq!(reserved_price(high, low, 7), high);
    assert_eq!(reserved_price(low, high, u32::MAX), high);
    assert_eq!(reserved_price(Amount::MAX, Amount::MAX, 9), Amount::MAX);
}

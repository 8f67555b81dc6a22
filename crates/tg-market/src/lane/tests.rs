#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use tg_types::{Amount, DurationMs, TimestampMs};

use crate::cluster::{Cluster, NodeSpec, Request, WHOLE_GPU};
use crate::lane::auction::{Ask, Bid, ClassSet, clear_mcafee, clear_uniform};
use crate::lane::deadline::{Calendar, Commitment, DeadlineJob, Refusal, run_slot};
use crate::lane::gang::{Gang, Running, may_backfill, place_gang, shadow};
use crate::lane::queue::{
    AGE_FULL, Preemptible, Waiting, in_turn, position, price_to_be_next, victims,
};
use crate::packing::{PackingScheduler, WorkloadProfile};
use crate::synthetic::{Draws, synthetic_node};

const fn amount(units: u64) -> Amount {
    Amount::new(units as u128)
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
    fn mcafee_is_truthful(seed: u64, buyers in 1_usize..8, sellers in 1_usize..8, lie in 0_u64..40) {
        let mut draws = Draws::new(seed);
        let values: Vec<Amount> = (0..buyers).map(|_| amount(draws.below(40))).collect();
        let costs: Vec<Amount> = (0..sellers).map(|_| amount(draws.below(40))).collect();
        let honest = clear_mcafee(&values, &costs);
        prop_assert!(honest.gets <= honest.pays);
        prop_assert_eq!(honest.buyers.len(), honest.sellers.len());
        let gain = |trades: bool, plus: Amount, minus: Amount| {
            if trades { plus.get() as i128 - minus.get() as i128 } else { 0 }
        };
        for buyer in 0..buyers {
            let before = gain(honest.buyers.contains(&buyer), values[buyer], honest.pays);
            prop_assert!(before >= 0, "individual rationality");
            let mut told = values.clone();
            told[buyer] = amount(lie);
            let after = clear_mcafee(&told, &costs);
            prop_assert!(gain(after.buyers.contains(&buyer), values[buyer], after.pays) <= before);
        }
        for seller in 0..sellers {
            let before = gain(honest.sellers.contains(&seller), honest.gets, costs[seller]);
            prop_assert!(before >= 0, "individual rationality");
            let mut told = costs.clone();
            told[seller] = amount(lie);
            let after = clear_mcafee(&values, &told);
            prop_assert!(gain(after.sellers.contains(&seller), after.gets, costs[seller]) <= before);
        }
    }

    #[test]
    fn mcafee_gives_up_at_most_one_trade(seed: u64, buyers in 0_usize..9, sellers in 0_usize..9) {
        let mut draws = Draws::new(seed);
        let mut values: Vec<Amount> = (0..buyers).map(|_| amount(draws.below(40))).collect();
        let mut costs: Vec<Amount> = (0..sellers).map(|_| amount(draws.below(40))).collect();
        let traded = clear_mcafee(&values, &costs).buyers.len();
        values.sort_by_key(|it| std::cmp::Reverse(*it));
        costs.sort_unstable();
        let efficient = values.iter().zip(&costs).take_while(|(v, c)| v >= c).count();
        prop_assert!(traded <= efficient && efficient <= traded + 1);
    }

    #[test]
    fn admitted_deadlines_are_met(seed: u64, capacity in 1_u32..6) {
        let mut draws = Draws::new(seed);
        let mut calendar = Calendar::new(capacity, amount(1), amount(1_000));
        let mut jobs = Vec::new();
        for job in 0..40 {
            let earliest = draws.below(20) as u32;
            let wanted = DeadlineJob {
                earliest,
                deadline: earliest + 1 + draws.below(12) as u32,
                slots: 1 + draws.below(8) as u32,
                parallel: 1 + draws.below(3) as u32,
                value: amount(draws.below(4_000)),
            };
            let before = calendar.clone();
            match calendar.admit(&wanted) {
                Ok(reservation) => {
                    prop_assert!(reservation.price <= wanted.value, "individual rationality");
                    prop_assert_eq!(reservation.slots.values().sum::<u32>(), wanted.slots);
                    for (slot, units) in &reservation.slots {
                        prop_assert!((wanted.earliest..wanted.deadline).contains(slot));
                        prop_assert!(*units <= wanted.parallel && calendar.reserved(*slot) <= capacity);
                    }
                    jobs.push(Commitment {
                        job,
                        earliest: wanted.earliest,
                        deadline: wanted.deadline,
                        left: wanted.slots,
                        parallel: wanted.parallel,
                        reserved: reservation.slots,
                    });
                }
                Err(Refusal::TooDear { price }) => {
                    prop_assert!(price > wanted.value);
                    prop_assert_eq!(&calendar, &before);
                }
                Err(Refusal::NoRoom { missing }) => {
                    prop_assert!(missing > 0);
                    prop_assert_eq!(&calendar, &before);
                }
            }
        }
        for slot in 0..40 {
            let running = run_slot(&mut jobs, slot, capacity);
            prop_assert!(running.values().sum::<u32>() <= capacity);
            for job in &jobs {
                prop_assert!(job.left == 0 || job.deadline > slot + 1, "{job:?} is late");
                prop_assert!(running.get(&job.job).is_none_or(|units| *units <= job.parallel));
            }
        }
    }

    #[test]
    fn a_gang_is_placed_whole_and_close_or_not_at_all(seed: u64, members in 1_u32..12, side in 1_u32..60_000) {
        let mut draws = Draws::new(seed);
        let specs: Vec<NodeSpec> = (0..12).map(|_| synthetic_node(&mut draws)).collect();
        let request = Request::new(4_000, 1_000, 1 + draws.below(2) as u8, WHOLE_GPU).unwrap();
        let profile = WorkloadProfile::of([&request]);
        let mut scheduler = PackingScheduler::new(Cluster::new(specs.clone()), &profile, seed);
        for _ in 0..draws.below(20) {
            scheduler.place(&request);
        }
        let before = scheduler.cluster().clone();
        let gang = Gang { request, members, neighbourhood_us: side };
        match place_gang(&mut scheduler, &gang) {
            Some(placed) => {
                prop_assert_eq!(placed.len(), members as usize);
                for one in &placed {
                    for other in &placed {
                        let [a, b] = specs[one.node().0 as usize].coordinate;
                        let [c, d] = specs[other.node().0 as usize].coordinate;
                        prop_assert!(a.abs_diff(c) + b.abs_diff(d) <= 2 * side);
                    }
                }
                for member in &placed {
                    scheduler.release(member);
                }
                prop_assert!(*scheduler.cluster() == before);
            }
            None => prop_assert!(*scheduler.cluster() == before, "a refused gang took something"),
        }
    }

    #[test]
    fn backfill_never_delays_the_gang(seed: u64, needed in 1_u32..20) {
        let mut draws = Draws::new(seed);
        let at = TimestampMs::new;
        let mut running: Vec<Running> = (0..8)
            .map(|_| Running { ends: at(draws.below(50)), units: 1 + draws.below(4) as u32 })
            .collect();
        let mut free = draws.below(8) as u32;
        let Some(mut reserved) = shadow(at(0), free, &running, needed) else {
            let all: u32 = running.iter().map(|it| it.units).sum();
            prop_assert!(free + all < needed);
            return Ok(());
        };
        let promised = reserved.starts;
        for _ in 0..20 {
            let units = 1 + draws.below(4) as u32;
            let ends = at(draws.below(90));
            if may_backfill(&reserved, free, units, ends) {
                free -= units;
                if ends > reserved.starts {
                    reserved.spare -= units;
                }
                running.push(Running { ends, units });
                let now = shadow(at(0), free, &running, needed);
                prop_assert!(now.is_some_and(|it| it.starts <= promised), "{now:?} > {promised:?}");
            }
        }
    }

    #[test]
    fn nobody_starves(seed: u64, rate in 1_u64..4) {
        // One job is served each minute; `rate` richer ones arrive each minute.
        let mut draws = Draws::new(seed);
        let minute = |it: u64| TimestampMs::new(it * 60_000);
        let poor = Waiting { job: 0, price: amount(1), priority: 1, since: minute(0) };
        let mut waiting = vec![poor];
        let mut next = 1;
        let bound = AGE_FULL.get() / 60_000 + 1;
        let mut served_at = None;
        for now in 0..400 {
            for _ in 0..rate {
                let price = amount(1_000 + draws.below(1_000));
                waiting.push(Waiting { job: next, price, priority: 8, since: minute(now) });
                next += 1;
            }
            let first = in_turn(&waiting, minute(now))[0];
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
    fn the_price_to_be_next_makes_it_next(seed: u64, jobs in 2_u64..12) {
        let mut draws = Draws::new(seed);
        let now = TimestampMs::new(100 * 60_000);
        let waiting: Vec<Waiting> = (0..jobs)
            .map(|job| Waiting {
                job,
                price: amount(1 + draws.below(500)),
                priority: 1 + draws.below(8) as u8,
                since: TimestampMs::new(draws.below(100 * 60_000)),
            })
            .collect();
        for job in &waiting {
            let aged = now.saturating_since(job.since) >= AGE_FULL;
            let raised = |price: u128| -> usize {
                let mut waiting = waiting.clone();
                waiting[job.job as usize].price = Amount::new(price);
                position(&waiting, job.job, now).unwrap()
            };
            match price_to_be_next(&waiting, job.job, now) {
                Some(price) => {
                    prop_assert_eq!(raised(price.get()), 0);
                    if price > job.price {
                        prop_assert!(raised(price.get() - 1) > 0, "not the least");
                    }
                }
                None => prop_assert!(aged || raised(1 << 60) > 0),
            }
        }
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
fn slot_prices_rise_from_low_to_high() {
    let mut calendar = Calendar::new(100, amount(100), amount(10_000));
    let one = DeadlineJob {
        earliest: 0,
        deadline: 1,
        slots: 1,
        parallel: 1,
        value: amount(1_000_000),
    };
    let mut last = Amount::ZERO;
    for unit in 0..100 {
        let price = calendar.admit(&one).unwrap().price;
        assert!(price >= last);
        if unit == 50 {
            // Half full: the geometric mean.
            assert_eq!(price, amount(1_000));
        }
        last = price;
    }
    assert_eq!(calendar.price(0), None);
    assert_eq!(calendar.admit(&one), Err(Refusal::NoRoom { missing: 1 }));
}

#[test]
fn what_is_given_back_can_be_reserved_again() {
    let mut calendar = Calendar::new(1, amount(1), amount(2));
    let job = DeadlineJob {
        earliest: 0,
        deadline: 4,
        slots: 4,
        parallel: 1,
        value: amount(100),
    };
    let reservation = calendar.admit(&job).unwrap();
    calendar.give_back(&reservation, 2);
    let rest = DeadlineJob {
        earliest: 2,
        slots: 2,
        ..job
    };
    assert!(calendar.admit(&rest).is_ok() && calendar.admit(&rest).is_err());
    calendar.advance(3);
    assert_eq!((calendar.reserved(2), calendar.reserved(3)), (0, 1));
}

#[test]
fn age_overtakes_price_bit_by_bit() {
    let job = |job, price, since| Waiting {
        job,
        price: amount(price),
        priority: 1,
        since: TimestampMs::new(since),
    };
    let minutes = |it: u64| DurationMs::from_secs(it * 60).get();
    let waiting = [job(1, 100, 0), job(2, 150, minutes(4))];
    let first = |now| in_turn(&waiting, TimestampMs::new(now))[0].job;
    assert_eq!(first(minutes(4)), 1);
    let waiting = [job(1, 100, 0), job(2, 250, minutes(4))];
    let first = |now| in_turn(&waiting, TimestampMs::new(now))[0].job;
    assert_eq!((first(minutes(4)), first(minutes(31))), (2, 1));
}

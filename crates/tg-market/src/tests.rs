#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;
use tg_types::{
    Address, Amount, Digest, Domain, DurationMs, JobNeeds, Label, Machine, ModeSet, OfferId,
    OfferTerms, Pricing, TimestampMs, VerificationMode,
};

use crate::book::gang::{GangSurvey, member_demand};
use crate::placement::{SYNC_STAKE_FACTOR, assess};
use crate::{
    Constraint, JobDemand, OfferFacts, OfferView, Quote, Rejections, TrackRecord, best_offer,
    explain,
};

/// An offer with everything that a view needs.
#[derive(Debug, Clone)]
struct TestOffer {
    offer: OfferId,
    provider: Address,
    terms: OfferTerms,
    slots_free: u16,
    funds: Amount,
    suspended_until: TimestampMs,
    record: TrackRecord,
}

impl TestOffer {
    /// An offer that fits [`demand`] for `price`.
    fn new(name: u8, price: u128) -> Self {
        Self {
            offer: OfferId::new([name; 32]),
            provider: Address::new([name; 20]),
            terms: OfferTerms {
                hardware: Label::lossy("test"),
                price_base: Amount::new(price),
                price_per_mmac: Amount::ZERO,
                latency_base_ms: DurationMs::new(100),
                speed_mmac_per_s: 1,
                memory_bytes: 1_000,
                slots: 4,
                collateral_per_lease: Amount::new(50),
                modes: ModeSet::UNSEALED,
                machine: Machine::CPU_ONLY,
                price_per_gpu_second: Amount::ZERO,
                pricing: Pricing::Fixed,
            },
            slots_free: 4,
            funds: Amount::new(500),
            suspended_until: TimestampMs::ZERO,
            record: TrackRecord::default(),
        }
    }

    fn view(&self) -> OfferView<'_> {
        OfferView {
            offer: self.offer,
            provider: self.provider,
            terms: &self.terms,
            slots_free: self.slots_free,
            funds: self.funds,
            suspended_until: self.suspended_until,
            record: self.record,
            facts: OfferFacts::default(),
        }
    }
}

fn views(test_offers: &[TestOffer]) -> impl Iterator<Item = OfferView<'_>> {
    test_offers.iter().map(TestOffer::view)
}

fn demand() -> JobDemand<'static> {
    JobDemand {
        macs: 1_000_000,
        memory_bytes: 1_000,
        mode: VerificationMode::Proof,
        stake_min: Amount::ZERO,
        max_price: Amount::new(1_000),
        now: TimestampMs::new(10_000),
        deadline: TimestampMs::new(20_000),
        spare: DurationMs::ZERO,
        excluded: &[],
        tie_seed: [1; 32],
        needs: &JobNeeds::ANY_MACHINE,
        stock: None,
        prices: None,
        start: TimestampMs::new(10_000),
        lease_factor: 3,
        lease_grace: DurationMs::ZERO,
    }
}

fn winner(test_offers: &[TestOffer]) -> Option<OfferId> {
    best_offer(&demand(), views(test_offers))
        .chosen
        .map(|quote| quote.offer)
}

#[test]
fn the_cheapest_wins() {
    let test_offers = [
        TestOffer::new(1, 30),
        TestOffer::new(2, 20),
        TestOffer::new(3, 25),
    ];
    let quote = best_offer(&demand(), views(&test_offers)).chosen.unwrap();
    assert_eq!(
        quote,
        Quote {
            offer: OfferId::new([2; 32]),
            provider: Address::new([2; 20]),
            price: Amount::new(20),
            // A newcomer fails one of four: 20 + 1000 / 4.
            expected_cost: Amount::new(270),
            duration: DurationMs::new(1_100),
            collateral: Amount::new(50),
            start: TimestampMs::new(10_000),
            until: TimestampMs::new(13_300),
            devices: 0,
            partition: None,
            packing: Amount::ZERO,
            is_top: false,
            look: crate::packing::Shape::NOTHING,
        }
    );
    assert_eq!(winner(&[]), None);
}

#[test]
fn each_constraint_alone_rejects() {
    type Break = fn(&mut TestOffer);
    let cases: [(Constraint, Break); 7] = [
        (Constraint::Mode, |it| {
            it.terms.modes = ModeSet::of(&[VerificationMode::None]);
        }),
        (Constraint::Memory, |it| it.terms.memory_bytes = 999),
        (Constraint::Price, |it| {
            it.terms.price_base = Amount::new(1_001);
        }),
        (Constraint::Deadline, |it| {
            it.terms.latency_base_ms = DurationMs::new(9_001);
        }),
        (Constraint::Slots, |it| it.slots_free = 0),
        (Constraint::Funds, |it| it.funds = Amount::new(49)),
        (Constraint::Suspended, |it| {
            it.suspended_until = TimestampMs::new(10_001);
        }),
    ];
    for (constraint, spoil) in cases {
        let mut test_offers = [TestOffer::new(1, 20)];
        assert!(winner(&test_offers).is_some());
        spoil(&mut test_offers[0]);
        let placement = best_offer(&demand(), views(&test_offers));
        assert_eq!(placement.chosen, None, "{constraint}");
        assert_eq!(placement.considered, 1);
        let counts: Vec<_> = placement.rejections.iter().collect();
        assert_eq!(counts, [(constraint, 1)]);
    }
    let excluded = [Address::new([1; 20])];
    let demand = JobDemand {
        excluded: &excluded,
        ..demand()
    };
    let placement = best_offer(
        &demand,
        views(&[TestOffer::new(1, 20)])
            .collect::<Vec<_>>()
            .into_iter(),
    );
    assert_eq!(
        placement.rejections.iter().collect::<Vec<_>>(),
        [(Constraint::Excluded, 1)]
    );
}

/// Two machines of one owner that ask 2 and 3, with `times` their price as collateral.
fn machines_of_one_owner(times: u128) -> [TestOffer; 2] {
    [(1, 2), (2, 3)].map(|(name, price)| {
        let mut offer = TestOffer::new(name, price);
        offer.provider = Address::new([1; 20]);
        offer.terms.collateral_per_lease = Amount::new(price * times);
        offer.funds = Amount::new(10_000);
        offer
    })
}

#[test]
fn the_dearest_member_leads_with_the_price_of_all_at_stake() {
    let needs = JobNeeds {
        gang: 2,
        ..JobNeeds::ANY_MACHINE
    };
    let mut asked = JobDemand {
        mode: VerificationMode::Sync,
        needs: &needs,
        ..demand()
    };
    let too_little = machines_of_one_owner(39);
    for view in views(&too_little) {
        let broken = assess(&member_demand(&asked), &view).broken;
        assert_eq!(broken.iter().collect::<Vec<_>>(), [Constraint::Stake]);
    }
    let fit = |asked: &JobDemand<'_>, offers: &[TestOffer]| {
        GangSurvey::new(asked, views(offers), Amount::ZERO).fit()
    };
    assert_eq!(fit(&asked, &too_little).members, []);
    let enough = machines_of_one_owner(40);
    let members = fit(&asked, &enough).members;
    let prices: Vec<u128> = members.iter().map(|it| it.price.get()).collect();
    assert_eq!(prices, [3, 2]);
    let won = Amount::new(prices.iter().sum()).saturating_mul(SYNC_STAKE_FACTOR);
    assert!(members[0].collateral >= won);
    // However much the order would pay.
    asked.max_price = Amount::MAX;
    assert_eq!(fit(&asked, &enough).members.len(), 2);
    asked.mode = VerificationMode::Optimistic;
    let broken = |times| {
        fit(&asked, &machines_of_one_owner(times))
            .members
            .is_empty()
    };
    assert!(broken(5) && !broken(6));
}

#[test]
fn limits_hold_to_their_last_unit() {
    let mut test_offer = TestOffer::new(1, 1_000);
    test_offer.terms.latency_base_ms = DurationMs::new(9_000);
    test_offer.funds = Amount::new(50);
    test_offer.suspended_until = TimestampMs::new(10_000);
    assert!(winner(&[test_offer]).is_some());
}

#[test]
fn an_offer_counts_under_everything_it_lacks() {
    let mut test_offer = TestOffer::new(1, 2_000);
    test_offer.slots_free = 0;
    let test_offers = [test_offer, TestOffer::new(2, 3_000)];
    let placement = best_offer(&demand(), views(&test_offers));
    let counts: Vec<_> = placement.rejections.iter().collect();
    assert_eq!(counts, [(Constraint::Price, 2), (Constraint::Slots, 1)]);
    assert_eq!(placement.considered, 2);
}

#[test]
fn a_price_beyond_the_largest_amount_is_a_price_that_does_not_fit() {
    let mut test_offer = TestOffer::new(1, 1);
    test_offer.terms.price_per_mmac = Amount::MAX;
    let mut demand = demand();
    demand.max_price = Amount::MAX;
    let placement = best_offer(&demand, views(std::slice::from_ref(&test_offer)));
    assert_eq!(placement.chosen, None);
    assert_eq!(placement.rejections.count(Constraint::Price), 1);
    let assessments = explain(&demand, views(std::slice::from_ref(&test_offer)));
    assert_eq!(assessments[0].quote, None);
}

#[test]
fn reputation_moves_the_winner_by_its_expected_loss() {
    let mut proven = TestOffer::new(1, 100);
    proven.record.accepted = 96;
    // One failure of 100 leases: 100 + 10. The newcomer asks 20 and risks 250.
    assert_eq!(proven.record.failure_ppm(), 10_000);
    assert_eq!(
        winner(&[TestOffer::new(2, 20), proven.clone()]),
        Some(proven.offer)
    );
    // A newcomer can make up for it with its price only if the job is worth little.
    let cheap = JobDemand {
        max_price: Amount::new(100),
        ..demand()
    };
    let test_offers = [TestOffer::new(2, 20), proven];
    let quote = best_offer(&cheap, views(&test_offers)).chosen.unwrap();
    assert_eq!(quote.offer, test_offers[0].offer);
}

#[test]
fn failure_estimates() {
    fn check(accepted: u32, rejected: u32, late: u32, abandoned: u32, ppm: u32) {
        let record = TrackRecord {
            accepted,
            rejected,
            late,
            abandoned,
        };
        assert_eq!(record.failure_ppm(), ppm, "{record:?}");
    }
    check(0, 0, 0, 0, 250_000);
    check(0, 1, 0, 0, 625_000);
    check(0, 0, 1, 0, 400_000);
    check(0, 0, 0, 1, 400_000);
    check(12, 0, 0, 0, 62_500);
    check(u32::MAX, 0, 0, 0, 1);
    check(0, u32::MAX, u32::MAX, u32::MAX, 1_000_000);
    check(u32::MAX, u32::MAX, u32::MAX, u32::MAX, 857_143);
}

#[test]
fn ties_go_by_the_hash_with_the_seed() {
    let test_offers: Vec<_> = (1..=40).map(|name| TestOffer::new(name, 20)).collect();
    let mut winners = std::collections::BTreeSet::new();
    for seed in 0..32u8 {
        let demand = JobDemand {
            tie_seed: [seed; 32],
            ..demand()
        };
        let chosen = best_offer(&demand, views(&test_offers))
            .chosen
            .unwrap()
            .offer;
        let by_hash = test_offers
            .iter()
            .map(|test_offer| test_offer.offer)
            .min_by_key(|offer| {
                let mut bytes = vec![seed; 32];
                bytes.extend_from_slice(offer.as_bytes());
                Digest::of(Domain::MatchTie, &bytes)
            })
            .unwrap();
        assert_eq!(chosen, by_hash);
        winners.insert(chosen);
    }
    // 32 draws of 40 that always hit the same few names would be a name that wins by itself.
    assert!(winners.len() > 12, "{}", winners.len());
}

#[test]
fn explanations_list_fitting_offers_first() {
    let mut full = TestOffer::new(9, 5);
    full.slots_free = 0;
    let mut dear = TestOffer::new(4, 5_000);
    dear.terms.memory_bytes = 0;
    let test_offers = [dear, TestOffer::new(1, 30), full, TestOffer::new(2, 20)];
    let assessments = explain(&demand(), views(&test_offers));
    let names: Vec<u8> = assessments
        .iter()
        .map(|it| it.offer.as_bytes()[0])
        .collect();
    assert_eq!(names, [2, 1, 4, 9]);
    let broken: Vec<_> = assessments[2].broken.iter().collect();
    assert_eq!(broken, [Constraint::Memory, Constraint::Price]);
    assert!(assessments[0].broken.is_empty());
    for constraint in Constraint::ALL {
        assert!(!constraint.explanation().is_empty());
        assert!(!constraint.as_str().is_empty());
    }
}

fn any_test_offer() -> impl Strategy<Value = TestOffer> {
    (
        (0..40u8, 0..6u8, 0..1_500u128, 0..40u128, 0..12_000u64),
        (0..4u8, 900..1_100u64, 0..3u16, 0..100u128, 0..100u128),
        (9_000..11_000u64, 0..6u32, 0..3u32, 0..3u32, 0..3u32),
    )
        .prop_map(|(price, gives, record)| {
            let mut test_offer = TestOffer::new(price.0, price.2);
            test_offer.provider = Address::new([price.1; 20]);
            test_offer.terms.price_per_mmac = Amount::new(price.3);
            test_offer.terms.latency_base_ms = DurationMs::new(price.4);
            test_offer.terms.modes = ModeSet::of(
                &VerificationMode::ALL
                    .into_iter()
                    .filter(|mode| gives.0 & 1 << mode.tag() != 0)
                    .collect::<Vec<_>>(),
            );
            test_offer.terms.memory_bytes = gives.1;
            test_offer.slots_free = gives.2;
            test_offer.funds = Amount::new(gives.3);
            test_offer.terms.collateral_per_lease = Amount::new(gives.4);
            test_offer.suspended_until = TimestampMs::new(record.0);
            test_offer.record = TrackRecord {
                accepted: record.1,
                rejected: record.2,
                late: record.3,
                abandoned: record.4,
            };
            test_offer
        })
}

/// Offers with distinct ids.
fn any_test_offers() -> impl Strategy<Value = Vec<TestOffer>> {
    proptest::collection::vec(any_test_offer(), 0..24).prop_map(|mut test_offers| {
        test_offers.sort_by_key(|test_offer| test_offer.offer);
        test_offers.dedup_by_key(|test_offer| test_offer.offer);
        test_offers
    })
}

/// The same answer, written the slow and obvious way with wide integers.
fn reference(demand: &JobDemand<'_>, test_offers: &[TestOffer]) -> Option<OfferId> {
    let mut fitting: Vec<(u128, Digest, OfferId)> = Vec::new();
    for test_offer in test_offers {
        let terms = &test_offer.terms;
        let millions = u128::from(demand.macs).div_ceil(1_000_000);
        let price = terms.price_base.get() + terms.price_per_mmac.get() * millions;
        let work_ms = u128::from(demand.macs).div_ceil(u128::from(terms.speed_mmac_per_s) * 1_000);
        let done = u128::from(demand.now.get()) + u128::from(terms.latency_base_ms.get()) + work_ms;
        let fits = terms.modes.contains(demand.mode)
            && terms.memory_bytes >= demand.memory_bytes
            && price <= demand.max_price.get()
            && done <= u128::from(demand.deadline.get())
            && test_offer.slots_free >= 1
            && test_offer.funds >= terms.collateral_per_lease
            && !demand.excluded.contains(&test_offer.provider)
            && test_offer.suspended_until <= demand.now;
        if !fits {
            continue;
        }
        let record = test_offer.record;
        let failed = u128::from(4 * record.rejected + record.late + record.abandoned);
        let ppm = ((failed + 1) * 1_000_000).div_ceil(failed + u128::from(record.accepted) + 4);
        let cost = price + (demand.max_price.get() * ppm).div_ceil(1_000_000);
        let mut bytes = demand.tie_seed.to_vec();
        bytes.extend_from_slice(test_offer.offer.as_bytes());
        fitting.push((cost, Digest::of(Domain::MatchTie, &bytes), test_offer.offer));
    }
    fitting.into_iter().min().map(|(_, _, offer)| offer)
}

/// The same cases in every run.
fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 512,
        rng_seed: proptest::test_runner::RngSeed::Fixed(0x3a2c),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_winner_is_the_one_of_the_reference(
        test_offers in any_test_offers(),
        max_price in 0..2_000u128,
        macs in 0..5_000_000u64,
        excluded in proptest::collection::vec((0..6u8).prop_map(|name| Address::new([name; 20])), 0..3),
    ) {
        let demand = JobDemand {
            max_price: Amount::new(max_price),
            macs,
            excluded: &excluded,
            ..demand()
        };
        let placement = best_offer(&demand, views(&test_offers));
        prop_assert_eq!(
            placement.chosen.map(|quote| quote.offer),
            reference(&demand, &test_offers)
        );
        prop_assert_eq!(placement.considered as usize, test_offers.len());
    }

    #[test]
    fn the_order_of_offers_does_not_matter(
        test_offers in any_test_offers(),
        shuffled in any::<prop::sample::Index>(),
        seed: [u8; 32],
    ) {
        let demand = JobDemand { tie_seed: seed, ..demand() };
        let there = best_offer(&demand, views(&test_offers));
        let mut other = test_offers.clone();
        other.reverse();
        if !other.is_empty() {
            let by = shuffled.index(other.len());
            other.rotate_left(by);
        }
        prop_assert_eq!(best_offer(&demand, views(&other)), there);
        prop_assert_eq!(explain(&demand, views(&other)), explain(&demand, views(&test_offers)));
    }

    #[test]
    fn explanation_and_match_agree(test_offers in any_test_offers()) {
        let placement = best_offer(&demand(), views(&test_offers));
        let assessments = explain(&demand(), views(&test_offers));
        prop_assert_eq!(assessments.len(), test_offers.len());
        let first = assessments.first().filter(|it| it.broken.is_empty());
        prop_assert_eq!(first.and_then(|it| it.quote), placement.chosen);
        let mut rejections = Rejections::default();
        for assessment in &assessments {
            rejections.add(assessment.broken);
        }
        prop_assert_eq!(rejections, placement.rejections);
    }

    #[test]
    fn a_lower_price_never_loses(test_offers in any_test_offers(), which in any::<prop::sample::Index>()) {
        let before = best_offer(&demand(), views(&test_offers)).chosen;
        if let Some(before) = before {
            let mut cheaper = test_offers.clone();
            let at = cheaper.iter().position(|it| it.offer == before.offer).unwrap();
            cheaper[at].terms.price_base = cheaper[at].terms.price_base.saturating_sub(Amount::new(1));
            let after = best_offer(&demand(), views(&cheaper)).chosen.unwrap();
            prop_assert_eq!(after.offer, before.offer);
            // And taking another offer away changes nothing.
            let gone = which.index(test_offers.len());
            if test_offers[gone].offer != before.offer {
                let mut fewer = test_offers;
                fewer.remove(gone);
                prop_assert_eq!(best_offer(&demand(), views(&fewer)).chosen, Some(before));
            }
        }
    }

    #[test]
    fn extreme_numbers_never_panic(
        numbers in any::<(u128, u128, u64, u64, u64)>(),
        money in any::<(u128, u128)>(),
        times in any::<(u64, u64, u64)>(),
        record in any::<(u32, u32, u32, u32)>(),
    ) {
        let mut test_offer = TestOffer::new(1, numbers.0);
        test_offer.terms.price_per_mmac = Amount::new(numbers.1);
        test_offer.terms.latency_base_ms = DurationMs::new(numbers.2);
        test_offer.terms.speed_mmac_per_s = numbers.3;
        test_offer.funds = Amount::new(money.0);
        test_offer.suspended_until = TimestampMs::new(times.2);
        test_offer.record = TrackRecord {
            accepted: record.0,
            rejected: record.1,
            late: record.2,
            abandoned: record.3,
        };
        let demand = JobDemand {
            macs: numbers.4,
            max_price: Amount::new(money.1),
            now: TimestampMs::new(times.0),
            deadline: TimestampMs::new(times.1),
            spare: DurationMs::ZERO,
            ..demand()
        };
        let _ = best_offer(&demand, std::iter::once(test_offer.view()));
    }
}

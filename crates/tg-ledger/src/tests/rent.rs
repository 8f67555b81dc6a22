//! Full categories: what it costs to fill one and to hold it, and how honest records get in.
#![allow(clippy::print_stdout, reason = "what attacks cost is printed")]

use tg_types::CheckedSignatures;
use tg_types::{
    Address, Amount, BidId, Digest, DurationMs, JobId, JobNeeds, JobOrder, OfferId, TimestampMs,
    Transaction, VerificationMode, Wallet, keccak256,
};

use super::bounds::terms;
use super::pruning::{MODEL, network};
use crate::apply::{Execution, check_transaction};
use crate::limits::{ENDED_JOBS_MAX, OFFERS_MAX, OPEN_JOBS_MAX};
use crate::record::{Account, Bid, EndReason, Offer};
use crate::rent::{OFFER_BYTES, Rent, RentCategory};
use crate::state::State;
use crate::{Event, Parameters, Proposal, propose};

const HOUR: DurationMs = DurationMs::from_secs(3600);

fn paying() -> State {
    let mut state = network();
    state.parameters.rent_full_hour = Parameters::development().rent_full_hour;
    state
}

/// Puts an offer as a transaction of `provider` would; what it burned and what it locked.
fn post(state: &mut State, number: u64, provider: Address) -> (Amount, Amount) {
    let charge = state.charge(RentCategory::Offers, OFFER_BYTES);
    state.put_offer(Offer {
        id: OfferId::new(keccak256(&number.to_be_bytes())),
        provider,
        terms: terms(),
        slots_taken: 0,
        updated_at: TimestampMs::ZERO,
        rent: Rent {
            payer: provider,
            deposit: charge.deposit,
            paid_to: state.meters.of(RentCategory::Offers),
            bytes: charge.bytes,
        },
    });
    (charge.entry, charge.deposit)
}

/// What all offers of an account owe.
fn owed(state: &State, provider: Address) -> u128 {
    let reading = state.meters.of(RentCategory::Offers);
    let mine = state.offers.iter().filter(|it| it.provider == provider);
    mine.map(|it| it.rent.owed(reading).get()).sum()
}

#[test]
fn filling_all_offers_with_cheap_accounts_costs_more_than_honest_ones_lose() {
    let tgrid = |units: u128| units / 1_000_000_000_000_000_000;
    for honest in [1_000, OFFERS_MAX as u64 / 2] {
        let mut state = paying();
        let (good, bad) = (Address::new([1; 20]), Address::new([2; 20]));
        for number in 0..honest {
            post(&mut state, number, good);
        }
        let (mut burned, mut locked) = (0, 0);
        for number in honest..OFFERS_MAX as u64 {
            let (entry, deposit) = post(&mut state, number, bad);
            burned += entry.get();
            locked += deposit.get();
        }
        let usual = RentCategory::Offers.price(state.parameters.rent_full_hour, honest as usize);
        let full = RentCategory::Offers.price(state.parameters.rent_full_hour, OFFERS_MAX);
        state.meters.run(RentCategory::Offers, full, HOUR);
        let usual = usual * u128::from(OFFER_BYTES) * u128::from(HOUR.get()) * u128::from(honest);
        let lost = owed(&state, good).saturating_sub(usual);
        let held = owed(&state, bad);
        println!(
            "{honest} honest offers: filling burns {} TGRID and locks {}, an hour burns {}, honest ones lose {}",
            tgrid(burned),
            tgrid(locked),
            tgrid(held),
            tgrid(lost)
        );
        println!(
            "attack-table\tfills the table of offers beside {honest} honest ones and holds it for an hour\tproviders\t\
             \t-{}\t{lost}\t0\t0\t0",
            burned + held
        );
        assert!(tgrid(burned) > 60, "{burned}");
        assert!(lost <= burned + held, "{lost} of {burned} and {held}");
    }
}

#[test]
fn an_honest_provider_gets_into_a_category_that_an_attacker_filled() {
    let mut state = paying();
    let bad = Address::new([2; 20]);
    state.put_account(Account::new(bad, Amount::from_tgrid(1)));
    for number in 0..OFFERS_MAX as u64 {
        let (_, deposit) = post(&mut state, number, bad);
        state.totals.minted = state.totals.minted.saturating_add(deposit);
    }
    state.totals.minted = state.totals.minted.saturating_add(Amount::from_tgrid(1));
    let mut account = state.account(&bad).unwrap().clone();
    account.offers = OFFERS_MAX as u32;
    state.put_account(account);
    state.stock_is_stale = true;
    state.seal();
    let alice = Wallet::from_seed(b"alice");
    let before = state.balance(&alice.address());
    let posted = alice.sign(Transaction::PostOffer { terms: terms() }, 0, state.domain());
    assert_eq!(
        check_transaction(&state, &posted, &CheckedSignatures::none()),
        Ok(())
    );
    let mut proposal = Proposal::empty(state.validators()[0].address, TimestampMs::new(2_000));
    proposal.transactions = vec![posted];
    let proposed = propose(&state, proposal).unwrap();
    assert_eq!(proposed.refused, []);
    let next = proposed.state;
    assert_eq!(next.offers().len(), OFFERS_MAX);
    let mine = next
        .offers()
        .iter()
        .find(|it| it.provider == alice.address());
    let deposit = mine.unwrap().rent.deposit;
    let left = proposed.events.iter().filter_map(|event| match event {
        Event::RecordExpired { owner, .. } => Some(*owner),
        _ => None,
    });
    assert_eq!(left.collect::<Vec<_>>(), [bad]);
    let paid = before.checked_sub(next.balance(&alice.address())).unwrap();
    let burned = paid.saturating_sub(deposit);
    println!("the going rate: {burned} TGRID burned, {deposit} locked");
    assert!(burned < Amount::new(60_000_000_000_000_000), "{burned}");
    // What was locked by the one that left went back to it.
    assert!(next.balance(&bad) > Amount::from_tgrid(1));
    assert!(next.money().is_conserved());
}

#[test]
fn the_price_rises_with_the_category_and_a_deposit_lasts_as_long_as_it_says() {
    let full_hour = Parameters::development().rent_full_hour;
    for category in RentCategory::ALL {
        let capacity = category.capacity();
        let price = |len| category.price(full_hour, len);
        assert!(price(0) > 0, "{category:?}");
        assert_eq!(price(0), price(capacity / 2));
        // Rounded down once, so a doubled price may be one more.
        let twice = price(capacity * 11 / 20 + 1) - 2 * price(0);
        assert!(twice <= 1, "{category:?}");
        assert!(price(capacity) / price(0) >= 1_000);
        assert_eq!(price(capacity), price(usize::MAX / 4));
    }
    let rent = Rent {
        payer: Address::default(),
        deposit: Amount::new(1_000),
        paid_to: 5,
        bytes: 10,
    };
    assert_eq!(rent.ends_at(), Some(105));
    assert_eq!(rent.owed(50), Amount::new(450));
    assert_eq!(rent.owed(105), Amount::new(1_000));
    assert_eq!(rent.owed(u128::MAX), Amount::new(1_000));
    assert_eq!(Rent::default().ends_at(), None);
    assert_eq!(RentCategory::EndedJobs.capacity(), ENDED_JOBS_MAX);
}

#[test]
fn an_order_takes_the_place_of_another_one_and_none_that_a_bid_keeps() {
    let mut state = paying();
    let bad = Address::new([2; 20]);
    let wealth = Amount::from_tgrid(1_000_000);
    state.put_account(Account::new(bad, wealth));
    state.totals.minted = state.totals.minted.saturating_add(wealth);
    let order = order();
    let mut execution = Execution::begin(&state, TimestampMs::new(2_000));
    execution.state.put_bid(Bid {
        id: BidId::new([7; 32]),
        bidder: bad,
        commitment: Digest::default(),
        deposit: Amount::ZERO,
        slot: 0,
    });
    for number in 0..=OPEN_JOBS_MAX as u64 {
        let id = JobId::new(keccak256(&number.to_be_bytes()));
        execution.submit_as(id, bad, &order).unwrap();
    }
    let open = execution.state.category_len(RentCategory::OpenJobs);
    assert_eq!(open, OPEN_JOBS_MAX - 1);
}

#[test]
fn an_honest_order_gets_into_a_queue_that_an_attacker_filled() {
    let mut state = paying();
    let bad = Address::new([2; 20]);
    let wealth = Amount::from_tgrid(1_000_000);
    state.put_account(Account::new(bad, wealth));
    state.totals.minted = state.totals.minted.saturating_add(wealth);
    let order = order();
    let mut execution = Execution::begin(&state, TimestampMs::new(2_000));
    let burned = execution.state.totals.burned;
    for number in 0..OPEN_JOBS_MAX as u64 {
        let id = JobId::new(keccak256(&number.to_be_bytes()));
        execution.submit_as(id, bad, &order).unwrap();
    }
    let burned = execution.state.totals.burned.saturating_sub(burned);
    let proposer = state.validators()[0].address;
    let (state, _, _) = execution.finish(proposer).unwrap();
    assert_eq!(state.queued_jobs().count(), OPEN_JOBS_MAX);
    let alice = Wallet::from_seed(b"alice");
    let submit = alice.sign(Transaction::SubmitJob { order }, 0, state.domain());
    assert_eq!(
        check_transaction(&state, &submit, &CheckedSignatures::none()),
        Ok(())
    );
    let mut proposal = Proposal::empty(proposer, TimestampMs::new(3_000));
    proposal.transactions = vec![submit];
    let proposed = propose(&state, proposal).unwrap();
    assert_eq!(proposed.refused, []);
    let mut queued = proposed.state.queued_jobs();
    let mine = queued.find(|job| job.requestor == alice.address()).unwrap();
    println!(
        "filling the queue burned {burned} TGRID at once; the order that came then locked {} for rent",
        mine.rent.deposit
    );
    // Whoever entered the cheapest left first, and got its escrow back.
    let ended: Vec<_> = proposed.state.ended_jobs().collect();
    assert!(!ended.is_empty());
    assert!(ended.iter().all(|job| job.requestor == bad
        && job.end() == Some(EndReason::RentSpent)
        && job.escrow().is_zero()));
    assert!(proposed.state.queued_jobs().count() <= OPEN_JOBS_MAX);
    assert!(proposed.state.money().is_conserved());
}

/// What an answer of a byte costs that is kept for a day, beside so many bytes that are taken already.
fn day_beside(state: &mut State, taken: u64) -> u128 {
    state.retained_bytes = taken;
    let order = JobOrder {
        retention: DurationMs::from_secs(24 * 3_600),
        ..order()
    };
    let charge = state.retention_charge(&order, TimestampMs::new(602_000));
    assert!(charge.entry.is_zero(), "the deadline is here");
    charge.deposit.get()
}

#[test]
fn room_for_answers_is_bounded_and_its_price_doubles_beyond_a_half() {
    let mut state = paying();
    let room: u64 = 8 << 30;
    let usual = day_beside(&mut state, 0);
    assert!(usual > 0);
    assert_eq!(day_beside(&mut state, room / 2 - (1 << 20)), usual);
    let twentieth = room / 20;
    for doublings in 1..=9 {
        let taken = room / 2 + doublings * twentieth + (1 << 16);
        let times = day_beside(&mut state, taken) / usual;
        // Rounded once, when it is least.
        assert!(
            (1 << doublings..=(1 << doublings) * 11 / 10).contains(&times),
            "{times}"
        );
    }
    assert!(state.has_room_for_answer(0));
    state.retained_bytes = room - 100;
    assert!(state.has_room_for_answer(100) && !state.has_room_for_answer(101));
    let alice = Wallet::from_seed(b"alice");
    let order = JobOrder {
        retention: DurationMs::from_secs(24 * 3_600),
        ..order()
    };
    let submit = |order| alice.sign(Transaction::SubmitJob { order }, 0, state.domain());
    let check = |order| check_transaction(&state, &submit(order), &CheckedSignatures::none());
    assert_eq!(
        check(order.clone()),
        Err(crate::TransactionError::NoRoomForAnswer)
    );
    let unkept = JobOrder {
        retention: DurationMs::ZERO,
        ..order
    };
    assert_eq!(check(unkept), Ok(()));
}

fn order() -> JobOrder {
    JobOrder {
        model: MODEL,
        input: Digest::default(),
        input_len: 1,
        mode: VerificationMode::None,
        max_price: Amount::from_tgrid(1),
        deadline: TimestampMs::new(602_000),
        max_attempts: 3,
        retention: tg_types::DurationMs::ZERO,
        needs: JobNeeds::ANY_MACHINE,
    }
}

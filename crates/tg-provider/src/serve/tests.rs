//! What the book of a served lease decides.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use tg_types::{Signature, Voucher};

const LEASE: LeaseId = LeaseId::new([1; 32]);
const RUN: Amount = Amount::new(10);
const MINUTE: Amount = Amount::new(400);
const PROVED: Amount = Amount::new(1_000);

fn domain() -> ChainDomain {
    ChainDomain {
        chain_id: 1,
        verifying_contract: Address::default(),
        salt: [0; 32],
    }
}

fn alice() -> Wallet {
    Wallet::from_seed(b"alice")
}

fn book(money: u128) -> ServedBook {
    let terms = ServedTerms {
        lease: LEASE,
        requestor: alice().address(),
        run: RUN,
        minute: MINUTE,
        proved: PROVED,
        by_tokens: false,
        claimed: Amount::ZERO,
        unpaid_first: UNPAID_RUNS_MAX,
        domain: domain(),
    };
    let funds = ServedFunds {
        all: Amount::new(money),
        time: Amount::ZERO,
    };
    ServedBook::new(terms, funds)
}

fn request(number: u64, answered: u64, wallet: &Wallet) -> EndpointRequest {
    let input = vec![1, 2, 3];
    let asked = tg_types::asked_digest(number, &Digest::of_blob(&input));
    let voucher = Voucher {
        answered,
        amount: RUN.saturating_mul(answered),
        ..Voucher::first(LEASE).asking(asked)
    };
    EndpointRequest {
        number,
        voucher: voucher.sign(wallet, &domain()),
        input,
    }
}

#[test]
fn as_many_proofs_are_answered_unpaid_as_may_be_and_runs_beside_them() {
    let mut book = book(1_000_000);
    let alice = alice();
    for number in 1..=UNPAID_PROOFS_MAX {
        let asked = book.decide(&request(number, 0, &alice));
        assert_eq!(asked, RequestDecision::Run);
        assert_eq!(book.decide_proved(number), Ok(()));
    }
    let more = UNPAID_PROOFS_MAX + 1;
    assert_eq!(book.decide(&request(more, 0, &alice)), RequestDecision::Run);
    let refused = book.decide_proved(more).unwrap_err();
    assert!(matches!(
        *refused,
        AnswerPart::Refused {
            because: EndpointRefusal::Unpaid,
            ..
        }
    ));
    // It may still be run; given answers count as those that are made.
    let AnswerPart::Whole {
        answer, signature, ..
    } = whole()
    else {
        panic!("an answer");
    };
    let proved = AnswerPart::Whole {
        answer,
        price: PROVED,
        signature,
    };
    book.answered(1, &proved);
    book.answered(more, &whole());
    assert!(book.decide_proved(more + 1).is_err());
    // A voucher for the first one makes room for one more: 100 runs are worth a proof.
    let paying = request(more + 2, 100, &alice);
    assert_eq!(book.decide(&paying), RequestDecision::Run);
    assert_eq!(book.decide_proved(more + 2), Ok(()));
}

fn whole() -> AnswerPart {
    AnswerPart::Whole {
        answer: vec![5],
        price: RUN,
        signature: Signature {
            r: [0; 32],
            s: [0; 32],
            y_parity: 0,
        },
    }
}

fn because(verdict: &RequestDecision) -> Option<EndpointRefusal> {
    match verdict {
        RequestDecision::Say(part) => match part.as_ref() {
            AnswerPart::Refused { because, .. } => Some(*because),
            _ => None,
        },
        _ => None,
    }
}

#[test]
fn only_the_requestors_own_requests_are_answered() {
    let mut book = book(1_000_000);
    assert_eq!(book.decide(&request(1, 0, &alice())), RequestDecision::Run);
    let stranger = request(2, 0, &Wallet::from_seed(b"mallory"));
    let unsigned = Some(EndpointRefusal::Unsigned);
    assert_eq!(because(&book.decide(&stranger)), unsigned);
    // A copied request with another input or number.
    let mut other = request(3, 0, &alice());
    other.input.push(4);
    assert_eq!(because(&book.decide(&other)), unsigned);
    let mut other = request(3, 0, &alice());
    other.number = 4;
    assert_eq!(because(&book.decide(&other)), unsigned);
    // The same again is answered once.
    assert_eq!(book.decide(&request(1, 0, &alice())), RequestDecision::Wait);
    book.answered(1, &whole());
    assert_eq!(
        book.decide(&request(1, 0, &alice())),
        RequestDecision::Say(Box::new(whole()))
    );
}

#[test]
fn who_does_not_pay_gets_no_more_than_the_limit() {
    let mut book = book(1_000_000);
    for number in 1..=UNPAID_RUNS_MAX {
        assert_eq!(
            book.decide(&request(number, 0, &alice())),
            RequestDecision::Run
        );
        book.answered(number, &whole());
    }
    let next = UNPAID_RUNS_MAX + 1;
    let refused = book.decide(&request(next, 0, &alice()));
    assert_eq!(because(&refused), Some(EndpointRefusal::Unpaid));
    assert_eq!(
        book.decide(&request(next, 1, &alice())),
        RequestDecision::Run
    );
    assert_eq!(book.last().unwrap().voucher.answered, 1);
    // An earlier voucher does not take back a later one.
    book.answered(next, &whole());
    book.decide(&request(next + 1, 0, &alice()));
    assert_eq!(book.last().unwrap().voucher.answered, 1);
}

/// After others took answers and left, a lease begins with few, and has as many as any once it has paid for some.
#[test]
fn whoever_pays_gets_more_unpaid() {
    let mut book = book(1_000_000);
    book.terms.unpaid_first = 4;
    let given = |book: &mut ServedBook, first: u64, paid: u64| {
        let asked = |number| request(number, paid, &alice());
        let is_run = |number: &u64| book.decide(&asked(*number)) == RequestDecision::Run;
        let run: Vec<u64> = (first..first + 200).take_while(is_run).collect();
        run.iter()
            .for_each(|number| book.answered(*number, &whole()));
        run.len() as u64
    };
    assert_eq!(given(&mut book, 1, 0), 4);
    // Four are paid for: 8 may be unpaid.
    assert_eq!(given(&mut book, 5, 4), 8);
    assert_eq!(given(&mut book, 13, 12), 16);
    assert_eq!(given(&mut book, 29, 28), 32);
    assert_eq!(given(&mut book, 61, 60), UNPAID_RUNS_MAX);
    assert_eq!(given(&mut book, 125, 124), UNPAID_RUNS_MAX);
    assert_eq!(book.unpaid_runs(), UNPAID_RUNS_MAX);
}

/// After others took answers and left, requests of served models and proofs are fewer too, as those are what costs most.
#[test]
fn whoever_pays_gets_more_unpaid_of_tokens_and_proofs() {
    let asked = |number, paid| request(number, paid, &alice());
    let given = |book: &mut ServedBook, (first, paid): (u64, u64), price: Amount| {
        let is_promised = |number: &u64| {
            let decision = book.decide(&asked(*number, paid));
            decision == RequestDecision::Run && book.promise(*number, price).is_ok()
        };
        (first..first + 50).take_while(is_promised).count() as u64
    };
    for (unpaid_first, served, proofs) in [
        (UNPAID_RUNS_MAX, UNPAID_SERVED_MAX, UNPAID_PROOFS_MAX),
        (
            UNPAID_RUNS_MAX / 2,
            UNPAID_SERVED_MAX / 2,
            UNPAID_PROOFS_MAX / 2,
        ),
        (4, UNPAID_SERVED_LEAST, 1),
        (1, UNPAID_SERVED_LEAST, 1),
    ] {
        let mut book = book_of_tokens(1_000_000);
        book.terms.unpaid_first = unpaid_first;
        assert_eq!(given(&mut book, (1, 0), RUN), served, "{unpaid_first}");
        let mut book = self::book(1_000_000);
        book.terms.unpaid_first = unpaid_first;
        assert_eq!(given(&mut book, (1, 0), PROVED), proofs, "{unpaid_first}");
    }
    // As many runs as are missing are paid for: as many as in any other.
    let mut book = book_of_tokens(1_000_000);
    book.terms.unpaid_first = 4;
    let paid = UNPAID_RUNS_MAX - 4;
    assert_eq!(given(&mut book, (1, paid), RUN), UNPAID_SERVED_MAX);
}

/// Answers that got lost do not end an endpoint that runs for long, and cost its provider less than its minutes earn.
#[test]
fn a_run_is_written_off_for_each_minute_that_is_paid() {
    let mut book = book(1_000_000);
    for number in 1..=UNPAID_RUNS_MAX {
        book.decide(&request(number, 0, &alice()));
        book.answered(number, &whole());
    }
    for (minutes, next) in (1..=3).zip(UNPAID_RUNS_MAX + 1..) {
        let unpaid = book.decide(&request(next, 0, &alice()));
        assert_eq!(because(&unpaid), Some(EndpointRefusal::Unpaid));
        book.set_funds(ServedFunds {
            all: Amount::new(1_000_000),
            time: Amount::new(MINUTE.get() * minutes),
        });
        let asked = request(next, 0, &alice());
        assert_eq!(book.decide(&asked), RequestDecision::Run);
        book.answered(next, &whole());
    }
}

/// What counts as payment can be claimed, whatever a requestor says of how many answers it had.
#[test]
fn a_voucher_counts_as_payment_only_if_it_can_be_claimed() {
    let mut book = book(1_000_000);
    let voucher = |answered, amount: u128, asks| Voucher {
        answered,
        amount: Amount::new(amount),
        ..Voucher::first(LEASE).asking(asks)
    };
    let mut claimed = Amount::ZERO;
    for (number, (answered, amount)) in [(0, 10), (u64::MAX, 10), (0, 20), (u64::MAX, 30), (3, 5)]
        .into_iter()
        .enumerate()
    {
        let mut asked = request(number as u64 + 1, 0, &alice());
        asked.voucher = voucher(answered, amount, asked.asked()).sign(&alice(), &domain());
        let before = book.paid();
        assert_eq!(book.decide(&asked), RequestDecision::Run);
        let paid = claimable(book.last(), claimed).map(|it| it.voucher.amount);
        assert_eq!(paid.is_some(), book.paid() > before, "{answered}, {amount}");
        claimed = paid.unwrap_or(claimed);
    }
    assert_eq!(claimed, Amount::new(30));
}

/// A book of a served model whose largest request costs 10.
fn book_of_tokens(money: u128) -> ServedBook {
    let mut book = book(money);
    book.terms.by_tokens = true;
    book
}

#[test]
fn who_does_not_pay_for_tokens_gets_what_one_largest_request_costs() {
    let mut book = book_of_tokens(1_000_000);
    let alice = alice();
    // What a request costs shows when it is opened.
    for number in 1..=UNPAID_SERVED_MAX {
        let asked = book.decide(&request(number, 0, &alice));
        assert_eq!(asked, RequestDecision::Run);
        assert_eq!(book.decide_tokens(number, RUN), Ok(()));
    }
    let more = UNPAID_SERVED_MAX + 1;
    book.decide(&request(more, 0, &alice));
    let refused = book.decide_tokens(more, RUN).unwrap_err();
    assert!(matches!(
        *refused,
        AnswerPart::Refused {
            because: EndpointRefusal::Unpaid,
            ..
        }
    ));
    book.answered(more, &refused);
    // Two answers that cost as much: nothing more is made before one is paid.
    book.answered(1, &whole());
    book.answered(2, &whole());
    let next = book.decide(&request(more + 1, 0, &alice));
    assert_eq!(because(&next), Some(EndpointRefusal::Unpaid));
    let paying = book.decide(&request(more + 2, 1, &alice));
    assert_eq!(paying, RequestDecision::Run);
}

#[test]
fn a_small_request_is_answered_although_the_largest_could_not_be_paid() {
    let mut book = book_of_tokens(5);
    let alice = alice();
    assert_eq!(book.decide(&request(1, 0, &alice)), RequestDecision::Run);
    assert_eq!(book.decide_tokens(1, Amount::new(4)), Ok(()));
    assert_eq!(book.decide(&request(2, 0, &alice)), RequestDecision::Run);
    let refused = book.decide_tokens(2, Amount::new(2)).unwrap_err();
    assert!(matches!(
        *refused,
        AnswerPart::Refused {
            because: EndpointRefusal::NoMoney,
            ..
        }
    ));
}

#[test]
fn nothing_is_answered_that_the_escrow_does_not_pay() {
    let mut book = book(25);
    for number in [1, 2] {
        assert_eq!(
            book.decide(&request(number, 0, &alice())),
            RequestDecision::Run
        );
        book.answered(number, &whole());
    }
    let refused = book.decide(&request(3, 2, &alice()));
    assert_eq!(because(&refused), Some(EndpointRefusal::NoMoney));
    book.set_funds(ServedFunds {
        all: Amount::new(100),
        time: Amount::new(70),
    });
    assert_eq!(book.decide(&request(3, 2, &alice())), RequestDecision::Run);
    book.answered(3, &whole());
    let refused = book.decide(&request(4, 3, &alice()));
    assert_eq!(because(&refused), Some(EndpointRefusal::NoMoney));
}

#[test]
fn a_requestor_that_lost_count_is_told_the_last_voucher() {
    let mut book = book(1_000_000);
    book.decide(&request(1, 9, &alice()));
    let mut payment = request(2, 0, &alice());
    payment.input.clear();
    let asked = payment.asked();
    let voucher = Voucher::first(LEASE).asking(asked);
    payment.voucher = voucher.sign(&alice(), &domain());
    let verdict = book.decide(&payment);
    assert_eq!(because(&verdict), Some(EndpointRefusal::Behind));
    let RequestDecision::Say(part) = verdict else {
        unreachable!("it was refused");
    };
    let AnswerPart::Refused { last, .. } = *part else {
        unreachable!("it was refused");
    };
    assert_eq!(last.unwrap().voucher.answered, 9);
}

#[test]
fn answers_that_are_kept_no_more_are_not_made_again() {
    let mut book = book(1_000_000);
    for number in 1..=KEPT_MAX as u64 + 1 {
        assert_eq!(
            book.decide(&request(number, number - 1, &alice())),
            RequestDecision::Run
        );
        book.answered(number, &whole());
    }
    let old = book.decide(&request(1, 0, &alice()));
    assert_eq!(because(&old), Some(EndpointRefusal::Unsigned));
    let kept = book.decide(&request(2, 1, &alice()));
    assert_eq!(kept, RequestDecision::Say(Box::new(whole())));
}

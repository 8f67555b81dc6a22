//! What is said of a gang: why it waits, what would help, and where its money went.

use tg_sdk::Client;
use tg_sdk::dto::{JobStateDto, ModeDto};
use tg_types::{
    Amount, Digest, JobId, JobNeeds, JobOrder, OfferTerms, Receipt, Tier, TimestampMs, Transaction,
    VerificationMode,
};

use crate::calls::{MODEL, active, registered, start, terms, until};
use crate::grid::{FACTS, Grid, wallet};

async fn post(client: &Client, name: &str, price: u64) {
    let terms = terms(price);
    let offer = Transaction::PostOffer { terms };
    let posted = client.sign_and_submit(&wallet(name), offer).await;
    posted.unwrap();
}

/// What Alice orders.
async fn wanted(client: &Client, members: u16) -> JobOrder {
    let status = client.status().await.unwrap();
    JobOrder {
        model: MODEL,
        input: Digest::of_blob(b"1234"),
        input_len: FACTS.input_len,
        mode: VerificationMode::None,
        max_price: Amount::from_tgrid(40),
        deadline: TimestampMs::new(status.timestamp_ms + 600_000),
        max_attempts: 3,
        retention: tg_types::DurationMs::ZERO,
        needs: JobNeeds {
            gang: members,
            neighbourhood_us: 1_000,
            ..JobNeeds::ANY_MACHINE
        },
    }
}

async fn order(client: &Client, members: u16) -> JobId {
    let order = wanted(client, members).await;
    let submit = Transaction::SubmitJob { order };
    let signed = client.sign_and_submit(&wallet("alice"), submit).await;
    tg_types::job_id(signed.unwrap().id(&client.domain().await.unwrap()))
}

#[tokio::test]
async fn a_gang_with_too_few_machines_says_so_and_never_that_it_is_next() {
    let grid = Grid::new();
    let (_server, client) = start(&grid).await;
    for name in ["bob", "carol", "dave"] {
        post(&client, name, 7).await;
    }
    let id = order(&client, 4).await;
    let why = client.job_why(id).await.unwrap();
    let told = "waits: 3 of 4 members have a place, each on a machine of its own within 1000 us of the others; 3 of 3 \
                offers fit a member";
    assert_eq!(why.summary, told);
    assert_eq!(why.relaxations, ["a gang of 3 would have a place"]);
    assert_eq!(why.eta_earliest_ms, None, "no fourth machine will be free");
    let smaller = order(&client, 3).await;
    assert_eq!(
        client.job(smaller).await.unwrap().state,
        JobStateDto::Leased
    );
}

/// Validators do not hold the input of an order that is not made: what it would come to then is told of the offers as they are.
#[tokio::test]
async fn a_gang_is_told_before_its_order_how_many_machines_are_there() {
    let grid = Grid::stating();
    let (_server, client) = registered(&grid).await;
    let held = Transaction::ReportStorage {
        held: vec![MODEL.into()],
        missing: Vec::new(),
    };
    let validator = wallet("validator");
    client.sign_and_submit(&validator, held).await.unwrap();
    active(&client).await;
    // Each has two slots, which are two places for jobs and one for members of a gang.
    for name in ["bob", "carol", "dave"] {
        post(&client, name, 7).await;
    }
    let alice = wallet("alice").address();
    let four = wanted(&client, 4).await;
    let four = client.dry_run(alice, &four).await.unwrap();
    let summary = &four.why.summary;
    assert_eq!(four.job.state, JobStateDto::Submitted, "{summary}");
    let told = "; then 3 of 4 members would have a place";
    assert!(summary.ends_with(told), "{summary}");
    assert_eq!((four.charge, four.why.offers.len()), (None, 3));
    let three = wanted(&client, 3).await;
    let three = client.dry_run(alice, &three).await.unwrap();
    let summary = &three.why.summary;
    let told = "; then offers that fit now would take it";
    assert!(summary.ends_with(told), "{summary}");
    assert!(three.charge.is_some_and(|it| it <= three.charge_max));
}

/// Each member of a gang of mode sync puts up twenty times the price of all: a dry run that forgets it promises an order that would wait.
#[tokio::test]
async fn a_gang_is_told_before_its_order_that_its_members_put_up_too_little() {
    let grid = Grid::stating();
    let (_server, client) = registered(&grid).await;
    let held = Transaction::ReportStorage {
        held: vec![MODEL.into()],
        missing: Vec::new(),
    };
    let validator = wallet("validator");
    client.sign_and_submit(&validator, held).await.unwrap();
    active(&client).await;
    for name in ["bob", "carol", "dave"] {
        // Some tenth, and five are put up.
        let terms = OfferTerms {
            price_base: Amount::new(100_000_000_000_000_000),
            ..terms(1)
        };
        let offer = Transaction::PostOffer { terms };
        let posted = client.sign_and_submit(&wallet(name), offer).await;
        posted.unwrap();
    }
    let alice = wallet("alice").address();
    for (members, is_served) in [(2, true), (3, false)] {
        let order = JobOrder {
            mode: VerificationMode::Sync,
            ..wanted(&client, members).await
        };
        let told = client.dry_run(alice, &order).await.unwrap();
        assert_eq!(told.charge.is_some(), is_served, "{told:?}");
        let lacks = told.why.offers.iter().flat_map(|it| &it.lacks);
        let stake = lacks.filter(|it| it.contains("puts up too little"));
        assert_eq!(stake.count(), if is_served { 0 } else { 3 }, "{told:?}");
    }
}

#[tokio::test]
async fn the_receipt_of_a_gang_names_every_member_and_adds_up() {
    let grid = Grid::new();
    let (_server, client) = start(&grid).await;
    post(&client, "carol", 3).await;
    post(&client, "dave", 5).await;
    let id = order(&client, 2).await;
    let job = client.job(id).await.unwrap();
    assert_eq!(job.leases.len(), 2, "a lease for each member");
    for lease in &job.leases {
        let filter = tg_sdk::JobFilter {
            provider: Some(lease.provider),
            ..tg_sdk::JobFilter::default()
        };
        let listed = client.jobs(filter).await.unwrap();
        assert_eq!(listed.len(), 1, "its lead's and its member's");
    }
    for lease in &job.leases {
        let names = ["carol", "dave"].map(wallet);
        let own = names.iter().find(|it| it.address() == lease.provider);
        let begin = Transaction::StartLease { lease: lease.id };
        client.sign_and_submit(own.unwrap(), begin).await.unwrap();
    }
    // The dearest leads.
    let lead = &job.leases[0];
    assert_eq!((lead.lead, job.leases[1].lead), (None, Some(lead.id)));
    let receipt = Receipt {
        program: FACTS.program,
        model: MODEL,
        input: Digest::of_blob(b"1234"),
        output: Digest::of_blob(b"out"),
        trace: Digest::default(),
        tier: Tier::Tgx1,
    };
    let part = Transaction::CommitPart {
        lease: job.leases[1].id,
        receipt: receipt.clone(),
    };
    client
        .sign_and_submit(&wallet("carol"), part)
        .await
        .unwrap();
    let commit = Transaction::CommitReceipt {
        lease: lead.id,
        receipt,
    };
    client
        .sign_and_submit(&wallet("dave"), commit)
        .await
        .unwrap();
    until(async || client.job(id).await.unwrap().state == JobStateDto::Paid).await;
    let receipt = client.job_receipt(id).await.unwrap();
    assert_eq!(receipt.job.mode, ModeDto::None);
    let members = receipt.members.iter().map(|it| it.price);
    let members = members.fold(Amount::ZERO, Amount::saturating_add);
    assert_eq!(receipt.members.len(), 1);
    assert_eq!(receipt.members[0].provider, wallet("carol").address());
    assert!(!members.is_zero());
    assert_eq!(receipt.settlement.members, members);
    let out = receipt.settlement.price.saturating_add(members);
    let all = out.saturating_add(receipt.settlement.refund);
    assert_eq!(
        all,
        Amount::from_tgrid(40),
        "all that was locked went somewhere"
    );
}

//! Lists come in pages.

use std::sync::Arc;

use tg_api::{ApiConfig, ApiListener, GridPort};
use tg_sdk::dto::{CloudPriceDto, CloudPricesDto, RentKindDto};
use tg_sdk::{Client, JobFilter};
use tg_types::{
    Amount, DurationMs, GpuModel, Label, Machine, ModeSet, OfferTerms, Pricing, Transaction, Wallet,
};

use crate::grid::{Grid, wallet};

fn terms(price: u64) -> OfferTerms {
    OfferTerms {
        hardware: Label::new("a test").unwrap(),
        price_base: Amount::new(u128::from(price)),
        price_per_mmac: Amount::new(1),
        latency_base_ms: DurationMs::new(100),
        speed_mmac_per_s: 100,
        memory_bytes: 1 << 30,
        slots: 1,
        collateral_per_lease: Amount::from_tgrid(1),
        modes: ModeSet::UNSEALED,
        machine: Machine::CPU_ONLY,
        price_per_gpu_second: Amount::ZERO,
        pricing: Pricing::Fixed,
    }
}

#[tokio::test]
async fn a_list_longer_than_a_page_is_read_whole_and_once() {
    let grid = Grid::new();
    let (server, client) = grid.serve(ApiConfig::default()).await;
    let domain = client.domain().await.unwrap();
    // As many as one account may have, of as many accounts as it takes.
    let sellers: Vec<_> = (0..16_u8)
        .map(|seed| Wallet::from_seed(&[b's', seed]))
        .collect();
    let alice = wallet("alice");
    let payments = (0_u64..).zip(&sellers).map(|(nonce, seller)| {
        let payment = Transaction::Transfer {
            to: seller.address(),
            amount: Amount::from_tgrid(50),
        };
        alice.sign(payment, nonce, &domain)
    });
    grid.block(payments.collect());
    for seller in &sellers {
        let first = client.account(seller.address()).await.unwrap().nonce;
        let posts = (0..16).map(|index| {
            let terms = terms(1_000 + index);
            seller.sign(Transaction::PostOffer { terms }, first + index, &domain)
        });
        grid.block(posts.collect());
    }
    let offers = client.offers().await.unwrap();
    assert_eq!(offers.len(), 256);
    assert!(offers.is_sorted_by_key(|offer| offer.id));
    let one = sellers[3].address();
    let own = client.offers_of(one).await.unwrap();
    assert_eq!(own.len(), 16);
    assert!(own.iter().all(|it| it.provider == one));
    assert!(client.jobs(JobFilter::default()).await.unwrap().is_empty());

    // However much is asked for, a page is bounded and says how many there are.
    let answer = get(&server.url(), "/v1/offers?limit=100000").await;
    assert_eq!(answer["items"].as_array().unwrap().len(), 200);
    assert_eq!(answer["total"], 256);
    assert_eq!(answer["next"], answer["items"][199]["id"]);
    let next = answer["next"].as_str().unwrap();
    let rest = get(&server.url(), &format!("/v1/offers?after={next}")).await;
    assert_eq!(rest["items"].as_array().unwrap().len(), 56);
    assert!(rest["next"].is_null());
}

/// A JSON answer, read over a plain socket.
async fn get(url: &str, path: &str) -> serde_json::Value {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let text = String::from_utf8(answer).unwrap();
    let (_, body) = text.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

/// A node tells the table that it was started with, whole, to whoever asks; without one there are no rows.
#[tokio::test]
async fn prices_of_clouds_are_those_that_the_node_was_started_with() {
    let grid = Grid::new();
    let (_server, client) = grid.serve(ApiConfig::default()).await;
    let none = client.cloud_prices().await.unwrap();
    assert_eq!(none, CloudPricesDto::default());

    let row = |gpu: Option<GpuModel>| CloudPriceDto {
        cloud: "C".to_owned(),
        product: "p".repeat(300),
        gpu,
        gpus: gpu.map_or(0, |_| 8),
        vcpus: if gpu.is_some() { 0 } else { 2 },
        usd_per_hour: 0.25,
        read_on: "2026-11-01".to_owned(),
        source: "https://c".to_owned(),
    };
    let rows = (0..1_000).map(|index| row((index % 2 == 0).then_some(GpuModel::H100)));
    let told = CloudPricesDto {
        usd_per_tgrid: Some(0.5),
        rows: rows.collect(),
    };
    let port: Arc<dyn GridPort> = grid;
    let listener = ApiListener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    // `get` calls it so.
    let listener = listener.called(vec!["x".parse().unwrap()]);
    let listener = listener.beside_clouds(told.clone());
    let server = listener.serve(port, ApiConfig::default());
    let client = Client::new(&server.url()).unwrap();
    // As many rows as a file may have.
    assert_eq!(client.cloud_prices().await.unwrap(), told);
    let answer = get(&server.url(), "/v1/clouds").await;
    assert_eq!(answer["rows"][0]["gpu"], "h100");
    assert!(answer["rows"][1]["gpu"].is_null());
    assert_eq!(answer["rows"][1]["vcpus"], 2);
}

#[tokio::test]
async fn the_rent_of_a_record_is_asked_for_by_its_id_or_its_owner() {
    let grid = Grid::new();
    let (server, client) = grid.serve(ApiConfig::default()).await;
    let alice = wallet("alice");
    let domain = client.domain().await.unwrap();
    let nonce = client.account(alice.address()).await.unwrap().nonce;
    let post = Transaction::PostOffer { terms: terms(1) };
    grid.block(vec![alice.sign(post, nonce, &domain)]);
    let offer = client.offers_of(alice.address()).await.unwrap().remove(0);
    let rent = client.rent(offer.id).await.unwrap();
    assert_eq!(rent.kind, RentKindDto::Offer);
    assert_eq!(rent.payer, alice.address());
    let amount = rent.per_day;
    let pay = Transaction::PayRent {
        record: rent.record,
        amount,
    };
    grid.block(vec![alice.sign(pay, nonce + 1, &domain)]);
    let after = client.rent(offer.id).await.unwrap();
    let day = 24 * 3_600_000;
    let more = after.lasts_ms.abs_diff(rent.lasts_ms);
    assert!((day - 5_000..=day).contains(&more), "{more} ms more");
    let record = client.rent(alice.address()).await.unwrap();
    assert_eq!(record.kind, RentKindDto::Provider);
    // Bob offers nothing, so nothing of his pays rent.
    let bob = client.rent(wallet("bob").address()).await.unwrap_err();
    assert!(bob.is_not_found(), "{bob}");
    let wrong = get(&server.url(), "/v1/rent/0x12").await;
    let message = wrong["message"].as_str().unwrap();
    assert!(message.contains("the id of an offer"), "{wrong}");
}

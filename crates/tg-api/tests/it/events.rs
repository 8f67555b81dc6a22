//! Streams of events that go on where one ended.

use std::net::SocketAddr;
use std::time::Duration;

use tg_sdk::dto::EventDto;
use tg_sdk::{Client, EventStream};
use tg_types::{Amount, Transaction};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::calls::{order, start};
use crate::grid::{Grid, wallet};

async fn pay(client: &Client, tgrid: u64) {
    let payment = Transaction::Transfer {
        to: wallet("bob").address(),
        amount: Amount::from_tgrid(tgrid),
    };
    let alice = wallet("alice");
    client.sign_and_submit(&alice, payment).await.unwrap();
}

/// The next event of a kind.
async fn next(events: &mut EventStream, kind: &str) -> EventDto {
    loop {
        let event = tokio::time::timeout(Duration::from_secs(5), events.next());
        let event = event.await.unwrap().unwrap().unwrap();
        if event.kind == kind {
            return event;
        }
    }
}

/// What a stream says until it says `last`.
async fn read(address: SocketAddr, request: &str, last: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let mut piece = [0; 4096];
    while !answer.contains(last) {
        let read = tokio::time::timeout(Duration::from_secs(5), stream.read(&mut piece));
        let length = read.await.unwrap().unwrap();
        assert_ne!(length, 0, "it ended: {answer}");
        answer.push_str(&String::from_utf8_lossy(&piece[..length]));
    }
    answer
}

#[tokio::test]
async fn a_stream_goes_on_after_the_last_event_that_came() {
    let grid = Grid::new();
    let (server, client) = start(&grid).await;
    let mut events = client.events().await.unwrap();
    pay(&client, 1).await;
    let first = next(&mut events, "transferred").await;
    assert_eq!(first.amount, Some(Amount::from_tgrid(1)));
    let last = events.last_id().unwrap().to_owned();
    assert!(last.starts_with(&format!("{}-", first.height)), "{last}");
    drop(events);
    // Nobody listens.
    pay(&client, 2).await;
    let mut events = client.events_after(&last).await.unwrap();
    let second = next(&mut events, "transferred").await;
    assert_eq!(second.amount, Some(Amount::from_tgrid(2)));
    pay(&client, 3).await;
    let third = next(&mut events, "transferred").await;
    assert_eq!(third.amount, Some(Amount::from_tgrid(3)));
    // A browser repeats the address, and says in a header where it was.
    let request = format!(
        "GET /v1/events?after={} HTTP/1.1\r\nhost: x\r\nlast-event-id: {last}\r\n\r\n",
        third.height
    );
    let told = read(server.address(), &request, "\"amount\":\"3\"").await;
    assert!(told.contains("\"amount\":\"2\""), "{told}");
    assert!(!told.contains("\"amount\":\"1\""), "{told}");
    assert!(!told.contains("events_lost"), "{told}");
}

#[tokio::test]
async fn events_that_may_be_missing_are_said_to_be() {
    let grid = Grid::new();
    let (_server, client) = start(&grid).await;
    // One of before this node listened, and one of another grid, whose blocks are more.
    for place in ["0-0", "999999999-1"] {
        let mut events = client.events_after(place).await.unwrap();
        let first = events.next().await.unwrap().unwrap();
        assert_eq!(first.kind, "events_lost", "after {place}");
        pay(&client, 1).await;
        next(&mut events, "transferred").await;
    }
    let refused = client.events_after("soon").await.unwrap_err();
    assert_eq!(refused.status(), Some(400), "{refused}");
}

#[tokio::test]
async fn a_stream_of_one_job_has_no_other_events() {
    let grid = Grid::new();
    let (server, client) = start(&grid).await;
    let begin = client.status().await.unwrap().height;
    let id = order(&client, 1).await;
    let other = order(&client, 1).await;
    for job in [other, id] {
        let cancel = Transaction::CancelJob { job };
        let alice = wallet("alice");
        client.sign_and_submit(&alice, cancel).await.unwrap();
    }
    let request = format!("GET /v1/events?after={begin}&job={id} HTTP/1.1\r\nhost: x\r\n\r\n");
    let told = read(server.address(), &request, "event: job_ended").await;
    assert!(told.contains("event: job_changed"), "{told}");
    assert!(!told.contains("event: transaction_executed"), "{told}");
    assert!(!told.contains(&other.to_string()), "{told}");
}

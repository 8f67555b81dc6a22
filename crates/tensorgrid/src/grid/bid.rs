//! A job of class batch: its order is sealed first and opened in the next slot, so that nobody can bid by what others
//! bid. Whoever does not open a bid in its slot loses the deposit: otherwise a bid would be an option for nothing.

use std::time::Duration;

use tg_proof::PublicModel;
use tg_sdk::Client;
use tg_sdk::dto::BidDto;
use tg_types::transaction::bid_commitment;
use tg_types::{Amount, BidId, Digest, JobId, JobOrder, Transaction, Wallet, signed};

use super::connect::Calling;
use super::infer::{self, Wish};
use super::table::{brief, short};
use crate::outcome::{Exit, Failure};

/// How often the grid is asked.
const POLL: Duration = Duration::from_millis(100);

/// How long a sealed bid may take to be in a final block.
const SEAL_MAX: Duration = Duration::from_secs(30);

/// How long after its slot an opened bid may take to be seen.
const OPEN_MS_MAX: u64 = 5_000;

/// Where a bid stands.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stage<'a> {
    /// The deposit is locked; nobody can read the order.
    Sealed(&'a BidDto),
    /// The order is public and the deposit is back.
    Opened,
}

/// Seals an order, opens it in the next slot, and gives the job it became.
pub(crate) async fn bid(
    client: &Client,
    wallet: &Wallet,
    (public, reals): (&PublicModel, &[f32]),
    wish: Wish,
    deposit: Option<Amount>,
    tell: &mut (dyn FnMut(Stage<'_>) + Send),
) -> Result<JobId, Failure> {
    let status = client.status().await.calling("ask for the grid's time")?;
    let (order, bytes) = infer::order_of(public, reals, wish, status.ledger_time_ms)?;
    // Before anything is locked: an order that would be refused when it is opened costs nothing.
    let asked = client.dry_run(wallet.address(), &order).await;
    asked.calling("ask whether the order would be taken")?;
    let stored = client.uploading_as(wallet).put_blob(bytes).await;
    stored.calling("store the input")?;
    let mut salt = [0; 32];
    getrandom::fill(&mut salt).map_err(|error| anyhow::anyhow!("draw a salt: {error}"))?;
    let salt = Digest::new(salt);
    let commit = Transaction::CommitBid {
        commitment: bid_commitment(&order, &salt, &wallet.address()),
        deposit: deposit.unwrap_or(status.parameters.bid_deposit_min),
    };
    let sealed = infer::submit(client, wallet, &commit, "seal the bid").await?;
    let domain = status.domain.into();
    let bid = sealed_bid(client, signed::bid_id(sealed.id(&domain))).await?;
    tell(Stage::Sealed(&bid));
    let id = open(client, wallet, &bid, salt, order).await?;
    tell(Stage::Opened);
    Ok(id)
}

/// Waits until the bid is in a final block.
async fn sealed_bid(client: &Client, id: BidId) -> Result<BidDto, Failure> {
    let started = std::time::Instant::now();
    loop {
        match client.bid(id).await {
            Err(error) if error.is_not_found() && started.elapsed() < SEAL_MAX => {}
            answer => return answer.calling("find the sealed bid"),
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Opens a bid in its slot, and waits until the job exists.
async fn open(
    client: &Client,
    wallet: &Wallet,
    bid: &BidDto,
    salt: Digest,
    order: JobOrder,
) -> Result<JobId, Failure> {
    let reveal = Transaction::RevealBid {
        bid: bid.id,
        salt,
        order,
    };
    let opened = loop {
        let now = infer::now().get();
        if now >= bid.opens_ms {
            let sent = infer::submit(client, wallet, &reveal, "open the bid").await;
            match sent {
                Ok(signed) => break signed,
                // The grid's clock may be a little behind this one.
                Err(_) if infer::now().get() < bid.closes_ms => {}
                Err(failure) => return Err(failure.hint(forfeit(bid))),
            }
        }
        tokio::time::sleep(POLL).await;
    };
    let domain = client.domain().await.calling("ask for the grid's name")?;
    let id = signed::job_id(opened.id(&domain));
    loop {
        match client.job(id).await {
            Ok(_) => return Ok(id),
            Err(error) if !error.is_not_found() && !error.is_transient() => {
                return Err(error).calling("find the job of the bid");
            }
            Err(_) if infer::now().get() > bid.closes_ms.saturating_add(OPEN_MS_MAX) => {
                let text = "the bid was not opened in its slot: no block took it in time";
                let failure = Failure::new(Exit::Rejected, anyhow::anyhow!(text));
                return Err(failure.hint(forfeit(bid)));
            }
            Err(_) => {}
        }
        tokio::time::sleep(POLL).await;
    }
}

/// What becomes of a bid that is not opened.
fn forfeit(bid: &BidDto) -> String {
    format!(
        "bid {} had to be opened in slot {}; its deposit of {} TGRID is burned, and nothing else was spent",
        brief(bid.id),
        bid.slot.saturating_add(1),
        short(bid.deposit)
    )
}

//! A job of class batch: its order is sealed first and opened in the next slot, so that nobody can bid by what others
//! bid. Whoever does not open a bid in its slot loses the deposit: otherwise a bid would be an option for nothing.

use std::time::{Duration, Instant};

use crate::clock;
use tg_types::transaction::bid_commitment;
use tg_types::{Amount, BidId, Digest, JobId, JobOrder, Transaction, Wallet, signed};

use crate::client::Client;
use crate::dto::BidDto;
use crate::job_error::{Doing, JobError};
use crate::jobs::submit;
use crate::verify::{CheckedModel, OrderTerms};

/// How often the grid is asked.
const POLL: Duration = Duration::from_millis(100);

/// The highest deposit that is locked on the word of an API alone: a hundred times that of a usual network.
const DEPOSIT_TOLD_MAX: Amount = Amount::from_tgrid(1);

/// How long a sealed bid may take to be in a final block.
const SEAL_MAX: Duration = Duration::from_secs(30);

/// How long after its slot, by the grid's time, an opened bid may take to be seen.
const OPEN_MS_MAX: u64 = 5_000;

/// How long after a bid's slot, by this clock, the grid may be away before the bid is given up.
const ABSENCE_MS_MAX: u64 = 30_000;

/// Where a bid stands.
#[derive(Debug, Clone, Copy)]
pub enum Stage<'a> {
    /// The deposit is locked; nobody can read the order.
    Sealed(&'a BidDto),
    /// The order is public and the deposit is back.
    Opened,
}

/// What is bid: an input of a model, on terms.
#[derive(Debug)]
pub struct Bid<'a> {
    /// The model.
    pub model: &'a CheckedModel,
    /// What [`CheckedModel::input`] gave.
    pub input: Vec<u8>,
    /// The terms; the maximum price is what is bid.
    pub terms: OrderTerms,
    /// What is locked until the bid is opened; the grid's least deposit if absent.
    pub deposit: Option<Amount>,
    /// Thirty-two random bytes that hide the order until it is opened.
    pub salt: Digest,
}

/// Seals an order, opens it in the next slot, and gives the job it became. Takes one to two slots; who stops waiting before
/// the bid is open loses the deposit.
///
/// # Errors
/// [`JobError::Forfeited`] if no block took the opened bid in time; with the ledger's code if the order is refused; those of
/// any call.
pub async fn bid(
    client: &Client,
    wallet: &Wallet,
    bid: Bid<'_>,
    tell: &mut (dyn FnMut(Stage<'_>) + Send),
) -> Result<JobId, JobError> {
    let Bid {
        model,
        input,
        terms,
        deposit,
        salt,
    } = bid;
    let status = client.status().await.doing("ask for the grid's time")?;
    // Stops: a deposit that only the API names, and burns by keeping the opened bid back.
    let least = status.parameters.bid_deposit_min;
    if deposit.is_none() && !client.is_own_node() && least > DEPOSIT_TOLD_MAX {
        return Err(JobError::DepositTold { least });
    }
    let order = model.order(&input, terms, status.ledger_time_ms);
    // Before anything is locked: an order that would be refused when it is opened costs nothing.
    let asked = client.dry_run(wallet.address(), &order).await;
    asked.doing("ask whether the order would be taken")?;
    let stored = client.uploading_as(wallet).put_blob(input).await;
    stored.doing("store the input")?;
    let commit = Transaction::CommitBid {
        commitment: bid_commitment(&order, &salt, &wallet.address()),
        deposit: deposit.unwrap_or(least),
    };
    let sealed = submit(client, wallet, &commit, "seal the bid").await?;
    let domain = status.domain.into();
    let sealed = sealed_bid(client, signed::bid_id(sealed.id(&domain))).await?;
    tell(Stage::Sealed(&sealed));
    let id = open(client, wallet, &sealed, salt, order).await?;
    tell(Stage::Opened);
    Ok(id)
}

/// Waits until the bid is in a final block.
async fn sealed_bid(client: &Client, id: BidId) -> Result<BidDto, JobError> {
    let started = Instant::now();
    loop {
        match client.bid(id).await {
            Err(error) if error.is_not_found() && started.elapsed() < SEAL_MAX => {}
            answer => return answer.doing("find the sealed bid"),
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
) -> Result<JobId, JobError> {
    let reveal = Transaction::RevealBid {
        bid: bid.id,
        salt,
        order,
    };
    let opened = loop {
        if clock::now().get() >= bid.opens_ms {
            match submit(client, wallet, &reveal, "open the bid").await {
                Ok(signed) => break signed,
                // The grid's time may be behind this clock.
                Err(error) if is_past(client, bid.closes_ms).await => {
                    return Err(forfeited(bid, Some(Box::new(error))));
                }
                Err(_) => {}
            }
        }
        tokio::time::sleep(POLL).await;
    };
    let domain = client.domain().await.doing("ask for the grid's name")?;
    let id = signed::job_id(opened.id(&domain));
    loop {
        match client.job(id).await {
            Ok(_) => return Ok(id),
            Err(error) if !error.is_not_found() && !error.is_transient() => {
                return Err(error).doing("find the job of the bid");
            }
            Err(_) if is_past(client, bid.closes_ms.saturating_add(OPEN_MS_MAX)).await => {
                return Err(forfeited(bid, None));
            }
            Err(_) => {}
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Whether a moment is past by the time of the grid's last block. The ledger goes by that time alone, and where validators are
/// slow it is seconds behind every clock: a bid that this clock calls too late may still be opened. A grid that does not
/// answer is waited for.
async fn is_past(client: &Client, moment_ms: u64) -> bool {
    match client.status().await {
        Ok(status) => status.ledger_time_ms >= moment_ms,
        Err(_) => clock::now().get() > moment_ms.saturating_add(ABSENCE_MS_MAX),
    }
}

const fn forfeited(bid: &BidDto, source: Option<Box<JobError>>) -> JobError {
    JobError::Forfeited {
        bid: bid.id,
        slot: bid.slot.saturating_add(1),
        deposit: bid.deposit,
        source,
    }
}

//! `tensorgrid provider show`: an offer as a final state has it, or as the API says; `provider status`: all that the API says of a provider.

use std::time::Duration;

use tg_ledger::Offer;
use tg_sdk::Client;
use tg_sdk::dto::{OfferDto, OfferTermsDto, ProviderDto, ReputationDto};
use tg_sdk::light::FinalValue;
use tg_sdk::text::FromText as _;
use tg_types::{Address, OfferId};

use crate::grid::connect::{self, Calling as _};
use crate::grid::node_args::ProviderShowArguments;
use crate::grid::serve_args::ProviderStatusArguments;
use crate::grid::trust::{self, Trusting};
use tg_console::keys::{self, Passphrase};
use tg_console::outcome::{Exit, Failure, Outcome, json, line};
use tg_console::table::{brief, short};

/// Digits of an offer's id that name it, at least.
const ID_DIGITS_MIN: usize = 4;

/// How often an offer is asked for again that changed between what the API told and what was proved, and how soon.
const PROVED_TRIES: u32 = 5;
const PROVED_POLL: Duration = Duration::from_millis(150);

/// Shows an offer.
pub(super) async fn run(arguments: &ProviderShowArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let id = offer_id(&client, &arguments.offer).await?;
    let (offer, proved) = match Trusting::begin_to_show(&client, &arguments.trust).await? {
        Some(mut trusting) => {
            let (offer, shown) = told_and_proved(&client, &mut trusting, id).await?;
            trusting.keep();
            (offer, Some(shown))
        }
        None => (client.offer(id).await.calling("ask for the offer")?, None),
    };
    if as_json {
        let mut value = serde_json::to_value(&offer)?;
        value["proved"] = match &proved {
            Some(shown) => serde_json::json!({
                "height": shown.height,
                "timestamp_ms": shown.timestamp_ms,
            }),
            None => false.into(),
        };
        return Ok(json(&value)?);
    }
    let word = proved.map(|shown| format!(" ({})", trust::proved(&shown)));
    line(terms(&offer, word.as_deref().unwrap_or_default()))?;
    if word.is_some() {
        line("and as the API says:")?;
    }
    Ok(line(history(&offer))?)
}

/// Says how a provider stands.
pub(super) async fn status(arguments: &ProviderStatusArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let address = provider_of(arguments)?;
    let provider = client.provider(address).await;
    let provider = provider.calling("ask for the provider")?;
    if as_json {
        return super::json_of(&provider);
    }
    let now = client.status().await.calling("ask for the grid's time")?;
    Ok(line(standing(&provider, now.ledger_time_ms))?)
}

/// The provider that is named, or the one of the key file.
fn provider_of(arguments: &ProviderStatusArguments) -> Result<Address, Failure> {
    if let Some(text) = &arguments.provider {
        return Address::from_text(text).ok_or_else(|| {
            let text = format!("{text:?} is not {}", Address::EXPECTED);
            Failure::new(Exit::Usage, anyhow::anyhow!(text))
        });
    }
    let path = &arguments.key;
    if !path.exists() {
        let text = format!("no provider is named, and there is no {}", path.display());
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text))
            .hint("name one by its address, or its key with --key"));
    }
    let passphrase = arguments.passphrase.passphrase_file.as_ref();
    let passphrase = Passphrase::read_optional(passphrase)?;
    Ok(keys::read_wallet(path, passphrase.as_ref())?.address())
}

/// How a provider stands, in lines.
fn standing(provider: &ProviderDto, now_ms: u64) -> String {
    let reputation = &provider.reputation;
    let mut lines = vec![
        format!("provider   {}", provider.address),
        format!("balance    {} TGRID", short(provider.balance)),
    ];
    lines.extend(deeds(reputation));
    let pause = reputation.suspended_until_ms.saturating_sub(now_ms);
    if pause > 0 {
        lines.push(format!(
            "suspended  it gets no leases for {} s more",
            pause.div_ceil(1_000)
        ));
    }
    for offer in &provider.offers {
        lines.push(format!(
            "offer      {}: {}, {} of {} leases taken, {}",
            brief(offer.id),
            offer.terms.hardware,
            offer.leases,
            offer.terms.slots,
            match offer.offline {
                true => "not heard by the validators: it gets no jobs",
                false => "heard by the validators",
            }
        ));
    }
    if provider.offers.is_empty() {
        lines.push("offers     none is open".to_owned());
    }
    lines.join("\n")
}

/// The offer of an id or the beginning of one. Which one that is, is the API's word: the id is shown.
async fn offer_id(client: &Client, text: &str) -> Result<OfferId, Failure> {
    if let Some(id) = OfferId::from_hex(text) {
        return Ok(id);
    }
    let offers = client.offers().await.calling("list the offers")?;
    let digits = text.trim_start_matches("0x");
    let begins = |id: &OfferId| {
        let id = id.to_string();
        digits.len() >= ID_DIGITS_MIN && id.trim_start_matches("0x").starts_with(digits)
    };
    let mut found = offers.iter().map(|offer| offer.id).filter(begins);
    match (found.next(), found.next()) {
        (Some(id), None) => Ok(id),
        (Some(_), Some(_)) => {
            let text = format!("several offers begin with {text}");
            let failure = Failure::new(Exit::Usage, anyhow::anyhow!(text));
            Err(failure.hint("give more digits of the id"))
        }
        (None, _) => {
            let text = format!("there is no offer {text}");
            let failure = Failure::new(Exit::NotFound, anyhow::anyhow!(text));
            Err(failure.hint("`tensorgrid provider list --json` has the ids of the open offers"))
        }
    }
}

/// An offer as the API tells it, and what a final state has of it, which must agree.
async fn told_and_proved(
    client: &Client,
    trusting: &mut Trusting,
    id: OfferId,
) -> Result<(OfferDto, FinalValue<Option<Offer>>), Failure> {
    let mut tries = 0;
    loop {
        let told = client.offer(id).await.calling("ask for the offer")?;
        let shown = trusting.offer(id).await?;
        let Some(differs) = differs(shown.value.as_ref(), &told) else {
            return Ok((told, shown));
        };
        tries += 1;
        if tries >= PROVED_TRIES {
            let (url, proved) = (client.url(), trust::proved(&shown));
            let text = format!(
                "{url} tells of offer {id} that {differs}: a final state has not ({proved})"
            );
            return Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text))
                .hint("the API lies or is behind: ask another one with --api"));
        }
        tokio::time::sleep(PROVED_POLL).await;
    }
}

/// What the API tells otherwise than a final state, if it does.
fn differs(shown: Option<&Offer>, told: &OfferDto) -> Option<String> {
    let Some(offer) = shown else {
        return Some("it exists".to_owned());
    };
    if offer.provider != told.provider {
        return Some(format!("it is of {}", told.provider));
    }
    let terms = OfferTermsDto::from(&offer.terms);
    if terms.price_base != told.terms.price_base {
        return Some(format!("it asks {} TGRID a job", told.terms.price_base));
    }
    if terms != told.terms {
        return Some("it has other terms than were posted".to_owned());
    }
    (offer.slots_taken != told.leases).then(|| format!("{} leases run on it", told.leases))
}

/// What is offered, in lines.
fn terms(offer: &OfferDto, word: &str) -> String {
    let OfferDto {
        id,
        provider,
        terms,
        leases,
        offline: _,
        reputation: _,
    } = offer;
    let modes: Vec<String> = terms.modes.iter().map(ToString::to_string).collect();
    [
        format!("offer      {id}{word}"),
        format!("provider   {provider}"),
        format!("hardware   {}", terms.hardware),
        format!(
            "price      {} TGRID a job, {} a million multiply-accumulates, {} a second of a GPU",
            short(terms.price_base),
            short(terms.price_per_mmac),
            short(terms.price_per_gpu_second)
        ),
        format!(
            "collateral {} TGRID a lease",
            short(terms.collateral_per_lease)
        ),
        format!("verify     {}", modes.join(", ")),
        format!("leases     {leases} of {} at once", terms.slots),
    ]
    .join("\n")
}

/// What its provider did, in lines.
fn history(offer: &OfferDto) -> String {
    let there = if offer.offline { "no" } else { "yes" };
    let [results, money] = deeds(&offer.reputation);
    [format!("there      {there}"), results, money].join("\n")
}

/// What a provider's leases came to, and what it earned and lost by them.
fn deeds(reputation: &ReputationDto) -> [String; 2] {
    [
        format!(
            "results    {} accepted, {} rejected, {} late, {} abandoned",
            reputation.accepted, reputation.rejected, reputation.late, reputation.abandoned
        ),
        format!(
            "money      {} TGRID earned, {} lost",
            short(reputation.earned),
            short(reputation.lost)
        ),
    ]
}

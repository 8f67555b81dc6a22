//! What the commands about endpoints share: what an error means to a person, an order's terms, and on whose word a lease is believed.

use std::time::Duration;

use tg_sdk::dto::{JobDto, ModeDto, ModelDto, QuoteDto};
use tg_sdk::endpoint::session::{EndpointError, ProvedLease, ServedBy, serving_lease};
use tg_sdk::jobs;
use tg_sdk::{Client, OrderTerms};
use tg_types::{Amount, BASE_PRICES_PER_MINUTE, JobId};

use crate::grid::cloud_prices;
use crate::grid::connect::{self, Calling as _, OfJob as _};
use crate::grid::connect_args::TrustArguments;
use crate::grid::endpoint_args::{EndpointAskArguments, EndpointOpenArguments};
use crate::grid::trust::{self, Trusting};
use tg_console::outcome::{Exit, Failure, say};

/// A call to an endpoint that failed, as a person reads it.
pub(super) fn failed(error: EndpointError) -> Failure {
    let (exit, hint) = match &error {
        EndpointError::Client(inner) => (connect::exit_of_call(inner), inner.hint().to_owned()),
        EndpointError::NoEndpoint { .. } => (
            Exit::Usage,
            "`tensorgrid endpoint list` shows the endpoints".to_owned(),
        ),
        EndpointError::NotServed { .. } => (
            Exit::Unavailable,
            "`tensorgrid job why` says why; `endpoint top-up` if its money is spent".to_owned(),
        ),
        EndpointError::Refused { .. } => (Exit::Rejected, String::new()),
        EndpointError::Silent { .. } | EndpointError::CutOff | EndpointError::GivenUp => (
            Exit::Unavailable,
            "ask again; a provider that is gone is replaced after half a minute".to_owned(),
        ),
        EndpointError::OtherLease { .. } | EndpointError::OtherServer { .. } => (
            Exit::Rejected,
            "nothing was asked and no voucher signed: the API is damaged or lies; ask another one with --api".to_owned(),
        ),
        EndpointError::Lied { .. } => (
            Exit::Rejected,
            "believe none of its answers; `endpoint close` ends the endpoint".to_owned(),
        ),
        EndpointError::NotTheirs { .. }
        | EndpointError::Unproved(_)
        | EndpointError::Overcharged(_)
        | EndpointError::Card(_)
        | EndpointError::Seal(_)
        | EndpointError::Overflow => (
            Exit::Rejected,
            "nothing is owed for it; `endpoint close` ends the endpoint".to_owned(),
        ),
    };
    let failure = Failure::new(exit, error);
    match hint.as_str() {
        "" => failure,
        hint => failure.hint(hint),
    }
}

/// The model, what offers ask, and the terms of an order.
pub(super) async fn asked(
    client: &Client,
    arguments: &EndpointOpenArguments,
) -> Result<(ModelDto, Vec<QuoteDto>, OrderTerms), Failure> {
    let model = connect::model(client, &arguments.model).await?;
    if !model.is_served() {
        // What cannot be asked is not opened: its minutes would be paid for nothing.
        let checked = jobs::public_model(client, &model).await.of_job();
        checked.map_err(|failure| {
            failure.hint("endpoints serve models of integers (tier TGX-1); graphs of floats and programs are jobs: `infer`, `program submit`")
        })?;
    }
    let seconds = arguments.hours * 3_600.0;
    if !(1.0..=3_600.0 * 24.0 * 366.0).contains(&seconds) {
        let text = format!("--hours {}: more than 0, a year at most", arguments.hours);
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)));
    }
    let clouds = arguments.clouds.read()?;
    let quotes = jobs::patiently(|| client.quotes(model.id, ModeDto::Endpoint)).await;
    let quotes = quotes.calling("ask for prices")?;
    let deadline = Duration::from_secs_f64(seconds);
    let time_ms = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
    let gpus = arguments.needs.needs().gpus;
    let beside = |it| cloud_prices::beside_endpoint(&it, (&quotes, gpus), time_ms);
    if let Some(text) = clouds.and_then(beside) {
        say(text);
    }
    if arguments.needs.are_usual() && jobs::usual_max_price(&quotes).is_none() {
        return Err(connect::no_offer());
    }
    let terms = OrderTerms {
        mode: ModeDto::Endpoint.into(),
        deadline,
        needs: arguments.needs.needs(),
        ..OrderTerms::new(arguments.money)
    };
    Ok((model, quotes, terms))
}

/// What an offer asks a minute and for an answer, without GPU time: what its terms say.
pub(super) fn prices(quote: &QuoteDto) -> Option<(Amount, Amount)> {
    let base = quote.offer.terms.price_base;
    let minute = base.checked_mul_div_ceil(BASE_PRICES_PER_MINUTE, 1)?;
    Some((minute, quote.price?.saturating_sub(base)))
}

/// On whose word it is who serves an endpoint, and at which prices: of a final state if a genesis is named, of the API where nothing is
/// lost by its lies.
pub(super) async fn served_by(
    client: &Client,
    (id, job): (JobId, &JobDto),
    arguments: &TrustArguments,
) -> Result<ServedBy, Failure> {
    let lease = serving_lease(job).map_err(failed)?;
    let Some(mut trusting) = Trusting::begin(client, arguments).await? else {
        if client.is_own_node() {
            return Ok(ServedBy::AsTold);
        }
        let text = format!(
            "that {} serves endpoint {id} is only what {} says: nothing was sealed to it and no voucher signed",
            lease.provider,
            client.url()
        );
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint(
            "--genesis FILE (or TENSORGRID_GENESIS) has it proved by the validators; the file comes from whoever runs the network",
        ));
    };
    let order = trusting.order(id).await?;
    let shown = trusting.lease(lease.id).await?;
    trusting.keep();
    let proved = trust::proved(&shown);
    let found = shown.value.filter(|it| it.job == id && it.end().is_none());
    let found = found.and_then(|it| it.meter.map(|meter| (it, meter)));
    let Some((found, meter)) = found else {
        let text = format!(
            "no final state has lease {} of endpoint {id}, which {} tells ({proved})",
            lease.id,
            client.url()
        );
        return Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text)).hint(
            "the API lies, or is ahead of its proofs: try again, or ask another one with --api",
        ));
    };
    Ok(ServedBy::Proved(ProvedLease {
        lease: found.id,
        provider: found.provider,
        model: order.model,
        price: found.price,
        minute: meter.minute,
        answered: meter.answered,
        vouchers: meter.vouchers,
    }))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    format!("0x{}", tg_types::digest::hex(bytes))
}

/// Which answers of an endpoint are proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proofs {
    None,
    Each,
    /// One in so many, drawn after they came.
    OneIn(u32),
}

impl Proofs {
    /// What the arguments ask for.
    pub(super) const fn of(arguments: &EndpointAskArguments) -> Self {
        match (arguments.prove, arguments.prove_one_in) {
            (true, _) => Self::Each,
            (false, Some(one_in)) => Self::OneIn(one_in),
            (false, None) => Self::None,
        }
    }

    /// Draws whether an answer that has come is proved afterwards.
    pub(super) fn draws(self) -> Result<bool, Failure> {
        let Self::OneIn(one_in) = self else {
            return Ok(false);
        };
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes)
            .map_err(|error| anyhow::anyhow!("draw which answers are checked: {error}"))?;
        Ok(u64::from_le_bytes(bytes) % u64::from(one_in) == 0)
    }
}

//! The agent's offer: posting it, paying its rent, withdrawing it.

use tg_sdk::dto::{OfferTermsDto, RentDto};
use tg_types::{ModelId, OfferId, Transaction};
use tokio::time::Instant;

use super::{Agent, AgentError, AgentEvent, OFFER_APPEARS, POLL};
use crate::rent::Renewal;
use crate::worker::Worker;

impl<W: Worker> Agent<W> {
    /// Makes sure that exactly one offer with the configured terms stands.
    pub(super) async fn ensure_offer(&mut self) -> Result<(), AgentError> {
        self.ensure_sealing_key().await;
        let wanted = OfferTermsDto::from(&self.config.terms);
        let mut posted: Option<Instant> = None;
        let mut withdrawn = Vec::new();
        loop {
            match self.client.offers_of(self.wallet.address()).await {
                Ok(offers) => {
                    let mut found = None;
                    for offer in offers {
                        if offer.terms == wanted && found.is_none() {
                            found = Some(offer.id);
                        } else if !withdrawn.contains(&offer.id) {
                            withdrawn.push(offer.id);
                            self.withdraw_offer(offer.id).await;
                        }
                    }
                    if let Some(id) = found {
                        self.offer = Some(id);
                        self.emit(AgentEvent::Offered(id));
                        return Ok(());
                    }
                    match posted {
                        None => posted = self.post_offer().await?,
                        Some(at) if at.elapsed() > OFFER_APPEARS => {
                            return Err(AgentError::OfferLost);
                        }
                        Some(_) => {}
                    }
                }
                Err(error) if error.is_transient() => self.problem("list the offers", &error),
                Err(error) => return Err(AgentError::Offer(error)),
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Posts the offer; nothing if the grid is away for now.
    async fn post_offer(&mut self) -> Result<Option<Instant>, AgentError> {
        let terms = self.config.terms.clone();
        match self
            .submitter
            .submit(Transaction::PostOffer { terms })
            .await
        {
            Ok(_) => Ok(Some(Instant::now())),
            Err(error) if error.is_transient() => {
                self.problem("post the offer", &error);
                Ok(None)
            }
            Err(error) => Err(AgentError::Offer(error)),
        }
    }

    /// Posts the offer again if the ledger no longer has it.
    pub(super) async fn restore_offer(&mut self) {
        let Some(id) = self.offer else { return };
        let is_gone = matches!(self.client.offer(id).await, Err(error) if error.is_not_found());
        if is_gone && let Err(error) = self.ensure_offer().await {
            self.problem("restore the offer", &error);
        }
    }

    /// Withdraws the offer while no work can be done, and offers again once it can.
    pub(super) async fn follow_ability(&mut self) {
        let Some(gone) = &self.config.gone else {
            return;
        };
        let gone = gone.borrow().clone();
        match (gone, self.offer) {
            (Some(reason), Some(offer)) => {
                self.emit(AgentEvent::Problem(format!(
                    "{reason}; the offer is withdrawn until it is back"
                )));
                // If it does not succeed it is tried again.
                if self.withdraw_offer(offer).await {
                    self.offer = None;
                    self.emit(AgentEvent::Withdrawn);
                }
            }
            (None, None) => {
                if let Err(error) = self.ensure_offer().await {
                    self.problem("offer again", &error);
                }
            }
            (Some(_), None) | (None, Some(_)) => {}
        }
    }

    /// Adds to the deposits of the offer, of the provider's record and of its models if they are nearly spent.
    pub(super) async fn renew_rent(&mut self) {
        let Some(offer) = self.offer else { return };
        let own = [offer.to_string(), self.wallet.address().to_string()];
        let models = self.config.models.iter().map(ModelId::to_string);
        let names: Vec<String> = own.into_iter().chain(models).collect();
        for name in names {
            match self.client.rent(name).await {
                Ok(rent) => self.renew(&rent).await,
                // A record of genesis pays none.
                Err(error) if error.is_not_found() => {}
                Err(error) => self.problem("look at the rent", &error),
            }
        }
    }

    async fn renew(&mut self, rent: &RentDto) {
        let kind = rent.kind.as_str();
        match self.config.rent.renewal(rent) {
            Renewal::NotDue => {}
            Renewal::TooDear => self.emit(AgentEvent::Problem(format!(
                "a day of rent of the {kind} costs {} TGRID, more than the {} that are allowed: it lapses in {} hours",
                rent.per_day,
                self.config.rent.per_day_max,
                rent.lasts_ms / 3_600_000
            ))),
            Renewal::Pay(amount) => {
                let payment = Transaction::PayRent {
                    record: rent.record,
                    amount,
                };
                match self.submitter.submit(payment).await {
                    Ok(_) => self.emit(AgentEvent::RentPaid(rent.kind, amount)),
                    Err(error) => self.problem("pay the rent", &error),
                }
            }
        }
    }

    pub(super) async fn withdraw(&mut self) {
        if let Some(offer) = self.offer.take()
            && self.withdraw_offer(offer).await
        {
            self.emit(AgentEvent::Withdrawn);
        }
    }

    async fn withdraw_offer(&mut self, offer: OfferId) -> bool {
        let withdrawal = Transaction::WithdrawOffer { offer };
        match self.submitter.submit(withdrawal).await {
            Ok(_) => true,
            Err(error) => {
                self.problem("withdraw an offer", &error);
                false
            }
        }
    }
}

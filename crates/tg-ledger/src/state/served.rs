//! Served models: leases of one go to its provider alone.

use tg_market::{JobDemand, OfferView, Quote, cheapest};
use tg_types::{Address, JobOrder, OfferTerms};

use crate::record::ModelFacts;
use crate::state::State;

impl State {
    /// The only provider that an order may go to; nothing if its model is none that is served.
    pub(crate) fn served_by(&self, order: &JobOrder) -> Option<Address> {
        self.active_model(order).and_then(ModelFacts::served_by)
    }

    /// Of the offers as they stand now those that an order may go to, if they fit: of a served model its provider's alone, and of them
    /// the ones for such models.
    pub(crate) fn views_for(&self, order: &JobOrder) -> impl Iterator<Item = OfferView<'_>> {
        let provider = self.served_by(order);
        let views = self.offer_views(order.needs.class);
        views.filter(move |view| {
            provider.is_none_or(|it| it == view.provider && is_for_served_models(view.terms))
        })
    }

    /// The cheapest offer of a provider for its served models, if one fits. An account has few offers, and each of them is looked at.
    pub(crate) fn offer_serving(&self, demand: &JobDemand<'_>, provider: Address) -> Option<Quote> {
        let class = demand.needs.class;
        let own = self.book.of_provider(&provider);
        let own = own.filter_map(|id| self.offers.get(&id));
        let own = own.filter(|offer| is_for_served_models(&offer.terms));
        let views = own.map(|offer| OfferView {
            facts: self.offer_facts(offer, class),
            ..self.offer_view(offer)
        });
        cheapest(demand, views)
    }
}

/// Whether an offer is one for served models: it has no memory for anything else.
const fn is_for_served_models(terms: &OfferTerms) -> bool {
    terms.memory_bytes == 0
}

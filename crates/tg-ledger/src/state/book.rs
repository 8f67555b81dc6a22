//! The book of offers, as matching needs it; derived from the records and the stock.
//!
//! Every change of an offer, of its provider's record or balance, and of what its machine holds is noted. The next match
//! updates the book with exactly these changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use tg_market::book::{Looks, Mark, Rates, Standing};
use tg_market::{JobDemand, OfferBook, Quote, cheapest};
use tg_types::{JobClass, OfferId};

use crate::record::{Offer, Provider};
use crate::state::State;

impl State {
    /// The standing offers built anew from the records and [`State::stock`].
    #[must_use]
    pub fn rebuilt_book(&self) -> OfferBook {
        let mut book = self.book.new_beside(*self.schedule.tie_seed.as_bytes());
        for offer in self.offers.iter() {
            book.set(self.standing(offer), &self.stock);
        }
        book
    }

    /// The standing offers as they were kept up to date: equal to [`Self::rebuilt_book`], with which tests hold it together after each block.
    #[must_use]
    pub fn current_book(&self) -> OfferBook {
        let mut state = self.clone();
        state.refresh_book();
        OfferBook::clone(&state.book)
    }

    /// Brings the book up to date with what was noted.
    pub(crate) fn refresh_book(&mut self) {
        let changes = std::mem::take(&mut self.book_changes);
        if changes.is_stale {
            self.book = Arc::new(self.rebuilt_book());
            return;
        }
        let mut offers = changes.offers;
        let seed = self.schedule.tie_seed.as_bytes();
        if self.book.seed() != seed {
            // Another epoch: equals have other turns, and reputations are a little older.
            offers.extend(self.offers_with_reputation());
            Arc::make_mut(&mut self.book).turn(*seed);
        }
        for address in &changes.accounts {
            offers.extend(self.book.of_provider(address));
        }
        if offers.is_empty() {
            return;
        }
        let standing = |id: &OfferId| self.offers.get(id).map(|it| self.standing(it));
        let changed: Vec<_> = offers.iter().map(|id| (*id, standing(id))).collect();
        let book = Arc::make_mut(&mut self.book);
        for (id, standing) in changed {
            match standing {
                Some(standing) => book.set(standing, &self.stock),
                None => book.remove(&id),
            }
        }
    }

    /// The offers of providers whose reputation is not that of a new one: it changes with every epoch.
    fn offers_with_reputation(&self) -> BTreeSet<OfferId> {
        let providers = self.book.providers();
        let known = providers.filter(|it| self.provider(it).is_some_and(Provider::decays));
        known.flat_map(|it| self.book.of_provider(it)).collect()
    }

    /// The cheapest offer for `demand` that fits now, `except` one, unless the search is cut off; the book must be up to
    /// date.
    pub(crate) fn cheapest_offer(
        &self,
        demand: &JobDemand<'_>,
        looks: &mut Looks,
        except: Option<&OfferId>,
    ) -> Option<Quote> {
        let chosen = self.book.cheapest(demand, &self.rates(), looks, except);
        if looks.is_cut_off() {
            return None;
        }
        debug_assert_eq!(
            chosen,
            cheapest(
                demand,
                self.offer_views(demand.needs.class)
                    .filter(|view| except != Some(&view.offer))
            ),
            "the book answers as a look at every offer does"
        );
        chosen
    }

    /// What all offers share.
    pub(crate) const fn rates(&self) -> Rates<'_> {
        Rates {
            class_prices: &self.schedule.prices,
            throughput: &self.schedule.throughput,
        }
    }

    fn standing(&self, offer: &Offer) -> Standing {
        let view = self.offer_view(offer);
        let facts: [_; JobClass::ALL.len()] =
            std::array::from_fn(|class| self.offer_facts(offer, JobClass::ALL[class]));
        Standing {
            offer: view.offer,
            provider: view.provider,
            terms: offer.terms.clone(),
            slots_free: view.slots_free,
            funds: view.funds,
            suspended_until: view.suspended_until,
            record: view.record,
            marks: facts.map(|facts| Mark {
                failure_ppm: facts
                    .failure_ppm
                    .unwrap_or_else(|| view.record.failure_ppm()),
                removed: facts.removed,
                top: facts.top,
            }),
            offline: facts.iter().any(|facts| facts.offline),
        }
    }
}

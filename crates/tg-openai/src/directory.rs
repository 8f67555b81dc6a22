//! Served models that can be asked now: the cards on the grid whose providers have an offer that stands.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tg_sdk::dto::{ModeDto, ModelDto, ModelStateDto, OfferDto};
use tg_sdk::{Client, ClientError};
use tg_types::served::CARD_BYTES_MAX;
use tg_types::{Address, Amount, ModelId, ServedCall, ServedCard};
use tokio::sync::Mutex as AsyncMutex;

use tg_console::outcome::say;

/// How long it is believed what the grid said.
const LOOKED: Duration = Duration::from_secs(2);

/// Cards that are looked at: whoever registers them pays for each.
const CARDS_MAX: usize = 4_096;

/// How long a model whose provider failed comes after the others; twice as long with each failure that no answer made up for, up to an hour.
const AFTER_FAILURE: Duration = Duration::from_secs(30);
const AFTER_FAILURES_MAX: Duration = Duration::from_secs(3_600);

/// How long one whose provider claimed more than there can be does.
const AFTER_LIE: Duration = Duration::from_secs(600);

/// Requests on their way to a provider, at most: a quarter of the places of completions, so that one that answers nothing does not hold them
/// all.
const ASKED_MAX: u32 = 24;

/// Requests on their way to a provider from which on others come first, while nothing is known of it. With each answer it is one more.
const ASKED_FIRST: u32 = 4;

/// A served model, and how its provider did so far.
#[derive(Debug)]
pub(super) struct ServedListing {
    pub(super) model: ModelId,
    pub(super) card: ServedCard,
    standing: Mutex<ProviderStanding>,
}

/// How a provider did so far, as this process saw it.
#[derive(Debug, Default)]
struct ProviderStanding {
    /// Requests on their way.
    asked: u32,
    /// A moving mean of the time until something of an answer came.
    latency_ms: u64,
    avoided_until: Option<Instant>,
    /// Answers since the last failure, as far as they count.
    answers: u32,
    /// Failures that no answer made up for.
    failures: u32,
}

impl ProviderStanding {
    fn fail(&mut self, least: Duration) {
        self.answers = 0;
        let times = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        self.failures = self.failures.saturating_add(1);
        let time = AFTER_FAILURE.saturating_mul(times).min(AFTER_FAILURES_MAX);
        self.avoided_until = Instant::now().checked_add(time.max(least));
    }
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttemptEnd {
    /// With an answer, of which the first part came after this time.
    Answered(Duration),
    /// Without one, for whatever reason of the provider's.
    Failed,
    /// The account that pays could not ask.
    NotAsked,
    /// The provider claimed more than there can be.
    Lied,
}

/// What comes first when several serve a name.
type Preference = (bool, bool, Amount, Amount, u32, u64, ModelId);

/// A listing as one request sees it.
#[derive(Debug, Clone)]
pub(super) struct PricedListing {
    pub(super) listing: Arc<ServedListing>,
    /// The limit of each answer that is added to the request, if it names none.
    pub(super) limit: Option<u32>,
    /// What the usual answer costs.
    pub(super) usual: Amount,
    /// What the request costs at most.
    pub(super) most: Amount,
}

impl ServedListing {
    fn standing(&self) -> std::sync::MutexGuard<'_, ProviderStanding> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A listing of which nothing is known but its card.
    fn new(model: ModelId, card: ServedCard) -> Arc<Self> {
        Arc::new(Self {
            model,
            card,
            standing: Mutex::default(),
        })
    }

    /// One of a test.
    #[cfg(test)]
    pub(super) fn of_card(card: ServedCard) -> Arc<Self> {
        Self::new(card.model_id(), card)
    }

    /// The cheapest first, but for those that failed lately and those that many wait for; of equals the one that costs less at most, then the
    /// one that fewer wait for, then the quicker one.
    fn preference(&self, usual: Amount, most: Amount) -> Preference {
        let standing = self.standing();
        let is_avoided = standing
            .avoided_until
            .is_some_and(|until| Instant::now() < until);
        (
            is_avoided,
            standing.asked >= ASKED_FIRST.saturating_add(standing.answers),
            usual,
            most,
            standing.asked,
            standing.latency_ms,
            self.model,
        )
    }

    /// Whether as many requests are on their way as may be.
    pub(super) fn is_full(&self) -> bool {
        self.standing().asked >= ASKED_MAX
    }

    /// Takes note that a request is on its way.
    pub(super) fn begin(&self) {
        self.standing().asked += 1;
    }

    /// Has others come first for a while.
    pub(super) fn avoid(&self) {
        self.standing().fail(Duration::ZERO);
    }

    /// Takes note of how it ended.
    pub(super) fn end(&self, end: AttemptEnd) {
        let mut standing = self.standing();
        standing.asked = standing.asked.saturating_sub(1);
        match end {
            AttemptEnd::Answered(after) => {
                let after = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
                standing.latency_ms = match standing.latency_ms {
                    0 => after,
                    mean => (mean.saturating_mul(7).saturating_add(after)) / 8,
                };
                standing.avoided_until = None;
                standing.answers = standing.answers.saturating_add(1).min(ASKED_MAX);
                // One answer does not make up for many failures.
                standing.failures /= 2;
            }
            AttemptEnd::NotAsked => {}
            AttemptEnd::Failed => standing.fail(Duration::ZERO),
            AttemptEnd::Lied => standing.fail(AFTER_LIE),
        }
    }
}

/// What a name of models means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameKind {
    /// A model whose answers can be checked.
    Checked,
    /// Served models, whether anybody serves them now or not.
    Served,
    /// Served models have the name, and this program had it before: it means the program, unless that is of no use for what is asked.
    Contested(ModelId),
}

/// What the grid said last.
#[derive(Debug, Default, Clone)]
struct DirectoryLook {
    at: Option<Instant>,
    listings: Vec<Arc<ServedListing>>,
    /// What each name of models means.
    names: BTreeMap<String, NameKind>,
    /// Ids of all served models.
    served: BTreeSet<ModelId>,
}

impl DirectoryLook {
    fn is_new(&self) -> bool {
        self.at.is_some_and(|at| at.elapsed() < LOOKED)
    }

    fn kind(&self, name: &str) -> Option<NameKind> {
        match ModelId::from_hex(name) {
            Some(id) if self.served.contains(&id) => Some(NameKind::Served),
            Some(_) => None,
            None => self.names.get(name).copied(),
        }
    }
}

/// What the names of models mean, of which the oldest come first. Who had a name first has it, whatever strangers register later: cards are issued
/// anew with each price, so that a name that `before` was one of served models stays so as long as any of them is active.
///
/// Stops: a server that answers under the name of a model whose answers are checked, and a program that takes the name of served models.
fn names_of(
    models: &[ModelDto],
    before: &BTreeMap<String, NameKind>,
) -> BTreeMap<String, NameKind> {
    let mut names = BTreeMap::new();
    let is_active = |it: &&ModelDto| it.state == ModelStateDto::Active;
    for model in models.iter().filter(is_active) {
        let was_served = before.get(&model.name) == Some(&NameKind::Served);
        let kind = match (model.is_served(), names.get(&model.name)) {
            (true, None) => NameKind::Served,
            (true, Some((NameKind::Checked, _))) if was_served => NameKind::Served,
            (true, Some((NameKind::Checked, first))) => NameKind::Contested(*first),
            (false, None) => NameKind::Checked,
            (_, Some(_)) => continue,
        };
        names.insert(model.name.clone(), (kind, model.id));
    }
    let mut names: BTreeMap<String, NameKind> = names
        .into_iter()
        .map(|(name, (kind, _))| (name, kind))
        .collect();
    // A model that nobody serves any more is not ordered as a program.
    for model in models.iter().filter(|it| it.is_served()) {
        names.entry(model.name.clone()).or_insert(NameKind::Served);
    }
    names
}

/// Tells the operator of names that came to be contested.
fn tell_contested(names: &BTreeMap<String, NameKind>, before: &BTreeMap<String, NameKind>) {
    for (name, kind) in names {
        if let NameKind::Contested(program) = kind
            && before.get(name) != Some(kind)
        {
            say(format_args!(
                "the name `{name}` is that of program {program} and, since later, of served models: requests that the program is of use for \
                 are ordered of it; callers who name an id get what they name"
            ));
        }
    }
}

/// The served models.
#[derive(Debug)]
pub(super) struct ServedDirectory {
    client: Client,
    /// Every card that was read, and what was seen of its provider; nothing of files that are none.
    cards: Mutex<BTreeMap<ModelId, Option<Arc<ServedListing>>>>,
    looked: Mutex<Arc<DirectoryLook>>,
    /// Held by whoever asks the grid. Others wait for it only where nothing is known yet.
    asking: AsyncMutex<()>,
}

impl ServedDirectory {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            cards: Mutex::default(),
            looked: Mutex::default(),
            asking: AsyncMutex::default(),
        }
    }

    /// What a name or an id means; nothing if no served model has it, or no model.
    pub(super) async fn kind(&self, name: &str) -> Option<NameKind> {
        self.look().await.kind(name)
    }

    /// Those that can be asked now by a name or an id.
    pub(super) async fn named(&self, name: &str) -> Vec<Arc<ServedListing>> {
        let looked = self.look().await;
        let id = ModelId::from_hex(name);
        let of_name = |it: &&Arc<ServedListing>| match id {
            Some(id) => it.model == id,
            None => it.card.name.as_str() == name,
        };
        looked.listings.iter().filter(of_name).cloned().collect()
    }

    /// All that can be asked now, by name.
    pub(super) async fn all(&self) -> BTreeMap<String, Vec<Arc<ServedListing>>> {
        let looked = self.look().await;
        let mut all: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for listing in &looked.listings {
            let name = listing.card.name.as_str();
            all.entry(name.to_owned())
                .or_default()
                .push(Arc::clone(listing));
        }
        all
    }

    /// The one to ask, of those that were not asked yet.
    pub(super) fn choose(
        priced: &[PricedListing],
        call: ServedCall,
        tried: &[ModelId],
    ) -> Option<PricedListing> {
        let open = priced.iter().filter(|it| {
            let listing = &it.listing;
            listing.card.serves(call) && !tried.contains(&listing.model) && !listing.is_full()
        });
        open.min_by_key(|it| it.listing.preference(it.usual, it.most))
            .cloned()
    }

    fn looked(&self) -> Arc<DirectoryLook> {
        let looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&looked)
    }

    /// What the grid said, asked again if that was long ago. While the grid is away, or is being asked, what was known stands.
    async fn look(&self) -> Arc<DirectoryLook> {
        let known = self.looked();
        if known.is_new() {
            return known;
        }
        let _asking = match self.asking.try_lock() {
            Ok(asking) => asking,
            Err(_) if known.at.is_some() => return known,
            Err(_) => self.asking.lock().await,
        };
        // Somebody may have asked meanwhile.
        let known = self.looked();
        if known.is_new() {
            return known;
        }
        let mut look = DirectoryLook::clone(&known);
        if let Ok((models, offers)) = self.ask().await {
            look.names = names_of(&models, &known.names);
            tell_contested(&look.names, &known.names);
            let served = models.iter().filter(|it| it.is_served());
            look.served = served.map(|it| it.id).collect();
            look.listings = self.listings(&models, &offers).await;
        }
        look.at = Some(Instant::now());
        let look = Arc::new(look);
        *self.looked.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&look);
        look
    }

    async fn ask(&self) -> Result<(Vec<ModelDto>, Vec<OfferDto>), ClientError> {
        Ok((self.client.models().await?, self.client.offers().await?))
    }

    /// The latest card of each provider for each name, if the provider has an offer for served models that stands.
    async fn listings(&self, models: &[ModelDto], offers: &[OfferDto]) -> Vec<Arc<ServedListing>> {
        let serving = offers.iter().filter(|it| {
            let terms = &it.terms;
            !it.offline && terms.memory_bytes == 0 && terms.modes.contains(&ModeDto::Endpoint)
        });
        let serving: BTreeSet<Address> = serving.map(|it| it.provider).collect();
        let mut latest: BTreeMap<(Address, String), Arc<ServedListing>> = BTreeMap::new();
        let served = models
            .iter()
            .filter(|it| it.state == ModelStateDto::Active && it.is_served());
        for model in served
            .filter(|it| serving.contains(&it.owner))
            .take(CARDS_MAX)
        {
            let Some(listing) = self.card(model).await else {
                continue;
            };
            let name = listing.card.name.as_str().to_owned();
            let place = latest.entry((listing.card.provider, name));
            let kept = place.or_insert_with(|| Arc::clone(&listing));
            if kept.card.issued < listing.card.issued {
                *kept = listing;
            }
        }
        latest.into_values().collect()
    }

    /// The card of a model, read once.
    async fn card(&self, model: &ModelDto) -> Option<Arc<ServedListing>> {
        let cards = || self.cards.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = cards().get(&model.id) {
            return known.clone();
        }
        // What cannot be read now is read the next time.
        let file = self.client.blob(model.public_blob, CARD_BYTES_MAX).await;
        let card = ServedCard::read(&file.ok()?).ok();
        // Stops: a gateway that shows other prices than the provider's.
        let card = card.filter(|it| it.model_id() == model.id && it.provider == model.owner);
        let listing = card.map(|card| ServedListing::new(model.id, card));
        cards().insert(model.id, listing.clone());
        listing
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tg_sdk::dto::ModelFactsDto;
    use tg_types::{Label, TimestampMs, TokenUsage};

    fn model(id: u8, (name, is_served): (&str, bool), state: ModelStateDto) -> ModelDto {
        let facts = ModelFactsDto {
            program: tg_types::ProgramId::new([0; 32]),
            tier: match is_served {
                true => tg_types::Tier::Served.as_str().to_owned(),
                false => tg_types::Tier::Tgx1.as_str().to_owned(),
            },
            macs: 1,
            input_len: 1,
            output_len: 1,
            provable: false,
        };
        ModelDto {
            id: ModelId::new([id; 32]),
            name: name.to_owned(),
            owner: Address::new([id; 20]),
            state,
            public_blob: tg_types::Digest::of_blob(b"p"),
            weights_blob: tg_types::Digest::of_blob(b"w"),
            registered_ms: u64::from(id),
            facts: Some(facts),
            refusal: None,
        }
    }

    fn active(id: u8, name: (&str, bool)) -> ModelDto {
        model(id, name, ModelStateDto::Active)
    }

    fn kind_of(models: &[ModelDto], before: Option<NameKind>) -> Option<NameKind> {
        let before = before.map(|kind| ("m".to_owned(), kind));
        let before = before.into_iter().collect();
        names_of(models, &before).get("m").copied()
    }

    /// A stranger registers a program of a served model's name for 0.1 TGRID, or a card of a program's.
    #[test]
    fn what_a_stranger_registers_later_changes_nothing_about_a_name() {
        let (program, card) = (("m", false), ("m", true));
        let first = ModelId::new([1; 32]);
        let alone = [active(1, card)];
        assert_eq!(kind_of(&alone, None), Some(NameKind::Served));
        let squatted = [active(1, card), active(2, program)];
        assert_eq!(kind_of(&squatted, None), Some(NameKind::Served));
        // The card is issued anew, and the former one is gone.
        let anew = [active(2, program), active(3, card)];
        let served = Some(NameKind::Served);
        assert_eq!(kind_of(&anew, served), served);
        assert_eq!(
            kind_of(&[active(2, program)], served),
            Some(NameKind::Checked)
        );
        let contested = [active(1, program), active(2, card), active(3, program)];
        assert_eq!(kind_of(&contested, None), Some(NameKind::Contested(first)));
        assert_eq!(kind_of(&contested[..1], None), Some(NameKind::Checked));
        // What is not active takes no name.
        let refused = model(1, program, ModelStateDto::Refused);
        assert_eq!(kind_of(&[refused, active(2, card)], None), served);
        let gone = model(1, card, ModelStateDto::Refused);
        assert_eq!(kind_of(std::slice::from_ref(&gone), None), served);
        assert_eq!(
            kind_of(&[gone, active(2, program)], None),
            Some(NameKind::Checked)
        );
        assert_eq!(kind_of(&[], None), None);
    }

    fn listing(provider: u8, price: u64) -> Arc<ServedListing> {
        let card = ServedCard {
            provider: Address::new([provider; 20]),
            name: Label::lossy("m"),
            context: 100,
            calls: ServedCall::Chat.bit(),
            prompt_price: Amount::from_tgrid(price),
            completion_price: Amount::from_tgrid(price),
            issued: TimestampMs::ZERO,
        };
        ServedListing::of_card(card)
    }

    fn chosen(all: &[Arc<ServedListing>], tried: &[ModelId]) -> Option<ModelId> {
        let usage = TokenUsage {
            prompt: 10,
            completion: 10,
        };
        let priced: Vec<PricedListing> = all.iter().map(|it| priced(it, usage)).collect();
        let chosen = ServedDirectory::choose(&priced, ServedCall::Chat, tried);
        chosen.map(|it| it.listing.model)
    }

    fn priced(listing: &Arc<ServedListing>, usage: TokenUsage) -> PricedListing {
        PricedListing {
            limit: None,
            usual: listing.card.price(usage),
            most: listing.card.largest_price(),
            listing: Arc::clone(listing),
        }
    }

    #[test]
    fn the_cheapest_is_asked_and_the_next_one_when_it_failed() {
        let all = [listing(1, 3), listing(2, 1), listing(3, 2)];
        assert_eq!(chosen(&all, &[]), Some(all[1].model));
        assert_eq!(chosen(&all, &[all[1].model]), Some(all[2].model));
        all[1].begin();
        all[1].end(AttemptEnd::Failed);
        assert_eq!(chosen(&all, &[]), Some(all[2].model));
        // Those that failed are better than none.
        let others = [all[0].model, all[2].model];
        assert_eq!(chosen(&all, &others), Some(all[1].model));
        all[1].begin();
        all[1].end(AttemptEnd::Answered(Duration::from_millis(5)));
        assert_eq!(chosen(&all, &[]), Some(all[1].model));
        let each: Vec<ModelId> = all.iter().map(|it| it.model).collect();
        assert_eq!(chosen(&all, &each), None);
    }

    /// A card whose provider says that it works and never answers is the cheapest.
    #[test]
    fn a_provider_that_answers_nothing_is_asked_little_and_ever_less() {
        let all = [listing(1, 3), listing(2, 1)];
        let stalls = &all[1];
        for _ in 0..ASKED_FIRST {
            assert_eq!(chosen(&all, &[]), Some(stalls.model));
            stalls.begin();
        }
        assert_eq!(chosen(&all, &[]), Some(all[0].model));
        // Alone it is asked up to a bound.
        let (honest, mut asked) = ([all[0].model], ASKED_FIRST);
        while chosen(&all, &honest).is_some() {
            stalls.begin();
            asked += 1;
        }
        assert_eq!(asked, ASKED_MAX);
        let avoided = || {
            let until = stalls.standing().avoided_until.unwrap();
            until.duration_since(Instant::now())
        };
        stalls.end(AttemptEnd::Failed);
        let first = avoided();
        for _ in 1..ASKED_MAX {
            stalls.end(AttemptEnd::Failed);
        }
        assert!(first <= AFTER_FAILURE && avoided() > AFTER_FAILURES_MAX / 2);
        // An answer does not make up for all of them.
        stalls.begin();
        stalls.end(AttemptEnd::Answered(Duration::ZERO));
        stalls.begin();
        stalls.end(AttemptEnd::Failed);
        assert!(avoided() > AFTER_FAILURES_MAX / 2);
    }

    #[test]
    fn who_answers_is_asked_more_at_once() {
        let all = [listing(1, 1), listing(2, 9)];
        for _ in 0..ASKED_MAX {
            all[0].begin();
            all[0].end(AttemptEnd::Answered(Duration::ZERO));
        }
        (1..ASKED_MAX).for_each(|_| all[0].begin());
        assert_eq!(chosen(&all, &[]), Some(all[0].model));
        all[0].begin();
        assert_eq!(chosen(&all, &[]), Some(all[1].model));
    }

    #[test]
    fn of_equal_prices_the_one_that_fewer_wait_for_is_asked() {
        let all = [listing(1, 1), listing(2, 1), listing(3, 9)];
        let first = all.iter().find(|it| Some(it.model) == chosen(&all, &[]));
        let first = first.unwrap();
        first.begin();
        let second = chosen(&all, &[]).unwrap();
        assert!(second != first.model && second != all[2].model);
        // The dear one is asked when many wait for the others.
        for it in &all[..2] {
            (0..ASKED_FIRST).for_each(|_| it.begin());
        }
        assert_eq!(chosen(&all, &[]), Some(all[2].model));
        // A model is asked only for what its card says.
        let priced: Vec<PricedListing> = all
            .iter()
            .map(|it| priced(it, TokenUsage::default()))
            .collect();
        assert!(ServedDirectory::choose(&priced, ServedCall::Embedding, &[]).is_none());
    }
}

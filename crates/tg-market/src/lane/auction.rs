//! The batch auction: sealed bids and asks of one slot, cleared together.
//!
//! Capacity is sold by *class* (a GPU model, a slice of one, a region). A bid names the classes that would do and
//! what a unit is worth to it; an ask offers units of one class. [`clear_uniform`] finds the allocation of greatest
//! welfare and one price for each class that supports it (a competitive equilibrium): nobody pays more than it bid
//! or gets less than it asked, and what buyers pay is what sellers get.
//!
//! # Method
//! Bids are taken by falling value. Each unit takes the cheapest unsold ask in a class it accepts, or in one that
//! becomes free by moving units that were taken before to other classes they accept: a shortest augmenting path over
//! classes, of which there are at most 128, so sets of them are one word. As values fall, an optimal allocation of
//! the first bids is extended by one augmenting path for the next unit and never by pushing out an earlier bid;
//! a bid that finds nothing worth its value finds nothing later. So the result is a maximum of the transportation
//! problem (tested against exhaustive search). The price of a class is what one more unit of it would save or take:
//! the least of the unsold asks and of the accepted bids that can be reached from it. With these prices the dual of the
//! welfare problem proves the result best ([`Clearing::welfare_bound`]), at any size.

use std::collections::BTreeMap;

use tg_types::Amount;

/// Most classes of one auction.
pub const CLASSES_MAX: usize = 128;

/// A set of classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ClassSet(u128);

impl ClassSet {
    /// No class.
    pub const NONE: Self = Self(0);

    /// The set with `class` added; classes from [`CLASSES_MAX`] on are ignored.
    #[must_use]
    pub const fn with(self, class: u8) -> Self {
        if (class as usize) < CLASSES_MAX {
            Self(self.0 | 1 << class)
        } else {
            self
        }
    }

    /// Whether `class` is in it.
    #[must_use]
    pub const fn contains(self, class: u8) -> bool {
        (class as usize) < CLASSES_MAX && self.0 >> class & 1 == 1
    }

    /// Its classes, rising.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let class = (left != 0).then(|| left.trailing_zeros() as u8)?;
            left &= left - 1;
            Some(class)
        })
    }
}

/// What a buyer wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bid {
    /// Classes that would do.
    pub accepts: ClassSet,
    /// Units wanted; fewer may be given.
    pub units: u32,
    /// What one unit is worth to it.
    pub value: Amount,
}

/// What a seller offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Class of its units.
    pub class: u8,
    /// Units offered.
    pub units: u32,
    /// The least it takes for one.
    pub cost: Amount,
}

/// The result of an auction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Clearing {
    /// Units each bid got, by class; in the order of the bids.
    pub bought: Vec<BTreeMap<u8, u32>>,
    /// Units each ask sold; in the order of the asks.
    pub sold: Vec<u32>,
    /// Price of each class in which anything was sold.
    pub prices: BTreeMap<u8, Amount>,
}

impl Clearing {
    /// Value to the buyers less cost to the sellers, if it can be written.
    #[must_use]
    pub fn welfare(&self, bids: &[Bid], asks: &[Ask]) -> Option<i128> {
        let term = |amount: Amount, units: u32| {
            i128::try_from(amount.get())
                .ok()?
                .checked_mul(i128::from(units))
        };
        let mut sum = 0_i128;
        for (bid, bought) in bids.iter().zip(&self.bought) {
            sum = sum.checked_add(term(bid.value, bought.values().sum())?)?;
        }
        for (ask, sold) in asks.iter().zip(&self.sold) {
            sum = sum.checked_sub(term(ask.cost, *sold)?)?;
        }
        Some(sum)
    }
}

impl Clearing {
    /// A bound that the welfare of no allocation exceeds, whole units or parts of them: the value of the dual of the
    /// welfare problem at [`Self::prices`], where a class in which nothing was sold has the price of its cheapest ask.
    /// Anyone can compute it; where it equals [`Self::welfare`], the clearing is proved to be the best. `None` if it
    /// cannot be written.
    #[must_use]
    pub fn welfare_bound(&self, bids: &[Bid], asks: &[Ask]) -> Option<i128> {
        let mut prices: BTreeMap<u8, i128> = BTreeMap::new();
        for ask in asks.iter().filter(|ask| ask.units > 0) {
            let cost = i128::try_from(ask.cost.get()).ok()?;
            let price = prices.entry(ask.class).or_insert(cost);
            *price = cost.min(*price);
        }
        for (class, price) in &self.prices {
            prices.insert(*class, i128::try_from(price.get()).ok()?);
        }
        let mut bound = 0_i128;
        for bid in bids {
            let value = i128::try_from(bid.value.get()).ok()?;
            let dear = bid.accepts.iter().filter_map(|class| prices.get(&class));
            let gain = dear.min().map_or(0, |price| (value - price).max(0));
            bound = bound.checked_add(gain.checked_mul(i128::from(bid.units))?)?;
        }
        for ask in asks {
            let cost = i128::try_from(ask.cost.get()).ok()?;
            let gain = prices
                .get(&ask.class)
                .map_or(0, |price| (price - cost).max(0));
            bound = bound.checked_add(gain.checked_mul(i128::from(ask.units))?)?;
        }
        Some(bound)
    }
}

/// Clears bids and asks at one price for each class. Ties go by the order of the lists, which the caller draws by
/// the slot's seed.
#[must_use]
pub fn clear_uniform(bids: &[Bid], asks: &[Ask]) -> Clearing {
    let mut market = Market::new(bids, asks);
    let mut order: Vec<usize> = (0..bids.len()).collect();
    order.sort_by_key(|index| (std::cmp::Reverse(bids[*index].value), *index));
    for index in order {
        market.serve(index);
    }
    market.finish()
}

/// Unsold asks of one class, cheapest first.
#[derive(Debug, Default)]
struct AskQueue {
    asks: Vec<usize>,
    next: usize,
}

/// Units given to bids with one set of accepted classes.
type Holders = BTreeMap<ClassSet, Vec<(usize, u32)>>;

struct Market<'a> {
    bids: &'a [Bid],
    asks: &'a [Ask],
    queues: Vec<AskQueue>,
    /// The cheapest unsold ask of each class.
    costs: Vec<Option<Amount>>,
    holders: Vec<Holders>,
    /// Classes that some unit of each class could move to.
    exits: Vec<ClassSet>,
    sold: Vec<u32>,
}

impl<'a> Market<'a> {
    fn new(bids: &'a [Bid], asks: &'a [Ask]) -> Self {
        let mut queues: Vec<AskQueue> = (0..CLASSES_MAX).map(|_| AskQueue::default()).collect();
        for (index, ask) in asks.iter().enumerate() {
            if let Some(queue) = queues.get_mut(usize::from(ask.class)) {
                queue.asks.push(index);
            }
        }
        for queue in &mut queues {
            queue.asks.sort_by_key(|index| (asks[*index].cost, *index));
        }
        let mut market = Self {
            bids,
            asks,
            queues,
            costs: vec![None; CLASSES_MAX],
            holders: vec![Holders::new(); CLASSES_MAX],
            exits: vec![ClassSet::NONE; CLASSES_MAX],
            sold: vec![0; asks.len()],
        };
        for class in 0..CLASSES_MAX {
            market.skip_empty(class);
        }
        market
    }

    fn skip_empty(&mut self, class: usize) {
        let queue = &mut self.queues[class];
        while let Some(ask) = queue.asks.get(queue.next) {
            if self.sold[*ask] < self.asks[*ask].units {
                break;
            }
            queue.next += 1;
        }
        let next = queue.asks.get(queue.next);
        self.costs[class] = next.map(|ask| self.asks[*ask].cost);
    }

    fn next_cost(&self, class: u8) -> Option<Amount> {
        self.costs[usize::from(class)]
    }

    /// Gives `index` as many units as are worth it.
    fn serve(&mut self, index: usize) {
        let bid = self.bids[index];
        let mut wanted = bid.units;
        while wanted > 0 {
            let Some(path) = self.cheapest_path(bid.accepts) else {
                return;
            };
            let end = path[path.len() - 1];
            if self.next_cost(end).is_none_or(|cost| cost > bid.value) {
                return;
            }
            let units = self.path_units(&path, wanted);
            self.shift(&path, units);
            self.hold(path[0], index, units);
            wanted -= units;
        }
    }

    /// Classes from one that `accepts` names to the one with the cheapest unsold ask that can be reached; the
    /// shortest of them.
    fn cheapest_path(&self, accepts: ClassSet) -> Option<Vec<u8>> {
        let mut from = [u8::MAX; CLASSES_MAX];
        let mut queue = [0_u8; CLASSES_MAX];
        let mut length = 0;
        for class in accepts.iter() {
            queue[length] = class;
            length += 1;
        }
        let mut seen = accepts;
        let mut best: Option<(Amount, u8)> = None;
        let mut at = 0;
        while at < length {
            let class = queue[at];
            at += 1;
            let cost = self.costs[usize::from(class)];
            if cost.is_some_and(|it| best.is_none_or(|(least, _)| it < least)) {
                best = cost.map(|it| (it, class));
            }
            let fresh = ClassSet(self.exits[usize::from(class)].0 & !seen.0);
            for exit in fresh.iter() {
                from[usize::from(exit)] = class;
                queue[length] = exit;
                length += 1;
            }
            seen = ClassSet(seen.0 | fresh.0);
        }
        let (_, end) = best?;
        let mut path = vec![end];
        let mut at = end;
        while !accepts.contains(at) {
            at = from[usize::from(at)];
            path.push(at);
        }
        path.reverse();
        Some(path)
    }

    /// How many units can go along `path`, at most `wanted`: limited by the ask at its end and by the first holder of
    /// each move.
    fn path_units(&self, path: &[u8], wanted: u32) -> u32 {
        let end = usize::from(path[path.len() - 1]);
        let ask = self.queues[end].asks[self.queues[end].next];
        let mut units = wanted.min(self.asks[ask].units - self.sold[ask]);
        for step in path.windows(2) {
            if let Some((_, held)) = self.mover(step[0], step[1]) {
                units = units.min(held);
            }
        }
        units
    }

    /// A set of holders in `from` that accepts `to`, and the units of its last holder.
    fn mover(&self, from: u8, to: u8) -> Option<(ClassSet, u32)> {
        let holders = &self.holders[usize::from(from)];
        let found = holders.iter().find(|(set, _)| set.contains(to))?;
        found.1.last().map(|(_, units)| (*found.0, *units))
    }

    /// Sells `units` at the end of `path` and moves as many one class on at each step.
    fn shift(&mut self, path: &[u8], units: u32) {
        for step in path.windows(2).rev() {
            let Some((set, _)) = self.mover(step[0], step[1]) else {
                continue;
            };
            let bid = self.unhold(step[0], set, units);
            self.hold(step[1], bid, units);
        }
        let end = usize::from(path[path.len() - 1]);
        let ask = self.queues[end].asks[self.queues[end].next];
        self.sold[ask] += units;
        self.skip_empty(end);
    }

    fn hold(&mut self, class: u8, bid: usize, units: u32) {
        let accepts = self.bids[bid].accepts;
        let slot = usize::from(class);
        let held = self.holders[slot].entry(accepts).or_default();
        match held.last_mut() {
            Some((last, sum)) if *last == bid => *sum += units,
            _ => held.push((bid, units)),
        }
        self.exits[slot] = ClassSet(self.exits[slot].0 | accepts.0);
    }

    /// Takes `units` from the last holder of `set` in `class`, which has as many; says whose they were.
    fn unhold(&mut self, class: u8, set: ClassSet, units: u32) -> usize {
        let slot = usize::from(class);
        let mut bid = 0;
        if let Some(held) = self.holders[slot].get_mut(&set) {
            if let Some((last, sum)) = held.last_mut() {
                bid = *last;
                *sum -= units;
                if *sum == 0 {
                    held.pop();
                }
            }
            if held.is_empty() {
                self.holders[slot].remove(&set);
                let exits = self.holders[slot].keys().fold(0, |all, it| all | it.0);
                self.exits[slot] = ClassSet(exits);
            }
        }
        bid
    }

    /// What one unit less of `class` would cost: the cheapest way to make up for it.
    fn price(&self, class: u8) -> Option<Amount> {
        let mut reached = ClassSet::NONE.with(class);
        loop {
            let wider = reached
                .iter()
                .fold(reached.0, |all, it| all | self.exits[usize::from(it)].0);
            if wider == reached.0 {
                break;
            }
            reached = ClassSet(wider);
        }
        let asks = reached.iter().filter_map(|it| self.next_cost(it));
        let held = reached
            .iter()
            .flat_map(|it| self.holders[usize::from(it)].values().flatten())
            .map(|(bid, _)| self.bids[*bid].value);
        asks.chain(held).min()
    }

    fn finish(self) -> Clearing {
        let mut bought = vec![BTreeMap::new(); self.bids.len()];
        let mut prices = BTreeMap::new();
        for class in 0..CLASSES_MAX as u8 {
            for (bid, units) in self.holders[usize::from(class)].values().flatten() {
                *bought[*bid].entry(class).or_default() += units;
            }
            if !self.holders[usize::from(class)].is_empty()
                && let Some(price) = self.price(class)
            {
                prices.insert(class, price);
            }
        }
        Clearing {
            bought,
            sold: self.sold,
            prices,
        }
    }
}

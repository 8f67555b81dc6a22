//! Pages of lists: no answer grows with the ledger.

/// Most items of a page: of the largest, jobs with their leases, half a MiB.
const ITEMS_MAX: usize = 200;

/// Items of a page unless the client says otherwise.
const ITEMS: usize = 100;

/// A part of a list.
pub(super) struct Page<T> {
    /// Its items.
    pub(super) items: Vec<T>,
    /// Where the next page begins; nothing if this is the last one.
    pub(super) next: Option<String>,
    /// Items of the whole list.
    pub(super) total: u64,
}

impl<T> Page<T> {
    /// The first items of a list that a page `begin`s with or after; `cursor` names an item for the next page.
    pub(super) fn of(
        list: impl Iterator<Item = T>,
        begin: impl Fn(&T) -> bool,
        wanted: Option<usize>,
        cursor: impl Fn(&T) -> String,
    ) -> Self {
        let most = limit(wanted);
        let mut items = Vec::new();
        let (mut total, mut has_more) = (0, false);
        for item in list {
            total += 1;
            if !begin(&item) {
                continue;
            }
            if items.len() < most {
                items.push(item);
            } else {
                has_more = true;
            }
        }
        let next = items.last().filter(|_| has_more).map(cursor);
        Self {
            items,
            next,
            total: count(total),
        }
    }
}

/// Items of a page of which a client wants so many.
pub(super) fn limit(wanted: Option<usize>) -> usize {
    wanted.unwrap_or(ITEMS).clamp(1, ITEMS_MAX)
}

/// A count on the wire.
pub(super) fn count(items: usize) -> u64 {
    u64::try_from(items).unwrap_or(u64::MAX)
}

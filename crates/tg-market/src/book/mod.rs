//! The standing offers, sorted so that the cheapest one that fits is found without looking at all of them.
//!
//! An [`OfferBook`] is derived from the ledger's records: one kept up to date is equal to one built anew, and undoing
//! unfinalised blocks needs nothing, as each version of the state shares or owns its own. It is three levels deep:
//!
//! 1. A *bucket* for each kind of GPUs. Which buckets a job may look at is an intersection of
//!    bitsets ([`crate::cluster::KindIndex`]).
//! 2. In a bucket, machines that look alike (`Shape`) are one *shape class*: a placement takes the same from the work to
//!    come on all of them, so this part of the cost is worked out once.
//! 3. In a shape class, offers whose cost for any job is equal are one *group* (price, speed, region, what is known of the
//!    provider), in the order of ties: the first that has room is the best of its group. Among shape classes that cost the
//!    same the one goes first whose machines have less free, so that not all of them need be looked at.
//!
//! The shape classes of a bucket in the order of what a place takes are remembered while prices stand (`places`), so a decision
//! values what changed since the last one like it, and looks at the shape classes that may win (`merge`).
//!
//! From shape class and group follows a lower bound of the cost, in the arithmetic of [`crate::placement`] with the least
//! that any member asks; all of it rises with each of its parts, so the bound holds with every rounding. [`search`] goes
//! by the bounds and stops where nothing can win any more. Its answer is that of [`crate::cheapest`] over all offers.
//!
//! Offers that no job can have now (no free slot, too little money for the collateral, out of reach) are in the book,
//! and in no shape class.
//!
//! Files: `standing` (an offer as it stands), `offers` (the book), [`bucket`] (buckets, shape classes, groups, least values), [`search`] (the best offer), `places` (shape classes by what a
//! place takes), `merge` (the best offer by these), [`gang`] (places for gangs), [`shards`] (maps that are cheap to
//! copy), `runs` (sorted maps of which little is copied).

pub mod bucket;
pub mod draw;
pub mod gang;
mod merge;
mod offers;
mod places;
pub(crate) mod runs;
pub mod search;
pub mod shards;
mod standing;
#[cfg(test)]
mod tests;

pub use offers::{MovingLoad, OfferBook};
pub use search::{Looks, Reach};
pub use standing::{Mark, Rates, Standing};

//! The traits that tables and the state tree require of a record.

use tg_types::{Amount, Decode, Encode};

use crate::rent::Due;
use crate::tree::LeafHead;

/// One entry of a table.
pub trait Record: Clone + Encode + Decode {
    /// What the entry is found by.
    type Key: Copy + Ord + Default + AsRef<[u8]> + std::fmt::Debug;

    /// Tells leaves of different tables apart.
    const KIND: u8;

    /// The table's name in errors.
    const NAME: &'static str;

    /// Kind of the leaf that holds this entry's money, where that is a leaf of its own.
    const MONEY_KIND: Option<u8> = None;

    /// What this entry is found by.
    fn key(&self) -> Self::Key;

    /// What its leaf says beside its content.
    fn head(&self) -> LeafHead;

    /// What its money leaf says, while there is money in it.
    fn money_head(&self) -> Option<LeafHead> {
        None
    }

    /// Money that lies in this entry, but for its deposit.
    fn money(&self) -> Amount;

    /// What secures its rent.
    fn deposit(&self) -> Amount {
        Amount::ZERO
    }

    /// When it leaves for want of rent; `None` while something refers to it, or if it pays none.
    fn due(&self) -> Option<Due> {
        None
    }
}

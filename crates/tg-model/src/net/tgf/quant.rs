//! Quantised operators.

use super::Entry;

/// The function of an operator of this family.
pub(super) fn lookup(_op: &str) -> Option<Entry> {
    None
}

/// The function of an operator of `com.microsoft`.
pub(super) fn lookup_microsoft(_op: &str) -> Option<Entry> {
    None
}

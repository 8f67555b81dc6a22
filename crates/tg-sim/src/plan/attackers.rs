//! Attackers of the attack table (`docs/ATTACKS.md`) that are parties of some seeds, beside whatever else fails there: by the seed's number, not drawn, so that the
//! other runs stay as they were. No seed of these kinds failed before there were any.

/// One of so many seeds has such a provider, for each kind.
const PROVIDERS_APART: u64 = 31;

/// One of so many seeds with sealed jobs has a requestor that grants what opens nothing, in the place of one that grants nothing.
const GARBLERS_APART: u64 = 5;

/// Whether a provider of a seed declines what it is given.
pub(super) const fn declines(seed: u64) -> bool {
    seed % PROVIDERS_APART == 16
}

/// Whether a provider of a seed starts and delivers nothing.
pub(super) const fn delivers_nothing(seed: u64) -> bool {
    seed % PROVIDERS_APART == 22
}

/// Whether a requestor of sealed jobs grants what opens nothing, and not nothing.
pub(super) const fn garbles(seed: u64) -> bool {
    seed % GARBLERS_APART == 4
}

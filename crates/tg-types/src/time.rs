//! Points and spans of time as the ledger counts them: blocks, and milliseconds of block time.

use crate::codec::{Decode, DecodeError, Encode, Reader, Writer};

/// Declares a `u64` newtype with explicit construction and the canonical codec.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(u64);

        impl $name {
            /// Zero.
            pub const ZERO: Self = Self(0);

            /// The value of a number.
            #[must_use]
            pub const fn new(value: u64) -> Self {
                Self(value)
            }

            /// The number.
            #[must_use]
            pub const fn get(self) -> u64 {
                self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)
            }
        }

        impl Encode for $name {
            fn encode(&self, writer: &mut Writer) {
                writer.u64(self.0);
            }
        }

        impl Decode for $name {
            fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                Ok(Self(reader.u64()?))
            }
        }
    )*};
}

counters! {
    /// The number of a block; genesis has 0.
    Height;
    /// Milliseconds since the Unix epoch, as blocks state them. No deterministic code reads a clock.
    TimestampMs;
    /// A span of milliseconds.
    DurationMs;
}

impl Height {
    /// The next height.
    ///
    /// # Panics
    /// After 2^64 blocks, which no chain reaches.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl TimestampMs {
    /// The time that lies `span` later, at most the last one that can be written.
    #[must_use]
    pub const fn saturating_add(self, span: DurationMs) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// The span since `earlier`, zero if that lies later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> DurationMs {
        DurationMs(self.0.saturating_sub(earlier.0))
    }
}

impl DurationMs {
    /// A span of whole seconds, saturating.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// The sum, at most the longest span that can be written.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The span `times` as long, at most the longest that can be written.
    #[must_use]
    pub const fn saturating_mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

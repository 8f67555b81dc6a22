//! Pages of lists, and what became of a transaction.

use serde::{Deserialize, Serialize};

use super::jobs::JobDto;
use super::models::ModelDto;
use super::offers::{OfferDto, QuoteDto};

/// Declares the page of a list: utoipa names a schema after its type.
macro_rules! pages {
    ($($(#[$doc:meta])* $name:ident of $item:ty;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        pub struct $name {
            /// The items of this page.
            pub items: Vec<$item>,
            /// The `after` of the next page; absent on the last one.
            pub next: Option<String>,
            /// How many items all pages have together.
            pub total: u64,
        }

        #[cfg(feature = "client")]
        impl Paged for $name {
            type Item = $item;

            fn into_parts(self) -> (Vec<$item>, Option<String>) {
                (self.items, self.next)
            }
        }
    )*};
}

/// A page of a list.
#[cfg(feature = "client")]
pub(crate) trait Paged {
    /// What is listed.
    type Item;

    /// The items, and where the next page begins.
    fn into_parts(self) -> (Vec<Self::Item>, Option<String>);
}

pages! {
    /// A page of open offers, in the order of their ids.
    OfferPageDto of OfferDto;
    /// A page of models, in the order of their ids.
    ModelPageDto of ModelDto;
    /// A page of jobs, newest first.
    JobPageDto of JobDto;
    /// A page of quotes, in the order of the scheduler.
    QuotePageDto of QuoteDto;
}

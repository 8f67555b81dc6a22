//! What the API answers in JSON.
//!
//! Each type is read by a function of its own, which is compiled here: a generic one would be compiled, with the readers of all its fields, by
//! every crate, program and test that makes the call.

use crate::dto::{
    AccountDto, BidDto, BlobDto, CloudPricesDto, DevelopmentAccountDto, DryRunDto, JobDto,
    JobEventsDto, JobPageDto, JobReceiptDto, JobWhyDto, LeaseDto, ModePriceDto, ModelDto,
    ModelPageDto, OfferDto, OfferPageDto, ProviderDto, QuotePageDto, RentDto, SeatsDto,
    StateAnswerDto, StatusDto, SubmittedDto, TransactionStatusDto, UploadDto,
};
use crate::error::ClientError;

/// A type that the API answers with.
pub(crate) trait JsonAnswer: Sized {
    /// Reads it.
    fn from_json(bytes: &[u8]) -> serde_json::Result<Self>;

    /// Reads what came from `path`.
    fn read(path: &str, bytes: &[u8]) -> Result<Self, ClientError> {
        Self::from_json(bytes).map_err(|source| ClientError::Unreadable {
            path: path.to_owned(),
            source,
        })
    }
}

macro_rules! answers {
    ($($name:ty),* $(,)?) => {$(
        impl JsonAnswer for $name {
            fn from_json(bytes: &[u8]) -> serde_json::Result<Self> {
                serde_json::from_slice(bytes)
            }
        }
    )*};
}

answers![
    AccountDto,
    BidDto,
    BlobDto,
    CloudPricesDto,
    DryRunDto,
    JobDto,
    JobEventsDto,
    JobPageDto,
    JobReceiptDto,
    JobWhyDto,
    ModelDto,
    ModelPageDto,
    OfferDto,
    OfferPageDto,
    ProviderDto,
    QuotePageDto,
    RentDto,
    SeatsDto,
    StateAnswerDto,
    StatusDto,
    SubmittedDto,
    TransactionStatusDto,
    UploadDto,
    Vec<DevelopmentAccountDto>,
    Vec<LeaseDto>,
    Vec<ModePriceDto>,
];

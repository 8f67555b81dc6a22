//! The wire types of the HTTP API, one file per subject. Ids, digests and amounts are text; times are milliseconds since 1970.

mod accounts;
mod blobs;
mod clouds;
mod convert;
mod event;
mod inference;
mod jobs;
mod market;
mod models;
mod offers;
mod page;
mod proofs;
mod rent;
mod seats;
mod stage;
mod status;
mod transactions;
mod why;

pub use accounts::{
    AccountDto, DevelopmentAccountDto, DevelopmentEndpointDto, DevelopmentTopUpDto,
    FaucetRequestDto, SessionDto,
};
pub use blobs::{BlobDto, UploadDto};
pub use clouds::{CloudPriceDto, CloudPricesDto};
pub use event::{EventDto, JobEventsDto};
pub use inference::{AnswerDto, DevelopmentInferDto, InferenceDto};
pub use jobs::{
    AskedSeatDto, BidDto, CheckDto, DisputeDto, DisputeTurnDto, JobDto, JobReceiptDto, JobStepDto,
    KeptAnswerDto, LeaseDto, MemberPayDto, MeterDto, ReceiptDto, RejectionDto, ReplicasDto,
    SealingDto, SealingStageDto, SettlementDto,
};
pub use market::{JobNeedsDto, MachineDto};
pub use models::{ModeDto, ModelDto, ModelFactsDto, ModelStateDto};
pub use offers::{ModePriceDto, OfferDto, OfferTermsDto, ProviderDto, QuoteDto, ReputationDto};
#[cfg(feature = "client")]
pub(crate) use page::Paged;
pub use page::{JobPageDto, ModelPageDto, OfferPageDto, QuotePageDto};
pub use proofs::{StateAnswerDto, StateRecordDto};
pub use rent::{RentDto, RentKindDto};
pub use seats::{BondDto, SeatDto, SeatsDto, UnbondingDto, UpgradeDto};
pub use stage::{JobStateDto, LeaseEndDto};
pub use status::{DomainDto, JobCountsDto, ParametersDto, StatusDto, TotalsDto};
pub use transactions::{SubmittedDto, TransactionStateDto, TransactionStatusDto};
pub use why::{ConstraintDto, DryRunDto, JobWhyDto, OfferWhyDto};

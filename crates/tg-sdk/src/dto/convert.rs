//! Between wire types and the protocol's own types.

use tg_types::VerificationMode;
use tg_types::{ChainDomain, Digest, DurationMs, Label, LabelError, ModeSet, OfferTerms, Receipt};

use super::jobs::ReceiptDto;
use super::offers::OfferTermsDto;
use super::status::DomainDto;

impl From<DomainDto> for ChainDomain {
    fn from(dto: DomainDto) -> Self {
        let DomainDto {
            chain_id,
            rollup,
            salt,
        } = dto;
        Self {
            chain_id,
            verifying_contract: rollup,
            salt: *salt.as_bytes(),
        }
    }
}

impl From<&ChainDomain> for DomainDto {
    fn from(domain: &ChainDomain) -> Self {
        let ChainDomain {
            chain_id,
            verifying_contract,
            salt,
        } = domain;
        Self {
            chain_id: *chain_id,
            rollup: *verifying_contract,
            salt: Digest::new(*salt),
        }
    }
}

impl From<&OfferTerms> for OfferTermsDto {
    fn from(terms: &OfferTerms) -> Self {
        let OfferTerms {
            hardware,
            price_base,
            price_per_mmac,
            latency_base_ms,
            speed_mmac_per_s,
            memory_bytes,
            slots,
            collateral_per_lease,
            modes,
            machine,
            price_per_gpu_second,
            pricing,
        } = terms;
        Self {
            hardware: hardware.as_str().to_owned(),
            price_base: *price_base,
            price_per_mmac: *price_per_mmac,
            latency_base_ms: latency_base_ms.get(),
            speed_mmac_per_s: *speed_mmac_per_s,
            memory_bytes: *memory_bytes,
            slots: *slots,
            collateral_per_lease: *collateral_per_lease,
            modes: modes.iter().map(Into::into).collect(),
            machine: machine.into(),
            price_per_gpu_second: *price_per_gpu_second,
            pricing: *pricing,
        }
    }
}

impl TryFrom<OfferTermsDto> for OfferTerms {
    type Error = LabelError;

    fn try_from(dto: OfferTermsDto) -> Result<Self, LabelError> {
        let OfferTermsDto {
            hardware,
            price_base,
            price_per_mmac,
            latency_base_ms,
            speed_mmac_per_s,
            memory_bytes,
            slots,
            collateral_per_lease,
            modes,
            machine,
            price_per_gpu_second,
            pricing,
        } = dto;
        let modes: Vec<VerificationMode> = modes.into_iter().map(Into::into).collect();
        Ok(Self {
            hardware: Label::new(&hardware)?,
            price_base,
            price_per_mmac,
            latency_base_ms: DurationMs::new(latency_base_ms),
            speed_mmac_per_s,
            memory_bytes,
            slots,
            collateral_per_lease,
            modes: ModeSet::of(&modes),
            machine: machine.into(),
            price_per_gpu_second,
            pricing,
        })
    }
}

impl From<&Receipt> for ReceiptDto {
    fn from(receipt: &Receipt) -> Self {
        let Receipt {
            program,
            model,
            input,
            output,
            trace,
            tier,
        } = receipt;
        Self {
            program: *program,
            model: *model,
            input: *input,
            output: *output,
            trace: *trace,
            tier: tier.as_str().to_owned(),
        }
    }
}

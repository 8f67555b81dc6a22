//! Wire types as JSON: ids, digests and amounts are exact text.

use serde::de::DeserializeOwned;
use tg_sdk::dto::{
    AccountDto, DevelopmentInferDto, EventDto, JobStateDto, MachineDto, ModeDto, OfferTermsDto,
};
use tg_sdk::{Address, Amount};
use tg_types::OfferTerms;
use tg_types::{CapacityTier, GpuModel, Pricing, SharingMode};

fn refused<T: DeserializeOwned + std::fmt::Debug>(json: &str, part: &str) {
    let error = serde_json::from_str::<T>(json).unwrap_err().to_string();
    assert!(error.contains(part), "{error}");
}

#[test]
fn amounts_keep_every_base_unit() {
    let account = AccountDto {
        address: Address::new([7; 20]),
        balance: Amount::new(1_000_000_000_000_000_001),
        escrow: Amount::ZERO,
        collateral: Amount::MAX,
        nonce: 3,
        sessions: Vec::new(),
    };
    let json = serde_json::to_string(&account).unwrap();
    assert!(
        json.contains(r#""balance":"1.000000000000000001""#),
        "{json}"
    );
    assert_eq!(serde_json::from_str::<AccountDto>(&json).unwrap(), account);
}

#[test]
fn wrong_text_says_what_was_expected() {
    let account = |address: &str, balance: &str| {
        format!(
            r#"{{"address":"{address}","balance":"{balance}","escrow":"0","collateral":"0","nonce":0}}"#
        )
    };
    refused::<AccountDto>(&account("0x12", "1"), "expected an address");
    let address = Address::new([7; 20]).to_string();
    refused::<AccountDto>(&account(&address, "1e3"), "expected an amount");
    refused::<AccountDto>(&account(&address, "-1"), "expected an amount");
}

#[test]
fn absent_parts_of_an_event_may_be_left_out() {
    let json = r#"{"height":1,"timestamp_ms":2,"kind":"k","text":"t","amount":"0.5"}"#;
    let event: EventDto = serde_json::from_str(json).unwrap();
    assert_eq!(event.job, None);
    assert_eq!(event.amount, Some(Amount::new(500_000_000_000_000_000)));
}

#[test]
fn states_are_written_as_people_say_them() {
    assert_eq!(
        serde_json::to_string(&JobStateDto::Queued).unwrap(),
        r#""queued""#
    );
    assert_eq!(JobStateDto::Queued.to_string(), "queued");
    assert!(JobStateDto::Paid.is_final() && !JobStateDto::Accepted.is_final());
}

#[test]
fn the_default_mode_of_a_development_inference_is_zk() {
    let request: DevelopmentInferDto =
        serde_json::from_str(r#"{"model":"m","input":[0.5]}"#).unwrap();
    assert_eq!((request.mode, request.max_price), (ModeDto::Proof, None));
}

#[test]
fn offer_terms_survive_the_wire_and_bad_labels_do_not() {
    let dto = OfferTermsDto {
        hardware: "2 CPU cores".to_owned(),
        price_base: Amount::from_tgrid(1),
        price_per_mmac: Amount::new(5),
        latency_base_ms: 10,
        speed_mmac_per_s: 20,
        memory_bytes: 30,
        slots: 2,
        collateral_per_lease: Amount::from_tgrid(3),
        modes: vec![ModeDto::None, ModeDto::Proof],
        machine: MachineDto {
            gpus: 2,
            gpu: GpuModel::H100,
            sharing: vec![SharingMode::Mps, SharingMode::Mig],
            coordinate_us: [-3, 4],
            tiers: vec![CapacityTier::OnDemand, CapacityTier::Spot],
            ..MachineDto::default()
        },
        price_per_gpu_second: Amount::new(7),
        pricing: Pricing::Dynamic,
    };
    let json = serde_json::to_string(&dto).unwrap();
    assert_eq!(serde_json::from_str::<OfferTermsDto>(&json).unwrap(), dto);
    let terms = OfferTerms::try_from(dto.clone()).unwrap();
    assert_eq!(OfferTermsDto::from(&terms), dto);
    let long = OfferTermsDto {
        hardware: "x".repeat(65),
        ..dto
    };
    assert!(OfferTerms::try_from(long).is_err());
}

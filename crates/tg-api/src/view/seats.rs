//! Seats as the API shows them.

use std::collections::BTreeMap;

use tg_ledger::limits::EPOCH_BLOCKS;
use tg_ledger::{State, Validator};
use tg_sdk::dto::{BondDto, SeatDto, SeatsDto, UnbondingDto, UpgradeDto};
use tg_types::Digest;

/// The seats of a state; `endpoints` are where this node reaches validators, which the ledger does not know of those of
/// genesis.
#[must_use]
pub fn seats(state: &State, endpoints: &BTreeMap<[u8; 32], String>) -> SeatsDto {
    let book = state.seats();
    let parameters = state.parameters();
    let sitting = state.validators().iter().zip(&book.seats);
    let endpoint = |validator: &Validator, stated: &str| {
        let known = endpoints.get(validator.key.as_bytes()).cloned();
        known.or_else(|| Some(stated.to_owned()).filter(|it| !it.is_empty()))
    };
    let height = state.head().height.get();
    SeatsDto {
        term: book.term,
        since: book.since.get(),
        next_change: (height + 1).div_ceil(EPOCH_BLOCKS) * EPOCH_BLOCKS,
        bond: parameters.seat_bond,
        unbonding_ms: parameters.unbonding.get(),
        validators: sitting
            .map(|(validator, seat)| SeatDto {
                bond: bond(validator),
                endpoint: endpoint(validator, seat.endpoint.as_str()),
                last_block: seat.led.get(),
                leaving: seat.is_leaving,
                missed_votes: seat.missed,
                ready: seat.is_ready,
            })
            .collect(),
        validators_max: parameters.validators_max(),
        protocol: state.head().protocol,
        upgrade: book.upgrade.map(|it| UpgradeDto {
            version: it.version,
            from: it.from.get(),
        }),
        applicants: book
            .applicants
            .iter()
            .map(|it| bond(&it.validator))
            .collect(),
        unbonding: book
            .unbonding
            .iter()
            .map(|it| UnbondingDto {
                bond: bond(&it.validator),
                until_ms: it.until.get(),
            })
            .collect(),
    }
}

fn bond(validator: &Validator) -> BondDto {
    BondDto {
        account: validator.address,
        key: Digest::new(*validator.key.as_bytes()),
        stake: validator.stake,
    }
}

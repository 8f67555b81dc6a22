//! Signs of life.

use tg_types::{ChainDomain, Decode, DecodeError, Encode, Heartbeat, SignatureError, TimestampMs};

use crate::samples::{domain, wallet};

#[test]
fn a_heartbeat_names_its_account_and_survives_its_text() {
    let at = TimestampMs::new(1_800_000_000_000);
    let heartbeat = Heartbeat::new(at, &wallet(), &domain());
    assert_eq!(heartbeat.account(&domain()), Ok(wallet().address()));
    assert_eq!(heartbeat.to_bytes().len(), 73);
    assert_eq!(Heartbeat::from_hex(&heartbeat.to_string()), Some(heartbeat));
    assert_eq!(Heartbeat::from_hex("0x12"), None);
    let mut long = heartbeat.to_bytes();
    long.push(0);
    assert_eq!(
        Heartbeat::from_bytes(&long),
        Err(DecodeError::Trailing { extra: 1 })
    );
}

#[test]
fn a_changed_heartbeat_is_nobodys() {
    let at = TimestampMs::new(1_800_000_000_000);
    let heartbeat = Heartbeat::new(at, &wallet(), &domain());
    let other_network = ChainDomain {
        chain_id: domain().chain_id + 1,
        ..domain()
    };
    assert_ne!(heartbeat.account(&other_network), Ok(wallet().address()));
    let later = Heartbeat {
        at: TimestampMs::new(at.get() + 1),
        ..heartbeat
    };
    assert_ne!(later.account(&domain()), Ok(wallet().address()));
    let mut zero = heartbeat;
    zero.signature.r = [0; 32];
    assert_eq!(
        zero.account(&domain()),
        Err(SignatureError::ScalarOutOfRange)
    );
}

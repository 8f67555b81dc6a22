//! The words of the protocol: labels, modes, kinds, ids.

use tg_types::{
    Address, Decode, DecodeError, Encode, Fault, Label, LabelError, ModeSet, Tier, TransactionKind,
    VerificationMode, Writer,
};

#[test]
fn labels_are_short_and_without_control_characters() {
    assert_eq!(
        Label::new("RTX 4090, 24 GB").unwrap().as_str(),
        "RTX 4090, 24 GB"
    );
    assert_eq!(Label::new("").unwrap().as_str(), "");
    assert_eq!(
        Label::new(&"x".repeat(65)),
        Err(LabelError::TooLong { length: 65 })
    );
    assert_eq!(
        Label::new("a\u{1b}[31m"),
        Err(LabelError::Control { character: 0x1b })
    );
    assert_eq!(Label::lossy("a\nb").as_str(), "a b");
    // 21 three-byte characters are 63 bytes; the 22nd would pass 64.
    assert_eq!(Label::lossy(&"€".repeat(30)).as_str(), "€".repeat(21));
    assert_eq!(format!("{:>4}", Label::lossy("ab")), "  ab");
}

#[test]
fn labels_are_checked_when_they_are_read() {
    fn check(bytes: &[u8], expected: DecodeError) {
        let mut writer = Writer::new();
        writer.bytes(bytes);
        assert_eq!(Label::from_bytes(&writer.into_bytes()), Err(expected));
    }
    check(
        b"\x07",
        DecodeError::Invalid {
            field: "label",
            value: 7,
        },
    );
    check(b"\xff", DecodeError::NotUtf8 { field: "label" });
    check(
        &[b'x'; 65],
        DecodeError::TooLong {
            field: "label",
            count: 65,
            limit: 64,
        },
    );
}

#[test]
fn modes_keep_their_tags_and_names() {
    for mode in VerificationMode::ALL {
        assert_eq!(VerificationMode::from_tag(mode.tag()), Some(mode));
        assert_eq!(VerificationMode::from_name(mode.as_str()), Some(mode));
        assert_eq!(VerificationMode::from_bytes(&mode.to_bytes()), Ok(mode));
        assert!(ModeSet::ALL.contains(mode));
        assert!(!ModeSet::EMPTY.contains(mode));
        assert_eq!(ModeSet::of(&[mode]).iter().collect::<Vec<_>>(), [mode]);
    }
    assert_eq!(VerificationMode::from_tag(8), None);
    assert_eq!(VerificationMode::from_name("PROOF"), None);
    assert_eq!(
        VerificationMode::from_bytes(&[8]),
        Err(DecodeError::Invalid {
            field: "verification mode",
            value: 8
        })
    );
    assert_eq!(ModeSet::from_bytes(&[255]), Ok(ModeSet::ALL));
    assert_eq!(
        Tier::from_bytes(&[5]),
        Err(DecodeError::Invalid {
            field: "tier",
            value: 5
        })
    );
    assert_eq!(Tier::Tgx1.to_string(), "TGX-1");
    assert_eq!(Tier::Tgf1.to_string(), "TGF-1");
    assert_eq!(Tier::from_bytes(&[2]), Ok(Tier::Tgf1));
    assert_eq!(Tier::Wasm1.to_string(), "WASM-1");
    assert!(ModeSet::of(&[]).is_empty());
    assert_eq!(ModeSet::of(&VerificationMode::ALL), ModeSet::ALL);
}

#[test]
fn kinds_have_their_own_tags_and_types() {
    let tags: Vec<u8> = TransactionKind::ALL.map(TransactionKind::tag).to_vec();
    assert!(tags.is_sorted_by(|left, right| left < right), "{tags:?}");
    for kind in TransactionKind::ALL {
        let start = format!("{kind}({},", tg_types::eip712::HEAD);
        assert!(kind.encoded_type().starts_with(&start), "{kind}");
    }
}

#[test]
fn ids_are_read_in_hexadecimal() {
    let address = Address::new([0xab; 20]);
    assert_eq!(Address::from_hex(&address.to_string()), Some(address));
    assert_eq!(Address::from_hex(&"AB".repeat(20)), Some(address));
    assert_eq!(Address::from_hex("0xab"), None);
    assert_eq!(Address::from_hex(&"zz".repeat(20)), None);
    assert_eq!(Address::from_hex(&format!("{}x", "€".repeat(13))), None);
    assert_eq!(Fault::Client.to_string(), "client");
}

#[test]
fn words_of_resources_have_one_tag_and_one_name() {
    fn check<T>(all: &[T], tag: fn(T) -> u8, name: fn(T) -> &'static str, of: fn(&str) -> Option<T>)
    where
        T: Copy + PartialEq + std::fmt::Debug + std::fmt::Display + Encode + Decode,
    {
        for (index, it) in all.iter().copied().enumerate() {
            assert_eq!(usize::from(tag(it)), index);
            assert_eq!(of(name(it)), Some(it));
            assert_eq!(it.to_string(), name(it));
            assert_eq!(T::from_bytes(&it.to_bytes()), Ok(it));
        }
        let beyond = [u8::try_from(all.len()).unwrap()];
        assert!(matches!(
            T::from_bytes(&beyond),
            Err(DecodeError::Invalid { .. })
        ));
        assert_eq!(of("no such name"), None);
    }
    use tg_types::{CapacityTier, GpuLink, GpuModel, JobClass, Pricing, SharingMode};
    check(
        GpuModel::ALL,
        GpuModel::tag,
        GpuModel::as_str,
        GpuModel::from_name,
    );
    check(
        GpuLink::ALL,
        GpuLink::tag,
        GpuLink::as_str,
        GpuLink::from_name,
    );
    check(
        SharingMode::ALL,
        SharingMode::tag,
        SharingMode::as_str,
        SharingMode::from_name,
    );
    check(
        JobClass::ALL,
        JobClass::tag,
        JobClass::as_str,
        JobClass::from_name,
    );
    check(
        CapacityTier::ALL,
        CapacityTier::tag,
        CapacityTier::as_str,
        CapacityTier::from_name,
    );
    check(
        Pricing::ALL,
        Pricing::tag,
        Pricing::as_str,
        Pricing::from_name,
    );
}

#[test]
fn sets_of_resources_hold_what_they_were_made_of() {
    use tg_types::{GpuModel, GpuModelSet, RegionSet, SharingMode, SharingSet, TierSet};
    let models = GpuModelSet::of(&[GpuModel::T4, GpuModel::H200]);
    let held: Vec<_> = GpuModel::ALL
        .iter()
        .filter(|it| models.contains(**it))
        .collect();
    assert_eq!(held, [&GpuModel::T4, &GpuModel::H200]);
    assert!(
        GpuModel::ALL
            .iter()
            .all(|it| GpuModelSet::ANY.contains(*it))
    );
    assert!(RegionSet::only(63).contains(63) && !RegionSet::only(63).contains(0));
    assert!(RegionSet::only(64).is_empty() && !RegionSet::ANY.contains(64));
    let sharing = SharingSet::of(&[SharingMode::TimeSlice, SharingMode::Mig, SharingMode::Whole]);
    assert_eq!(
        sharing.at_least(SharingMode::TimeSlice),
        Some(SharingMode::TimeSlice)
    );
    assert_eq!(sharing.at_least(SharingMode::Mps), Some(SharingMode::Mig));
    assert_eq!(sharing.at_least(SharingMode::Whole), None);
    assert_eq!(SharingSet::NONE.at_least(SharingMode::TimeSlice), None);
    for bad in [8u8, 0xff] {
        assert!(matches!(
            TierSet::from_bytes(&[bad]),
            Err(DecodeError::Invalid { .. })
        ));
        assert!(matches!(
            SharingSet::from_bytes(&[bad]),
            Err(DecodeError::Invalid { .. })
        ));
    }
}

#[test]
fn a_job_has_one_lane() {
    use tg_types::{JobClass, JobNeeds, Lane};
    let simple = JobNeeds::ANY_MACHINE;
    assert_eq!(simple.lane(), Lane::Posted);
    let batch = JobNeeds {
        class: JobClass::Batch,
        ..simple
    };
    assert_eq!(batch.lane(), Lane::Auction);
    let guaranteed = JobNeeds {
        guaranteed: true,
        ..batch
    };
    assert_eq!(guaranteed.lane(), Lane::Deadline);
    assert_eq!(
        JobNeeds {
            gang: 2,
            ..guaranteed
        }
        .lane(),
        Lane::Gang
    );
}

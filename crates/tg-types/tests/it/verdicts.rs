//! Decoders of what is signed keep their verdicts on damaged bytes.

use tg_types::{SignedTransaction, Tier, VerificationMode};

use crate::mutations::{Subject, compare};
use crate::samples::{
    FEES, domain, machine, needs, order, receipt, signed, terms, transactions, wallet,
};

#[test]
fn verdicts_on_damaged_encodings_are_pinned() {
    let all: Vec<SignedTransaction> = transactions().into_iter().map(signed).collect();
    let permit = tg_types::UploadPermit {
        digest: tg_types::Digest::new([7; 32]),
        length: 9,
        expires: tg_types::TimestampMs::new(8),
    };
    let upload = tg_types::SignedUpload::new(permit, &wallet(), &domain());
    let heartbeat = tg_types::Heartbeat::new(permit.expires, &wallet(), &domain());
    compare(
        &[
            Subject::of("Transaction", &transactions()),
            Subject::of("SignedTransaction", &all),
            Subject::of("Fees", &[FEES]),
            Subject::of("ChainDomain", &[domain()]),
            Subject::of("Machine", &[machine()]),
            Subject::of("JobNeeds", &[needs()]),
            Subject::of("OfferTerms", &[terms()]),
            Subject::of("JobOrder", &[order()]),
            Subject::of("Receipt", &[receipt()]),
            Subject::of("SignedUpload", &[upload]),
            Subject::of("Heartbeat", &[heartbeat]),
            Subject::of("VerificationMode", &VerificationMode::ALL),
            Subject::of("Tier", &[Tier::Tgx1]),
        ],
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/verdicts.txt"),
    );
}

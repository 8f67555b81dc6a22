//! What the challenges depend on.

use crate::commitment::Challenger;
use crate::field::{E, F};
use crate::file::Statement;
use crate::oracle::ByteOracle;
use crate::parts::Parts;
use p3_challenger::{CanObserve, FieldChallenger};
use p3_symmetric::Hash;
use tg_types::codec::{Encode, Writer};
use tg_types::{Digest, ProgramId, domain::Domain};

/// Version of the format of inference proofs and of their verifier, absorbed first.
pub const PROTOCOL_VERSION: u16 = 4;
/// Version of the format of registration proofs and of their verifier, absorbed first.
pub const REGISTRATION_VERSION: u16 = 3;

/// Added to the versions of format and file of a proof in zero knowledge.
pub const ZK: u16 = 1 << 15;

/// Added to the version of the format of a proof that lacks weights or witness.
pub const PARTIAL: u16 = 1 << 8;
const _: () = assert!(PROTOCOL_VERSION < PARTIAL);

/// The challenger of an inference proof with certain parts, the statement absorbed. Where weights or witness are not
/// committed, how each is bound is absorbed in the place of its root.
#[must_use]
pub fn inference(program: ProgramId, statement: &Statement, parts: Parts) -> Challenger {
    let mut writer = Writer::new();
    let tags = parts.tags();
    let partial = if tags.is_some() { PARTIAL } else { 0 };
    writer.u16(PROTOCOL_VERSION | statement.flags() | partial);
    program.encode(&mut writer);
    statement.encode(&mut writer);
    if let Some(tags) = tags {
        writer.raw(&tags);
    }
    start(Domain::ProofTranscript, &writer.into_bytes())
}

/// The challenger of a registration proof, with the program absorbed.
#[must_use]
pub fn registration(program: ProgramId) -> Challenger {
    let mut writer = Writer::new();
    writer.u16(REGISTRATION_VERSION);
    program.encode(&mut writer);
    start(Domain::RegistrationTranscript, &writer.into_bytes())
}

/// The challenger of the registration of private weights for a number of proofs, with the program absorbed.
#[must_use]
pub fn private_registration(program: ProgramId, proofs: usize) -> Challenger {
    let mut writer = Writer::new();
    writer.u16(REGISTRATION_VERSION | ZK);
    program.encode(&mut writer);
    writer.u32(u32::try_from(proofs).unwrap_or(u32::MAX));
    start(Domain::RegistrationTranscript, &writer.into_bytes())
}

fn start(domain: Domain, statement: &[u8]) -> Challenger {
    let mut challenger = Challenger::new(ByteOracle::new(domain.as_str().as_bytes().to_vec()));
    let digest = Digest::of(domain, statement);
    challenger.observe(Hash::<F, u8, 32>::from(*digest.as_bytes()));
    challenger
}

/// Absorbs extension values.
pub fn absorb(challenger: &mut Challenger, values: &[E]) {
    values
        .iter()
        .for_each(|&value| challenger.observe_algebra_element(value));
}

/// Draws one challenge.
pub fn draw(challenger: &mut Challenger) -> E {
    challenger.sample_algebra_element()
}

/// Draws a point.
pub fn draw_point(challenger: &mut Challenger, vars: usize) -> Vec<E> {
    (0..vars).map(|_| draw(challenger)).collect()
}

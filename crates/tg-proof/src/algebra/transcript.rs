//! What the challenges depend on.

use crate::algebra::field::{E, F};
use crate::algebra::oracle::ByteOracle;
use p3_challenger::{CanObserve, FieldChallenger, SerializingChallenger32};
use p3_symmetric::Hash;
use tg_types::codec::{Encode, Writer};
use tg_types::{Digest, ProgramId, domain::Domain};

/// The random oracle of a proof.
pub type Challenger = SerializingChallenger32<F, ByteOracle>;

/// Version of the format of inference proofs and of their verifier, absorbed first.
pub const PROTOCOL_VERSION: u16 = 4;
/// Version of the format of registration proofs and of their verifier, absorbed first.
pub const REGISTRATION_VERSION: u16 = 3;

/// Added to the versions of format and file of a proof in zero knowledge.
pub const ZK: u16 = 1 << 15;

/// Added to the version of the format of a proof that lacks weights or witness.
pub const PARTIAL: u16 = 1 << 8;
const _: () = assert!(PROTOCOL_VERSION < PARTIAL);

/// The challenger of an inference proof, the digest of its statement absorbed.
#[must_use]
pub fn inference(statement: Digest) -> Challenger {
    start(Domain::ProofTranscript, statement)
}

/// The challenger of a registration proof, with the program absorbed.
#[must_use]
pub fn registration(program: ProgramId) -> Challenger {
    let mut writer = Writer::new();
    writer.u16(REGISTRATION_VERSION);
    program.encode(&mut writer);
    let domain = Domain::RegistrationTranscript;
    start(domain, Digest::of(domain, &writer.into_bytes()))
}

/// The challenger of the registration of private weights for a number of proofs, with the program absorbed.
#[must_use]
pub fn private_registration(program: ProgramId, proofs: usize) -> Challenger {
    let mut writer = Writer::new();
    writer.u16(REGISTRATION_VERSION | ZK);
    program.encode(&mut writer);
    writer.u32(u32::try_from(proofs).unwrap_or(u32::MAX));
    let domain = Domain::RegistrationTranscript;
    start(domain, Digest::of(domain, &writer.into_bytes()))
}

fn start(domain: Domain, statement: Digest) -> Challenger {
    let mut challenger = Challenger::new(ByteOracle::new(domain.as_str().as_bytes().to_vec()));
    challenger.observe(Hash::<F, u8, 32>::from(*statement.as_bytes()));
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

//! Certificates that contradict each other: what a client keeps of them, how they are written, and whom they convict.
//!
//! In a file each stands on a line of its own: `notarization`, `nullification` or `finalization`, a space, and its bytes in hexadecimal
//! digits, encoded as [`VoteCertificate`] says. Empty lines, and those that begin with `#`, are skipped. The
//! certificates convict by themselves, so nobody who gives or sends them is believed.

use std::collections::{BTreeMap, VecDeque};

use tg_types::chain::{
    AnswerError, Equivocation, FinalAnswer, FinalityError, TrustRoot, VoteCertificate, VoteKind,
};
use tg_types::digest::hex;

use crate::shown::ShownError;

/// Most certificates in files that are compared: each is compared with each.
pub const EVIDENCE_MAX: usize = 64;

/// Certificates of answers that a client keeps to compare later ones with: those of the last minute or so, of 64 KiB each at most.
const SEEN_MAX: usize = 64;

/// A certificate with its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateEvidence {
    bytes: Vec<u8>,
    certificate: VoteCertificate,
}

/// Why a text is no evidence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateFileError {
    /// A line is not a kind and hexadecimal digits.
    #[error(
        "line {line} is not notarization, nullification or finalization, a space, and hexadecimal digits"
    )]
    Line {
        /// Which, from 1 on.
        line: usize,
    },
    /// The bytes are no certificate of the kind.
    #[error("line {line} is no certificate of its kind")]
    Certificate {
        /// Which, from 1 on.
        line: usize,
        /// What is wrong.
        #[source]
        source: FinalityError,
    },
    /// There are too many.
    #[error("there are more than {max} certificates", max = EVIDENCE_MAX)]
    TooMany,
}

impl CertificateEvidence {
    /// A certificate of a kind.
    ///
    /// # Errors
    /// [`FinalityError::Malformed`] if the bytes are none.
    pub fn new(kind: VoteKind, bytes: Vec<u8>) -> Result<Self, FinalityError> {
        let certificate = VoteCertificate::read(kind, &bytes)?;
        Ok(Self { bytes, certificate })
    }

    /// The certificate.
    #[must_use]
    pub const fn certificate(&self) -> &VoteCertificate {
        &self.certificate
    }

    /// Its line in a file.
    #[must_use]
    pub fn to_line(&self) -> String {
        let word = match self.certificate.kind() {
            VoteKind::Notarize => "notarization",
            VoteKind::Nullify => "nullification",
            VoteKind::Finalize => "finalization",
        };
        format!("{word} {}", hex(&self.bytes))
    }
}

/// The certificates of a file.
///
/// # Errors
/// [`CertificateFileError`] if a line is none, or there are more than [`EVIDENCE_MAX`].
pub fn read_evidence(text: &str) -> Result<Vec<CertificateEvidence>, CertificateFileError> {
    let mut found = Vec::new();
    for (place, text) in text.lines().enumerate() {
        let (line, text) = (place + 1, text.trim());
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let (word, digits) = text
            .split_once(' ')
            .ok_or(CertificateFileError::Line { line })?;
        let kind = match word {
            "notarization" => VoteKind::Notarize,
            "nullification" => VoteKind::Nullify,
            "finalization" => VoteKind::Finalize,
            _ => return Err(CertificateFileError::Line { line }),
        };
        let bytes = bytes_of(digits).ok_or(CertificateFileError::Line { line })?;
        let certificate = CertificateEvidence::new(kind, bytes)
            .map_err(|source| CertificateFileError::Certificate { line, source })?;
        if found.len() == EVIDENCE_MAX {
            return Err(CertificateFileError::TooMany);
        }
        found.push(certificate);
    }
    Ok(found)
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let value = |digit: u8| char::from(digit).to_digit(16);
    digits
        .chunks(2)
        .map(|pair| u8::try_from(16 * value(pair[0])? + value(pair[1])?).ok())
        .collect()
}

/// What convicts each seat that certificates of these sets of seats convict: one for each, as a stake is taken once.
#[must_use]
pub fn equivocations(evidence: &[CertificateEvidence], sets: &[TrustRoot]) -> Vec<Equivocation> {
    let mut found = BTreeMap::new();
    for (place, first) in evidence.iter().enumerate() {
        for second in &evidence[place + 1..] {
            for set in sets {
                let proofs = set.equivocations(&first.certificate, &second.certificate);
                for proof in proofs {
                    found.entry(proof.seat).or_insert(proof);
                }
            }
        }
    }
    found.into_values().collect()
}

/// The certificates of the last answers, and those that contradict each other.
#[derive(Debug, Clone, Default)]
pub(crate) struct SeenCertificates {
    seen: VecDeque<CertificateEvidence>,
    evidence: Vec<CertificateEvidence>,
}

impl SeenCertificates {
    /// Notes the certificate of an answer, of which `shown` is what it showed by the seats of `root`.
    pub(crate) fn note(
        &mut self,
        root: &TrustRoot,
        certificate: &[u8],
        shown: &Result<FinalAnswer, ShownError>,
    ) {
        let is_fork = matches!(shown, Err(ShownError::NotShown(AnswerError::Fork { .. })));
        let is_known = self.seen.iter().any(|it| it.bytes == certificate);
        if is_known || (shown.is_err() && !is_fork) {
            return;
        }
        // Stops: bytes that no quorum signed in the place of a certificate: of a block that is known by its id none is looked at.
        if root.check(certificate).is_err() {
            return;
        }
        let Ok(new) = CertificateEvidence::new(VoteKind::Finalize, certificate.to_vec()) else {
            return;
        };
        let against = self.seen.iter();
        let against = against.filter(|it| it.certificate.contradicts(&new.certificate));
        let against: Vec<CertificateEvidence> = against.cloned().collect();
        // Of a fork one side may be known by its id alone: whoever has its certificate convicts with this one.
        if is_fork || !against.is_empty() {
            for it in against.into_iter().chain([new.clone()]) {
                if self.evidence.len() < EVIDENCE_MAX && !self.evidence.contains(&it) {
                    self.evidence.push(it);
                }
            }
        }
        if self.seen.len() == SEEN_MAX {
            self.seen.pop_front();
        }
        self.seen.push_back(new);
    }

    /// Certificates that contradict each other, or a block that was known to be final.
    pub(crate) fn evidence(&self) -> &[CertificateEvidence] {
        &self.evidence
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use tg_types::BlockId;

    use super::*;

    /// A certificate of one seat, whose signature nobody made.
    fn certificate(kind: VoteKind) -> Vec<u8> {
        let proposal = match kind {
            VoteKind::Nullify => Vec::new(),
            VoteKind::Notarize | VoteKind::Finalize => [&[8][..], &[3; 32]].concat(),
        };
        let (seats, signature) = (1u64.to_be_bytes(), [5; 64]);
        [&[1, 9][..], &proposal, &seats, &[1, 1], &signature].concat()
    }

    #[test]
    fn evidence_is_read_as_it_is_written() {
        let kinds = [VoteKind::Notarize, VoteKind::Nullify, VoteKind::Finalize];
        let written = kinds.map(|kind| CertificateEvidence::new(kind, certificate(kind)).unwrap());
        let lines: Vec<String> = written.iter().map(CertificateEvidence::to_line).collect();
        let text = format!("# found\n\n{}\n", lines.join("\n"));
        assert_eq!(read_evidence(&text).unwrap(), written);
        let line = CertificateFileError::Line { line: 2 };
        for wrong in [
            "\nvotes 00",
            "\nfinalization",
            "\nfinalization 0",
            "\nfinalization 0g",
        ] {
            assert_eq!(read_evidence(wrong), Err(line.clone()), "{wrong}");
        }
        assert!(matches!(
            read_evidence("finalization 00"),
            Err(CertificateFileError::Certificate { line: 1, .. })
        ));
        let many = format!("{}\n", lines[0]).repeat(EVIDENCE_MAX + 1);
        assert_eq!(read_evidence(&many), Err(CertificateFileError::TooMany));
    }

    #[test]
    fn what_nobody_signed_convicts_nobody_and_is_not_kept() {
        let root = TrustRoot::new(BlockId::new([9; 32]), vec![[1; 32]]).unwrap();
        let kinds = [VoteKind::Nullify, VoteKind::Finalize];
        let pair = kinds.map(|kind| CertificateEvidence::new(kind, certificate(kind)).unwrap());
        assert!(pair[0].certificate().contradicts(pair[1].certificate()));
        assert!(equivocations(&pair, std::slice::from_ref(&root)).is_empty());
        let mut seen = SeenCertificates::default();
        let fork = Err(ShownError::NotShown(AnswerError::Fork {
            height: 1,
            known: BlockId::new([1; 32]),
            got: BlockId::new([2; 32]),
        }));
        seen.note(&root, &certificate(VoteKind::Finalize), &fork);
        assert!(seen.evidence().is_empty());
    }
}

//! What a list of logs makes: the same key for every validator.

/// Why a list of logs makes no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DealingsError {
    /// No round has such participants: none, too many, one twice, or bytes that are no key.
    #[error("no round has these participants")]
    Participants,
    /// Fewer than n - f logs are usable.
    #[error("{found} of {required} dealings are usable")]
    Insufficient {
        /// Usable logs of distinct dealers.
        found: u32,
        /// How many a key takes.
        required: u32,
    },
}

/// Why one log is not usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DealingError {
    /// No round has such participants: none, too many, one twice, or bytes that are no key.
    #[error("no round has these participants")]
    Participants,
    /// The bytes are no log.
    #[error("the bytes are no log of a dealing")]
    Malformed,
    /// The signature is not that of a participant over the log in this round.
    #[error("no participant signed this log in this round")]
    Signature,
    /// A polynomial of another degree, an acknowledgement or a share that is wrong, or shares of more than f players.
    #[error("the log shows a faulty dealing")]
    Faulty,
}

/// The key that logs of a round make.
///
/// # Errors
/// [`DealingsError`].
pub fn key_of_dealings(
    network: &[u8; 32],
    round: u64,
    participants: &[[u8; 32]],
    dealings: &[Vec<u8>],
) -> Result<[u8; 96], DealingsError> {
    let _ = (network, round, participants, dealings);
    unimplemented!()
}

/// Whether one log is usable, and whose it is.
///
/// # Errors
/// [`DealingError`].
pub fn check_dealing(
    network: &[u8; 32],
    round: u64,
    participants: &[[u8; 32]],
    dealing: &[u8],
) -> Result<[u8; 32], DealingError> {
    let _ = (network, round, participants, dealing);
    unimplemented!()
}

//! Secret keys in files: 64 hexadecimal digits, or the same under a passphrase.
//!
//! A file under a passphrase is one line, `tensorgrid-key-1 ROUNDS SALT SECRET TAG` with numbers of bytes in hexadecimal
//! digits. PBKDF2 with HMAC-SHA-512 (RFC 8018, section 5.2) makes 64 bytes of the passphrase and the salt, which is
//! drawn for each file and so makes them new: 32 that are added to the secret, and 32 that key the tag, HMAC-SHA-512 of all
//! that comes before it, cut to 32 bytes. What a thief of the file must do for every guess is `ROUNDS` rounds; it
//! needs little memory, so a short passphrase is found.

use std::path::{Path, PathBuf};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha512;
use tg_types::digest::hex;
use tg_types::{Digest, Wallet};

use crate::files;
use crate::outcome::{Exit, Failure, OrFail};

/// What a file under a passphrase begins with.
const FORMAT: &str = "tensorgrid-key-1";

/// Rounds for new files.
const ROUNDS: u32 = 220_000;

/// Most rounds that a file may ask for: some seconds.
const ROUNDS_MAX: u32 = 10_000_000;

/// Most bytes of a file with a key or a passphrase.
const FILE_BYTES_MAX: u64 = 4_096;

/// Fewest bytes of a passphrase.
const PASSPHRASE_BYTES_MIN: usize = 8;

/// What keys are locked with. It is not shown.
#[expect(missing_debug_implementations, reason = "it is not shown")]
pub struct Passphrase(Vec<u8>);

impl Passphrase {
    /// The first line of a file.
    ///
    /// # Errors
    /// If the file cannot be read, or its first line is too short.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let bytes = files::read(path, FILE_BYTES_MAX)?;
        let end = bytes.iter().position(|byte| b"\r\n".contains(byte));
        let line = bytes[..end.unwrap_or(bytes.len())].to_vec();
        if line.len() < PASSPHRASE_BYTES_MIN {
            let text = format!(
                "the passphrase in {} has fewer than {PASSPHRASE_BYTES_MIN} bytes",
                path.display()
            );
            return Err(usage(text));
        }
        Ok(Self(line))
    }

    /// The passphrase of a file, if one is named.
    ///
    /// # Errors
    /// Those of [`Passphrase::read`].
    pub fn read_optional(path: Option<&PathBuf>) -> Result<Option<Self>, Failure> {
        path.map(|path| Self::read(path)).transpose()
    }
}

fn usage(text: String) -> Failure {
    Failure::new(Exit::Usage, anyhow::anyhow!(text))
}

/// 32 bytes from the operating system.
///
/// # Errors
/// If the operating system gives none.
pub fn draw() -> Result<[u8; 32], Failure> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("draw a key: {error}"))?;
    Ok(bytes)
}

/// A fresh wallet.
///
/// # Errors
/// Those of [`draw`].
pub fn draw_wallet() -> Result<Wallet, Failure> {
    let wallet = Wallet::from_secret(&draw()?);
    Ok(wallet.map_err(|_| anyhow::anyhow!("draw a key"))?)
}

/// Writes a secret to a file that only this user can read; a file that exists is left.
///
/// # Errors
/// If the file exists or cannot be written.
pub fn write(
    path: &Path,
    secret: &[u8; 32],
    passphrase: Option<&Passphrase>,
) -> Result<(), Failure> {
    files::write_secret(path, &line_of(secret, passphrase)?)
}

/// Writes a secret in the place of a key file, whole or not at all: whoever reads it meanwhile has the file of before.
///
/// # Errors
/// If there is no such file, or it cannot be written.
pub fn replace(
    path: &Path,
    secret: &[u8; 32],
    passphrase: Option<&Passphrase>,
) -> Result<(), Failure> {
    let text = line_of(secret, passphrase)?;
    // Of a link the file that it names is replaced, and not the link.
    let path = std::fs::canonicalize(path).or_fail(Exit::Usage, "find the key file")?;
    files::write_private(&path, format!("{text}\n").as_bytes())
}

/// What a key file holds.
fn line_of(secret: &[u8; 32], passphrase: Option<&Passphrase>) -> Result<String, Failure> {
    Ok(match passphrase {
        Some(passphrase) => locked(secret, passphrase, &draw()?, ROUNDS),
        None => hex(secret),
    })
}

/// Reads a secret.
///
/// # Errors
/// If the file cannot be read, is no key file, or the passphrase is missing or wrong.
pub fn read(path: &Path, passphrase: Option<&Passphrase>) -> Result<[u8; 32], Failure> {
    let wrong = || {
        usage(format!("{} is not a key file", path.display())).hint(
            "a key file holds 64 hexadecimal digits, or a key under a passphrase; `tensorgrid provider` and `tensorgrid \
             network new` make them",
        )
    };
    let doing = format!("read the key {}", path.display());
    let bytes = std::fs::File::open(path).and_then(|file| {
        use std::io::Read as _;
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
        Ok(text)
    });
    let text = bytes.or_fail(Exit::Usage, doing)?;
    let text = text.trim();
    if !text.starts_with(FORMAT) {
        return number(text).ok_or_else(wrong);
    }
    let locked = Locked::parse(text).ok_or_else(wrong)?;
    let Some(passphrase) = passphrase else {
        let text = format!("{} is under a passphrase", path.display());
        return Err(usage(text).hint("--passphrase-file FILE names the file that holds it"));
    };
    locked.open(passphrase).ok_or_else(|| {
        usage(format!(
            "the passphrase is not that of {}, or the file is damaged",
            path.display()
        ))
    })
}

/// Whether a key file is under a passphrase.
pub fn is_locked(path: &Path) -> bool {
    files::read(path, FILE_BYTES_MAX).is_ok_and(|bytes| bytes.starts_with(FORMAT.as_bytes()))
}

/// Reads the key of an account.
///
/// # Errors
/// Those of [`read`]; if the secret is no key of an account.
pub fn read_wallet(path: &Path, passphrase: Option<&Passphrase>) -> Result<Wallet, Failure> {
    let wallet = Wallet::from_secret(&read(path, passphrase)?);
    wallet.map_err(|_| usage(format!("{} holds no key of an account", path.display())))
}

fn number(text: &str) -> Option<[u8; 32]> {
    Digest::from_hex(text).map(|digest| *digest.as_bytes())
}

/// A secret under a passphrase.
struct Locked<'a> {
    rounds: u32,
    salt: [u8; 32],
    secret: [u8; 32],
    tag: [u8; 32],
    /// All that comes before the tag.
    head: &'a str,
}

impl<'a> Locked<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (head, tag) = text.rsplit_once(' ')?;
        let mut parts = head.split(' ');
        let format = parts.next()?;
        let rounds = parts.next()?.parse().ok()?;
        let locked = Self {
            rounds,
            salt: number(parts.next()?)?,
            secret: number(parts.next()?)?,
            tag: number(tag)?,
            head,
        };
        let is_right = format == FORMAT && (1..=ROUNDS_MAX).contains(&rounds);
        (is_right && parts.next().is_none()).then_some(locked)
    }

    fn open(&self, passphrase: &Passphrase) -> Option<[u8; 32]> {
        let (pad, key) = stretched(passphrase, &self.salt, self.rounds);
        mac(&key)
            .chain_update(self.head)
            .verify_truncated_left(&self.tag)
            .ok()?;
        Some(added(&self.secret, &pad))
    }
}

/// A secret under a passphrase, as a line.
fn locked(secret: &[u8; 32], passphrase: &Passphrase, salt: &[u8; 32], rounds: u32) -> String {
    let (pad, key) = stretched(passphrase, salt, rounds);
    let secret = hex(&added(secret, &pad));
    let head = format!("{FORMAT} {rounds} {} {secret}", hex(salt));
    let tag = mac(&key).chain_update(&head).finalize().into_bytes();
    let mut short = [0; 32];
    short.copy_from_slice(&tag[..32]);
    format!("{head} {}", hex(&short))
}

fn added(one: &[u8; 32], other: &[u8; 32]) -> [u8; 32] {
    std::array::from_fn(|index| one[index] ^ other[index])
}

fn mac(key: &[u8]) -> Hmac<Sha512> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}

/// What is added to the secret, and the key of the tag.
fn stretched(passphrase: &Passphrase, salt: &[u8], rounds: u32) -> ([u8; 32], [u8; 32]) {
    let bytes = pbkdf2(&passphrase.0, salt, rounds);
    let (mut pad, mut key) = ([0; 32], [0; 32]);
    pad.copy_from_slice(&bytes[..32]);
    key.copy_from_slice(&bytes[32..]);
    (pad, key)
}

/// The first block of PBKDF2 with HMAC-SHA-512: RFC 8018, section 5.2, with dkLen = hLen.
fn pbkdf2(password: &[u8], salt: &[u8], rounds: u32) -> [u8; 64] {
    let keyed = mac(password);
    let first = keyed.clone().chain_update(salt).chain_update([0, 0, 0, 1]);
    let mut last: [u8; 64] = first.finalize().into_bytes().into();
    let mut sum = last;
    for _ in 1..rounds {
        last = keyed
            .clone()
            .chain_update(last)
            .finalize()
            .into_bytes()
            .into();
        for (sum, byte) in sum.iter_mut().zip(&last) {
            *sum ^= byte;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// From Python's `hashlib.pbkdf2_hmac("sha512", ..)`; the first two are the vectors that RFC 6070 has for SHA-1.
    #[test]
    fn passphrases_are_stretched_as_others_do() {
        for (password, salt, rounds, expected) in VECTORS {
            let hex: String = pbkdf2(password, salt, rounds)
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            assert_eq!(hex, expected);
        }
    }

    #[test]
    fn a_key_under_a_passphrase_opens_with_it_alone_and_with_no_bit_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let right = Passphrase(b"correct horse".to_vec());
        let secret = [7; 32];
        let line = locked(&secret, &right, &[9; 32], 10);
        std::fs::write(&path, &line).unwrap();
        assert_eq!(read(&path, Some(&right)).unwrap(), secret);
        assert!(!line.contains(&"07".repeat(32)));
        let told = |passphrase: Option<&Passphrase>| {
            let failure = read(&path, passphrase).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage);
            format!("{:#}", failure.error)
        };
        assert!(told(None).contains("under a passphrase"));
        let wrong = Passphrase(b"correct house".to_vec());
        assert!(told(Some(&wrong)).contains("not that of"));
        for place in FORMAT.len() + 1..line.len() {
            let mut bytes = line.clone().into_bytes();
            bytes[place] = if bytes[place] == b'1' { b'2' } else { b'1' };
            std::fs::write(&path, &bytes).unwrap();
            assert!(read(&path, Some(&right)).is_err(), "byte {place}");
        }
        for text in ["", "12", FORMAT, &format!("{line} 00"), &"0".repeat(63)] {
            std::fs::write(&path, text).unwrap();
            assert!(told(Some(&right)).contains("is not a key file"), "{text}");
        }
    }

    #[test]
    fn a_file_that_exists_is_left_and_others_cannot_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        write(&path, &[3; 32], None).unwrap();
        assert!(write(&path, &[4; 32], None).is_err());
        assert_eq!(read(&path, None).unwrap(), [3; 32]);
        #[cfg(unix)]
        {
            let mode = std::os::unix::fs::PermissionsExt::mode(
                &std::fs::metadata(&path).unwrap().permissions(),
            );
            assert_eq!(mode & 0o777, 0o600);
        }
        std::fs::write(folder.path().join("short"), "seven77\n").unwrap();
        assert!(Passphrase::read(&folder.path().join("short")).is_err());
    }

    /// Password, salt, rounds and the 64 bytes.
    type Vector = (&'static [u8], &'static [u8], u32, &'static str);

    const VECTORS: [Vector; 3] = [
        (b"password", b"salt", 1, "867f70cf1ade02cff3752599a3a53dc4af34c7a669815ae5d513554e1c8cf252c02d470a285a0501bad999bfe943c08f050235d7d68b1da55e63f73b60a57fce"),
        (b"password", b"salt", 4096, "d197b1b33db0143e018b12f3d1d1479e6cdebdcc97c5c0f87f6902e072f457b5143f30602641b3d55cd335988cb36b84376060ecd532e039b742a239434af2d5"),
        (b"passwordPASSWORDpasswordpasswordPASSWORDpasswordpasswordPASSWORDpasswordpasswordPASSWORDpasswordpasswordPASSWORDpasswordpasswordPASSWORDpassword", b"saltSALTsaltSALTsaltSALTsaltSALTsalt", 3, "47b733463c4cfb7e9eb06f0f72a09ebbc6d0cb51156124e33776c2fe70f8e5fec0516846a5e110222be213f9382f6ffe24e72285ad1be0aa29dfd11df6308d9c"),
    ];
}

//! What decoders say of damaged encodings, as one digest for each type.
//!
//! A decoder that accepts other bytes than before, or refuses them for another reason, changes the digest.

use std::fmt::Write as _;

use tg_types::{Decode, DecodeError, Digest, Encode, keccak256};

/// A type: its name, encodings of some values, and what reading gives: the encoding of what was read.
pub(crate) struct Subject {
    name: &'static str,
    samples: Vec<Vec<u8>>,
    /// How many damages of others one of these takes.
    share: usize,
    read: fn(&[u8]) -> Result<Vec<u8>, DecodeError>,
}

impl Subject {
    /// A type with some of its values.
    pub(crate) fn of<T: Encode + Decode>(name: &'static str, values: &[T]) -> Self {
        Self {
            name,
            samples: values.iter().map(Encode::to_bytes).collect(),
            share: 1,
            read: |bytes| T::from_bytes(bytes).map(|value| value.to_bytes()),
        }
    }
}

impl Subject {
    /// One damage where others have so many: a type that takes long to read.
    #[allow(
        dead_code,
        reason = "of two crates that include this file, one has such a type"
    )]
    pub(crate) const fn one_in(mut self, share: usize) -> Self {
        self.share = share;
        self
    }
}

/// Numbers that follow from a seed (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap()
    }
}

/// One to three damages: a bit, a byte of a small or the largest value, an end cut off, bytes added, moved or left out.
fn damage(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    for _ in 0..=numbers.below(3) {
        let at = numbers.below(bytes.len());
        match (numbers.below(8), bytes.is_empty()) {
            (0, false) => bytes[at] ^= 1 << numbers.below(8),
            (1 | 2, false) => bytes[at] = numbers.below(10) as u8,
            (3, false) => bytes[at] = 255 - numbers.below(2) as u8,
            (4, false) => bytes.truncate(at),
            (5, false) => drop(bytes.remove(at)),
            (6, false) => bytes.insert(at, numbers.below(4) as u8),
            _ => bytes.push(numbers.below(256) as u8),
        }
    }
}

/// A line for each type: how many of so many damaged encodings were read, and the digest of all verdicts.
pub(crate) fn verdicts(subjects: &[Subject], count: usize) -> String {
    let mut text = format!(
        "# {count} damaged encodings for each type, drawn from a seed: those read, and all verdicts.\n"
    );
    for Subject {
        name,
        samples,
        share,
        read,
    } in subjects
    {
        let mut numbers = Numbers(0x7467);
        let (mut all, mut said, mut accepted) = ([0; 32], Vec::new(), 0);
        for _ in 0..count / share {
            let mut bytes = samples[numbers.below(samples.len())].clone();
            damage(&mut bytes, &mut numbers);
            match read(&bytes) {
                Ok(again) => {
                    assert_eq!(again, bytes, "{name}: one value has one encoding");
                    accepted += 1;
                    said.push(1);
                }
                Err(error) => said.extend(format!("{error:?};").into_bytes()),
            }
            if said.len() >= 4_096 {
                all = keccak256(&[&all[..], &said].concat());
                said.clear();
            }
        }
        all = keccak256(&[&all[..], &said].concat());
        writeln!(text, "{name} = {accepted} {}", Digest::new(all)).unwrap();
    }
    text
}

/// Compares with a committed file; `TENSORGRID_REGENERATE` writes it. `TENSORGRID_MUTATIONS` damages so many encodings and
/// prints what came of it instead.
#[expect(clippy::print_stdout, reason = "what a developer asked for")]
pub(crate) fn compare(subjects: &[Subject], path: &str) {
    if let Some(count) = std::env::var_os("TENSORGRID_MUTATIONS") {
        let count = count.to_str().and_then(|count| count.parse().ok()).unwrap();
        println!("{}", verdicts(subjects, count));
        return;
    }
    let found = verdicts(subjects, 2_000);
    if std::env::var_os("TENSORGRID_REGENERATE").is_some() {
        std::fs::write(path, &found).unwrap();
    }
    assert_eq!(found, std::fs::read_to_string(path).unwrap());
}

//! What a proof shows of the tensors that it is about.

use tg_ir::signature::PORTS_MAX;
use tg_types::codec::{DecodeError, Reader, Writer};

/// What a statement says of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Visibility {
    /// Its bytes are in the file; the statement has their digest.
    Public,
    /// Its commitment is in the file ([`crate::argument::ajtai`]); the statement has the commitment's digest.
    Committed,
    /// Nothing: the proof is about some such tensor.
    Hidden,
    /// Another of these for each input of the program's file, or for each of its outputs; the statement has the digest of what
    /// the file has of each, one after the other.
    Each(PartModes),
}

/// One of [`Visibility::Public`], [`Visibility::Committed`] and [`Visibility::Hidden`] for each of 2 to 16 inputs or outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartModes {
    count: u8,
    /// Two bits each, the first lowest.
    bits: u32,
}

const _: () = assert!(2 * PORTS_MAX <= u32::BITS as usize);

impl PartModes {
    /// A list; nothing if it has another length than 2 to 16, lists within it, or modes that are all public or all hidden, of
    /// which one word is said.
    #[must_use]
    pub fn new(modes: &[Visibility]) -> Option<Self> {
        let plain = |mode: &Visibility| !matches!(mode, Visibility::Each(_));
        let fits = (2..=PORTS_MAX).contains(&modes.len()) && modes.iter().all(plain);
        let all = |one: Visibility| modes.iter().all(|&mode| mode == one);
        if !fits || all(Visibility::Public) || all(Visibility::Hidden) {
            return None;
        }
        let bits = modes.iter().enumerate();
        let bits = bits.map(|(index, mode)| u32::from(mode.bits()) << (2 * index));
        Some(Self {
            count: u8::try_from(modes.len()).ok()?,
            bits: bits.sum(),
        })
    }

    /// How many there are.
    #[must_use]
    pub const fn count(self) -> usize {
        self.count as usize
    }

    /// The mode of each.
    pub fn iter(self) -> impl Iterator<Item = Visibility> {
        (0..self.count()).map(move |index| match self.bits >> (2 * index) & 3 {
            0 => Visibility::Public,
            1 => Visibility::Committed,
            _ => Visibility::Hidden,
        })
    }

    fn encode(self, writer: &mut Writer) {
        writer.u8(self.count);
        self.iter().for_each(|mode| writer.u8(mode.bits() as u8));
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let refused = |value: u8| DecodeError::Invalid {
            field: "modes",
            value: u64::from(value),
        };
        let count = reader.u8()?;
        let mut modes = Vec::new();
        for _ in 0..usize::from(count).min(PORTS_MAX + 1) {
            modes.push(match reader.u8()? {
                0 => Visibility::Public,
                1 => Visibility::Committed,
                2 => Visibility::Hidden,
                other => return Err(refused(other)),
            });
        }
        Self::new(&modes).ok_or_else(|| refused(count))
    }
}

impl Visibility {
    /// Two bits.
    const fn bits(self) -> u16 {
        match self {
            Self::Public => 0,
            Self::Committed => 1,
            Self::Hidden => 2,
            Self::Each(_) => 3,
        }
    }

    /// The modes of so many parts.
    #[must_use]
    pub fn of_parts(self, count: usize) -> Vec<Self> {
        match self {
            Self::Each(modes) => modes.iter().collect(),
            mode => vec![mode; count],
        }
    }
}

/// What a statement says of input and output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modes {
    /// Of the inputs.
    pub input: Visibility,
    /// Of the outputs.
    pub output: Visibility,
}

impl Modes {
    /// Both public: the only modes of a proof in the clear.
    pub const PUBLIC: Self = Self {
        input: Visibility::Public,
        output: Visibility::Public,
    };
    /// Outputs of hidden inputs.
    pub const HIDDEN_INPUT: Self = Self {
        input: Visibility::Hidden,
        output: Visibility::Public,
    };

    /// Two bits each within the version of a format.
    pub(crate) const fn bits(self) -> u16 {
        self.input.bits() << 12 | self.output.bits() << 10
    }

    /// The lists that the bits announce.
    pub(crate) fn encode_lists(self, writer: &mut Writer) {
        for mode in [self.input, self.output] {
            if let Visibility::Each(modes) = mode {
                modes.encode(writer);
            }
        }
    }

    /// The modes within a version, of which lists follow.
    pub(crate) fn decode(version: u16, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut mode = |bits: u16| match bits & 3 {
            0 => Ok(Visibility::Public),
            1 => Ok(Visibility::Committed),
            2 => Ok(Visibility::Hidden),
            _ => PartModes::decode(reader).map(Visibility::Each),
        };
        Ok(Self {
            input: mode(version >> 12)?,
            output: mode(version >> 10)?,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// Every mode of a tensor of up to so many parts.
    fn all(most: u32) -> Vec<Visibility> {
        let plain = [
            Visibility::Public,
            Visibility::Committed,
            Visibility::Hidden,
        ];
        let mut all = plain.to_vec();
        for count in 2..=most {
            for number in 0..3usize.pow(count) {
                let of = |place: u32| plain[number / 3usize.pow(place) % 3];
                let modes: Vec<Visibility> = (0..count).map(of).collect();
                all.extend(PartModes::new(&modes).map(Visibility::Each));
            }
        }
        all
    }

    fn encoded(modes: Modes) -> (u16, Vec<u8>) {
        let mut writer = Writer::new();
        modes.encode_lists(&mut writer);
        (modes.bits(), writer.into_bytes())
    }

    /// No two pairs of modes have one encoding, and none is the beginning of another with the same bits: what stands after
    /// the lists in a transcript is not read as a part of them.
    #[test]
    fn every_pair_of_modes_has_an_encoding_of_its_own() {
        let sides = all(3);
        assert_eq!(sides.len(), 3 + 7 + 25);
        let mut known: Vec<(u16, Vec<u8>)> = Vec::new();
        for &input in &sides {
            for &output in &sides {
                let modes = Modes { input, output };
                let (bits, bytes) = encoded(modes);
                let mut reader = Reader::new(&bytes);
                assert_eq!(Modes::decode(bits, &mut reader), Ok(modes));
                assert_eq!(reader.finish(), Ok(()));
                known.push((bits, bytes));
            }
        }
        known.sort();
        let pairs = known.windows(2);
        for pair in pairs {
            let [(one, first), (other, second)] = [&pair[0], &pair[1]];
            // Sorted, a beginning stands right before what it begins.
            assert!(one != other || !second.starts_with(first), "{pair:?}");
        }
    }

    /// Bits without a list, a list without bits, and lists that are none.
    #[test]
    fn lists_that_are_none_are_refused() {
        let list = 0b11 << 12;
        let read = |bits: u16, bytes: &[u8]| {
            let mut reader = Reader::new(bytes);
            let modes = Modes::decode(bits, &mut reader)?;
            reader.finish().map(|()| modes)
        };
        assert!(read(list, &[2, 0, 2]).is_ok());
        assert!(read(0, &[2, 0, 2]).is_err());
        for bytes in [
            &[][..],
            &[0],
            &[1, 1],
            &[2, 0],
            &[2, 0, 0],
            &[2, 2, 2],
            &[2, 0, 3],
            &[3, 0, 2],
            &[17, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
            &[255; 256],
        ] {
            assert!(read(list, bytes).is_err(), "{bytes:?}");
        }
        let sixteen: Vec<u8> = [16].into_iter().chain([1; 16]).collect();
        assert!(read(list, &sixteen).is_ok());
    }
}

//! The handwritten digits that the shipped models were trained and tested on (`models/digits/README.md`).

/// Rows and columns of a digit.
const SIDE: usize = 8;
/// Bytes of one digit in the file: its grey levels, its label, whether it is unseen.
const ROW: usize = SIDE * SIDE + 2;
/// Most digits of a file.
const DIGITS_MAX: usize = 1 << 16;
/// Greatest grey level.
const LEVEL_MAX: u8 = 16;

/// One handwritten digit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digit {
    /// Grey levels 0 to 16, row by row.
    pub levels: [u8; SIDE * SIDE],
    /// What was written, 0 to 9.
    pub label: u8,
    /// Whether the shipped models never saw it.
    pub unseen: bool,
}

/// Why a digits file is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DigitsError {
    /// Not a digits file of 8x8 images, or of another length than it states.
    #[error("the digits file is not a TGDIGITS file of 8x8 images of the length it states")]
    Format,
    /// A level, label or mark out of its range.
    #[error("digit {index} has the {what} {value}")]
    Value {
        /// Which digit.
        index: usize,
        /// Level, label or mark.
        what: &'static str,
        /// Its value.
        value: u8,
    },
}

/// Reads a digits file.
///
/// # Errors
/// If the format or a value is wrong.
pub fn read(bytes: &[u8]) -> Result<Vec<Digit>, DigitsError> {
    let rest = bytes.strip_prefix(b"TGDIGITS").ok_or(DigitsError::Format)?;
    let (count, rest) = rest.split_first_chunk().ok_or(DigitsError::Format)?;
    let rest = rest.strip_prefix(&[8, 8]).ok_or(DigitsError::Format)?;
    let count = u32::from_le_bytes(*count) as usize;
    if count > DIGITS_MAX || rest.len() != count * ROW {
        return Err(DigitsError::Format);
    }
    let rows = rest.chunks_exact(ROW).enumerate();
    rows.map(|(index, row)| read_digit(index, row)).collect()
}

fn read_digit(index: usize, row: &[u8]) -> Result<Digit, DigitsError> {
    let bad = |what, value| Err(DigitsError::Value { index, what, value });
    let (levels, rest) = row.split_first_chunk().ok_or(DigitsError::Format)?;
    let &[label, unseen] = rest else {
        return Err(DigitsError::Format);
    };
    if let Some(&level) = levels.iter().find(|&&level| level > LEVEL_MAX) {
        return bad("grey level", level);
    }
    match (label, unseen) {
        (10.., _) => bad("label", label),
        (_, 2..) => bad("unseen mark", unseen),
        _ => Ok(Digit {
            levels: *levels,
            label,
            unseen: unseen == 1,
        }),
    }
}

impl Digit {
    /// The digit as an 8x8 image of bytes 0 to 255.
    #[must_use]
    pub fn bytes_8x8(&self) -> Vec<u8> {
        let bytes = self.levels.map(|v| (255 * u32::from(v) + 8) / 16);
        bytes.iter().map(|&byte| narrow(byte)).collect()
    }

    /// The 8x8 image as the reals in [0, 1] that a model takes.
    #[must_use]
    pub fn reals_8x8(&self) -> Vec<f32> {
        reals(&self.bytes_8x8())
    }

    /// The 28x28 image as the reals in [0, 1] that a model takes.
    #[must_use]
    pub fn reals_28x28(&self) -> Vec<f32> {
        reals(&self.bytes_28x28())
    }

    /// The digit scaled to 28x28 bytes: bilinear with half-pixel centres, in integers.
    #[must_use]
    pub fn bytes_28x28(&self) -> Vec<u8> {
        let taps: Vec<Tap> = (0..28).map(Tap::of_output).collect();
        let level = |row: usize, column: usize| u32::from(self.levels[row * SIDE + column]);
        let mut bytes = Vec::with_capacity(28 * 28);
        for down in &taps {
            for right in &taps {
                let row = |y: usize| right.blend(level(y, right.first), level(y, right.second));
                let blend = down.blend(row(down.first), row(down.second));
                bytes.push(narrow((255 * blend + 25_088) / 50_176));
            }
        }
        bytes
    }
}

/// Two neighbouring source coordinates and the weight of the second, of 56.
struct Tap {
    first: usize,
    second: usize,
    weight: u32,
}

impl Tap {
    fn of_output(at: i32) -> Self {
        let position = (16 * at - 20).clamp(0, 7 * 56).unsigned_abs();
        let first = (position / 56) as usize;
        Self {
            first,
            second: (first + 1).min(SIDE - 1),
            weight: position % 56,
        }
    }

    const fn blend(&self, first: u32, second: u32) -> u32 {
        first * (56 - self.weight) + second * self.weight
    }
}

fn reals(bytes: &[u8]) -> Vec<f32> {
    bytes.iter().map(|&byte| f32::from(byte) / 255.0).collect()
}

fn narrow(byte: u32) -> u8 {
    u8::try_from(byte).expect("levels are at most 16, so bytes at most 255")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const FILE: &[u8] = include_bytes!("../../../models/digits/digits.bin");

    #[test]
    fn the_shipped_file_holds_the_split() {
        let digits = read(FILE).unwrap();
        assert_eq!(digits.len(), 1797);
        assert_eq!(digits.iter().filter(|digit| digit.unseen).count(), 360);
        assert_eq!(digits[0].label, 0);
        assert_eq!(digits[0].levels[..8], [0, 0, 5, 13, 9, 1, 0, 0]);
    }

    /// Sums of all bytes that the training script's formulas gave for the same file.
    #[test]
    fn scaling_is_that_of_the_training_script() {
        let digits = read(FILE).unwrap();
        let sum = |bytes: fn(&Digit) -> Vec<u8>| -> u64 {
            let all = digits.iter().flat_map(bytes);
            all.map(u64::from).sum()
        };
        assert_eq!(sum(Digit::bytes_8x8), 8_953_801);
        assert_eq!(sum(Digit::bytes_28x28), 109_665_917);
        let weighted: u64 = (1u64..)
            .zip(digits[1234].bytes_28x28())
            .map(|(i, b)| i * u64::from(b))
            .sum();
        assert_eq!(weighted, 27_973_352);
    }

    #[test]
    fn bad_files_are_refused() {
        let check = |change: fn(&mut Vec<u8>), expected| {
            let mut bytes = FILE.to_vec();
            change(&mut bytes);
            assert_eq!(read(&bytes), Err(expected));
        };
        let value = |what, value| DigitsError::Value {
            index: 0,
            what,
            value,
        };
        check(|b| b[0] = b'X', DigitsError::Format);
        check(|b| b.truncate(13), DigitsError::Format);
        check(|b| b[12] = 9, DigitsError::Format);
        check(|b| b.push(0), DigitsError::Format);
        check(|b| b[8..12].fill(255), DigitsError::Format);
        check(|b| b[14] = 17, value("grey level", 17));
        check(|b| b[14 + 64] = 10, value("label", 10));
        check(|b| b[14 + 65] = 2, value("unseen mark", 2));
    }
}

//! Sampling: which token follows, given the greatest scores and a seed. In integers, so that everybody draws the same.
//!
//! The scores `v_1 >= v_2 >= ...` of the tokens `c_1, c_2, ...` weigh `e_j = M[i mod 64] >> floor(i / 64)` with
//! `i = rescale(v_1 - v_j)` and `M[i] = round(2^15 2^(-i/64))`, and 0 from i = 1,024 on: a 64th of an octave is the unit in
//! which the temperature is given. Of the first `keep` tokens the fewest that have `nucleus / 2^16` of all weight stay
//! (Holtzman et al. 2020). S being the sum of their weights, 32-bit words are drawn until one is below
//! `2^32 - (2^32 mod S)`; modulo S it is u, and the first token with `e_1 + .. + e_j > u` is taken. The words (little-endian)
//! are the ChaCha20 key stream (RFC 8439) from block 0 under the key `BLAKE3(domain, seed)` and a nonce of four zero bytes and
//! the position as a 64-bit little-endian number.

use crate::rescale::Rescale;
use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};
use tg_types::{Digest, domain::Domain};

/// Steps of an octave.
const OCTAVE: usize = 64;
/// Octaves after which a token weighs nothing.
const OCTAVES: i64 = 16;
/// All of the weight, in the units of [`Sampling::nucleus`].
pub const NUCLEUS_ALL: u32 = 1 << 16;
/// Most tokens to choose among.
pub const KEEP_MAX: u32 = 1 << 10;

/// `round(2^15 2^(-i/64))`.
const MANTISSAS: [u16; OCTAVE] = [
    32768, 32415, 32066, 31720, 31379, 31041, 30706, 30376, 30048, 29725, 29405, 29088, 28774,
    28464, 28158, 27855, 27554, 27258, 26964, 26674, 26386, 26102, 25821, 25543, 25268, 24995,
    24726, 24460, 24196, 23936, 23678, 23423, 23170, 22921, 22674, 22430, 22188, 21949, 21713,
    21479, 21247, 21019, 20792, 20568, 20347, 20127, 19911, 19696, 19484, 19274, 19066, 18861,
    18658, 18457, 18258, 18061, 17867, 17674, 17484, 17296, 17109, 16925, 16743, 16562,
];

/// How the next token is drawn. All of it is public.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    /// Of how many greatest scores, 1 to [`KEEP_MAX`]; 1: the greatest is taken, nothing is drawn, and all else is as
    /// [`Self::greatest`] has it.
    pub keep: u32,
    /// From a difference of scores to 64ths of an octave: 64 log2(e) times the real value of a score's unit, over the
    /// temperature. See [`Sampling::rescale`].
    pub rescale: Rescale,
    /// The share of weight that stays, 1 to [`NUCLEUS_ALL`], in units of 2^-16.
    pub nucleus: u32,
    /// Whoever knows the seed knows what will be drawn; whoever chooses it after the scores chooses what is drawn. For a
    /// job of the grid it is the job's id.
    pub seed: [u8; 32],
}

impl Sampling {
    /// The greatest score, always.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn greatest() -> Self {
        Self {
            keep: 1,
            rescale: Rescale::new(1, 2).expect("in range"),
            nucleus: NUCLEUS_ALL,
            seed: [0; 32],
        }
    }

    /// The rescale for a temperature above 0 and scores whose unit has a real value, or nothing if none comes near.
    #[must_use]
    pub fn rescale(unit: f64, temperature: f64) -> Option<Rescale> {
        let octave = 64.0 * std::f64::consts::LOG2_E;
        Rescale::nearest(octave * unit / temperature)
    }

    /// The same by another seed; where nothing is drawn it has none.
    #[must_use]
    pub const fn seeded(self, seed: [u8; 32]) -> Self {
        match self.keep {
            1 => self,
            _ => Self { seed, ..self },
        }
    }

    /// The temperature, for scores whose unit has a real value; 0 where nothing is drawn.
    #[must_use]
    pub fn temperature(&self, unit: f64) -> f64 {
        if self.keep == 1 {
            return 0.0;
        }
        let octave = 64.0 * std::f64::consts::LOG2_E;
        let divisor = 2f64.powi(self.rescale.shift().cast_signed());
        octave * unit * divisor / f64::from(self.rescale.multiplier())
    }

    /// Whether all is within its range, and what does not matter is as [`Self::greatest`] has it.
    ///
    /// Stops: sequences with an accepted proof that differ in a seed by which nothing is drawn, so that one answer has
    /// many files.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        match self.keep {
            1 => *self == Self::greatest(),
            keep => (2..=KEEP_MAX).contains(&keep) && (1..=NUCLEUS_ALL).contains(&self.nucleus),
        }
    }

    /// The index of the score that is drawn for a position of the sequence; scores are in descending order and those
    /// beyond [`Self::keep`] are not looked at.
    ///
    /// # Panics
    /// If there are no scores.
    #[must_use]
    pub fn draw(&self, position: u32, scores: &[i32]) -> usize {
        let kept = &scores[..scores.len().min(self.keep as usize)];
        if kept.len() == 1 {
            return 0;
        }
        let weights: Vec<u32> = kept
            .iter()
            .map(|&score| self.weight(i64::from(kept[0]) - i64::from(score)))
            .collect();
        let all: u64 = weights.iter().copied().map(u64::from).sum();
        let mut sum = 0_u64;
        let sums: Vec<u64> = weights
            .iter()
            .map(|&weight| {
                sum += u64::from(weight);
                sum
            })
            .collect();
        let enough = |sum: &u64| sum * u64::from(NUCLEUS_ALL) >= all * u64::from(self.nucleus);
        let last = sums.iter().position(enough).unwrap_or(sums.len() - 1);
        let drawn = self.below(position, sums[last]);
        sums.partition_point(|&sum| sum <= drawn).min(last)
    }

    /// The weight of a token so far below the greatest. Scores come from files before their proof is checked: one that is
    /// above the first weighs as much as it.
    fn weight(&self, distance: i64) -> u32 {
        let index = self.rescale.apply(distance.max(0));
        let (octave, step) = (
            index.div_euclid(OCTAVE as i64),
            index.rem_euclid(OCTAVE as i64),
        );
        if octave >= OCTAVES {
            return 0;
        }
        u32::from(MANTISSAS[usize::try_from(step).expect("below 64")]) >> octave
    }

    /// A uniform number below a bound of at most 2^25 (the weight of [`KEEP_MAX`] tokens).
    fn below(&self, position: u32, bound: u64) -> u64 {
        let key = Digest::of(Domain::Sampling, &self.seed);
        let mut stream = ChaCha20Rng::from_seed(*key.as_bytes());
        stream.set_stream(u64::from(position));
        let limit = (1_u64 << 32) - (1_u64 << 32) % bound;
        loop {
            let word = u64::from(stream.next_u32());
            // One word in 2^7 at most is passed over: the key stream does not end before one is taken.
            if word < limit {
                return word % bound;
            }
        }
    }
}

impl Encode for Sampling {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            keep,
            rescale,
            nucleus,
            seed,
        } = self;
        writer.u32(*keep);
        rescale.encode(writer);
        writer.u32(*nucleus);
        writer.raw(seed);
    }
}

impl Decode for Sampling {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let sampling = Self {
            keep: reader.u32()?,
            rescale: Rescale::decode(reader)?,
            nucleus: reader.u32()?,
            seed: reader.array()?,
        };
        if sampling.is_valid() {
            return Ok(sampling);
        }
        Err(DecodeError::Invalid {
            field: "sampling",
            value: u64::from(sampling.keep) << 32 | u64::from(sampling.nucleus),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampling(keep: u32, temperature: f64, seed: u8) -> Sampling {
        Sampling {
            keep,
            rescale: Sampling::rescale(1.0 / 256.0, temperature).expect("in range"),
            nucleus: NUCLEUS_ALL,
            seed: [seed; 32],
        }
    }

    #[test]
    fn mantissas_are_powers_of_two() {
        for (index, mantissa) in MANTISSAS.iter().enumerate() {
            let exact = 2f64.powi(15) * (-(index as f64) / 64.0).exp2();
            assert_eq!(f64::from(*mantissa), exact.round(), "{index}");
        }
    }

    /// Draws follow the softmax of the scores over the temperature.
    #[test]
    fn tokens_come_as_often_as_their_scores_say() {
        let scores = [700, 500, 444, 100, -3000];
        let sampling = sampling(5, 0.8, 7);
        let mut counts = [0_u32; 5];
        let draws = 20_000;
        for position in 0..draws {
            counts[sampling.draw(position, &scores)] += 1;
        }
        let weights = scores.map(|score| (f64::from(score) / 256.0 / 0.8).exp());
        let all: f64 = weights.iter().sum();
        for (count, weight) in counts.iter().zip(weights) {
            let (share, expected) = (f64::from(*count) / f64::from(draws), weight / all);
            // Five standard deviations.
            let width = 5.0 * (expected * (1.0 - expected) / f64::from(draws)).sqrt();
            assert!((share - expected).abs() <= width + 1e-4, "{counts:?}");
        }
        assert_eq!(counts[4], 0, "too far below to weigh anything");
    }

    #[test]
    fn few_are_kept() {
        let scores = [100, 100, 100, 100];
        let mut sampling = sampling(3, 1.0, 1);
        let all = |sampling: &Sampling| -> Vec<usize> {
            (0..200)
                .map(|position| sampling.draw(position, &scores))
                .collect()
        };
        assert_eq!(all(&sampling).into_iter().max(), Some(2));
        // Half of three equal weights is reached by two.
        sampling.nucleus = NUCLEUS_ALL / 2;
        assert_eq!(all(&sampling).into_iter().max(), Some(1));
        sampling.nucleus = 1;
        assert_eq!(all(&sampling).into_iter().max(), Some(0));
        assert_eq!(Sampling::greatest().draw(3, &[5, 5]), 0);
    }

    /// The vector of `docs/PROTOCOL.md`, made with another ChaCha20 and BLAKE3.
    #[test]
    fn draws_are_what_the_protocol_says() {
        let sampling = sampling(8, 1.0, 9);
        assert_eq!(
            (sampling.rescale.multiplier(), sampling.rescale.shift()),
            (23_637, 16)
        );
        let scores = [900, 850, 800, 700, 600, 500, 300, 0];
        let drawn: Vec<usize> = (0..16).map(|at| sampling.draw(at, &scores)).collect();
        assert_eq!(drawn, [3, 1, 3, 2, 3, 0, 2, 2, 3, 5, 0, 2, 0, 6, 0, 4]);
    }

    /// What a forged file may hold: any scores in any order.
    #[test]
    fn scores_in_no_order_draw_something() {
        let extremes = [i32::MIN, -1, 0, 1, i32::MAX];
        for (multiplier, shift) in [(1, 46), (32_767, 2), (23_637, 16)] {
            let rescale = Rescale::new(multiplier, shift).expect("in range");
            let sampling = Sampling {
                rescale,
                ..sampling(5, 1.0, 2)
            };
            for first in extremes {
                for second in extremes {
                    assert!(sampling.draw(7, &[first, second, first]) < 3);
                }
            }
        }
    }

    #[test]
    fn invalid_ones_are_not_decoded() {
        let bytes = |sampling: Sampling| sampling.to_bytes();
        let valid = sampling(8, 1.0, 1);
        assert_eq!(Sampling::from_bytes(&bytes(valid)), Ok(valid));
        for keep in [0, KEEP_MAX + 1] {
            assert!(Sampling::from_bytes(&bytes(Sampling { keep, ..valid })).is_err());
        }
        for nucleus in [0, NUCLEUS_ALL + 1] {
            assert!(Sampling::from_bytes(&bytes(Sampling { nucleus, ..valid })).is_err());
        }
    }

    /// Where nothing is drawn, nothing else may be said.
    #[test]
    fn the_greatest_has_one_encoding() {
        let greatest = Sampling::greatest();
        assert_eq!(Sampling::from_bytes(&greatest.to_bytes()), Ok(greatest));
        assert_eq!(greatest.seeded([1; 32]), greatest);
        assert_eq!(greatest.temperature(1.0), 0.0);
        let rescale = Rescale::new(2, 3).expect("in range");
        let seed = [1; 32];
        for other in [
            Sampling { seed, ..greatest },
            Sampling {
                rescale,
                ..greatest
            },
            Sampling {
                nucleus: NUCLEUS_ALL - 1,
                ..greatest
            },
        ] {
            assert!(
                Sampling::from_bytes(&other.to_bytes()).is_err(),
                "{other:?}"
            );
        }
    }

    #[test]
    fn a_temperature_is_read_back() {
        for temperature in [0.1, 0.8, 1.0, 2.5] {
            let read = sampling(4, temperature, 1).temperature(1.0 / 256.0);
            assert!((read / temperature - 1.0).abs() < 1e-3, "{read}");
        }
    }
}

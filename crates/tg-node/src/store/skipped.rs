//! Nullifications on disk: certificates of skipped views, kept until the bonds behind their votes are returned.
//!
//! Finalizations are stored with the blocks that they make final, in the order of their views, so that the one of a view is
//! found by binary search. A nullification belongs to no block. Without this table it is gone once consensus forgets its view,
//! and a false finalization of that view, signed by two thirds of the seats, would convict nobody.

use redb::{ReadableDatabase as _, ReadableTable as _, TableDefinition, TableError};
use tg_types::chain::VoteCertificate;
use tg_types::{DurationMs, TimestampMs};

use super::{CERTIFICATES, META, Store, StoreError, u64_of};

const SKIPPED: TableDefinition<'_, (u64, u64), (u64, &[u8])> = TableDefinition::new("skipped");

/// The name in [`META`] under which the bytes of all certificates of [`SKIPPED`] are.
const SKIPPED_BYTES: &str = "skipped";

/// Most bytes of nullifications. Of four seats one has about 210 bytes, of 100 4.3 KB, of 1,024 44 KB. In the 21 days of unbonding of networks that are founded
/// these are 204 MB a day: ten views a second of four seats, one in two seconds of 100, one in 19 seconds of 1,024. The oldest go
/// first. Stops: a third of the seats, silent in their turns, that fill every disk.
pub(crate) const SKIPPED_BYTES_MAX: u64 = 4 << 30;

/// Most that are forgotten when one is kept: twice as many as come would do, and a pause of weeks is made up for soon.
const FORGOTTEN_AT_ONCE: usize = 64;

/// Which nullifications are forgotten.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SkippedLimits {
    /// The ledger's time.
    pub(crate) now: TimestampMs,
    /// By it, how long one is kept.
    pub(crate) kept_for: DurationMs,
    /// Most bytes of all.
    pub(crate) bytes_max: u64,
}

impl Store {
    /// Keeps the nullification of a view, of which the signatures hold, unless one is there, and forgets those that are too old or too many.
    pub(crate) fn keep_skipped(
        &self,
        round: (u64, u64),
        certificate: &[u8],
        limits: SkippedLimits,
    ) -> Result<(), StoreError> {
        // After a restart consensus tells those of its journal again.
        if self.skipped(round)?.is_some() {
            return Ok(());
        }
        let write = self.db.begin_write()?;
        {
            let mut meta = write.open_table(META)?;
            let mut table = write.open_table(SKIPPED)?;
            let before = meta.get(SKIPPED_BYTES)?.map_or(0, |it| u64_of(it.value()));
            let mut bytes = before.saturating_add(certificate.len() as u64);
            table.insert(round, (limits.now.get(), certificate))?;
            for _ in 0..FORGOTTEN_AT_ONCE {
                let oldest = table.first()?.map(|(_, kept)| {
                    let (since, certificate) = kept.value();
                    (TimestampMs::new(since), certificate.len() as u64)
                });
                let Some((since, size)) = oldest else { break };
                let is_old = limits.now.saturating_since(since) > limits.kept_for;
                if !is_old && bytes <= limits.bytes_max {
                    break;
                }
                table.pop_first()?;
                bytes = bytes.saturating_sub(size);
            }
            meta.insert(SKIPPED_BYTES, bytes.to_le_bytes().as_slice())?;
        }
        write.commit()?;
        Ok(())
    }

    /// The nullification that is kept of a view.
    pub(crate) fn skipped(&self, round: (u64, u64)) -> Result<Option<Vec<u8>>, StoreError> {
        let read = self.db.begin_read()?;
        let table = match read.open_table(SKIPPED) {
            Ok(table) => table,
            // No view was skipped, or the program that wrote last did not keep them.
            Err(TableError::TableDoesNotExist(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let kept = table.get(round)?;
        Ok(kept.map(|kept| kept.value().1.to_vec()))
    }

    /// The finalization of a view, if it is kept with its block. Looks at one certificate for each doubling of the chain.
    pub(crate) fn finalization_of(&self, round: (u64, u64)) -> Result<Option<Vec<u8>>, StoreError> {
        let read = self.db.begin_read()?;
        let table = read.open_table(CERTIFICATES)?;
        let Some(last) = table.last()?.map(|(height, _)| height.value()) else {
            return Ok(None);
        };
        // Higher blocks are of later views.
        let (mut low, mut end) = (0, last.saturating_add(1));
        while low < end {
            let middle = low + (end - low) / 2;
            let Some((height, bytes)) = table.range(middle..end)?.next().transpose()? else {
                end = middle;
                continue;
            };
            let Ok(found) = VoteCertificate::round_in(bytes.value()) else {
                return Ok(None);
            };
            match found.cmp(&round) {
                std::cmp::Ordering::Equal => return Ok(Some(bytes.value().to_vec())),
                std::cmp::Ordering::Less => low = height.value() + 1,
                std::cmp::Ordering::Greater => end = middle,
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::{FinalBlock, Location};
    use super::*;

    fn store() -> Store {
        Store::open(Location::Memory, &[1; 32], &[2; 32]).unwrap()
    }

    fn limits(now: u64) -> SkippedLimits {
        SkippedLimits {
            now: TimestampMs::new(now),
            kept_for: DurationMs::new(100),
            bytes_max: 30,
        }
    }

    #[test]
    fn nullifications_are_kept_until_bonds_are_returned_and_no_more_than_fit() {
        let store = store();
        assert_eq!(store.skipped((0, 7)).unwrap(), None);
        store.keep_skipped((0, 7), &[7; 10], limits(1_000)).unwrap();
        store.keep_skipped((1, 2), &[2; 10], limits(1_050)).unwrap();
        // The first one that is told of a view stays, with its time.
        store.keep_skipped((0, 7), &[8; 10], limits(1_060)).unwrap();
        assert_eq!(store.skipped((0, 7)).unwrap().unwrap(), [7; 10]);
        store.keep_skipped((1, 3), &[3; 10], limits(1_100)).unwrap();
        assert!(
            store.skipped((0, 7)).unwrap().is_some(),
            "100 ms are not over"
        );
        store.keep_skipped((1, 4), &[4; 5], limits(1_101)).unwrap();
        assert_eq!(store.skipped((0, 7)).unwrap(), None);
        assert_eq!(store.skipped((1, 2)).unwrap().unwrap(), [2; 10]);
        // 25 bytes are here; with these there are 31.
        store.keep_skipped((2, 0), &[5; 6], limits(1_102)).unwrap();
        assert_eq!(store.skipped((1, 2)).unwrap(), None);
        for (round, bytes) in [
            ((1, 3), vec![3; 10]),
            ((1, 4), vec![4; 5]),
            ((2, 0), vec![5; 6]),
        ] {
            assert_eq!(store.skipped(round).unwrap(), Some(bytes), "{round:?}");
        }
        store.keep_skipped((3, 1), &[6; 5], limits(9_000)).unwrap();
        assert_eq!(store.skipped((2, 0)).unwrap(), None);
        assert_eq!(store.skipped((3, 1)).unwrap().unwrap(), [6; 5]);
    }

    #[test]
    fn the_finalization_of_a_view_is_found_among_those_of_blocks() {
        let store = store();
        assert_eq!(store.finalization_of((0, 1)).unwrap(), None);
        // Blocks 3 and 4 were made final by block 5.
        let rounds = [(1, 0, 2), (2, 0, 3), (5, 0, 9), (6, 1, 1), (9, 1, 4)];
        for height in 1..=9 {
            let round = rounds.iter().find(|it| it.0 == height);
            let block = FinalBlock {
                height,
                id: [u8::try_from(height).unwrap(); 32],
                bytes: vec![1],
                certificate: round.map(|(_, epoch, view)| vec![*epoch, *view, 77]),
            };
            store.finalise(&[block], None).unwrap();
        }
        for (_, epoch, view) in rounds {
            let found = store.finalization_of((u64::from(epoch), u64::from(view)));
            assert_eq!(found.unwrap(), Some(vec![epoch, view, 77]));
        }
        for round in [
            (0, 0),
            (0, 1),
            (0, 4),
            (0, 10),
            (1, 0),
            (1, 2),
            (1, 5),
            (7, 1),
        ] {
            assert_eq!(store.finalization_of(round).unwrap(), None, "{round:?}");
        }
    }
}

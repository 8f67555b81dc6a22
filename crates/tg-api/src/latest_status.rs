//! The answer to `GET /v1/status`, which is the same until the next block.

use std::sync::{Mutex, PoisonError};

use axum::body::Bytes;
use tg_types::BlockId;

/// The last answer, and the block that it is about.
#[derive(Debug, Default)]
pub(crate) struct LatestStatus(Mutex<Option<(BlockId, Bytes)>>);

impl LatestStatus {
    /// The answer about a block; it is written unless it is there. Of many who ask at once one writes it.
    pub(crate) fn about(&self, block: BlockId, write: impl FnOnce() -> Vec<u8>) -> Bytes {
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, answer)) = latest.as_ref().filter(|it| it.0 == block) {
            return answer.clone();
        }
        let answer = Bytes::from(write());
        *latest = Some((block, answer.clone()));
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_written_once_for_each_block() {
        let latest = LatestStatus::default();
        let (first, second) = (BlockId::new([1; 32]), BlockId::new([2; 32]));
        let mut written = 0;
        for (block, text) in [(first, "a"), (first, "b"), (second, "c"), (second, "d")] {
            let answer = latest.about(block, || {
                written += 1;
                text.as_bytes().to_vec()
            });
            let expected = if block == first { "a" } else { "c" };
            assert_eq!(answer, expected.as_bytes());
        }
        assert_eq!(written, 2);
    }
}

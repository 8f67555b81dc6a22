//! Pieces of an answer on their way to its caller, bounded in bytes.
//!
//! Whoever writes an answer does not wait for its reader: a piece that finds no room is left out, and all after it are, so that what was sent is
//! the beginning of the answer. The rest comes with the whole answer at its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::mpsc;

/// Most bytes of the pieces of one answer that wait for its reader, with what each costs beside its bytes.
const WAITING_BYTES_MAX: usize = 256 << 10;

/// What a piece costs beside its bytes.
const PIECE_BYTES: usize = 128;

/// A piece of an answer: how many bytes of memory it takes, about.
pub trait AnswerPiece {
    /// Bytes.
    fn bytes(&self) -> usize;
}

impl AnswerPiece for Vec<u8> {
    fn bytes(&self) -> usize {
        self.len()
    }
}

/// What the two sides share.
#[derive(Debug, Default)]
struct WaitingPieces {
    bytes: AtomicUsize,
    /// Whether a piece was left out.
    is_cut: AtomicBool,
}

/// Where pieces are sent.
#[derive(Debug)]
pub struct LimitedSender<T> {
    sender: mpsc::UnboundedSender<T>,
    waiting: Arc<WaitingPieces>,
}

impl<T> Clone for LimitedSender<T> {
    fn clone(&self) -> Self {
        Self {
            sender: self.sender.clone(),
            waiting: Arc::clone(&self.waiting),
        }
    }
}

/// Where pieces come.
#[derive(Debug)]
pub struct LimitedReceiver<T> {
    receiver: mpsc::UnboundedReceiver<T>,
    waiting: Arc<WaitingPieces>,
}

/// The two ends of a way for pieces.
#[must_use]
pub fn limited_pieces<T: AnswerPiece>() -> (LimitedSender<T>, LimitedReceiver<T>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let waiting = Arc::new(WaitingPieces::default());
    let sender = LimitedSender {
        sender,
        waiting: Arc::clone(&waiting),
    };
    (sender, LimitedReceiver { receiver, waiting })
}

/// What became of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SentPiece {
    /// It waits for the reader.
    Waits,
    /// It was left out, or one before it.
    LeftOut,
    /// Nobody reads any more.
    Unread,
}

impl<T: AnswerPiece> LimitedSender<T> {
    /// Sends a piece, if it has room.
    pub fn send(&self, piece: T) -> SentPiece {
        let bytes = piece.bytes().saturating_add(PIECE_BYTES);
        let waiting = &self.waiting;
        let before = waiting.bytes.fetch_add(bytes, Ordering::AcqRel);
        let has_room = before.saturating_add(bytes) <= WAITING_BYTES_MAX;
        if !has_room {
            waiting.is_cut.store(true, Ordering::Release);
        }
        if waiting.is_cut.load(Ordering::Acquire) {
            waiting.bytes.fetch_sub(bytes, Ordering::AcqRel);
            return match self.sender.is_closed() {
                true => SentPiece::Unread,
                false => SentPiece::LeftOut,
            };
        }
        match self.sender.send(piece) {
            Ok(()) => SentPiece::Waits,
            Err(_) => SentPiece::Unread,
        }
    }
}

impl<T: AnswerPiece> LimitedReceiver<T> {
    /// The next piece; nothing when whoever writes has ended.
    pub async fn recv(&mut self) -> Option<T> {
        let piece = self.receiver.recv().await?;
        let bytes = piece.bytes().saturating_add(PIECE_BYTES);
        self.waiting.bytes.fetch_sub(bytes, Ordering::AcqRel);
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A provider sends 10 MiB to a caller that reads nothing.
    #[tokio::test]
    async fn what_waits_for_a_reader_is_bounded_and_the_beginning_of_the_answer() {
        let (sender, mut pieces) = limited_pieces::<Vec<u8>>();
        let other = sender.clone();
        let piece = |index: usize| vec![index as u8; 4 << 10];
        let sent: Vec<SentPiece> = (0..2_560).map(|index| sender.send(piece(index))).collect();
        let kept = sent.iter().filter(|it| **it == SentPiece::Waits).count();
        assert!(kept < 64 && kept > 32, "{kept}");
        assert!(sent[kept..].iter().all(|it| *it == SentPiece::LeftOut));
        for index in 0..kept {
            assert_eq!(pieces.recv().await, Some(piece(index)));
        }
        // There is room again, and what came between is missing.
        assert_eq!(other.send(piece(0)), SentPiece::LeftOut);
        drop((sender, other));
        assert_eq!(pieces.recv().await, None);
    }

    #[tokio::test]
    async fn who_reads_gets_all_of_it() {
        let (sender, mut pieces) = limited_pieces::<Vec<u8>>();
        for index in 0..1_000_u16 {
            let piece = vec![index as u8; 4 << 10];
            assert_eq!(sender.send(piece.clone()), SentPiece::Waits);
            assert_eq!(pieces.recv().await, Some(piece));
        }
        drop(pieces);
        assert_eq!(sender.send(vec![1]), SentPiece::Unread);
    }
}

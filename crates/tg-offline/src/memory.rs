//! Where large blocks of memory come from: the prover asks for gigabytes, frees them and asks again, and a page that
//! the kernel has to find and clear costs more than most of what is computed on it.
//!
//! Blocks of at least [`LARGE`] bytes are mapped in huge pages and kept when they are freed, for the next one of their
//! size. What is kept never raises the peak: kept and held blocks together are at most what was held at once before.
//! All smaller blocks are the system's.
#![allow(unsafe_code, reason = "an allocator hands out raw memory")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Least bytes of a large block.
pub const LARGE: usize = 4 << 20;
/// Bytes of a huge page.
const HUGE: usize = 2 << 20;
/// Most blocks that are kept.
const KEPT_MAX: usize = 64;
/// Most bytes that are kept: a service that proved once does not hold on to more.
const KEPT_BYTES_MAX: usize = 4 << 30;

/// The allocator.
#[derive(Debug)]
pub struct LargeBlocks {
    book: Mutex<Book>,
}

/// Which blocks are kept, the longest first.
#[derive(Debug)]
struct Book {
    /// Address and bytes.
    kept: [(usize, usize); KEPT_MAX],
    count: usize,
    kept_bytes: usize,
    /// Bytes that are held now, and the most that were.
    held: usize,
    most: usize,
}

impl Book {
    const fn new() -> Self {
        Self {
            kept: [(0, 0); KEPT_MAX],
            count: 0,
            kept_bytes: 0,
            held: 0,
            most: 0,
        }
    }

    /// The last kept block of a size.
    fn take(&mut self, bytes: usize) -> Option<usize> {
        let kept = &self.kept[..self.count];
        let place = kept.iter().rposition(|&(_, kept)| kept == bytes)?;
        Some(self.remove(place).0)
    }

    fn remove(&mut self, place: usize) -> (usize, usize) {
        let block = self.kept[place];
        self.kept.copy_within(place + 1..self.count, place);
        self.count -= 1;
        self.kept_bytes -= block.1;
        block
    }

    /// Keeps a block; there must be room.
    fn keep(&mut self, address: usize, bytes: usize) {
        self.kept[self.count] = (address, bytes);
        self.count += 1;
        self.kept_bytes += bytes;
    }

    fn hold(&mut self, bytes: usize) {
        self.held += bytes;
        self.most = self.most.max(self.held);
    }

    /// The block that has been kept longest, if too much is kept, or if there must be room for one more.
    fn surplus(&mut self, one_more: bool) -> Option<(usize, usize)> {
        let full = one_more && self.count == KEPT_MAX;
        let above = self.kept_bytes > KEPT_BYTES_MAX || self.held + self.kept_bytes > self.most;
        (self.count > 0 && (full || above)).then(|| self.remove(0))
    }
}

/// Bytes of the block for so many: at most an eighth more.
const fn rounded(bytes: usize) -> usize {
    let step = bytes.next_power_of_two() / 16;
    bytes.next_multiple_of(if step > HUGE { step } else { HUGE })
}

/// Alignment of every large block: a block that has grown may lie at any page.
const PAGE: usize = 4096;

/// Whether a block is large. Nothing asks for alignments beyond a page.
const fn is_large(layout: &Layout) -> bool {
    layout.size() >= LARGE && layout.align() <= PAGE && layout.size() < 1 << 46
}

/// The allocator of this process.
#[global_allocator]
pub static MEMORY: LargeBlocks = LargeBlocks::new();

impl LargeBlocks {
    const fn new() -> Self {
        Self {
            book: Mutex::new(Book::new()),
        }
    }

    /// Gives back what is kept, and forgets what was held before.
    pub fn release(&self) {
        let mut book = self.book();
        book.most = 0;
        while let Some((address, kept)) = book.surplus(false) {
            unmap(address, kept);
        }
        book.most = book.held;
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // Nothing panics while it is held.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block, and whether it is zero everywhere.
    fn obtain(&self, bytes: usize) -> (*mut u8, bool) {
        let mut book = self.book();
        if let Some(address) = book.take(bytes) {
            book.hold(bytes);
            return (ptr::with_exposed_provenance_mut(address), false);
        }
        book.hold(bytes);
        while let Some((address, kept)) = book.surplus(false) {
            unmap(address, kept);
        }
        drop(book);
        let block = map(bytes);
        if block.is_null() {
            self.book().held -= bytes;
        }
        (block, true)
    }

    /// A held block with another number of bytes: its pages are moved, not their bytes. Null if there is no room.
    fn resize(&self, block: *mut u8, bytes: usize, wanted: usize) -> *mut u8 {
        let mut book = self.book();
        book.held -= bytes;
        book.hold(wanted);
        while let Some((address, kept)) = book.surplus(false) {
            unmap(address, kept);
        }
        drop(book);
        // SAFETY: the block is a mapping of so many bytes whose owner gives it up for the result, or keeps it if that is
        // null.
        let moved = unsafe { libc::mremap(block.cast(), bytes, wanted, libc::MREMAP_MAYMOVE) };
        if moved == libc::MAP_FAILED {
            let mut book = self.book();
            book.held -= wanted;
            book.hold(bytes);
            return ptr::null_mut();
        }
        moved.cast()
    }

    fn give_back(&self, block: *mut u8, bytes: usize) {
        let mut book = self.book();
        book.held -= bytes;
        while let Some((address, kept)) = book.surplus(true) {
            unmap(address, kept);
        }
        book.keep(block.expose_provenance(), bytes);
        while let Some((address, kept)) = book.surplus(false) {
            unmap(address, kept);
        }
    }
}

/// Fresh memory, zero everywhere, at a multiple of a huge page; null if there is none.
fn map(bytes: usize) -> *mut u8 {
    let all = bytes + HUGE;
    let (protection, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a new private mapping at an address of the kernel's choice touches no memory that anybody has.
    let start = unsafe { libc::mmap(ptr::null_mut(), all, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return ptr::null_mut();
    }
    let before = start.addr().next_multiple_of(HUGE) - start.addr();
    let block = start.cast::<u8>().wrapping_add(before);
    // SAFETY: both ends lie in the mapping just made and outside the block, in whole pages; nobody knows them. The advice
    // is about the block, and no promise depends on it.
    unsafe {
        if before > 0 {
            libc::munmap(start, before);
        }
        if before < HUGE {
            libc::munmap(block.wrapping_add(bytes).cast(), HUGE - before);
        }
        libc::madvise(block.cast(), bytes, libc::MADV_HUGEPAGE);
    }
    block
}

fn unmap(address: usize, bytes: usize) {
    // SAFETY: the address is that of a mapping of so many bytes whose owner gave it back, and it is kept nowhere now.
    unsafe {
        libc::munmap(ptr::with_exposed_provenance_mut(address), bytes);
    }
}

// SAFETY: a large block is a mapping of its own of `rounded(size)` bytes, aligned to a page, handed to one
// owner at a time: it is in the book only between `dealloc` and the next `alloc`. Whether a block is large, and how many
// bytes it has, follow from the layout alone, which is the same at both. Everything else is the system's allocator.
unsafe impl GlobalAlloc for LargeBlocks {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_large(&layout) {
            return self.obtain(rounded(layout.size())).0;
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !is_large(&layout) {
            // SAFETY: the caller's promises are passed on.
            return unsafe { System.alloc_zeroed(layout) };
        }
        let (block, is_zero) = self.obtain(rounded(layout.size()));
        if !is_zero && !block.is_null() {
            // SAFETY: the block has at least so many bytes and is nobody else's.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_large(&layout) {
            self.give_back(block, rounded(layout.size()));
        } else {
            // SAFETY: the caller's promises are passed on.
            unsafe { System.dealloc(block, layout) }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the size fits a layout with this alignment.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (is_large(&layout), is_large(&wanted)) {
            // SAFETY: the caller's promises are passed on.
            (false, false) => unsafe { System.realloc(block, layout, size) },
            (true, true) if rounded(layout.size()) == rounded(size) => block,
            (true, true) => self.resize(block, rounded(layout.size()), rounded(size)),
            _ => {
                // SAFETY: both layouts are the caller's, the blocks do not overlap, and the shorter one's bytes are copied.
                unsafe {
                    let to = self.alloc(wanted);
                    if !to.is_null() {
                        ptr::copy_nonoverlapping(block, to, layout.size().min(size));
                        self.dealloc(block, layout);
                    }
                    to
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, 64).unwrap()
    }

    /// Kept and held, the most held, and how many are kept.
    fn figures(blocks: &LargeBlocks) -> [usize; 4] {
        let book = blocks.book();
        [book.kept_bytes, book.held, book.most, book.count]
    }

    #[test]
    fn blocks_have_few_sizes_near_what_is_asked_for() {
        for bytes in [
            LARGE,
            LARGE + 1,
            5 << 20,
            100 << 20,
            (100 << 20) + 1,
            3 << 30,
        ] {
            let got = rounded(bytes);
            assert!(got >= bytes && got.is_multiple_of(HUGE));
            assert!(got - bytes <= (bytes / 8).max(HUGE), "{bytes}: {got}");
            assert_eq!(rounded(got), got);
        }
    }

    #[test]
    fn a_freed_block_is_the_next_one_of_its_size_and_reads_zero_where_asked() {
        let blocks = LargeBlocks::new();
        let size = 6 << 20;
        // SAFETY: each block is used within its layout, and freed once with it.
        unsafe {
            let first = blocks.alloc_zeroed(layout(size));
            assert!(first.addr().is_multiple_of(HUGE));
            assert!(
                std::slice::from_raw_parts(first, size)
                    .iter()
                    .all(|&b| b == 0)
            );
            first.write_bytes(7, size);
            blocks.dealloc(first, layout(size));
            assert_eq!(figures(&blocks), [size, 0, size, 1]);
            // Another size has a block of its own; the kept one goes, because there never was so much.
            let other = blocks.alloc(layout(2 * size));
            assert_eq!(figures(&blocks), [0, 2 * size, 2 * size, 0]);
            other.write_bytes(9, 2 * size);
            blocks.dealloc(other, layout(2 * size));
            let again = blocks.alloc_zeroed(layout(2 * size - 100));
            assert_eq!(again, other);
            let bytes = std::slice::from_raw_parts(again, 2 * size - 100);
            assert!(bytes.iter().all(|&b| b == 0));
            blocks.dealloc(again, layout(2 * size - 100));
            assert_eq!(figures(&blocks), [2 * size, 0, 2 * size, 1]);
        }
    }

    #[test]
    fn what_is_kept_never_raises_the_peak_and_is_bounded_in_number() {
        let blocks = LargeBlocks::new();
        // SAFETY: each block is freed once, with its layout.
        unsafe {
            let count = KEPT_MAX + 9;
            let held: Vec<*mut u8> = (0..count).map(|_| blocks.alloc(layout(LARGE))).collect();
            let most = count * LARGE;
            assert_eq!(figures(&blocks), [0, most, most, 0]);
            for block in held {
                assert!(!block.is_null());
                blocks.dealloc(block, layout(LARGE));
            }
            assert_eq!(figures(&blocks), [KEPT_MAX * LARGE, 0, most, KEPT_MAX]);
            // A block as long as all of them together leaves no room to keep any.
            let whole = blocks.alloc(layout(most));
            assert_eq!(figures(&blocks)[..2], [0, rounded(most)]);
            blocks.dealloc(whole, layout(most));
            blocks.release();
            assert_eq!(figures(&blocks), [0; 4]);
        }
    }

    #[test]
    fn blocks_keep_their_bytes_when_they_grow_and_shrink() {
        let blocks = LargeBlocks::new();
        // SAFETY: each block is used within its layout, and freed once with its last one.
        unsafe {
            let mut size = 1000;
            let mut block = blocks.alloc(layout(size));
            block.write_bytes(3, size);
            for next in [
                LARGE - 1,
                LARGE,
                LARGE + 5,
                9 << 20,
                10 << 20,
                LARGE + 1,
                500,
            ] {
                block = blocks.realloc(block, layout(size), next);
                let kept = std::slice::from_raw_parts(block, 500);
                assert!(kept.iter().all(|&b| b == 3), "{size} to {next}");
                size = next;
            }
            blocks.dealloc(block, layout(size));
            assert_eq!(figures(&blocks)[1], 0);
        }
        let huge = layout(1 << 45);
        // SAFETY: nothing is used.
        let none = unsafe { blocks.alloc(huge) };
        assert_eq!(
            figures(&blocks)[1],
            if none.is_null() { 0 } else { 1 << 45 }
        );
        if !none.is_null() {
            // SAFETY: freed once, with its layout.
            unsafe { blocks.dealloc(none, huge) };
        }
    }

    #[test]
    fn threads_never_share_a_block() {
        let blocks = LargeBlocks::new();
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let blocks = &blocks;
                scope.spawn(move || {
                    for round in 0..40 {
                        let size = LARGE + (round % 3) * HUGE;
                        // SAFETY: the block is used within its layout, and freed once with it.
                        unsafe {
                            let block = blocks.alloc(layout(size));
                            let ends = [0, size / 2, size - 1];
                            ends.iter().for_each(|&at| block.add(at).write(thread));
                            std::thread::yield_now();
                            assert!(ends.iter().all(|&at| block.add(at).read() == thread));
                            blocks.dealloc(block, layout(size));
                        }
                    }
                });
            }
        });
        assert_eq!(figures(&blocks)[1], 0);
    }
}

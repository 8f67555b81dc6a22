//! Memory of kernels: aligned to cache lines, grown to the greatest size asked for and then used again.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a cache line and of the widest vector.
pub const LINE_BYTES: usize = 64;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; LINE_BYTES]);

/// Numbers of which every bit pattern is a value.
///
/// # Safety
/// The type has no padding, no invalid bit pattern, and an alignment that divides [`LINE_BYTES`].
pub unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($kind:ty),*) => {
        $(
            // SAFETY: a primitive number.
            unsafe impl Plain for $kind {}
        )*
    };
}
plain!(i8, u8, i16, u16, i32, u32, i64, usize, f32, f64);

/// Memory of one kind of number at a time, aligned to [`LINE_BYTES`]. Its contents between uses are unspecified
/// numbers.
#[derive(Clone, Default)]
pub struct Buffer {
    lines: Vec<Line>,
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes)", self.bytes())
    }
}

impl Buffer {
    /// An empty buffer.
    #[must_use]
    pub const fn new() -> Self {
        Self { lines: Vec::new() }
    }

    /// Bytes held.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.lines.len() * LINE_BYTES
    }

    /// The first `count` numbers, for writing. Grows if there are fewer; new memory is zero.
    pub fn numbers_mut<T: Plain>(&mut self, count: usize) -> &mut [T] {
        let lines = (count * size_of::<T>()).div_ceil(LINE_BYTES);
        if self.lines.len() < lines {
            self.lines.resize(lines, Line([0; LINE_BYTES]));
        }
        // SAFETY: the lines hold at least `count` numbers, are aligned for T, initialised, and every bit pattern is a
        // value of T (`Plain`).
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), count) }
    }

    /// The first `count` numbers.
    ///
    /// # Panics
    /// If the buffer holds fewer.
    #[must_use]
    pub fn numbers<T: Plain>(&self, count: usize) -> &[T] {
        assert!(
            count * size_of::<T>() <= self.bytes(),
            "the buffer holds what was written"
        );
        // SAFETY: as in `numbers_mut`; the length was checked.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), count) }
    }
}

/// What kernels need beside their inputs and outputs. Kept between calls, so that repeated calls allocate nothing.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Written before the threads start, read by all of them.
    pub shared: Buffer,
    /// One for each thread.
    threads: Vec<Mutex<Buffer>>,
}

impl Scratch {
    /// Empty; grows at the first call.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One buffer for each thread.
    pub fn threads(&mut self, threads: usize) -> &[Mutex<Buffer>] {
        self.split(threads).1
    }

    /// Splits into the shared part and one buffer for each thread.
    pub fn split(&mut self, threads: usize) -> (&mut Buffer, &[Mutex<Buffer>]) {
        if self.threads.len() < threads {
            self.threads.resize_with(threads, Mutex::default);
        }
        (&mut self.shared, &self.threads)
    }
}

/// The buffer of a thread. Nobody else asks for it meanwhile, so this never waits.
pub fn of_thread(buffers: &[Mutex<Buffer>], thread: usize) -> MutexGuard<'_, Buffer> {
    buffers[thread]
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

/// An output that several threads write, each its own elements.
#[derive(Debug)]
pub struct Shared<'a, T> {
    start: *mut T,
    length: usize,
    lifetime: std::marker::PhantomData<&'a mut [T]>,
}

impl<T> Clone for Shared<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<'_, T> {}

// SAFETY: the elements are plain numbers that may be written from any thread; `row` demands that no two threads hold
// one element.
unsafe impl<T: Plain> Sync for Shared<'_, T> {}
// SAFETY: as for `Sync`.
unsafe impl<T: Plain> Send for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    /// The elements of a slice, which is borrowed as long as they are written.
    #[must_use]
    pub const fn new(values: &'a mut [T]) -> Self {
        Self {
            start: values.as_mut_ptr(),
            length: values.len(),
            lifetime: std::marker::PhantomData,
        }
    }

    /// Elements.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// A pointer to element `first`, after which `count` elements exist.
    pub(super) fn start_of(&self, first: usize, count: usize) -> *mut T {
        assert!(
            first <= self.length && count <= self.length - first,
            "a part of the output"
        );
        self.start.wrapping_add(first)
    }

    /// The elements from `first` on.
    ///
    /// # Safety
    /// Nobody else reads or writes them as long as the slice lives.
    #[must_use]
    pub unsafe fn part(&self, first: usize, count: usize) -> &'a mut [T] {
        let start = self.start_of(first, count);
        // SAFETY: inside the slice this was made from, whose lifetime is 'a; not shared, by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(start, count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_keep_what_was_written() {
        let mut buffer = Buffer::new();
        buffer.numbers_mut::<i32>(3).copy_from_slice(&[1, -2, 3]);
        assert_eq!(buffer.bytes(), 64);
        assert_eq!(buffer.numbers::<f32>(1).as_ptr() as usize % LINE_BYTES, 0);
        let grown = buffer.numbers_mut::<i32>(100);
        assert_eq!(&grown[..4], &[1, -2, 3, 0]);
        assert_eq!(buffer.bytes(), 448);
        assert_eq!(buffer.numbers::<i8>(5), [1, 0, 0, 0, -2]);
        assert_eq!(format!("{buffer:?}"), "Buffer(448 bytes)");
    }

    #[test]
    fn a_buffer_does_not_shrink_and_not_allocate_again() {
        let mut buffer = Buffer::new();
        let first = buffer.numbers_mut::<f32>(1_000).as_ptr();
        assert_eq!(buffer.numbers_mut::<f32>(10).as_ptr(), first);
        assert_eq!(buffer.numbers_mut::<f32>(1_000).as_ptr(), first);
    }
}

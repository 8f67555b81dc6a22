// What every example program shares: the calls that a host makes (docs/PROGRAMS.md), over two fixed regions of
// memory. A program includes this file and defines `step_chunk` (and `merge_answer`), which write with `put`.

use core::ptr::{addr_of, addr_of_mut};

/// Most bytes of one chunk.
const CHUNK_MAX: usize = 256 * 1024;
/// Most bytes of the output.
const OUTPUT_MAX: usize = 512 * 1024;

static mut CHUNK: [u8; CHUNK_MAX] = [0; CHUNK_MAX];
static mut OUTPUT: [u8; OUTPUT_MAX] = [0; OUTPUT_MAX];
static mut WRITTEN: usize = 0;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    core::arch::wasm32::unreachable()
}

/// Where the host writes the next chunk; 0 if it is too long.
#[unsafe(no_mangle)]
extern "C" fn alloc(length: u32) -> u32 {
    if length as usize > CHUNK_MAX {
        return 0;
    }
    addr_of!(CHUNK) as u32
}

/// One chunk of the input: 0 if it was taken.
#[unsafe(no_mangle)]
extern "C" fn step(at: u32, length: u32) -> u32 {
    step_chunk(given(at, length))
}

/// Where the output is: its address in the upper half, its length in the lower.
#[unsafe(no_mangle)]
extern "C" fn output() -> u64 {
    finish();
    // One call at a time, and no threads.
    (addr_of!(OUTPUT) as u64) << 32 | unsafe { WRITTEN } as u64
}

/// The bytes that the host wrote.
fn given(at: u32, length: u32) -> &'static [u8] {
    // The host writes where `alloc` said, and nothing else refers to it during a call.
    unsafe { core::slice::from_raw_parts(at as *const u8, length as usize) }
}

/// Appends bytes to the output; whether they fitted.
fn put(bytes: &[u8]) -> bool {
    // One call at a time, and no threads.
    unsafe {
        let free = OUTPUT_MAX - WRITTEN;
        if bytes.len() > free {
            return false;
        }
        let to = (addr_of_mut!(OUTPUT) as *mut u8).add(WRITTEN);
        let mut index = 0;
        while index < bytes.len() {
            *to.add(index) = bytes[index];
            index += 1;
        }
        WRITTEN += bytes.len();
    }
    true
}

/// Begins the output anew.
#[allow(dead_code)]
fn clear() {
    // One call at a time, and no threads.
    unsafe { WRITTEN = 0 }
}

/// The little-endian number of eight bytes at a place.
#[allow(dead_code)]
fn number(bytes: &[u8], at: usize) -> u64 {
    let mut value = 0;
    let mut index = 0;
    while index < 8 {
        value |= (bytes[at + index] as u64) << (8 * index);
        index += 1;
    }
    value
}

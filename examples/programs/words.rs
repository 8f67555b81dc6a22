//! How often each word stands in a text that is cut into shards.
//!
//! A chunk is a shard of text; a word is a run of ASCII letters and digits, in lower case, of at most 32 bytes (longer ones are cut
//! there). The output is a line `word count` for each word, in the order of the words' bytes, so that outputs of several runs
//! are merged by adding. At most 8,192 words: a shard with more is refused.
#![no_std]

include!("abi.rs");

const WORDS_MAX: usize = 8_192;
const SLOTS: usize = 16_384;
const LETTERS_MAX: usize = 32;

#[derive(Clone, Copy)]
struct Word {
    letters: [u8; LETTERS_MAX],
    length: u8,
    count: u64,
}

const NONE: Word = Word { letters: [0; LETTERS_MAX], length: 0, count: 0 };

static mut WORDS: [Word; WORDS_MAX] = [NONE; WORDS_MAX];
/// Places of words by their hash, one more than the index; 0 is free.
static mut PLACES: [u16; SLOTS] = [0; SLOTS];
static mut COUNT: usize = 0;

fn step_chunk(chunk: &[u8]) -> u32 {
    let mut word = NONE;
    let mut index = 0;
    while index <= chunk.len() {
        let byte = if index < chunk.len() { chunk[index] } else { b' ' };
        if byte.is_ascii_alphanumeric() {
            if (word.length as usize) < LETTERS_MAX {
                word.letters[word.length as usize] = byte.to_ascii_lowercase();
                word.length += 1;
            }
        } else if word.length > 0 {
            word.count = 1;
            if !add(&word) {
                return 2;
            }
            word = NONE;
        }
        index += 1;
    }
    0
}

/// Adds the output of another run.
#[unsafe(no_mangle)]
extern "C" fn merge(at: u32, length: u32) -> u32 {
    let answer = given(at, length);
    let mut word = NONE;
    let mut is_count = false;
    let mut index = 0;
    while index < answer.len() {
        let byte = answer[index];
        if byte == b'\n' {
            if !add(&word) {
                return 2;
            }
            word = NONE;
            is_count = false;
        } else if byte == b' ' {
            is_count = true;
        } else if is_count {
            word.count = word.count.wrapping_mul(10).wrapping_add(byte.wrapping_sub(b'0') as u64);
        } else if (word.length as usize) < LETTERS_MAX {
            word.letters[word.length as usize] = byte;
            word.length += 1;
        }
        index += 1;
    }
    0
}

/// Adds to the count of a word; false if there are too many words.
fn add(word: &Word) -> bool {
    let words = unsafe { &mut *addr_of_mut!(WORDS) };
    let places = unsafe { &mut *addr_of_mut!(PLACES) };
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut index = 0;
    while index < LETTERS_MAX {
        hash = (hash ^ word.letters[index] as u64).wrapping_mul(0x0100_0000_01b3);
        index += 1;
    }
    let mut slot = hash as usize % SLOTS;
    while places[slot] != 0 {
        let known = &mut words[(places[slot] - 1) as usize % WORDS_MAX];
        if order(known, word) == 0 {
            known.count = known.count.wrapping_add(word.count);
            return true;
        }
        slot = (slot + 1) % SLOTS;
    }
    let count = unsafe { COUNT };
    if count == WORDS_MAX {
        return false;
    }
    words[count] = *word;
    places[slot] = count as u16 + 1;
    unsafe { COUNT = count + 1 };
    true
}

/// Below, equal or above 0 as the first word stands before, with or after the second.
fn order(first: &Word, second: &Word) -> i32 {
    let mut index = 0;
    while index < LETTERS_MAX {
        if first.letters[index] != second.letters[index] {
            return first.letters[index] as i32 - second.letters[index] as i32;
        }
        index += 1;
    }
    0
}

/// Writes the words in order: a heap of their indices is taken down.
fn finish() {
    clear();
    let words = unsafe { &*addr_of!(WORDS) };
    let count = unsafe { COUNT };
    let heap = unsafe { &mut *addr_of_mut!(PLACES) };
    // The table of places is not needed any more: the output ends a run.
    let mut index = 0;
    while index < count {
        heap[index] = index as u16;
        index += 1;
    }
    let mut root = count / 2;
    while root > 0 {
        root -= 1;
        sift(heap, words, root, count);
    }
    let mut left = count;
    while left > 1 {
        left -= 1;
        heap.swap(0, left);
        sift(heap, words, 0, left);
    }
    index = 0;
    while index < count {
        let word = &words[heap[index] as usize % WORDS_MAX];
        put(&word.letters[..(word.length as usize).min(LETTERS_MAX)]);
        put(b" ");
        put_decimal(word.count);
        put(b"\n");
        index += 1;
    }
}

/// Lets a word sink until it stands above those below it.
fn sift(heap: &mut [u16; SLOTS], words: &[Word; WORDS_MAX], mut root: usize, count: usize) {
    let at = |heap: &[u16; SLOTS], index: usize| heap[index % SLOTS] as usize % WORDS_MAX;
    loop {
        let mut child = 2 * root + 1;
        if child >= count {
            return;
        }
        if child + 1 < count && order(&words[at(heap, child)], &words[at(heap, child + 1)]) < 0 {
            child += 1;
        }
        if order(&words[at(heap, root)], &words[at(heap, child)]) >= 0 {
            return;
        }
        heap.swap(root % SLOTS, child % SLOTS);
        root = child;
    }
}

fn put_decimal(mut value: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at % 20] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 || at == 0 {
            break;
        }
    }
    put(&digits[at.min(20)..]);
}

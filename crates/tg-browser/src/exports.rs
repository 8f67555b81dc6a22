//! The functions that a page calls. An instance has one session: the page makes room for each input, writes it there, and
//! takes the steps in order. A trap ends the instance and nothing else.
#![expect(
    unsafe_code,
    reason = "an exported name is an unsafe attribute; no function here is unsafe"
)]

use std::cell::RefCell;

use crate::session::{PageInput, VerifySession, VerifyStep};

thread_local! {
    static SESSION: RefCell<VerifySession> = RefCell::new(VerifySession::default());
}

/// Makes room for an input ([`PageInput::numbered`]) of so many bytes; gives where it begins, or 0 if it is too large.
#[unsafe(no_mangle)]
extern "C" fn room(input: u32, bytes: u32) -> *mut u8 {
    SESSION.with_borrow_mut(|session| {
        let input = PageInput::numbered(input);
        let room = input.and_then(|input| session.room(input, bytes as usize));
        room.map_or(std::ptr::null_mut(), |bytes| bytes.as_mut_ptr())
    })
}

/// Takes a step ([`VerifyStep::numbered`]); gives 1 if it found nothing wrong. The answer says what it found.
#[unsafe(no_mangle)]
extern "C" fn step(number: u32) -> u32 {
    SESSION.with_borrow_mut(|session| {
        VerifyStep::numbered(number).map_or(0, |step| u32::from(session.step(step)))
    })
}

/// Where the answer of the last step begins.
#[unsafe(no_mangle)]
extern "C" fn answer() -> *const u8 {
    SESSION.with_borrow(|session| session.answer().as_ptr())
}

/// How many bytes of UTF-8 it has.
#[unsafe(no_mangle)]
extern "C" fn answer_bytes() -> u32 {
    SESSION.with_borrow(|session| u32::try_from(session.answer().len()).unwrap_or(0))
}

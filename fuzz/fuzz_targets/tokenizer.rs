//! A `tokenizer.json`, what it makes of texts, and texts of what it makes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tg_text::fuzz::tokenizer(bytes);
});

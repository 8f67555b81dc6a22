//! Bodies, forms and queries of the OpenAI routes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tg_api::fuzz::openai_body(bytes);
    tg_api::fuzz::openai_form(bytes);
});

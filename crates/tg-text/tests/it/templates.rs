//! Chat templates make of conversations what Jinja2 makes of them with transformers' settings: `tests/data/templates.py` wrote
//! the expected texts with Jinja2 3.1.6.

use serde_json::Value;
use tg_text::{ChatLine, ChatTemplate, TemplateError};

const CASES: &str = include_str!("../data/templates.json");

#[test]
fn templates_write_what_jinja2_writes() {
    let cases: Value = serde_json::from_str(CASES).unwrap();
    let conversations = cases["conversations"].as_array().unwrap();
    let templates = cases["templates"].as_array().unwrap();
    assert!(templates.len() >= 14 && conversations.len() == 3);
    for case in templates {
        let (name, source) = (&case["name"], case["template"].as_str().unwrap());
        let (begin, end) = ("<s>".to_owned(), "</s>".to_owned());
        let template = ChatTemplate::read(source.to_owned(), begin, end).unwrap();
        let expected = case["expected"].as_array().unwrap();
        for (turns, expected) in conversations.iter().zip(expected) {
            let turns = turns.as_array().unwrap();
            let line = |turn: &'_ Value| -> (String, String) {
                let word = |index: usize| turn[index].as_str().unwrap().to_owned();
                (word(0), word(1))
            };
            let words: Vec<(String, String)> = turns.iter().map(line).collect();
            let lines: Vec<ChatLine<'_>> = words
                .iter()
                .map(|(role, content)| ChatLine {
                    role,
                    name: None,
                    content,
                })
                .collect();
            let got = template.render(&lines);
            match (got, expected["text"].as_str()) {
                (Ok(got), Some(text)) => assert_eq!(got, text, "{name}"),
                (Err(TemplateError::Refused { reason }), None) => {
                    assert_eq!(Some(reason.as_str()), expected["refused"].as_str());
                }
                (got, expected) => panic!("{name}: {got:?}, {expected:?}"),
            }
        }
    }
}

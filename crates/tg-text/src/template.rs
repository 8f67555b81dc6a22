//! Conversations in the form that a model was trained on: the chat template of a Hugging Face folder.
//!
//! A template is a program in Jinja that makes one text of messages. It comes from the operator's own disk; what it is given
//! comes from strangers. It runs with as many steps and bytes as [`TEMPLATE_STEPS_MAX`] and [`TEXT_BYTES_MAX`] say, reaches no
//! file and no clock, and sees what transformers gives its templates: `messages`, `bos_token`, `eos_token`,
//! `add_generation_prompt` (true) and `raise_exception`. Blocks are trimmed as there (`trim_blocks`, `lstrip_blocks`), and
//! methods of Python's strings, lists and dictionaries are those of `minijinja-contrib`.

use std::io::{self, Write};

use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, Error, ErrorKind, context};
use minijinja_contrib::pycompat::unknown_method_callback;

use serde::Serialize as _;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

use crate::tokenizer::TEXT_BYTES_MAX;

/// Largest template.
pub const TEMPLATE_BYTES_MAX: usize = 256 << 10;

/// Most steps of a template for one conversation: a thousand messages take a template of Llama some 100,000.
pub const TEMPLATE_STEPS_MAX: u64 = 2_000_000;

/// A template, and the names of the tokens that it writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatTemplate {
    source: String,
    begin: String,
    end: String,
}

/// A message of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct ChatLine<'a> {
    /// Who speaks: system, user or assistant.
    pub role: &'a str,
    /// The speaker's name, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'a str>,
    /// What is said.
    pub content: &'a str,
}

/// Why a template makes no text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// It has more bytes than are read.
    #[error("the chat template has {bytes} bytes, at most {TEMPLATE_BYTES_MAX} are read")]
    TooLarge {
        /// Its bytes.
        bytes: usize,
    },
    /// It is no template.
    #[error("the chat template cannot be read: {problem}")]
    Malformed {
        /// Why, in the library's words.
        problem: String,
    },
    /// It refuses the conversation, in its own words: roles that do not take turns, a system message where it takes none.
    #[error("the model's chat template refuses the messages: {reason}")]
    Refused {
        /// Why.
        reason: String,
    },
    /// It fails at the conversation, or takes too many steps or bytes.
    #[error("the model's chat template fails: {problem}")]
    Failed {
        /// Why, in the library's words.
        problem: String,
    },
}

impl ChatTemplate {
    /// A template with the names of the tokens that begin and end a text, empty where a tokenizer has none.
    ///
    /// # Errors
    /// If it is too large or not Jinja.
    pub fn read(source: String, begin: String, end: String) -> Result<Self, TemplateError> {
        let bytes = source.len();
        if bytes > TEMPLATE_BYTES_MAX {
            return Err(TemplateError::TooLarge { bytes });
        }
        let template = Self { source, begin, end };
        let mut all = environment();
        let read = all.add_template(NAME, &template.source);
        read.map_err(|error| TemplateError::Malformed {
            problem: chain(&error),
        })?;
        Ok(template)
    }

    /// The text of a conversation that the assistant goes on with. It holds the special tokens by their names: it is made
    /// tokens of without further ones ([`TextTokenizer::encode_whole`](crate::TextTokenizer::encode_whole)).
    ///
    /// # Errors
    /// If the template refuses the messages, fails, or takes too many steps or bytes.
    pub fn render(&self, lines: &[ChatLine<'_>]) -> Result<String, TemplateError> {
        let mut all = environment();
        let failed = |error: &Error| match refusal(error) {
            Some(reason) => TemplateError::Refused { reason },
            None => TemplateError::Failed {
                problem: chain(error),
            },
        };
        all.add_template(NAME, &self.source)
            .map_err(|error| failed(&error))?;
        let template = all.get_template(NAME).map_err(|error| failed(&error))?;
        let given = context! {
            messages => lines,
            bos_token => self.begin,
            eos_token => self.end,
            add_generation_prompt => true,
        };
        let mut text = BoundedText(Vec::new());
        let written = template.render_captured_to(given, &mut text);
        written.map(drop).map_err(|error| failed(&error))?;
        // It was written in whole strings.
        String::from_utf8(text.0).map_err(|error| TemplateError::Failed {
            problem: error.to_string(),
        })
    }
}

const NAME: &str = "chat_template";

/// Marks what a template says itself among the errors of the library.
const REFUSED: &str = "\u{0}refused: ";

fn environment<'source>() -> Environment<'source> {
    let mut all = Environment::new();
    all.set_trim_blocks(true);
    all.set_lstrip_blocks(true);
    all.set_fuel(Some(TEMPLATE_STEPS_MAX));
    all.set_unknown_method_callback(unknown_method_callback);
    all.add_filter("tojson", to_json);
    all.add_function(
        "raise_exception",
        |reason: String| -> Result<Value, Error> {
            let marked = format!("{REFUSED}{reason}");
            Err(Error::new(ErrorKind::InvalidOperation, marked))
        },
    );
    all
}

/// A value as Python's `json.dumps` writes it: a space after commas and colons, letters as they are.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the library gives arguments so"
)]
fn to_json(value: &Value, options: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = options.get("indent")?;
    for name in ["ensure_ascii", "sort_keys", "separators"] {
        // Letters are never escaped, and the rest is for tools, which are not given.
        let _ignored: Option<Value> = options.get(name)?;
    }
    options.assert_all_used()?;
    let mut bytes = Vec::new();
    let written = match indent.filter(|it| *it <= INDENT_MAX) {
        Some(indent) => {
            let spaces = " ".repeat(indent);
            let form = PrettyFormatter::with_indent(spaces.as_bytes());
            value.serialize(&mut Serializer::with_formatter(&mut bytes, form))
        }
        None => value.serialize(&mut Serializer::with_formatter(&mut bytes, PythonJson)),
    };
    let failed =
        |error: &dyn std::fmt::Display| Error::new(ErrorKind::BadSerialization, error.to_string());
    written.map_err(|error| failed(&error))?;
    String::from_utf8(bytes).map_err(|error| failed(&error))
}

/// Largest indentation of JSON.
const INDENT_MAX: usize = 16;

/// Python's separators.
struct PythonJson;

impl PythonJson {
    fn comma<W: ?Sized + Write>(writer: &mut W, first: bool) -> io::Result<()> {
        match first {
            true => Ok(()),
            false => writer.write_all(b", "),
        }
    }
}

impl Formatter for PythonJson {
    fn begin_array_value<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        Self::comma(writer, first)
    }

    fn begin_object_key<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        Self::comma(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

/// What a template said when it refused.
fn refusal(error: &Error) -> Option<String> {
    let mut at: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = at {
        let own = error.downcast_ref::<Error>().and_then(Error::detail);
        if let Some(reason) = own.and_then(|text| text.strip_prefix(REFUSED)) {
            return Some(reason.to_owned());
        }
        at = error.source();
    }
    None
}

/// An error and what caused it, in one line.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut at = std::error::Error::source(error);
    while let Some(error) = at {
        text = format!("{text}: {error}");
        at = error.source();
    }
    text
}

/// A text that does not grow above what is made tokens of.
struct BoundedText(Vec<u8>);

impl Write for BoundedText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > TEXT_BYTES_MAX {
            let text = format!("the text has more than {TEXT_BYTES_MAX} bytes");
            return Err(io::Error::other(text));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn line<'a>(role: &'a str, content: &'a str) -> ChatLine<'a> {
        ChatLine {
            role,
            name: None,
            content,
        }
    }

    fn read(source: &str) -> ChatTemplate {
        ChatTemplate::read(source.to_owned(), "<s>".to_owned(), "</s>".to_owned()).unwrap()
    }

    /// The form of Qwen and of many others.
    const CHATML: &str = "{% for message in messages %}\n    {{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}\n{%- endfor %}\n{%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n' }}\n{%- endif %}";

    /// Llama 2's, with a system message in the first one of the user, roles that take turns, and Python's `strip`.
    const TURNS: &str = "{% if messages[0]['role'] == 'system' %}{% set system = '<<SYS>>\\n' + messages[0]['content'] | trim + '\\n<</SYS>>\\n\\n' %}{% set messages = messages[1:] %}{% else %}{% set system = '' %}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if loop.index0 == 0 %}{% set content = system + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}";

    #[test]
    fn messages_become_the_text_that_the_template_says() {
        let lines = [line("system", "Be brief."), line("user", "Hark!")];
        let text = read(CHATML).render(&lines).unwrap();
        assert_eq!(
            text,
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHark!<|im_end|>\n<|im_start|>assistant\n"
        );
        let lines = [
            line("system", " Be brief. "),
            line("user", "Hark!"),
            line("assistant", " Who? "),
            line("user", "I."),
        ];
        assert_eq!(
            read(TURNS).render(&lines).unwrap(),
            "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHark! [/INST] Who? </s><s>[INST] I. [/INST]"
        );
    }

    #[test]
    fn what_a_template_refuses_is_said_in_its_words() {
        let lines = [line("user", "a"), line("user", "b")];
        let refused = read(TURNS).render(&lines).unwrap_err();
        let reason = "Conversation roles must alternate user/assistant/user/assistant/...";
        assert_eq!(
            refused,
            TemplateError::Refused {
                reason: reason.to_owned()
            }
        );
    }

    #[test]
    fn templates_that_are_none_or_have_no_end_are_errors() {
        let read = |source: String| ChatTemplate::read(source, String::new(), String::new());
        let malformed = read("{% for %}".to_owned()).unwrap_err();
        assert!(matches!(malformed, TemplateError::Malformed { .. }));
        let large = read("x".repeat(TEMPLATE_BYTES_MAX + 1)).unwrap_err();
        assert!(matches!(large, TemplateError::TooLarge { .. }));
        let loops =
            "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";
        let writes = "{% for a in range(100000) %}{{ messages[0].content }}{% endfor %}";
        for source in [loops, writes, "{{ messages[0].content.no_such_method() }}"] {
            let long = "x".repeat(1_000);
            let failed = read(source.to_owned())
                .unwrap()
                .render(&[line("user", &long)]);
            assert!(
                matches!(failed, Err(TemplateError::Failed { .. })),
                "{failed:?}"
            );
        }
    }
}

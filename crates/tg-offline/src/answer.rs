//! An answer as people read it: reals in the order of the model's file, with its name, shape and class.

use std::fmt::Write;
use tg_ir::tensor::top_class;
use tg_ir::{Answer, OutputPort};
use tg_sdk::dto::AnswerDto;

/// Values of an output that are printed; `--output` and `--json` give all.
const SHOWN: usize = 16;

/// All outputs of an answer as they are shown.
pub trait ShownAnswer {
    /// A line for each output of each inference; `raw`: its integers, as they are stored.
    fn lines(&self, raw: bool) -> Vec<String>;
    /// The outputs of the first inference for clients of the API; none if the program does not say what they are.
    fn dtos(&self) -> Vec<AnswerDto>;
    /// Name, shape, reals, and what they choose, for each output of each inference; nothing if the program does not say.
    fn json(&self) -> serde_json::Value;
}

impl ShownAnswer for [Answer<'_>] {
    fn lines(&self, raw: bool) -> Vec<String> {
        let several = self.len() > 1;
        let of_output = |(index, answer): (usize, &Answer<'_>)| match answer.port() {
            Some(port) if !raw => answer.each().map(|values| line_of(port, &values)).collect(),
            port => {
                let name = match port {
                    _ if !several => String::new(),
                    Some(port) => format!(" {}", port.name.escape_debug()),
                    None => format!(" {index}"),
                };
                let stored = answer.stored();
                stored.map(|stored| raw_line(&name, stored)).collect()
            }
        };
        in_turn(self.iter().enumerate().map(of_output).collect())
    }

    fn dtos(&self) -> Vec<AnswerDto> {
        let of_output = |answer: &Answer<'_>| {
            let (port, values) = (answer.port()?, answer.each().next()?);
            Some(AnswerDto {
                name: port.name.clone(),
                shape: port.shape.clone(),
                values: values.iter().map(|&value| port.real(value)).collect(),
                label: port.label(&values).map(str::to_owned),
            })
        };
        self.iter().filter_map(of_output).collect()
    }

    fn json(&self) -> serde_json::Value {
        let of_output = |answer: &Answer<'_>| {
            let port = answer.port()?;
            let each = answer.each().map(|values| {
                serde_json::json!({
                    "name": port.name, "shape": port.shape, "scale": port.scale, "zero": port.zero,
                    "values": values.iter().map(|&value| port.real(value)).collect::<Vec<f64>>(),
                    "greatest": top_class(&values), "label": port.label(&values),
                })
            });
            Some(each.collect())
        };
        let outputs: Option<Vec<Vec<serde_json::Value>>> = self.iter().map(of_output).collect();
        outputs.map_or(serde_json::Value::Null, |outputs| in_turn(outputs).into())
    }
}

/// What each output has for each inference, as each inference has for each output.
fn in_turn<T>(outputs: Vec<Vec<T>>) -> Vec<T> {
    let inferences = outputs.iter().map(Vec::len).max().unwrap_or(0);
    let mut outputs: Vec<_> = outputs.into_iter().map(Vec::into_iter).collect();
    let mut all = Vec::new();
    for _ in 0..inferences {
        all.extend(outputs.iter_mut().filter_map(Iterator::next));
    }
    all
}

fn line_of(port: &OutputPort, values: &[i32]) -> String {
    let mut text = format!("output {}", port.name.escape_debug());
    if !port.shape.is_empty() {
        let _infallible = write!(text, " {:?}", port.shape);
    }
    let shown = values.iter().take(SHOWN);
    let shown: Vec<String> = shown.map(|&value| number(port.real(value))).collect();
    let _infallible = write!(text, ": {}", shown.join(", "));
    if let Some(more) = values.len().checked_sub(SHOWN).filter(|&more| more > 0) {
        let _infallible = write!(text, " and {more} more");
    }
    let label = port.label(values).map(str::escape_debug);
    match (top_class(values), label) {
        (Some(top), Some(label)) if values.len() > 1 => {
            let _infallible = write!(text, "; greatest at index {top} ({label})");
        }
        (Some(top), None) if values.len() > 1 => {
            let _infallible = write!(text, "; greatest at index {top}");
        }
        (_, Some(label)) => {
            let _infallible = write!(text, " ({label})");
        }
        _ => {}
    }
    text
}

fn raw_line(name: &str, stored: &[i32]) -> String {
    let shown = &stored[..stored.len().min(SHOWN)];
    let more = stored.len() - shown.len();
    let more = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let top = top_class(stored).unwrap_or(0);
    format!("output{name} {shown:?}{more}; greatest at index {top}")
}

/// A real with six significant digits.
pub fn number(value: f64) -> String {
    let magnitude = value.abs();
    if value == 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e9).contains(&magnitude) {
        return format!("{value:.5e}");
    }
    let before = magnitude.log10().floor() as i32;
    let decimals = usize::try_from(5 - before).unwrap_or(0);
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_six_digits() {
        let cases = [
            (0.0, "0"),
            (-0.076_412_345, "-0.0764123"),
            (1.0, "1"),
            (12.5, "12.5"),
            (123_456_789.0, "123456789"),
            (-3.000_000_1, "-3"),
            (1.5e-7, "1.50000e-7"),
            (2e12, "2.00000e12"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn inferences_come_one_after_the_other() {
        let outputs = vec![vec!["boxes 0", "boxes 1"], vec!["scores 0", "scores 1"]];
        let all = ["boxes 0", "scores 0", "boxes 1", "scores 1"];
        assert_eq!(in_turn(outputs), all);
        assert_eq!(
            raw_line(" 1", &[3, 4]),
            "output 1 [3, 4]; greatest at index 1"
        );
    }

    #[test]
    fn an_answer_names_its_class_and_nothing_of_a_name_reaches_the_terminal() {
        let port = OutputPort {
            name: "scores\u{1b}[2J".to_owned(),
            scale: 0.25,
            zero: -2,
            shape: vec![1, 3],
            order: vec![0, 1],
            labels: ["cat", "dog", "eel"].map(str::to_owned).to_vec(),
        };
        let line = line_of(&port, &[-2, 6, 0]);
        assert_eq!(
            line,
            "output scores\\u{1b}[2J [1, 3]: 0, 2, 0.5; greatest at index 1 (dog)"
        );
    }
}

//! How lists look in a terminal.

use tg_types::Amount;

/// Rows of text under headers, columns aligned by their widest cell.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headers.
    pub fn new(headers: &[&str]) -> Self {
        Self {
            rows: vec![headers.iter().map(|&header| header.to_owned()).collect()],
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let cell =
            |row: &Vec<String>, column: usize| row.get(column).map_or(0, |it| it.chars().count());
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                self.rows
                    .iter()
                    .map(|row| cell(row, column))
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        for (index, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (text, width) in row.iter().zip(&widths) {
                line.push_str(&format!("{text:<width$}  "));
            }
            let end = if index + 1 < self.rows.len() {
                "\n"
            } else {
                ""
            };
            write!(f, "{}{end}", line.trim_end())?;
        }
        Ok(())
    }
}

/// An amount with at most six decimals, rounded to nearest, for people. JSON has every digit.
pub fn short(amount: Amount) -> String {
    const UNITS_PER_MILLIONTH: u128 = 1_000_000_000_000;
    let millionths = amount.get().saturating_add(UNITS_PER_MILLIONTH / 2) / UNITS_PER_MILLIONTH;
    if millionths == 0 && amount != Amount::ZERO {
        return "<0.000001".to_owned();
    }
    Amount::new(millionths.saturating_mul(UNITS_PER_MILLIONTH)).to_string()
}

/// The first and last digits of an id, enough to tell ids of one list apart.
pub fn brief(id: impl std::fmt::Display) -> String {
    let text = id.to_string();
    if text.len() <= 14 || !text.is_ascii() {
        return text;
    }
    format!("{}..{}", &text[..8], &text[text.len() - 4..])
}

/// The first digits of an id, enough for commands that take the beginning of one.
pub fn brief_prefix(id: impl std::fmt::Display) -> String {
    let text = id.to_string();
    text.get(..14).map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["name", "price"]);
        table.row(vec!["a".to_owned(), "1".to_owned()]);
        table.row(vec!["longer".to_owned(), "23".to_owned()]);
        assert_eq!(table.to_string(), "name    price\na       1\nlonger  23");
    }

    #[test]
    fn amounts_are_short() {
        let check = |units: u128, expected: &str| assert_eq!(short(Amount::new(units)), expected);
        check(0, "0");
        check(1, "<0.000001");
        check(1_500_000_000_000_000_000, "1.5");
        check(1_000_000_499_999_999_999, "1");
        check(1_000_000_500_000_000_000, "1.000001");
    }

    #[test]
    fn ids_are_brief() {
        assert_eq!(brief("0x0123456789abcdef0123"), "0x012345..0123");
        assert_eq!(brief("0x01"), "0x01");
    }
}

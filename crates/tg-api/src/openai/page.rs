//! Pages of lists, as OpenAI has them.

use serde_json::{Value, json};

use super::error::OpenAiError;

/// Most bytes of a query.
const QUERY_BYTES_MAX: usize = 1_024;

/// What of a list is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListPage {
    after: Option<String>,
    limit: usize,
    more: Vec<(String, String)>,
}

impl ListPage {
    /// Reads a query with at most so many items a page; `more` are the other fields that are taken.
    pub(super) fn read(
        query: Option<&str>,
        most: usize,
        more: &[&str],
    ) -> Result<Self, OpenAiError> {
        let query = query.unwrap_or_default();
        if query.len() > QUERY_BYTES_MAX {
            return Err(OpenAiError::invalid("query", "the query is too long"));
        }
        let mut page = Self {
            after: None,
            limit: most,
            more: Vec::new(),
        };
        for field in query.split('&').filter(|field| !field.is_empty()) {
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            match name {
                "after" => page.after = Some(value.to_owned()),
                "limit" => {
                    let limit = value.parse().ok().filter(|it| (1..=most).contains(it));
                    page.limit = limit.ok_or_else(|| {
                        OpenAiError::invalid("limit", format!("`limit` is 1 to {most}"))
                    })?;
                }
                "order" if more.contains(&"order") && value == "desc" => {}
                name if name != "order" && more.contains(&name) => {
                    page.more.push((name.to_owned(), value.to_owned()));
                }
                name => return Err(OpenAiError::unsupported(name)),
            }
        }
        Ok(page)
    }

    /// Another field of the query.
    pub(super) fn filter(&self, name: &str) -> Option<&str> {
        let found = self.more.iter().find(|(field, _)| field == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The page of items with their ids.
    pub(super) fn list<'a>(&self, items: impl Iterator<Item = (&'a str, Value)>) -> Value {
        let mut items = items.peekable();
        if let Some(after) = &self.after {
            // Of an id that is not there nothing comes after.
            let _until = items.by_ref().find(|(id, _)| id == after);
        }
        let mut data = Vec::new();
        while data.len() < self.limit
            && let Some((_, item)) = items.next()
        {
            data.push(item);
        }
        let id = |item: Option<&Value>| item.map(|item| item["id"].clone());
        json!({
            "object": "list", "first_id": id(data.first()), "last_id": id(data.last()),
            "has_more": items.peek().is_some(), "data": data,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn pages_follow_each_other() {
        let items = || {
            ["a", "b", "c"]
                .into_iter()
                .map(|id| (id, json!({ "id": id })))
        };
        let ids = |query: &str| {
            let page = ListPage::read(Some(query), 10, &["purpose"]).unwrap();
            let list = page.list(items());
            let ids = list["data"].as_array().unwrap().iter();
            let ids: String = ids.map(|item| item["id"].as_str().unwrap()).collect();
            (ids, list["has_more"] == true)
        };
        assert_eq!(ids(""), ("abc".to_owned(), false));
        assert_eq!(ids("limit=2&purpose=x"), ("ab".to_owned(), true));
        assert_eq!(ids("limit=2&after=b"), ("c".to_owned(), false));
        assert_eq!(ids("after=z"), (String::new(), false));
        for wrong in ["limit=0", "limit=11", "limit=x", "before=a", "order=asc"] {
            assert!(ListPage::read(Some(wrong), 10, &["purpose"]).is_err());
        }
        assert!(ListPage::read(Some("order=desc"), 10, &["order"]).is_ok());
        assert!(ListPage::read(Some(&"a".repeat(2_000)), 10, &[]).is_err());
    }
}

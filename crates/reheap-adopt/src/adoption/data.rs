//! What a TOML file says, without how it says it: two files are compared by this.

use std::collections::BTreeMap;
use toml_edit::{Array, Document, Item, TableLike, Value};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Data {
    Table(BTreeMap<String, Data>),
    Array(Vec<Data>),
    /// With its type.
    Scalar(String),
}

impl Data {
    /// Of a whole file; none if it is not TOML.
    pub(super) fn parse(contents: &str) -> Option<Self> {
        let document = Document::parse(contents).ok()?;
        Some(Self::of_table(document.as_table()))
    }

    /// Of a value as it is written.
    pub(super) fn of_written(value: &str) -> Option<Self> {
        match Self::parse(&format!("it = {value}"))? {
            Self::Table(mut table) => table.remove("it"),
            _ => None,
        }
    }

    pub(super) fn of(item: &Item) -> Option<Self> {
        match item {
            Item::None => None,
            Item::Value(value) => Some(Self::of_value(value)),
            Item::Table(table) => Some(Self::of_table(table)),
            Item::ArrayOfTables(tables) => {
                let tables = tables.iter().map(|table| Self::of_table(table));
                Some(Self::Array(tables.collect()))
            }
        }
    }

    fn of_table(table: &dyn TableLike) -> Self {
        let entries = table
            .iter()
            .filter_map(|(key, item)| Some((key.to_owned(), Self::of(item)?)));
        Self::Table(entries.collect())
    }

    fn of_array(array: &Array) -> Self {
        Self::Array(array.iter().map(Self::of_value).collect())
    }

    fn of_value(value: &Value) -> Self {
        Self::Scalar(match value {
            Value::Array(array) => return Self::of_array(array),
            Value::InlineTable(table) => return Self::of_table(table),
            Value::String(text) => format!("{:?}", text.value()),
            Value::Integer(number) => number.value().to_string(),
            Value::Float(number) => format!("{:?}", number.value()),
            Value::Boolean(switch) => switch.value().to_string(),
            Value::Datetime(time) => time.value().to_string(),
        })
    }

    /// This data with `value` at the end of the path; none if something is there.
    pub(super) fn with(mut self, path: &[String], value: Self) -> Option<Self> {
        let (last, tables) = path.split_last()?;
        let mut at = &mut self;
        for key in tables {
            let Self::Table(table) = at else { return None };
            let empty = || Self::Table(BTreeMap::new());
            at = table.entry(key.clone()).or_insert_with(empty);
        }
        let Self::Table(table) = at else { return None };
        table.insert(last.clone(), value).is_none().then_some(self)
    }

    /// This data without what the path leads to, and without tables that are empty then.
    pub(super) fn without(mut self, path: &[String]) -> Self {
        if let (Self::Table(table), Some((first, rest))) = (&mut self, path.split_first()) {
            if rest.is_empty() {
                table.remove(first);
            } else if let Some(inside) = table.remove(first) {
                table.insert(first.clone(), inside.without(rest));
            }
        }
        self
    }

    /// This data without empty tables.
    pub(super) fn pruned(self) -> Self {
        let Self::Table(table) = self else {
            return self;
        };
        let kept = table.into_iter().map(|(key, value)| (key, value.pruned()));
        let empty = Self::Table(BTreeMap::new());
        Self::Table(kept.filter(|(_, value)| *value != empty).collect())
    }
}

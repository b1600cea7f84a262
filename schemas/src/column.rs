//! Columns as data: one table gives the Arrow schema, the spec page and the golden file.

use arrow_schema::{DataType, Field, FieldRef, Schema, TimeUnit};
use std::sync::Arc;

/// One column of a format.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name; a unit, where it has one, stands last.
    pub name: &'static str,
    /// What a value is.
    pub kind: Kind,
    /// Whether a value may be unknown.
    pub nullable: bool,
    /// What it means, for the spec page.
    pub doc: &'static str,
}

/// What a value of a column is. Kept to types that DuckDB, pyarrow, pandas and Spark all read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// True or false.
    Bool,
    /// A small count, a status, an index.
    Int32,
    /// A count, an offset or a duration.
    Int64,
    /// A block hash. Spark shows it as `decimal(20,0)`.
    UInt64,
    /// A ratio or a sampling parameter.
    Float64,
    /// UTF-8 text.
    Text,
    /// Bytes as they were on the wire. No dictionary, no statistics.
    Bytes,
    /// An instant: microseconds, adjusted to UTC.
    TimestampUs,
    /// A list of small counts.
    Int32List,
    /// A list of offsets or sizes.
    Int64List,
    /// A list of block hashes.
    UInt64List,
    /// A list of texts.
    TextList,
    /// Header fields in wire order: `list<struct<name: text, value: text>>`.
    Headers,
    /// Message digests: `list<struct<role: text, bytes: int64, hash: uint64>>`.
    Segments,
    /// Blobs: `list<struct<offset: int64, hash: text, bytes: int64, mime: text, data: bytes>>`.
    Blobs,
}

impl Kind {
    /// Our own word for the type: Arrow's `Display` has changed between majors.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::UInt64 => "uint64",
            Self::Float64 => "float64",
            Self::Text => "text",
            Self::Bytes => "bytes",
            Self::TimestampUs => "timestamp(us, UTC)",
            Self::Int32List => "list<int32>",
            Self::Int64List => "list<int64>",
            Self::UInt64List => "list<uint64>",
            Self::TextList => "list<text>",
            Self::Headers => "list<struct<name: text, value: text>>",
            Self::Segments => "list<struct<role: text, bytes: int64, hash: uint64>>",
            Self::Blobs => {
                "list<struct<offset: int64, hash: text, bytes: int64, mime: text, data: bytes>>"
            }
        }
    }

    fn data_type(self) -> DataType {
        let list = |item: DataType| DataType::List(Arc::new(Field::new("item", item, false)));
        let fields = |fields: Vec<Field>| list(DataType::Struct(fields.into()));
        match self {
            Self::Bool => DataType::Boolean,
            Self::Int32 => DataType::Int32,
            Self::Int64 => DataType::Int64,
            Self::UInt64 => DataType::UInt64,
            Self::Float64 => DataType::Float64,
            Self::Text => DataType::Utf8,
            Self::Bytes => DataType::Binary,
            Self::TimestampUs => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::Int32List => list(DataType::Int32),
            Self::Int64List => list(DataType::Int64),
            Self::UInt64List => list(DataType::UInt64),
            Self::TextList => list(DataType::Utf8),
            Self::Headers => fields(vec![
                Field::new("name", DataType::Utf8, false),
                Field::new("value", DataType::Utf8, false),
            ]),
            Self::Segments => fields(vec![
                Field::new("role", DataType::Utf8, false),
                Field::new("bytes", DataType::Int64, false),
                Field::new("hash", DataType::UInt64, false),
            ]),
            Self::Blobs => fields(vec![
                Field::new("offset", DataType::Int64, false),
                Field::new("hash", DataType::Utf8, false),
                Field::new("bytes", DataType::Int64, false),
                Field::new("mime", DataType::Utf8, false),
                Field::new("data", DataType::Binary, true),
            ]),
        }
    }
}

impl Column {
    /// A column whose value is always known.
    pub const fn required(name: &'static str, kind: Kind, doc: &'static str) -> Self {
        Self {
            name,
            kind,
            nullable: false,
            doc,
        }
    }

    /// A column whose value may be unknown: NULL, never 0.
    pub const fn optional(name: &'static str, kind: Kind, doc: &'static str) -> Self {
        Self {
            name,
            kind,
            nullable: true,
            doc,
        }
    }

    pub(crate) fn field(&self) -> FieldRef {
        Arc::new(Field::new(self.name, self.kind.data_type(), self.nullable))
    }
}

/// The Arrow schema of some columns.
pub fn schema(columns: &[Column]) -> Schema {
    Schema::new(columns.iter().map(Column::field).collect::<Vec<_>>())
}

/// The columns as the table that the spec page quotes.
pub fn render(columns: &[Column]) -> String {
    let mut table = String::from("| column | type | null | meaning |\n|---|---|---|---|\n");
    for column in columns {
        let null = if column.nullable { "yes" } else { "no" };
        table += &format!(
            "| `{}` | {} | {null} | {} |\n",
            column.name,
            column.kind.name(),
            column.doc
        );
    }
    table
}

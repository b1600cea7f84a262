//! Rows to Parquet and back: footer keys, version gate, atomic writes, encryption.
//!
//! A file is written beside its final name (`.tmp`), synced, renamed, and its directory synced:
//! whatever ends in `.parquet` is whole. Readers accept every older version of a format and
//! refuse a newer one by name.

use crate::column::Column;
use arrow_array::RecordBatch;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) mod arrays;
mod contain;
mod durable;
mod format;
pub mod key;
mod reader;
mod types;
mod writer;

pub use durable::{read_json, rename_durably, sync_parent, write_atomically};
pub use format::{Error, Format};
pub use reader::{READ_BATCH_ROWS, Reader};
pub use types::types;
pub use writer::{ROW_GROUP_BYTES_MAX, ROW_GROUP_ROWS_MAX, Sealed, Writer};

/// The footer key that names the format, as in `capture/1`.
pub const FORMAT_KEY: &str = "format";

/// The bytes of one body column, taken out of some rows, in their order.
pub type TakenBytes = (&'static str, Vec<Option<Vec<u8>>>);

/// A row of one of our formats.
pub trait Row: Serialize + DeserializeOwned {
    /// The format that this build writes.
    const FORMAT: Format;
    /// Its columns.
    fn columns() -> &'static [Column];
    /// Makes rows of a batch, where a format has a faster way than serde; none where serde must
    /// look, and say what is wrong.
    fn from_columns(_batch: &RecordBatch) -> Option<Vec<Self>> {
        None
    }
    /// Makes a batch of rows, where a format has a faster way than serde; none where serde must.
    fn to_columns(_rows: &[Self]) -> Option<RecordBatch> {
        None
    }
    /// Takes wide byte columns out of rows that are about to be written: they go to the file
    /// without another copy. A format without such columns takes none.
    fn take_bytes(_rows: &mut [Self]) -> Vec<TakenBytes> {
        Vec::new()
    }
}

//! Rows to Parquet and back: footer keys, version gate, atomic writes.
//!
//! A file is written beside its final name (`.tmp`), synced, renamed, and its directory synced:
//! whatever ends in `.parquet` is whole. Readers accept every older version of a format and
//! refuse a newer one by name.

use crate::column::{Column, Kind};
use arrow_schema::FieldRef;
use parquet::arrow::ArrowWriter;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fs::File;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

mod durable;
mod format;
mod types;

pub use durable::{read_json, rename_durably, sync_parent, write_atomically};
pub use format::{Error, Format};
pub use types::types;

use durable::aside;

/// The footer key that names the format, as in `capture/1`.
pub const FORMAT_KEY: &str = "format";

/// Rows in a row group at most; a group is also cut by [`ROW_GROUP_BYTES_MAX`].
pub const ROW_GROUP_ROWS_MAX: usize = 64 * 1024;

/// Encoded bytes of the row group in progress at most: what a writer holds in memory.
pub const ROW_GROUP_BYTES_MAX: usize = 16 << 20;

/// Rows of a batch handed to a reader's caller at once, at most.
pub const READ_BATCH_ROWS: usize = 4 * 1024;

/// Bytes of such a batch, about: rows with bodies come in smaller batches. 4,096 bodies of
/// 400 KB would be 1.6 GB.
const READ_BATCH_BYTES: u64 = 32 << 20;

/// A row of one of our formats.
pub trait Row: Serialize + DeserializeOwned {
    /// The format that this build writes.
    const FORMAT: Format;
    /// Its columns.
    fn columns() -> &'static [Column];
}

/// A Parquet file that has been finished: footer written, synced, renamed.
///
/// Only [`Writer::finish`] makes one, so a function that takes a `Sealed` cannot be handed a file
/// that a crash cut short.
#[derive(Debug)]
pub struct Sealed {
    /// Where it is.
    pub path: PathBuf,
    /// Rows in it.
    pub rows: u64,
    /// Its size.
    pub bytes: u64,
}

/// Writes rows of one format to a file that appears whole or not at all.
#[derive(Debug)]
pub struct Writer<T: Row> {
    path: PathBuf,
    aside: PathBuf,
    fields: Vec<FieldRef>,
    writer: ArrowWriter<File>,
    rows: u64,
    row: PhantomData<T>,
}

impl<T: Row> Writer<T> {
    /// Starts a file that will be `path`.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let aside = aside(path);
        let file = File::create(&aside).map_err(|cause| Error::io(&aside, cause))?;
        let schema = crate::column::schema(T::columns());
        let fields = schema.fields().to_vec();
        let writer = ArrowWriter::try_new(file, schema.into(), Some(properties(T::columns())))
            .map_err(|cause| encode_error(path, &cause))?;
        Ok(Self {
            path: path.to_owned(),
            aside,
            fields,
            writer,
            rows: 0,
            row: PhantomData,
        })
    }

    /// Adds rows; they are durable only after [`Writer::finish`].
    pub fn write(&mut self, rows: &[T]) -> Result<(), Error> {
        if rows.is_empty() {
            return Ok(());
        }
        let batch = serde_arrow::to_record_batch(&self.fields, &rows)
            .map_err(|cause| encode_error(&self.path, &cause))?;
        self.writer
            .write(&batch)
            .map_err(|cause| self.io_or_encode(&cause))?;
        self.rows += rows.len() as u64;
        if self.bytes_in_progress() >= ROW_GROUP_BYTES_MAX {
            self.writer
                .flush()
                .map_err(|cause| self.io_or_encode(&cause))?;
        }
        Ok(())
    }

    /// Bytes held in memory for the row group in progress.
    pub fn bytes_in_progress(&self) -> usize {
        self.writer
            .in_progress_size()
            .max(self.writer.memory_size())
    }

    /// Writes the footer, syncs, renames, syncs the directory.
    pub fn finish(mut self, footer: &[(String, String)]) -> Result<Sealed, Error> {
        self.writer
            .append_key_value_metadata(KeyValue::new(FORMAT_KEY.to_owned(), T::FORMAT.to_string()));
        for (key, value) in footer {
            self.writer
                .append_key_value_metadata(KeyValue::new(key.clone(), value.clone()));
        }
        let path = self.path.clone();
        let file = self
            .writer
            .into_inner()
            .map_err(|cause| match io_cause(&cause) {
                Some(io) => Error::io(&path, io),
                None => encode_error(&path, &cause),
            })?;
        file.sync_all()
            .map_err(|cause| Error::io(&self.aside, cause))?;
        let bytes = file
            .metadata()
            .map_err(|cause| Error::io(&self.aside, cause))?
            .len();
        rename_durably(&self.aside, &self.path)?;
        Ok(Sealed {
            path: self.path,
            rows: self.rows,
            bytes,
        })
    }

    fn io_or_encode(&self, cause: &parquet::errors::ParquetError) -> Error {
        match io_cause(cause) {
            Some(io) => Error::io(&self.path, io),
            None => encode_error(&self.path, cause),
        }
    }
}

fn encode_error(path: &Path, cause: &dyn std::fmt::Display) -> Error {
    Error::Encode {
        subject: path.display().to_string(),
        cause: cause.to_string(),
    }
}

/// A full disk must be told apart from a bug: it is the host's problem.
fn io_cause(error: &parquet::errors::ParquetError) -> Option<std::io::Error> {
    let parquet::errors::ParquetError::External(inner) = error else {
        return None;
    };
    let io = inner.downcast_ref::<std::io::Error>()?;
    Some(
        io.raw_os_error()
            .map_or_else(|| io.kind().into(), std::io::Error::from_raw_os_error),
    )
}

fn properties(columns: &[Column]) -> WriterProperties {
    let level = ZstdLevel::try_new(3).unwrap_or_default();
    let mut builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS_MAX))
        .set_created_by("truetape".to_owned());
    for column in columns {
        let path = ColumnPath::from(column.name);
        // Bodies are wide and unique: a dictionary or page statistics would copy them (apache/arrow-rs#4973).
        if column.kind == Kind::Bytes {
            builder = builder
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_statistics_enabled(path, EnabledStatistics::None);
        }
    }
    builder.build()
}

/// Reads rows of one format, batch by batch.
#[derive(Debug)]
pub struct Reader<T: Row> {
    subject: String,
    batches: ParquetRecordBatchReader,
    footer: BTreeMap<String, String>,
    rows: u64,
    row: PhantomData<T>,
}

impl<T: Row> Reader<T> {
    /// Opens a file, and refuses it when it is not of `T`'s format or of a newer version.
    ///
    /// Only the columns that `T` names are read. A nullable column that an older file lacks is
    /// read as NULL.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let subject = path.display().to_string();
        let file = File::open(path).map_err(|cause| Error::io(path, cause))?;
        let unreadable = |cause: &dyn std::fmt::Display| Error::Unreadable {
            subject: subject.clone(),
            cause: cause.to_string(),
        };
        let builder =
            ParquetRecordBatchReaderBuilder::try_new(file).map_err(|cause| unreadable(&cause))?;
        let footer = footer_pairs(builder.metadata().file_metadata().key_value_metadata());
        T::FORMAT.gate(&subject, footer.get(FORMAT_KEY).map(String::as_str))?;
        let rows = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
        let groups = builder.metadata().row_groups().iter();
        let sizes = groups.map(|group| u64::try_from(group.total_byte_size()).unwrap_or(0));
        let batch_rows = batch_rows(rows, sizes.fold(0, u64::saturating_add));
        let present: Vec<&str> = T::columns().iter().map(|column| column.name).collect();
        let mask = ProjectionMask::columns(builder.parquet_schema(), present);
        let batches = builder
            .with_projection(mask)
            .with_batch_size(batch_rows)
            .build()
            .map_err(|cause| unreadable(&cause))?;
        Ok(Self {
            subject,
            batches,
            footer,
            rows,
            row: PhantomData,
        })
    }

    /// Rows in the file.
    pub fn row_count(&self) -> u64 {
        self.rows
    }

    /// The footer's keys and values.
    pub fn footer(&self) -> &BTreeMap<String, String> {
        &self.footer
    }

    /// Reads all rows.
    pub fn read_all(self) -> Result<Vec<T>, Error> {
        let mut rows = Vec::with_capacity(usize::try_from(self.rows).unwrap_or(0));
        for batch in self {
            rows.extend(batch?);
        }
        Ok(rows)
    }
}

impl<T: Row> Iterator for Reader<T> {
    type Item = Result<Vec<T>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.batches.next()?;
        let rows = batch
            .map_err(|cause| cause.to_string())
            .and_then(|batch| serde_arrow::from_record_batch(&batch).map_err(|e| e.to_string()));
        Some(rows.map_err(|cause| Error::Unreadable {
            subject: self.subject.clone(),
            cause,
        }))
    }
}

/// Rows of a batch of a file that holds so many rows of so many uncompressed bytes.
fn batch_rows(rows: u64, bytes: u64) -> usize {
    let row_bytes = (bytes / rows.max(1)).max(1);
    usize::try_from(READ_BATCH_BYTES / row_bytes).map_or(1, |n| n.clamp(1, READ_BATCH_ROWS))
}

fn footer_pairs(pairs: Option<&Vec<KeyValue>>) -> BTreeMap<String, String> {
    pairs
        .into_iter()
        .flatten()
        .filter_map(|pair| Some((pair.key.clone(), pair.value.clone()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{READ_BATCH_ROWS, batch_rows};

    #[test]
    fn batches_of_wide_rows_are_short() {
        for (rows, bytes, wanted) in [
            (0, 0, READ_BATCH_ROWS),
            (10, 1_000, READ_BATCH_ROWS),
            (1_000, 400_000_000, 83),
            (2, u64::MAX, 1),
        ] {
            assert_eq!(
                batch_rows(rows, bytes),
                wanted,
                "{rows} rows of {bytes} bytes"
            );
        }
    }
}

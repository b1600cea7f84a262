//! Rows to a file, in bounded memory.

use super::arrays::byte_array;
use super::durable::aside;
use super::key::Key;
use super::{Error, FORMAT_KEY, Row, TakenBytes, rename_durably};
use crate::column::{Column, Kind};
use arrow_array::types::BinaryType;
use arrow_array::{ArrayRef, BinaryArray, RecordBatch};
use arrow_buffer::{Buffer, OffsetBuffer};
use arrow_schema::{ArrowError, FieldRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use std::fs::File;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows in a row group at most; a group is also cut by [`ROW_GROUP_BYTES_MAX`].
pub const ROW_GROUP_ROWS_MAX: usize = 64 * 1024;

/// Encoded bytes of the row group in progress, after which it is cut.
///
/// It is asked after each batch, so a writer holds at most this and one batch beside its rows. With
/// the recorder's batches (8 MiB of bodies, or one row of two bodies of 16 MiB), while one is
/// encoded: 16 MiB of pages, 32 MiB of bodies (the row's own memory, not a copy), one page of
/// 16 MiB that is being packed, and what it packs to: under 96 MiB where nothing can be packed, and
/// under 40 MiB with batches of small rows.
pub const ROW_GROUP_BYTES_MAX: usize = 16 << 20;

/// Values after which a page's size is looked at: bodies of 16 KiB make pages of about 1 MiB, and
/// not of a whole batch.
const PAGE_CHECK_ROWS: usize = 64;

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
        Self::create_with(path, None)
    }

    /// The same, encrypted under a key where there is one.
    pub fn create_with(path: &Path, key: Option<&Key>) -> Result<Self, Error> {
        let aside = aside(path);
        let file = File::create(&aside).map_err(|cause| Error::io(&aside, cause))?;
        let schema = crate::column::schema(T::columns());
        let fields = schema.fields().to_vec();
        let properties =
            properties(T::columns(), key).map_err(|cause| encode_error(path, &cause))?;
        let writer = ArrowWriter::try_new(file, schema.into(), Some(properties))
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
        self.put(rows, Vec::new())
    }

    /// The same with rows that nobody needs afterwards: their bodies are not copied.
    pub fn write_owned(&mut self, mut rows: Vec<T>) -> Result<(), Error> {
        let taken = T::take_bytes(&mut rows);
        self.put(&rows, taken)
    }

    fn put(&mut self, rows: &[T], taken: Vec<TakenBytes>) -> Result<(), Error> {
        if rows.is_empty() {
            return Ok(());
        }
        let batch = match T::to_columns(rows) {
            Some(batch) => batch,
            None => serde_arrow::to_record_batch(&self.fields, &rows)
                .map_err(|cause| encode_error(&self.path, &cause))?,
        };
        let batch = with_bytes(batch, taken).map_err(|cause| encode_error(&self.path, &cause))?;
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

/// Puts columns that were taken out of the rows in the place of the empty ones.
fn with_bytes(batch: RecordBatch, taken: Vec<TakenBytes>) -> Result<RecordBatch, ArrowError> {
    if taken.is_empty() {
        return Ok(batch);
    }
    let (schema, mut columns, _) = batch.into_parts();
    for (name, values) in taken {
        let at = schema.index_of(name)?;
        if let Some(column) = columns.get_mut(at) {
            *column = bytes_array(values)?;
        }
    }
    RecordBatch::try_new(schema, columns)
}

/// One row, which is how bodies of many megabytes come, is an array as it is.
fn bytes_array(mut values: Vec<Option<Vec<u8>>>) -> Result<ArrayRef, ArrowError> {
    if let [only @ Some(_)] = values.as_mut_slice() {
        let bytes = only.take().unwrap_or_default();
        let offsets = OffsetBuffer::from_lengths([bytes.len()]);
        let array = BinaryArray::try_new(offsets, Buffer::from_vec(bytes), None)?;
        return Ok(Arc::new(array));
    }
    let bodies = values.iter().map(Option::as_deref);
    let array = byte_array::<BinaryType>(bodies)
        .ok_or_else(|| ArrowError::OffsetOverflowError(values.len()))?;
    Ok(Arc::new(array))
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

fn properties(columns: &[Column], key: Option<&Key>) -> Result<WriterProperties, String> {
    let level = ZstdLevel::try_new(3).unwrap_or_default();
    let mut builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS_MAX))
        .set_write_batch_size(PAGE_CHECK_ROWS)
        .set_created_by("truetape".to_owned());
    if let Some(key) = key {
        builder = builder.with_file_encryption_properties(key.encryption()?);
    }
    for column in columns {
        let path = match column.kind {
            Kind::Bytes => ColumnPath::from(column.name),
            Kind::Blobs => {
                let leaf = [column.name, "list", "item", "data"];
                ColumnPath::new(leaf.map(str::to_owned).to_vec())
            }
            _ => continue,
        };
        // Bodies are wide and unique: a dictionary or page statistics would copy them (apache/arrow-rs#4973).
        builder = builder
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_statistics_enabled(path, EnabledStatistics::None);
    }
    Ok(builder.build())
}

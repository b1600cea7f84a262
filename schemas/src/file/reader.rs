//! A file to rows, batch by batch.

use super::contain::contained;
use super::key::{self, Keyring, Lookup};
use super::{Error, FORMAT_KEY, Row};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::file::metadata::KeyValue;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::marker::PhantomData;
use std::path::Path;

/// Rows of a batch handed to a reader's caller at once, at most.
pub const READ_BATCH_ROWS: usize = 4 * 1024;

/// Bytes of such a batch, about: rows with bodies come in smaller batches. 4,096 bodies of
/// 400 KB would be 1.6 GB.
const READ_BATCH_BYTES: u64 = 32 << 20;

/// Ends a file whose footer is encrypted.
const ENCRYPTED_MAGIC: &[u8; 4] = b"PARE";

/// Reads rows of one format, batch by batch.
#[derive(Debug)]
pub struct Reader<T: Row> {
    subject: String,
    /// None after an error: what it left behind is not read on.
    batches: Option<ParquetRecordBatchReader>,
    footer: BTreeMap<String, String>,
    rows: u64,
    row: PhantomData<T>,
}

impl<T: Row> Reader<T> {
    /// Opens a file, and refuses it when it is not of `T`'s format or of a newer version. An
    /// encrypted one opens with the keys of this process ([`key::install`]).
    ///
    /// Only the columns that `T` names are read. A nullable column that an older file lacks is
    /// read as NULL.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::open_with(path, key::installed())
    }

    /// The same with other keys.
    pub fn open_with(path: &Path, keys: &Keyring) -> Result<Self, Error> {
        let subject = path.display().to_string();
        let builder = builder(path, keys)?;
        let footer = footer_pairs(builder.metadata().file_metadata().key_value_metadata());
        T::FORMAT.gate(&subject, footer.get(FORMAT_KEY).map(String::as_str))?;
        let rows = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
        let groups = builder.metadata().row_groups().iter();
        let sizes = groups.map(|group| u64::try_from(group.total_byte_size()).unwrap_or(0));
        let batch_rows = batch_rows(rows, sizes.fold(0, u64::saturating_add));
        let present: Vec<&str> = T::columns().iter().map(|column| column.name).collect();
        let mask = ProjectionMask::columns(builder.parquet_schema(), present);
        let builder = builder.with_projection(mask).with_batch_size(batch_rows);
        let batches = contained(|| builder.build().map_err(|cause| cause.to_string()));
        let batches = batches.map_err(|cause| Error::Unreadable {
            subject: subject.clone(),
            cause,
        })?;
        Ok(Self {
            subject,
            batches: Some(batches),
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
        // As many as there are, and not as many as the footer says.
        let mut rows = Vec::new();
        for batch in self {
            rows.extend(batch?);
        }
        Ok(rows)
    }
}

impl<T: Row> Iterator for Reader<T> {
    type Item = Result<Vec<T>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut batches = self.batches.take()?;
        let rows = contained(|| {
            let Some(batch) = batches.next() else {
                return Ok(None);
            };
            let batch = batch.map_err(|cause| cause.to_string())?;
            let rows = match T::from_columns(&batch) {
                Some(rows) => rows,
                None => serde_arrow::from_record_batch(&batch).map_err(|e| e.to_string())?,
            };
            Ok(Some(rows))
        });
        match rows {
            Ok(None) => None,
            Ok(Some(rows)) => {
                self.batches = Some(batches);
                Some(Ok(rows))
            }
            Err(cause) => Some(Err(Error::Unreadable {
                subject: self.subject.clone(),
                cause,
            })),
        }
    }
}

/// Opens a file with the key that it names, where it is encrypted.
fn builder(path: &Path, keys: &Keyring) -> Result<ParquetRecordBatchReaderBuilder<File>, Error> {
    let subject = || path.display().to_string();
    let unreadable = |cause: String| Error::Unreadable {
        subject: subject(),
        cause,
    };
    let mut file = File::open(path).map_err(|cause| Error::io(path, cause))?;
    let encrypted = is_encrypted(&mut file).map_err(|cause| Error::io(path, cause))?;
    // Our types are told by Parquet's own schema. The Arrow schema that the writer adds is not read:
    // its decoder panics on what it does not know.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let open = |options| {
        contained(|| {
            ParquetRecordBatchReaderBuilder::try_new_with_options(file, options)
                .map_err(|cause| cause.to_string())
        })
    };
    if !encrypted {
        return open(options).map_err(unreadable);
    }
    let lookup = Lookup::new(keys);
    let properties = lookup.decryption().map_err(unreadable)?;
    open(options.with_file_decryption_properties(properties)).map_err(|cause| {
        match (lookup.missing(), lookup.found()) {
            (Some(key_id), _) => Error::NoKey {
                subject: subject(),
                key_id,
            },
            (None, Some(key_id)) => Error::Forged {
                subject: subject(),
                key_id,
            },
            (None, None) => unreadable(cause),
        }
    })
}

fn is_encrypted(file: &mut File) -> io::Result<bool> {
    let mut magic = [0; ENCRYPTED_MAGIC.len()];
    let length = file.metadata()?.len();
    let Some(at) = length.checked_sub(magic.len() as u64) else {
        return Ok(false);
    };
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut magic)?;
    Ok(&magic == ENCRYPTED_MAGIC)
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

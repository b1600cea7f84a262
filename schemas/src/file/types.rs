//! What a reader of another make sees in a file.

use super::Error;
use super::contain::contained;
use parquet::basic::{LogicalType, TimeUnit};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

/// The Parquet type of each leaf column, by its top-level name: `timestamp(micros, utc)`,
/// `integer(64, unsigned)`, `string`, or the physical type where no logical one is given.
///
/// A column of structs is named once for each leaf, as in `headers.list.item.name`.
pub fn types(path: &Path) -> Result<BTreeMap<String, String>, Error> {
    let file = File::open(path).map_err(|cause| Error::io(path, cause))?;
    let reader = contained(|| SerializedFileReader::new(file).map_err(|cause| cause.to_string()));
    let reader = reader.map_err(|cause| Error::Unreadable {
        subject: path.display().to_string(),
        cause,
    })?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let columns = schema.columns().iter().map(|column| {
        let parts = column.path().parts();
        let name = match parts {
            [name] | [name, _, _] => name.clone(),
            _ => parts.join("."),
        };
        let logical = column.logical_type_ref();
        (
            name,
            logical.map_or_else(|| column.physical_type().to_string().to_lowercase(), render),
        )
    });
    Ok(columns.collect())
}

fn render(logical: &LogicalType) -> String {
    match logical {
        LogicalType::Timestamp(kind) => {
            let unit = match kind.unit {
                TimeUnit::MILLIS => "millis",
                TimeUnit::MICROS => "micros",
                TimeUnit::NANOS => "nanos",
            };
            let zone = if kind.is_adjusted_to_u_t_c {
                "utc"
            } else {
                "local"
            };
            format!("timestamp({unit}, {zone})")
        }
        LogicalType::Integer(kind) => {
            let sign = if kind.is_signed { "signed" } else { "unsigned" };
            format!("integer({}, {sign})", kind.bit_width)
        }
        other => format!("{other:?}").to_lowercase(),
    }
}

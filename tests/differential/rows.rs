//! What the capture says of an exchange.

use crate::compare::Difference;
use crate::stage::{Came, mark};
use truetape_schemas::capture::Exchange;

/// What a proxy left.
pub(crate) struct Recorded {
    pub(crate) rows: Vec<Exchange>,
    pub(crate) code: Option<i32>,
    pub(crate) log: String,
}

/// What is wrong about the rows of an entry, and about how its proxy ended.
pub(crate) fn check(came: &Came, recorded: &Recorded) -> Vec<Difference> {
    let mut wrong = Vec::new();
    let mut add = |text: String| {
        wrong.push(Difference {
            key: "row".to_owned(),
            text,
        });
    };
    if recorded.code != Some(0) {
        add(format!(
            "the proxy ended with {:?}: {}",
            recorded.code, recorded.log
        ));
    }
    let Some(wanted) = &came.entry.row else {
        return wrong;
    };
    let mark = mark(&came.entry, came.protocol);
    let ends = |path: &str| path.ends_with(&mark) || path.contains(&format!("{mark}&"));
    let rows: Vec<&Exchange> = recorded.rows.iter().filter(|row| ends(&row.path)).collect();
    let count = usize::from(!wanted.is_empty());
    if rows.len() != count {
        add(format!("{} rows instead of {count}", rows.len()));
    }
    for row in rows.into_iter().take(count) {
        let columns = serde_json::to_value(row).unwrap();
        for (column, want) in wanted {
            let got = match columns.get(column) {
                Some(serde_json::Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
                None => "no such column".to_owned(),
            };
            if got != *want {
                add(format!("{column} is {got} instead of {want}"));
            }
        }
    }
    wrong
}

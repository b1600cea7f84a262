//! How well sessions are told without ids, on public traces whose sessions are known.
//!
//! The labels are hidden, the captures compiled as any other, and what was inferred is compared
//! with them: as the traces were taken, where one session follows the other, and with all sessions
//! begun at once, where nothing but the words can tell them apart.
//!
//! Read in this order: [`data`] (the traces), [`judge`] (right, wrong, missed), [`baseline`].
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a measurement that cannot go on ends here, and prints"
)]

mod baseline;
mod data;
mod judge;

use data::{Labelled, Timing};
use judge::Score;
use serde_json::{Value, json};
use std::path::Path;
use truetape_compiler::compile::{CompileOptions, compile};
use truetape_compiler::recipe::Recipe;
use truetape_schemas::set::store;
use truetape_testkit::eval::{Eval, Table};

/// Everything is taken, and no content is made.
const RECIPE: &str = "[select]\nmethod = \"all\"\n[content]\nkind = \"lengths\"";

fn main() {
    let eval = Eval::begin("eval-sessions");
    let mut table = Table::new(
        "Sessions told without ids",
        &[
            "traffic",
            "by",
            "requests",
            "sessions",
            "found",
            "precision",
            "recall",
            "pairs precision",
            "pairs recall",
            "input explained by parent",
            "by session",
            "of at most",
        ],
    );
    let mut figures = Vec::new();
    for source in data::SOURCES {
        for timing in [Timing::AsTraced, Timing::AtOnce] {
            let Some(labelled) = data::load(&source, timing) else {
                println!("{} is not at hand: it is not measured", source.path);
                continue;
            };
            let ours = inferred(&labelled);
            let blocks = judge::score(&labelled, &baseline::blocks(&labelled));
            for (by, score) in [("truetape", ours), ("blocks of 256", blocks)] {
                table.row(row(&source.name_at(timing), by, &score));
                figures.push(figures_of(&source.name_at(timing), by, &score));
            }
        }
    }
    println!("{}", table.markdown());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let path = eval
        .write(&root, &Value::from(figures))
        .expect("figures are written");
    println!("{}", path.display());
}

/// Compiles the traffic without its labels, and scores the set.
fn inferred(labelled: &Labelled) -> Score {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let capture = scratch.path().join("capture");
    data::write(labelled, &capture);
    let options = CompileOptions {
        captures: vec![capture],
        recipe: Recipe::parse(RECIPE).expect("the recipe is one"),
        store: scratch.path().join("store"),
        tags: Vec::new(),
        threads: 2,
    };
    let compiled = compile(&options).expect("the capture is compiled");
    let turns = store::turns(&compiled.dir).expect("the set is read");
    judge::score(labelled, &judge::ties_of(labelled, &turns))
}

fn row(name: &str, by: &str, score: &Score) -> Vec<String> {
    let mut cells = vec![name.to_owned(), by.to_owned()];
    let counts = [score.requests, score.sessions, score.found];
    cells.extend(counts.map(|count| count.to_string()));
    let shares = [
        score.precision,
        score.recall,
        score.pairs_precision,
        score.pairs_recall,
        score.explained,
        score.by_session,
        score.explainable,
    ];
    cells.extend(shares.map(|share| format!("{share:.3}")));
    cells
}

fn figures_of(name: &str, by: &str, score: &Score) -> Value {
    json!({
        "traffic": name, "by": by,
        "requests": score.requests, "sessions": score.sessions, "found": score.found,
        "precision": score.precision, "recall": score.recall,
        "pairs_precision": score.pairs_precision, "pairs_recall": score.pairs_recall,
        "explained_by_parent": score.explained, "explained_by_session": score.by_session,
        "explainable": score.explainable,
    })
}

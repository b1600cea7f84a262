//! What an evaluation leaves: a Markdown table for people, the same figures as JSON, and the machine
//! they were measured on.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A table; the first column names things, the others hold figures.
#[derive(Clone, Debug)]
pub struct Table {
    title: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(title: &str, columns: &[&str]) -> Self {
        Self {
            title: title.to_owned(),
            columns: columns.iter().map(|name| (*name).to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; what is missing at its end stays empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut cells: Vec<String> = cells.into_iter().collect();
        cells.resize(self.columns.len(), String::new());
        self.rows.push(cells);
    }

    /// The table as Markdown, with its title above it.
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rules: Vec<String> = (0..self.columns.len())
            .map(|column| if column == 0 { "---" } else { "---:" }.to_owned())
            .collect();
        let mut text = format!("{}\n\n", self.title);
        text.push_str(&line(&self.columns));
        text.push_str(&line(&rules));
        for row in &self.rows {
            text.push_str(&line(row));
        }
        text
    }
}

/// A figure with as many digits as it bears.
pub fn figure(value: f64) -> String {
    match value {
        value if !value.is_finite() => String::new(),
        value if value.abs() >= 100.0 => format!("{value:.0}"),
        value if value.abs() >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// One evaluation while it runs: the load of the machine is read at its start and at its end.
#[derive(Debug)]
pub struct Eval {
    name: String,
    load_at_start: String,
}

impl Eval {
    /// Begins one; its figures go to `target/eval/<name>.json`.
    pub fn begin(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            load_at_start: load(),
        }
    }

    /// Writes the figures with the machine's description, and says where they are.
    pub fn write(&self, root: &Path, figures: &Value) -> std::io::Result<PathBuf> {
        let directory = root.join("target").join("eval");
        std::fs::create_dir_all(&directory)?;
        let path = directory.join(format!("{}.json", self.name));
        let document = json!({
            "eval": self.name,
            "machine": self.machine(root),
            "figures": figures,
        });
        std::fs::write(&path, format!("{document:#}\n"))?;
        Ok(path)
    }

    /// The machine, as far as it says; what it does not say is null.
    pub fn machine(&self, root: &Path) -> Value {
        let cores = std::thread::available_parallelism().ok();
        json!({
            "cpu": proc_line("/proc/cpuinfo", "model name"),
            "cores": cores.map(std::num::NonZero::get),
            "memory": proc_line("/proc/meminfo", "MemTotal"),
            "kernel": first_line("/proc/sys/kernel/osrelease"),
            "load_at_start": self.load_at_start,
            "load_at_end": load(),
            "commit": said("git", &["-C", &root.to_string_lossy(), "describe", "--always", "--dirty"]),
        })
    }
}

/// A program: named by a variable, or found on the path.
pub fn program(name: &str, variable: &str) -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os(variable) {
        return Ok(PathBuf::from(path));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|program| program.is_file())
        .ok_or_else(|| format!("{name} is not on the path; set {variable}"))
}

/// Lines that a command that failed is quoted with.
const LINES_QUOTED: usize = 15;

/// Runs a command to its end, however long that takes: what it printed, or what it said last.
pub fn done(command: &mut Command) -> Result<String, String> {
    let shown = format!("{command:?}");
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|cause| format!("{shown}: {cause}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<&str> = said
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = lines.len().saturating_sub(LINES_QUOTED);
    let last = lines.get(last..).unwrap_or_default().join("\n");
    Err(format!("{shown}: {}\n{last}", output.status))
}

/// The first line that a program says about itself.
pub fn said(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().find(|line| !line.trim().is_empty())?;
    Some(line.trim().to_owned())
}

fn load() -> String {
    let text = first_line("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

fn first_line(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.lines().next()?.trim().to_owned())
}

fn proc_line(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Eval, Table, figure};
    use serde_json::json;

    #[test]
    fn a_table_is_markdown_and_short_rows_are_filled() {
        let mut table = Table::new("Costs", &["who", "us"]);
        table.row(["one".to_owned(), figure(1.234)]);
        table.row(["two".to_owned()]);
        assert_eq!(
            table.markdown(),
            "Costs\n\n| who | us |\n| --- | ---: |\n| one | 1.23 |\n| two |  |\n"
        );
    }

    #[test]
    fn figures_bear_three_digits_and_what_is_no_number_is_empty() {
        let shown = [12345.6, 123.4, 12.34, 1.234, f64::NAN].map(figure);
        assert_eq!(shown, ["12346", "123", "12.3", "1.23", ""]);
    }

    #[test]
    fn figures_are_written_with_the_machine() {
        let root = tempfile::tempdir().unwrap();
        let path = Eval::begin("costs")
            .write(root.path(), &json!({"us": 1}))
            .unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        let found: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(found.pointer("/figures/us"), Some(&json!(1)));
        assert!(found.pointer("/machine/cores").unwrap().as_u64() > Some(0));
    }
}

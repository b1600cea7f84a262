//! The report of a run for people and for pipelines: its page in a real browser, the published
//! schema, a gate, and JUnit XML.

use crate::browser::{self, Browser};
use crate::support::truetape;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::path::Path;
use truetape_schemas::run;

/// The bound of the contract.
const PAGE_MAX_BYTES: u64 = 2 << 20;

/// Width of a narrow screen, in pixels.
const NARROW: u32 = 420;

/// Presses of Tab after which the focus has been everywhere.
const TABS_MAX: usize = 400;

/// Judges the directory of a run in every way that a user may.
pub(crate) fn check(run: &Path, store: &Path, scratch: &Path) {
    follows_the_schema(&run.join(run::FIDELITY));
    through_gates(run, scratch);
    let page = scratch.join("page.html");
    let report = [OsStr::new("report"), run.as_os_str()];
    let flags = [
        "--store".as_ref(),
        store.as_os_str(),
        "--html".as_ref(),
        page.as_os_str(),
    ];
    truetape(&[&report[..], &flags[..]].concat()).expect_code(0);
    // The page beside the run is the same: nothing that it shows is lost on disk.
    let own = std::fs::read_to_string(run.join(run::PAGE)).unwrap();
    assert_eq!(std::fs::read_to_string(&page).unwrap(), own);
    assert!(std::fs::metadata(&page).unwrap().len() <= PAGE_MAX_BYTES);
    in_a_browser(&page);
}

/// The document that is on disk, by the schema that is published.
pub(crate) fn follows_the_schema(path: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let schema = std::fs::read(root.join("schemas/spec/report-v1.schema.json")).unwrap();
    let schema: Value = serde_json::from_slice(&schema).unwrap();
    let report: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let id = schema["$id"].as_str().unwrap().to_owned();
    let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
    compiler.add_resource(&id, schema).unwrap();
    let index = compiler.compile(&id, &mut schemas).unwrap();
    if let Err(error) = schemas.validate(&report, index) {
        panic!("{}: {error:#}", path.display());
    }
}

/// A run on a busy machine may be invalid, and never lacks a set: gates that do not depend on the
/// machine.
fn through_gates(run: &Path, scratch: &Path) {
    let gate = scratch.join("gate.toml");
    let junit = scratch.join("junit.xml");
    let report = |text: &str| {
        std::fs::write(&gate, text).unwrap();
        truetape(&[
            OsStr::new("report"),
            run.as_os_str(),
            "--gate".as_ref(),
            gate.as_os_str(),
            "--junit".as_ref(),
            junit.as_os_str(),
            "--format".as_ref(),
            "json".as_ref(),
        ])
    };
    let open = report("must_pass = [\"run.set\", \"tokens\"]\n").expect_code(0);
    let said: Value = serde_json::from_str(&open.stdout).unwrap();
    assert_eq!(said["gate"]["open"], json!(true), "{}", said["gate"]);
    let xml = std::fs::read_to_string(&junit).unwrap();
    assert!(
        xml.contains("failures=\"0\"") && !xml.contains("<failure"),
        "{xml}"
    );

    // Half a minute has no dispersion over 60 s.
    let shut = report("must_pass = [\"arrivals.idc_60s\"]\n").expect_code(1);
    assert!(
        shut.stdout.contains("arrivals.idc_60s UNKNOWN"),
        "{}",
        shut.stdout
    );
    let xml = std::fs::read_to_string(&junit).unwrap();
    assert_eq!(xml.matches("<failure").count(), 1, "{xml}");
    report("must_pass = [\"arrivals.idc_60s\"]\nmay_be_unknown = [\"arrivals\"]\n").expect_code(0);
    report("[bounds]\nttft_ms = { p50 = 0 }\n").expect_code(1);

    let unread = report("must_pass = [\"*\"]\nmust = 1\n").expect_code(78);
    assert!(
        unread
            .stderr
            .contains("line 2: unknown field `must`, expected one of"),
        "{}",
        unread.stderr
    );
    report("").expect_code(78);
    std::fs::write(&gate, "must_pass = [\"*\"]\n").unwrap();
    let nowhere = [
        OsStr::new("report"),
        scratch.as_os_str(),
        "--gate".as_ref(),
        gate.as_os_str(),
    ];
    truetape(&nowhere).expect_code(65);
}

#[expect(clippy::print_stderr, reason = "what is not tested is said")]
fn in_a_browser(page: &Path) {
    let Some(program) = browser::installed() else {
        eprintln!("no chromium on the path: the page was not opened in a browser");
        return;
    };
    let mut browser = Browser::start(&program);
    browser.open(page);
    let count = |browser: &mut Browser, what: &str| {
        let counted = browser.value(&format!("document.querySelectorAll('{what}').length"));
        counted.as_u64().unwrap()
    };
    assert_eq!(count(&mut browser, "svg.chart"), 12);
    assert_eq!(count(&mut browser, "figure.missing"), 0);
    assert_eq!(count(&mut browser, ".points li"), 7);
    read_outs(&mut browser);
    // Anew: a browser goes on from where the focus was last.
    browser.open(page);
    keyboard(&mut browser);
    narrow_and_dark(&mut browser);
    let printed = browser.ask("Page.printToPDF", json!({"printBackground": true}));
    // `%PDF`, in base 64.
    assert!(printed["data"].as_str().unwrap().starts_with("JVBER"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Every chart says its values to the arrow keys.
fn read_outs(browser: &mut Browser) {
    let silent = browser.value(
        "[...document.querySelectorAll('svg.chart')].filter((chart) => {
           const said = chart.parentElement.querySelector('output');
           chart.focus();
           chart.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'}));
           const first = said.textContent;
           chart.dispatchEvent(new KeyboardEvent('keydown', {key: 'End'}));
           const several = chart.querySelectorAll('.hit').length > 1;
           return !first || !said.textContent || (several && said.textContent === first);
         }).map((chart) => chart.parentElement.id)",
    );
    assert_eq!(silent, json!([]));
}

/// Tab reaches every chart, every fold and every link, in the order of the page, and gets out again.
fn keyboard(browser: &mut Browser) {
    browser.value("document.activeElement.blur(); window.scrollTo(0, 0)");
    let focused = "(() => {
        const all = [...document.querySelectorAll('a[href], summary, [tabindex]')];
        return all.indexOf(document.activeElement);
    })()";
    let shown = "[...document.querySelectorAll('a[href], summary, [tabindex]')]
        .map((element, at) => element.checkVisibility() ? at : -1).filter((at) => at >= 0)";
    let wanted: Vec<i64> = serde_json::from_value(browser.value(shown)).unwrap();
    let mut reached = Vec::new();
    for _ in 0..TABS_MAX {
        browser.press("Tab", 9);
        let at = browser.value(focused).as_i64().unwrap();
        if at < 0 || reached.first() == Some(&at) {
            break;
        }
        reached.push(at);
    }
    assert_eq!(reached, wanted);
}

fn narrow_and_dark(browser: &mut Browser) {
    let size = json!({"width": NARROW, "height": 900, "deviceScaleFactor": 1, "mobile": false});
    browser.ask("Emulation.setDeviceMetricsOverride", size);
    // Beside a scroll bar the page has less than the screen.
    let beyond = browser
        .value("document.documentElement.scrollWidth - document.documentElement.clientWidth");
    assert_eq!(
        beyond,
        json!(0),
        "a narrow screen would have to be scrolled sideways"
    );
    let mut paper = |scheme: &str| {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        browser.ask("Emulation.setEmulatedMedia", features);
        browser.value("getComputedStyle(document.body).backgroundColor")
    };
    assert_ne!(paper("light"), paper("dark"));
}

//! What `deploy/` holds is read as those who use it will read it, and must agree with the product.

use super::{complain, root};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn page(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|cause| panic!("{name}: {cause}"))
}

/// The metrics that `docs/metrics.md` lists; the proxy's own test holds that page to the code.
fn metrics() -> BTreeSet<String> {
    let page = page("docs/metrics.md");
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `truetape_"));
    rows.filter_map(|row| row.split('`').next())
        .map(|name| format!("truetape_{name}"))
        .collect()
}

/// The metrics that a text names.
fn named(text: &str) -> BTreeSet<String> {
    let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    text.split(word)
        .filter(|word| word.starts_with("truetape_"))
        .map(str::to_owned)
        .collect()
}

/// The long flags of the proxy, from its own help.
pub(super) fn flags() -> BTreeSet<String> {
    let source = page("proxy/src/cli.rs");
    let fields = source.lines().filter_map(|line| {
        let name = line.trim().strip_prefix("pub ")?.split(':').next()?;
        Some(format!("--{}", name.replace('_', "-")))
    });
    fields.collect()
}

#[test]
fn the_dashboard_asks_for_metrics_that_exist() {
    let dashboard: Value = serde_json::from_str(&page("deploy/grafana-dashboard.json")).unwrap();
    let known = metrics();
    assert!(known.len() > 20, "docs/metrics.md lists {}", known.len());
    let panels = dashboard["panels"].as_array().unwrap();
    let mut complaints = Vec::new();
    let (mut ids, mut asked) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels {
        let title = panel["title"].as_str().unwrap_or_default();
        if title.is_empty() || !ids.insert(panel["id"].to_string()) {
            complaints.push(format!("panel {panel}: no title, or its id is taken"));
        }
        if panel["type"] == "row" {
            continue;
        }
        let targets = panel["targets"].as_array().map_or(&[][..], Vec::as_slice);
        if targets.is_empty() || panel["fieldConfig"]["defaults"]["unit"].is_null() {
            complaints.push(format!("{title}: no query or no unit"));
        }
        for target in targets {
            let names = named(target["expr"].as_str().unwrap_or_default());
            complaints.extend(
                names
                    .difference(&known)
                    .map(|name| format!("{title}: {name} does not exist")),
            );
            asked.extend(names);
        }
    }
    let shown = asked.len();
    assert!(shown > 15, "the dashboard shows {shown} metrics");
    complain(&complaints);
}

#[test]
fn the_alerts_ask_for_metrics_that_exist_and_name_a_section_of_the_runbook() {
    let text = page("deploy/alerts.yaml");
    let alerts = &yaml_rust2::YamlLoader::load_from_str(&text).unwrap()[0];
    let known = metrics();
    let headings: BTreeSet<String> = page("docs/runbook.md")
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .map(|heading| {
            heading
                .to_lowercase()
                .replace(' ', "-")
                .replace([',', '.'], "")
        })
        .collect();
    let mut complaints = Vec::new();
    let mut rules = 0;
    for rule in alerts["groups"][0]["rules"].as_vec().unwrap() {
        rules += 1;
        let name = rule["alert"].as_str().unwrap();
        let asked = named(rule["expr"].as_str().unwrap());
        if asked.is_empty() || !asked.is_subset(&known) {
            complaints.push(format!("{name}: asks for {asked:?}"));
        }
        let runbook = rule["annotations"]["runbook"].as_str().unwrap_or_default();
        let section = runbook.strip_prefix("docs/runbook.md#").unwrap_or_default();
        if !headings.contains(section) {
            complaints.push(format!("{name}: {runbook:?} is no section of the runbook"));
        }
    }
    assert!(rules > 0);
    complain(&complaints);
}

/// The sections of a unit, each key with its values.
fn unit(text: &str) -> BTreeMap<String, BTreeMap<String, Vec<String>>> {
    let mut sections = BTreeMap::<String, BTreeMap<String, Vec<String>>>::new();
    let mut current = String::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'))
        {
            name.clone_into(&mut current);
            continue;
        }
        let (key, value) = line
            .split_once('=')
            .unwrap_or_else(|| panic!("{line:?} is no setting"));
        let keys = sections.entry(current.clone()).or_default();
        keys.entry(key.to_owned())
            .or_default()
            .push(value.to_owned());
    }
    sections
}

#[test]
fn the_unit_outlives_the_drain_and_keeps_the_disk_to_itself() {
    let unit = unit(&page("deploy/truetape-proxy.service"));
    let names: Vec<&str> = unit.keys().map(String::as_str).collect();
    assert_eq!(names, ["Install", "Service", "Unit"]);
    let service = |key: &str| unit["Service"][key][0].as_str();
    for (key, value) in [
        ("Restart", "always"),
        ("DynamicUser", "yes"),
        ("ProtectSystem", "strict"),
        ("UMask", "0077"),
        ("KillMode", "mixed"),
    ] {
        assert_eq!(service(key), value, "{key}");
    }
    assert!(service("ExecReload").contains("-HUP"));
    let settings: toml::Table = page("deploy/proxy.toml").parse().unwrap();
    assert_eq!(settings["drain_timeout"].as_str(), Some("10m"));
    let stop: u64 = service("TimeoutStopSec")
        .trim_end_matches('s')
        .parse()
        .unwrap();
    assert!(stop >= 600 + 20, "a drain of 10 m and 20 s to seal");
    let out = settings["out"].as_str().unwrap();
    assert!(out.starts_with(&format!("/var/lib/{}/", service("StateDirectory"))));
    let known = flags();
    for key in settings.keys() {
        let flag = format!("--{}", key.replace('_', "-"));
        assert!(
            known.contains(&flag),
            "deploy/proxy.toml: {key} is no setting"
        );
    }
}

/// The instructions of a Dockerfile, continued lines joined.
fn instructions(text: &str) -> Vec<(String, String)> {
    let text = text.replace("\\\n", " ");
    let lines = text.lines().map(str::trim);
    let said = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    said.map(|line| {
        let (instruction, rest) = line.split_once(' ').unwrap();
        (instruction.to_owned(), rest.trim().to_owned())
    })
    .collect()
}

#[test]
fn the_images_are_empty_but_for_one_static_binary_of_a_user_without_rights() {
    for (name, package, binary) in [
        ("deploy/Dockerfile", "truetape-proxy", "/truetape-proxy"),
        ("deploy/Dockerfile.ship", "truetape", "/truetape"),
    ] {
        let said = instructions(&page(name));
        let of = |wanted: &str| -> Vec<&str> {
            let matching = said.iter().filter(|(instruction, _)| instruction == wanted);
            matching.map(|(_, rest)| rest.as_str()).collect()
        };
        let from = of("FROM");
        assert_eq!(from.last(), Some(&"scratch"), "{name}");
        // musl: static by itself. A tag that moves would make the image another one tomorrow.
        assert!(
            from[0].contains("alpine") && !from[0].contains("latest"),
            "{name}"
        );
        let build = of("RUN").join(" ");
        assert!(
            build.contains(&format!("-p {package} ")) && build.contains("--locked"),
            "{name}"
        );
        assert_eq!(of("ENTRYPOINT"), [format!("[\"{binary}\"]")], "{name}");
        assert_eq!(of("USER"), ["65532:65532"], "{name}");
        assert_eq!(of("STOPSIGNAL"), ["SIGTERM"], "{name}");
        let copies = of("COPY").join("\n");
        assert!(
            copies.contains(&format!("--from=build {binary} {binary}")),
            "{name}"
        );
        let manifest: toml::Table = page("Cargo.toml").parse().unwrap();
        if build.contains("--profile sidecar") {
            let panic = manifest["profile"]["sidecar"].get("panic");
            assert_eq!(
                panic, None,
                "a bug in capture must not take the traffic down"
            );
        }
    }
}

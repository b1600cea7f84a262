//! The Kubernetes manifest: a native sidecar that is locked down, drains, and uses real settings.

use super::complain;
use super::deploy::{flags, page};
use yaml_rust2::{Yaml, YamlLoader};

fn documents() -> Vec<Yaml> {
    YamlLoader::load_from_str(&page("deploy/kubernetes.yaml")).unwrap()
}

fn pod() -> Yaml {
    let documents = documents();
    let deployment = documents
        .iter()
        .find(|one| one["kind"].as_str() == Some("Deployment"));
    deployment.unwrap()["spec"]["template"]["spec"].clone()
}

fn sidecar(name: &str) -> Yaml {
    let pod = pod();
    let containers = pod["initContainers"].as_vec().unwrap();
    let found = containers
        .iter()
        .find(|one| one["name"].as_str() == Some(name));
    found.unwrap_or_else(|| panic!("no sidecar {name}")).clone()
}

fn args(container: &Yaml) -> Vec<String> {
    let args = container["args"].as_vec().unwrap();
    args.iter()
        .map(|arg| arg.as_str().unwrap().to_owned())
        .collect()
}

/// Sidecars stop in the reverse of their order, and the last segment is sealed when the proxy stops.
#[test]
fn the_shipper_outlives_the_recorder() {
    let pod = pod();
    let containers = pod["initContainers"].as_vec().unwrap().iter();
    let names: Vec<&str> = containers.filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, ["truetape-ship", "truetape-proxy"]);
}

#[test]
fn both_sidecars_are_native_and_locked_down() {
    let mut complaints = Vec::new();
    for name in ["truetape-proxy", "truetape-ship"] {
        let container = sidecar(name);
        let context = &container["securityContext"];
        let mut want = |what: &str, holds: bool| {
            if !holds {
                complaints.push(format!("{name}: {what}"));
            }
        };
        want(
            "restartPolicy: Always",
            container["restartPolicy"].as_str() == Some("Always"),
        );
        for (key, value) in [
            ("runAsNonRoot", true),
            ("readOnlyRootFilesystem", true),
            ("allowPrivilegeEscalation", false),
        ] {
            want(key, context[key].as_bool() == Some(value));
        }
        let dropped = &context["capabilities"]["drop"][0];
        want("drops all capabilities", dropped.as_str() == Some("ALL"));
        let memory = &container["resources"]["limits"]["memory"];
        want("a memory limit", memory.as_str().is_some());
        want(
            "no CPU limit, which would throttle traffic",
            container["resources"]["limits"]["cpu"].is_badvalue(),
        );
        let image = container["image"].as_str().unwrap_or_default();
        let version = format!(":{}", env!("CARGO_PKG_VERSION"));
        want("an image of this version", image.ends_with(&version));
    }
    complain(&complaints);
}

#[test]
fn the_proxy_is_started_with_settings_that_exist_and_drains_within_the_grace() {
    let container = sidecar("truetape-proxy");
    let known = flags();
    let args = args(&container);
    for arg in &args {
        let name = arg.split('=').next().unwrap();
        assert!(known.contains(name), "{name} is no setting");
    }
    assert!(args.contains(&"--drain-timeout=10m".to_owned()));
    let grace = pod()["terminationGracePeriodSeconds"].as_i64().unwrap();
    assert!(
        grace > 600 + 20 + 15,
        "drain, seal, and the engine's preStop"
    );
    let environment = page("proxy/src/cli.rs");
    for variable in container["env"].as_vec().unwrap() {
        let name = variable["name"].as_str().unwrap();
        assert!(environment.contains(&format!("env = \"{name}\"")), "{name}");
    }
}

#[test]
fn probes_ask_pages_that_exist_and_readiness_is_not_the_recorders() {
    let container = sidecar("truetape-proxy");
    let path = |probe: &str| {
        let get = &container[probe]["httpGet"];
        assert_eq!(get["port"].as_str(), Some("admin"), "{probe}");
        get["path"].as_str().unwrap().to_owned()
    };
    assert_eq!(path("startupProbe"), "/livez");
    assert_eq!(path("livenessProbe"), "/livez");
    assert_eq!(path("readinessProbe"), "/readyz");
    let pages = page("proxy/src/admin.rs");
    assert!(pages.contains("\"/livez\"") && pages.contains("\"/readyz\""));
}

#[test]
fn ports_and_volumes_are_the_ones_that_are_named() {
    let documents = documents();
    let service = documents
        .iter()
        .find(|one| one["kind"].as_str() == Some("Service"))
        .unwrap();
    let target = service["spec"]["ports"][0]["targetPort"].as_str().unwrap();
    let container = sidecar("truetape-proxy");
    let ports = container["ports"].as_vec().unwrap();
    let taped = ports
        .iter()
        .find(|port| port["name"].as_str() == Some(target));
    let listen = format!(
        "--listen=0.0.0.0:{}",
        taped.unwrap()["containerPort"].as_i64().unwrap()
    );
    assert!(args(&container).contains(&listen));
    let pod = pod();
    let volumes: Vec<&str> = pod["volumes"]
        .as_vec()
        .unwrap()
        .iter()
        .filter_map(|volume| volume["name"].as_str())
        .collect();
    for name in ["truetape-proxy", "truetape-ship"] {
        for mount in sidecar(name)["volumeMounts"].as_vec().unwrap() {
            assert!(volumes.contains(&mount["name"].as_str().unwrap()), "{name}");
        }
    }
    let ship = args(&sidecar("truetape-ship"));
    assert_eq!(ship[0], "ship");
    assert!(args(&container).contains(&format!("--out={}", ship[1])));
}

//! The counters, under vLLM's names.

use super::driver::Snapshot;
use truetape_fidelity::engine::EngineConfig;

/// Renders a snapshot in Prometheus' text format.
pub(super) fn render(snapshot: &Snapshot, model: &str, engine: &EngineConfig) -> String {
    let Snapshot { counters, load, .. } = snapshot;
    let labels = format!("engine=\"0\",model_name=\"{}\"", escaped(model));
    let mut text = String::new();
    let usage = load.kv_blocks_used as f64 / load.kv_blocks.max(1) as f64;
    gauge(
        &mut text,
        "vllm:num_requests_running",
        "Requests that hold blocks.",
        &labels,
        load.running,
    );
    gauge(
        &mut text,
        "vllm:num_requests_waiting",
        "Requests that do not.",
        &labels,
        load.waiting,
    );
    gauge(
        &mut text,
        "vllm:kv_cache_usage_perc",
        "Blocks in use, 1 is all.",
        &labels,
        usage,
    );
    let caching = if engine.prefix_caching {
        "True"
    } else {
        "False"
    };
    let memory = format!(
        "block_size=\"{}\",enable_prefix_caching=\"{caching}\",engine=\"0\",num_gpu_blocks=\"{}\"",
        engine.block_tokens, engine.kv_blocks
    );
    let (name, help) = ("vllm:cache_config_info", "The memory of prefixes.");
    gauge(&mut text, name, help, &memory, 1);
    for (name, help, value) in [
        (
            "vllm:prompt_tokens_total",
            "Prompt tokens computed or reused.",
            counters.prompt_tokens,
        ),
        (
            "vllm:generation_tokens_total",
            "Tokens said.",
            counters.generation_tokens,
        ),
        (
            "vllm:prefix_cache_queries_total",
            "Tokens looked up.",
            counters.prefix_query_tokens,
        ),
        (
            "vllm:prefix_cache_hits_total",
            "Tokens found.",
            counters.prefix_hit_tokens,
        ),
        (
            "vllm:num_preemptions_total",
            "Times a request lost its blocks.",
            counters.preemptions,
        ),
        (
            "truetape_stub:schedule_resets_total",
            "Times the host was away.",
            snapshot.schedule_resets,
        ),
    ] {
        head(&mut text, name, help, "counter");
        sample(&mut text, name, &labels, value);
    }
    let name = "vllm:request_success_total";
    head(
        &mut text,
        name,
        "Requests that ended, by reason.",
        "counter",
    );
    for (reason, value) in [
        ("stop", snapshot.stopped),
        ("length", snapshot.cut_at_length),
        ("abort", snapshot.aborted),
    ] {
        sample(
            &mut text,
            name,
            &format!("{labels},finished_reason=\"{reason}\""),
            value,
        );
    }
    text
}

fn gauge(text: &mut String, name: &str, help: &str, labels: &str, value: impl std::fmt::Display) {
    head(text, name, help, "gauge");
    sample(text, name, labels, value);
}

fn head(text: &mut String, name: &str, help: &str, kind: &str) {
    text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
}

fn sample(text: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    text.push_str(&format!("{name}{{{labels}}} {value}\n"));
}

/// A label's value, escaped as the format asks.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

//! The counters, under vLLM's names.

use crate::support::{Stub, at_once, chat, said, with};
use serde_json::json;

const CHAT: &str = "/v1/chat/completions";

#[test]
fn every_counter_adds_up_to_the_usage() {
    let stub = Stub::at_once();
    let exactly = |tokens: u64| json!({"max_tokens": tokens, "ignore_eos": true});
    // 64 tokens of prompt, twice; then one that comes to its own end.
    for _ in 0..2 {
        stub.ask(CHAT, &with(chat(&said(1, 58)), exactly(10)));
    }
    let natural = stub.ask(CHAT, &chat("Hi"));
    let natural = natural["usage"]["completion_tokens"].as_u64().unwrap() as f64;
    for (name, value) in [
        ("vllm:prompt_tokens_total{", 64.0 + 64.0 + 7.0),
        ("vllm:generation_tokens_total{", 20.0 + natural),
        ("vllm:prefix_cache_queries_total{", 135.0),
        ("vllm:prefix_cache_hits_total{", 48.0),
        ("vllm:num_requests_running{", 0.0),
        ("vllm:num_requests_waiting{", 0.0),
        ("vllm:kv_cache_usage_perc{", 0.0),
        ("vllm:num_preemptions_total{", 0.0),
    ] {
        assert_eq!(stub.sample(name), value, "{name}");
    }
    let success = |reason: &str| {
        let labels = format!("engine=\"0\",model_name=\"stub\",finished_reason=\"{reason}\"");
        stub.sample(&format!("vllm:request_success_total{{{labels}}}"))
    };
    assert_eq!(["length", "stop", "abort"].map(success), [2.0, 1.0, 0.0]);
}

#[test]
fn every_sample_has_help_and_type() {
    let text = Stub::start(at_once()).get("/metrics").text();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split('{').next().unwrap();
        assert!(text.contains(&format!("# HELP {name} ")), "{name}");
        assert!(text.contains(&format!("# TYPE {name} ")), "{name}");
    }
}

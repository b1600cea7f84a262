//! Which engine answers, and what it tells of its memory.

use crate::scrape::{NAMES, Scraped};
use std::collections::BTreeMap;
use truetape_schemas::run::Engine;

/// What engines write as the owner of their models, and what they are.
const OWNERS: [(&str, &str); 6] = [
    ("vllm", "vllm"),
    ("sglang", "sglang"),
    ("llamacpp", "llamacpp"),
    ("nvidia", "dynamo"),
    ("tensorrt", "trtllm"),
    ("truetape", "truetape"),
];

/// vLLM's gauge whose labels describe its memory.
const CACHE_CONFIG: &str = "vllm:cache_config_info";

/// Fills in what the owner of the models, the `server` header and the counters say.
pub(super) fn describe(engine: &mut Engine, owners: &[String], samples: &[Scraped]) {
    engine.name = by_owner(owners)
        .or_else(|| by_server(engine.server.as_deref()))
        .or_else(|| by_names(samples))
        .map(str::to_owned);
    let config = samples.iter().find(|sample| sample.name == CACHE_CONFIG);
    let labels = config
        .map(|sample| labels(&sample.labels))
        .unwrap_or_default();
    let number = |name: &str| labels.get(name)?.parse::<i64>().ok();
    engine.block_tokens = number("block_size").or_else(|| value(samples, "page_size"));
    engine.kv_tokens = number("num_gpu_blocks")
        .zip(engine.block_tokens)
        .map(|(blocks, tokens)| blocks.saturating_mul(tokens))
        .or_else(|| value(samples, "max_total_num_tokens"));
    engine.prefix_caching = labels
        .get("enable_prefix_caching")
        .map(|word| word.eq_ignore_ascii_case("true"));
}

fn by_owner(owners: &[String]) -> Option<&'static str> {
    owners.iter().find_map(|owner| {
        let owner = owner.to_lowercase();
        let known = OWNERS.iter().find(|(word, _)| owner.contains(word));
        known.map(|(_, name)| *name)
    })
}

fn by_server(server: Option<&str>) -> Option<&'static str> {
    let server = server?.to_lowercase();
    (server.contains("llama.cpp")).then_some("llamacpp")
}

fn by_names(samples: &[Scraped]) -> Option<&'static str> {
    let named = NAMES.iter().find(|names| {
        let plain = |sample: &Scraped| sample.name.replace(':', "_");
        samples.iter().any(|s| plain(s).starts_with(names.prefix))
    });
    named.map(|names| names.engine)
}

/// SGLang's gauges.
fn value(samples: &[Scraped], name: &str) -> Option<i64> {
    let found = samples.iter().find(|sample| {
        let plain = sample.name.replace(':', "_");
        plain.strip_prefix("sglang_") == Some(name)
    });
    // Counts of tokens are far below what a double holds exactly.
    found.map(|sample| sample.value as i64)
}

fn labels(text: &str) -> BTreeMap<&str, &str> {
    // None of the values that are looked for holds a comma.
    let pairs = text.split(',').filter_map(|part| part.split_once('='));
    pairs
        .map(|(name, value)| (name.trim(), value.trim().trim_matches('"')))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scrape::parse;

    fn described(owner: &str, server: Option<&str>, metrics: &str) -> Engine {
        let mut engine = Engine {
            server: server.map(str::to_owned),
            ..Engine::default()
        };
        describe(&mut engine, &[owner.to_owned()], &parse(metrics));
        engine
    }

    #[test]
    fn engines_are_known_by_what_they_say() {
        let cases = [
            (described("vllm", None, ""), Some("vllm")),
            (described("nvidia", None, "vllm:x 1\n"), Some("dynamo")),
            (described("", Some("llama.cpp"), ""), Some("llamacpp")),
            (
                described("me", None, "sglang:num_running_reqs 1\n"),
                Some("sglang"),
            ),
            (described("me", Some("nginx"), "go_threads 1\n"), None),
        ];
        for (engine, expected) in cases {
            assert_eq!(engine.name.as_deref(), expected);
        }
    }

    #[test]
    fn vllm_tells_its_memory_in_labels_and_sglang_in_gauges() {
        let vllm = described(
            "vllm",
            None,
            "vllm:cache_config_info{block_size=\"16\",enable_prefix_caching=\"False\",num_gpu_blocks=\"100\"} 1.0\n",
        );
        assert_eq!((vllm.block_tokens, vllm.kv_tokens), (Some(16), Some(1_600)));
        assert_eq!(vllm.prefix_caching, Some(false));
        let sglang = described(
            "sglang",
            None,
            "sglang:max_total_num_tokens 4096\nsglang:page_size 1\n",
        );
        assert_eq!(
            (sglang.block_tokens, sglang.kv_tokens),
            (Some(1), Some(4_096))
        );
        assert_eq!(sglang.prefix_caching, None);
    }
}

//! What engines call their counters. Names move between releases, so that each thing has a list;
//! the first that is there counts. `:` and `_` are one: SGLang has used both.

/// The names of one engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Families {
    /// The engine.
    pub engine: &'static str,
    /// How its names begin.
    pub prefix: &'static str,
    /// Prompt tokens.
    pub prompt_tokens: &'static [&'static str],
    /// Generated tokens.
    pub generation_tokens: &'static [&'static str],
    /// Tokens that were looked up in the prefix cache.
    pub queried_tokens: &'static [&'static str],
    /// Tokens that were found there.
    pub cached_tokens: &'static [&'static str],
    /// Requests that lost their memory.
    pub preemptions: &'static [&'static str],
    /// Requests that run.
    pub running: &'static [&'static str],
    /// Requests that wait.
    pub waiting: &'static [&'static str],
    /// Memory of prefixes in use, 1 is all.
    pub kv_usage: &'static [&'static str],
}

/// The engines whose names are known. Dynamo comes first: it stands in front of the others, and
/// passes their counters on beside its own.
pub const NAMES: [Families; 5] = [
    Families {
        engine: "dynamo",
        prefix: "dynamo_",
        prompt_tokens: &["dynamo_frontend_input_sequence_tokens_sum"],
        generation_tokens: &["dynamo_frontend_output_sequence_tokens_sum"],
        queried_tokens: &["dynamo_frontend_input_sequence_tokens_sum"],
        cached_tokens: &["dynamo_frontend_cached_tokens_sum"],
        preemptions: &[],
        running: &["dynamo_frontend_inflight_requests"],
        waiting: &["dynamo_frontend_queued_requests"],
        kv_usage: &["dynamo_component_kvstats_gpu_cache_usage_percent"],
    },
    Families {
        engine: "vllm",
        prefix: "vllm_",
        prompt_tokens: &["vllm_prompt_tokens_total"],
        generation_tokens: &["vllm_generation_tokens_total"],
        queried_tokens: &[
            "vllm_prefix_cache_queries_total",
            "vllm_prefix_cache_queries",
        ],
        cached_tokens: &["vllm_prefix_cache_hits_total", "vllm_prefix_cache_hits"],
        preemptions: &["vllm_num_preemptions_total", "vllm_num_preemptions"],
        running: &["vllm_num_requests_running"],
        waiting: &["vllm_num_requests_waiting"],
        kv_usage: &["vllm_kv_cache_usage_perc", "vllm_gpu_cache_usage_perc"],
    },
    Families {
        engine: "sglang",
        prefix: "sglang_",
        prompt_tokens: &["sglang_prompt_tokens_total"],
        generation_tokens: &["sglang_generation_tokens_total"],
        queried_tokens: &["sglang_prompt_tokens_total"],
        cached_tokens: &["sglang_cached_tokens_total"],
        preemptions: &["sglang_num_retracted_requests_total"],
        running: &["sglang_num_running_reqs"],
        waiting: &["sglang_num_queue_reqs"],
        kv_usage: &["sglang_token_usage"],
    },
    Families {
        engine: "trtllm",
        prefix: "trtllm_",
        prompt_tokens: &["trtllm_prompt_tokens_total"],
        generation_tokens: &["trtllm_generation_tokens_total"],
        queried_tokens: &["trtllm_prompt_tokens_total"],
        cached_tokens: &[
            "trtllm_prompt_cached_tokens_total",
            "trtllm_prompt_tokens_cached_total",
        ],
        preemptions: &[],
        running: &[],
        waiting: &[],
        kv_usage: &["trtllm_kv_cache_utilization"],
    },
    Families {
        engine: "llamacpp",
        prefix: "llamacpp_",
        // Without the cached ones: that they are looked up is not counted.
        prompt_tokens: &["llamacpp_prompt_tokens_total"],
        generation_tokens: &["llamacpp_tokens_predicted_total"],
        queried_tokens: &[],
        cached_tokens: &[],
        preemptions: &[],
        running: &["llamacpp_requests_processing"],
        waiting: &["llamacpp_requests_deferred"],
        kv_usage: &["llamacpp_kv_cache_usage_ratio"],
    },
];

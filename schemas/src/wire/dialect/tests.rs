use super::Dialect;

#[test]
fn a_dialect_is_told_by_method_and_path() {
    let cases = [
        ("/v1/chat/completions", Dialect::OpenaiChat),
        (
            "/openai/deployments/x/chat/completions?api-version=2",
            Dialect::OpenaiChat,
        ),
        ("/v1beta/openai/chat/completions", Dialect::OpenaiChat),
        ("/v1/chat/completions/", Dialect::OpenaiChat),
        ("http://h/v1/completions#x", Dialect::OpenaiCompletions),
        (
            "/v1/completions?next=/chat/completions",
            Dialect::OpenaiCompletions,
        ),
        ("/completions", Dialect::OpenaiCompletions),
        ("/openai/v1/responses", Dialect::OpenaiResponses),
        ("/v1/responses/resp_1/cancel", Dialect::Unknown),
        ("/v1/responses/input_tokens", Dialect::Unknown),
        ("/v1/responses/compact", Dialect::Unknown),
        (
            "/openai/deployments/x/embeddings",
            Dialect::OpenaiEmbeddings,
        ),
        (
            "/anthropic/v1/messages?beta=true",
            Dialect::AnthropicMessages,
        ),
        ("/v1/messages/count_tokens", Dialect::Unknown),
        ("/v1/messages/batches", Dialect::Unknown),
        ("/v1/threads/t/messages", Dialect::Unknown),
        ("/generate", Dialect::SglangGenerate),
        ("/generate_stream", Dialect::TgiGenerate),
        ("/api/chat", Dialect::OllamaChat),
        ("/api/generate", Dialect::OllamaGenerate),
        ("/completion", Dialect::LlamacppCompletion),
        ("/v1/xchat/completions2", Dialect::Unknown),
        ("/tokenize", Dialect::Unknown),
        ("", Dialect::Unknown),
    ];
    for (path, dialect) in cases {
        assert_eq!(Dialect::of("POST", path), dialect, "{path}");
        assert_eq!(Dialect::of("GET", path), Dialect::Unknown, "{path}");
    }
}

#[test]
fn the_body_tells_who_is_asked_to_generate() {
    let cases = [
        ("/generate", r#"{"text":"a"}"#, Dialect::SglangGenerate),
        (
            "/generate",
            r#"{"input_ids":[1],"sampling_params":{}}"#,
            Dialect::SglangGenerate,
        ),
        (
            "/generate",
            r#"{"inputs":"a","parameters":{}}"#,
            Dialect::TgiGenerate,
        ),
        ("/generate", r#"{"prompt":"a"}"#, Dialect::Unknown),
        ("/generate", "not json", Dialect::SglangGenerate),
        (
            "/generate_stream",
            r#"{"prompt":"a"}"#,
            Dialect::TgiGenerate,
        ),
        (
            "/api/generate",
            r#"{"model":"m","prompt":"a"}"#,
            Dialect::OllamaGenerate,
        ),
        ("/api/generate", r#"{"text":"a"}"#, Dialect::SglangGenerate),
        ("/api/generate", r#"{"inputs":"a"}"#, Dialect::TgiGenerate),
        (
            "/v1/completions",
            r#"{"inputs":"a"}"#,
            Dialect::OpenaiCompletions,
        ),
    ];
    for (path, body, dialect) in cases {
        let told = Dialect::of("POST", path).refined(body.as_bytes());
        assert_eq!(told, dialect, "{path} {body}");
    }
}

#[test]
fn a_name_is_read_back() {
    for dialect in Dialect::ALL {
        assert_eq!(Dialect::from_name(dialect.name()), dialect);
    }
    assert_eq!(Dialect::from_name("of a later version"), Dialect::Unknown);
}

//! Clients that leave, clients that are slow, and the end.

use crate::support::{Stub, WITHIN, at_once, chat, events, said, seed_of, with};
use serde_json::json;
use std::io::Read as _;
use std::time::{Duration, Instant};
use truetape_stub::engine::config::Config;
use truetape_testkit::client::{Client, End, exchange, post_json};

const CHAT: &str = "/v1/chat/completions";

/// More tokens than a test can wait for.
const ENDLESS: u64 = 100_000;

fn streamed(tokens: u64) -> serde_json::Value {
    with(
        chat("Hi"),
        json!({"stream": true, "max_tokens": tokens, "ignore_eos": true}),
    )
}

/// Steps of 2 ms and nothing else.
fn paced() -> Config {
    let mut config = Config::default();
    config.engine.step_ns = 2_000_000;
    config.engine.prefill_token_ns = 0;
    config.engine.decode_sequence_ns = 0;
    config.engine.kv_token_ns = 0;
    config
}

#[test]
fn a_client_that_leaves_is_cancelled() {
    let stub = Stub::start(paced());
    for (stream, aborted) in [(true, 1.0), (false, 2.0)] {
        let body = with(streamed(ENDLESS), json!({"stream": stream}));
        let mut client = Client::connect(stub.addr);
        client.write(&post_json(CHAT, &body));
        stub.await_sample("vllm:num_requests_running{", 1.0);
        drop(client);
        stub.await_sample("vllm:num_requests_running{", 0.0);
        let labels = "engine=\"0\",model_name=\"stub\",finished_reason=\"abort\"";
        stub.await_sample(&format!("vllm:request_success_total{{{labels}}}"), aborted);
        assert_eq!(stub.sample("vllm:kv_cache_usage_perc{"), 0.0);
    }
}

#[test]
fn the_cache_cannot_be_reset_while_a_request_runs() {
    let stub = Stub::start(paced());
    let mut client = Client::connect(stub.addr);
    client.write(&post_json(CHAT, &streamed(ENDLESS)));
    stub.await_sample("vllm:num_requests_running{", 1.0);
    assert_eq!(stub.post("/reset_prefix_cache", &json!({})).status(), 409);
}

#[test]
fn a_client_that_does_not_read_stalls_nobody_and_loses_nothing() {
    let stub = Stub::at_once();
    // About 10 MB of events: more than the buffers between us hold.
    let tokens = 50_000;
    let mut slow = Client::connect(stub.addr);
    slow.write(&post_json(CHAT, &streamed(tokens)));
    stub.await_sample("vllm:generation_tokens_total{", tokens as f64);
    // The engine has said all of it; another request is served before any of it is read.
    stub.ask(CHAT, &with(chat("Hello"), json!({"max_tokens": 3})));
    let answer = slow.read_answer("POST", None);
    assert_eq!(answer.end, End::Clean);
    let events = events(&answer.text());
    assert_eq!(events.len() as u64, 1 + tokens + 1);
    let texts = events
        .iter()
        .filter_map(|event| event["choices"][0]["delta"]["content"].as_str());
    assert_eq!(
        texts.collect::<String>(),
        said(seed_of(&streamed(tokens)), tokens)
    );
}

#[test]
fn tokens_come_one_step_after_another_and_never_early() {
    let stub = Stub::start(paced());
    let started = Instant::now();
    let answer = exchange(stub.addr, &post_json(CHAT, &streamed(50)), None);
    assert!(started.elapsed() >= 50 * Duration::from_millis(2));
    // Not all at once at the end: most steps arrive by themselves.
    let reads = answer
        .arrivals
        .iter()
        .map(|(_, length)| length)
        .collect::<std::collections::BTreeSet<_>>();
    assert!(reads.len() > 10, "{}", reads.len());
    assert_eq!(events(&answer.text()).len(), 52);
}

#[test]
fn open_answers_end_before_the_server_does() {
    let mut stub = Stub::start(paced());
    let mut client = Client::connect(stub.addr);
    client.write(&post_json(CHAT, &streamed(40)));
    stub.await_sample("vllm:num_requests_running{", 1.0);
    assert_eq!(stub.stop(), Some(0));
    let answer = client.read_answer("POST", None);
    assert_eq!(
        (answer.end.clone(), events(&answer.text()).len()),
        (End::Clean, 42)
    );
    assert!(std::net::TcpStream::connect(stub.addr).is_err());
}

#[test]
fn what_outlasts_the_drain_timeout_is_cut_and_counted() {
    let mut stub = Stub::start(Config {
        drain_timeout: Duration::from_millis(20),
        ..paced()
    });
    let mut client = Client::connect(stub.addr);
    client.write(&post_json(CHAT, &streamed(ENDLESS)));
    stub.await_sample("vllm:num_requests_running{", 1.0);
    let started = Instant::now();
    assert_eq!(stub.stop(), Some(1));
    assert!(started.elapsed() < WITHIN);
    let answer = client.read_answer("POST", None);
    assert!(matches!(answer.end, End::Cut(_)), "{:?}", answer.end);
}

#[test]
fn idle_connections_do_not_hold_the_server_up() {
    let mut stub = Stub::at_once();
    let mut idle = std::net::TcpStream::connect(stub.addr).unwrap();
    assert_eq!(stub.get("/health").status(), 200);
    assert_eq!(stub.stop(), Some(0));
    assert_eq!(idle.read(&mut [0; 16]).unwrap(), 0);
}

/// Connections that are served at the same time, and what each asks for.
const CONNECTIONS: usize = 16;
const REQUESTS_EACH: usize = 200;

#[test]
fn thousands_of_small_requests_are_served() {
    let stub = Stub::start(at_once());
    let body = with(
        chat("Hi"),
        json!({"max_tokens": 4, "ignore_eos": true, "stream": true}),
    );
    let request = post_json(CHAT, &body);
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                let mut client = Client::connect(stub.addr);
                for _ in 0..REQUESTS_EACH {
                    client.write(&request);
                    assert_eq!(client.read_answer("POST", None).end, End::Clean);
                }
            });
        }
    });
    let served = (CONNECTIONS * REQUESTS_EACH) as f64;
    println!("{:.0} requests/s", served / started.elapsed().as_secs_f64());
    assert_eq!(stub.sample("vllm:generation_tokens_total{"), 4.0 * served);
}
